//! Large bodies: put aside before an entry is written, fetched before a model is asked.

use std::collections::HashMap;
use std::sync::Arc;

use bowline_llm::{
    Media, Message, MessageRef, Messages, Part, Stored, StoredKind, ToolResult, UserMessage,
};

use crate::entry::{Act, Acted, BackgroundEnded, EntryKind};
use crate::journal::{Blobs, JournalError};
use crate::op::{Input, OpKind};

use super::{Halt, Turn};

/// Bodies over so many bytes are kept beside the log.
const LARGE: usize = 256 * 1024;

/// Puts the large parts of an entry aside.
pub(super) async fn put_aside(
    kind: EntryKind,
    blobs: &dyn Blobs,
) -> Result<EntryKind, JournalError> {
    Ok(match kind {
        EntryKind::User(mut said) if said.message.content.iter().any(is_large) => {
            let content = store(&said.message.content, blobs).await?;
            said.message = Arc::new(UserMessage { content });
            EntryKind::User(said)
        }
        EntryKind::Posted(mut op) => {
            if let OpKind::Prompt(input)
            | OpKind::Steer(input)
            | OpKind::Queue(input)
            | OpKind::FollowUp(input)
            | OpKind::Pin(input) = &mut op.kind
                && input.0.content.iter().any(is_large)
            {
                let content = store(&input.0.content, blobs).await?;
                *input = Input(Arc::new(UserMessage { content }));
            }
            EntryKind::Posted(op)
        }
        EntryKind::Effect(Acted { act: Act::Say { message }, effect, phase, turn, op })
            if message.content.iter().any(is_large) =>
        {
            let content = store(&message.content, blobs).await?;
            let act = Act::Say { message: Arc::new(UserMessage { content }) };
            EntryKind::Effect(Acted { effect, phase, turn, act, op })
        }
        EntryKind::CallEnded(mut ended) if ended.content.iter().any(is_large) => {
            ended.content = store(&ended.content, blobs).await?.into();
            EntryKind::CallEnded(ended)
        }
        EntryKind::BackgroundEnded(BackgroundEnded { call, message: Some(message) })
            if message.content.iter().any(is_large) =>
        {
            let content = store(&message.content, blobs).await?;
            let message = Some(Arc::new(UserMessage { content }));
            EntryKind::BackgroundEnded(BackgroundEnded { call, message })
        }
        kind => kind,
    })
}

/// Keeps text beside the log.
pub(super) async fn keep(text: &str, blobs: &dyn Blobs) -> Result<Stored, JournalError> {
    let hash = blobs.put(text.as_bytes()).await?;
    let bytes = text.len() as u64;
    Ok(Stored { kind: StoredKind::Text, hash, bytes, media_type: None, name: None })
}

fn is_large(part: &Part) -> bool {
    match part {
        Part::Text(text) => text.len() > LARGE,
        Part::Image(media) | Part::Document(media) => media.data.len() > LARGE,
        Part::Stored(_) => false,
    }
}

async fn store(parts: &[Part], blobs: &dyn Blobs) -> Result<Vec<Part>, JournalError> {
    let mut stored = Vec::with_capacity(parts.len());
    for part in parts {
        let media =
            |kind, media: &Media| (kind, Some(media.media_type.clone()), media.name.clone());
        let (body, (kind, media_type, name)) = match part {
            part if !is_large(part) => {
                stored.push(part.clone());
                continue;
            }
            Part::Text(text) => (text.as_str(), (StoredKind::Text, None, None)),
            Part::Image(image) => (&*image.data, media(StoredKind::Image, image)),
            Part::Document(document) => (&*document.data, media(StoredKind::Document, document)),
            Part::Stored(_) => continue,
        };
        let hash = blobs.put(body.as_bytes()).await?;
        let bytes = body.len() as u64;
        stored.push(Part::Stored(Stored { kind, hash, bytes, media_type, name }));
    }
    Ok(stored)
}

/// What was put aside and is at hand again, to be sent.
///
/// It stands beside the conversation and not in it: what a conversation holds follows from its log
/// alone.
#[derive(Default)]
pub(super) struct Bodies {
    // By place: the message as the conversation has it, and whole.
    fetched: HashMap<usize, (MessageRef, MessageRef)>,
}

impl Bodies {
    /// Returns the messages as they are sent.
    pub(super) fn fill(&self, mut messages: Messages) -> Messages {
        for (place, (_, whole)) in &self.fetched {
            messages.set_mut(*place, whole.clone());
        }
        messages
    }
}

impl Turn {
    /// Fetches what was put aside of the messages that the model is about to get.
    pub(super) async fn fetch_bodies(&mut self) -> Result<(), Halt> {
        let blobs = self.log.blobs();
        let mut fetched = HashMap::new();
        for place in self.conversation.stored() {
            let Some(message) = self.conversation.messages().get(*place) else { continue };
            // Fetched once, so that its encoding is kept too.
            let whole = match self.bodies.fetched.get(place) {
                Some((known, whole)) if known.is(message) => whole.clone(),
                Some(_) | None => fetch_message(message, &*blobs).await?,
            };
            fetched.insert(*place, (message.clone(), whole));
        }
        self.bodies = Bodies { fetched };
        Ok(())
    }
}

async fn fetch_message(
    message: &MessageRef,
    blobs: &dyn Blobs,
) -> Result<MessageRef, JournalError> {
    Ok(MessageRef::from(match &**message {
        Message::User(said) => {
            let content = fetch(&said.content, blobs).await?;
            Message::User(Arc::new(UserMessage { content }))
        }
        Message::Results(results) => {
            let mut fetched = Vec::with_capacity(results.len());
            for result in results {
                let content = fetch(&result.content, blobs).await?.into();
                fetched.push(ToolResult { content, ..result.clone() });
            }
            Message::Results(fetched)
        }
        Message::Assistant(_) => return Ok(message.clone()),
    }))
}

/// Fetches what was put aside of some parts.
pub(crate) async fn fetch(parts: &[Part], blobs: &dyn Blobs) -> Result<Vec<Part>, JournalError> {
    let mut fetched = Vec::with_capacity(parts.len());
    for part in parts {
        let Part::Stored(stored) = part else {
            fetched.push(part.clone());
            continue;
        };
        let body = blobs.get(&stored.hash).await?;
        let text = String::from_utf8_lossy(&body).into_owned();
        let media = |data: String| Media {
            media_type: stored.media_type.clone().unwrap_or_default(),
            data: data.into(),
            name: stored.name.clone(),
        };
        fetched.push(match stored.kind {
            StoredKind::Text => Part::Text(text),
            StoredKind::Image => Part::Image(media(text)),
            StoredKind::Document => Part::Document(media(text)),
        });
    }
    Ok(fetched)
}
