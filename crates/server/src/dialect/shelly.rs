//! The events of shelly's engine, as lines and as the callbacks `EventFunc` and `EventNotifier`.
//!
//! A call has exactly one start and one end, even one that was never let run. The messages told are
//! replies, results (one each, in call order) and what was said to an agent at work; not prompts.

use std::collections::HashMap;
use std::fmt;

use bowline_agent::event::{AgentMeta, Event, EventBody};
use bowline_agent::id::{AgentId, SessionId};
use bowline_agent::journal::Pos;
use bowline_llm::{AssistantPart, Message, Part, ToolResult, text_of};
use jiff::Timestamp;
use serde::Serialize;

use super::calls::Calls;
use super::{Lines, Translator};
use crate::ending::complaint;

/// What shelly shows for an agent that has no prefix of its own.
const ROBOT: &str = "🤖";

/// What shelly tells: the life of agents by `EventNotifier`, all else by `EventFunc`.
#[derive(Debug, Clone, PartialEq)]
pub enum Notice {
    /// `tool_call_start`, `tool_call_end`.
    ToolCall(&'static str, ToolCallEventData),
    /// `message_added`.
    MessageAdded(MessageAddedEventData),
    /// `agent_start`, `agent_end`.
    Agent(&'static str, AgentEventData),
    /// `error`: a run ended with one.
    Error(ErrorEventData),
    /// `ask_user`: a call waits for an answer or a decision.
    Question(AskUserEventData),
    /// `compaction`: a summary stands for the beginning of the conversation.
    Compaction,
}

/// The data of `tool_call_start` and `tool_call_end`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ToolCallEventData {
    /// The tool.
    pub tool_name: String,
    /// The call.
    pub call_id: String,
}

/// The data of `message_added`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MessageAddedEventData {
    /// `user`, `assistant` or `tool`.
    pub role: &'static str,
    /// The message.
    pub message: ChatMessage,
}

/// The data of `agent_start` and `agent_end`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct AgentEventData {
    /// What to show for the agent.
    pub prefix: String,
    /// The name of the agent whose call made it; empty for the session's first.
    pub parent: String,
}

/// The data of `error`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ErrorEventData {
    /// What went wrong.
    pub error: String,
}

/// The data of `ask_user`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AskUserEventData {
    /// The call that waits: whoever answers names it.
    pub id: String,
    /// What is asked.
    pub text: String,
    /// Answers to choose from; to whether a call may run, `yes` and `no`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
}

/// shelly's `message.Message`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct ChatMessage {
    /// The agent's name, or `user`.
    pub sender: String,
    /// `user`, `assistant` or `tool`.
    pub role: &'static str,
    /// What it holds. shelly keeps no reasoning.
    pub parts: Vec<ChatPart>,
}

/// shelly's `content.Part`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum ChatPart {
    /// `content.Text`.
    #[serde(rename_all = "PascalCase")]
    Text {
        /// The text.
        text: String,
    },
    /// `content.Image`.
    #[serde(rename_all = "PascalCase")]
    Image {
        /// The bytes in base64.
        data: String,
        /// The IANA media type.
        media_type: String,
    },
    /// `content.ToolCall`.
    ToolCall {
        /// The call.
        #[serde(rename = "ID")]
        id: String,
        /// The tool.
        #[serde(rename = "Name")]
        name: String,
        /// The arguments as the model wrote them.
        #[serde(rename = "Arguments")]
        arguments: String,
    },
    /// `content.ToolResult`.
    ToolResult {
        /// The call.
        #[serde(rename = "ToolCallID")]
        tool_call_id: String,
        /// The text of the result.
        #[serde(rename = "Content")]
        content: String,
        /// Whether the call failed.
        #[serde(rename = "IsError")]
        is_error: bool,
    },
}

impl Notice {
    /// Returns the kind by which it is told.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::ToolCall(kind, _) | Self::Agent(kind, _) => kind,
            Self::MessageAdded(_) => "message_added",
            Self::Error(_) => "error",
            Self::Question(_) => "ask_user",
            Self::Compaction => "compaction",
        }
    }
}

/// The projection, from which both lines and callbacks are made.
#[derive(Debug, Default)]
pub(super) struct Shelly {
    calls: Calls,
    names: HashMap<AgentId, String>,
    // Where an operation was delivered: the message at that place was said to an agent at work.
    delivered: Option<Pos>,
}

/// An event on the engine's bus.
#[derive(Debug, Serialize)]
struct Line<'a> {
    kind: &'static str,
    session_id: SessionId,
    agent: &'a str,
    timestamp: Timestamp,
    data: Data<'a>,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Data<'a> {
    ToolCall(&'a ToolCallEventData),
    MessageAdded(&'a MessageAddedEventData),
    Agent(&'a AgentEventData),
    Error(&'a ErrorEventData),
    Question(&'a AskUserEventData),
    Nothing {},
}

impl Translator for Shelly {
    fn event(&mut self, event: &Event, lines: &mut Lines) {
        for notice in self.notices(event) {
            let data = match &notice {
                Notice::ToolCall(_, data) => Data::ToolCall(data),
                Notice::MessageAdded(data) => Data::MessageAdded(data),
                Notice::Agent(_, data) => Data::Agent(data),
                Notice::Error(data) => Data::Error(data),
                Notice::Question(data) => Data::Question(data),
                Notice::Compaction => Data::Nothing {},
            };
            lines.say(&Line {
                kind: notice.kind(),
                session_id: event.session,
                agent: &event.agent.name,
                timestamp: event.ts,
                data,
            });
        }
    }
}

impl Shelly {
    fn notices(&mut self, event: &Event) -> Vec<Notice> {
        let meta = &event.agent;
        match &event.body {
            EventBody::RunStart { .. } => {
                self.calls.forget(meta.id);
                self.names.insert(meta.id, meta.name.clone());
                // Of a sub-agent `agent_start` has told it.
                let is_root = meta.depth == 0;
                is_root.then(|| self.agent("agent_start", meta)).into_iter().collect()
            }
            EventBody::AgentStart { .. } => vec![self.agent("agent_start", meta)],
            EventBody::AgentEnd { .. } => vec![self.agent("agent_end", meta)],
            EventBody::RunEnd(end) => self.ended(meta, complaint(&end.outcome)),
            EventBody::Rejected { error } | EventBody::RunLost { error } => {
                self.ended(meta, Some(error.clone()))
            }
            EventBody::CompactionEnd { done, .. } => {
                done.then_some(Notice::Compaction).into_iter().collect()
            }
            EventBody::ToolCall { .. } => {
                self.calls.hear(event);
                Vec::new()
            }
            EventBody::ToolStart { .. } => {
                vec![tool_call("tool_call_start", self.calls.hear(event))]
            }
            EventBody::ToolEnd { .. } => {
                let call = self.calls.end(event);
                let start = (!call.has_started).then(|| tool_call("tool_call_start", call.clone()));
                start.into_iter().chain([tool_call("tool_call_end", call)]).collect()
            }
            EventBody::Question { question, options, .. } => {
                vec![asked(event, question, options.clone())]
            }
            EventBody::PermissionRequest { question, .. } => {
                vec![asked(event, question, vec!["yes".to_owned(), "no".to_owned()])]
            }
            EventBody::Delivered { .. } => {
                self.delivered = event.pos;
                Vec::new()
            }
            EventBody::MessageAdded { message } => {
                let was_delivered = event.pos.is_some() && self.delivered == event.pos;
                messages(&meta.name, message, was_delivered)
            }
            EventBody::Text { .. }
            | EventBody::Reasoning { .. }
            | EventBody::ToolOutput { .. }
            | EventBody::TurnEnd { .. }
            | EventBody::Queued { .. }
            | EventBody::PlanCreated { .. }
            | EventBody::PlanStepStart { .. }
            | EventBody::PlanStepEnd { .. }
            | EventBody::PermissionDecision { .. }
            | EventBody::Answer { .. }
            | EventBody::LimitHit { .. }
            | EventBody::Retry { .. }
            | EventBody::Warning { .. }
            | EventBody::CompactionStart { .. }
            | EventBody::Custom { .. }
            | EventBody::Gap { .. }
            | untold!() => Vec::new(),
        }
    }

    fn agent(&self, kind: &'static str, meta: &AgentMeta) -> Notice {
        let parent = meta
            .parent
            .map(|parent| self.names.get(&parent).cloned().unwrap_or_else(|| parent.to_string()));
        let prefix = meta.label.clone().unwrap_or_else(|| ROBOT.to_owned());
        Notice::Agent(kind, AgentEventData { prefix, parent: parent.unwrap_or_default() })
    }

    /// Tells the end of a run; of a sub-agent's only what went wrong, `agent_end` follows.
    fn ended(&self, meta: &AgentMeta, complaint: Option<String>) -> Vec<Notice> {
        let error = complaint.map(|error| Notice::Error(ErrorEventData { error }));
        let end = (meta.depth == 0).then(|| self.agent("agent_end", meta));
        error.into_iter().chain(end).collect()
    }
}

fn tool_call(kind: &'static str, call: super::calls::Call) -> Notice {
    Notice::ToolCall(kind, ToolCallEventData { tool_name: call.name, call_id: call.id })
}

fn asked(event: &Event, question: &str, options: Vec<String>) -> Notice {
    let id = event.call_id.as_ref().map(ToString::to_string).unwrap_or_default();
    Notice::Question(AskUserEventData { id, text: question.to_owned(), options })
}

fn messages(agent: &str, message: &Message, was_delivered: bool) -> Vec<Notice> {
    match message {
        Message::User(said) if was_delivered => {
            vec![added("user", "user", parts(&said.content))]
        }
        Message::User(_) => Vec::new(),
        Message::Assistant(said) => {
            vec![added(agent, "assistant", said.content.iter().filter_map(reply_part).collect())]
        }
        Message::Results(results) => {
            results.iter().map(|result| added(agent, "tool", vec![result_part(result)])).collect()
        }
    }
}

fn added(sender: &str, role: &'static str, parts: Vec<ChatPart>) -> Notice {
    let message = ChatMessage { sender: sender.to_owned(), role, parts };
    Notice::MessageAdded(MessageAddedEventData { role, message })
}

fn parts(content: &[Part]) -> Vec<ChatPart> {
    let part = |part: &Part| match part {
        Part::Text(text) => Some(ChatPart::Text { text: text.clone() }),
        Part::Image(media) => Some(ChatPart::Image {
            data: media.data.as_ref().to_owned(),
            media_type: media.media_type.clone(),
        }),
        Part::Document(_) | Part::Stored(_) => None,
    };
    content.iter().filter_map(part).collect()
}

fn reply_part(part: &AssistantPart) -> Option<ChatPart> {
    match part {
        AssistantPart::Text(text) => Some(ChatPart::Text { text: text.clone() }),
        AssistantPart::ToolCall(call) => Some(ChatPart::ToolCall {
            id: call.id.as_str().to_owned(),
            name: call.name.clone(),
            arguments: call.arguments.clone(),
        }),
        AssistantPart::Reasoning(_) | AssistantPart::Opaque(_) => None,
    }
}

fn result_part(result: &ToolResult) -> ChatPart {
    ChatPart::ToolResult {
        tool_call_id: result.call.as_str().to_owned(),
        content: text_of(&result.content),
        is_error: result.is_error,
    }
}

type EventFunc = Box<dyn FnMut(&Notice) + Send>;
type EventNotifier = Box<dyn FnMut(&str, &str, &AgentEventData) + Send>;

/// shelly's callbacks, called as its own loop would call them.
///
/// ```
/// use bowline_server::dialect::shelly::Callbacks;
///
/// # async fn run(run: bowline_agent::Run) -> Result<(), Box<dyn std::error::Error>> {
/// let mut callbacks = Callbacks::new(
///     |notice| println!("{}", notice.kind()),
///     |kind, agent, data| println!("{kind} {} {agent}", data.prefix),
/// );
/// run.run_with_callback(|event| callbacks.event(event)).await?;
/// # Ok(())
/// # }
/// ```
pub struct Callbacks {
    shelly: Shelly,
    event_func: EventFunc,
    notifier: EventNotifier,
}

impl Callbacks {
    /// Takes an `EventFunc`, which gets what a loop does, and an `EventNotifier`, which gets the kind,
    /// the name of the agent and the data of the life of agents.
    pub fn new(
        event_func: impl FnMut(&Notice) + Send + 'static,
        notifier: impl FnMut(&str, &str, &AgentEventData) + Send + 'static,
    ) -> Self {
        Self {
            shelly: Shelly::default(),
            event_func: Box::new(event_func),
            notifier: Box::new(notifier),
        }
    }

    /// Calls back what follows from an event.
    pub fn event(&mut self, event: &Event) {
        for notice in self.shelly.notices(event) {
            match &notice {
                Notice::Agent(kind, data) => (self.notifier)(kind, &event.agent.name, data),
                Notice::ToolCall(..)
                | Notice::MessageAdded(_)
                | Notice::Error(_)
                | Notice::Question(_)
                | Notice::Compaction => {
                    (self.event_func)(&notice);
                }
            }
        }
    }
}

impl fmt::Debug for Callbacks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Callbacks").field("shelly", &self.shelly).finish_non_exhaustive()
    }
}
