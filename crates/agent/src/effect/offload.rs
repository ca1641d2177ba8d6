//! `offload`: puts large old results of tools out of sight, where the model can get them back.

use std::fmt::Write as _;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;

use bowline_llm::{CallId, Part};

use crate::entry::{Act, Acted, Entry};
use crate::tool::{Access, Recovery, ToolContext, ToolError, ToolOutput, Toolbox, tool_fn};

use super::block::{Block, Observed, Replaced, length, preview_of};
use super::turns::last_results;
use super::{Class, Effect, EffectError, Step, check};

/// Puts large old results of tools out of the conversation, when the next request takes a share of
/// the window. What stands there says how the model gets them back: by the tool `recall`, which
/// reads them from the log.
///
/// Results that are errors stay.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Offload {
    /// The share of the window at which it acts.
    pub threshold: f64,
    /// How many characters a result has at least that is put away.
    pub min_result_len: usize,
    /// How many of the latest results stay as they are; those of one turn stay together.
    pub recent_window: usize,
}

/// How many characters of a result are left.
const PREVIEW: usize = 200;

const RECALL: &str = "recall";

impl Default for Offload {
    fn default() -> Self {
        Self { threshold: 0.5, min_result_len: 2_000, recent_window: 6 }
    }
}

impl Offload {
    /// Returns the effect if it can do what it says.
    ///
    /// # Errors
    /// The parameter that is wrong, and what it must be.
    pub fn checked(self) -> Result<Self, String> {
        check::share("threshold", self.threshold)?;
        check::at_least_one("min_result_len", self.min_result_len)?;
        check::at_least_one("recent_window", self.recent_window)?;
        Ok(self)
    }

    /// Returns what stands in place of a result; `None` if it is small.
    fn hint(&self, observed: &Observed<'_>) -> Option<Arc<[Part]>> {
        let content = &observed.result.content;
        let length = length(content);
        if length < self.min_result_len as u64 {
            return None;
        }
        let mut hint = format!("[tool result for {}: {length} characters", observed.tool());
        let _ =
            write!(hint, ", put away. Call {RECALL} with id {:?}", observed.result.call.as_str());
        let _ = write!(hint, " to see it whole. It begins: {}]", preview_of(content, PREVIEW));
        Some([Part::Text(hint)].into())
    }
}

impl Effect for Offload {
    type State = Replaced;

    fn kind(&self) -> &str {
        "offload"
    }

    fn class(&self) -> Class {
        Class::Context
    }

    fn outlives_runs(&self) -> bool {
        true
    }

    fn fold(&self, replaced: &mut Replaced, entry: &Entry) {
        replaced.fold(entry);
    }

    fn acted(&self, replaced: &mut Replaced, acted: &Acted) {
        replaced.acted(acted);
    }

    async fn before(&self, step: &Step, replaced: &Replaced) -> Result<Vec<Act>, EffectError> {
        // Without a way back nothing is put away.
        if step.tools.get(RECALL).is_none() {
            return Ok(Vec::new());
        }
        let Some(block) = Block::due(step, self.threshold) else { return Ok(Vec::new()) };
        let old = replaced.fresh(&step.view, last_results(&step.view, self.recent_window));
        Ok(block.cut(&step.view, old, |one| self.hint(one)))
    }

    fn tools(&self) -> Toolbox {
        let says = "Shows the whole result of an earlier call that was put away.";
        let recall = tool_fn(RECALL, says, recall)
            .with_access(Access::none())
            .with_recovery(Recovery::Rerun);
        Toolbox::default().with(recall).unwrap_or_default()
    }
}

/// The arguments of `recall`.
#[derive(Deserialize, JsonSchema)]
struct Which {
    /// The id of the call, as it stands in place of its result.
    id: String,
}

async fn recall(which: Which, cx: ToolContext) -> Result<ToolOutput, ToolError> {
    let call = CallId::from(which.id);
    match cx.result_of(&call).await {
        Ok(Some(parts)) => Ok(ToolOutput::Content(parts)),
        Ok(None) => Err(ToolError::failed(format!("no call {call} has a result"))),
        Err(error) => Err(ToolError::failed(format!("cannot read the log: {error}"))),
    }
}
