//! The language of rules.
//!
//! | rule | is about |
//! | --- | --- |
//! | `bash(git status *)` | a command |
//! | `read(PATH)`, `write(PATH)` | a file or folder |
//! | `net(HOST)` | a host |
//! | `mcp__server__tool`, `mcp__server` | tools of a server |
//! | `agent(NAME)` | a task for another agent |
//! | `survive` | a command that goes on when bowline ends |
//! | `NAME` | a tool |

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use bowline_tools::mcp;

use super::call::Command;
use super::command::{CommandPattern, Fit};
use super::glob::Glob;
use super::path::PathPattern;
use super::places::Places;
use super::seen::plain;

/// What calls are allowed, asked about or denied by.
#[derive(Debug, Clone)]
pub struct Rule {
    text: String,
    pub(super) about: About,
}

/// What a rule is about; `None` for all of it.
#[derive(Debug, Clone)]
pub(super) enum About {
    Command(Option<CommandPattern>),
    Read(Option<PathPattern>),
    Write(Option<PathPattern>),
    Host(Option<Host>),
    Agent(Option<Glob>),
    /// Jobs that outlive bowline.
    Survival,
    /// Tools of servers and all others, by name.
    Tool(ToolPattern),
}

/// What rules are about beside tools.
pub(crate) const ABOUT: [&str; 7] = ["bash", "read", "write", "edit", "net", "agent", "survive"];

/// The tools that only read files.
const READING: [&str; 4] = ["read", "list", "glob", "grep"];

/// The tools that write files.
pub(super) const WRITING: [&str; 3] = ["write", "edit", "apply_patch"];

/// The tools that run commands.
const RUNNING: [&str; 2] = ["bash", "job"];

/// The tools with which tasks are given to other agents.
pub(super) const DELEGATING: [&str; 4] =
    ["delegate", "delegate_to_agent", "spawn_agents", "handoff"];

impl Rule {
    /// Reads a rule.
    ///
    /// # Errors
    /// What is wrong with it, and how it is written.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let (name, argument) = match text.split_once('(') {
            None => (text, None),
            Some((name, rest)) => {
                let argument = rest.strip_suffix(')');
                (name, Some(argument.ok_or_else(|| format!("{text:?} has no closing `)`"))?.trim()))
            }
        };
        // `bash()` could be a slip for everything or for nothing.
        if argument == Some("") {
            return Err(format!(
                "{text:?} says nothing between `(` and `)`; write {name:?} for all"
            ));
        }
        let argument = argument.filter(|argument| *argument != "*");
        let about = match (name.to_ascii_lowercase().as_str(), argument) {
            ("bash", command) => About::Command(command.map(CommandPattern::parse).transpose()?),
            ("read", path) => About::Read(path.map(PathPattern::parse).transpose()?),
            ("write" | "edit", path) => About::Write(path.map(PathPattern::parse).transpose()?),
            ("net", host) => About::Host(host.map(Host::parse).transpose()?),
            ("fetch" | "webfetch", Some(host)) => {
                let host = host.strip_prefix("domain:").unwrap_or(host);
                About::Host(Some(host).filter(|host| *host != "*").map(Host::parse).transpose()?)
            }
            ("fetch" | "webfetch", None) => About::Tool(ToolPattern::named("fetch")),
            ("agent" | "task", name) => About::Agent(name.map(Glob::new)),
            ("survive", None) => About::Survival,
            (_, None) => About::Tool(ToolPattern::parse(name)?),
            (_, Some(_)) => {
                return Err(format!(
                    "{name:?} takes nothing in parentheses; that do bash, read, write, net, fetch and \
                     agent"
                ));
            }
        };
        Ok(Self { text: text.to_owned(), about })
    }

    /// Tells whether the rule is about an example: a command, a path, a host, or the name of a tool or
    /// agent, as it is about such things. Of a path only the name counts; `/work` is the working folder and
    /// `/home/me` the home folder of examples.
    pub(crate) fn is_about(&self, example: &str) -> bool {
        let seen = || {
            let places = Places::of_examples();
            places.see_real(&plain(&places.absolute(Path::new(example))))
        };
        match &self.about {
            About::Command(None)
            | About::Read(None)
            | About::Write(None)
            | About::Host(None)
            | About::Agent(None) => true,
            About::Command(Some(pattern)) => {
                let command = Command::read(example);
                command.programs.iter().any(|program| pattern.concerns(&program.spelt) == Fit::Yes)
            }
            About::Read(Some(pattern)) | About::Write(Some(pattern)) => {
                seen().any(|form| pattern.fits(form))
            }
            About::Host(Some(host)) => host.fits(example),
            About::Agent(Some(name)) => name.fits(example),
            About::Survival => example == "survive",
            About::Tool(pattern) => pattern.fits(example),
        }
    }

    /// Finds what a rule about tools of servers means that names them as they name themselves, now that it is
    /// known which servers there are.
    pub(super) fn among<'a>(&mut self, servers: impl IntoIterator<Item = &'a str>) {
        if let About::Tool(pattern) = &mut self.about {
            let names = mcp::Pattern::called_here(&self.text, servers);
            pattern.also = names.iter().map(|name| Glob::new(name)).collect();
        }
    }

    /// Returns the tool that the rule is about, if it names one that no server brings.
    pub(crate) fn tool(&self) -> Option<&str> {
        match &self.about {
            About::Tool(pattern) => {
                pattern.name.literal().filter(|name| !name.starts_with("mcp__"))
            }
            About::Command(_)
            | About::Read(_)
            | About::Write(_)
            | About::Host(_)
            | About::Agent(_)
            | About::Survival => None,
        }
    }

    /// Tells whether the rule names what is special about a file.
    pub(super) fn names(&self, special: &str) -> bool {
        match &self.about {
            About::Read(pattern) | About::Write(pattern) => {
                pattern.as_ref().is_some_and(|pattern| pattern.names(special))
            }
            About::Command(_)
            | About::Host(_)
            | About::Agent(_)
            | About::Survival
            | About::Tool(_) => false,
        }
    }

    /// Tells whether a tool can do nothing but what the rule is about, so that where the rule denies a
    /// model need not be shown it.
    pub(super) fn is_all_of(&self, tool: &str) -> bool {
        match &self.about {
            About::Command(None) => RUNNING.contains(&tool),
            About::Read(None) => READING.contains(&tool),
            About::Write(None) => WRITING.contains(&tool),
            About::Agent(None) => DELEGATING.contains(&tool),
            About::Host(None) => tool == "fetch",
            About::Tool(pattern) => pattern.fits(tool),
            About::Command(_)
            | About::Read(_)
            | About::Write(_)
            | About::Host(_)
            | About::Agent(_)
            | About::Survival => false,
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for Rule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::parse(text)
    }
}

impl Serialize for Rule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Rule {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse(&String::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

impl PartialEq for Rule {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Rule {}

/// Hosts by name; `*.example.com` stands for all under it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    host: String,
    is_under: bool,
}

impl Host {
    /// Reads the name of a host.
    ///
    /// # Errors
    /// How it is written.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (is_under, host) = match text.strip_prefix("*.") {
            Some(host) => (true, host),
            None => (false, text),
        };
        let host = host.trim_end_matches('.');
        let is_port = |port: &str| !port.is_empty() && port.bytes().all(|it| it.is_ascii_digit());
        if let Some((host, port)) = host.rsplit_once(':')
            && is_port(port)
            && (host.ends_with(']') || !host.contains(':'))
        {
            return Err(format!("{text:?}: a rule has no port; write net({host})"));
        }
        match name_of(host) {
            Some(host) => Ok(Self { host, is_under }),
            None => Err(format!(
                "{text:?} is no host; write it like example.com, *.example.com for all under it, \
                 127.0.0.1 or [::1]"
            )),
        }
    }

    pub(super) fn fits(&self, host: &str) -> bool {
        let host = name_of(host).unwrap_or_else(|| bare_host(host));
        match self.is_under {
            true => host.strip_suffix(&self.host).is_some_and(|rest| rest.ends_with('.')),
            false => host == self.host,
        }
    }

    /// Tells whether it is known only when it is looked up whether this is a host: one has a name, the other
    /// is an address.
    pub(super) fn may_be(&self, host: &str) -> bool {
        let is_address = |host: &str| host.parse::<IpAddr>().is_ok();
        name_of(host).is_some_and(|host| is_address(&host)) && !is_address(&self.host)
    }

    /// Tells whether this is the name of just one host, and of which.
    pub(super) fn is(&self, host: &str) -> bool {
        !self.is_under && self.fits(host)
    }

    /// Returns it as a confinement names hosts.
    pub(super) fn name(&self) -> String {
        if self.is_under { format!("*.{}", self.host) } else { self.host.clone() }
    }
}

/// Returns the name of a host as it is compared, addresses as they are usually written; `None` if it is none.
fn name_of(host: &str) -> Option<String> {
    let bare = bare_host(host);
    if bare.contains(':') {
        return bare.parse::<Ipv6Addr>().ok().map(|address| address.to_string());
    }
    // As whoever connects has it: what ends in a number is an address.
    let last = bare.rsplit('.').next().unwrap_or_default();
    if number(last).is_some() {
        return ipv4(&bare).map(|address| address.to_string());
    }
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
    (!bare.is_empty() && bare.chars().all(is_name)).then_some(bare)
}

/// Reads an address of up to four numbers, of which the last fills what is left.
fn ipv4(text: &str) -> Option<Ipv4Addr> {
    let mut numbers = text.split('.').map(number).collect::<Option<Vec<u64>>>()?;
    let last = numbers.pop()?;
    let room = 4_usize.checked_sub(numbers.len()).filter(|room| *room > 0)?;
    if numbers.iter().any(|byte| *byte > 255) || last >= 1 << (8 * room) {
        return None;
    }
    let first = numbers.iter().fold(0, |all, byte| all << 8 | byte);
    u32::try_from(first << (8 * room) | last).ok().map(Ipv4Addr::from_bits)
}

/// Reads a number as it may stand in an address: decimal, `0x` hexadecimal or `0` octal.
fn number(text: &str) -> Option<u64> {
    let (digits, radix) = match (text.strip_prefix("0x"), text.strip_prefix('0')) {
        (Some(digits), _) => (digits, 16),
        (None, Some(digits)) if !digits.is_empty() => (digits, 8),
        (None, _) => (text, 10),
    };
    u64::from_str_radix(digits, radix).ok()
}

/// Returns a host as it is compared: an address without brackets, a name in lower case without the dot
/// at its end.
fn bare_host(host: &str) -> String {
    host.trim_start_matches('[').trim_end_matches([']', '.']).to_ascii_lowercase()
}

/// Tools by name; a server stands for all its tools.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ToolPattern {
    name: Glob,
    /// `mcp__server__`, if a whole server is meant.
    server: Option<String>,
    /// What is meant by another name than the one it has here.
    also: Vec<Glob>,
}

impl ToolPattern {
    fn named(name: &str) -> Self {
        Self { name: Glob::new(name), server: None, also: Vec::new() }
    }

    fn parse(name: &str) -> Result<Self, String> {
        let is_name =
            |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '*' | ':');
        if name.is_empty() || !name.chars().all(is_name) {
            return Err(format!(
                "{name:?} is no rule; write it like bash(git status *), read(PATH), write(PATH), \
                 net(HOST), agent(NAME), mcp__server__tool, or the name of a tool"
            ));
        }
        let whole = name.strip_prefix("mcp__").filter(|rest| !rest.contains("__"));
        let server = whole.filter(|rest| !rest.contains('*')).map(|_| format!("{name}__"));
        Ok(Self { name: Glob::new(name), server, also: Vec::new() })
    }

    pub(super) fn fits(&self, tool: &str) -> bool {
        self.name.fits(tool)
            || self.server.as_ref().is_some_and(|server| tool.starts_with(server))
            || self.also.iter().any(|name| name.fits(tool))
    }
}
