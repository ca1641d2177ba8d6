//! `[sandbox]`: what commands may touch.

use std::path::PathBuf;

use serde::{Deserialize, Deserializer, Serialize};

use bowline_tools::guard::ResourceLimits;

use crate::permission::{Host, Rule};

/// What commands may touch; what is absent is as in the whole configuration, or has its default.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub struct SandboxConfig {
    /// What they may write.
    pub profile: Option<SandboxProfile>,
    /// Whether they, and tools that ask servers, may talk to every host.
    pub network: Option<bool>,
    /// The hosts that they may talk to; `*.example.com` stands for all under it.
    #[serde(deserialize_with = "hosts")]
    pub hosts: Option<Vec<Host>>,
    /// Folders that belong to the workspace beside the working folder.
    pub add_dirs: Option<Vec<PathBuf>>,
    /// Commands that run outside, written as in `bash(…)`.
    #[serde(deserialize_with = "commands")]
    pub outside: Option<Vec<Rule>>,
    /// Whether they may make sockets that are files.
    pub unix_sockets: Option<bool>,
    /// How much they may use.
    pub limits: SandboxLimits,
}

/// What commands may write.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SandboxProfile {
    /// The workspace, but for what is protected in it.
    #[default]
    WorkspaceWrite,
    /// Nothing but temporary files.
    ReadOnly,
    /// Everything: there is no sandbox.
    Off,
}

/// How much a command may use; what is absent is as much as bowline may.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub struct SandboxLimits {
    /// Address space of each process, such as `2GiB`.
    pub memory: Option<Size>,
    /// Processes and threads of the user altogether.
    pub processes: Option<u64>,
    /// Open files of each process.
    pub open_files: Option<u64>,
    /// Size of each file that is written, such as `100MB`.
    pub file_size: Option<Size>,
    /// Seconds of processor time of each process.
    pub cpu_seconds: Option<u64>,
}

impl SandboxProfile {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::WorkspaceWrite, Self::ReadOnly, Self::Off];

    /// Returns the profile as it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::WorkspaceWrite => "workspace-write",
            Self::ReadOnly => "read-only",
            Self::Off => "off",
        }
    }
}

impl SandboxConfig {
    /// Returns what holds where this is said over something else.
    pub(crate) fn over(&self, below: &Self) -> Self {
        let limits = |own: &SandboxLimits, below: &SandboxLimits| SandboxLimits {
            memory: own.memory.or(below.memory),
            processes: own.processes.or(below.processes),
            open_files: own.open_files.or(below.open_files),
            file_size: own.file_size.or(below.file_size),
            cpu_seconds: own.cpu_seconds.or(below.cpu_seconds),
        };
        Self {
            profile: self.profile.or(below.profile),
            network: self.network.or(below.network),
            hosts: self.hosts.clone().or_else(|| below.hosts.clone()),
            add_dirs: self.add_dirs.clone().or_else(|| below.add_dirs.clone()),
            outside: self.outside.clone().or_else(|| below.outside.clone()),
            unix_sockets: self.unix_sockets.or(below.unix_sockets),
            limits: limits(&self.limits, &below.limits),
        }
    }
}

impl SandboxLimits {
    pub(crate) fn resources(&self) -> ResourceLimits {
        ResourceLimits {
            memory: self.memory.map(|size| size.0),
            processes: self.processes,
            open_files: self.open_files,
            file_size: self.file_size.map(|size| size.0),
            cpu_seconds: self.cpu_seconds,
        }
    }
}

/// A number of bytes, written as such or like `512MiB`, `2GB`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size(pub u64);

/// Units, the longest first.
const UNITS: [(&str, u64); 10] = [
    ("KIB", 1 << 10),
    ("MIB", 1 << 20),
    ("GIB", 1 << 30),
    ("TIB", 1 << 40),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("B", 1),
    ("", 1),
];

impl Size {
    /// Reads a size.
    ///
    /// # Errors
    /// How it is written.
    pub fn parse(text: &str) -> Result<Self, String> {
        let upper = text.trim().to_ascii_uppercase();
        let found = UNITS.iter().find_map(|(unit, bytes)| Some((upper.strip_suffix(unit)?, bytes)));
        let size = found
            .and_then(|(number, bytes)| number.trim().parse::<u64>().ok()?.checked_mul(*bytes));
        size.map(Self).ok_or_else(|| format!("{text:?} is no size; write it like 512MiB or 2GB"))
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error as _;
        match toml::Value::deserialize(deserializer)? {
            toml::Value::Integer(bytes) => {
                u64::try_from(bytes).map(Self).map_err(|_| D::Error::custom("a size is 0 or more"))
            }
            toml::Value::String(text) => Self::parse(&text).map_err(D::Error::custom),
            _ => Err(D::Error::custom("a size is expected, such as \"512MiB\"")),
        }
    }
}

fn hosts<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<Host>>, D::Error> {
    let texts = Vec::<String>::deserialize(deserializer)?;
    let hosts = texts.iter().map(|text| Host::parse(text));
    hosts.collect::<Result<_, _>>().map(Some).map_err(serde::de::Error::custom)
}

fn commands<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<Rule>>, D::Error> {
    let texts = Vec::<String>::deserialize(deserializer)?;
    let rules = texts.iter().map(|text| match text.starts_with("bash(") || text == "bash" {
        true => Rule::parse(text),
        false => Rule::parse(&format!("bash({text})")),
    });
    rules.collect::<Result<_, _>>().map(Some).map_err(serde::de::Error::custom)
}
