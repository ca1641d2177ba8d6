//! Answers into events and one response.

use std::sync::Arc;

use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::answer::{CallDelta, Choice, Chunk, Delta, FunctionDelta, Text};
use super::reasoning::Details;
use super::text_calls::{self, Found};
use crate::wire::{Decode, ids, json};
use crate::{
    AssistantMessage, AssistantPart, ErrorKind, Message, ModelError, Opaque, Part, Reasoning,
    Request, Response, Spent, StopReason, StreamEvent, ToolBlock, ToolCall, Usage, sse,
};

/// Turns the data of a stream's events into [`StreamEvent`]s and, at the end, a [`Response`].
///
/// The reply is complete once a finish reason came; usage and `[DONE]` follow it. A stream that
/// ends without a finish reason broke off, whatever else came.
#[derive(Debug)]
pub struct Decoder {
    provider: Arc<str>,
    salt: u64,
    id: String,
    model: Option<String>,
    text: String,
    reasoning: String,
    details: Details,
    calls: Vec<CallDraft>,
    /// What is looked for in the text, until it is known whether it holds calls.
    watch: Option<Watch>,
    is_refusal: bool,
    stop: Option<StopReason>,
    usage: Option<Usage>,
    is_done: bool,
}

/// A call of which parts may still come.
#[derive(Debug, Default)]
struct CallDraft {
    index: Option<u64>,
    id: String,
    name: String,
    arguments: String,
}

impl CallDraft {
    fn is_complete(&self) -> bool {
        serde_json::from_str::<Map<String, Value>>(&self.arguments).is_ok()
    }
}

/// A look for calls in the text.
#[derive(Debug)]
struct Watch {
    /// The tools that were offered.
    tools: ToolBlock,
    /// What tools have said.
    results: Vec<Arc<[Part]>>,
    /// How much of the text has been handed out.
    told: usize,
}

impl Decoder {
    /// Makes a decoder for one reply of `provider`.
    ///
    /// A call without an id gets one made of `salt`, the reply's id and the call's place. Replies
    /// must not share a salt: the ids of replies repeat on servers that make none themselves.
    pub fn new(provider: Arc<str>, salt: u64) -> Self {
        Self {
            provider,
            salt,
            id: String::new(),
            model: None,
            text: String::new(),
            reasoning: String::new(),
            details: Details::default(),
            calls: Vec::new(),
            watch: None,
            is_refusal: false,
            stop: None,
            usage: None,
            is_done: false,
        }
    }

    /// Lets calls that the model wrote as text count as calls of the tools of a request, if the reply has
    /// no others, and if the model does not only repeat what it has read in a result. What may become one
    /// is handed out only when it is known that it does not.
    #[must_use]
    pub fn reading_calls_in_text(mut self, request: &Request) -> Self {
        let tools = request.tools.clone();
        if tools.specs().is_empty() {
            return self;
        }
        let said = request.messages.iter().filter_map(|message| match &**message {
            Message::Results(results) => Some(results.iter().map(|one| Arc::clone(&one.content))),
            Message::User(_) | Message::Assistant(_) => None,
        });
        self.watch = Some(Watch { tools, results: said.flatten().collect(), told: 0 });
        self
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
            "[DONE]" => {
                self.is_done = true;
                return Ok(());
            }
            _ => {}
        }
        let chunk = serde_json::from_str::<Chunk<'_>>(data);
        if name == "error" {
            // It stands in a field of its own, or is the event itself.
            let error = chunk.ok().and_then(|chunk| chunk.error).map_or(data, RawValue::get);
            return Err(self.fail(ModelError::from_error_field(error)));
        }
        let chunk = chunk.map_err(|error| {
            self.fail(ModelError::new(ErrorKind::Decode, format!("no chunk of a reply: {error}")))
        })?;
        self.take(chunk, data, emit)
    }

    fn document(mut self, body: &[u8]) -> Result<Response, ModelError> {
        let invalid = |what: String| {
            ModelError::new(ErrorKind::Decode, format!("no answer of this wire: {what}"))
        };
        let body = std::str::from_utf8(body).map_err(|error| invalid(error.to_string()))?;
        let chunk: Chunk<'_> =
            serde_json::from_str(body).map_err(|error| invalid(error.to_string()))?;
        let is_empty = chunk.choices.as_ref().is_none_or(Vec::is_empty);
        self.take(chunk, body, &mut drop)?;
        if is_empty {
            return Err(self.fail(invalid("it has no choices".to_owned())));
        }
        // A document is whole if it can be parsed, even where a server names no reason.
        self.stop.get_or_insert(StopReason::EndTurn);
        self.settle(&mut drop);
        self.finish()
    }

    fn has_stopped(&self) -> bool {
        self.stop.is_some()
    }

    fn is_done(&self) -> bool {
        self.is_done
    }

    fn finish(self) -> Result<Response, ModelError> {
        let Some(stop) = self.stop.clone() else {
            let message = "the stream ended before a finish reason came";
            return Err(self.fail(ModelError::new(ErrorKind::Incomplete, message)));
        };
        let stop = match stop {
            _ if self.is_refusal => StopReason::Refused,
            // Some servers say `stop` although the model waits for its calls.
            StopReason::EndTurn if !self.calls.is_empty() => StopReason::ToolUse,
            stop => stop,
        };
        let Self { provider, salt, id, model, text, reasoning, details, calls, usage, .. } = self;
        let mut content = Vec::with_capacity(calls.len() + 2);
        let payload =
            details.into_payload().map(|item| Opaque { provider: (*provider).into(), item });
        if !reasoning.is_empty() || payload.is_some() {
            content.push(AssistantPart::Reasoning(Reasoning { text: reasoning, payload }));
        }
        if !text.is_empty() {
            content.push(AssistantPart::Text(text));
        }
        content.extend(calls.into_iter().enumerate().map(|(n, call)| {
            let id = if call.id.is_empty() { ids::made(salt, &id, n) } else { call.id.into() };
            let CallDraft { name, arguments, .. } = call;
            AssistantPart::ToolCall(ToolCall { id, name, arguments })
        }));
        let message = AssistantMessage { content };
        Ok(Response { message, stop, usage, wasted: Spent::default(), model, by: None })
    }

    fn fail(&self, mut error: ModelError) -> ModelError {
        error.usage += self.usage.unwrap_or_default();
        error
    }
}

impl Decoder {
    /// Takes a chunk, which was read from `data`.
    fn take(
        &mut self,
        chunk: Chunk<'_>,
        data: &str,
        emit: &mut dyn FnMut(StreamEvent),
    ) -> Result<(), ModelError> {
        if let Some(usage) = chunk.usage() {
            self.usage = Some(usage);
        }
        if let Some(error) = chunk.error(data) {
            return Err(self.fail(ModelError::from_error_field(error)));
        }
        if let Some(id) = chunk.id.as_ref().and_then(Text::filled)
            && self.id.is_empty()
        {
            id.clone_into(&mut self.id);
        }
        if let Some(model) = chunk.model.as_ref().and_then(Text::filled)
            && self.model.is_none()
        {
            self.model = Some(model.to_owned());
        }
        for choice in chunk.choices.into_iter().flatten() {
            // One answer was asked for; others would be mixed into it.
            if choice.index.0.unwrap_or(0) == 0 {
                self.take_choice(choice, emit)?;
            }
        }
        Ok(())
    }

    fn take_choice(
        &mut self,
        choice: Choice<'_>,
        emit: &mut dyn FnMut(StreamEvent),
    ) -> Result<(), ModelError> {
        if let Some(delta) = choice.delta.or(choice.message) {
            self.take_delta(delta, emit);
        }
        if let Some(reason) = choice.finish_reason.as_ref().and_then(Text::filled) {
            self.stop = Some(stop_reason(reason).map_err(|error| self.fail(error))?);
            self.settle(emit);
        }
        Ok(())
    }

    fn take_delta(&mut self, delta: Delta<'_>, emit: &mut dyn FnMut(StreamEvent)) {
        let mut reasoning = String::new();
        // Servers that send both names send the same text twice.
        for text in [delta.reasoning_content, delta.reasoning].into_iter().flatten() {
            if reasoning.is_empty() {
                reasoning = text.text.into_owned();
            }
        }
        if let Some(details) = delta.reasoning_details {
            let mut readable = String::new();
            self.details.add(details, &mut readable);
            if reasoning.is_empty() {
                reasoning = readable;
            }
        }
        if let Some(content) = &delta.content {
            reasoning.push_str(&content.thinking);
        }
        if !reasoning.is_empty() {
            self.reasoning.push_str(&reasoning);
            emit(StreamEvent::ReasoningDelta(reasoning));
        }
        if delta.refusal.as_ref().and_then(Text::filled).is_some() {
            self.is_refusal = true;
        }
        for text in [delta.content, delta.refusal].into_iter().flatten() {
            self.take_text(text.text.into_owned(), emit);
        }
        for call in delta.tool_calls.into_iter().flatten() {
            self.take_call(call, emit);
        }
    }

    fn take_text(&mut self, text: String, emit: &mut dyn FnMut(StreamEvent)) {
        if text.is_empty() {
            return;
        }
        self.text.push_str(&text);
        let Some(watch) = &mut self.watch else { return emit(StreamEvent::TextDelta(text)) };
        let certain = text_calls::certain(&self.text, watch.told);
        if let Some(text) = self.text.get(watch.told..certain).filter(|text| !text.is_empty()) {
            emit(StreamEvent::TextDelta(text.to_owned()));
            watch.told = certain;
        }
    }

    /// Finds the calls in the text, now that all of it is there, and hands out what was held back.
    fn settle(&mut self, emit: &mut dyn FnMut(StreamEvent)) {
        let Some(Watch { tools, results, told }) = self.watch.take() else { return };
        let is_whole = matches!(self.stop, Some(StopReason::EndTurn | StopReason::ToolUse));
        let found = (is_whole && self.calls.is_empty())
            .then(|| text_calls::find(&self.text, tools.specs()))
            .flatten()
            .filter(|found| !found.calls.iter().any(|call| call.is_repeated(&results)));
        let (text, calls) = match found {
            Some(Found { text, calls }) => (text, calls),
            None => (std::mem::take(&mut self.text), Vec::new()),
        };
        if let Some(rest) = text.get(told..).filter(|rest| !rest.is_empty()) {
            emit(StreamEvent::TextDelta(rest.to_owned()));
        }
        self.text = text;
        for (index, text_calls::Call { name, arguments, .. }) in calls.into_iter().enumerate() {
            emit(StreamEvent::ToolCallDelta {
                index,
                name: Some(name.clone()),
                arguments: arguments.clone(),
            });
            self.calls.push(CallDraft { name, arguments, ..CallDraft::default() });
        }
    }

    fn take_call(&mut self, delta: CallDelta<'_>, emit: &mut dyn FnMut(StreamEvent)) {
        let CallDelta { index, id, function } = delta;
        let FunctionDelta { name, arguments: raw } = function.unwrap_or_default();
        let id = id.as_ref().and_then(Text::filled);
        let name = name.as_ref().and_then(Text::filled);
        let arguments = raw.map(json::written_arguments).unwrap_or_default().into_owned();
        let n = match self.draft_for(index.0, id, name, &arguments) {
            Some(n) => n,
            None => {
                self.calls.push(CallDraft { index: index.0, ..CallDraft::default() });
                self.calls.len() - 1
            }
        };
        let Some(draft) = self.calls.get_mut(n) else { return };
        if draft.id.is_empty() {
            draft.id.push_str(id.unwrap_or_default());
        }
        let is_first = draft.name.is_empty();
        let name = name.filter(|_| is_first);
        draft.name.push_str(name.unwrap_or_default());
        draft.arguments.push_str(&arguments);
        if name.is_some() || !arguments.is_empty() {
            emit(StreamEvent::ToolCallDelta { index: n, name: name.map(str::to_owned), arguments });
        }
    }

    /// Finds the call that a delta continues; `None` if it begins a new one.
    ///
    /// The index decides where there is one, except that some servers give all calls the index 0:
    /// a new id together with a name is a new call, and so is a name with arguments where those
    /// before are complete. Without an index the id decides, and without both a name begins a call.
    fn draft_for(
        &self,
        index: Option<u64>,
        id: Option<&str>,
        name: Option<&str>,
        arguments: &str,
    ) -> Option<usize> {
        let same_id = |call: &CallDraft| id.is_some_and(|id| call.id == id);
        if let Some(index) = index {
            let n = self.calls.iter().rposition(|call| call.index == Some(index))?;
            let call = self.calls.get(n)?;
            let is_other = match id {
                Some(_) => !call.id.is_empty() && !same_id(call),
                None => call.id.is_empty() && !arguments.is_empty() && call.is_complete(),
            };
            return (!(is_other && name.is_some())).then_some(n);
        }
        match (id, name) {
            (Some(_), _) => self.calls.iter().rposition(same_id),
            (None, Some(_)) => None,
            (None, None) => self.calls.len().checked_sub(1),
        }
    }
}

/// Says what a finish reason means, or which error it stands for. Gateways pass on the words of
/// other wires.
fn stop_reason(reason: &str) -> Result<StopReason, ModelError> {
    Ok(match reason.to_ascii_lowercase().as_str() {
        "stop" | "eos" | "eos_token" | "end_turn" | "stop_sequence" => StopReason::EndTurn,
        "tool_calls" | "function_call" | "tool_use" => StopReason::ToolUse,
        "length" | "max_tokens" | "model_length" => StopReason::MaxTokens,
        "content_filter" | "safety" | "sensitive" | "refusal" => StopReason::Refused,
        // DeepSeek's and Z.ai's words for a reply that they had to cut off: the next may be whole.
        "insufficient_system_resource" | "network_error" => {
            let message = format!("the provider cut the reply off ({reason})");
            let code = Some(reason.to_owned());
            return Err(ModelError { code, ..ModelError::new(ErrorKind::Overloaded, message) });
        }
        "error" => StopReason::Error,
        _ => StopReason::Other(reason.to_owned()),
    })
}

#[cfg(test)]
mod tests;
