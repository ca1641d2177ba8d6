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
    AssistantMessage, AssistantPart, ErrorKind, Request, Response, Spent, StopReason, StreamEvent,
    ToolCall,
};
use llama_cpp_2::sampling::LlamaSampler;
use llama_cpp_2::token::LlamaToken;

use crate::engine::{Halt, Listener, Mind, Stop, Talk};
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
        let offered = request.tools.specs();
        let offered: Vec<&Form> =
            FORMS.iter().filter(|form| offered.iter().any(|spec| spec.name == form.tool)).collect();
        let examples = examples::text(&offered);
        let mut dialogue = Dialogue::of(&request.messages);
        let prompt = loop {
            let prompt = format!("{examples}{}", dialogue.text());
            let length = mind.vocabulary.split_said(&prompt).len() + MOST;
            if length < mind.window() {
                break prompt;
            }
            // What was said long ago goes first.
            if !dialogue.drop_oldest() {
                let window = mind.window();
                let message = format!(
                    "the conversation and an answer have {length} tokens, the model sees {window}"
                );
                return Err(Halt::failed(ErrorKind::ContextOverflow, message));
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
        let (message, stop) = if last.has_result || last.calls >= CALLS || possible.is_empty() {
            let most = mind.most(request).unwrap_or(MOST);
            answer(mind, &prompt, most, listener)?
        } else {
            let ask = Ask { prompt, examples, offered, possible, copied };
            (self.call(mind, &ask, listener)?, StopReason::ToolUse)
        };
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

/// A request that is to be answered with a call.
struct Ask<'a> {
    prompt: String,
    examples: String,
    offered: Vec<&'static Form>,
    possible: Vec<&'static Form>,
    copied: Copied<'a>,
}

/// Lets the model answer.
fn answer(
    mind: &mut Mind<'_>,
    prompt: &str,
    most: usize,
    listener: &Listener,
) -> Result<(AssistantMessage, StopReason), Halt> {
    mind.read(&tokens(mind, &format!("{prompt}Answer:")), listener)?;
    // A tiny model likes to say things again and again.
    let dry = LlamaSampler::dry(mind.model, 0.8, 1.75, 8, MOST as i32, ["\n"]);
    let grammar = grammar::sampler(mind.model, "root ::= \" \" [^\\n]* [^\\n:] \"\\n\"\n")?;
    let mut sampler = LlamaSampler::chain_simple([grammar, dry, LlamaSampler::greedy()]);
    let mut text = Text::default();
    let mut told = String::new();
    let stop = mind.write(&mut sampler, most.min(MOST), listener, |bytes| {
        text.push(bytes);
        // Spaces at the end are told once something follows them.
        let line = text.whole().trim();
        if let Some(more) = line.strip_prefix(told.as_str()).filter(|more| !more.is_empty()) {
            listener.tell(StreamEvent::TextDelta(more.to_owned()));
            told = line.to_owned();
        }
        !text.whole().ends_with('\n')
    })?;
    // That an answer has no more than so many tokens is the nature of this way to converse; what the
    // request or the window bounds was cut.
    let is_cut = stop == Stop::Length && mind.usage().output < MOST as u64;
    let stop = if is_cut { StopReason::MaxTokens } else { StopReason::EndTurn };
    Ok((AssistantMessage::text(told), stop))
}

impl Lines {
    fn call(
        &mut self,
        mind: &mut Mind<'_>,
        ask: &Ask<'_>,
        listener: &Listener,
    ) -> Result<AssistantMessage, Halt> {
        let form = self.choose_form(mind, ask, listener)?;
        mind.read(&tokens(mind, &format!("{}Call:", ask.prompt)), listener)?;
        let grammar = grammar::sampler(mind.model, &ask.copied.grammar(form))?;
        let mut sampler = LlamaSampler::chain_simple([grammar, LlamaSampler::greedy()]);
        let mut line = Vec::new();
        // The grammar has an end.
        mind.write(&mut sampler, usize::MAX, listener, |bytes| {
            line.extend_from_slice(bytes);
            !line.ends_with(b"\n")
        })?;
        let line = String::from_utf8_lossy(&line);
        let arguments = ask.copied.arguments(form, line.trim()).ok_or_else(|| {
            let message = format!("the call does not fit into the window: {line:?}");
            Halt::failed(ErrorKind::ContextOverflow, message)
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
        if let [only] = &*ask.possible {
            return Ok(only);
        }
        let names: Vec<&'static str> = ask.offered.iter().map(|form| form.tool).collect();
        let habits = match &self.habits {
            Some((of, habits)) if *of == names => habits.clone(),
            Some(_) | None => {
                let habits = habits(mind, ask, listener)?;
                self.habits = Some((names, habits.clone()));
                habits
            }
        };
        let likelihoods = likelihoods(mind, &ask.prompt, &ask.offered, listener)?;
        let gains = gains(&likelihoods, &habits);
        ask.offered
            .iter()
            .zip(gains)
            .filter(|(form, _)| ask.possible.iter().any(|possible| possible.tool == form.tool))
            .max_by(|(_, a), (_, b)| a.total_cmp(b))
            .map(|(form, _)| *form)
            .ok_or_else(|| Halt::failed(ErrorKind::Incomplete, "no tool fits"))
    }
}

/// Returns how much more likely each form is now than without a question.
fn gains(now: &[f32], ever: &[f32]) -> Vec<f32> {
    now.iter().zip(ever).map(|(now, ever)| now - ever).collect()
}

/// Measures how likely the model finds each form when nothing is asked.
fn habits(mind: &mut Mind<'_>, ask: &Ask<'_>, listener: &Listener) -> Result<Vec<f32>, Halt> {
    let mut sums = vec![0.0; ask.offered.len()];
    for question in NO_QUESTIONS {
        let prompt = format!("{}User: {question}\n", ask.examples);
        let likelihoods = likelihoods(mind, &prompt, &ask.offered, listener)?;
        for (sum, likelihood) in sums.iter_mut().zip(likelihoods) {
            *sum += likelihood / NO_QUESTIONS.len() as f32;
        }
    }
    Ok(sums)
}

/// Measures how likely the model goes on with each form, at the first token in which they differ.
fn likelihoods(
    mind: &mut Mind<'_>,
    prompt: &str,
    forms: &[&Form],
    listener: &Listener,
) -> Result<Vec<f32>, Halt> {
    let texts: Vec<Vec<LlamaToken>> =
        forms.iter().map(|form| tokens(mind, &format!("{prompt}Call: {}", form.shown))).collect();
    let (same, openings) = parting(&texts);
    mind.read(same, listener)?;
    Ok(mind.likelihoods(&openings))
}

/// Returns what all texts begin with, and how each goes on. None is the beginning of another.
fn parting(texts: &[Vec<LlamaToken>]) -> (&[LlamaToken], Vec<LlamaToken>) {
    let Some(first) = texts.first() else { return (&[], Vec::new()) };
    let is_same = |n: &usize| texts.iter().all(|text| text.get(*n) == first.get(*n));
    let same = (0..first.len()).take_while(is_same).count();
    let openings = texts.iter().filter_map(|text| text.get(same).copied()).collect();
    (first.get(..same).unwrap_or_default(), openings)
}

/// Splits a prompt, with what the model wants at the beginning.
fn tokens(mind: &Mind<'_>, prompt: &str) -> Vec<LlamaToken> {
    let mut tokens: Vec<LlamaToken> = mind.vocabulary.beginning().into_iter().collect();
    tokens.extend(mind.vocabulary.split_said(prompt));
    tokens
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn tokens(numbers: &[i32]) -> Vec<LlamaToken> {
        numbers.iter().copied().map(LlamaToken::new).collect()
    }

    #[test]
    fn texts_part_at_the_first_token_in_which_any_differs() {
        let texts = [tokens(&[1, 2, 7, 9]), tokens(&[1, 2, 8]), tokens(&[1, 2, 7, 4])];
        assert_eq!(parting(&texts), (&*tokens(&[1, 2]), tokens(&[7, 8, 7])));
        let texts = [tokens(&[5]), tokens(&[6])];
        assert_eq!(parting(&texts), (&*tokens(&[]), tokens(&[5, 6])));
        assert_eq!(parting(&[]), (&*tokens(&[]), tokens(&[])));
    }

    #[test]
    fn what_counts_is_what_the_question_adds() {
        // The first is the likeliest always, the second is likelier than usual.
        assert_eq!(gains(&[-1.0, -2.0, -9.0], &[-1.0, -4.0, -8.0]), [0.0, 2.0, -1.0]);
    }
}
