//! Answers into events and one response.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::answer::{Answer, Delta, Event, Tokens};
use super::draft::{Draft, Kind};
use crate::wire::{Decode, ids};
use crate::{
    AssistantMessage, ErrorKind, ModelError, Response, Spent, StopReason, StreamEvent, sse,
};

/// Turns the events of a stream into [`StreamEvent`]s and, at the end, a [`Response`].
///
/// The reply is complete with `message_stop`: a stream that ends before it broke off, whatever else
/// came.
#[derive(Debug)]
pub struct Decoder {
    provider: Arc<str>,
    salt: u64,
    id: String,
    model: Option<String>,
    drafts: Vec<Draft>,
    stop: Option<StopReason>,
    tokens: Tokens,
    is_done: bool,
}

impl Decoder {
    /// Makes a decoder for one reply of `provider`; replies must not share a salt.
    pub fn new(provider: Arc<str>, salt: u64) -> Self {
        Self {
            provider,
            salt,
            id: String::new(),
            model: None,
            drafts: Vec::new(),
            stop: None,
            tokens: Tokens::default(),
            is_done: false,
        }
    }
}

impl Decode for Decoder {
    fn push(
        &mut self,
        event: &sse::Event<'_>,
        emit: &mut dyn FnMut(StreamEvent),
    ) -> Result<(), ModelError> {
        let sse::Event { name, data } = *event;
        match data.trim() {
            _ if self.is_done => return Ok(()),
            // A sign of life.
            "" => return Ok(()),
            // Gateways that speak other wires as well end this one as they end those.
            "[DONE]" if self.stop.is_some() => {
                self.complete(emit);
                return Ok(());
            }
            "[DONE]" => return Ok(()),
            _ => {}
        }
        let event: Event<'_> = self.read(data)?;
        let kind = event.r#type.as_deref().unwrap_or(name);
        if event.error.is_some() || kind == "error" {
            // It stands in a field of its own, or is the event itself.
            let error = event.error.map_or(data, RawValue::get);
            return Err(self.fail(ModelError::from_error_field(error)));
        }
        self.take(kind, &event, emit)
    }

    fn document(mut self, body: &[u8]) -> Result<Response, ModelError> {
        let body = std::str::from_utf8(body).map_err(|error| self.odd(error))?;
        let answer: Answer<'_> = self.read(body)?;
        self.take_head(&answer)?;
        let Some(blocks) = answer.content else {
            return Err(self.odd("an answer without content"));
        };
        for block in blocks {
            self.begin(None, block, &mut drop)?;
            if let Some(draft) = self.drafts.last_mut() {
                draft.kind.end(&mut drop);
            }
        }
        self.stop = answer.stop_reason.as_deref().map(stop_reason);
        // A document is whole if it can be parsed.
        self.is_done = true;
        self.finish()
    }

    fn has_stopped(&self) -> bool {
        self.is_done
    }

    fn is_done(&self) -> bool {
        self.is_done
    }

    fn finish(self) -> Result<Response, ModelError> {
        if !self.is_done {
            let message = "the stream ended before its end was told";
            return Err(self.fail(ModelError::new(ErrorKind::Incomplete, message)));
        }
        let stop = match self.stop {
            // Some servers say `end_turn` although the model waits for its calls.
            None | Some(StopReason::EndTurn) if calls(&self.drafts) > 0 => StopReason::ToolUse,
            None => StopReason::EndTurn,
            Some(stop) => stop,
        };
        let usage = self.tokens.usage();
        let Self { provider, salt, id, model, drafts, .. } = self;
        let mut content = Vec::with_capacity(drafts.len());
        for draft in drafts {
            draft.kind.finish(&mut content, &provider, |n| ids::made(salt, &id, n));
        }
        let message = AssistantMessage { content };
        Ok(Response { message, stop, usage, wasted: Spent::default(), model, by: None })
    }

    fn fail(&self, mut error: ModelError) -> ModelError {
        error.usage += self.tokens.usage().unwrap_or_default();
        error
    }
}

impl Decoder {
    /// Reads a piece of JSON.
    fn read<'a, T: Deserialize<'a>>(&self, json: &'a str) -> Result<T, ModelError> {
        serde_json::from_str(json).map_err(|error| self.odd(error))
    }

    /// Takes an event of a kind.
    fn take(
        &mut self,
        kind: &str,
        event: &Event<'_>,
        emit: &mut dyn FnMut(StreamEvent),
    ) -> Result<(), ModelError> {
        match kind {
            "message_start" => match event.message {
                Some(answer) => {
                    let answer: Answer<'_> = self.read(answer.get())?;
                    self.take_head(&answer)
                }
                None => Ok(()),
            },
            "content_block_start" => {
                let Some(block) = event.content_block else { return Ok(()) };
                self.begin(event.index.0, block, emit)
            }
            "content_block_delta" => {
                let Some(delta) = event.delta else { return Ok(()) };
                let added = match self.draft(event.index.0) {
                    Some(draft) => draft.kind.add(delta, emit),
                    None => return Err(self.odd("more of a block that has not begun")),
                };
                added.map_err(|error| self.odd(error))
            }
            "content_block_stop" => {
                if let Some(draft) = self.draft(event.index.0) {
                    draft.kind.end(emit);
                }
                Ok(())
            }
            "message_delta" => {
                let usage = event.usage.map(|usage| self.read(usage.get())).transpose()?;
                self.count(usage);
                let delta = event.delta.map(|delta| self.read(delta.get())).transpose()?;
                if let Some(reason) = delta.and_then(|delta: Delta<'_>| delta.stop_reason) {
                    self.stop = Some(stop_reason(&reason));
                }
                Ok(())
            }
            "message_stop" => {
                self.complete(emit);
                Ok(())
            }
            // `ping`, and what came after this version.
            _ => Ok(()),
        }
    }

    /// Ends the reply, and all blocks of which no end was told.
    fn complete(&mut self, emit: &mut dyn FnMut(StreamEvent)) {
        for draft in &mut self.drafts {
            draft.kind.end(emit);
        }
        self.is_done = true;
    }

    fn take_head(&mut self, answer: &Answer<'_>) -> Result<(), ModelError> {
        self.count(answer.usage);
        if let Some(error) = answer.error {
            return Err(self.fail(ModelError::from_error_field(error.get())));
        }
        if let Some(id) = &answer.id {
            id.as_ref().clone_into(&mut self.id);
        }
        self.model = answer.model.as_deref().filter(|model| !model.is_empty()).map(str::to_owned);
        Ok(())
    }

    fn begin(
        &mut self,
        index: Option<u64>,
        block: &RawValue,
        emit: &mut dyn FnMut(StreamEvent),
    ) -> Result<(), ModelError> {
        let kind =
            Kind::begin(block, calls(&self.drafts), emit).map_err(|error| self.odd(error))?;
        self.drafts.push(Draft { index, kind });
        Ok(())
    }

    /// Finds the block that an event is about; without an index, the newest.
    fn draft(&mut self, index: Option<u64>) -> Option<&mut Draft> {
        match index {
            Some(_) => self.drafts.iter_mut().rev().find(|draft| draft.index == index),
            None => self.drafts.last_mut(),
        }
    }

    fn count(&mut self, tokens: Option<Tokens>) {
        if let Some(tokens) = tokens {
            self.tokens.update(&tokens);
        }
    }

    fn odd(&self, what: impl std::fmt::Display) -> ModelError {
        self.fail(ModelError::new(ErrorKind::Decode, format!("no answer of this wire: {what}")))
    }
}

fn calls(drafts: &[Draft]) -> usize {
    drafts.iter().filter(|draft| matches!(draft.kind, Kind::Call(_))).count()
}

fn stop_reason(reason: &str) -> StopReason {
    match reason {
        "end_turn" | "stop_sequence" => StopReason::EndTurn,
        "tool_use" => StopReason::ToolUse,
        // The window ended before the limit of the answer did: it was cut all the same.
        "max_tokens" | "model_context_window_exceeded" => StopReason::MaxTokens,
        "refusal" => StopReason::Refused,
        "pause_turn" => StopReason::Paused,
        other => StopReason::Other(other.to_owned()),
    }
}

#[cfg(test)]
mod tests;
