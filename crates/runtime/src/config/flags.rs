//! What flags of the command line say of permissions.

use std::path::PathBuf;
use std::sync::Arc;

use super::assigned::below;
use super::layers::Layer;
use super::node::{self, Node, Origin, Place, Table};
use super::{Mode, SandboxProfile};
use crate::permission::Rule;

/// What flags of the command line say of permissions and the sandbox, over all files.
#[derive(Debug, Clone, Default)]
pub struct Flags {
    /// The permission mode.
    pub mode: Option<Mode>,
    /// Rules that allow.
    pub allow: Vec<Rule>,
    /// Rules that ask.
    pub ask: Vec<Rule>,
    /// Rules that deny.
    pub deny: Vec<Rule>,
    /// The profile of the sandbox.
    pub sandbox: Option<SandboxProfile>,
    /// Folders that belong to the workspace.
    pub add_dirs: Vec<PathBuf>,
}

impl Flags {
    /// Makes a layer of them.
    pub(super) fn layer(&self) -> Option<Layer> {
        let place = Place { origin: Arc::new(Origin::CommandLine), line: None };
        let mut table = Table::new();
        let mut set = |path: [&str; 2], value: toml::Value| {
            let path = path.map(str::to_owned);
            node::merge(&mut table, &below(&path, Node::plain(value, &place), &place));
        };
        if let Some(mode) = self.mode {
            set(["permissions", "mode"], mode.as_str().into());
        }
        for (key, rules) in [("allow", &self.allow), ("ask", &self.ask), ("deny", &self.deny)] {
            if !rules.is_empty() {
                let rules: Vec<String> = rules.iter().map(ToString::to_string).collect();
                set(["permissions", key], rules.into());
            }
        }
        if let Some(profile) = self.sandbox {
            set(["sandbox", "profile"], profile.as_str().into());
        }
        (!table.is_empty()).then(|| Layer::of(table))
    }
}
