//! What is done when an agent is down.

use async_trait::async_trait;

use crate::event::AgentMeta;
use crate::id::SessionId;

/// Ends what belongs to an agent and not to one of its calls, such as processes that its commands left.
///
/// It is asked when nothing of the agent is at work any more: its last run is over and nobody holds it, or
/// it was closed. Whoever waits for the agent to be down waits for this too. An agent without a parent is
/// the last of its session.
#[async_trait]
pub trait OnEnd: Send + Sync {
    /// Ends it; returns when nothing is left. A panic is passed over.
    async fn on_end(&self, session: SessionId, agent: &AgentMeta);
}
