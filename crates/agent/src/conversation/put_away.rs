//! Results that were put away, for whoever wants one back.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use bowline_llm::{CallId, Message, Part, Stored};

use crate::entry::{Acted, CallEnded, Rewrite, whole};

use super::View;

/// Whole results of calls by the calls' ids. A clone costs nothing.
pub(crate) type Results = rpds::HashTrieMapSync<CallId, Arc<[Part]>>;

/// The results that `offload` has put away. They are the very parts that the view held before, so
/// that none is in memory twice; of what is large there is only a name.
#[derive(Debug, Default)]
pub(super) struct PutAway {
    pub(super) results: Results,
    // The whole of results of which the model saw a part.
    cut: HashMap<CallId, Stored>,
    // Of what was shown otherwise before, only the log knows what it was.
    shown: HashSet<CallId>,
}

impl PutAway {
    /// Takes in the end of a call.
    pub(super) fn end(&mut self, ended: &CallEnded) {
        if let Some(full) = &ended.full {
            self.cut.insert(ended.call.clone(), full.clone());
        }
    }

    /// Takes in what an effect is about to change in a view.
    pub(super) fn rewrite(&mut self, acted: &Acted, rewrite: &Rewrite, view: &View) {
        let is_put_away = acted.is_of("offload");
        let fresh = rewrite.results.iter().map(|shown| &shown.call);
        let fresh: HashSet<CallId> =
            fresh.filter(|call| self.shown.insert((*call).clone())).cloned().collect();
        if !is_put_away || fresh.is_empty() {
            return;
        }
        for message in view.messages() {
            let Message::Results(results) = &**message else { continue };
            for result in results.iter().filter(|result| fresh.contains(&result.call)) {
                let parts = whole(&result.content, self.cut.get(&result.call));
                self.results.insert_mut(result.call.clone(), parts);
            }
        }
    }
}
