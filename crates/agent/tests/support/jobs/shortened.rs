//! Jobs whose conversation outgrows its window.

use std::sync::Arc;

use bowline_agent::Agent;
use bowline_agent::effect::{Compact, DynEffect, Offload, SlidingWindow};
use bowline_agent::tool::{Access, Recovery, Toolbox};
use bowline_llm::scripted::{Reply, ScriptedModel};
use bowline_llm::{Message, MessageRef, Model, ModelInfo, ModelStream, Request, Usage, text_of};

use super::{World, calls, says, tool};
use crate::support::scenario::Scenario;

/// How many tokens a request and its answer may have together.
const WINDOW: u64 = 4_000;

pub(super) fn jobs() -> Vec<(&'static str, Scenario)> {
    let job = |build| Scenario { prompts: &["one", "two"], scripts: Vec::new(), build };
    vec![
        (
            "results that are shortened",
            job(|world, agent| {
                outgrowing(world, agent, &[Arc::new(Compact::default())], |step| match step {
                    6 | 13 => says("done"),
                    _ => looks(step, 2_400),
                })
            }),
        ),
        (
            "a summary",
            job(|world, agent| {
                outgrowing(world, agent, &[Arc::new(Compact::default())], |step| match step {
                    6 | 13 => says("done"),
                    _ => looks(step, 10).and_text("y".repeat(2_400)),
                })
            }),
        ),
        (
            "a window that slides",
            job(|world, agent| {
                let window =
                    SlidingWindow { recent_zone: 4, medium_zone: 2, ..SlidingWindow::default() };
                outgrowing(world, agent, &[Arc::new(window)], |step| match step {
                    6 | 13 => says("done"),
                    _ => looks(step, 1_600).and_text("y".repeat(800)),
                })
            }),
        ),
        (
            "results that are put away and recalled",
            job(|world, agent| {
                let offload = Offload { recent_window: 2, ..Offload::default() };
                outgrowing(world, agent, &[Arc::new(offload)], |step| match step {
                    6 | 13 => says("done"),
                    5 | 10 => recalls(step, "c0"),
                    _ => looks(step, 2_400),
                })
            }),
        ),
    ]
}

/// Makes a reply that looks at a page of so many letters.
fn looks(step: usize, length: usize) -> Reply {
    calls(&[(&format!("c{step}"), "page", &format!("{step}.{length}"))])
}

fn recalls(step: usize, of: &str) -> Reply {
    let arguments = format!(r#"{{"id":"{of}"}}"#);
    says("back").and_call_with_id(&format!("c{step}"), "recall", arguments)
}

fn outgrowing(
    world: &Arc<World>,
    agent: Agent,
    effects: &[Arc<dyn DynEffect>],
    speak: fn(usize) -> Reply,
) -> Agent {
    let info = ModelInfo { context_window: Some(WINDOW), ..agent.model.info().clone() };
    let model = Arc::new(Stepping { info, world: Arc::clone(world), speak });
    let mut tools = Toolbox::default();
    tool(&mut tools, world, ("page", Access::none(), Recovery::Rerun), |args, _, _| async move {
        let length = args.text.rsplit('.').next().and_then(|length| length.parse().ok());
        Ok(format!("page {} {}", args.text, "x".repeat(length.unwrap_or(0))).into())
    });
    Agent { model, effects: effects.to_vec(), tools, ..agent }
}

/// A model that goes on from the step that its last reply in the request was, and counts what it is
/// asked at four bytes a token.
struct Stepping {
    info: ModelInfo,
    world: Arc<World>,
    speak: fn(usize) -> Reply,
}

impl Model for Stepping {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn stream(&self, request: Request) -> ModelStream {
        self.world.requests.lock().unwrap().push((self.world.life(), request.clone()));
        let reply = match request.tools.specs().is_empty() {
            true => Reply::text("## Done\nAll of it."),
            false => (self.speak)(next_step(&request)),
        };
        let input = request.messages.iter().map(length).sum::<usize>() as u64 / 4;
        let usage = Usage { input, output: 1, ..Usage::default() };
        ScriptedModel::new([reply.with_usage(usage)]).stream(request)
    }
}

/// Returns the step that comes next: calls are named by theirs, and an answer is a step too.
fn next_step(request: &Request) -> usize {
    let replies = request.messages.iter().filter_map(|message| match &**message {
        Message::Assistant(said) => Some(Arc::clone(said)),
        _ => None,
    });
    let mut next = 0;
    for reply in replies {
        let step = reply.tool_calls().filter_map(|call| call.id.as_str()[1..].parse().ok()).max();
        next = step.unwrap_or(next) + 1;
    }
    next
}

fn length(message: &MessageRef) -> usize {
    match &**message {
        Message::User(said) => text_of(&said.content).len(),
        Message::Assistant(said) => {
            said.to_text().len() + said.tool_calls().map(|call| call.arguments.len()).sum::<usize>()
        }
        Message::Results(all) => all.iter().map(|result| text_of(&result.content).len()).sum(),
    }
}
