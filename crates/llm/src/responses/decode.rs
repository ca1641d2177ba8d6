//! Answers into events and one response.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::value::RawValue;

use self::draft::{Draft, Piece};
use super::answer::{Event, Whole, text};
use super::item::{self, Fields};
use crate::wire::{Decode, ids};
use crate::{
    AssistantMessage, ErrorKind, ModelError, Response, Spent, StopReason, StreamEvent, Usage, sse,
};

mod draft;

/// Turns the events of a stream into [`StreamEvent`]s and, at the end, a [`Response`].
///
/// The end is the event that brings the whole response. The items in it count, unless some that
/// were seen are missing there: some servers send an empty list.
#[derive(Debug)]
pub struct Decoder {
    provider: Arc<str>,
    salt: u64,
    id: String,
    model: Option<String>,
    drafts: Vec<Draft>,
    /// The items of the final response.
    output: Vec<Box<RawValue>>,
    stop: Option<StopReason>,
    usage: Option<Usage>,
    is_done: bool,
}

impl Decoder {
    /// Makes a decoder for one reply of `provider`, with the salt that
    /// [`Codec::decoder`](crate::wire::Codec::decoder) speaks of.
    pub(super) fn new(provider: Arc<str>, salt: u64) -> Self {
        Self {
            provider,
            salt,
            id: String::new(),
            model: None,
            drafts: Vec::new(),
            output: Vec::new(),
            stop: None,
            usage: None,
            is_done: false,
        }
    }

    fn take(
        &mut self,
        event: &Event<'_>,
        emit: &mut dyn FnMut(StreamEvent),
    ) -> Result<(), ModelError> {
        let (content, summary) = (event.content_index.0, event.summary_index.0);
        let delta = || text(event.delta);
        match &*event.kind {
            "response.output_item.added" => self.announce(event, emit),
            "response.output_item.done" => self.complete(event, emit),
            "response.output_text.delta" => self.update(event, "message", |draft| {
                draft.add(Piece::Text(content), &delta(), emit);
            }),
            "response.refusal.delta" => self.update(event, "message", |draft| {
                draft.add(Piece::Refusal(content), &delta(), emit);
            }),
            "response.reasoning_summary_text.delta" => self.update(event, "reasoning", |draft| {
                draft.add(Piece::Summary(summary), &delta(), emit);
            }),
            "response.reasoning_text.delta" => self.update(event, "reasoning", |draft| {
                draft.add(Piece::Thought(content), &delta(), emit);
            }),
            "response.function_call_arguments.delta" => {
                self.update(event, "function_call", |draft| draft.add_arguments(&delta(), emit));
            }
            "response.function_call_arguments.done" => {
                let arguments = text(event.arguments);
                self.update(event, "function_call", |draft| {
                    draft.has_arguments(&arguments, emit);
                });
            }
            "response.created" | "response.queued" | "response.in_progress" => {
                let whole = self.read(event.response)?;
                self.begin(&whole);
            }
            kind @ ("response.completed"
            | "response.incomplete"
            | "response.failed"
            | "response.cancelled"
            | "response.canceled") => {
                let whole = self.read(event.response)?;
                self.end(whole, kind.trim_start_matches("response."))?;
            }
            // The others repeat what these bring, or tell of tools that the provider runs.
            _ => {}
        }
        Ok(())
    }

    /// Changes the draft of which a delta speaks; one of this type is begun if there is none.
    ///
    /// The id decides, then the place. Some servers send neither, and behind some gateways several
    /// items share a place or one has many ids: then it is the newest of its type.
    fn update(&mut self, event: &Event<'_>, kind: &str, change: impl FnOnce(&mut Draft)) {
        let id = event.item_id.map(|id| id.get().trim_matches('"')).unwrap_or_default();
        let place = event.output_index.0;
        let find = |fits: &dyn Fn(&Draft) -> bool| {
            self.drafts.iter().rposition(|draft| draft.kind() == kind && fits(draft))
        };
        let found = find(&|draft| !id.is_empty() && draft.id == id)
            .or_else(|| find(&|draft| place.is_some() && draft.place == place))
            .or_else(|| {
                find(&|draft| !draft.is_whole() && (place.is_none() || draft.place.is_none()))
            });
        let n = found.unwrap_or_else(|| {
            let fields = Fields::from_iter([("type".to_owned(), kind.into())]);
            self.begin_draft(place, fields)
        });
        if let Some(draft) = self.drafts.get_mut(n) {
            change(draft);
        }
    }

    /// Takes an item that begins.
    fn announce(&mut self, event: &Event<'_>, emit: &mut dyn FnMut(StreamEvent)) {
        let Some(fields) = event.item.and_then(item::fields) else { return };
        let id = item::id(&fields);
        if !id.is_empty() && self.drafts.iter().any(|draft| draft.id == id) {
            return;
        }
        let n = self.begin_draft(event.output_index.0, fields);
        if let Some(draft) = self.drafts.get_mut(n) {
            draft.announce(emit);
        }
    }

    /// Takes an item that is complete.
    fn complete(&mut self, event: &Event<'_>, emit: &mut dyn FnMut(StreamEvent)) {
        let Some(raw) = event.item else { return };
        let Some(fields) = item::fields(raw) else { return };
        let (id, place) = (item::id(&fields), event.output_index.0);
        let is_open = |draft: &Draft| !draft.is_whole() && draft.kind() == item::kind(&fields);
        let by_id = self.drafts.iter().rposition(|draft| !id.is_empty() && draft.id == id);
        let found = by_id.or_else(|| {
            self.drafts
                .iter()
                .rposition(|draft| is_open(draft) && (draft.place == place || place.is_none()))
        });
        let n = found.unwrap_or_else(|| self.begin_draft(place, fields.clone()));
        if let Some(draft) = self.drafts.get_mut(n) {
            draft.announce(emit);
            draft.complete(raw, &fields, emit);
        }
    }

    fn begin_draft(&mut self, place: Option<u64>, fields: Fields) -> usize {
        let calls = self.drafts.iter().filter(|draft| draft.call.is_some()).count();
        self.drafts.push(Draft::new(place, fields, calls));
        self.drafts.len() - 1
    }

    /// Reads the response that an event brings.
    fn read<'a>(&self, raw: Option<&'a RawValue>) -> Result<Whole<'a>, ModelError> {
        let Some(raw) = raw else { return Ok(Whole::default()) };
        serde_json::from_str(raw.get()).map_err(|error| {
            self.fail(ModelError::new(ErrorKind::Decode, format!("no response: {error}")))
        })
    }

    fn begin(&mut self, whole: &Whole<'_>) {
        if let Some(id) = &whole.id {
            id.as_ref().clone_into(&mut self.id);
        }
        if let Some(model) = whole.model.as_deref().filter(|model| !model.is_empty()) {
            self.model = Some(model.to_owned());
        }
    }

    /// Takes the whole response; `status` stands in where it names none.
    fn end(&mut self, whole: Whole<'_>, status: &str) -> Result<(), ModelError> {
        self.begin(&whole);
        if let Some(usage) = whole.usage.as_ref().and_then(|tokens| tokens.usage()) {
            self.usage = Some(usage);
        }
        let reason = whole.incomplete_details.and_then(|details| details.reason);
        let stop = match whole.status.as_deref().unwrap_or(status) {
            "failed" => {
                let error = whole.error.map_or("null", RawValue::get);
                return Err(self.fail(ModelError::from_error_field(error)));
            }
            status @ ("in_progress" | "queued") => {
                let message = format!("the server answered with a response that is {status}");
                return Err(self.fail(ModelError::new(ErrorKind::Incomplete, message)));
            }
            "completed" => StopReason::EndTurn,
            "incomplete" => stop_reason(reason),
            "cancelled" | "canceled" => StopReason::Canceled,
            other => StopReason::Other(other.to_owned()),
        };
        self.stop = Some(stop);
        self.output = whole.output.into_iter().flatten().map(RawValue::to_owned).collect();
        self.is_done = true;
        Ok(())
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
        let mut event: Event<'_> = serde_json::from_str(data).map_err(|error| {
            self.fail(ModelError::new(ErrorKind::Decode, format!("no event of a reply: {error}")))
        })?;
        if event.kind.is_empty() {
            event.kind = Cow::Borrowed(name);
        }
        // What went wrong behind a gateway may come without any type.
        if event.kind == "error" || (event.kind.is_empty() && event.error.is_some()) {
            // It stands in a field of its own, or is the event itself.
            let error = event.error.map_or(data, RawValue::get);
            return Err(self.fail(ModelError::from_error_field(error)));
        }
        self.take(&event, emit)
    }

    fn document(mut self, body: &[u8]) -> Result<Response, ModelError> {
        let invalid = |what: String| {
            ModelError::new(ErrorKind::Decode, format!("no answer of this wire: {what}"))
        };
        let body = std::str::from_utf8(body).map_err(|error| invalid(error.to_string()))?;
        let whole: Whole<'_> =
            serde_json::from_str(body).map_err(|error| invalid(error.to_string()))?;
        let has_output = whole.output.is_some();
        // A gateway may report an error where the response would stand.
        let status = if whole.error.is_some() { "failed" } else { "completed" };
        self.end(whole, status)?;
        if !has_output {
            return Err(self.fail(invalid("it has no output".to_owned())));
        }
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
            let message = "the stream ended before the response was complete";
            return Err(self.fail(ModelError::new(ErrorKind::Incomplete, message)));
        };
        let Self { provider, salt, id, model, mut drafts, output, usage, .. } = self;
        let seen = drafts.iter().filter(|draft| draft.is_whole()).count();
        let items = if output.is_empty() || output.len() < seen {
            drafts.sort_by_key(|draft| draft.place);
            drafts.into_iter().filter_map(Draft::into_item).collect()
        } else {
            output
        };
        let mut content = Vec::with_capacity(items.len());
        let mut is_refusal = false;
        for (n, raw) in items.iter().enumerate() {
            let mut read = item::read(raw, &provider, || ids::made(salt, &id, n));
            content.append(&mut read.parts);
            is_refusal |= read.is_refusal;
        }
        let message = AssistantMessage { content };
        let has_calls = message.tool_calls().next().is_some();
        let stop = match stop {
            StopReason::EndTurn if is_refusal => StopReason::Refused,
            StopReason::EndTurn if has_calls => StopReason::ToolUse,
            stop => stop,
        };
        Ok(Response { message, stop, usage, wasted: Spent::default(), model, by: None })
    }

    fn fail(&self, mut error: ModelError) -> ModelError {
        error.usage += self.usage.unwrap_or_default();
        error
    }
}

fn stop_reason(incomplete: Option<String>) -> StopReason {
    match incomplete.as_deref() {
        Some("max_output_tokens" | "max_tokens" | "length") => StopReason::MaxTokens,
        Some("content_filter") => StopReason::Refused,
        _ => StopReason::Other(incomplete.unwrap_or_else(|| "incomplete".to_owned())),
    }
}

#[cfg(test)]
mod tests;
