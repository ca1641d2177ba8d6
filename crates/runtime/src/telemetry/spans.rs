//! From events to spans: a pure function, like every other view of a run.

use std::collections::HashMap;

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use serde_json::Value as Json;
use uuid::Uuid;

use bowline_agent::Redaction;
use bowline_agent::entry::{CallStatus, Ending, RunErrorKind};
use bowline_agent::event::{AgentMeta, Event, EventBody, RunEnd};
use bowline_agent::id::{AgentId, RunId};
use bowline_llm::{CallId, ErrorKind, Message, Part, StopReason, Usage, Usd, text_of};

use crate::config::{TraceCompat, TraceContent};

use super::content::{self, Content};
use super::span::{Attributes, Moment, Operation, Parent, Span, SpanId, TraceId};

/// Pingu records so many bytes of what the user says, whatever else it records.
const PINGU_PROMPT: usize = 200;

/// Turns the events of a session into spans. It must see those of all its agents.
///
/// The ids of spans follow from those of the session, so that a run that goes on in another process
/// goes on in the same trace: the trace is named like the run of the first agent.
#[derive(Debug)]
pub struct Spans {
    content: Content,
    compat: Option<TraceCompat>,
    parent: Option<Parent>,
    runs: HashMap<AgentId, Run>,
    calls: HashMap<(AgentId, CallId), Call>,
    /// Where the runs of sub-agents belong: below the calls that made them.
    places: HashMap<AgentId, (TraceId, SpanId)>,
}

/// A run that is open.
#[derive(Debug)]
struct Run {
    id: RunId,
    trace: TraceId,
    span: SpanId,
    parent: Option<SpanId>,
    start: Timestamp,
    model: String,
    turn: Option<Turn>,
    /// What was sent to the model and is in no span yet.
    sent: Vec<Json>,
    /// What the user said before the model was asked, and what the model said last.
    prompt: Vec<Json>,
    answer: Option<Json>,
}

/// A model call that is open.
#[derive(Debug)]
struct Turn {
    number: u32,
    start: Timestamp,
    retries: Vec<Moment>,
    parts: Vec<Json>,
}

/// A tool call that has not ended.
#[derive(Debug, Default)]
struct Call {
    arguments: Option<String>,
    start: Option<Timestamp>,
}

/// What is told of a model call that is over.
struct TurnEnd<'a> {
    model: &'a str,
    error: Option<ErrorKind>,
    usage: Option<Usage>,
    cost: Option<Usd>,
    finish: &'a StopReason,
    ms: Option<u64>,
}

/// What is told of a tool call that is over.
struct ToolEnd<'a> {
    name: &'a str,
    status: CallStatus,
    content: &'a [Part],
}

impl Spans {
    /// Makes a projection. The root of everything is `parent`, if there is one.
    pub fn new(
        content: TraceContent,
        compat: Option<TraceCompat>,
        parent: Option<Parent>,
        redaction: Redaction,
    ) -> Self {
        Self {
            content: Content::new(content, redaction),
            compat,
            parent,
            runs: HashMap::new(),
            calls: HashMap::new(),
            places: HashMap::new(),
        }
    }

    /// Takes an event in, and returns the span that is over with it.
    pub fn event(&mut self, event: &Event) -> Option<Span> {
        let agent = &event.agent;
        match &event.body {
            EventBody::AgentStart { call } => self.place(agent, call),
            EventBody::AgentEnd { .. } => {
                self.places.remove(&agent.id);
            }
            EventBody::RunStart { model } => self.run_start(event, model),
            EventBody::RunEnd(end) => return self.run_end(event, end),
            EventBody::RunLost { error } => return self.run_lost(event, error),
            EventBody::ToolCall { name, arguments } => self.tool_call(event, name, arguments),
            EventBody::ToolStart { arguments, .. } => {
                let call = self.calls.entry((agent.id, event.call_id.clone()?)).or_default();
                call.start = Some(event.ts);
                call.arguments = arguments.clone().or(call.arguments.take());
            }
            EventBody::ToolEnd { name, status, content, .. } => {
                return self.tool_end(event, &ToolEnd { name, status: *status, content });
            }
            EventBody::TurnEnd { model, error, usage, cost_usd, finish, ms, .. } => {
                let (error, usage, cost, ms) = (*error, *usage, *cost_usd, *ms);
                return self.turn_end(event, &TurnEnd { model, error, usage, cost, finish, ms });
            }
            EventBody::TurnStart {} => self.runs.get_mut(&agent.id)?.turn = Some(Turn::new(event)),
            EventBody::Retry { attempt, delay_ms, reason } => {
                let reason = self.content.clean(reason);
                let turn = self.runs.get_mut(&agent.id)?.turn.as_mut()?;
                turn.retries.push(retry(event.ts, *attempt, *delay_ms, reason));
            }
            EventBody::Text { text, .. } => self.said(agent.id, || content::text(text)),
            EventBody::Reasoning { text } => self.said(agent.id, || content::reasoning(text)),
            EventBody::MessageAdded { message } => self.sent(agent.id, message),
            EventBody::TextDelta { .. }
            | EventBody::TextReset {}
            | EventBody::ReasoningDelta { .. }
            | EventBody::ToolCallDelta { .. }
            | EventBody::ToolOutput { .. }
            | EventBody::Queued { .. }
            | EventBody::Delivered { .. }
            | EventBody::PlanCreated { .. }
            | EventBody::PlanStepStart { .. }
            | EventBody::PlanStepEnd { .. }
            | EventBody::PermissionRequest { .. }
            | EventBody::PermissionDecision { .. }
            | EventBody::Question { .. }
            | EventBody::Answer { .. }
            | EventBody::LimitHit { .. }
            | EventBody::Status { .. }
            | EventBody::Warning { .. }
            | EventBody::CacheBreak { .. }
            | EventBody::Effect { .. }
            | EventBody::CompactionStart { .. }
            | EventBody::CompactionEnd { .. }
            | EventBody::Custom { .. }
            | EventBody::Gap { .. }
            | EventBody::Rejected { .. } => {}
        }
        None
    }

    /// Takes in a part of what the model says in the open model call.
    fn said(&mut self, agent: AgentId, part: impl FnOnce() -> Json) {
        if self.content.is_on()
            && let Some(turn) = self.runs.get_mut(&agent).and_then(|run| run.turn.as_mut())
        {
            turn.parts.push(part());
        }
    }

    /// Takes in a message for the next model call.
    fn sent(&mut self, agent: AgentId, message: &Message) {
        if self.content.is_on()
            && let Some(run) = self.runs.get_mut(&agent)
            && let Some(sent) = content::sent(message)
        {
            if run.answer.is_none() {
                run.prompt.push(sent.clone());
            }
            run.sent.push(sent);
        }
    }

    /// Finds the place of a sub-agent's runs.
    fn place(&mut self, agent: &AgentMeta, call: &CallId) {
        let Some(parent) = agent.parent else { return };
        if let Some(run) = self.runs.get(&parent) {
            self.places.insert(agent.id, (run.trace, call_span(parent, run.id, call)));
        }
    }

    fn run_start(&mut self, event: &Event, model: &str) {
        let (Some(id), agent) = (event.run, event.agent.id) else { return };
        let place = self.places.get(&agent).copied();
        let place = place.or_else(|| self.parent.map(|parent| (parent.trace, parent.span)));
        let run = Run {
            id,
            trace: place.map_or(TraceId(Uuid::from(id).into_bytes()), |(trace, _)| trace),
            span: SpanId::of(&["run", &agent.to_string(), &id.to_string()]),
            parent: place.map(|(_, span)| span),
            start: event.ts,
            model: model.to_owned(),
            turn: None,
            sent: Vec::new(),
            prompt: Vec::new(),
            answer: None,
        };
        self.runs.insert(agent, run);
    }

    fn run_end(&mut self, event: &Event, end: &RunEnd) -> Option<Span> {
        let mut span = self.close(event)?;
        set_usage(&mut span.attributes, &end.spent.usage);
        span.attributes.set_some("bowline.cost_usd", end.spent.cost());
        span.attributes.set("bowline.outcome", end.outcome.as_str());
        let (kind, message) = match &end.outcome {
            Ending::Done => return Some(span),
            Ending::Failed(error) => {
                let kind = match error.kind {
                    RunErrorKind::Model(kind) => word(&kind),
                    kind => word(&kind),
                };
                (kind, self.content.clean(&error.message))
            }
            Ending::Limit(limit) => ("limit".to_owned(), format!("limit: {}", word(limit))),
            Ending::Canceled(reason) => {
                ("canceled".to_owned(), format!("canceled: {}", word(reason)))
            }
            Ending::NeedsApproval => {
                ("needs_approval".to_owned(), "a call needed an approval or an answer".to_owned())
            }
        };
        span.fail(kind, message);
        Some(span)
    }

    fn run_lost(&mut self, event: &Event, error: &str) -> Option<Span> {
        let message = self.content.clean(error);
        let mut span = self.close(event)?;
        span.fail("lost".to_owned(), message);
        Some(span)
    }

    /// Ends the span of a run, whatever became of it.
    fn close(&mut self, event: &Event) -> Option<Span> {
        let agent = &event.agent;
        let run = self.runs.remove(&agent.id)?;
        self.calls.retain(|(of, _), _| *of != agent.id);
        let mut attributes = self.common(Operation::InvokeAgent, event, &run.model);
        attributes.set("bowline.run.id", run.id.to_string());
        let name = match self.compat {
            Some(TraceCompat::Pingu) => {
                self.pingu_run(event, &run, &mut attributes);
                "agent.run".to_owned()
            }
            None if self.content.is_on() => {
                attributes.set("gen_ai.input.messages", self.content.messages(&run.prompt));
                let answer = run.answer.as_slice();
                attributes.set("gen_ai.output.messages", self.content.messages(answer));
                format!("invoke_agent {}", agent.config)
            }
            None => format!("invoke_agent {}", agent.config),
        };
        Some(Span {
            trace: run.trace,
            id: run.span,
            parent: run.parent,
            name,
            operation: Operation::InvokeAgent,
            start: run.start,
            end: event.ts,
            attributes,
            events: Vec::new(),
            error: None,
        })
    }

    fn turn_end(&mut self, event: &Event, end: &TurnEnd<'_>) -> Option<Span> {
        let mut attributes = self.common(Operation::Chat, event, end.model);
        let run = self.runs.get_mut(&event.agent.id)?;
        let turn = run.turn.take().unwrap_or_else(|| Turn::new(event));
        let finish = finish(end.finish);
        attributes.set("gen_ai.response.finish_reasons", vec![finish.clone()]);
        if let Some(usage) = &end.usage {
            set_usage(&mut attributes, usage);
        }
        attributes.set_some("bowline.cost_usd", end.cost.map(Usd::to_dollars));
        let sent = std::mem::take(&mut run.sent);
        if self.content.is_on() {
            let said = content::said(&turn.parts, &finish);
            if self.compat.is_none() {
                attributes.set("gen_ai.input.messages", self.content.messages(&sent));
                let said = std::slice::from_ref(&said);
                attributes.set("gen_ai.output.messages", self.content.messages(said));
            }
            run.answer = Some(said);
        }
        let name = match self.compat {
            Some(TraceCompat::Pingu) => {
                end.pingu(turn.number, &mut attributes);
                "llm.chat".to_owned()
            }
            None => format!("chat {}", split(end.model).1),
        };
        let mut span = Span {
            trace: run.trace,
            id: turn_span(event.agent.id, run.id, turn.number),
            parent: Some(run.span),
            name,
            operation: Operation::Chat,
            start: end.began(event, turn.start),
            end: event.ts,
            attributes,
            events: turn.retries,
            error: None,
        };
        if let Some((kind, message)) = end.failure() {
            span.fail(kind, message.to_owned());
        }
        Some(span)
    }

    fn tool_call(&mut self, event: &Event, name: &str, arguments: &str) {
        let Some(id) = &event.call_id else { return };
        let call = Call { arguments: Some(arguments.to_owned()), start: None };
        self.calls.insert((event.agent.id, id.clone()), call);
        self.said(event.agent.id, || content::call(id.as_str(), name, arguments));
    }

    fn tool_end(&mut self, event: &Event, end: &ToolEnd<'_>) -> Option<Span> {
        let id = event.call_id.as_ref()?;
        let call = self.calls.remove(&(event.agent.id, id.clone())).unwrap_or_default();
        let run = self.runs.get(&event.agent.id)?;
        let mut attributes = self.common(Operation::ExecuteTool, event, &run.model);
        attributes.set("gen_ai.tool.name", end.name);
        attributes.set("gen_ai.tool.call.id", id.as_str());
        attributes.set("gen_ai.tool.type", "function");
        attributes.set("bowline.tool.status", end.status.as_str());
        let output = text_of(end.content);
        let arguments = call.arguments.as_deref().unwrap_or_default();
        let (given, made) = match self.compat {
            Some(TraceCompat::Pingu) => {
                attributes.set("openai.agents.span_type", "function");
                attributes.set("gen_ai.tool.output_length", output.len() as u64);
                ("gen_ai.tool.input", "gen_ai.tool.output")
            }
            None => ("gen_ai.tool.call.arguments", "gen_ai.tool.call.result"),
        };
        if self.content.is_on() {
            attributes.set(given, self.content.text(arguments));
            attributes.set(made, self.content.text(&output));
        }
        let mut span = Span {
            trace: run.trace,
            id: call_span(event.agent.id, run.id, id),
            parent: Some(run.span),
            name: match self.compat {
                Some(TraceCompat::Pingu) => end.name.to_owned(),
                None => format!("execute_tool {}", end.name),
            },
            operation: Operation::ExecuteTool,
            // One that never started is over at once.
            start: call.start.unwrap_or(event.ts),
            end: event.ts,
            attributes,
            events: Vec::new(),
            error: None,
        };
        let (kind, message) = match end.status {
            CallStatus::Ok => return Some(span),
            CallStatus::Error => ("tool_error", "the tool failed"),
            CallStatus::Denied => ("denied", "the call was not allowed"),
            CallStatus::Skipped => ("skipped", "the call was not started: something came first"),
            CallStatus::Canceled => ("canceled", "the run was cancelled"),
            CallStatus::Timeout => ("timeout", "the call took too long"),
            CallStatus::Interrupted => ("interrupted", "nobody knows what the call did"),
        };
        span.fail(kind.to_owned(), message.to_owned());
        Some(span)
    }

    /// Returns what every span has.
    fn common(&self, operation: Operation, event: &Event, model: &str) -> Attributes {
        let (agent, (provider, model)) = (&event.agent, split(model));
        let mut attributes = Attributes::default();
        attributes.set("gen_ai.operation.name", operation.as_str());
        if operation != Operation::ExecuteTool {
            attributes.set("gen_ai.provider.name", provider_name(provider));
            attributes.set("gen_ai.request.model", model);
        }
        attributes.set("gen_ai.conversation.id", event.session.to_string());
        attributes.set("gen_ai.agent.name", agent.config.as_str());
        attributes.set("gen_ai.agent.id", agent.id.to_string());
        attributes.set("bowline.agent.name", agent.name.as_str());
        attributes
    }

    fn pingu_run(&self, event: &Event, run: &Run, attributes: &mut Attributes) {
        attributes.set("openai.agents.agent.name", event.agent.config.as_str());
        attributes.set("session.id", event.session.to_string());
        if self.content.is_on() {
            let said =
                run.prompt.iter().rev().find_map(|said| said["parts"][0]["content"].as_str());
            let said = self.content.text(said.unwrap_or_default());
            let end = said.floor_char_boundary(PINGU_PROMPT);
            attributes.set("user.message", said.get(..end).unwrap_or_default());
        }
    }
}

impl TurnEnd<'_> {
    /// Returns when the call began. Read from a log it is announced when it is over.
    fn began(&self, event: &Event, announced: Timestamp) -> Timestamp {
        let ms = self.ms.and_then(|ms| i64::try_from(ms).ok()).unwrap_or(0);
        let began = event.ts.checked_sub(SignedDuration::from_millis(ms));
        began.map_or(announced, |began| began.min(announced))
    }

    /// Returns what went wrong: its kind, and in words.
    fn failure(&self) -> Option<(String, &'static str)> {
        match (self.error, self.finish) {
            (Some(kind), _) => Some((word(&kind), "the model call failed")),
            (None, StopReason::Canceled) => {
                Some(("canceled".to_owned(), "the model call was stopped"))
            }
            (None, StopReason::Error) => {
                Some(("error".to_owned(), "the provider reported a failure"))
            }
            (None, _) => None,
        }
    }

    fn pingu(&self, number: u32, attributes: &mut Attributes) {
        // Theirs are counted from 0.
        attributes.set("llm.iteration", u64::from(number.saturating_sub(1)));
        attributes.set("llm.model", split(self.model).1);
        attributes.set_some("llm.input_tokens", self.usage.map(|usage| usage.input));
        attributes.set_some("llm.output_tokens", self.usage.map(|usage| usage.output));
    }
}

impl Turn {
    fn new(event: &Event) -> Self {
        Self { number: event.turn, start: event.ts, retries: Vec::new(), parts: Vec::new() }
    }
}

impl Span {
    fn fail(&mut self, kind: String, message: String) {
        self.attributes.set("error.type", kind);
        self.error = Some(message);
    }
}

fn retry(at: Timestamp, attempt: u32, delay_ms: u64, reason: String) -> Moment {
    let mut attributes = Attributes::default();
    attributes.set("bowline.retry.attempt", u64::from(attempt));
    attributes.set("bowline.retry.delay_ms", delay_ms);
    attributes.set("bowline.retry.reason", reason);
    Moment { at, name: "bowline.retry", attributes }
}

fn turn_span(agent: AgentId, run: RunId, turn: u32) -> SpanId {
    SpanId::of(&["turn", &agent.to_string(), &run.to_string(), &turn.to_string()])
}

fn call_span(agent: AgentId, run: RunId, call: &CallId) -> SpanId {
    SpanId::of(&["call", &agent.to_string(), &run.to_string(), call.as_str()])
}

fn set_usage(attributes: &mut Attributes, usage: &Usage) {
    attributes.set("gen_ai.usage.input_tokens", usage.input);
    attributes.set("gen_ai.usage.output_tokens", usage.output);
    attributes.set_some("gen_ai.usage.cache_read.input_tokens", usage.cache_read);
    attributes.set_some("gen_ai.usage.cache_creation.input_tokens", usage.cache_write);
    attributes.set_some("gen_ai.usage.reasoning.output_tokens", usage.reasoning);
}

/// Splits `provider/model`.
fn split(model: &str) -> (&str, &str) {
    model.split_once('/').unwrap_or(("", model))
}

/// Returns how the conventions call a provider, where they have a name for it.
fn provider_name(provider: &str) -> &str {
    match provider {
        "gemini" => "gcp.gemini",
        "mistral" => "mistral_ai",
        "xai" => "x_ai",
        other => other,
    }
}

/// Returns why a model stopped in the words of the conventions.
fn finish(stop: &StopReason) -> String {
    match stop {
        StopReason::EndTurn => "stop".to_owned(),
        StopReason::ToolUse => "tool_call".to_owned(),
        StopReason::MaxTokens => "length".to_owned(),
        StopReason::Paused => "paused".to_owned(),
        StopReason::Refused => "content_filter".to_owned(),
        StopReason::Canceled => "canceled".to_owned(),
        StopReason::Error => "error".to_owned(),
        StopReason::Other(reason) => reason.clone(),
    }
}

/// Returns a unit variant as it is written in logs and events.
fn word(value: &impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(Json::String(word)) => word,
        Ok(_) | Err(_) => "_OTHER".to_owned(),
    }
}
