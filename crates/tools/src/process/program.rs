//! A program as the helper starts it.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::process::{
    Pid, Signal, chdir, getpid, getppid, set_parent_process_death_signal, setpgid,
};
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};

use super::child::{self, Strings};
use super::confine::Way;

/// A program, and what it is started with.
#[derive(Debug)]
pub(super) struct Program {
    /// Where it may be: the first that is there is taken.
    paths: Vec<CString>,
    arguments: Strings,
    environment: Strings,
    cwd: CString,
}

/// Where programs are looked for if the environment does not say it.
const PATH: &str = "/bin:/usr/bin";

impl Program {
    /// Takes a program, which is looked for as the environment that it gets says, if only its name is known.
    pub(super) fn new(
        program: &Path,
        arguments: &[String],
        cwd: &Path,
        environment: &BTreeMap<&str, &str>,
    ) -> io::Result<Self> {
        let name = CString::new(program.as_os_str().as_bytes())?;
        let arguments = arguments.iter().map(|argument| CString::new(argument.as_str()));
        let arguments: Vec<_> =
            [Ok(name)].into_iter().chain(arguments).collect::<Result<_, _>>()?;
        let pair = |(name, value): (&&str, &&str)| CString::new(format!("{name}={value}"));
        let variables: Vec<_> = environment.iter().map(pair).collect::<Result<_, _>>()?;
        let path = |path: PathBuf| CString::new(path.into_os_string().into_encoded_bytes());
        let paths = match program.as_os_str().as_bytes().contains(&b'/') {
            true => vec![path(program.to_owned())?],
            false => {
                let folders = environment.get("PATH").copied().unwrap_or(PATH);
                let folders = std::env::split_paths(folders);
                folders.map(|folder| path(folder.join(program))).collect::<Result<_, _>>()?
            }
        };
        Ok(Self {
            paths,
            arguments: arguments.into(),
            environment: variables.into(),
            cwd: path(cwd.to_owned())?,
        })
    }

    /// Starts it in a process group of its own, with this as standard input, output and error, none of which
    /// is one of this process. It goes its way into what confines it first, and is killed when this process
    /// ends.
    pub(super) fn spawn(&self, stdio: &[OwnedFd; 3], way: Option<&Way>) -> io::Result<Pid> {
        let parent = getpid();
        child::spawn(&mut || match self.arrive(stdio, way, parent) {
            Ok(()) => self.execute(),
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

    fn execute(&self) -> io::Error {
        let mut failed = io::Error::from_raw_os_error(libc::ENOENT);
        for path in &self.paths {
            let error = child::become_program(path, &self.arguments, &self.environment);
            match error.raw_os_error() {
                Some(libc::ENOENT | libc::ENOTDIR) => {}
                // It may be elsewhere, too.
                Some(libc::EACCES) => failed = error,
                _ => return error,
            }
        }
        failed
    }
}
