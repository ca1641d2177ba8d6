//! The lines of Claude Code's `--output-format stream-json`, and of these only the result, which is
//! what its `--output-format json` prints.
//!
//! A reply is told when it is whole, each of its parts as one line; what a sub-agent says names the
//! call that made it. Where Claude Code has its own ids, ours are derived from places in the log, so
//! that they are the same whenever it is read.

use std::collections::{BTreeMap, HashMap, HashSet};

use bowline_agent::entry::{CallStatus, Ending};
use bowline_agent::event::{Event, EventBody, RunEnd};
use bowline_agent::id::AgentId;
use bowline_agent::journal::Pos;
use bowline_llm::{CallId, StopReason, Usage, text_of};
use jiff::Timestamp;
use uuid::Uuid;

use super::answer::Answer;
use super::calls::{Call, Calls};
use super::side::Side;
use super::{Lines, Scene, Translator};
use crate::ending::complaint;

use self::line::{
    AssistantMessage, Block, CompactMetadata, DURING_EXECUTION, Denial, Line, ModelUsage,
    RunResult, System, TaskUsage, TokenUsage, ToolResult, UserMessage, What, stop_reason, subtype,
};

mod line;

#[derive(Debug, Default)]
pub(super) struct Claude {
    only_result: bool,
    scene: Scene,
    calls: Calls,
    answer: Answer,
    side: Side,
    // The sub-agents, what each agent asks, and what it is saying.
    tasks: HashMap<AgentId, Task>,
    models: HashMap<AgentId, String>,
    drafts: HashMap<AgentId, Vec<Block>>,
    denied: HashMap<CallId, Call>,
    // The calls about which a person has decided.
    decided: HashSet<(AgentId, CallId)>,
    // The call that a step of a plan is about to make: it is a message of its own.
    step: Option<CallId>,
    // How many tokens the first agent's conversation had before it was summarised, and whether
    // somebody asked for that.
    tokens: Option<u64>,
    is_demanded: bool,
    run: Run,
    place: Place,
}

/// A sub-agent at work.
#[derive(Debug)]
struct Task {
    made_by: CallId,
    began: Timestamp,
    tool_uses: u64,
}

/// What is counted of the run of the session's first agent.
#[derive(Debug, Default)]
struct Run {
    began: Option<Timestamp>,
    turns: u32,
    api_ms: u64,
    // What its own replies took, and why the last one stopped.
    usage: Usage,
    stop: Option<StopReason>,
    // What all model calls took, those of sub-agents and on the side too.
    models: BTreeMap<String, ModelUsage>,
}

/// Where the last line stood: how many lines its entry had led to, and how many were only live.
#[derive(Debug, Default)]
struct Place {
    at: Option<Pos>,
    line: u64,
    live_line: u64,
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
                if let Some(task) = self.tasks.get_mut(&event.agent.id) {
                    task.tool_uses += 1;
                }
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
            EventBody::TurnEnd { usage, .. } => {
                self.run.count(event, is_aside);
                self.reply(event, *usage, lines);
            }
            EventBody::PermissionDecision { .. } => {
                let call = event.call_id.clone().map(|call| (event.agent.id, call));
                self.decided.extend(call);
            }
            EventBody::Queued { kind: "compact", .. } if is_root => self.is_demanded = true,
            EventBody::Retry { attempt, delay_ms, reason } => {
                let retry = System::retry(*attempt, *delay_ms, reason);
                self.say(event, What::System(retry), lines);
            }
            EventBody::CompactionStart { tokens, .. } => self.compacting(event, *tokens),
            EventBody::CompactionEnd { done, tokens, .. } => {
                self.compacted(event, *done, *tokens, lines);
            }
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
            | EventBody::LimitHit { .. }
            | EventBody::Warning { .. }
            | EventBody::Custom { .. }
            | EventBody::Gap { .. }
            | EventBody::RunEnd(_)
            | EventBody::Rejected { .. }
            | EventBody::RunLost { .. }
            | EventBody::Question { .. }
            | EventBody::Answer { .. }
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
        self.is_demanded = false;
        self.run = Run { began: Some(event.ts), ..Run::default() };
        let scene = std::mem::take(&mut self.scene);
        let init = System::Init {
            cwd: scene.cwd.as_deref(),
            tools: &scene.tools,
            mcp_servers: [],
            model,
            slash_commands: [],
            skills: [],
            plugins: [],
        };
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
        if status == CallStatus::Denied {
            self.refused(event, &call, &content, lines);
        }
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

    /// Tells that a call was denied, unless a person did so.
    fn refused(&mut self, event: &Event, call: &Call, message: &str, lines: &mut Lines) {
        let id = event.call_id.clone().map(|id| (event.agent.id, id));
        if id.is_some_and(|id| self.decided.remove(&id)) {
            return;
        }
        let denied = System::PermissionDenied {
            tool_name: &call.name,
            tool_use_id: &call.id,
            agent_id: (event.agent.depth > 0).then_some(event.agent.id),
            message,
        };
        self.say(event, What::System(denied), lines);
    }

    fn task_started(&mut self, event: &Event, call: &CallId, lines: &mut Lines) {
        let task = Task { made_by: call.clone(), began: event.ts, tool_uses: 0 };
        self.tasks.insert(event.agent.id, task);
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
        let tool_use_id = self.parent(event);
        let task = self.tasks.remove(&event.agent.id);
        let usage = TaskUsage {
            total_tokens,
            tool_uses: task.as_ref().map_or(0, |task| task.tool_uses),
            duration_ms: task.map_or(0, |task| millis(task.began, event.ts)),
        };
        let ended = System::TaskNotification {
            task_id: event.agent.id,
            tool_use_id,
            status,
            output_file: "",
            summary: &outcome.and_then(complaint).unwrap_or_default(),
            usage,
        };
        self.say(event, What::System(ended), lines);
    }

    fn compacting(&mut self, event: &Event, tokens: u64) {
        if event.agent.depth == 0 {
            self.tokens = Some(tokens);
        }
    }

    /// Tells that a summary stands for the beginning of the conversation; of the first agent's.
    fn compacted(
        &mut self,
        event: &Event,
        done: bool,
        post_tokens: Option<u64>,
        lines: &mut Lines,
    ) {
        if event.agent.depth > 0 {
            return;
        }
        let trigger = if std::mem::take(&mut self.is_demanded) { "manual" } else { "auto" };
        if done {
            let pre_tokens = self.tokens.take();
            let compact_metadata = CompactMetadata { trigger, pre_tokens, post_tokens };
            self.say(event, What::System(System::CompactBoundary { compact_metadata }), lines);
        }
    }

    /// Returns the call that made an agent; of one that nobody saw begin, the agent itself stands for
    /// it.
    fn parent(&self, event: &Event) -> Option<String> {
        let id = event.agent.id;
        let made_by = self.tasks.get(&id).map(|task| task.made_by.to_string());
        (event.agent.depth > 0).then(|| made_by.unwrap_or_else(|| id.to_string()))
    }

    fn end(&mut self, event: &Event, end: &RunEnd, lines: &mut Lines) {
        let complaint = complaint(&end.outcome);
        let denials = end.denials.iter().filter_map(|id| self.denied.remove(id));
        let result = RunResult {
            subtype: subtype(&end.outcome),
            result: complaint.is_none().then(|| self.answer.text()),
            total_cost_usd: end.spent.cost(),
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

impl Run {
    /// Counts a model call that is over, of whatever agent.
    fn count(&mut self, event: &Event, is_aside: bool) {
        let EventBody::TurnEnd { model, usage, cost_usd, finish, ms, .. } = &event.body else {
            return;
        };
        if let Some(usage) = usage {
            let of_model = self.models.entry(model.clone()).or_insert_with(ModelUsage::none);
            of_model.add(*usage, *cost_usd);
        }
        if event.agent.depth > 0 {
            return;
        }
        self.api_ms = self.api_ms.saturating_add(ms.unwrap_or(0));
        if !is_aside {
            self.turns = self.turns.saturating_add(1);
            self.usage += usage.unwrap_or_default();
            self.stop = Some(finish.clone());
        }
    }

    /// Makes the result of a run of which nothing is known but what was counted.
    fn failed(&self, event: &Event, complaint: Option<String>) -> RunResult {
        RunResult {
            subtype: DURING_EXECUTION,
            is_error: complaint.is_some(),
            duration_ms: millis(self.began.unwrap_or(event.ts), event.ts),
            duration_api_ms: self.api_ms,
            num_turns: self.turns,
            stop_reason: self.stop.as_ref().and_then(stop_reason),
            result: None,
            errors: complaint.into_iter().collect(),
            total_cost_usd: None,
            usage: self.usage.into(),
            model_usage: self.models.clone(),
            permission_denials: Vec::new(),
        }
    }
}

fn millis(from: Timestamp, to: Timestamp) -> u64 {
    let took = to.as_millisecond().saturating_sub(from.as_millisecond());
    u64::try_from(took).unwrap_or(0)
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
