//! A model: something that turns a request into a stream of events and one response.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::stream::BoxStream;
use serde::{Deserialize, Serialize};

use crate::error::ModelError;
use crate::message::{AssistantMessage, Encoded, Messages, RawJson, WireId};
use crate::usage::{Price, Spent, Usage};

/// Something that answers requests.
///
/// A wrapper ([`Retry`](crate::Retry)) is a model too, so behaviour is added by
/// putting models around models.
pub trait Model: Send + Sync {
    /// Returns what is known of the model; the answer never changes.
    fn info(&self) -> &ModelInfo;

    /// Sends one request.
    ///
    /// The stream yields any number of deltas, then exactly one [`StreamEvent::Done`] or one error,
    /// then ends. A stream that ends with neither broke off and holds no answer. Dropping the
    /// stream ends the request. Nothing is sent before the stream is polled.
    fn stream(&self, request: Request) -> ModelStream;
}

impl<M: Model + ?Sized> Model for Arc<M> {
    fn info(&self) -> &ModelInfo {
        (**self).info()
    }

    fn stream(&self, request: Request) -> ModelStream {
        (**self).stream(request)
    }
}

/// What [`Model::stream`] returns.
pub type ModelStream = BoxStream<'static, Result<StreamEvent, ModelError>>;

/// What is known of a model before it is asked.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ModelInfo {
    /// The provider's name in the configuration, such as `openai`.
    pub provider: String,
    /// The model's name as the provider knows it.
    pub model: String,
    /// How many tokens a request and its answer may have together; `None` if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_window: Option<u64>,
    /// How many tokens an answer may have; `None` leaves it to the provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_output_tokens: Option<u64>,
    /// What tokens cost; `None` if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<Price>,
}

impl ModelInfo {
    /// Returns `provider/model`, the name by which users choose it.
    pub fn id(&self) -> String {
        format!("{}/{}", self.provider, self.model)
    }
}

/// One request to a model.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// The system text; empty for none.
    pub system: Arc<str>,
    /// The tools the model may call, in the order in which they are sent.
    pub tools: ToolBlock,
    /// The conversation so far.
    pub messages: Messages,
    /// How hard the model should think; `None` leaves it to the provider.
    pub effort: Option<Effort>,
    /// At most so many tokens of answer; `None` takes the model's own limit.
    pub max_output_tokens: Option<u64>,
    /// The JSON Schema that the answer must fit. A wire asks for it where that is known to work, and
    /// says nothing elsewhere: the model must be told too, and the answer be checked.
    pub output_schema: Option<RawJson>,
    /// What a provider may use to find its cache of the prefix again: the same for all requests of
    /// one agent.
    pub cache_key: Option<Arc<str>>,
}

/// How hard a model should think before it answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Effort {
    /// As little as the model allows.
    Minimal,
    /// Less than usual.
    Low,
    /// The usual.
    Medium,
    /// More than usual.
    High,
    /// As much as the model allows.
    Xhigh,
}

impl Effort {
    /// Reads the suffix of a model's name; `None` if it is no effort.
    pub fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "minimal" => Self::Minimal,
            "low" => Self::Low,
            "medium" => Self::Medium,
            "high" => Self::High,
            "xhigh" => Self::Xhigh,
            _ => return None,
        })
    }

    /// Returns the effort as it is written in names and requests.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Minimal => "minimal",
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::Xhigh => "xhigh",
        }
    }
}

/// What a model is told about a tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// The name by which the model calls it.
    pub name: String,
    /// What it does and when to use it.
    pub description: String,
    /// The JSON Schema of its arguments: an object.
    pub schema: RawJson,
}

/// The tools of a request, frozen, with the bytes a wire made of them.
#[derive(Clone)]
pub struct ToolBlock(Arc<Encoded<Vec<ToolSpec>>>);

impl ToolBlock {
    /// Freezes a list of tools.
    pub fn new(specs: Vec<ToolSpec>) -> Self {
        Self(Arc::new(Encoded::new(specs)))
    }

    /// Returns the tools in order.
    pub fn specs(&self) -> &[ToolSpec] {
        &self.0.value
    }

    /// Returns the block as `wire` writes it, encoding it at most once.
    pub fn encoded(&self, wire: WireId, encode: impl FnOnce(&[ToolSpec]) -> Bytes) -> Bytes {
        self.0.encoded(wire, |specs| encode(specs))
    }
}

impl Default for ToolBlock {
    fn default() -> Self {
        Self::new(Vec::new())
    }
}

impl PartialEq for ToolBlock {
    fn eq(&self, other: &Self) -> bool {
        self.specs() == other.specs()
    }
}

impl fmt::Debug for ToolBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.specs(), f)
    }
}

/// Something that happens while a model answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StreamEvent {
    /// More text.
    TextDelta(String),
    /// More reasoning.
    ReasoningDelta(String),
    /// More of a tool call.
    ToolCallDelta {
        /// Which call of the reply, from 0.
        index: usize,
        /// The tool's name; only in the first delta of a call.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// The next piece of the arguments.
        arguments: String,
    },
    /// A wrapper waits before it tries again.
    Waiting {
        /// Which attempt comes next; the first is 1.
        attempt: u32,
        /// What went wrong, in one line.
        reason: String,
        /// How long it waits.
        delay: Duration,
        /// What the attempt that failed was billed. It is told here, since a reader may leave
        /// during the wait, and not again with [`Restarted`](Self::Restarted).
        spent: Spent,
    },
    /// A wrapper starts over: everything seen so far of this reply is void.
    Restarted {
        /// Which attempt begins; the first is 1.
        attempt: u32,
        /// What went wrong with the one before, and what it was billed as far as no wait told it.
        error: ModelError,
    },
    /// The whole reply. Nothing follows it.
    Done(Box<Response>),
}

/// A complete reply.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Response {
    /// What the model said.
    pub message: AssistantMessage,
    /// Why it stopped.
    pub stop: StopReason,
    /// What it cost in tokens, failed attempts included; `None` if the provider did not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// What failed attempts before this reply cost, as far as their provider said, each at the price
    /// of the model that was asked. Its tokens are part of `usage`.
    #[serde(default)]
    pub wasted: Spent,
    /// The model that answered, as the provider names it, where it says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// What is known of the model that answered, where it is not the one that was asked: see
    /// [`Fallback`](crate::Fallback).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Arc<ModelInfo>>,
}

impl Response {
    /// Returns what the reply and the failed attempts before it cost, the reply at a price; `None` if
    /// the provider did not say.
    pub fn spent(&self, price: Option<&Price>) -> Option<Spent> {
        Some(self.wasted + Spent::at(price, self.usage? - self.wasted.usage))
    }

    /// Adds what failed attempts before the reply cost.
    pub(crate) fn charge(&mut self, wasted: Spent) {
        if wasted != Spent::default() {
            self.usage = Some(self.usage.unwrap_or_default() + wasted.usage);
            self.wasted += wasted;
        }
    }
}

/// Why a model stopped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// It had said all it wanted.
    EndTurn,
    /// It waits for the results of its calls.
    ToolUse,
    /// The answer reached its greatest length and was cut.
    MaxTokens,
    /// The provider made a pause in a long reply: it goes on when it is sent what it has said.
    Paused,
    /// The provider or the model refused.
    Refused,
    /// The provider cancelled the reply.
    Canceled,
    /// The provider reported a failure as the end of the reply.
    Error,
    /// A reason this version does not know.
    Other(String),
}
