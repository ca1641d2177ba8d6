//! Model calls on the side: what they are for has events of its own, and they say nothing.

use std::collections::HashSet;

use bowline_agent::event::{Event, EventBody};
use bowline_agent::id::AgentId;

/// The agents whose conversation is being summarised.
#[derive(Debug, Default)]
pub(super) struct Side(HashSet<AgentId>);

impl Side {
    /// Takes note of an event; tells whether it is about such a call, and not about a reply.
    pub(super) fn hear(&mut self, event: &Event) -> bool {
        let id = event.agent.id;
        match &event.body {
            EventBody::CompactionStart { .. } => {
                self.0.insert(id);
            }
            EventBody::RunStart { .. } | EventBody::CompactionEnd { .. } => {
                self.0.remove(&id);
            }
            EventBody::TurnEnd { .. } => return self.0.contains(&id),
            _ => {}
        }
        false
    }
}
