//! The gate: who decides about a tool call before it starts.

use std::sync::Arc;

use async_trait::async_trait;

use bowline_llm::ToolCall;

use crate::event::AgentMeta;
use crate::op::Decision;
use crate::tool::Access;

/// Decides about calls before they start.
#[async_trait]
pub trait Gate: Send + Sync {
    /// Reviews a call whose arguments have been read.
    async fn review(&self, call: &Review<'_>) -> Verdict;
}

/// A call under review.
#[derive(Debug)]
pub struct Review<'a> {
    /// The call as the model wrote it, or as this gate rewrote it. If its tool only passes calls on,
    /// this is the call that is really made.
    pub call: &'a ToolCall,
    /// What it touches.
    pub access: &'a Access,
    /// Whose call it is.
    pub agent: &'a Arc<AgentMeta>,
    /// What a person decided, if this gate had asked.
    pub decision: Option<&'a Decision>,
    /// The rules that people have allowed for the whole session, in the gate's own language.
    pub granted: &'a [String],
}

/// What a gate says of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It may run.
    Allow {
        /// The rule that says so, where there is one.
        rule: Option<String>,
    },
    /// It may not.
    Deny {
        /// Why, for the model.
        reason: String,
    },
    /// It may run with other arguments, which are read and reviewed in turn.
    Rewrite {
        /// The arguments.
        arguments: String,
    },
    /// A person must decide.
    Wait {
        /// What to ask.
        question: String,
        /// What may be allowed for longer than once; `None` for nothing.
        rule: Option<String>,
    },
}

/// The gate that lets everything pass.
#[derive(Debug, Clone, Copy, Default)]
pub struct Open;

#[async_trait]
impl Gate for Open {
    async fn review(&self, _call: &Review<'_>) -> Verdict {
        Verdict::Allow { rule: None }
    }
}

/// A gate that is a function; [`gate_fn`] makes one.
#[derive(Clone)]
pub struct FunctionGate<F>(F);

/// Makes a gate of a function.
///
/// ```
/// use bowline_agent::gate::{Review, Verdict, gate_fn};
/// use bowline_agent::op::Decision;
///
/// let careful = gate_fn(|review: &Review<'_>| match review.decision {
///     // Nobody has been asked yet.
///     None if review.access.execute.is_some() => {
///         Verdict::Wait { question: format!("Run {}?", review.call.arguments), rule: None }
///     }
///     Some(Decision::Deny { reason }) => Verdict::Deny { reason: reason.clone() },
///     None | Some(Decision::Allow { .. }) => Verdict::Allow { rule: None },
/// });
/// ```
pub fn gate_fn<F: Fn(&Review<'_>) -> Verdict + Send + Sync>(review: F) -> FunctionGate<F> {
    FunctionGate(review)
}

#[async_trait]
impl<F: Fn(&Review<'_>) -> Verdict + Send + Sync> Gate for FunctionGate<F> {
    async fn review(&self, call: &Review<'_>) -> Verdict {
        (self.0)(call)
    }
}

impl<F> std::fmt::Debug for FunctionGate<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FunctionGate").finish_non_exhaustive()
    }
}

/// Returns the gate of a sub-agent: it may not do what its parent may not.
pub(crate) fn both(parent: &Arc<dyn Gate>, own: &Arc<dyn Gate>) -> Arc<dyn Gate> {
    if std::ptr::addr_eq(Arc::as_ptr(parent), Arc::as_ptr(own)) {
        return Arc::clone(own);
    }
    Arc::new(Both { parent: Arc::clone(parent), own: Arc::clone(own) })
}

/// Asks the parent's gate first, and the agent's own about what that lets pass.
struct Both {
    parent: Arc<dyn Gate>,
    own: Arc<dyn Gate>,
}

#[async_trait]
impl Gate for Both {
    async fn review(&self, call: &Review<'_>) -> Verdict {
        match self.parent.review(call).await {
            Verdict::Allow { rule } => match self.own.review(call).await {
                Verdict::Allow { rule: own } => Verdict::Allow { rule: own.or(rule) },
                verdict @ (Verdict::Deny { .. }
                | Verdict::Rewrite { .. }
                | Verdict::Wait { .. }) => verdict,
            },
            verdict @ (Verdict::Deny { .. } | Verdict::Rewrite { .. } | Verdict::Wait { .. }) => {
                verdict
            }
        }
    }
}
