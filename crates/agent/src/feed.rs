//! Feeds: where a running agent looks for messages by itself.
//!
//! Whoever has a message for an agent [tells its handle](crate::SessionHandle::steer). A [`Feed`] is for
//! where nobody can: the agent asks it. What it hands over is accepted at once, as if somebody had
//! steered it in or followed up, so that from then on it is in the log and cannot be lost.
//!
//! - [`Agent::steering`](crate::Agent::steering) is asked before each step and after each tool's end.
//! - [`Agent::follow_ups`](crate::Agent::follow_ups) is asked when the run would end with an answer
//!   and nothing else follows up.
//!
//! One question is asked at a time, and is never dropped while the agent lives: an answer that comes
//! after its run was canceled is there for the next run. No sub-agent asks the feeds of its parent.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;

use crate::op::Input;

/// Hands over messages when it is asked.
#[async_trait]
pub trait Feed: Send + Sync {
    /// Hands over what is there, in order; nothing for nothing. The agent does not go on before, but
    /// can be canceled. A panic is a warning, and hands over nothing.
    async fn take(&self) -> Vec<Input>;
}

/// Returns the feed of a sub-agent: none that is its parent's.
pub(crate) fn own(
    parent: Option<&Arc<dyn Feed>>,
    own: Option<Arc<dyn Feed>>,
) -> Option<Arc<dyn Feed>> {
    let is_parents = |own: &Arc<dyn Feed>| {
        parent.is_some_and(|parent| std::ptr::addr_eq(Arc::as_ptr(parent), Arc::as_ptr(own)))
    };
    own.filter(|own| !is_parents(own))
}

/// A feed that is a function; [`feed_fn`] makes one.
#[derive(Clone)]
pub struct FunctionFeed<F>(F);

/// Makes a feed of a function.
pub fn feed_fn<F: Fn() -> Vec<Input> + Send + Sync>(take: F) -> FunctionFeed<F> {
    FunctionFeed(take)
}

#[async_trait]
impl<F: Fn() -> Vec<Input> + Send + Sync> Feed for FunctionFeed<F> {
    async fn take(&self) -> Vec<Input> {
        (self.0)()
    }
}

impl<F> fmt::Debug for FunctionFeed<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FunctionFeed").finish_non_exhaustive()
    }
}
