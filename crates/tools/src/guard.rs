//! Who says what a call may touch, at the moment at which it touches it.
//!
//! A gate decides from what a call says that it will touch, and while it decides links may change. So a
//! tool asks again when it holds the very file it is about to read or write, and names it as it is
//! really called; and a command runs in what is said of it here.

use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use bowline_llm::CallId;

/// Says what calls may touch.
pub trait Guard: fmt::Debug + Send + Sync {
    /// Says whether a call may touch a file or folder, by the absolute path that is really its: without
    /// links in it.
    ///
    /// # Errors
    /// Why not, and how it can be allowed, for model and user.
    fn check(&self, call: &CallId, path: &Path, want: Want) -> Result<(), String>;

    /// Says whether a call may talk to a host.
    ///
    /// # Errors
    /// As [`Guard::check`].
    fn check_host(&self, call: &CallId, host: &str) -> Result<Reach, String>;

    /// Tells whether an address is named as one that may be reached, by itself and not by a name that it
    /// has: then it need not be public.
    fn names(&self, ip: IpAddr) -> bool;

    /// Says what confines a command of a call; `None` if nothing does.
    ///
    /// # Errors
    /// Why it may not run at all.
    fn confinement(&self, call: &CallId, command: &str) -> Result<Option<Confinement>, String>;
}

/// Where a host may be that a call talks to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// At public addresses.
    Public,
    /// Wherever it is, if it is an address or `localhost`: it was named. What another name means is said
    /// by whoever owns the name.
    Named,
}

/// What a call wants with a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Want {
    /// To see it.
    Read,
    /// To make, change, move or remove it.
    Write,
}

/// Lets everything pass: for programs that decide elsewhere.
#[derive(Debug, Clone, Copy, Default)]
pub struct Open;

impl Guard for Open {
    fn check(&self, _: &CallId, _: &Path, _: Want) -> Result<(), String> {
        Ok(())
    }

    fn check_host(&self, _: &CallId, _: &str) -> Result<Reach, String> {
        Ok(Reach::Public)
    }

    fn names(&self, _: IpAddr) -> bool {
        false
    }

    fn confinement(&self, _: &CallId, _: &str) -> Result<Option<Confinement>, String> {
        Ok(None)
    }
}

/// What a command and everything it starts may touch; the system enforces it.
///
/// Everything may be read but what is hidden; of devices there are only those that do no harm, and those
/// named as writable. No process may see the memory or the environment of one outside, or signal it. Of two
/// paths of which one contains the other the deeper one counts, and of two that are the same the stricter.
/// The tools add a folder of the agent's own for what is temporary to what is writable.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Confinement {
    /// Files and folders that may be written, with all that is in them; what does not exist is passed
    /// over. Links are followed, but not those in another of these folders that lead out of it: a command
    /// may have made them.
    pub writable: Vec<PathBuf>,
    /// What of those may not be written nevertheless, nor moved away; it need not exist, and then cannot
    /// be made: as long as commands run an empty folder keeps its name taken.
    pub protected: Vec<PathBuf>,
    /// Files and folders that cannot be seen: they are there, and empty.
    pub hidden: Vec<PathBuf>,
    /// What it may talk to.
    pub network: Network,
    /// Whether it may make sockets that are files (`AF_UNIX`): through them it reaches what listens there,
    /// such as a container engine.
    pub unix_sockets: bool,
    /// How much it may use.
    pub limits: ResourceLimits,
}

/// As a host: every one.
pub const EVERYTHING: &str = "*";

/// Before a host: not this one.
pub const BUT: &str = "!";

/// What a confined command may talk to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Network {
    /// Nothing but itself: it has a loopback of its own, which it shares with other commands of the same
    /// agent.
    #[default]
    None,
    /// The hosts of these names, by a proxy that looks at the names; `*.example.com` stands for all under
    /// it, and `*` for all. What has a `!` before it is not reached by one that stands for more, only where
    /// it is named itself. `HTTP_PROXY` and `HTTPS_PROXY` name the proxy.
    Hosts(Vec<String>),
    /// Everything.
    Full,
}

/// How much a confined command may use; `None` is as much as bowline may.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ResourceLimits {
    /// Bytes of address space of each process.
    pub memory: Option<u64>,
    /// Processes and threads of the agent altogether. Of root, whose the kernel does not count, processes
    /// of each command: four times a second it is looked at, and ended if it has more.
    pub processes: Option<u64>,
    /// Open files of each process.
    pub open_files: Option<u64>,
    /// Bytes of each file it writes.
    pub file_size: Option<u64>,
    /// Seconds of processor time of each process.
    pub cpu_seconds: Option<u64>,
}
