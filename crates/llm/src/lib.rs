//! The vocabulary of a model call, and the wire.
//!
//! A [`Model`] answers a [`Request`] with a stream of [`StreamEvent`]s that ends in one
//! [`Response`] or one [`ModelError`]. Wrappers are models around models. Codecs are pure: they
//! turn messages into bytes and bytes into events, and know nothing of sockets.
#![deny(missing_docs)]

mod error;
mod message;
mod model;
mod usage;

pub use error::{ErrorKind, ModelError};
pub use message::{
    AssistantMessage, AssistantPart, CallId, Media, Message, MessageRef, Messages, Opaque, Part,
    RawJson, Reasoning, Stored, StoredKind, ToolCall, ToolResult, UserMessage, WireId, text_of,
};
pub use model::{
    Effort, Model, ModelInfo, ModelStream, Request, Response, StopReason, StreamEvent, ToolBlock,
    ToolSpec,
};
pub use usage::{Price, Usage};
