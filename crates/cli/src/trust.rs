//! `bowline trust`: which folders count.

use std::io::Write as _;
use std::process::ExitCode;

use bowline_runtime::ConfigError;
use bowline_runtime::environment::Environment;
use bowline_runtime::trust::Trusted;

use crate::args::Trust;
use crate::exit::Failure;
use crate::screen;
use crate::sessions::printed;

/// Runs the command.
pub(crate) fn run(args: &Trust) -> Result<ExitCode, Failure> {
    let environment = Environment::read()
        .map_err(|error| Failure::Usage(format!("cannot tell the current directory: {error}")))?;
    let folders = environment.folders().ok_or(ConfigError::NoHome)?;
    let trusted = Trusted::new(&folders);
    let failed = |error| Failure::Failed(format!("the list of trusted folders: {error}"));
    if args.list {
        let lines = trusted.list().map_err(failed)?;
        let lines = lines.iter().map(|folder| format!("{}\n", folder.display()));
        return printed(screen::out().write_all(lines.collect::<String>().as_bytes()));
    }
    let folder = match &args.folder {
        Some(folder) => environment.cwd.join(folder),
        None => environment.cwd,
    };
    if !folder.is_dir() {
        return Err(Failure::Usage(format!("there is no folder {}", folder.display())));
    }
    let (place, word) = match args.remove {
        true => {
            let (place, was_there) = trusted.remove(&folder).map_err(failed)?;
            (place, if was_there { "is trusted no longer" } else { "was not trusted" })
        }
        false => {
            let (place, is_new) = trusted.add(&folder).map_err(failed)?;
            (place, if is_new { "is trusted" } else { "is trusted already" })
        }
    };
    printed(writeln!(screen::out(), "{} {word}", place.display()))
}
