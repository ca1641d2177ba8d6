//! `[shell_environment]`: the variables that commands get.

use std::collections::BTreeMap;

use serde::Deserialize;

use bowline_agent::{looks_secret, names_secret};
use bowline_tools::Environment;

use super::Config;
use crate::environment;
use crate::provider;

/// The variables that commands get beside what tools commonly need, and which of that they do not.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub struct ShellEnvironment {
    /// What they do not get.
    pub drop: Vec<Variables>,
    /// What they get of bowline's own variables. One that holds a key passes only by its whole name.
    pub pass: Vec<Variables>,
    /// What is set for them.
    pub set: BTreeMap<String, String>,
}

/// Variables by name; a `*` at the end stands for anything.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Variables {
    name: String,
    is_beginning: bool,
}

impl Variables {
    fn fits(&self, name: &str) -> bool {
        if self.is_beginning { name.starts_with(&self.name) } else { name == self.name }
    }
}

impl TryFrom<String> for Variables {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let beginning = text.strip_suffix('*');
        let name = beginning.unwrap_or(&text).to_owned();
        let is_beginning = beginning.is_some();
        if name.contains(['*', '=', '\0']) || (name.is_empty() && !is_beginning) {
            return Err(format!("{text:?} names no variable; write it like NAME or BEGINNING_*"));
        }
        Ok(Self { name, is_beginning })
    }
}

/// Returns the environment of commands.
pub(crate) fn of_commands(config: &Config, own: &environment::Environment) -> Environment {
    let ShellEnvironment { drop, pass, set } = &config.shell_environment;
    let keys = provider::secrets(config, own);
    let is_key = |name: &str, value: &str| {
        let is_known = || keys.values().any(|key| value.contains(key.expose()));
        names_secret(name)
            || looks_secret(name, value)
            || keys.contains_key(name)
            || is_known()
            || !Environment::may_pass(name, value)
    };
    let variables = own.vars.iter().map(|(name, value)| (name.into(), value.into()));
    let mut environment = Environment::allowed(variables);
    if environment.get("SHELL").is_none() {
        // Without it bash looks the user up whenever it starts, and that takes longer than many a command.
        let shell = environment.shell();
        environment.set("SHELL", &shell.to_string_lossy());
    }
    environment.retain(|name| !drop.iter().any(|variables| variables.fits(name)));
    for (name, value) in &own.vars {
        let passes = |variables: &Variables| {
            variables.fits(name) && (!variables.is_beginning || !is_key(name, value))
        };
        if pass.iter().any(passes) {
            environment.set(name, value);
        }
    }
    set.iter().for_each(|(name, value)| environment.set(name, value));
    environment
}
