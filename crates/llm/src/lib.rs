//! The vocabulary of a model call, and the wire.
//!
//! A [`Model`] answers a [`Request`] with a stream of [`StreamEvent`]s that ends in one
//! [`Response`] or one [`ModelError`]. Wrappers are models around models. Codecs are pure: they
//! turn messages into bytes and bytes into events, and know nothing of sockets.
//!
//! ```
//! use bowline_llm::scripted::{Reply, ScriptedModel};
//! use bowline_llm::{Message, Model, Request, StreamEvent};
//! use futures::StreamExt;
//!
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
//! // A `Client` of a wire, such as `chat`, is a model that talks to a server; this one needs none.
//! let model = ScriptedModel::new([Reply::text("Hello!")]);
//! let request = Request {
//!     messages: [Message::user("Hi").into()].into_iter().collect(),
//!     ..Request::default()
//! };
//! let mut stream = model.stream(request);
//! while let Some(event) = stream.next().await {
//!     if let StreamEvent::Done(response) = event? {
//!         assert_eq!(response.message.to_text(), "Hello!");
//!     }
//! }
//! # Ok::<(), bowline_llm::ModelError>(())
//! # }).unwrap();
//! ```
#![deny(missing_docs)]

mod error;
mod message;
mod model;
mod usage;

mod secret;

pub mod anthropic;
pub mod chat;
pub mod fallback;
pub mod gemini;
pub mod http;
pub mod rate_limit;
pub mod recorded;
pub mod responses;
pub mod retry;
pub mod scripted;
pub mod sse;
pub mod wire;

pub use error::{ErrorKind, ModelError};
pub use fallback::Fallback;
pub use message::{
    AssistantMessage, AssistantPart, CallId, Media, Message, MessageRef, Messages, Opaque, Part,
    RawJson, Reasoning, Stored, StoredKind, ToolCall, ToolResult, UserMessage, WireId, text_of,
};
pub use model::{
    Effort, Model, ModelInfo, ModelStream, Request, Response, StopReason, StreamEvent, ToolBlock,
    ToolSpec,
};
pub use rate_limit::RateLimited;
pub use recorded::{Recorded, Replayed};
pub use retry::Retry;
pub use scripted::ScriptedModel;
pub use secret::Secret;
pub use usage::{LongPrice, Price, Spent, Usage, Usd};
