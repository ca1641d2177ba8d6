//! What flags of the command line say of permissions.

use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

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

/// What flags of the command line forbid, as a session keeps it: what goes on with the session may not do
/// more than what began it, unless a person says so.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Kept {
    /// The permission mode, if it is narrower than that of whoever is asked nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    mode: Option<Mode>,
    /// The profile of the sandbox, if it is the narrowest.
    #[serde(skip_serializing_if = "Option::is_none")]
    sandbox: Option<SandboxProfile>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    ask: Vec<Rule>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    deny: Vec<Rule>,
}

impl Flags {
    /// Returns what of them a session keeps. What widens is said again each time.
    pub fn kept(&self) -> Kept {
        let is_narrow = |mode: &Mode| match mode {
            Mode::Ask | Mode::AcceptEdits | Mode::Plan | Mode::Deny => true,
            Mode::Auto | Mode::Bypass => false,
        };
        Kept {
            mode: self.mode.filter(is_narrow),
            sandbox: self.sandbox.filter(|profile| *profile == SandboxProfile::ReadOnly),
            ask: self.ask.clone(),
            deny: self.deny.clone(),
        }
    }

    /// Adds what a session keeps. The mode and the profile that are said now count instead of those kept.
    #[must_use]
    pub fn with_kept(mut self, kept: Kept) -> Self {
        let add = |rules: &mut Vec<Rule>, kept: Vec<Rule>| {
            let new: Vec<Rule> = kept.into_iter().filter(|rule| !rules.contains(rule)).collect();
            rules.extend(new);
        };
        add(&mut self.ask, kept.ask);
        add(&mut self.deny, kept.deny);
        let (mode, sandbox) = (self.mode.or(kept.mode), self.sandbox.or(kept.sandbox));
        Self { mode, sandbox, ..self }
    }

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
