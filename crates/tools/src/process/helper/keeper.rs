//! A keeper: a helper for one command, which goes on when bowline is gone.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

use super::Helper;
use super::watch::{Lasts, watched};
use crate::process::output::now_ms;
use crate::process::protocol::{Cause, Keep};
use crate::process::survivor::{GRACE, Kept, Line, boot, write_line};

/// Reads from standard input what is to be kept, starts it, and returns when nothing is left of it. Standard
/// output is the note.
pub(in crate::process) fn keep() -> io::Result<()> {
    watched(Lasts::ByItself, keep_as)
}

fn keep_as(name: u32) -> io::Result<()> {
    let mut note = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    let mut asked = Vec::new();
    io::stdin().read_to_end(&mut asked)?;
    // Half of it came from a bowline that was killed, and knows of nothing.
    let Keep { start, time_ms } = serde_json::from_slice(&asked)?;
    let mut helper = Helper::new(name, None)?;
    let kept = Kept {
        pid: std::process::id(),
        name,
        boot: boot(),
        started_ms: now_ms(),
        cgroup: helper.cgroup.as_ref().map(|cgroup| cgroup.folder().to_owned()),
    };
    write_line(&mut note, &Line::Kept(kept))?;
    helper.deadline = time_ms.map(|time| Instant::now() + Duration::from_millis(time));
    match helper.start(start, Vec::new()) {
        Ok(command) => helper.commands.push(command),
        Err(error) => write_line(&mut note, &Line::Failed(error))?,
    }
    while helper.has_command() && helper.tend().is_ok() {}
    // What the command has left behind has nobody any more.
    helper.end_everything();
    Ok(())
}

impl Helper {
    fn has_command(&self) -> bool {
        self.commands.iter().any(|command| !command.is_over)
    }

    /// Sleeps, and does what there is to do for the command.
    fn tend(&mut self) -> io::Result<()> {
        let woken = self.sleep()?;
        self.reap()?;
        let is_late = self.deadline.is_some_and(|deadline| Instant::now() >= deadline);
        if woken.stop || is_late {
            self.deadline = None;
            let mut bytes = [0; 64];
            while matches!(rustix::io::read(&self.stops, &mut bytes), Ok(1..)) {}
            self.end(|command| command.ending.is_none(), GRACE, Cause::Asked);
        }
        self.measure();
        self.pursue()?;
        self.tidy();
        Ok(())
    }
}
