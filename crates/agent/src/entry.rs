//! The one persisted type: an entry of an agent's log.
//!
//! `docs/log.md` says of every kind who writes it and what replay does with it.

mod acted;
mod background;
mod bodies;
mod conclusion;
mod ending;
mod form;
mod plan;

use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use bowline_llm::{
    AssistantMessage, CallId, Effort, ErrorKind, Part, Price, RawJson, StopReason, Stored,
    ToolBlock, Usage, Usd, UserMessage,
};

use crate::id::{AgentId, EntryId, OpId, RunId, SessionId};
use crate::journal::Pos;
use crate::limits::Limits;
use crate::op::{Decision, Op};
use crate::orchestrator::Purpose;
use crate::output::Shape;

pub use acted::{Act, Acted, Phase, Rewrite, Shown, Summary};
pub use background::{BackgroundEnded, Behind};
pub use conclusion::{Completion, CompletionStatus, Conclusion, Handoff};
pub use ending::{Canceled, Ending, LimitHit, RunEnded, RunError, RunErrorKind};
pub use plan::{Plan, PlanStep, StepTaken};

/// The version of entries that this version of bowline writes.
pub const VERSION: u32 = 1;

/// One fact in the log of one agent.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// The version of the entry's form.
    pub v: u32,
    /// Names the entry; unique.
    pub id: EntryId,
    /// The entry this one follows in the conversation; `None` for the first.
    pub parent: Option<EntryId>,
    /// When it was written.
    pub at: Timestamp,
    /// Whose log it is in.
    pub agent: AgentId,
    /// Whether a version that does not know the kind must not write to the session.
    pub critical: bool,
    /// How long the agent was at work for the step that this entry ends, in milliseconds.
    pub active_ms: Option<u64>,
    /// What it says.
    pub kind: EntryKind,
}

/// What an entry says.
#[derive(Debug, Clone, PartialEq)]
pub enum EntryKind {
    /// An agent exists. The first entry of every log.
    Created(Created),
    /// A run has begun.
    RunStarted(RunStarted),
    /// Something was said to the model.
    User(UserSaid),
    /// An operation was accepted that cannot be delivered yet.
    Posted(Op),
    /// A model call is over.
    Assistant(AssistantSaid),
    /// A call has really started.
    CallStarted(CallStarted),
    /// A call waits for something outside the agent.
    CallWaiting(CallWaiting),
    /// A waiting call was decided about.
    Decided(Decided),
    /// A waiting call got its answer.
    Answered(Answered),
    /// What a waiting call waited for has happened.
    Woken(Woken),
    /// A call is over.
    CallEnded(CallEnded),
    /// What a call left to go on behind it is over.
    BackgroundEnded(BackgroundEnded),
    /// A tool used a model of its own.
    ExternalUsage(ExternalUsage),
    /// A limit of the run was reached.
    LimitHit(LimitHit),
    /// The run is to end.
    Canceled(Canceled),
    /// The run is over.
    RunEnded(RunEnded),
    /// The system text for the runs from here on.
    SystemChanged(SystemChanged),
    /// The tools for the runs from here on.
    ToolsChanged(ToolsChanged),
    /// The conversation goes on from an earlier entry.
    Head(Head),
    /// Something only a tool or the embedding program understands.
    Custom(Custom),
    /// An effect acted.
    Effect(Acted),
    /// There is a plan.
    Planned(Plan),
    /// A step of the plan has become a call.
    StepTaken(StepTaken),
    /// A kind this version does not know, kept as it came.
    Unknown {
        /// The kind's name.
        kind: String,
        /// Its content, byte for byte.
        data: RawJson,
    },
}

impl EntryKind {
    /// Tells whether a version that does not know the kind must not write to the session: it would
    /// see another conversation.
    pub(crate) fn is_critical(&self) -> bool {
        matches!(self, Self::Effect(Acted { act: Act::Rewrite(_), .. }) | Self::StepTaken(_))
    }
}

/// An agent exists.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Created {
    /// The session this log belongs to.
    pub session: SessionId,
    /// The name of this agent, unique in its session (seed 000's instance name).
    pub name: String,
    /// The name of the configuration it was made from.
    pub config: String,
    /// What its maker calls it, for display.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// 0 for the session's first agent, one more for each generation.
    pub depth: u32,
    /// Where a child comes from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Parent>,
    /// Where a fork comes from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<Origin>,
    /// The directory in which the session works, for those who list sessions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
}

/// The call that made a child agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parent {
    /// The agent whose call it is.
    pub agent: AgentId,
    /// The call.
    pub call: CallId,
    /// Tells the children of one call apart.
    pub key: String,
}

/// Where the first entries of a forked log were copied from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// The session forked.
    pub session: SessionId,
    /// The agent whose conversation was copied.
    pub agent: AgentId,
    /// The last entry copied.
    pub entry: EntryId,
    /// The position up to which the session was read.
    pub pos: Pos,
    /// The hash of the session at that position, where its store keeps one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    /// How many entries after this one are copies: they were paid for where they come from.
    pub entries: u64,
}

/// A run has begun.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunStarted {
    /// Names the run.
    pub run: RunId,
    /// The model, as `provider/model`.
    pub model: String,
    /// How hard the model is asked to think.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort: Option<Effort>,
    /// The system text; the run keeps it, whatever the configuration becomes.
    pub system: Recorded<Arc<str>>,
    /// The tool block; frozen for the run.
    pub tools: Recorded<Tools>,
    /// The limits of the run.
    pub limits: Limits,
    /// How many tokens a request to the model and its answer may have together, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_window: Option<u64>,
    /// The name of the orchestrator that began the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub orchestrator: Option<String>,
    /// What the answer must be like.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shape: Option<Shape>,
}

/// A value that is written in full only when it differs from the last one in the log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Recorded<T> {
    /// The SHA-256 of the value, the first 16 bytes in hex.
    pub hash: String,
    /// The value; absent if the log's last value has this hash.
    #[serde(default = "none", skip_serializing_if = "Option::is_none")]
    pub value: Option<T>,
}

fn none<T>() -> Option<T> {
    None
}

/// A tool block as it is written to a log.
#[derive(Debug, Clone, PartialEq)]
pub struct Tools(pub ToolBlock);

impl Serialize for Tools {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.specs().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Tools {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Vec::deserialize(deserializer).map(|specs| Self(ToolBlock::new(specs)))
    }
}

/// Something was said to the model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UserSaid {
    /// What was said.
    pub message: Arc<UserMessage>,
    /// How it came here.
    pub via: Via,
    /// The operation that this delivers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub op: Option<OpId>,
}

/// How a user message came into a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Via {
    /// It tells the model where it is: the directory, the date. It goes before the first prompt.
    Context,
    /// It tells a sub-agent, before its first prompt, what its parent knows.
    Briefing,
    /// It started the run.
    Prompt,
    /// It was added while the agent rested, without asking the model.
    Turn,
    /// It was steered in.
    Steer,
    /// It was queued.
    Queue,
    /// It followed up on a finished answer.
    FollowUp,
    /// The loop asked the model to go on with an answer that was cut.
    Continue,
    /// The loop asked the model to sum up because a limit was reached.
    WrapUp,
    /// It is never to be forgotten: no summary stands for it.
    Pin,
    /// What decides whether a run may end sent the agent back to work.
    OnStop,
    /// The loop asked the model to mend an answer that did not have the required shape.
    Repair,
}

/// A model call is over.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AssistantSaid {
    /// What the model said; of a call that broke off, the text that had come.
    pub message: Arc<AssistantMessage>,
    /// Why it stopped.
    pub stop: StopReason,
    /// Why the call was made.
    pub purpose: Purpose,
    /// The model asked last, as `provider/model`.
    pub model: String,
    /// The tokens of the call with all its attempts; `None` if the provider did not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// What failed attempts before cost; part of `usage`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub wasted: Usage,
    /// What the call cost in US dollars with all its attempts, each at the price of the model that
    /// was asked; `None` if no price is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<Usd>,
    /// How many of the tokens are not in `cost_usd`, where the price of some attempts is known only.
    #[serde(default, skip_serializing_if = "is_default")]
    pub unpriced: u64,
    /// The price of the model that was asked last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<Price>,
    /// Why the message is not whole; `None` if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broken: Option<Broken>,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Why a model call gave no whole message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Broken {
    /// The run was cancelled.
    Stopped,
    /// The time of the run was up.
    OutOfTime,
    /// The call failed.
    Failed {
        /// What kind of failure it was.
        kind: ErrorKind,
        /// What was said about it.
        message: String,
    },
}

/// A call has really started.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CallStarted {
    /// The call.
    pub call: CallId,
    /// The arguments it runs with, if the gate rewrote them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<String>,
    /// The tool that is really called, where the one that the model called only passes calls on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passed_to: Option<String>,
    /// The rule that let it pass, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
}

/// A call waits for something outside the agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CallWaiting {
    /// The call.
    pub call: CallId,
    /// What it waits for.
    pub wake: Wake,
    /// As in [`CallStarted::passed_to`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passed_to: Option<String>,
}

/// What a call can wait for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wake {
    /// A decision whether it may run.
    Decision {
        /// What is asked, for a person.
        question: String,
        /// What may be allowed for longer than once, in the language of the gate; `None` for nothing.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rule: Option<String>,
        /// The call that asked the very same before: what is decided about that holds for this one, and
        /// nobody is asked twice.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        twin: Option<Twin>,
    },
    /// An answer from a person.
    Answer {
        /// What is asked.
        question: String,
        /// Answers to choose from; free text is always possible.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        options: Vec<String>,
    },
    /// An answer from the agent above.
    Parent {
        /// What is asked.
        question: String,
    },
    /// The end of another agent's run.
    Agent {
        /// The agent.
        agent: AgentId,
        /// The prompt that started the run; `None` for whichever is open.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        prompt: Option<OpId>,
    },
    /// The end of a job.
    Job(String),
    /// A time.
    At(Timestamp),
}

/// A call of an agent of the session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Twin {
    /// Whose call it is.
    pub agent: AgentId,
    /// The call.
    pub call: CallId,
}

/// A waiting call was decided about.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Decided {
    /// The call.
    pub call: CallId,
    /// The decision.
    pub decision: Decision,
    /// The wait it is for, if it says so: it has no effect on another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<EntryId>,
    /// The operation that brought it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub op: Option<OpId>,
}

/// A waiting call got its answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Answered {
    /// The call.
    pub call: CallId,
    /// The answer.
    pub text: String,
    /// The wait it is for, if it says so: it has no effect on another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<EntryId>,
    /// The operation that brought it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub op: Option<OpId>,
}

/// What a waiting call waited for has happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Woken {
    /// The call.
    pub call: CallId,
    /// The wait it is for, if it says so: it has no effect on another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<EntryId>,
    /// The operation that said so, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub op: Option<OpId>,
}

/// A call is over.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CallEnded {
    /// The call.
    pub call: CallId,
    /// How it ended.
    pub status: CallStatus,
    /// What the model gets to see.
    pub content: Arc<[Part]>,
    /// How long it ran, in milliseconds; absent if it never started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ms: Option<u64>,
    /// The whole output, if the model sees only a part of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub full: Option<Stored>,
    /// Whether its tool declared that the run cannot go on.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub fatal: bool,
    /// What it concludes; of several in a run the first one counts, each of its kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conclusion: Option<Conclusion>,
    /// What becomes of the work that it leaves behind it, if it leaves any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub behind: Option<Behind>,
}

impl CallEnded {
    /// Returns the whole result, whatever the model got to see of it.
    pub(crate) fn whole(&self) -> Arc<[Part]> {
        whole(&self.content, self.full.as_ref())
    }

    /// Makes the end of a call whose tool was not heard: it did not run, or nobody knows how far.
    pub(crate) fn unheard(call: CallId, status: CallStatus, why: &str) -> Self {
        let content = Arc::new([Part::Text(why.to_owned())]);
        Self {
            call,
            status,
            content,
            ms: None,
            full: None,
            fatal: false,
            conclusion: None,
            behind: None,
        }
    }
}

/// Returns the whole of a result, of which the text may be kept elsewhere.
pub(crate) fn whole(content: &Arc<[Part]>, full: Option<&Stored>) -> Arc<[Part]> {
    let Some(full) = full else { return Arc::clone(content) };
    let others = content.iter().filter(|part| part.as_text().is_none()).cloned();
    std::iter::once(Part::Stored(full.clone())).chain(others).collect()
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallStatus {
    /// It did what it was asked to.
    Ok,
    /// It failed in a way the model is told about.
    Error,
    /// It was not allowed.
    Denied,
    /// It was not started because something else came first.
    Skipped,
    /// It was stopped, or never started, because the run was cancelled.
    Canceled,
    /// It took too long and was stopped.
    Timeout,
    /// Its process died while it ran, and nobody knows what it did.
    Interrupted,
}

impl CallStatus {
    /// Tells whether the model is told that the call failed.
    pub fn is_error(self) -> bool {
        self != Self::Ok
    }

    /// Returns the status as it is written in logs and events.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Error => "error",
            Self::Denied => "denied",
            Self::Skipped => "skipped",
            Self::Canceled => "canceled",
            Self::Timeout => "timeout",
            Self::Interrupted => "interrupted",
        }
    }
}

/// A tool used a model of its own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExternalUsage {
    /// The call during which it did.
    pub call: CallId,
    /// The tokens.
    pub usage: Usage,
    /// What it cost in US dollars, if the tool knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<Usd>,
}

/// The system text for the runs from here on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SystemChanged {
    /// The text.
    pub text: Arc<str>,
}

/// The tools for the runs from here on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolsChanged {
    /// The tools.
    pub tools: Tools,
}

/// The conversation goes on from an earlier entry.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Head {
    /// The entry; `None` for an empty conversation.
    pub to: Option<EntryId>,
}

/// Something only a tool or the embedding program understands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Custom {
    /// The name of what it is.
    pub name: String,
    /// The call that recorded it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<CallId>,
    /// Its content.
    pub data: RawJson,
}
