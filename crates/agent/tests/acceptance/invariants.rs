//! What holds for every run, whatever it does: I1 to I9 of the specification as the design changed
//! them, and what the log says against what was told.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use bowline_agent::SessionHandle;
use bowline_agent::conversation::Conversation;
use bowline_agent::event::{Event, EventBody};
use bowline_agent::id::{AgentId, OpId, RunId};
use bowline_llm::{CallId, Message, Part, Request, Usage};

use crate::support::{log_of, project};

/// What is known of one run of one agent while its events are read.
#[derive(Default)]
struct Known {
    started: bool,
    ended: bool,
    in_turn: bool,
    // Calls of the latest reply, in order.
    batch: Vec<CallId>,
    started_calls: HashSet<CallId>,
    ended_calls: HashSet<CallId>,
    // Those whose work goes on.
    behind: HashSet<CallId>,
    queued: Vec<OpId>,
    delivered: HashSet<OpId>,
    usage: Usage,
}

/// Checks the lossless stream of a run from its first event to its last. A stream that joins a run
/// in the middle begins without `run_start`.
pub(crate) fn check(events: &[Arc<Event>], external: Usage) {
    let Some(first) = events.first() else { return };
    let root = first.agent.id;
    if matches!(first.body, EventBody::Rejected { .. }) {
        assert_eq!(events.len(), 1, "a refusal is all there is");
        return;
    }
    let joins = !matches!(first.body, EventBody::RunStart { .. });
    let mut runs: HashMap<(AgentId, RunId), Known> = HashMap::new();
    // The call of the parent in which a child lives, and whether its end was told.
    let mut children: HashMap<AgentId, (AgentId, CallId, bool)> = HashMap::new();
    let mut latest: HashMap<AgentId, RunId> = HashMap::new();
    let mut pos = None;
    for (index, event) in events.iter().enumerate() {
        let at = format!("event {index}: {event:?}");
        // I7: positions grow; live events say behind which one they stand.
        if event.pos.is_some() {
            assert!(event.pos >= pos, "position goes back at {at}");
            assert!(event.after.is_none(), "{at}");
            pos = event.pos;
        } else {
            assert!(event.after >= pos, "a live event overtakes at {at}");
            pos = event.after;
        }
        let agent = event.agent.id;
        match &event.body {
            EventBody::AgentStart { call } => {
                let parent = event.agent.parent.expect("only sub-agents are announced");
                let before = children.insert(agent, (parent, call.clone(), false));
                assert!(before.is_none(), "announced twice at {at}");
            }
            EventBody::AgentEnd { .. } => {
                let child = children.get_mut(&agent).expect("an end without a start");
                assert!(!std::mem::replace(&mut child.2, true), "ended twice at {at}");
                let run = latest.get(&agent).expect("a child that has run");
                assert!(runs[&(agent, *run)].ended, "the run is open at {at}");
                continue;
            }
            _ => {}
        }
        // I4: a child lives between the start and the end of the call that made it.
        if agent != root {
            let Some((parent, call, is_over)) = children.get(&agent) else {
                // F037: before its first run a child may be told things, unannounced.
                assert!(joins || event.run.is_none(), "a child that was not announced at {at}");
                continue;
            };
            assert!(!is_over, "after agent_end at {at}");
            let above = &runs[&(*parent, latest[parent])];
            assert!(above.started_calls.contains(call), "before the call at {at}");
            let is_behind = above.behind.contains(call);
            assert!(is_behind || !above.ended_calls.contains(call), "after the call at {at}");
        }
        let Some(run) = event.run else { continue };
        let known = runs.entry((agent, run)).or_default();
        latest.insert(agent, run);
        assert!(!known.ended, "I9: after the end at {at}");
        match &event.body {
            EventBody::RunStart { .. } => {
                assert!(!std::mem::replace(&mut known.started, true), "I1: twice at {at}");
            }
            EventBody::AgentStart { .. } => {}
            _ => assert!(known.started || (joins && agent == root), "I1: not first at {at}"),
        }
        match &event.body {
            EventBody::TurnStart {} => {
                assert!(!std::mem::replace(&mut known.in_turn, true), "I2 at {at}");
                for call in &known.batch {
                    assert!(known.ended_calls.contains(call), "I2: {call} is open at {at}");
                }
                known.batch.clear();
            }
            EventBody::PlanStepStart { .. } => {
                assert!(!known.in_turn, "a step within a turn at {at}");
                for call in &known.batch {
                    assert!(known.ended_calls.contains(call), "I2: {call} is open at {at}");
                }
                known.batch.clear();
            }
            EventBody::PlanStepEnd { .. } => {
                assert_eq!(known.batch, [call_of(event)], "another step at {at}");
                assert!(known.ended_calls.contains(&call_of(event)), "not over at {at}");
            }
            EventBody::TurnEnd { usage, .. } => {
                assert!(std::mem::replace(&mut known.in_turn, false) || joins, "I2 at {at}");
                let usage = usage.unwrap_or_default();
                // I8: what is spent counts for the agent and all above it.
                let above = event
                    .agent
                    .ancestors
                    .iter()
                    .filter_map(|id| latest.get(id).map(|run| (*id, *run)));
                for key in std::iter::once((agent, run)).chain(above) {
                    runs.get_mut(&key).expect("a run above").usage += usage;
                }
            }
            EventBody::ToolCall { .. } => known.batch.push(call_of(event)),
            EventBody::ToolStart { .. } => {
                let call = call_of(event);
                assert!(known.batch.contains(&call) || joins, "I3: not called at {at}");
                assert!(!known.ended_calls.contains(&call), "I3: ended at {at}");
                assert!(known.started_calls.insert(call), "I3: started twice at {at}");
            }
            EventBody::ToolOutput { .. } => {
                let call = call_of(event);
                assert!(known.started_calls.contains(&call) || joins, "I3 at {at}");
                assert!(!known.ended_calls.contains(&call), "I3 at {at}");
            }
            EventBody::ToolEnd { behind, .. } => {
                let call = call_of(event);
                assert!(known.batch.contains(&call) || joins, "I3: not called at {at}");
                known.behind.extend(behind.map(|_| call.clone()));
                for (parent, by, is_over) in children.values() {
                    assert!(
                        *parent != agent || *by != call || *is_over || behind.is_some(),
                        "I4: a child lives at {at}"
                    );
                }
                assert!(known.ended_calls.insert(call), "I3: ended twice at {at}");
            }
            EventBody::MessageAdded { message } => {
                if let (Message::Results(results), false) = (&**message, joins) {
                    let order: Vec<_> = results.iter().map(|result| result.call.clone()).collect();
                    assert_eq!(order, known.batch, "I5 at {at}");
                }
            }
            EventBody::Queued { id, .. } => known.queued.push(*id),
            EventBody::Delivered { id } => {
                assert!(known.queued.contains(id) || joins, "I6 at {at}");
                assert!(known.delivered.insert(*id), "I6: delivered twice at {at}");
            }
            EventBody::RunEnd(end) => {
                known.ended = true;
                for (parent, by, is_over) in children.values() {
                    let lives = *parent == agent && known.behind.contains(by) && !is_over;
                    assert!(!lives, "a child lives behind {by} at {at}");
                }
                assert!(!known.in_turn, "I2: a turn is open at {at}");
                for call in &known.batch {
                    assert!(known.ended_calls.contains(call), "I3: {call} is open at {at}");
                }
                for op in &known.queued {
                    let told = known.delivered.contains(op) != end.undelivered.contains(op);
                    assert!(told, "I6: {op} at {at}");
                }
                if agent == root && !joins {
                    assert_eq!(end.spent.usage, known.usage + external, "I8 at {at}");
                } else if external == Usage::default() && !joins {
                    assert_eq!(end.spent.usage, known.usage, "I8 at {at}");
                }
            }
            EventBody::RunLost { .. } => known.ended = true,
            _ => {}
        }
    }
    for ((agent, run), known) in &runs {
        assert!(known.ended, "I1: run {run} of agent {agent} has no end");
    }
    for (agent, (.., is_over)) in &children {
        assert!(is_over, "agent {agent} has no end");
    }
    assert!(events.last().is_some_and(|last| last.body.is_terminal() && last.agent.id == root));
}

fn call_of(event: &Event) -> CallId {
    event.call_id.clone().expect("the event is about a call")
}

/// Checks that what was told as committed is what a late reader of the log gets, and that replaying
/// the log gives the conversation as it was lived.
pub(crate) async fn check_log(events: &[Arc<Event>], handle: &SessionHandle) {
    let log = log_of(handle.session_id()).await;
    let Some(from) = events.iter().find_map(|event| event.pos) else { return };
    let to = events.iter().rev().find_map(|event| event.pos).unwrap_or(from);
    let of = handle.agent_id();
    let late: Vec<Event> = project(handle.session_id(), &log)
        .into_iter()
        .filter(|event| event.pos.is_some_and(|pos| from <= pos && pos <= to))
        .filter(|event| event.agent.id == of || event.agent.ancestors.contains(&of))
        .filter(|event| !matches!(event.body, EventBody::TurnStart {}))
        .map(plain)
        .collect();
    let lived: Vec<Event> = events
        .iter()
        .filter(|event| event.pos.is_some())
        .map(|event| plain(Event::clone(event)))
        .collect();
    // A stream that joined a run may begin within a commit.
    let skipped = late.len().saturating_sub(lived.len());
    for (lived, late) in lived.iter().zip(&late[skipped..]) {
        pretty_assertions::assert_eq!(lived, late);
    }
    assert_eq!(lived.len() + skipped, late.len());
    let own = log.iter().map(|(_, entry)| entry).filter(|entry| entry.agent == of);
    let replayed = Conversation::replay(own).snapshot();
    let state = handle.state();
    if state.run.is_none() {
        assert_eq!(state.snapshot, replayed);
    }
}

// A reader of the log does not know the context window.
fn plain(mut event: Event) -> Event {
    if let EventBody::TurnEnd { context_percent, .. } = &mut event.body {
        *context_percent = None;
    }
    event
}

fn has_stored(message: &Message) -> bool {
    let is_stored = |part: &Part| matches!(part, Part::Stored(_));
    match message {
        Message::User(said) => said.content.iter().any(is_stored),
        Message::Assistant(_) => false,
        Message::Results(results) => {
            results.iter().any(|result| result.content.iter().any(is_stored))
        }
    }
}

/// Checks that a request has no call without a result, no result without a call, and nothing
/// between them.
pub(crate) fn check_request(request: &Request) {
    let mut open: Vec<CallId> = Vec::new();
    for message in &request.messages {
        match &**message {
            Message::Results(results) => {
                let given: Vec<_> = results.iter().map(|result| result.call.clone()).collect();
                assert_eq!(given, open, "the results are those of the calls");
                open.clear();
            }
            Message::User(_) => assert_eq!(open, [], "nothing stands between calls and results"),
            Message::Assistant(said) => {
                assert_eq!(open, [], "nothing stands between calls and results");
                open = said.tool_calls().map(|call| call.id.clone()).collect();
            }
        }
        assert!(!has_stored(message), "what was put aside is fetched");
    }
    assert_eq!(open, [], "a call has no result");
}
