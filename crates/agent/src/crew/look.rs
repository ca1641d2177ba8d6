//! What an agent can look up about its crew: whom it can delegate to, and what came of it.

use std::sync::Arc;

use serde::Deserialize;

use crate::conversation::Conversation;
use crate::entry::{Entry, EntryKind};
use crate::journal::Pos;
use crate::tool::{Access, Recovery, Tool, ToolContext, ToolError, ToolOutput};

use super::member::Seat;
use super::text::cut;

/// How many characters of an answer are shown at once.
const PAGE: usize = 16_000;

/// Lists whom the agent can delegate to.
pub(super) struct ListAgents(pub(super) Arc<Seat>);

/// List the agents you can delegate to.
#[derive(Deserialize, schemars::JsonSchema)]
pub(super) struct Nothing {}

impl Tool for ListAgents {
    const NAME: &'static str = "list_agents";
    type Input = Nothing;

    fn access(&self, _: &Nothing) -> Access {
        Access::none()
    }

    fn recovery(&self, _: &Nothing) -> Recovery {
        Recovery::Rerun
    }

    async fn run(&self, _: Nothing, _: &ToolContext) -> Result<ToolOutput, ToolError> {
        let cards = self.0.member.colleagues();
        let json =
            serde_json::to_string(&cards).map_err(|error| ToolError::failed(error.to_string()))?;
        Ok(json.into())
    }
}

/// Reads what a sub-agent answered: a result of `delegate` shows only the beginning of a long one.
pub(super) struct DelegationResult;

/// Read on in the answer of an agent that you delegated to, where `delegate` showed only its
/// beginning.
#[derive(Deserialize, schemars::JsonSchema)]
pub(super) struct Which {
    /// The name under which `delegate` reported it, such as `coder-refactor-1`.
    name: String,
    /// The character to begin with.
    #[serde(default)]
    from: usize,
}

impl Tool for DelegationResult {
    const NAME: &'static str = "delegation_result";
    type Input = Which;

    fn access(&self, _: &Which) -> Access {
        Access::none()
    }

    fn recovery(&self, _: &Which) -> Recovery {
        Recovery::Rerun
    }

    async fn run(&self, which: Which, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let unknown = || ToolError::failed(format!("no agent {:?} worked for you", which.name));
        let log = cx.session_log().ok_or_else(unknown)?;
        let failed = |error| ToolError::failed(format!("cannot read the session: {error}"));
        let entries = log.read(Pos(0)).await.map_err(failed)?;
        let is_it = |entry: &Entry| match &entry.kind {
            EntryKind::Created(created) => {
                let parent = created.parent.as_ref().map(|parent| parent.agent);
                created.name == which.name && parent == Some(cx.agent.id)
            }
            _ => false,
        };
        let agent = entries.iter().find(|(_, entry)| is_it(entry)).ok_or_else(unknown)?.1.agent;
        let own = entries.iter().map(|(_, entry)| entry).filter(|entry| entry.agent == agent);
        let conversation = Conversation::replay(own);
        let latest = conversation.totals().latest.clone();
        let text = latest.map(|outcome| outcome.text()).unwrap_or_default();
        let rest: String = text.chars().skip(which.from).collect();
        let (shown, left) = cut(&rest, PAGE);
        let next = which.from.saturating_add(PAGE);
        Ok(match left {
            0 => shown.into(),
            left => format!("{shown}\n[{left} more characters, from {next}]").into(),
        })
    }
}
