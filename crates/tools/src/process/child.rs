//! The four things the helper does that the compiler cannot check: code between `fork` and `exec`,
//! a signal handler, closing files it never opened, and going on as two processes.
#![expect(
    unsafe_code,
    reason = "the parent-death signal can only be asked for by the child itself, between fork and \
              exec; without a SIGCHLD handler orphans would stay zombies until the next event; and \
              what bowline inherited from its own parent would be inherited by every command; and who \
              watches over a helper is its parent, which costs no program of its own"
)]

use std::io;
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::{Pid, Signal, getpid, getppid, set_parent_process_death_signal};

/// Has the child killed when the calling thread, which must be the one that spawns it, ends.
pub(super) fn dies_with_parent(command: &mut Command) {
    let parent = getpid();
    let tie = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // The parent may have died before the signal was asked for.
        if getppid() == Some(parent) { Ok(()) } else { Err(io::ErrorKind::BrokenPipe.into()) }
    };
    // SAFETY: the closure makes two raw system calls and neither allocates nor takes a lock, which
    // is all that is allowed in the child of a fork.
    unsafe {
        command.pre_exec(tie);
    }
}

/// Has a byte written to `pipe`, whose writes must not block, whenever the signal arrives.
///
/// The handler is gone in every program that the process executes.
pub(super) fn wake_on(signal: Signal, pipe: OwnedFd) -> io::Result<()> {
    let wake = move || {
        // A full pipe wakes the reader just as well.
        let _ = rustix::io::write(pipe.as_fd(), &[0]);
    };
    // SAFETY: the handler makes one raw system call, which is async-signal-safe.
    unsafe { signal_hook_registry::register(signal.as_raw(), wake) }.map(drop)
}

/// Makes a child that goes on from here as well; `None` in the child.
///
/// The process must have no other thread: what that holds would be held in the child for good.
pub(super) fn fork() -> io::Result<Option<Pid>> {
    // SAFETY: a helper has one thread, so that everything is in the child as it is here.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        child => Ok(Pid::from_raw(child)),
    }
}

/// Closes everything but standard input, output and error.
///
/// The process must not have opened anything yet.
pub(super) fn close_inherited() {
    let Ok(entries) = std::fs::read_dir("/proc/self/fd") else { return };
    let number = |entry: io::Result<std::fs::DirEntry>| {
        let entry = entry.ok()?;
        // The folder being read is itself open, but not for long.
        let is_folder = std::fs::read_link(entry.path()).ok()?.ends_with("fd");
        entry.file_name().to_str()?.parse().ok().filter(|_| !is_folder)
    };
    let fds: Vec<i32> = entries.filter_map(number).filter(|fd| *fd > 2).collect();
    for fd in fds {
        // SAFETY: nothing in this process owns the descriptor, since nothing has been opened yet.
        drop(unsafe { OwnedFd::from_raw_fd(fd) });
    }
}
