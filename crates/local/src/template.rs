//! Conversation as a model's own chat template says.
//!
//! The template, which comes with the file, writes the conversation and the tools. What the model
//! says is free until a call begins; from there it is held to a grammar made of the tools' schemas.

mod format;
mod render;
mod schema;

use bowline_llm::{
    AssistantMessage, AssistantPart, ErrorKind, Reasoning, Request, Response, Spent, StopReason,
    StreamEvent, ToolBlock, ToolCall,
};
use llama_cpp_2::sampling::LlamaSampler;
use llama_cpp_2::token::LlamaToken;

use crate::engine::{Halt, Listener, Mind, Stop, Talk};
use crate::grammar;
use crate::model::made_id;
use crate::text::Text;
use crate::vocabulary::Piece;
use format::{Format, Written};
use render::Renderer;

/// How many tokens an answer may have where nobody says.
const MOST: usize = 8192;

/// A chat template that knows tools.
#[derive(Debug)]
pub(crate) struct Template {
    renderer: Renderer,
    format: Format,
    /// The grammar of the tools that were offered last.
    grammar: Option<(ToolBlock, String)>,
}

impl Template {
    /// Reads a template; `None` if it knows no tools, writes calls in a way that is not known here, or
    /// cannot be read.
    pub(crate) fn of(source: &str) -> Option<Self> {
        let renderer = Renderer::new(source).ok().filter(Renderer::knows_tools)?;
        Some(Self { renderer, format: Format::of(source)?, grammar: None })
    }
}

impl Talk for Template {
    fn reply(
        &mut self,
        mind: &mut Mind<'_>,
        request: &Request,
        listener: &Listener,
    ) -> Result<(), Halt> {
        let prompt = self.prompt(mind, request)?;
        mind.read(&prompt.tokens, listener)?;
        let most = mind.most(request).unwrap_or(MOST);
        let has_tools = !request.tools.specs().is_empty();
        let mut saying = Saying::new(listener, has_tools.then_some(self.format));
        saying.is_thinking = prompt.is_thinking;
        let mut free = sampler();
        let stop = mind.write(&mut free, most, listener, |bytes| {
            saying.push(bytes);
            saying.call.is_none()
        })?;
        saying.end();
        let mut stop = match stop {
            Stop::Said | Stop::Wanted => StopReason::EndTurn,
            Stop::Length => StopReason::MaxTokens,
        };
        let mut calls = Vec::new();
        if let Some(said) = saying.before_call() {
            let left = most.saturating_sub(mind.usage().output as usize).max(1);
            let written = self.calls(mind, request, &prompt, said, left, listener)?;
            // Calls that are whole stand, also where the one after them was cut.
            stop = if written.is_empty() { StopReason::MaxTokens } else { StopReason::ToolUse };
            calls = written;
        }
        let message = saying.message(calls);
        listener.tell(StreamEvent::Done(Box::new(Response {
            message,
            stop,
            usage: Some(mind.usage()),
            wasted: Spent::default(),
            model: None,
            by: None,
        })));
        Ok(())
    }
}

impl Template {
    /// Lets the model write its calls, held to the grammar of the tools, after what it has said.
    fn calls(
        &mut self,
        mind: &mut Mind<'_>,
        request: &Request,
        prompt: &Prompt,
        said: &str,
        most: usize,
        listener: &Listener,
    ) -> Result<Vec<Written>, Halt> {
        // What came after the beginning of the call was not held to the grammar yet.
        let mut tokens = prompt.tokens.clone();
        tokens.extend(mind.vocabulary.split_written(format!("{said}{}", self.format.opening())));
        mind.read(&tokens, listener)?;
        let grammar = match self.grammar.take() {
            Some((tools, grammar)) if tools == request.tools => grammar,
            Some(_) | None => self.format.grammar(mind.model, request.tools.specs())?,
        };
        let held = grammar::sampler(mind.model, &grammar)?;
        self.grammar = Some((request.tools.clone(), grammar));
        let mut held = LlamaSampler::chain_simple([held, sampler()]);
        let mut text = Text::default();
        text.push(self.format.opening().as_bytes());
        let stop = mind.write(&mut held, most, listener, |bytes| {
            text.push(bytes);
            true
        })?;
        let calls = self.format.calls(text.whole());
        // A model may end only where the grammar does.
        if calls.is_empty() && stop != Stop::Length {
            let message = format!("the model broke off: {:?}", text.whole());
            return Err(Halt::failed(ErrorKind::Incomplete, message));
        }
        Ok(calls)
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
        let Mind { vocabulary, .. } = mind;
        let (bos, eos) = (vocabulary.bos(), vocabulary.eos());
        let pieces = self.renderer.render(request, self.format, &bos, &eos).map_err(|error| {
            // What a template refuses with is all there is to say; of its mistakes the place is known.
            let what = match error.kind() {
                minijinja::ErrorKind::InvalidOperation => error.detail().map(str::to_owned),
                _ => None,
            };
            let what = what.unwrap_or_else(|| error.to_string());
            let what = what.split_whitespace().collect::<Vec<_>>().join(" ");
            let message = format!("the chat template of the model failed: {what}");
            Halt::failed(ErrorKind::InvalidRequest, message)
        })?;
        let mut tokens = Vec::new();
        let has_bos = matches!(pieces.first(), Some(Piece::Own(text)) if text.starts_with(&bos));
        if !has_bos || bos.is_empty() {
            tokens.extend(vocabulary.beginning());
        }
        // Nobody but the template may end a turn or begin another.
        tokens.extend(vocabulary.split(&pieces));
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
///
/// What is told and what the message holds in the end are the same: without space around it.
struct Saying<'a> {
    listener: &'a Listener,
    /// How a call is found, where there may be one.
    format: Option<Format>,
    text: Text,
    is_thinking: bool,
    /// Where what is not sorted yet begins.
    sorted: usize,
    /// Where the text begins: after the reasoning.
    start: usize,
    /// Where a call begins.
    call: Option<usize>,
    reasoning: Told,
    answer: Told,
}

/// A text that was told bit by bit.
#[derive(Debug, Default)]
struct Told {
    text: String,
    /// Space that is told once something follows it.
    space: String,
}

impl Told {
    /// Takes more; returns what is to be told now.
    fn add(&mut self, more: &str) -> Option<String> {
        let more = if self.text.is_empty() { more.trim_start() } else { more };
        let words = more.trim_end();
        if words.is_empty() {
            self.space.push_str(if self.text.is_empty() { "" } else { more });
            return None;
        }
        let told = format!("{}{words}", self.space);
        self.text.push_str(&told);
        self.space = more.get(words.len()..).unwrap_or_default().to_owned();
        Some(told)
    }
}

impl<'a> Saying<'a> {
    fn new(listener: &'a Listener, format: Option<Format>) -> Self {
        Self {
            listener,
            format,
            text: Text::default(),
            is_thinking: false,
            sorted: 0,
            start: 0,
            call: None,
            reasoning: Told::default(),
            answer: Told::default(),
        }
    }

    fn push(&mut self, bytes: &[u8]) {
        self.text.push(bytes);
        self.sort(false);
    }

    /// Takes what was kept back because more might have come.
    fn end(&mut self) {
        self.sort(true);
    }

    fn sort(&mut self, is_over: bool) {
        if self.sorted == 0 && !self.is_thinking {
            let begin = self.text.whole().trim_start();
            if begin.starts_with(THINK) {
                self.is_thinking = true;
                self.sorted = self.text.whole().len() - begin.len() + THINK.len();
            } else if !is_over && THINK.starts_with(begin) {
                return;
            }
        }
        if self.is_thinking {
            self.sort_reasoning(is_over);
        }
        if !self.is_thinking && self.call.is_none() {
            self.sort_answer(is_over);
        }
    }

    fn sort_reasoning(&mut self, is_over: bool) {
        let rest = self.text.whole().get(self.sorted..).unwrap_or_default();
        let (end, next) = match rest.find(THOUGHT) {
            Some(end) => {
                self.is_thinking = false;
                (end, end + THOUGHT.len())
            }
            None => {
                let kept = if is_over { 0 } else { held_back(rest, THOUGHT) };
                (rest.len() - kept, rest.len() - kept)
            }
        };
        if let Some(text) = self.reasoning.add(rest.get(..end).unwrap_or_default()) {
            self.listener.tell(StreamEvent::ReasoningDelta(text));
        }
        self.sorted += next;
        self.start = self.sorted;
    }

    fn sort_answer(&mut self, is_over: bool) {
        let whole = self.text.whole();
        self.call = self.format.and_then(|format| format.find_call(whole, self.start));
        let kept = match self.format {
            Some(format) if !is_over => {
                held_back(whole.get(self.sorted..).unwrap_or_default(), format.trigger())
            }
            Some(_) | None => 0,
        };
        let end = self.call.unwrap_or(whole.len() - kept).max(self.sorted);
        if let Some(text) = self.answer.add(whole.get(self.sorted..end).unwrap_or_default()) {
            self.listener.tell(StreamEvent::TextDelta(text));
        }
        self.sorted = end;
    }

    /// Returns all that stands before a call, if there is one.
    fn before_call(&self) -> Option<&str> {
        self.text.whole().get(..self.call?)
    }

    /// Puts the reply together.
    fn message(self, calls: Vec<Written>) -> AssistantMessage {
        let mut content = Vec::new();
        if !self.reasoning.text.is_empty() {
            let reasoning = Reasoning { text: self.reasoning.text, payload: None };
            content.push(AssistantPart::Reasoning(reasoning));
        }
        if !self.answer.text.is_empty() {
            content.push(AssistantPart::Text(self.answer.text));
        }
        content.extend(calls.into_iter().map(|Written { name, arguments }| {
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
