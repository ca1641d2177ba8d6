//! What the process was started with: the one place that reads environment variables.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The folder for everybody on this machine.
const SYSTEM: &str = "/etc/bowline";

/// The environment of the process, read once.
#[derive(Debug, Clone, Default)]
pub struct Environment {
    /// The variables.
    pub vars: BTreeMap<String, String>,
    /// The directory in which work is done.
    pub cwd: PathBuf,
}

/// The user's folders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Folders {
    /// Holds the `config.toml` of everybody on this machine.
    pub system: PathBuf,
    /// Holds `config.toml`.
    pub config: PathBuf,
    /// Holds the sessions.
    pub data: PathBuf,
    /// Holds what can be fetched again.
    pub cache: PathBuf,
}

impl Folders {
    /// Returns where what sessions have changed in files is recorded, each in a folder named by its id.
    /// Beside the sessions, since commands may read their own output there, and nothing of this.
    pub fn undo(&self) -> PathBuf {
        self.data.join("undo")
    }
}

impl Environment {
    /// Reads the environment of this process. Variables that are no UTF-8 are left out.
    ///
    /// # Errors
    /// If there is no current directory.
    pub fn read() -> std::io::Result<Self> {
        let utf8 = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        let vars = std::env::vars_os().filter_map(utf8).collect();
        Ok(Self { vars, cwd: std::env::current_dir()? })
    }

    /// Returns a variable that is set to something.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.vars.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// Returns the user's folders: below `BOWLINE_HOME` if it is set, else as XDG says.
    pub fn folders(&self) -> Option<Folders> {
        if let Some(home) = self.get("BOWLINE_HOME") {
            let home = self.cwd.join(home);
            let below = |name| home.join(name);
            return Some(Folders {
                system: SYSTEM.into(),
                config: below("config"),
                data: below("data"),
                cache: below("cache"),
            });
        }
        let home = self.get("HOME").map(Path::new);
        // As XDG says, a relative path is no path.
        let folder = |name, default: &str| {
            let given = self.get(name).map(PathBuf::from).filter(|path| path.is_absolute());
            Some(given.or_else(|| Some(home?.join(default)))?.join("bowline"))
        };
        Some(Folders {
            system: SYSTEM.into(),
            config: folder("XDG_CONFIG_HOME", ".config")?,
            data: folder("XDG_DATA_HOME", ".local/share")?,
            cache: folder("XDG_CACHE_HOME", ".cache")?,
        })
    }
}
