//! `docs/events.schema.json` is true: of what the command prints, and of every kind of event.
#![allow(clippy::unwrap_used, clippy::panic, reason = "these are tests")]

mod support;

use std::collections::BTreeSet;
use std::sync::Arc;

use bowline::agent::Spent;
use bowline::agent::entry::{
    Behind, CallStatus, Completion, CompletionStatus, Ending, Handoff, PlanStep, RunError,
    RunErrorKind,
};
use bowline::agent::event::{AgentMeta, Event, EventBody, Phase, RunEnd};
use bowline::agent::id::{EntryId, OpId, SessionId, Source as _, SystemSource};
use bowline::agent::journal::Pos;
use bowline::agent::limits::LimitKind;
use bowline::agent::op::Decision;
use bowline::llm::{CallId, ErrorKind, Message, Part, RawJson, StopReason, Usage};
use serde_json::{Value, json};
use support::{Home, Provider, Reply, results};

/// A schema of as many keywords as ours has; any other one is an error, so that none is ignored.
struct Schema(Value);

impl Schema {
    fn published() -> Self {
        let text = include_str!("../../../docs/events.schema.json");
        Self(serde_json::from_str(text).unwrap())
    }

    fn check(&self, event: &Value) {
        if let Err(wrong) = self.fits(&self.0, event) {
            panic!("{wrong}\n{event:#}");
        }
    }

    fn types(&self) -> BTreeSet<&str> {
        let branches = self.0["oneOf"].as_array().unwrap().iter();
        branches.map(|branch| branch["properties"]["type"]["const"].as_str().unwrap()).collect()
    }

    fn fits(&self, schema: &Value, value: &Value) -> Result<(), String> {
        for (keyword, wanted) in schema.as_object().unwrap() {
            self.keyword(schema, keyword, wanted, value)
                .map_err(|wrong| format!("{wrong} ({keyword})"))?;
        }
        Ok(())
    }

    fn keyword(
        &self,
        schema: &Value,
        keyword: &str,
        wanted: &Value,
        value: &Value,
    ) -> Result<(), String> {
        let wrong = |is_right: bool| match is_right {
            true => Ok(()),
            false => Err(format!("{value} is not {wanted}")),
        };
        match keyword {
            "$schema" | "$defs" | "title" | "description" => Ok(()),
            "$ref" => {
                let pointer = wanted.as_str().unwrap().strip_prefix('#').unwrap();
                self.fits(self.0.pointer(pointer).unwrap(), value)
            }
            "type" => {
                let types = wanted.as_array().cloned().unwrap_or_else(|| vec![wanted.clone()]);
                wrong(types.iter().any(|name| is_a(name.as_str().unwrap(), value)))
            }
            "const" => wrong(value == wanted),
            "enum" => wrong(wanted.as_array().unwrap().contains(value)),
            "minimum" => wrong(value.as_i64().is_none_or(|n| n >= wanted.as_i64().unwrap())),
            // The one pattern that there is.
            "pattern" => {
                assert_eq!(wanted, "^[0-9a-f]{32}$");
                let is_hex = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
                wrong(value.as_str().is_some_and(|id| id.len() == 32 && id.chars().all(is_hex)))
            }
            "required" => wrong(wanted.as_array().unwrap().iter().all(|name| {
                value.as_object().is_none_or(|object| object.contains_key(name.as_str().unwrap()))
            })),
            "properties" => wanted.as_object().unwrap().iter().try_for_each(|(name, schema)| {
                value.get(name).map_or(Ok(()), |value| self.fits(schema, value))
            }),
            "additionalProperties" => {
                let known = schema["properties"].as_object().unwrap();
                let more = value.as_object().into_iter().flat_map(serde_json::Map::keys);
                let unknown: Vec<_> = more.filter(|name| !known.contains_key(*name)).collect();
                wrong(unknown.is_empty()).map_err(|_| format!("unknown: {unknown:?}"))
            }
            "items" => {
                let items = value.as_array().into_iter().flatten();
                items.into_iter().try_for_each(|item| self.fits(wanted, item))
            }
            "oneOf" => {
                let branches = wanted.as_array().unwrap().iter();
                let fitting = branches.filter(|branch| self.fits(branch, value).is_ok()).count();
                match fitting {
                    1 => Ok(()),
                    _ => Err(format!("{value} fits {fitting} branches")),
                }
            }
            other => panic!("the test does not know the keyword {other}"),
        }
    }
}

fn is_a(name: &str, value: &Value) -> bool {
    match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "number" => value.is_number(),
        "integer" => value.is_i64() || value.is_u64(),
        other => panic!("no type {other}"),
    }
}

/// Checks every line and returns the types in order, repetitions left out.
fn checked(lines: &str) -> Vec<String> {
    let schema = Schema::published();
    let events = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let mut types: Vec<String> = Vec::new();
    let mut last_seq = None;
    for event in events {
        schema.check(&event);
        let seq = event["seq"].as_u64();
        assert!(seq > last_seq || last_seq.is_none(), "{event}");
        last_seq = seq;
        let name = event["type"].as_str().unwrap();
        if types.last().is_none_or(|last| last != name) {
            types.push(name.to_owned());
        }
    }
    types
}

#[test]
fn what_exec_prints_fits() {
    let provider = Provider::answering(|request| match results(request) {
        0 => Reply::Calls(vec![
            ("one".to_owned(), "bash", json!({ "command": "echo hello" })),
            ("two".to_owned(), "read", json!({ "path": "absent" })),
        ]),
        _ => Reply::Text("Said and done.".to_owned()),
    });
    let home = Home::new(&provider);
    let (code, out, error) = home.run(&["exec", "--json", "say hello"]);
    assert_eq!(code, 0, "{error}");
    let live = checked(&out);
    assert_eq!(live.first().map(String::as_str), Some("run_start"));
    assert_eq!(live.last().map(String::as_str), Some("run_end"));

    // What is read from the log later is the same, but for what was only live.
    let session = &home.sessions()[0];
    let (code, out, _) = home.run(&["sessions", "show", "--json", session]);
    assert_eq!(code, 0);
    let replayed = checked(&out);
    for name in ["turn_start", "tool_call", "tool_start", "tool_end", "text", "turn_end"] {
        assert!(live.iter().any(|live| live == name), "{name} in {live:?}");
        assert!(replayed.iter().any(|replayed| replayed == name), "{name} in {replayed:?}");
    }
}

#[test]
fn what_exec_prints_of_failures_and_limits_fits() {
    let provider = Provider::answering(|_| Reply::Status(401, "{}".to_owned()));
    let home = Home::new(&provider);
    let (code, out, _) = home.run(&["exec", "--json", "say hello"]);
    assert_eq!(code, 5);
    assert_eq!(checked(&out).last().map(String::as_str), Some("run_end"));

    let provider = Provider::answering(|request| {
        let call = format!("call_{}", results(request));
        Reply::Calls(vec![(call, "bash", json!({ "command": "true" }))])
    });
    let home = Home::new(&provider);
    let (code, out, _) = home.run(&["exec", "--json", "--max-turns", "2", "go on"]);
    assert_eq!(code, 3);
    assert!(checked(&out).iter().any(|name| name == "limit_hit"));
}

#[test]
fn every_kind_of_event_fits() {
    let schema = Schema::published();
    let session = SessionId::new(&SystemSource);
    let meta = AgentMeta {
        id: session.root(),
        name: "default".to_owned(),
        config: "default".to_owned(),
        depth: 0,
        parent: None,
        label: Some("✎".to_owned()),
        ancestors: Arc::new([]),
    };
    let agent = Arc::new(meta);
    let mut seen = BTreeSet::new();
    for body in bodies() {
        let event = Event {
            session,
            run: None,
            turn: 1,
            agent: Arc::clone(&agent),
            ts: SystemSource.now(),
            pos: Some(Pos(7)),
            after: None,
            attempt: None,
            n: None,
            call_id: Some(CallId::from("call_1")),
            body,
        };
        let printed = serde_json::to_value(event.printed(0)).unwrap();
        schema.check(&printed);
        assert_eq!(printed["type"], name(&event.body));
        seen.insert(name(&event.body));
    }
    assert_eq!(seen, schema.types(), "what is published and what there is");
}

/// Names a kind; a new one does not compile before it is here, in [`bodies`] and in the schema.
fn name(body: &EventBody) -> &'static str {
    match body {
        EventBody::AgentStart { .. } => "agent_start",
        EventBody::AgentEnd { .. } => "agent_end",
        EventBody::RunStart { .. } => "run_start",
        EventBody::TurnStart {} => "turn_start",
        EventBody::TextDelta { .. } => "text_delta",
        EventBody::TextReset {} => "text_reset",
        EventBody::Text { .. } => "text",
        EventBody::ReasoningDelta { .. } => "reasoning_delta",
        EventBody::Reasoning { .. } => "reasoning",
        EventBody::ToolCallDelta { .. } => "tool_call_delta",
        EventBody::ToolCall { .. } => "tool_call",
        EventBody::ToolStart { .. } => "tool_start",
        EventBody::ToolOutput { .. } => "tool_output",
        EventBody::ToolEnd { .. } => "tool_end",
        EventBody::MessageAdded { .. } => "message_added",
        EventBody::TurnEnd { .. } => "turn_end",
        EventBody::Queued { .. } => "queued",
        EventBody::Delivered { .. } => "delivered",
        EventBody::PlanCreated { .. } => "plan_created",
        EventBody::PlanStepStart { .. } => "plan_step_start",
        EventBody::PlanStepEnd { .. } => "plan_step_end",
        EventBody::PermissionRequest { .. } => "permission_request",
        EventBody::PermissionDecision { .. } => "permission_decision",
        EventBody::Question { .. } => "question",
        EventBody::Answer { .. } => "answer",
        EventBody::LimitHit { .. } => "limit_hit",
        EventBody::Retry { .. } => "retry",
        EventBody::Status { .. } => "status",
        EventBody::Warning { .. } => "warning",
        EventBody::CacheBreak { .. } => "cache_break",
        EventBody::Effect { .. } => "effect",
        EventBody::CompactionStart { .. } => "compaction_start",
        EventBody::CompactionEnd { .. } => "compaction_end",
        EventBody::Custom { .. } => "custom",
        EventBody::Gap { .. } => "gap",
        EventBody::RunEnd(_) => "run_end",
        EventBody::Rejected { .. } => "rejected",
        EventBody::RunLost { .. } => "run_lost",
    }
}

fn bodies() -> Vec<EventBody> {
    let text = || "text".to_owned();
    let id = || OpId::new(&SystemSource);
    let waiting = EntryId::new(&SystemSource);
    let args = || RawJson::parse("{}").unwrap();
    let usage = Usage { input: 10, output: 2, cache_read: Some(4), ..Usage::default() };
    let content: Arc<[Part]> = [Part::Text(text())].into();
    let ended = |outcome| {
        let spent = Spent { usage, cost_usd: bowline_llm::Usd::from_dollars(0.5), unpriced: 0 };
        EventBody::RunEnd(RunEnd {
            outcome,
            spent,
            undelivered: vec![id()],
            denials: vec![],
            completion: Some(Arc::new(Completion {
                status: CompletionStatus::Failed,
                summary: text(),
                files_modified: vec![text()],
                tests_run: vec![text()],
                caveats: Some(text()),
            })),
            handoff: Some(Arc::new(Handoff { target: text(), reason: text(), context: text() })),
        })
    };
    let failed = |kind| Ending::Failed(RunError { kind, message: text() });
    vec![
        EventBody::AgentStart { call: CallId::from("call_1") },
        EventBody::AgentEnd { outcome: Some(Ending::Done), usage },
        EventBody::AgentEnd { outcome: None, usage },
        EventBody::RunStart { model: text() },
        EventBody::TurnStart {},
        EventBody::TextDelta { text: text() },
        EventBody::TextReset {},
        EventBody::Text { text: text(), finalizing: true },
        EventBody::ReasoningDelta { text: text() },
        EventBody::Reasoning { text: text() },
        EventBody::ToolCallDelta { index: 0, name: Some(text()), arguments: text() },
        EventBody::ToolCall { name: text(), arguments: text() },
        EventBody::ToolStart { name: text(), arguments: Some(text()), passed_to: Some(text()) },
        EventBody::ToolOutput { text: text(), omitted: 0 },
        EventBody::ToolOutput { text: text(), omitted: 512 },
        EventBody::ToolEnd {
            name: text(),
            status: CallStatus::Interrupted,
            ms: Some(3),
            content,
            truncated: false,
            behind: Some(Behind::Awaited),
        },
        EventBody::MessageAdded { message: Message::user("hi").into() },
        EventBody::MessageAdded { message: Message::assistant("hi").into() },
        EventBody::TurnEnd {
            model: text(),
            error: Some(ErrorKind::Overloaded),
            usage: Some(usage),
            cost_usd: None,
            finish: StopReason::Other(text()),
            ms: None,
            context_percent: Some(10),
        },
        EventBody::Queued { kind: "steer", id: id() },
        EventBody::Delivered { id: id() },
        EventBody::PlanCreated { count: 1, steps: vec![PlanStep { tool: text(), args: args() }] },
        EventBody::PlanStepStart { index: 0, count: 1, tool: text(), args: args() },
        EventBody::PlanStepEnd { index: 0, count: 1, tool: text(), status: CallStatus::Error },
        EventBody::PermissionRequest { question: text(), rule: Some(text()), waiting },
        EventBody::PermissionDecision { decision: Decision::ONCE, waiting: None },
        EventBody::PermissionDecision {
            decision: Decision::Deny { reason: text() },
            waiting: Some(waiting),
        },
        EventBody::Question { question: text(), options: vec![text()], waiting },
        EventBody::Answer { text: text(), waiting: Some(waiting) },
        EventBody::LimitHit { limit: LimitKind::ToolCalls },
        EventBody::Retry { attempt: 2, delay_ms: 500, reason: text() },
        EventBody::Status { phase: Phase::Waiting },
        EventBody::Warning { message: text() },
        EventBody::CacheBreak { reason: text(), tokens: None },
        EventBody::CacheBreak { reason: text(), tokens: Some(40_000) },
        EventBody::Effect { effect: text(), act: "say" },
        EventBody::CompactionStart { effect: text(), tokens: 90_000 },
        EventBody::CompactionEnd { effect: text(), done: true, tokens: Some(20_000) },
        EventBody::CompactionEnd { effect: text(), done: false, tokens: None },
        EventBody::Custom { name: text(), data: RawJson::parse("[1]").unwrap() },
        EventBody::Gap { missed: 3, from: Pos(2), until: None },
        EventBody::Gap { missed: 3, from: Pos(2), until: Some(Pos(9)) },
        ended(Ending::Done),
        ended(Ending::Limit(LimitKind::CostUsd)),
        ended(failed(RunErrorKind::Model(ErrorKind::Auth))),
        ended(failed(RunErrorKind::Tool)),
        EventBody::Rejected { error: text() },
        EventBody::RunLost { error: text() },
    ]
}
