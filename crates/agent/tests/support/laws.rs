//! What holds for every log, whatever happened.

use std::collections::BTreeSet;

use bowline_agent::conversation::{CallState, Conversation};
use bowline_agent::entry::{CallStatus, Entry, EntryKind};
use bowline_agent::id::AgentId;
use bowline_agent::orchestrator::{NextStep, Orchestrator as _, PlanExecute, React, Replan};

use super::crashing::World;
use super::scenario::check_view;

/// Checks what every log must be, at its end and after each of its entries.
pub(crate) fn check_log(world: &World) {
    for (_, request) in world.requests.lock().unwrap().iter() {
        check_view(request);
    }
    let log = world.log();
    for entry in &log {
        let text = serde_json::to_string(entry).unwrap();
        let read: Entry = serde_json::from_str(&text).unwrap();
        assert_eq!(&read, entry);
        assert_eq!(serde_json::to_string(&read).unwrap(), text);
    }
    let agents: BTreeSet<AgentId> = log.iter().map(|entry| entry.agent).collect();
    for agent in agents {
        let own = world.log_of(agent);
        for end in 0..=own.len() {
            check_step(&Conversation::replay(&own[..end]));
        }
        let whole = Conversation::replay(&own);
        let is_abandoned = was_cut_off(&log, &whole);
        assert!(whole.run().is_none() || is_abandoned, "a run is open");
        assert!(!whole.has_open_calls() || is_abandoned, "a call is open");
    }
}

/// Tells whether the call that made a sub-agent was cut off by a crash and then cancelled with
/// its run: nobody opens the sub-agent's log again.
fn was_cut_off(log: &[Entry], child: &Conversation) -> bool {
    let Some(parent) = child.created().and_then(|created| created.parent.clone()) else {
        return false;
    };
    log.iter().any(|entry| match &entry.kind {
        EntryKind::CallEnded(ended) => {
            entry.agent == parent.agent
                && ended.call == parent.call
                && ended.status == CallStatus::Canceled
        }
        _ => false,
    })
}

/// Checks that the next step is a pure function of the log, and repeats nothing.
fn check_step(conversation: &Conversation) {
    for replan in [Replan::OnFailure, Replan::Off] {
        let plans = PlanExecute { replan };
        let next = plans.next(conversation);
        assert_eq!(next, plans.next(conversation));
        let waits = matches!(next, NextStep::CallTools | NextStep::Wait(_));
        assert_eq!(waits, conversation.has_open_calls() && conversation.run().is_some());
    }
    let next = React.next(conversation);
    assert_eq!(next, React.next(conversation));
    let check = |call| {
        let call = conversation.open_call(call).unwrap();
        assert!(!matches!(call.state, CallState::Ended(_)));
    };
    match &next {
        NextStep::CallTools => assert!(conversation.has_open_calls()),
        NextStep::Wait(wakes) => wakes.iter().for_each(|(call, _)| check(call)),
        NextStep::CallModel(_) => assert!(!conversation.has_open_calls()),
        NextStep::Plan(_) | NextStep::Step => panic!("it has no plan"),
        NextStep::Settle | NextStep::Rest => assert!(!conversation.has_open_calls()),
    }
}
