//! What effects say of tools, apart from the effects themselves.

use std::fmt;
use std::sync::Arc;

use super::{DynEffect, Scope};

/// The effects of an agent, each with its name, as those who ask about tools see them.
#[derive(Clone, Default)]
pub(crate) struct Bounds(Arc<[(String, Arc<dyn DynEffect>)]>);

impl Bounds {
    /// Returns the effect that forbids a tool.
    pub(crate) fn forbids(&self, tool: &str) -> Option<&str> {
        let mut effects = self.0.iter();
        let forbids = effects.find(|(_, effect)| effect.scope(tool) != Scope::Open);
        forbids.map(|(name, _)| name.as_str())
    }

    /// Tells whether the model is not even told of a tool.
    pub(crate) fn hides(&self, tool: &str) -> bool {
        self.0.iter().any(|(_, effect)| effect.scope(tool) == Scope::Hidden)
    }
}

impl FromIterator<(String, Arc<dyn DynEffect>)> for Bounds {
    fn from_iter<I: IntoIterator<Item = (String, Arc<dyn DynEffect>)>>(effects: I) -> Self {
        Self(effects.into_iter().collect())
    }
}

impl fmt::Debug for Bounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(name, _)| name)).finish()
    }
}
