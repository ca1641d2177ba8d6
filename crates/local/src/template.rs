//! Conversation as a model's own chat template says.
//!
//! The template, which comes with the file, writes the conversation and the tools. What the model
//! says is free until a call begins; from there it is held to a grammar made of the tools' schemas.

mod format;
mod render;

use bowline_llm::{
    AssistantMessage, AssistantPart, ErrorKind, ModelError, Reasoning, Request, Response,
    StopReason, StreamEvent, ToolCall, Usage,
};
use llama_cpp_2::sampling::LlamaSampler;
use llama_cpp_2::token::LlamaToken;

use crate::engine::{Halt, Listener, Mind, Stop, Talk};
use crate::grammar;
use crate::model::made_id;
use crate::text::Text;
use format::Format;
use render::{Piece, Renderer};

/// How many tokens an answer may have where nobody says.
const MOST: usize = 4096;

/// A chat template that knows tools.
#[derive(Debug)]
pub(crate) struct Template {
    renderer: Renderer,
    format: Format,
}

impl Template {
    /// Reads a template; `None` if it knows no tools, or writes calls in a way that is not known
    /// here.
    ///
    /// # Errors
    /// If it is no template.
    pub(crate) fn of(source: &str) -> Result<Option<Self>, ModelError> {
        let renderer = Renderer::new(source)?;
        let format = renderer.knows_tools().then(|| Format::of(source)).flatten();
        Ok(format.map(|format| Self { renderer, format }))
    }
}

impl Talk for Template {
    fn reply(
        &mut self,
        mind: &mut Mind<'_>,
        request: &Request,
        listener: &Listener,
    ) -> Result<(), Halt> {
        mind.usage = Usage::default();
        let prompt = self.prompt(mind, request)?;
        let kept = mind.read(&prompt.tokens, listener)?;
        mind.usage.input = prompt.tokens.len() as u64;
        mind.usage.cache_read = Some(kept as u64);
        let most = request.max_output_tokens.map_or(MOST, |most| most as usize);
        let mut saying = Saying::new(listener, prompt.is_thinking);
        let mut free = sampler();
        let has_tools = !request.tools.specs().is_empty();
        let stop = mind.write(&mut free, most, listener, |bytes| {
            saying.push(bytes, has_tools.then_some(self.format));
            !saying.has_begun_call
        })?;
        let mut calls = Vec::new();
        let mut stop = match stop {
            Stop::Said | Stop::Wanted => StopReason::EndTurn,
            Stop::Length => StopReason::MaxTokens,
        };
        if saying.has_begun_call {
            // What came after the beginning of the call was not held to the grammar yet.
            let said = saying.before_call().to_owned();
            let opening = format!("{said}{}", self.format.opening());
            let mut tokens = prompt.tokens;
            tokens.extend(mind.tokens(&opening, true));
            mind.read(&tokens, listener)?;
            let left = most.saturating_sub(mind.usage.output as usize).max(1);
            let grammar = self.format.grammar(request.tools.specs())?;
            let held = grammar::sampler(mind.model, &grammar)?;
            let mut held = LlamaSampler::chain_simple([held, sampler()]);
            let mut text = Text::default();
            text.push(self.format.opening().as_bytes());
            let end = mind.write(&mut held, left, listener, |bytes| {
                text.push(bytes);
                true
            })?;
            match self.format.calls(text.whole()) {
                Some(found) => calls = found,
                None if end == Stop::Length => stop = StopReason::MaxTokens,
                None => {
                    let message = format!("the model broke off: {:?}", text.whole());
                    return Err(Halt::failed(ErrorKind::Incomplete, message));
                }
            }
        }
        if !calls.is_empty() {
            stop = StopReason::ToolUse;
        }
        let message = saying.message(calls);
        listener.tell(StreamEvent::Done(Box::new(Response {
            message,
            stop,
            usage: Some(mind.usage),
            wasted: Usage::default(),
            model: None,
        })));
        Ok(())
    }
}

/// A conversation as tokens.
struct Prompt {
    tokens: Vec<LlamaToken>,
    /// Whether the template has begun a reasoning block for the answer.
    is_thinking: bool,
}

impl Template {
    fn prompt(&self, mind: &Mind<'_>, request: &Request) -> Result<Prompt, Halt> {
        let vocab = mind.model.vocab();
        let text_of = |token: LlamaToken| {
            String::from_utf8_lossy(&vocab.token_to_piece(token, true, None)).into_owned()
        };
        let bos = Some(vocab.bos()).filter(|token| token.0 >= 0).map(text_of).unwrap_or_default();
        let eos = Some(vocab.eos()).filter(|token| token.0 >= 0).map(text_of).unwrap_or_default();
        let pieces = self.renderer.render(request, self.format, &bos, &eos).map_err(|error| {
            let message = format!("the chat template of the model failed: {error}");
            Halt::failed(ErrorKind::InvalidRequest, message)
        })?;
        let mut tokens = Vec::new();
        let has_bos = matches!(pieces.first(), Some(Piece::Own(text)) if text.starts_with(&bos));
        if !has_bos || bos.is_empty() {
            tokens.extend(mind.beginning());
        }
        for piece in &pieces {
            match piece {
                Piece::Own(text) => tokens.extend(mind.tokens(text, true)),
                // Nobody but the template may end a turn or begin another.
                Piece::Said(text) => tokens.extend(mind.tokens(text, false)),
            }
        }
        let is_thinking =
            matches!(pieces.last(), Some(Piece::Own(text)) if text.trim_end().ends_with(THINK));
        Ok(Prompt { tokens, is_thinking })
    }
}

/// Chooses among what is likely, the same way every time.
fn sampler() -> LlamaSampler {
    LlamaSampler::chain_simple([
        LlamaSampler::top_k(40),
        LlamaSampler::min_p(0.05, 1),
        LlamaSampler::temp(0.3),
        LlamaSampler::dist(1),
    ])
}

const THINK: &str = "<think>";
const THOUGHT: &str = "</think>";

/// What the model has said so far, and how much of it was told.
struct Saying<'a> {
    listener: &'a Listener,
    text: Text,
    is_thinking: bool,
    /// Where the reasoning ends in the text, once it has.
    thought: usize,
    told: usize,
    call: Option<usize>,
    has_begun_call: bool,
}

impl<'a> Saying<'a> {
    fn new(listener: &'a Listener, is_thinking: bool) -> Self {
        Self {
            listener,
            text: Text::default(),
            is_thinking,
            thought: 0,
            told: 0,
            call: None,
            has_begun_call: false,
        }
    }

    fn push(&mut self, bytes: &[u8], format: Option<Format>) {
        self.text.push(bytes);
        let whole = self.text.whole();
        if self.thought == 0 && self.told == 0 && whole.trim_start().starts_with(THINK) {
            self.is_thinking = true;
            self.told = whole.find(THINK).unwrap_or(0) + THINK.len();
        }
        if self.is_thinking {
            let from = self.told;
            let rest = whole.get(from..).unwrap_or_default();
            match rest.find(THOUGHT) {
                Some(end) => {
                    self.tell_reasoning(from, from + end);
                    self.is_thinking = false;
                    self.thought = from + end;
                    self.told = from + end + THOUGHT.len();
                }
                None => {
                    let end = from + rest.len() - held_back(rest, THOUGHT);
                    self.tell_reasoning(from, end);
                    self.told = end;
                    return;
                }
            }
        }
        let whole = self.text.whole();
        let rest = whole.get(self.told..).unwrap_or_default();
        let found = format.and_then(|format| format.find_call(whole, self.told));
        let end = match (found, format) {
            (Some(call), _) => {
                self.call = Some(call);
                self.has_begun_call = true;
                call.max(self.told)
            }
            (None, Some(format)) => self.told + rest.len() - held_back(rest, format.trigger()),
            (None, None) => self.told + rest.len(),
        };
        // An opening tag of reasoning may still come.
        let is_open = self.told == 0 && THINK.starts_with(whole.trim_start());
        if end > self.told && !is_open {
            let text = whole.get(self.told..end).unwrap_or_default();
            self.listener.tell(StreamEvent::TextDelta(text.to_owned()));
            self.told = end;
        }
    }

    fn tell_reasoning(&self, from: usize, to: usize) {
        let text = self.text.whole().get(from..to).unwrap_or_default();
        if !text.is_empty() {
            self.listener.tell(StreamEvent::ReasoningDelta(text.to_owned()));
        }
    }

    fn before_call(&self) -> &str {
        self.call.and_then(|call| self.text.whole().get(..call)).unwrap_or_default()
    }

    /// Puts the reply together.
    fn message(&self, calls: Vec<(String, String)>) -> AssistantMessage {
        let whole = self.text.whole();
        let said = self.call.and_then(|call| whole.get(..call)).unwrap_or(whole);
        let (reasoning, text) = if self.thought > 0 {
            said.split_once(THOUGHT).unwrap_or(("", said))
        } else if self.is_thinking {
            (said, "")
        } else {
            ("", said)
        };
        let reasoning = reasoning.trim_start().trim_start_matches(THINK).trim();
        let mut content = Vec::new();
        if !reasoning.is_empty() {
            let reasoning = Reasoning { text: reasoning.to_owned(), payload: None };
            content.push(AssistantPart::Reasoning(reasoning));
        }
        if !text.trim().is_empty() {
            content.push(AssistantPart::Text(text.trim().to_owned()));
        }
        content.extend(calls.into_iter().map(|(name, arguments)| {
            AssistantPart::ToolCall(ToolCall { id: made_id(), name, arguments })
        }));
        AssistantMessage { content }
    }
}

/// Returns how many bytes at the end of a text could be the beginning of a mark.
fn held_back(text: &str, mark: &str) -> usize {
    (1..mark.len())
        .rev()
        .filter(|n| mark.is_char_boundary(*n))
        .find(|n| mark.get(..*n).is_some_and(|start| text.ends_with(start)))
        .unwrap_or(0)
}
