//! Events: what an agent tells those who watch it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::id::AgentId;

/// Who said it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentMeta {
    /// The agent.
    pub id: AgentId,
    /// Its name, unique in its session.
    pub name: String,
    /// The name of the configuration it was made from.
    pub config: String,
    /// 0 for the session's first agent, one more for each generation.
    pub depth: u32,
    /// The agent whose call made it.
    pub parent: Option<AgentId>,
    /// What its maker calls it.
    pub label: Option<String>,
    /// The agents above it, nearest first.
    #[serde(skip)]
    pub ancestors: Arc<[AgentId]>,
}
