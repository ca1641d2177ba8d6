//! A stage whose model has a narrow window.

use std::sync::Arc;

use bowline_agent::effect::Effect;
use bowline_agent::event::EventBody;
use bowline_agent::tool::{Access, DynTool, tool_fn};
use bowline_llm::scripted::Reply;
use bowline_llm::{Message, ModelInfo, Request, ScriptedModel, text_of};

use crate::support::{Stage, Text, Told, lines, stage_for, usage};

/// Makes an agent with a window of so many tokens. To questions on the side `notes` answers, to all
/// others `speak`, which is told how many replies of the model stand in the request.
pub(crate) fn within(
    window: u64,
    effect: impl Effect,
    notes: impl Fn(&Request) -> Reply + Send + 'static,
    speak: impl Fn(usize, &Request) -> Reply + Send + 'static,
) -> Stage {
    let mut turn = 0;
    let model = ScriptedModel::answering(move |request| {
        // What it is asked costs what it is long, at four bytes a token.
        let tokens = length(request) / 4;
        let reply = if is_side_question(request) {
            notes(request)
        } else {
            turn += 1;
            speak(turn - 1, request)
        };
        reply.with_usage(usage(tokens, 10))
    });
    let info = ModelInfo { context_window: Some(window), ..model_info() };
    let stage = stage_for(model.with_info(info));
    stage.change(|agent| {
        agent.effects = vec![Arc::new(effect)];
        agent.limits.model_turns = 0;
        agent.limits.output_bytes = 0;
    })
}

fn model_info() -> ModelInfo {
    ModelInfo { provider: "p".into(), model: "m".into(), ..ModelInfo::default() }
}

pub(crate) fn is_side_question(request: &Request) -> bool {
    request.system.contains("working notes")
}

/// Returns how many bytes of text a request has.
pub(crate) fn length(request: &Request) -> u64 {
    let texts = request.messages.iter().map(|message| match &**message {
        Message::User(said) => text_of(&said.content).len(),
        Message::Assistant(said) => {
            said.to_text().len() + said.tool_calls().map(|call| call.arguments.len()).sum::<usize>()
        }
        Message::Results(all) => all.iter().map(|result| text_of(&result.content).len()).sum(),
    });
    (request.system.len() + texts.sum::<usize>()) as u64
}

/// A tool that reads a file: so many bytes of it.
pub(crate) fn read() -> impl DynTool + 'static {
    let run = async |input: Text, _| {
        let bytes = input.text.rsplit('.').next().and_then(|size| size.parse().ok()).unwrap_or(0);
        Ok(format!("{}\n{}", input.text, "x".repeat(bytes)).into())
    };
    tool_fn("read", "Reads.", run).with_access(Access::read("src/lib.rs"))
}

pub(crate) fn reads(bytes: usize) -> Reply {
    Reply::call("read", format!(r#"{{"text":"file.{bytes}"}}"#))
}

pub(crate) fn side_questions(stage: &Stage) -> Vec<Request> {
    stage.model.requests().into_iter().filter(is_side_question).collect()
}

pub(crate) fn texts(stage: &Stage, request: usize) -> Vec<String> {
    stage.asked()[request].clone()
}

pub(crate) fn compactions(told: &Told) -> Vec<String> {
    lines(&told.events, |body| {
        matches!(
            body,
            EventBody::Effect { .. }
                | EventBody::CompactionStart { .. }
                | EventBody::CompactionEnd { .. }
                | EventBody::CacheBreak { .. }
        )
    })
}
