//! The view: the messages that a model gets, and what is known of each of them.

use std::collections::HashMap;
use std::sync::Arc;

use bowline_llm::{
    AssistantPart, CallId, Message, MessageRef, Messages, Part, ToolBlock, ToolResult,
};

use crate::entry::{Entry, Rewrite, Summary};

use super::customs::Customs;

/// What is known of each message of a view, in the same order. A clone costs nothing.
pub type Places = rpds::VectorSync<Place>;

/// What is known of a message of a view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Whose it is.
    pub whose: Whose,
    /// Its tokens, roughly.
    pub tokens: u64,
}

/// Whose a message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whose {
    /// The user said it.
    User,
    /// The user said it, never to be forgotten.
    Pinned,
    /// The loop or an effect said it on its own.
    Loop,
    /// A summary of what was before.
    Summary,
    /// The model said it.
    Model,
    /// The results of its calls.
    Tools,
}

/// The messages that a model gets, and about how long they are. A clone costs next to nothing.
#[derive(Debug, Clone, Default)]
pub struct View {
    messages: Messages,
    places: Places,
    // What stands between messages and is none.
    customs: Customs,
    // The places of messages that have parts which are kept elsewhere.
    stored: Vec<usize>,
    // The tokens of what goes before the messages, and of the messages, both roughly.
    system: u64,
    tools: u64,
    size: u64,
    // The tokens of the latest request as its provider counted them, and whether that can be.
    counted: u64,
    measured: Option<Measured>,
}

/// A request as its provider counted it.
#[derive(Debug, Clone, Copy)]
struct Measured {
    tokens: u64,
    // What was thought of it.
    size: u64,
}

impl View {
    /// Returns the messages.
    pub fn messages(&self) -> &Messages {
        &self.messages
    }

    /// Returns what is known of each of the messages.
    pub fn places(&self) -> &Places {
        &self.places
    }

    /// Returns the tokens of the next request, as far as they can be known: those of the latest as
    /// its provider counted them, and an estimate of what came since.
    pub fn estimate(&self) -> u64 {
        self.estimate_of(self.total())
    }

    /// Returns the tokens that the next request takes at least: what was not counted may be half of
    /// what is thought of it.
    pub fn least(&self) -> u64 {
        let estimate = self.estimate();
        if self.measured.is_some() { estimate } else { estimate / 2 }
    }

    /// Returns the tokens of the next request if it had so many fewer, by the same estimate.
    pub fn estimate_without(&self, tokens: u64) -> u64 {
        self.estimate_of(self.total().saturating_sub(tokens))
    }

    /// Returns the view as it would be with a change.
    #[must_use]
    pub fn rewritten(&self, rewrite: &Rewrite) -> Self {
        let shown: HashMap<&CallId, &Arc<[Part]>> =
            rewrite.results.iter().map(|shown| (&shown.call, &shown.content)).collect();
        let cut = rewrite.summary.as_ref().map(|summary| (summary, self.boundary(summary.up_to)));
        let mut new = Self {
            system: self.system,
            tools: self.tools,
            counted: self.counted,
            measured: self.measured,
            customs: self.customs.clone(),
            ..Self::default()
        };
        for (at, (message, place)) in self.messages.iter().zip(&self.places).enumerate() {
            if let Some((summary, up_to)) = cut {
                if at == up_to {
                    new.push_summary(summary);
                }
                if at < up_to && !summary.keeps(at, place.whose) {
                    continue;
                }
            }
            new.push(show(message, &shown), place.whose);
        }
        if let Some((summary, up_to)) = cut {
            if up_to == self.messages.len() {
                new.push_summary(summary);
            }
            // What is behind the cut is as it was.
            let behind = self.messages.len() - up_to;
            new.customs = self.customs.cut(up_to, new.messages.len() - behind);
        }
        new
    }

    /// Returns the place of the last boundary between turns that is not behind a place: nothing
    /// there parts a call from its result.
    pub fn boundary(&self, place: usize) -> usize {
        let mut place = place.min(self.messages.len());
        let goes_on = |place: usize| {
            let is_result =
                matches!(self.places.get(place), Some(Place { whose: Whose::Tools, .. }));
            // The calls of the last reply may have no results yet.
            let is_open = place == self.messages.len() && place > 0 && self.calls(place - 1);
            is_result || is_open
        };
        while place > 0 && goes_on(place) {
            place -= 1;
        }
        place
    }

    /// Tells whether the last message calls tools that have not all come back.
    pub(crate) fn ends_with_calls(&self) -> bool {
        self.messages.len().checked_sub(1).is_some_and(|last| self.calls(last))
    }

    /// Tells whether the last message is the model's.
    pub(crate) fn ends_with_reply(&self) -> bool {
        self.places.last().is_some_and(|place| place.whose == Whose::Model)
    }

    /// Returns the places of messages that have parts which are kept elsewhere.
    pub(super) fn stored(&self) -> &[usize] {
        &self.stored
    }

    /// Returns the entries that stand between messages and are none themselves.
    pub(crate) fn customs(&self) -> &Customs {
        &self.customs
    }

    /// Notes an entry that is no message; `ahead` messages come before it that are not here yet.
    pub(super) fn note(&mut self, entry: &Entry, ahead: usize) {
        self.customs.push(self.messages.len() + ahead, entry);
    }

    pub(super) fn push(&mut self, message: MessageRef, whose: Whose) {
        if has_stored(&message) {
            self.stored.push(self.messages.len());
        }
        let tokens = size_of(&message);
        self.size += tokens;
        self.places.push_back_mut(Place { whose, tokens });
        self.messages.push_back_mut(message);
    }

    pub(super) fn set_system(&mut self, text: &str) {
        self.system = estimate_tokens(text);
    }

    pub(super) fn set_tools(&mut self, tools: &ToolBlock) {
        let specs = tools.specs().iter();
        self.tools = specs
            .map(|spec| {
                let texts = [spec.name.as_str(), &spec.description, spec.schema.as_str()];
                texts.into_iter().map(estimate_tokens).sum::<u64>()
            })
            .sum();
    }

    /// Takes in what a provider counted of a request that had these messages. Some count only what
    /// they had not seen before, or nothing: what cannot be all of it is not believed.
    pub(super) fn measure(&mut self, tokens: u64) {
        self.counted = tokens;
        let size = self.total();
        self.measured = (tokens >= size / 2).then_some(Measured { tokens, size });
    }

    /// Returns the tokens of the latest request as its provider counted them; 0 before the first.
    pub(super) fn counted(&self) -> u64 {
        self.counted
    }

    /// Returns the tokens of a request of another size.
    fn estimate_of(&self, total: u64) -> u64 {
        match self.measured {
            None => total,
            Some(Measured { tokens, size }) if total >= size => tokens + (total - size),
            // What was counted shrinks in proportion.
            Some(Measured { tokens, size }) => {
                let scaled = u128::from(tokens) * u128::from(total) / u128::from(size.max(1));
                u64::try_from(scaled).unwrap_or(u64::MAX)
            }
        }
    }

    fn total(&self) -> u64 {
        self.system + self.tools + self.size
    }

    fn push_summary(&mut self, summary: &Summary) {
        let message = Message::User(Arc::clone(&summary.message));
        self.push(message.into(), Whose::Summary);
    }

    fn calls(&self, place: usize) -> bool {
        match self.messages.get(place).map(|message| &**message) {
            Some(Message::Assistant(said)) => said.tool_calls().next().is_some(),
            Some(Message::User(_) | Message::Results(_)) | None => false,
        }
    }
}

impl Summary {
    /// Tells whether a message that it stands for stays all the same. Only what was said to the
    /// model can, for a reply without its results would be none.
    fn keeps(&self, place: usize, whose: Whose) -> bool {
        matches!(whose, Whose::User | Whose::Pinned | Whose::Loop) && self.kept.contains(&place)
    }
}

fn show(message: &MessageRef, shown: &HashMap<&CallId, &Arc<[Part]>>) -> MessageRef {
    let Message::Results(results) = &**message else { return message.clone() };
    if !results.iter().any(|result| shown.contains_key(&result.call)) {
        return message.clone();
    }
    let results = results.iter().map(|result| match shown.get(&result.call) {
        Some(content) => ToolResult { content: Arc::clone(content), ..result.clone() },
        None => result.clone(),
    });
    Message::Results(results.collect()).into()
}

/// Tells whether a part is kept elsewhere.
fn is_stored(part: &Part) -> bool {
    matches!(part, Part::Stored(_))
}

fn has_stored(message: &Message) -> bool {
    match message {
        Message::User(said) => said.content.iter().any(is_stored),
        Message::Results(results) => {
            results.iter().any(|result| result.content.iter().any(is_stored))
        }
        Message::Assistant(_) => false,
    }
}

/// Tokens of an image, whatever its size: what the largest that providers take costs.
const IMAGE: u64 = 1_600;

/// Tokens of what stands around a message or a part.
const FRAME: u64 = 4;

/// Returns the tokens of a message, roughly: only its provider can count them.
fn size_of(message: &Message) -> u64 {
    FRAME
        + match message {
            Message::User(said) => size_of_parts(&said.content),
            Message::Results(results) => {
                results.iter().map(|result| FRAME + size_of_parts(&result.content)).sum()
            }
            Message::Assistant(said) => said.content.iter().map(size_of_assistant_part).sum(),
        }
}

/// Returns the tokens of some parts, roughly.
pub(crate) fn size_of_parts(parts: &[Part]) -> u64 {
    let size = |part: &Part| match part {
        Part::Text(text) => estimate_tokens(text),
        Part::Image(_) => IMAGE,
        // A page of some kilobytes is read as text and as an image.
        Part::Document(document) => document.data.len() as u64 / 8,
        Part::Stored(stored) => match stored.kind {
            bowline_llm::StoredKind::Text => stored.bytes / 4,
            bowline_llm::StoredKind::Image => IMAGE,
            bowline_llm::StoredKind::Document => stored.bytes / 8,
        },
    };
    parts.iter().map(size).sum()
}

fn size_of_assistant_part(part: &AssistantPart) -> u64 {
    FRAME
        + match part {
            AssistantPart::Text(text) => estimate_tokens(text),
            AssistantPart::Reasoning(reasoning) => match &reasoning.payload {
                Some(payload) => payload.item.as_str().len() as u64 / 4,
                None => estimate_tokens(&reasoning.text),
            },
            AssistantPart::ToolCall(call) => {
                estimate_tokens(&call.name) + estimate_tokens(&call.arguments)
            }
            AssistantPart::Opaque(opaque) => opaque.item.as_str().len() as u64 / 4,
        }
}

/// Returns the tokens of a text, roughly: one for four letters of English, or for one letter of a
/// script that models know less well.
pub fn estimate_tokens(text: &str) -> u64 {
    let bytes = text.len();
    let letters = if text.is_ascii() { bytes } else { text.chars().count() };
    // Each letter that takes more than one byte counts whole.
    let wide = (bytes - letters) / 2;
    ((letters - wide.min(letters)).div_ceil(4) + wide) as u64
}
