//! Conversation in plain lines, for models that were never taught to call tools.
//!
//! ```text
//! User: What is the host in server.ini?
//! Call: read_file("server.ini")
//! Result: host = "moon" / user = "eve"
//! Answer: The host is moon.
//! ```
//!
//! A tiny model continues such lines after a few examples, where it fails at JSON. Which tool it
//! takes is not what it finds most likely, since it likes some names better than others whatever the
//! question: what counts is how much more likely the question makes a tool than no question would.
//! Once a call has succeeded, the model answers.

mod copied;
mod dialogue;
mod examples;
mod forms;

use bowline_llm::{
    AssistantMessage, AssistantPart, ErrorKind, Request, Response, StopReason, StreamEvent,
    ToolCall, Usage,
};
use llama_cpp_2::sampling::LlamaSampler;
use llama_cpp_2::token::LlamaToken;

use crate::engine::{Halt, Listener, Mind, Talk};
use crate::grammar;
use crate::model::made_id;
use crate::text::Text;
use copied::Copied;
use dialogue::Dialogue;
use forms::{FORMS, Form};

/// How many tokens a call or an answer may have.
const MOST: usize = 160;

/// How many calls are made for one request, when none succeeds.
const CALLS: usize = 3;

/// What is asked where nothing is asked.
const NO_QUESTIONS: [&str; 4] =
    ["Help me with this.", "Do it.", "What now?", "Please do the task."];

/// The conversation in lines.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    /// How likely each form is without a question, for the forms that were offered last.
    habits: Option<(Vec<&'static str>, Vec<f32>)>,
}

impl Talk for Lines {
    fn reply(
        &mut self,
        mind: &mut Mind<'_>,
        request: &Request,
        listener: &Listener,
    ) -> Result<(), Halt> {
        mind.usage = Usage::default();
        let offered = request.tools.specs();
        let offered: Vec<&Form> =
            FORMS.iter().filter(|form| offered.iter().any(|spec| spec.name == form.tool)).collect();
        let examples = examples::text(&offered);
        let mut dialogue = Dialogue::of(&request.messages);
        let prompt = loop {
            let prompt = format!("{examples}{}", dialogue.text());
            let length = mind.tokens(&prompt, false).len() + MOST;
            // What was said long ago goes first.
            if length < mind.window() || !dialogue.drop_oldest() {
                break prompt;
            }
        };
        let Some(last) = dialogue.last() else {
            return Err(Halt::failed(ErrorKind::InvalidRequest, "nothing was asked"));
        };
        let copied = Copied::from(last);
        let possible: Vec<&Form> = offered
            .iter()
            .copied()
            .filter(|form| {
                copied.suggests(form, !last.failed.is_empty())
                    && !last.failed.iter().any(|failed| failed == form.tool)
            })
            .collect();
        let message = if last.has_result || last.calls >= CALLS || possible.is_empty() {
            let most = request.max_output_tokens.map_or(MOST, |most| most as usize).min(MOST);
            self.answer(mind, &prompt, most, listener)?
        } else {
            self.call(mind, &Ask { prompt, examples, offered, possible, copied }, listener)?
        };
        let stop = match message.tool_calls().next() {
            Some(_) => StopReason::ToolUse,
            None => StopReason::EndTurn,
        };
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

/// A request that is to be answered with a call.
struct Ask<'a> {
    prompt: String,
    examples: String,
    offered: Vec<&'static Form>,
    possible: Vec<&'static Form>,
    copied: Copied<'a>,
}

impl Lines {
    fn answer(
        &self,
        mind: &mut Mind<'_>,
        prompt: &str,
        most: usize,
        listener: &Listener,
    ) -> Result<AssistantMessage, Halt> {
        let prompt = format!("{prompt}Answer:");
        read(mind, &prompt, listener)?;
        // A tiny model likes to say things again and again; copying from the request it must be able to.
        let dry = LlamaSampler::dry(mind.model, 0.8, 1.75, 8, -1, ["\n"]);
        let grammar = grammar::sampler(mind.model, "root ::= \" \" [^\\n]* [^\\n:] \"\\n\"\n")?;
        let mut sampler = LlamaSampler::chain_simple([grammar, dry, LlamaSampler::greedy()]);
        let mut text = Text::default();
        let mut has_begun = false;
        mind.write(&mut sampler, most, listener, |bytes| {
            let piece = text.push(bytes);
            let is_end = piece.contains('\n');
            let piece = piece.trim_end_matches('\n');
            let piece = if has_begun { piece } else { piece.trim_start() };
            if !piece.is_empty() {
                has_begun = true;
                listener.tell(StreamEvent::TextDelta(piece.to_owned()));
            }
            !is_end
        })?;
        Ok(AssistantMessage::text(text.whole().trim()))
    }

    fn call(
        &mut self,
        mind: &mut Mind<'_>,
        ask: &Ask<'_>,
        listener: &Listener,
    ) -> Result<AssistantMessage, Halt> {
        let form = self.choose_form(mind, ask, listener)?;
        let prompt = format!("{}Call:", ask.prompt);
        read(mind, &prompt, listener)?;
        let grammar = grammar::sampler(mind.model, &ask.copied.grammar(form))?;
        let mut sampler = LlamaSampler::chain_simple([grammar, LlamaSampler::greedy()]);
        let mut line = Vec::new();
        mind.write(&mut sampler, MOST, listener, |bytes| {
            line.extend_from_slice(bytes);
            !line.ends_with(b"\n")
        })?;
        let line = String::from_utf8_lossy(&line);
        let arguments = ask.copied.arguments(form, line.trim()).ok_or_else(|| {
            Halt::failed(ErrorKind::Incomplete, format!("the model broke off: {line:?}"))
        })?;
        let call = ToolCall { id: made_id(), name: form.tool.to_owned(), arguments };
        listener.tell(StreamEvent::ToolCallDelta {
            index: 0,
            name: Some(call.name.clone()),
            arguments: call.arguments.clone(),
        });
        Ok(AssistantMessage { content: vec![AssistantPart::ToolCall(call)] })
    }

    /// Chooses the form that the question makes likely.
    fn choose_form(
        &mut self,
        mind: &mut Mind<'_>,
        ask: &Ask<'_>,
        listener: &Listener,
    ) -> Result<&'static Form, Halt> {
        let openings: Vec<LlamaToken> = ask
            .offered
            .iter()
            .filter_map(|form| mind.tokens(&format!(" {}", form.shown), false).first().copied())
            .collect();
        let names: Vec<&'static str> = ask.offered.iter().map(|form| form.tool).collect();
        let habits = match &self.habits {
            Some((of, habits)) if *of == names => habits.clone(),
            Some(_) | None => {
                let habits = habits(mind, &ask.examples, &openings, listener)?;
                self.habits = Some((names, habits.clone()));
                habits
            }
        };
        read(mind, &format!("{}Call:", ask.prompt), listener)?;
        let likelihoods = mind.likelihoods(&openings);
        let gains = likelihoods.iter().zip(&habits).map(|(now, ever)| now - ever);
        ask.offered
            .iter()
            .zip(gains)
            .filter(|(form, _)| ask.possible.iter().any(|possible| possible.tool == form.tool))
            .max_by(|(_, a), (_, b)| a.total_cmp(b))
            .map(|(form, _)| *form)
            .ok_or_else(|| Halt::failed(ErrorKind::Incomplete, "no tool fits"))
    }
}

/// Measures how likely the model finds each opening when nothing is asked.
fn habits(
    mind: &mut Mind<'_>,
    examples: &str,
    openings: &[LlamaToken],
    listener: &Listener,
) -> Result<Vec<f32>, Halt> {
    let mut sums = vec![0.0; openings.len()];
    for question in NO_QUESTIONS {
        read(mind, &format!("{examples}User: {question}\nCall:"), listener)?;
        for (sum, likelihood) in sums.iter_mut().zip(mind.likelihoods(openings)) {
            *sum += likelihood / NO_QUESTIONS.len() as f32;
        }
    }
    Ok(sums)
}

/// Reads a prompt, and counts it.
fn read(mind: &mut Mind<'_>, prompt: &str, listener: &Listener) -> Result<(), Halt> {
    let mut tokens = mind.tokens(prompt, false);
    if let Some(beginning) = mind.beginning() {
        tokens.insert(0, beginning);
    }
    let kept = mind.read(&tokens, listener)?;
    mind.usage.input = tokens.len() as u64;
    mind.usage.cache_read = Some(kept as u64);
    Ok(())
}
