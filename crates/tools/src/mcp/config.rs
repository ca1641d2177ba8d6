//! Which servers there are, and what they are given.

use std::path::PathBuf;
use std::time::Duration;

use bowline_llm::Secret;
use bowline_llm::http::Proxy;

use crate::workspace::Workspace;

/// A server, ready to be reached: no variable in it is left to be looked up.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// Its name, which is a part of the names of its tools.
    pub name: String,
    /// How it is reached, or why it cannot be.
    pub reach: Result<Reach, String>,
    /// How long it may take until it has said what it offers.
    pub startup_timeout: Duration,
    /// How long one call may take, in place of the limit that holds for all tools.
    pub timeout: Option<Duration>,
    /// Whether what it says of its tools is believed: which of them change nothing.
    pub trust_hints: bool,
}

/// How a server is reached.
#[derive(Debug, Clone)]
pub enum Reach {
    /// A program, spoken with over its standard input and output.
    Program(Program),
    /// An address, spoken with over streamable HTTP.
    Http(Http),
}

/// A program that is a server.
#[derive(Debug, Clone)]
pub struct Program {
    /// A path, or a name that is looked up in `PATH`.
    pub command: String,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Its variables, beside those that all commands get.
    pub environment: Vec<(String, Secret)>,
    /// The folder it runs in; `None` for the working directory.
    pub cwd: Option<PathBuf>,
}

/// An address that is a server.
#[derive(Debug, Clone)]
pub struct Http {
    /// The address.
    pub url: String,
    /// More headers for every request.
    pub headers: Vec<(String, Secret)>,
}

/// What all servers share.
#[derive(Debug, Clone)]
pub struct Host {
    /// Where the agent works; its processes and its environment are those of the servers.
    pub workspace: Workspace,
    /// The proxies for servers elsewhere.
    pub proxy: Proxy,
    /// Whether somebody is there who can answer what a server asks; otherwise it is declined.
    pub attended: bool,
}
