//! A program as the helper starts it.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::process::{
    Pid, Signal, chdir, getpid, getppid, set_parent_process_death_signal, setpgid,
};
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};

use super::child::{self, Strings};
use super::confine::Way;

/// A program, and what it is started with.
#[derive(Debug)]
pub(super) struct Program {
    path: CString,
    arguments: Strings,
    environment: Strings,
    cwd: CString,
}

impl Program {
    /// Takes the path of a program, and what it gets.
    pub(super) fn new(
        program: &Path,
        arguments: &[String],
        cwd: &Path,
        environment: &BTreeMap<&str, &str>,
    ) -> io::Result<Self> {
        let path = |path: &Path| CString::new(path.as_os_str().as_bytes());
        let (program, cwd) = (path(program)?, path(cwd)?);
        let given = arguments.iter().map(|argument| CString::new(argument.as_str()));
        let arguments = [Ok(program.clone())].into_iter().chain(given);
        let variables = environment.iter();
        let variables = variables.map(|(name, value)| CString::new(format!("{name}={value}")));
        Ok(Self {
            path: program,
            arguments: arguments.collect::<Result<Vec<_>, _>>()?.into(),
            environment: variables.collect::<Result<Vec<_>, _>>()?.into(),
            cwd,
        })
    }

    /// Starts it in a process group of its own, with this as standard input, output and error, none of which
    /// is one of this process. It goes its way into what confines it first, and is killed when this process
    /// ends.
    pub(super) fn spawn(&self, stdio: &[OwnedFd; 3], way: Option<&Way>) -> io::Result<Pid> {
        let parent = getpid();
        child::spawn(&self.arguments, &mut || match self.arrive(stdio, way, parent) {
            Ok(()) => child::become_program(&self.path, &self.arguments, &self.environment),
            Err(error) => error,
        })
    }

    /// Gets to where the program runs.
    fn arrive(
        &self,
        [stdin, stdout, stderr]: &[OwnedFd; 3],
        way: Option<&Way>,
        parent: Pid,
    ) -> io::Result<()> {
        dup2_stdin(stdin)?;
        dup2_stdout(stdout)?;
        dup2_stderr(stderr)?;
        setpgid(None, None)?;
        chdir(self.cwd.as_c_str())?;
        way.map_or(Ok(()), Way::go)?;
        // Last, since changing what one may makes the kernel forget it.
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // The parent may have died before the signal was asked for.
        if getppid() == Some(parent) { Ok(()) } else { Err(io::ErrorKind::BrokenPipe.into()) }
    }
}
