//! The four things the helper does that the compiler cannot check: a child that lives in its memory until
//! it becomes a program, a signal handler, closing files it never opened, and going on as two processes.
#![expect(
    unsafe_code,
    reason = "a fork copies the tables of the helper's memory for a child that throws them away, which is \
              a good part of what it costs to start a command; without a SIGCHLD handler orphans would \
              stay zombies until the next event; and what bowline inherited from its own parent would be \
              inherited by every command; and who watches over a helper is its parent, which costs no \
              program of its own"
)]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr;

use rustix::process::{Pid, Signal, WaitOptions, waitpid};

/// How many bytes a child has for its stack until it is a program, beside a list of its arguments: it makes
/// system calls and little more.
const STACK: usize = 64 * 1024;

/// The signals that this process may have handlers for, or ignores.
const HANDLED: [Signal; 8] = [
    Signal::CHILD,
    Signal::USR1,
    Signal::TERM,
    Signal::INT,
    Signal::HUP,
    Signal::PIPE,
    Signal::SEGV,
    Signal::BUS,
];

/// Strings for the kernel, one after the other.
#[derive(Debug)]
pub(super) struct Strings {
    // What the pointers lead to.
    _strings: Vec<CString>,
    pointers: Vec<*const c_char>,
}

impl From<Vec<CString>> for Strings {
    fn from(strings: Vec<CString>) -> Self {
        let pointers = strings.iter().map(|string| string.as_ptr());
        let pointers = pointers.chain([ptr::null()]).collect();
        Self { _strings: strings, pointers }
    }
}

impl Strings {
    /// Returns how many bytes the list of them has.
    fn size(&self) -> usize {
        self.pointers.len() * size_of::<*const c_char>()
    }
}

/// Becomes a program; returns why it does not.
pub(super) fn become_program(path: &CStr, arguments: &Strings, environment: &Strings) -> io::Error {
    // SAFETY: the path and all strings are C strings that outlive the call, and a null ends each list.
    unsafe {
        libc::execvpe(path.as_ptr(), arguments.pointers.as_ptr(), environment.pointers.as_ptr());
    }
    io::Error::last_os_error()
}

/// A child until it is a program.
struct Child<'a> {
    live: &'a mut dyn FnMut() -> io::Error,
    /// Why it is none.
    failed: Option<io::Error>,
}

/// Makes a child that becomes a program with these arguments, and waits until it has. `live` returns why it
/// has not; what it does to memory it does to that of this process, which stands still meanwhile.
///
/// The process must have no other thread.
pub(super) fn spawn(arguments: &Strings, live: &mut dyn FnMut() -> io::Error) -> io::Result<Pid> {
    // The library copies the list for what has to be run by a shell, and adds to it.
    let size = STACK + arguments.size();
    let mut stack: Vec<MaybeUninit<u8>> = Vec::with_capacity(size);
    let mut child = Child { live, failed: None };
    let (mut all, mut before) = (MaybeUninit::uninit(), MaybeUninit::uninit());
    // SAFETY: the kernel and the library fill both sets. The child has a stack of its own, which grows down
    // from where it ends, and this process, which has one thread, goes on only when the child has another
    // memory or is gone: until then nobody else uses what it is given. Signals are kept away, since a
    // handler would act for this process in the child.
    let pid = unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::sigprocmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
        let pid = libc::clone(
            alive,
            stack.as_mut_ptr().add(size).cast(),
            libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD,
            (&raw mut child).cast(),
        );
        let error = io::Error::last_os_error();
        libc::sigprocmask(libc::SIG_SETMASK, before.as_ptr(), ptr::null_mut());
        if pid > 0 { Ok(pid) } else { Err(error) }
    };
    let pid = Pid::from_raw(pid?).ok_or(io::ErrorKind::NotFound)?;
    match child.failed {
        None => Ok(pid),
        Some(error) => {
            rustix::io::retry_on_intr(|| waitpid(Some(pid), WaitOptions::empty()))?;
            Err(error)
        }
    }
}

/// Takes away the handlers of signals: in a child they would act for its parent.
pub(super) fn forget_handlers() {
    for signal in HANDLED {
        // SAFETY: the number is that of a signal, and no handler is set.
        unsafe { libc::signal(signal.as_raw(), libc::SIG_DFL) };
    }
}

extern "C" fn alive(child: *mut c_void) -> c_int {
    forget_handlers();
    // SAFETY: it is what `spawn` gives, which waits; no handler of this process is left when signals come
    // again.
    let child = unsafe {
        let mut none = MaybeUninit::uninit();
        libc::sigemptyset(none.as_mut_ptr());
        libc::sigprocmask(libc::SIG_SETMASK, none.as_ptr(), ptr::null_mut());
        &mut *child.cast::<Child<'_>>()
    };
    child.failed = Some((child.live)());
    1
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
    let number =
        |entry: io::Result<std::fs::DirEntry>| entry.ok()?.file_name().to_str()?.parse().ok();
    // The folder that is read is closed behind this line.
    let fds: Vec<i32> = entries.filter_map(number).filter(|fd| *fd > 2).collect();
    for fd in fds {
        // SAFETY: nothing in this process owns the descriptor, since nothing has been opened yet; of one that
        // is closed already nothing happens.
        unsafe { libc::close(fd) };
    }
}
