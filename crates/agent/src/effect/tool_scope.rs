//! Tools that are out of bounds.

use schemars::JsonSchema;
use serde::Deserialize;

use super::{Effect, Scope};

/// Forbids tools, by name: a call of one ends as `denied`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ToolScope {
    /// The names of the tools.
    pub exclude: Vec<String>,
    /// Whether the model is not even told of them.
    pub hide: bool,
}

impl ToolScope {
    /// Returns the effect if it can do what it says.
    ///
    /// # Errors
    /// The parameter that is wrong, and what it must be.
    pub fn checked(self) -> Result<Self, String> {
        if self.exclude.iter().any(String::is_empty) {
            return Err("exclude must hold names of tools, and one is empty".to_owned());
        }
        Ok(self)
    }
}

impl Effect for ToolScope {
    type State = ();

    fn kind(&self) -> &'static str {
        "tool_scope"
    }

    fn scope(&self, tool: &str) -> Scope {
        if !self.exclude.iter().any(|name| name == tool) {
            return Scope::Open;
        }
        if self.hide { Scope::Hidden } else { Scope::Denied }
    }
}
