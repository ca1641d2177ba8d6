//! The models that a program has made itself.

use std::fmt;
use std::sync::Arc;

use bowline_llm::Model;

use super::ModelName;

/// Models that are there already, found by what they say of themselves.
#[derive(Clone, Default)]
pub(crate) struct OwnModels(Vec<Arc<dyn Model>>);

impl OwnModels {
    /// Adds a model; it comes before one of the same name that was added earlier.
    pub(crate) fn add(&mut self, model: Arc<dyn Model>) {
        self.0.insert(0, model);
    }

    pub(crate) fn get(&self, name: &ModelName) -> Option<Arc<dyn Model>> {
        let is_it = |model: &&Arc<dyn Model>| {
            let info = model.info();
            info.provider == name.provider && info.model == name.model
        };
        self.0.iter().find(is_it).cloned()
    }
}

impl fmt::Debug for OwnModels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|model| model.info().id())).finish()
    }
}
