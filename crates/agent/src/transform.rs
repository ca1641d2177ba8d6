//! Transforms: what changes only what the model gets to see, request by request.
//!
//! A [`Transform`] is handed the snapshot that a request would be made of, and hands on the one that
//! it is made of. The conversation and its log stay as they are: the next request begins again with
//! the whole. What is to be changed for good is an [effect](crate::effect).
//!
//! Transforms are applied in order before each request that carries the conversation, not to what an
//! effect asks on the side. What was put aside has been fetched by then, and what a [`Convert`] makes
//! a message of stands in its place. An error or a panic of a transform ends the run.
//!
//! Whatever transforms leave, the request is one that a provider takes:
//!
//! - A result stands right behind the reply that called, and nowhere else. One that stands further
//!   behind is moved there; one that stands before its call, or a second one, is dropped.
//! - A call that has no result, or whose id an earlier reply has used, is dropped. So is the
//!   reasoning right before it, if no call that it led to is left.
//! - A reply of which nothing or only reasoning is left is dropped.
//!
//! If no message is left at all the run ends with an error.
//!
//! A message that is handed on as it came keeps the bytes that it was sent with before. So a
//! transform that changes the same messages in the same way each time, or only the end, costs nothing
//! of the provider's cache; one that drops from the front request by request costs all of it. After a
//! restart a request is the same as before if its transforms say the same of the same snapshot.
//!
//! ```
//! use std::sync::Arc;
//! use bowline_agent::Agent;
//! use bowline_agent::transform::{At, inject, keep_first_and_recent};
//! use bowline_llm::Message;
//!
//! # fn example(model: Arc<dyn bowline_llm::Model>) -> Agent {
//! Agent {
//!     transforms: vec![
//!         Arc::new(keep_first_and_recent(40)),
//!         Arc::new(inject([Message::user("Answer in French.")], At::End)),
//!     ],
//!     ..Agent::new(model)
//! }
//! # }
//! ```

mod repair;

use std::fmt;

use async_trait::async_trait;

use bowline_llm::{Message, MessageRef, Messages, UserMessage};

use crate::conversation::Snapshot;
use crate::entry::Entry;

pub(crate) use repair::repair;

/// Changes what the model gets to see.
#[async_trait]
pub trait Transform: Send + Sync {
    /// Returns what a request is made of instead of `snapshot`.
    ///
    /// # Errors
    /// Why there can be no request: the run ends with it.
    async fn apply(&self, snapshot: Snapshot) -> Result<Snapshot, TransformError>;
}

/// Why a transform could not do its work.
pub type TransformError = Box<dyn std::error::Error + Send + Sync>;

/// Makes messages of entries that only the embedding program or a tool understands, so that the model
/// gets to see them.
///
/// The message stands where the entry was recorded; if calls were open then, behind their results. It
/// goes when a summary takes the place of what stood there. Each entry is asked about once in a
/// process, so that its message keeps its bytes from request to request; to have the same bytes after
/// a restart too, say the same of the same entry.
///
/// It is always the user who says it: what a model has said, and the results of its calls, are only
/// what the log has of them.
pub trait Convert: Send + Sync {
    /// Returns what is said for a [custom entry](crate::entry::EntryKind::Custom); `None` for nothing.
    fn convert(&self, entry: &Entry) -> Option<UserMessage>;
}

impl<F: Fn(&Entry) -> Option<UserMessage> + Send + Sync> Convert for F {
    fn convert(&self, entry: &Entry) -> Option<UserMessage> {
        self(entry)
    }
}

/// A transform that is a function; [`transform_fn`] makes one.
#[derive(Clone)]
pub struct FunctionTransform<F>(F);

/// Makes a transform of a function.
pub fn transform_fn<F>(apply: F) -> FunctionTransform<F>
where
    F: Fn(Snapshot) -> Result<Snapshot, TransformError> + Send + Sync,
{
    FunctionTransform(apply)
}

#[async_trait]
impl<F> Transform for FunctionTransform<F>
where
    F: Fn(Snapshot) -> Result<Snapshot, TransformError> + Send + Sync,
{
    async fn apply(&self, snapshot: Snapshot) -> Result<Snapshot, TransformError> {
        (self.0)(snapshot)
    }
}

impl<F> fmt::Debug for FunctionTransform<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FunctionTransform").finish_non_exhaustive()
    }
}

/// A transform that shows only the first and the last messages.
#[derive(Debug, Clone, Copy)]
pub struct Keep {
    first: usize,
    recent: usize,
}

/// Makes a transform that shows only the last `count` messages.
pub fn keep_recent(count: usize) -> Keep {
    Keep { first: 0, recent: count }
}

/// Makes a transform that shows only the first message and the last `count`, if there are more than
/// `count`: the first one is what all of it is about.
pub fn keep_first_and_recent(count: usize) -> Keep {
    Keep { first: 1, recent: count }
}

#[async_trait]
impl Transform for Keep {
    async fn apply(&self, snapshot: Snapshot) -> Result<Snapshot, TransformError> {
        let total = snapshot.messages.len();
        if total <= self.first + self.recent {
            return Ok(snapshot);
        }
        let is_kept = |at: usize| at < self.first || at >= total - self.recent;
        let kept = snapshot.messages.iter().enumerate().filter(|(at, _)| is_kept(*at));
        let messages = kept.map(|(_, message)| message.clone()).collect();
        Ok(Snapshot { messages, ..snapshot })
    }
}

/// A transform that leaves messages out; [`filter`] makes one.
#[derive(Clone)]
pub struct Filter<F>(F);

/// Makes a transform that shows only messages that are wanted.
pub fn filter<F: Fn(&Message) -> bool + Send + Sync>(is_wanted: F) -> Filter<F> {
    Filter(is_wanted)
}

#[async_trait]
impl<F: Fn(&Message) -> bool + Send + Sync> Transform for Filter<F> {
    async fn apply(&self, snapshot: Snapshot) -> Result<Snapshot, TransformError> {
        let wanted = snapshot.messages.iter().filter(|message| (self.0)(message));
        let messages = wanted.cloned().collect();
        Ok(Snapshot { messages, ..snapshot })
    }
}

impl<F> fmt::Debug for Filter<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Filter").finish_non_exhaustive()
    }
}

/// Where a transform puts messages of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum At {
    /// Before all others.
    Start,
    /// Before what the user said last.
    BeforeLastUser,
    /// Behind all others.
    End,
}

/// A transform that shows more messages than there are; [`inject`] makes one.
#[derive(Debug, Clone)]
pub struct Inject {
    messages: Vec<MessageRef>,
    at: At,
}

/// Makes a transform that adds the same messages to every request.
pub fn inject(messages: impl IntoIterator<Item = Message>, at: At) -> Inject {
    Inject { messages: messages.into_iter().map(MessageRef::from).collect(), at }
}

#[async_trait]
impl Transform for Inject {
    async fn apply(&self, snapshot: Snapshot) -> Result<Snapshot, TransformError> {
        let shown = &snapshot.messages;
        let is_user = |message: &MessageRef| matches!(&**message, Message::User(_));
        let place = match self.at {
            At::Start => 0,
            At::BeforeLastUser => {
                (0..shown.len()).rfind(|at| shown.get(*at).is_some_and(is_user)).unwrap_or(0)
            }
            At::End => shown.len(),
        };
        let added = self.messages.iter().map(|message| (place, message.clone()));
        Ok(Snapshot { messages: insert(shown, added), ..snapshot })
    }
}

/// Puts messages among others: each before the message of its place, places in order.
pub(crate) fn insert(
    messages: &Messages,
    added: impl IntoIterator<Item = (usize, MessageRef)>,
) -> Messages {
    let mut added = added.into_iter().peekable();
    if added.peek().is_none() {
        return messages.clone();
    }
    let mut all = Messages::default();
    for (at, message) in messages.iter().enumerate() {
        while let Some((_, before)) = added.next_if(|(place, _)| *place <= at) {
            all.push_back_mut(before);
        }
        all.push_back_mut(message.clone());
    }
    all.extend(added.map(|(_, message)| message));
    all
}
