//! The dialects are total: any events in any order become lines, and each end of a run one end.

use std::sync::Arc;

use bowline_agent::Spent;
use bowline_agent::entry::{CallStatus, Ending, PlanStep, RunError, RunErrorKind};
use bowline_agent::event::{AgentMeta, Event, EventBody, Phase, RunEnd};
use bowline_agent::id::{AgentId, EntryId, OpId, RunId, SessionId};
use bowline_agent::journal::Pos;
use bowline_agent::limits::LimitKind;
use bowline_agent::op::{CancelReason, Decision};
use bowline_llm::{
    AssistantMessage, AssistantPart, CallId, Message, Part, RawJson, StopReason, ToolCall,
    ToolResult, Usage,
};
use bowline_server::dialect::Dialect;
use jiff::Timestamp;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::Value;
use uuid::Uuid;

use crate::{is_terminal, say};

fn agents() -> Vec<Arc<AgentMeta>> {
    let id = |n: u128| AgentId::from(Uuid::from_u128(n));
    let agent = |n: u32, name: &str| AgentMeta {
        id: id(1 + u128::from(n)),
        name: name.to_owned(),
        config: name.to_owned(),
        depth: n,
        parent: n.checked_sub(1).map(|above| id(1 + u128::from(above))),
        label: (n == 1).then(|| "✎".to_owned()),
        ancestors: (0..n).rev().map(|above| id(1 + u128::from(above))).collect(),
    };
    vec![agent(0, "root").into(), agent(1, "child").into(), agent(2, "grandchild").into()]
}

fn texts() -> impl Strategy<Value = String> {
    let known = [
        "",
        "{}",
        "{\"path\":\"a\"}",
        "[1]",
        "{",
        "line\nbreak",
        "[exit code 3]",
        "[",
        "é\u{2028}",
    ];
    select(known.map(str::to_owned).to_vec())
}

fn tools() -> impl Strategy<Value = String> {
    let known = ["bash", "edit", "write", "apply_patch", "update_plan", "message", "read", ""];
    select(known.map(str::to_owned).to_vec())
}

fn statuses() -> impl Strategy<Value = CallStatus> {
    select(vec![
        CallStatus::Ok,
        CallStatus::Error,
        CallStatus::Denied,
        CallStatus::Skipped,
        CallStatus::Canceled,
        CallStatus::Timeout,
        CallStatus::Interrupted,
    ])
}

fn endings() -> impl Strategy<Value = Ending> {
    let failed = RunError { kind: RunErrorKind::Stop, message: "why".to_owned() };
    select(vec![
        Ending::Done,
        Ending::Failed(failed),
        Ending::Canceled(CancelReason::User),
        Ending::Canceled(CancelReason::Shutdown),
        Ending::Limit(LimitKind::ModelTurns),
        Ending::Limit(LimitKind::CostUsd),
        Ending::Limit(LimitKind::RunTime),
        Ending::NeedsApproval,
    ])
}

fn finishes() -> impl Strategy<Value = StopReason> {
    select(vec![
        StopReason::EndTurn,
        StopReason::ToolUse,
        StopReason::MaxTokens,
        StopReason::Refused,
        StopReason::Canceled,
        StopReason::Error,
        StopReason::Other("paused".to_owned()),
    ])
}

fn usages() -> impl Strategy<Value = Usage> {
    // Providers may say anything: more tokens from a cache than there are.
    let tokens = || select(vec![0, 1, 100, u64::MAX / 4]);
    let details = || proptest::option::of(select(vec![0, 1, u64::MAX / 4]));
    (tokens(), tokens(), details(), details(), details()).prop_map(
        |(input, output, cache_read, cache_write, reasoning)| Usage {
            input,
            output,
            cache_read,
            cache_write,
            reasoning,
        },
    )
}

fn messages() -> impl Strategy<Value = Message> {
    (texts(), tools(), any::<bool>(), 0..3).prop_map(|(text, name, is_error, kind)| match kind {
        0 => Message::user(text),
        1 => {
            let call = ToolCall { id: "a".into(), name, arguments: text.clone() };
            let content = vec![AssistantPart::Text(text), AssistantPart::ToolCall(call)];
            Message::Assistant(Arc::new(AssistantMessage { content }))
        }
        _ => {
            let content = Arc::new([Part::Text(text)]);
            Message::Results(vec![ToolResult { call: "a".into(), name, content, is_error }])
        }
    })
}

/// Any event but those that only sub-agents have.
fn bodies() -> impl Strategy<Value = EventBody> {
    prop_oneof![of_replies(), of_calls(), of_runs()]
}

fn of_replies() -> impl Strategy<Value = EventBody> {
    let ms = || proptest::option::of(select(vec![1, u64::MAX / 2]));
    prop_oneof![
        Just(EventBody::TurnStart {}),
        texts().prop_map(|text| EventBody::TextDelta { text }),
        Just(EventBody::TextReset {}),
        (texts(), any::<bool>())
            .prop_map(|(text, finalizing)| EventBody::Text { text, finalizing }),
        texts().prop_map(|text| EventBody::ReasoningDelta { text }),
        texts().prop_map(|text| EventBody::Reasoning { text }),
        messages().prop_map(|message| EventBody::MessageAdded { message: message.into() }),
        (proptest::option::of(usages()), finishes(), ms()).prop_map(|(usage, finish, ms)| {
            EventBody::TurnEnd {
                model: "test/model".to_owned(),
                error: None,
                usage,
                cost_usd: None,
                finish,
                ms,
                context_percent: None,
            }
        }),
        (0..3u32, texts())
            .prop_map(|(attempt, reason)| { EventBody::Retry { attempt, delay_ms: 5, reason } }),
    ]
}

fn of_calls() -> impl Strategy<Value = EventBody> {
    let waiting = EntryId::from(Uuid::from_u128(7));
    let plan = r#"{"steps":[{"step":"a","status":"completed"}]}"#;
    let entry = (
        select(vec!["message", "plan", "other"]),
        select(vec![r#"{"text":"hi"}"#, plan, "[1]", "null"]),
    );
    let denied = |reason| Decision::Deny { reason };
    prop_oneof![
        (tools(), texts()).prop_map(|(name, arguments)| EventBody::ToolCall { name, arguments }),
        (tools(), proptest::option::of(texts())).prop_map(|(name, arguments)| {
            let passed_to = None;
            EventBody::ToolStart { name, arguments, passed_to }
        }),
        texts().prop_map(|text| EventBody::ToolOutput { text, omitted: 3 }),
        (tools(), statuses(), texts()).prop_map(|(name, status, text)| {
            let content = Arc::new([Part::Text(text)]);
            EventBody::ToolEnd { name, status, ms: None, content, truncated: false, behind: None }
        }),
        texts().prop_map(move |question| EventBody::PermissionRequest {
            question,
            rule: None,
            waiting
        }),
        texts().prop_map(move |question| {
            EventBody::Question { options: vec![question.clone()], question, waiting }
        }),
        texts().prop_map(|text| EventBody::Answer { text, waiting: None }),
        tools().prop_map(|tool| {
            let args = RawJson::parse("{}").unwrap();
            EventBody::PlanCreated { count: 1, steps: vec![PlanStep { tool, args }] }
        }),
        tools().prop_map(|tool| {
            let args = RawJson::parse("[1]").unwrap();
            EventBody::PlanStepStart { index: 0, count: 1, tool, args }
        }),
        (tools(), statuses()).prop_map(|(tool, status)| {
            EventBody::PlanStepEnd { index: 0, count: 1, tool, status }
        }),
        prop_oneof![Just(Decision::ONCE), texts().prop_map(denied)]
            .prop_map(|decision| EventBody::PermissionDecision { decision, waiting: None }),
        entry.prop_map(|(name, data)| EventBody::Custom {
            name: name.to_owned(),
            data: RawJson::parse(data).unwrap(),
        }),
    ]
}

fn of_runs() -> impl Strategy<Value = EventBody> {
    let op = OpId::from(Uuid::from_u128(8));
    prop_oneof![
        texts().prop_map(|model| EventBody::RunStart { model }),
        Just(EventBody::Queued { kind: "steer", id: op }),
        Just(EventBody::Delivered { id: op }),
        Just(EventBody::LimitHit { limit: LimitKind::ToolCalls }),
        Just(EventBody::Status { phase: Phase::Tools }),
        texts().prop_map(|message| EventBody::Warning { message }),
        Just(EventBody::CacheBreak { reason: "tools changed".to_owned(), tokens: None }),
        Just(EventBody::Effect { effect: "compact".to_owned(), act: "ask" }),
        Just(EventBody::CompactionStart { effect: "compact".to_owned(), tokens: 9 }),
        any::<bool>().prop_map(|done| {
            EventBody::CompactionEnd { effect: "compact".to_owned(), done, tokens: Some(3) }
        }),
        Just(EventBody::Gap { missed: 3, from: Pos(1), until: None }),
        (endings(), usages()).prop_map(|(outcome, usage)| {
            let spent =
                Spent { usage, cost_usd: bowline_llm::Usd::from_dollars(f64::NAN), unpriced: 0 };
            let denials = vec![CallId::from("a")];
            EventBody::RunEnd(RunEnd {
                outcome,
                spent,
                undelivered: Vec::new(),
                denials,
                completion: None,
                handoff: None,
            })
        }),
        texts().prop_map(|error| EventBody::Rejected { error }),
        texts().prop_map(|error| EventBody::RunLost { error }),
    ]
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let of_child = prop_oneof![
        Just(EventBody::AgentStart { call: "a".into() }),
        (proptest::option::of(endings()), usages())
            .prop_map(|(outcome, usage)| EventBody::AgentEnd { outcome, usage }),
        bodies(),
    ];
    let whose = prop_oneof![
        4 => (Just(0usize), bodies()),
        1 => (1..3usize, of_child),
    ];
    let rest = (
        proptest::option::of(0..4u64),
        proptest::option::of(select(vec!["a", "b"])),
        any::<bool>(),
        0..3u32,
        0..10i64,
    );
    let event = (whose, rest).prop_map(|((agent, body), (pos, call, has_run, turn, ms))| Event {
        session: SessionId::from(Uuid::from_u128(1)),
        run: has_run.then(|| RunId::from(Uuid::from_u128(9))),
        turn,
        agent: Arc::clone(&agents()[agent]),
        ts: Timestamp::from_millisecond(ms).unwrap(),
        pos: pos.map(Pos),
        after: None,
        attempt: None,
        n: None,
        call_id: call.map(CallId::from),
        body,
    });
    proptest::collection::vec(event, 0..40)
}

proptest! {
    #[test]
    fn any_events_become_whole_lines_and_every_end_of_a_run_one_end(events in events()) {
        let is_end = |event: &&Event| event.agent.depth == 0 && event.body.is_terminal();
        let ends = events.iter().filter(is_end).count();
        for dialect in Dialect::ALL {
            let mut translator = dialect.translator();
            let mut told = 0;
            for event in &events {
                for line in say(&mut *translator, event) {
                    prop_assert!(!line.contains('\n'), "{dialect}: {line}");
                    let line: Value = serde_json::from_str(&line).unwrap();
                    prop_assert!(line.is_object(), "{dialect}: {line}");
                    told += usize::from(is_terminal(dialect, &line));
                }
            }
            prop_assert_eq!(told, ends, "{}", dialect);
        }
    }
}
