//! Events: what an agent tells those who watch it.
//!
//! Committed events follow from entries and carry their position; a reader of the log gets the
//! same ones. Live events (deltas, progress, retries) are never replayed: the next commit
//! supersedes them.

use std::sync::Arc;

use jiff::Timestamp;
use serde::ser::SerializeStruct as _;
use serde::{Deserialize, Serialize};

use bowline_llm::{CallId, ErrorKind, MessageRef, Part, RawJson, Spent, StopReason, Usage, Usd};

use crate::entry::{Behind, CallStatus, Completion, Ending, Handoff, PlanStep};
use crate::id::{AgentId, EntryId, OpId, RunId, SessionId};
use crate::journal::Pos;
use crate::limits::LimitKind;
use crate::op::Decision;

/// The version of the envelope.
pub const VERSION: u32 = 1;

/// Something that happened, in an envelope that says to whom.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// The session.
    pub session: SessionId,
    /// The run; `None` between runs.
    pub run: Option<RunId>,
    /// The model call of the run, from 1; 0 before the first.
    pub turn: u32,
    /// Who says it.
    pub agent: Arc<AgentMeta>,
    /// When it happened.
    pub ts: Timestamp,
    /// The position of the entry it follows from; `None` for a live event.
    pub pos: Option<Pos>,
    /// Of a live event: the last position that was published before it.
    pub after: Option<Pos>,
    /// Of a live event of a model call: which attempt, from 1.
    pub attempt: Option<u32>,
    /// Of a delta: its number within its attempt, from 0.
    pub n: Option<u64>,
    /// The tool call it is about.
    pub call_id: Option<CallId>,
    /// What happened.
    pub body: EventBody,
}

/// Who says something.
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

/// What happened.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", content = "data", rename_all = "snake_case")]
pub enum EventBody {
    /// A sub-agent begins its first run.
    AgentStart {
        /// The call that made it.
        call: CallId,
    },
    /// A sub-agent is done: the call that made it is about to end.
    AgentEnd {
        /// How its last run ended; `None` if it was stopped before one ended.
        #[serde(serialize_with = "outcome_name")]
        outcome: Option<Ending>,
        /// What it has spent in its life, its own sub-agents and tools included.
        usage: Usage,
    },
    /// A run begins.
    RunStart {
        /// The model it asks, as `provider/model`.
        model: String,
    },
    /// A model call begins.
    TurnStart {},
    /// More text of the reply.
    TextDelta {
        /// The text.
        text: String,
    },
    /// All deltas of this turn so far are void.
    TextReset {},
    /// A whole text of the reply.
    Text {
        /// The text.
        text: String,
        /// Whether the reply ends with it.
        finalizing: bool,
    },
    /// More reasoning.
    ReasoningDelta {
        /// The text.
        text: String,
    },
    /// A whole block of reasoning.
    Reasoning {
        /// The text; empty if the provider shows none.
        text: String,
    },
    /// More of a tool call.
    ToolCallDelta {
        /// Which call of the reply, from 0.
        index: usize,
        /// The tool; in the first delta of a call.
        #[serde(skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// The next piece of the arguments.
        arguments: String,
    },
    /// The model calls a tool.
    ToolCall {
        /// The tool.
        name: String,
        /// The arguments as the model wrote them.
        arguments: String,
    },
    /// A call has started.
    ToolStart {
        /// The tool.
        name: String,
        /// The arguments it runs with, if the gate rewrote them.
        #[serde(skip_serializing_if = "Option::is_none")]
        arguments: Option<String>,
        /// The tool that is really called, where this one only passes calls on.
        #[serde(skip_serializing_if = "Option::is_none")]
        passed_to: Option<String>,
    },
    /// A tool shows what it is doing.
    ToolOutput {
        /// What it shows.
        text: String,
        /// How many bytes before the text were left out, because the tool showed them faster than
        /// they could be told.
        #[serde(skip_serializing_if = "is_zero")]
        omitted: u64,
    },
    /// A call is over.
    ToolEnd {
        /// The tool.
        name: String,
        /// How it ended.
        status: CallStatus,
        /// Milliseconds it ran; absent if it never started.
        #[serde(skip_serializing_if = "Option::is_none")]
        ms: Option<u64>,
        /// What the model gets to see.
        content: Arc<[Part]>,
        /// Whether the model sees only a part of the output.
        truncated: bool,
        /// What becomes of the work that goes on behind it; absent if none does.
        #[serde(skip_serializing_if = "Option::is_none")]
        behind: Option<Behind>,
    },
    /// The conversation has a new message.
    MessageAdded {
        /// The message.
        message: MessageRef,
    },
    /// A model call is over.
    TurnEnd {
        /// The model asked last, as `provider/model`.
        model: String,
        /// What kind of failure it ended with, after all attempts; absent if it did not fail.
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<ErrorKind>,
        /// Its tokens.
        usage: Option<Usage>,
        /// What it cost in US dollars, if all prices are known.
        cost_usd: Option<Usd>,
        /// Why the model stopped.
        finish: StopReason,
        /// How long it took, in milliseconds.
        ms: Option<u64>,
        /// How much of the context window the request took, in percent; absent if unknown.
        #[serde(skip_serializing_if = "Option::is_none")]
        context_percent: Option<u8>,
    },
    /// An operation was accepted and waits for its moment.
    Queued {
        /// What kind it is: `prompt`, `steer`, `queue`, `follow_up`.
        kind: &'static str,
        /// The operation.
        id: OpId,
    },
    /// An operation was delivered.
    Delivered {
        /// The operation.
        id: OpId,
    },
    /// There is a plan; it takes the place of the one before it.
    PlanCreated {
        /// How many steps it has.
        count: usize,
        /// The steps.
        steps: Vec<PlanStep>,
    },
    /// A step of the plan begins: it becomes a call.
    PlanStepStart {
        /// Which step, from 0.
        index: usize,
        /// How many steps the plan has.
        count: usize,
        /// The tool.
        tool: String,
        /// Its arguments.
        args: RawJson,
    },
    /// A step of the plan is over; what came of it is told with the end of its call.
    PlanStepEnd {
        /// Which step, from 0.
        index: usize,
        /// How many steps the plan has.
        count: usize,
        /// The tool.
        tool: String,
        /// How it ended.
        status: CallStatus,
    },
    /// A call waits for permission.
    PermissionRequest {
        /// What is asked.
        question: String,
        /// What may be allowed for longer than once, as a rule.
        #[serde(skip_serializing_if = "Option::is_none")]
        rule: Option<String>,
        /// The entry that says that the call waits: whoever decides may name it.
        waiting: EntryId,
    },
    /// Somebody decided.
    PermissionDecision {
        /// The decision.
        decision: Decision,
        /// The wait it is for, if whoever decided said so.
        #[serde(skip_serializing_if = "Option::is_none")]
        waiting: Option<EntryId>,
    },
    /// A call asks a person something.
    Question {
        /// What is asked.
        question: String,
        /// Answers to choose from.
        options: Vec<String>,
        /// The entry that says that the call waits: whoever answers may name it.
        waiting: EntryId,
    },
    /// A call was answered.
    Answer {
        /// The answer.
        text: String,
        /// The wait it is for, if whoever answered said so.
        #[serde(skip_serializing_if = "Option::is_none")]
        waiting: Option<EntryId>,
    },
    /// A limit of the run was reached.
    LimitHit {
        /// Which one.
        limit: LimitKind,
    },
    /// A model call failed and is tried again.
    Retry {
        /// Which attempt comes next; the first is 1.
        attempt: u32,
        /// How long it waits, in milliseconds.
        delay_ms: u64,
        /// What went wrong.
        reason: String,
    },
    /// What the agent is doing.
    Status {
        /// The phase.
        phase: Phase,
    },
    /// Something a person should know.
    Warning {
        /// What.
        message: String,
    },
    /// What was sent before is sent differently from here on: the provider's cache is lost.
    CacheBreak {
        /// Why: `system changed`, `tools changed`, or the effect that changed the view.
        reason: String,
        /// The tokens of the next request, as estimated; absent if nobody knows.
        #[serde(skip_serializing_if = "Option::is_none")]
        tokens: Option<u64>,
    },
    /// An effect acted.
    Effect {
        /// Its name.
        effect: String,
        /// What it did: `say`, `rewrite`, `ask`, `note`, `warn`, `stop`, `fail`. What follows from
        /// that has events of its own.
        act: &'static str,
    },
    /// The conversation is about to be summarised: a model call up to `compaction_end` is for that,
    /// if there is one.
    CompactionStart {
        /// The effect that asks for it.
        effect: String,
        /// The tokens of the next request, as estimated.
        tokens: u64,
    },
    /// The attempt to summarise the conversation is over.
    CompactionEnd {
        /// The effect that asked for it.
        effect: String,
        /// Whether a summary stands for the beginning of the conversation now.
        done: bool,
        /// The tokens of the next request, as estimated; absent if nothing changed.
        #[serde(skip_serializing_if = "Option::is_none")]
        tokens: Option<u64>,
    },
    /// An entry of the embedding program or of a tool.
    Custom {
        /// Its name.
        name: String,
        /// Its content.
        data: RawJson,
    },
    /// A reader was too slow, and some events are missing here; the log has the committed ones. It
    /// is told twice: where the gap begins, and, if anything follows it, where it ends.
    Gap {
        /// How many so far.
        missed: u64,
        /// The first position of which something may be missing. All before it was told.
        from: Pos,
        /// The first position behind it of which nothing is missing; absent while the gap goes on.
        #[serde(skip_serializing_if = "Option::is_none")]
        until: Option<Pos>,
    },
    /// A run is over. No event of the run follows.
    RunEnd(RunEnd),
    /// There is no run, because the prompt was refused.
    Rejected {
        /// Why.
        error: String,
    },
    /// A run could not go on, and nothing of it could be written to the log any more. The log holds
    /// an open run. No event of the run follows.
    RunLost {
        /// Why.
        error: String,
    },
}

/// How a run ended, as it is told.
///
/// In JSON: `outcome` (`done`, `error`, `canceled`, `limit`, `needs_approval`), for these `error`
/// `{kind, message}`, `reason` or `limit`, then `usage`, `cost_usd` (null if a price is unknown),
/// `undelivered`, `denials`.
#[derive(Debug, Clone, PartialEq)]
pub struct RunEnd {
    /// How it ended.
    pub outcome: Ending,
    /// What it has spent, its sub-agents and tools included.
    pub spent: Spent,
    /// Operations that were accepted but not delivered.
    pub undelivered: Vec<OpId>,
    /// Calls that were denied.
    pub denials: Vec<CallId>,
    /// What the agent said of its task, if it said that it is over.
    pub completion: Option<Arc<Completion>>,
    /// Who is to go on with its task, if the agent said so.
    pub handoff: Option<Arc<Handoff>>,
}

impl Serialize for RunEnd {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut end = serializer.serialize_struct("RunEnd", 8)?;
        end.serialize_field("outcome", self.outcome.as_str())?;
        match &self.outcome {
            Ending::Failed(error) => end.serialize_field("error", error)?,
            Ending::Canceled(reason) => end.serialize_field("reason", reason)?,
            Ending::Limit(limit) => end.serialize_field("limit", limit)?,
            Ending::Done | Ending::NeedsApproval => {}
        }
        end.serialize_field("usage", &self.spent.usage)?;
        end.serialize_field("cost_usd", &self.spent.cost())?;
        end.serialize_field("undelivered", &self.undelivered)?;
        end.serialize_field("denials", &self.denials)?;
        if let Some(completion) = &self.completion {
            end.serialize_field("completion", completion)?;
        }
        if let Some(handoff) = &self.handoff {
            end.serialize_field("handoff", handoff)?;
        }
        end.end()
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over the field as it is")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

#[expect(clippy::ref_option, reason = "serde hands over the field as it is")]
fn outcome_name<S: serde::Serializer>(
    outcome: &Option<Ending>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    outcome.as_ref().map(Ending::as_str).serialize(serializer)
}

/// What an agent is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// No run is open.
    Idle,
    /// It waits for the model.
    Model,
    /// It waits to ask the model again.
    Retrying,
    /// It waits for a summary of the conversation.
    Compacting,
    /// It runs tools.
    Tools,
    /// It waits for a person, another agent, a job or a time.
    Waiting,
}

impl EventBody {
    /// Tells whether the event ends its run's stream.
    pub fn is_terminal(&self) -> bool {
        matches!(self, Self::RunEnd(_) | Self::RunLost { .. } | Self::Rejected { .. })
    }
}

/// An event as it is printed: numbered within its stream.
#[derive(Debug, Serialize)]
pub struct Printed<'a> {
    v: u32,
    seq: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pos: Option<Pos>,
    #[serde(skip_serializing_if = "Option::is_none")]
    after: Option<Pos>,
    #[serde(skip_serializing_if = "Option::is_none")]
    attempt: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    n: Option<u64>,
    ts: Timestamp,
    session: SessionId,
    run: Option<RunId>,
    turn: u32,
    agent: &'a AgentMeta,
    #[serde(skip_serializing_if = "Option::is_none")]
    call_id: Option<&'a CallId>,
    // One level deep on purpose: `type` and `data` stand beside the rest. This form is only written.
    #[serde(flatten)]
    body: &'a EventBody,
}

impl Event {
    /// Returns the form in which the event is printed as the `seq`th of its stream.
    pub fn printed(&self, seq: u64) -> Printed<'_> {
        Printed {
            v: VERSION,
            seq,
            pos: self.pos,
            after: self.after,
            attempt: self.attempt,
            n: self.n,
            ts: self.ts,
            session: self.session,
            run: self.run,
            turn: self.turn,
            agent: &self.agent,
            call_id: self.call_id.as_ref(),
            body: &self.body,
        }
    }
}
