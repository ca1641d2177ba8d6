//! Effects: what each says and stops, when it does not, and what a run looks like with it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bowline_agent::effect::{DynEffect, Effect};
use bowline_agent::event::EventBody;
use bowline_agent::tool::{DynTool, ToolError};
use bowline_llm::scripted::Reply;
use bowline_llm::{Message, Request, text_of};

use crate::support::{Stage, Told, echo, lines, stage, tool};

mod budgets;
mod loops;
mod parameters;
mod questions;
mod reflections;
mod reminders;
mod scopes;
mod stalls;
mod steps;

/// A stage with tools that give their text back, fail, or say something else each time, for an agent
/// that has an effect.
fn with(effect: impl Effect, replies: impl IntoIterator<Item = Reply>) -> Stage {
    with_all([Arc::new(effect) as Arc<dyn DynEffect>], replies)
}

fn with_all(
    effects: impl IntoIterator<Item = Arc<dyn DynEffect>>,
    replies: impl IntoIterator<Item = Reply>,
) -> Stage {
    let effects = effects.into_iter().collect();
    stage(replies)
        .with(echo())
        .with(failing())
        .with(counting())
        .change(|agent| agent.effects = effects)
}

fn failing() -> impl DynTool + 'static {
    tool("fail", |_, _| async move { Err(ToolError::failed("it failed")) })
}

fn counting() -> impl DynTool + 'static {
    let count = AtomicUsize::new(0);
    tool("count", move |_, _| {
        let number = count.fetch_add(1, Ordering::SeqCst);
        async move { Ok(number.to_string().into()) }
    })
}

/// The same call so many times, one in each reply.
fn same(times: usize) -> Vec<Reply> {
    std::iter::repeat_with(|| call("echo", "x")).take(times).collect()
}

fn call(name: &str, text: &str) -> Reply {
    Reply::call(name, serde_json::json!({ "text": text }).to_string())
}

fn done() -> Reply {
    Reply::text("done")
}

/// Replies, and then the answer.
fn then_done(replies: impl IntoIterator<Item = Reply>) -> Vec<Reply> {
    replies.into_iter().chain([done()]).collect()
}

/// Returns what a request says as a user, but for the prompt: with how many replies before it.
fn said_in(request: &Request) -> Vec<(usize, String)> {
    let mut replies = 0;
    let mut said = Vec::new();
    for message in &request.messages {
        match &**message {
            Message::User(message) => said.push((replies, text_of(&message.content))),
            Message::Assistant(_) => replies += 1,
            Message::Results(_) => {}
        }
    }
    said.retain(|(_, text)| text != "go");
    said
}

/// Returns what the last request says as a user, but for the prompt.
fn said(stage: &Stage) -> Vec<(usize, String)> {
    said_in(stage.model.requests().last().unwrap())
}

/// Returns behind how many replies something was said.
fn said_at(stage: &Stage) -> Vec<usize> {
    said(stage).into_iter().map(|(at, _)| at).collect()
}

/// Returns what effects did, warnings, limits and the end.
fn acts(told: &Told) -> Vec<String> {
    lines(&told.events, |body| {
        matches!(
            body,
            EventBody::Effect { .. }
                | EventBody::Warning { .. }
                | EventBody::LimitHit { .. }
                | EventBody::RunEnd(_)
        )
    })
}
