//! Jobs of agents with effects: what these say and stop must not depend on where a life was cut.

use std::sync::Arc;
use std::time::Duration;

use bowline_agent::Agent;
use bowline_agent::effect::{
    Inject, LoopDetect, Progress, Reflection, StallDetect, TimeBudget, TokenBudget, ToolScope,
};
use bowline_llm::{Model, ModelInfo, ModelStream, Request};
use futures::StreamExt;

use super::{World, calls, says, tools};
use crate::support::scenario::Scenario;

pub(super) fn jobs() -> Vec<(&'static str, Scenario)> {
    vec![
        (
            "what effects say",
            Scenario {
                prompts: &["one", "two"],
                scripts: vec![(
                    "root",
                    vec![
                        calls(&[("a", "read", "1"), ("b", "read", "1")]),
                        calls(&[("c", "fail", "1")]),
                        calls(&[("d", "fail", "2"), ("e", "shell", "x")]),
                        calls(&[("f", "note", "1"), ("g", "read", "2")]),
                        says("one"),
                        calls(&[("h", "read", "3")]),
                        calls(&[("i", "read", "4"), ("j", "note", "2")]),
                        calls(&[("k", "read", "5")]),
                        calls(&[("l", "read", "6")]),
                        calls(&[("m", "read", "7"), ("n", "read", "8")]),
                        calls(&[("o", "read", "9")]),
                        says("the tokens are gone"),
                    ],
                )],
                build: nudged,
            },
        ),
        (
            "effects that stop a run",
            Scenario {
                prompts: &["one", "two"],
                scripts: vec![(
                    "root",
                    vec![
                        calls(&[("a", "read", "1")]),
                        calls(&[("b", "read", "1")]),
                        calls(&[("c", "read", "1")]),
                        calls(&[("d", "read", "1")]),
                        says("it stalls"),
                        calls(&[("e", "read", "2")]),
                        calls(&[("f", "read", "3")]),
                        calls(&[("g", "read", "4")]),
                        calls(&[("h", "read", "5")]),
                        calls(&[("i", "read", "6")]),
                        says("the time is up"),
                    ],
                )],
                build: stopped,
            },
        ),
    ]
}

fn nudged(world: &Arc<World>, agent: Agent) -> Agent {
    let inject = Inject { text: "Mind the gap.".into(), at: vec![0], every: 3 };
    Agent {
        tools: tools(world),
        effects: vec![
            Arc::new(TokenBudget { max_tokens: 66, warn_threshold: 0.6 }),
            Arc::new(inject),
            Arc::new(LoopDetect { threshold: 2, ..LoopDetect::default() }),
            Arc::new(Reflection::default()),
            Arc::new(Progress { interval: 2, note_tool: "note".into() }),
            Arc::new(ToolScope { exclude: vec!["shell".into()], hide: false }),
        ],
        ..agent
    }
}

fn stopped(world: &Arc<World>, agent: Agent) -> Agent {
    let model = Slow(Arc::clone(&agent.model));
    Agent {
        model: Arc::new(model),
        tools: tools(world),
        effects: vec![
            Arc::new(TimeBudget { max_duration: Duration::from_secs(45), warn_threshold: 0.8 }),
            Arc::new(TimeBudget { max_duration: Duration::from_secs(300), warn_threshold: 0.05 }),
            Arc::new(StallDetect { window: 2, ..StallDetect::default() }),
        ],
        ..agent
    }
}

/// Thinks for ten seconds before it says anything.
struct Slow(Arc<dyn Model>);

impl Model for Slow {
    fn info(&self) -> &ModelInfo {
        self.0.info()
    }

    fn stream(&self, request: Request) -> ModelStream {
        let model = Arc::clone(&self.0);
        let speech = async move {
            tokio::time::sleep(Duration::from_secs(10)).await;
            model.stream(request)
        };
        Box::pin(futures::stream::once(speech).flatten())
    }
}
