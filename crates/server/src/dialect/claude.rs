//! The lines of Claude Code's `--output-format stream-json`, and of these only the result, which is
//! what its `--output-format json` prints.
//!
//! A reply is told when it is whole, each of its parts as one line; what a sub-agent says names the
//! call that made it. Where Claude Code has its own ids, ours are derived from places in the log, so
//! that they are the same whenever it is read.

use std::collections::HashMap;

use bowline_agent::entry::{CallStatus, Ending, RunError, RunErrorKind};
use bowline_agent::event::{Event, EventBody, RunEnd};
use bowline_agent::id::{AgentId, SessionId};
use bowline_agent::journal::Pos;
use bowline_agent::limits::LimitKind;
use bowline_llm::{CallId, Usage, text_of};
use jiff::Timestamp;
use serde::Serialize;
use uuid::Uuid;

use super::answer::Answer;
use super::calls::{Arguments, Call, Calls};
use super::side::Side;
use super::{Lines, Scene, Translator};
use crate::ending::complaint;

#[derive(Debug, Default)]
pub(super) struct Claude {
    only_result: bool,
    scene: Scene,
    calls: Calls,
    answer: Answer,
    side: Side,
    // By whose call a sub-agent was made, what each agent asks, and what it is saying.
    made_by: HashMap<AgentId, CallId>,
    models: HashMap<AgentId, String>,
    drafts: HashMap<AgentId, Vec<Block>>,
    denied: HashMap<CallId, Call>,
    // The call that a step of a plan is about to make: it is a message of its own.
    step: Option<CallId>,
    // How many tokens the first agent's conversation had before it was summarised.
    tokens: Option<u64>,
    run: Run,
    place: Place,
}

/// What is counted of the run of the session's first agent.
#[derive(Debug, Default)]
struct Run {
    began: Option<Timestamp>,
    turns: u32,
    api_ms: u64,
}

/// Where the last line stood: how many lines its entry had led to, and how many were only live.
#[derive(Debug, Default)]
struct Place {
    at: Option<Pos>,
    line: u64,
    live_line: u64,
}

#[derive(Debug, Serialize)]
struct Line<'a> {
    #[serde(flatten)]
    what: What<'a>,
    session_id: SessionId,
    uuid: String,
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum What<'a> {
    System(System<'a>),
    Assistant { message: AssistantMessage<'a>, parent_tool_use_id: Option<String> },
    User { message: UserMessage<'a>, parent_tool_use_id: Option<String> },
    Result(Box<RunResult>),
}

#[derive(Debug, Serialize)]
#[serde(tag = "subtype", rename_all = "snake_case")]
enum System<'a> {
    Init {
        cwd: Option<&'a str>,
        tools: &'a [String],
        model: &'a str,
    },
    ApiRetry {
        attempt: u32,
        retry_delay_ms: u64,
        error_status: Option<u16>,
        error: &'a str,
    },
    CompactBoundary {
        compact_metadata: CompactMetadata,
    },
    TaskStarted {
        task_id: AgentId,
        tool_use_id: &'a str,
        description: &'a str,
    },
    TaskNotification {
        task_id: AgentId,
        tool_use_id: Option<String>,
        status: &'a str,
        summary: &'a str,
        usage: TaskUsage,
    },
}

#[derive(Debug, Serialize)]
struct CompactMetadata {
    pre_tokens: Option<u64>,
}

#[derive(Debug, Serialize)]
struct TaskUsage {
    total_tokens: u64,
}

#[derive(Debug, Serialize)]
struct AssistantMessage<'a> {
    id: String,
    r#type: &'static str,
    role: &'static str,
    model: &'a str,
    content: [&'a Block; 1],
    stop_reason: Option<&'a str>,
    stop_sequence: Option<&'a str>,
    usage: Option<TokenUsage>,
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Block {
    Thinking { thinking: String, signature: &'static str },
    Text { text: String },
    ToolUse { id: String, name: String, input: Arguments },
}

#[derive(Debug, Serialize)]
struct UserMessage<'a> {
    role: &'static str,
    content: [ToolResult<'a>; 1],
}

#[derive(Debug, Serialize)]
struct ToolResult<'a> {
    r#type: &'static str,
    tool_use_id: &'a str,
    content: String,
    is_error: bool,
}

/// `input_tokens` are those that no cache was involved in.
#[derive(Debug, Clone, Copy, Serialize)]
struct TokenUsage {
    input_tokens: u64,
    cache_creation_input_tokens: u64,
    cache_read_input_tokens: u64,
    output_tokens: u64,
}

#[derive(Debug, Serialize)]
struct RunResult {
    subtype: &'static str,
    is_error: bool,
    duration_ms: u64,
    duration_api_ms: u64,
    num_turns: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    errors: Vec<String>,
    total_cost_usd: Option<f64>,
    usage: TokenUsage,
    permission_denials: Vec<Denial>,
}

#[derive(Debug, Serialize)]
struct Denial {
    tool_name: String,
    tool_use_id: String,
    tool_input: Arguments,
}

impl Translator for Claude {
    fn set_scene(&mut self, scene: &Scene) {
        self.scene = scene.clone();
    }

    fn event(&mut self, event: &Event, lines: &mut Lines) {
        self.answer.hear(event);
        let (is_root, is_aside) = (event.agent.depth == 0, self.side.hear(event));
        match &event.body {
            EventBody::AgentStart { call } => self.task_started(event, call, lines),
            EventBody::AgentEnd { outcome, usage } => {
                self.task_ended(event, outcome.as_ref(), usage.total(), lines);
            }
            EventBody::RunStart { model } => self.start(event, model, lines),
            EventBody::Text { text, .. } => self.draft(event, Block::Text { text: text.clone() }),
            EventBody::Reasoning { text } if text.is_empty() => {}
            EventBody::Reasoning { text } => {
                self.draft(event, Block::Thinking { thinking: text.clone(), signature: "" });
            }
            EventBody::ToolCall { name, arguments } => {
                let call = self.calls.hear(event);
                let (name, input) = (name.clone(), arguments.as_str().into());
                self.draft(event, Block::ToolUse { id: call.id, name, input });
                if self.step.take().is_some_and(|step| Some(&step) == event.call_id.as_ref()) {
                    self.reply(event, None, lines);
                }
            }
            EventBody::PlanStepStart { .. } => self.step.clone_from(&event.call_id),
            EventBody::ToolStart { .. } => drop(self.calls.hear(event)),
            EventBody::ToolEnd { status, content, .. } => {
                self.result(event, *status, text_of(content), lines);
            }
            EventBody::TurnEnd { usage, ms, .. } => {
                self.run.count(event, u32::from(!is_aside), ms.unwrap_or(0));
                self.reply(event, *usage, lines);
            }
            EventBody::Retry { attempt, delay_ms, reason } => {
                let retry = System::retry(*attempt, *delay_ms, reason);
                self.say(event, What::System(retry), lines);
            }
            EventBody::CompactionStart { tokens, .. } => self.compacting(event, *tokens),
            EventBody::CompactionEnd { done, .. } => self.compacted(event, *done, lines),
            EventBody::RunEnd(end) if is_root => self.end(event, end, lines),
            EventBody::Rejected { error } | EventBody::RunLost { error } if is_root => {
                self.lost(event, error, lines);
            }
            EventBody::ToolOutput { .. }
            | EventBody::MessageAdded { .. }
            | EventBody::Queued { .. }
            | EventBody::Delivered { .. }
            | EventBody::PlanCreated { .. }
            | EventBody::PlanStepEnd { .. }
            | EventBody::PermissionRequest { .. }
            | EventBody::PermissionDecision { .. }
            | EventBody::LimitHit { .. }
            | EventBody::Warning { .. }
            | EventBody::Custom { .. }
            | EventBody::Gap { .. }
            | EventBody::RunEnd(_)
            | EventBody::Rejected { .. }
            | EventBody::RunLost { .. }
            | untold!() => {}
        }
    }
}

impl Claude {
    pub(super) fn only_result() -> Self {
        Self { only_result: true, ..Self::default() }
    }

    fn say(&mut self, event: &Event, what: What<'_>, lines: &mut Lines) {
        let uuid = self.place.next(event);
        if !self.only_result || matches!(what, What::Result(_)) {
            lines.say(&Line { what, session_id: event.session, uuid });
        }
    }

    fn start(&mut self, event: &Event, model: &str, lines: &mut Lines) {
        self.calls.forget(event.agent.id);
        self.drafts.remove(&event.agent.id);
        self.models.insert(event.agent.id, model.to_owned());
        if event.agent.depth > 0 {
            return;
        }
        self.denied.clear();
        self.run = Run { began: Some(event.ts), ..Run::default() };
        let scene = std::mem::take(&mut self.scene);
        let init = System::Init { cwd: scene.cwd.as_deref(), tools: &scene.tools, model };
        self.say(event, What::System(init), lines);
        self.scene = scene;
    }

    fn draft(&mut self, event: &Event, block: Block) {
        self.drafts.entry(event.agent.id).or_default().push(block);
    }

    fn reply(&mut self, event: &Event, usage: Option<Usage>, lines: &mut Lines) {
        let model = self.models.get(&event.agent.id).cloned().unwrap_or_default();
        let run = event.run.map(|run| run.to_string()).unwrap_or_default();
        let place = match &event.call_id {
            Some(step) => step.to_string(),
            None => event.turn.to_string(),
        };
        for block in self.drafts.remove(&event.agent.id).unwrap_or_default() {
            let message = AssistantMessage {
                id: format!("msg_{run}_{place}"),
                r#type: "message",
                role: "assistant",
                model: &model,
                content: [&block],
                stop_reason: None,
                stop_sequence: None,
                usage: usage.map(TokenUsage::from),
            };
            let parent_tool_use_id = self.parent(event);
            self.say(event, What::Assistant { message, parent_tool_use_id }, lines);
        }
    }

    fn result(&mut self, event: &Event, status: CallStatus, content: String, lines: &mut Lines) {
        let call = self.calls.end(event);
        let result = ToolResult {
            r#type: "tool_result",
            tool_use_id: &call.id,
            content,
            is_error: status.is_error(),
        };
        let message = UserMessage { role: "user", content: [result] };
        let parent_tool_use_id = self.parent(event);
        self.say(event, What::User { message, parent_tool_use_id }, lines);
        if let (CallStatus::Denied, 0, Some(id)) = (status, event.agent.depth, &event.call_id) {
            self.denied.insert(id.clone(), call);
        }
    }

    fn task_started(&mut self, event: &Event, call: &CallId, lines: &mut Lines) {
        self.made_by.insert(event.agent.id, call.clone());
        let agent = &event.agent;
        let started = System::TaskStarted {
            task_id: agent.id,
            tool_use_id: call.as_str(),
            description: agent.label.as_deref().unwrap_or(&agent.name),
        };
        self.say(event, What::System(started), lines);
    }

    fn task_ended(
        &mut self,
        event: &Event,
        outcome: Option<&Ending>,
        total_tokens: u64,
        lines: &mut Lines,
    ) {
        let status = match outcome {
            Some(Ending::Done) => "completed",
            Some(Ending::Canceled(_)) | None => "stopped",
            Some(Ending::Failed(_) | Ending::Limit(_) | Ending::NeedsApproval) => "failed",
        };
        let ended = System::TaskNotification {
            task_id: event.agent.id,
            tool_use_id: self.parent(event),
            status,
            summary: &outcome.and_then(complaint).unwrap_or_default(),
            usage: TaskUsage { total_tokens },
        };
        self.say(event, What::System(ended), lines);
        self.made_by.remove(&event.agent.id);
    }

    fn compacting(&mut self, event: &Event, tokens: u64) {
        if event.agent.depth == 0 {
            self.tokens = Some(tokens);
        }
    }

    /// Tells that a summary stands for the beginning of the conversation; of the first agent's.
    fn compacted(&mut self, event: &Event, done: bool, lines: &mut Lines) {
        if event.agent.depth == 0 && done {
            let compact_metadata = CompactMetadata { pre_tokens: self.tokens.take() };
            self.say(event, What::System(System::CompactBoundary { compact_metadata }), lines);
        }
    }

    /// Returns the call that made an agent; of one that nobody saw begin, the agent itself stands for
    /// it.
    fn parent(&self, event: &Event) -> Option<String> {
        let id = event.agent.id;
        let made_by = self.made_by.get(&id).map(ToString::to_string);
        (event.agent.depth > 0).then(|| made_by.unwrap_or_else(|| id.to_string()))
    }

    fn end(&mut self, event: &Event, end: &RunEnd, lines: &mut Lines) {
        let complaint = complaint(&end.outcome);
        let denials = end.denials.iter().filter_map(|id| self.denied.remove(id));
        let result = RunResult {
            subtype: subtype(&end.outcome),
            result: complaint.is_none().then(|| self.answer.text()),
            total_cost_usd: end.spent.cost(),
            usage: end.spent.usage.into(),
            permission_denials: denials.map(Denial::from).collect(),
            ..self.run.failed(event, complaint)
        };
        self.finish(event, result, lines);
    }

    fn lost(&mut self, event: &Event, error: &str, lines: &mut Lines) {
        let result = self.run.failed(event, Some(error.to_owned()));
        self.finish(event, result, lines);
    }

    fn finish(&mut self, event: &Event, result: RunResult, lines: &mut Lines) {
        self.say(event, What::Result(Box::new(result)), lines);
        self.run = Run::default();
    }
}

impl<'a> System<'a> {
    fn retry(attempt: u32, retry_delay_ms: u64, error: &'a str) -> Self {
        // They count retries, we the attempts.
        let attempt = attempt.saturating_sub(1);
        Self::ApiRetry { attempt, retry_delay_ms, error_status: None, error }
    }
}

impl Run {
    fn count(&mut self, event: &Event, turns: u32, api_ms: u64) {
        if event.agent.depth == 0 {
            self.turns = self.turns.saturating_add(turns);
            self.api_ms = self.api_ms.saturating_add(api_ms);
        }
    }

    /// Makes the result of a run of which nothing is known but what was counted.
    fn failed(&self, event: &Event, complaint: Option<String>) -> RunResult {
        let began = self.began.unwrap_or(event.ts);
        let took = event.ts.as_millisecond().saturating_sub(began.as_millisecond());
        RunResult {
            subtype: DURING_EXECUTION,
            is_error: complaint.is_some(),
            duration_ms: u64::try_from(took).unwrap_or(0),
            duration_api_ms: self.api_ms,
            num_turns: self.turns,
            result: None,
            errors: complaint.into_iter().collect(),
            total_cost_usd: None,
            usage: Usage::default().into(),
            permission_denials: Vec::new(),
        }
    }
}

impl Place {
    /// Names the next line: by the entry it follows from, or as what was told live after it.
    fn next(&mut self, event: &Event) -> String {
        let (line, name) = match event.pos {
            Some(pos) => {
                if self.at != Some(pos) {
                    (self.at, self.line) = (Some(pos), 0);
                }
                (&mut self.line, format!("{}", pos.0))
            }
            None => (&mut self.live_line, "live".to_owned()),
        };
        *line += 1;
        let name = format!("{name}/{line}");
        Uuid::new_v5(&Uuid::from(event.session), name.as_bytes()).to_string()
    }
}

/// What is the matter with a run that reached none of the limits that have a name of their own.
const DURING_EXECUTION: &str = "error_during_execution";

fn subtype(ending: &Ending) -> &'static str {
    match ending {
        Ending::Done => "success",
        Ending::Limit(LimitKind::ModelTurns) => "error_max_turns",
        Ending::Limit(LimitKind::CostUsd | LimitKind::CostBudget) => "error_max_budget_usd",
        Ending::Failed(RunError { kind: RunErrorKind::OutputInvalid, .. }) => {
            "error_max_structured_output_retries"
        }
        Ending::Limit(
            LimitKind::ToolCalls
            | LimitKind::RunTime
            | LimitKind::TotalTokens
            | LimitKind::TokenBudget
            | LimitKind::TimeBudget
            | LimitKind::Stall,
        )
        | Ending::Failed(_)
        | Ending::Canceled(_)
        | Ending::NeedsApproval => DURING_EXECUTION,
    }
}

impl From<Call> for Denial {
    fn from(call: Call) -> Self {
        Self {
            tool_name: call.name,
            tool_use_id: call.id,
            tool_input: call.arguments.as_str().into(),
        }
    }
}

impl From<Usage> for TokenUsage {
    fn from(usage: Usage) -> Self {
        let (read, write) = (usage.cache_read.unwrap_or(0), usage.cache_write.unwrap_or(0));
        Self {
            input_tokens: usage.input.saturating_sub(read.saturating_add(write)),
            cache_creation_input_tokens: write,
            cache_read_input_tokens: read,
            output_tokens: usage.output,
        }
    }
}
