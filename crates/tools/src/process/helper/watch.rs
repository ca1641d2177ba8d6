//! Who watches over a helper: the process that bowline starts, of which the helper is the child.
//!
//! A process that is killed can end nothing any more. What a helper had below it comes to its watcher then,
//! wherever it has hidden itself, and is ended. If the watcher is killed, the helper sees it and ends
//! everything itself.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Signal, WaitOptions, getpid, getppid, kill_process, wait};

use crate::process::child::{fork, wake_on};
use crate::process::{PATIENCE, cgroup, family};

/// How long a helper lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lasts {
    /// As long as the process that has started it.
    WithBowline,
    /// As long as what it keeps.
    ByItself,
}

/// Does the work of a helper in a child of this process, and watches over it. The work is told the name of
/// both: the number of the watcher, which is what bowline knows.
pub(super) fn watched(lasts: Lasts, work: impl FnOnce(u32) -> io::Result<()>) -> io::Result<()> {
    let bowline = getppid();
    // No terminal, so that Ctrl-C reaches bowline alone.
    let _ = rustix::process::setsid();
    rustix::process::set_child_subreaper(Some(getpid()))?;
    let name = std::process::id();
    let Some(helper) = fork()? else { return work(name) };
    let (wakes, waker) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
    wake_on(Signal::CHILD, waker.try_clone()?)?;
    if lasts == Lasts::WithBowline {
        // It comes when the *thread* that started this process ends, so it only asks to look.
        wake_on(Signal::USR1, waker)?;
        rustix::process::set_parent_process_death_signal(Some(Signal::USR1))?;
    }
    let is_orphaned = || lasts == Lasts::WithBowline && getppid() != bowline;
    let mut deadline = None;
    // The helper may have been over before anybody would have heard of it.
    while !reap(helper) {
        if is_orphaned() {
            let now = Instant::now();
            // One that waits for a file that does not answer hears nothing.
            let is_late = now >= *deadline.get_or_insert(now + PATIENCE);
            // It hears of it by itself, unless somebody else has bowline's end of the line.
            let signal = if is_late { Signal::KILL } else { Signal::TERM };
            let _ = kill_process(helper, signal);
            // Somebody may have stopped it.
            let _ = kill_process(helper, Signal::CONT);
        }
        pause(&wakes, deadline);
    }
    cgroup::kill_of(name);
    family::end_descendants(|| {
        reap(helper);
    });
    Ok(())
}

/// Collects the processes that are over; tells whether the helper is one of them.
fn reap(helper: Pid) -> bool {
    let mut is_over = false;
    while let Ok(Some((pid, _))) = wait(WaitOptions::NOHANG) {
        is_over |= pid == helper;
    }
    is_over
}

/// Sleeps until a signal has come, or until a moment.
fn pause(wakes: &OwnedFd, until: Option<Instant>) {
    let left = until.map(|until| until.saturating_duration_since(Instant::now()));
    let left = left.and_then(|left| Timespec::try_from(left).ok());
    let _ = poll(&mut [PollFd::new(wakes, PollFlags::IN)], left.as_ref());
    let mut bytes = [0; 64];
    while matches!(rustix::io::read(wakes, &mut bytes), Ok(1..)) {}
}
