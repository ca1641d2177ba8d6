//! Answers into events and one response.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::value::RawValue;

use super::answer::{Call, Candidate, Chunk, Part, PromptFeedback, Tokens};
use super::signature::Signed;
use crate::wire::{Decode, ids};
use crate::{
    AssistantMessage, AssistantPart, ErrorKind, ModelError, Opaque, RawJson, Reasoning, Response,
    Spent, StopReason, StreamEvent, ToolCall, sse,
};

/// Turns the chunks of a stream into [`StreamEvent`]s and, at the end, a [`Response`].
///
/// The reply is complete once a finish reason came; chunks after it may still bring usage, and the
/// stream simply ends. A stream that ends without a finish reason broke off, whatever else came.
#[derive(Debug)]
pub struct Decoder {
    provider: Arc<str>,
    salt: u64,
    id: String,
    model: Option<String>,
    content: Vec<AssistantPart>,
    run: Run,
    calls: usize,
    stop: Option<StopReason>,
    tokens: Tokens,
    is_done: bool,
}

/// Parts of text of which the next may belong to the same text.
#[derive(Debug, Default)]
struct Run {
    is_thought: bool,
    text: String,
    /// The signatures on pieces of the text: they stand before it in the message.
    signed: Vec<Opaque>,
}

impl Decoder {
    /// Makes a decoder for one reply of `provider`. Most models give their calls no ids, so those
    /// are made of `salt`, the reply's id and the call's place; replies must not share a salt.
    pub(super) fn new(provider: Arc<str>, salt: u64) -> Self {
        Self {
            provider,
            salt,
            id: String::new(),
            model: None,
            content: Vec::new(),
            run: Run::default(),
            calls: 0,
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
        let data = event.data.trim();
        if self.is_done || data.is_empty() {
            return Ok(());
        }
        // Google sends no end marker but the end; gateways that speak other wires as well do.
        if data == "[DONE]" {
            self.is_done = true;
            return Ok(());
        }
        let chunks = read(data)
            .map_err(|error| self.fail(undecodable("no chunk of a reply", &error.to_string())))?;
        chunks.into_iter().try_for_each(|chunk| self.take(chunk, emit))
    }

    fn document(mut self, body: &[u8]) -> Result<Response, ModelError> {
        const WHAT: &str = "no answer of this wire";
        let body =
            std::str::from_utf8(body).map_err(|error| undecodable(WHAT, &error.to_string()))?;
        let chunks = read(body).map_err(|error| undecodable(WHAT, &error.to_string()))?;
        let is_empty = chunks.iter().all(|chunk| chunk.candidates.iter().flatten().count() == 0);
        for chunk in chunks {
            self.take(chunk, &mut drop)?;
        }
        if is_empty {
            return Err(self.fail(undecodable(WHAT, "it has no candidates")));
        }
        // A document is whole if it can be parsed, even where a server names no reason.
        self.stop.get_or_insert(StopReason::EndTurn);
        self.finish()
    }

    fn has_stopped(&self) -> bool {
        self.stop.is_some()
    }

    fn is_done(&self) -> bool {
        self.is_done
    }

    fn finish(mut self) -> Result<Response, ModelError> {
        let Some(stop) = self.stop.take() else {
            let message = "the stream ended before a finish reason came";
            return Err(self.fail(ModelError::new(ErrorKind::Incomplete, message)));
        };
        let stop = match stop {
            // This wire has no reason of its own for a reply that waits for its calls.
            StopReason::EndTurn if self.calls > 0 => StopReason::ToolUse,
            stop => stop,
        };
        self.close_run();
        let Self { model, content, tokens, .. } = self;
        let message = AssistantMessage { content };
        Ok(Response {
            message,
            stop,
            usage: tokens.usage(),
            wasted: Spent::default(),
            model,
            by: None,
        })
    }

    fn fail(&self, mut error: ModelError) -> ModelError {
        error.usage += self.tokens.usage().unwrap_or_default();
        error
    }
}

impl Decoder {
    fn take(
        &mut self,
        chunk: Chunk<'_>,
        emit: &mut dyn FnMut(StreamEvent),
    ) -> Result<(), ModelError> {
        if let Some(tokens) = &chunk.usage_metadata {
            self.tokens.update(tokens);
        }
        if let Some(error) = chunk.error.filter(|error| error.get() != "null") {
            return Err(self.fail(ModelError::from_error_field(error.get())));
        }
        if let Some(id) = chunk.response_id
            && self.id.is_empty()
        {
            self.id = id.into_owned();
        }
        if let Some(model) = chunk.model_version.filter(|model| !model.is_empty()) {
            self.model.get_or_insert_with(|| model.into_owned());
        }
        if let Some(error) = chunk.prompt_feedback.and_then(blocked) {
            return Err(self.fail(error));
        }
        for candidate in chunk.candidates.into_iter().flatten() {
            // One answer was asked for; others would be mixed into it.
            if candidate.index.0.unwrap_or(0) == 0 {
                self.take_candidate(candidate, emit)?;
            }
        }
        Ok(())
    }

    fn take_candidate(
        &mut self,
        candidate: Candidate<'_>,
        emit: &mut dyn FnMut(StreamEvent),
    ) -> Result<(), ModelError> {
        let Candidate { content, finish_reason, finish_message, .. } = candidate;
        for raw in content.and_then(|content| content.parts).into_iter().flatten() {
            let part = Part::read(raw).map_err(|error| {
                self.fail(undecodable("no part of a reply", &error.to_string()))
            })?;
            match part {
                Part::Text { text, is_thought, signature } => {
                    self.take_text(&text, is_thought, signature, emit);
                }
                Part::Call { call, signature } => self.take_call(call, signature, emit),
                Part::Other => self.take_opaque(raw),
            }
        }
        let reason = finish_reason.unwrap_or_default();
        // Vertex calls the missing reason of a chunk in the middle unspecified.
        if !matches!(&*reason, "" | "FINISH_REASON_UNSPECIFIED") {
            let stop = stop_reason(&reason, finish_message.as_deref());
            self.stop = Some(stop.map_err(|error| self.fail(error))?);
        }
        Ok(())
    }

    fn take_text(
        &mut self,
        text: &str,
        is_thought: bool,
        signature: Option<&RawValue>,
        emit: &mut dyn FnMut(StreamEvent),
    ) {
        if text.is_empty() && signature.is_none() {
            return;
        }
        if self.run.is_thought != is_thought {
            self.close_run();
            self.run.is_thought = is_thought;
        }
        let from = self.run.text.len();
        self.run.text.push_str(text);
        if let Some(signature) = signature {
            let place = [from, self.run.text.len()];
            let signed = Signed { signature, text: Some(place) };
            self.run.signed.extend(signed.to_opaque(&self.provider));
        }
        if !text.is_empty() {
            let text = text.to_owned();
            emit(if is_thought {
                StreamEvent::ReasoningDelta(text)
            } else {
                StreamEvent::TextDelta(text)
            });
        }
        // Reasoning has one place for a signature.
        if is_thought && signature.is_some() {
            self.close_run();
        }
    }

    fn take_call(
        &mut self,
        call: Call<'_>,
        signature: Option<&RawValue>,
        emit: &mut dyn FnMut(StreamEvent),
    ) {
        self.close_run();
        let n = self.calls;
        self.calls += 1;
        if let Some(signature) = signature {
            let item = Signed { signature, text: None }.to_opaque(&self.provider);
            self.content.extend(item.map(AssistantPart::Opaque));
        }
        let id = match call.id.filter(|id| !id.is_empty()) {
            Some(id) => id.into_owned().into(),
            None => ids::made(self.salt, &self.id, n),
        };
        let name = call.name.map(Cow::into_owned).unwrap_or_default();
        let arguments = match call.args.map(RawValue::get) {
            // A call without arguments has an empty object of them, which may be left out.
            None | Some("null") => "{}".to_owned(),
            Some(args) => args.to_owned(),
        };
        emit(StreamEvent::ToolCallDelta {
            index: n,
            name: Some(name.clone()),
            arguments: arguments.clone(),
        });
        self.content.push(AssistantPart::ToolCall(ToolCall { id, name, arguments }));
    }

    fn take_opaque(&mut self, raw: &RawValue) {
        self.close_run();
        let item = RawJson::from(raw.to_owned());
        let provider = (*self.provider).to_owned();
        self.content.push(AssistantPart::Opaque(Opaque { provider, item }));
    }

    /// Ends the text that later parts would have been added to.
    fn close_run(&mut self) {
        let Run { is_thought, text, mut signed } = std::mem::take(&mut self.run);
        if is_thought {
            let payload = signed.pop();
            if !text.is_empty() || payload.is_some() {
                self.content.push(AssistantPart::Reasoning(Reasoning { text, payload }));
            }
            return;
        }
        self.content.extend(signed.into_iter().map(AssistantPart::Opaque));
        if !text.is_empty() {
            self.content.push(AssistantPart::Text(text));
        }
    }
}

/// Reads a chunk, or the array of chunks that servers send which were asked for no events.
fn read(data: &str) -> Result<Vec<Chunk<'_>>, serde_json::Error> {
    if data.trim_start().starts_with('[') {
        serde_json::from_str(data)
    } else {
        serde_json::from_str(data).map(|chunk| vec![chunk])
    }
}

fn undecodable(what: &str, why: &str) -> ModelError {
    ModelError::new(ErrorKind::Decode, format!("{what}: {why}"))
}

/// Makes the error of a prompt that nothing was answered to.
fn blocked(feedback: PromptFeedback<'_>) -> Option<ModelError> {
    let reason = feedback.block_reason?;
    if matches!(&*reason, "" | "BLOCK_REASON_UNSPECIFIED" | "BLOCKED_REASON_UNSPECIFIED") {
        return None;
    }
    let said = feedback.block_reason_message.map(|said| format!(": {said}")).unwrap_or_default();
    Some(ModelError {
        code: Some(reason.clone().into_owned()),
        ..ModelError::new(ErrorKind::Refused, format!("the prompt was blocked ({reason}){said}"))
    })
}

/// Says what a finish reason means, or which error it stands for.
fn stop_reason(reason: &str, said: Option<&str>) -> Result<StopReason, ModelError> {
    let failed = |kind, what: &str| {
        let said = said.map(|said| format!(": {said}")).unwrap_or_default();
        let message = format!("{what} ({reason}){said}");
        Err(ModelError { code: Some(reason.to_owned()), ..ModelError::new(kind, message) })
    };
    Ok(match reason {
        "STOP" => StopReason::EndTurn,
        "MAX_TOKENS" => StopReason::MaxTokens,
        "SAFETY"
        | "RECITATION"
        | "LANGUAGE"
        | "BLOCKLIST"
        | "PROHIBITED_CONTENT"
        | "SPII"
        | "MODEL_ARMOR"
        | "IMAGE_SAFETY"
        | "IMAGE_PROHIBITED_CONTENT"
        | "IMAGE_RECITATION" => StopReason::Refused,
        // The provider could not read what its own model wrote and keeps it to itself, so there is
        // nothing to tell the model of; it usually writes something else the next time.
        "MALFORMED_FUNCTION_CALL" | "UNEXPECTED_TOOL_CALL" | "MALFORMED_RESPONSE" => {
            return failed(ErrorKind::Incomplete, "the model wrote no valid call");
        }
        "MISSING_THOUGHT_SIGNATURE" => {
            return failed(ErrorKind::InvalidRequest, "a call was sent without its signature");
        }
        other => StopReason::Other(other.to_owned()),
    })
}
#[cfg(test)]
mod tests;
