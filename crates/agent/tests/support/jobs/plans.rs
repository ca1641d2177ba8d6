//! Jobs that are planned.

use std::sync::Arc;

use bowline_agent::Agent;
use bowline_agent::orchestrator::{PlanExecute, Replan};
use bowline_llm::scripted::Reply;

use super::{World, plain, says};
use crate::support::scenario::Scenario;

/// Makes a reply that is a plan: tools, each with its text.
fn plan(steps: &[(&str, &str)]) -> Reply {
    let step =
        |(tool, text): &(&str, &str)| serde_json::json!({ "tool": tool, "args": { "text": text } });
    let steps: Vec<_> = steps.iter().map(step).collect();
    says(&format!("The plan:\n```json\n{}\n```", serde_json::json!({ "steps": steps })))
}

fn planning(world: &Arc<World>, agent: Agent) -> Agent {
    Agent { orchestrator: Arc::new(PlanExecute::default()), ..plain(world, agent) }
}

fn planning_once(world: &Arc<World>, agent: Agent) -> Agent {
    let orchestrator = Arc::new(PlanExecute { replan: Replan::Off });
    Agent { orchestrator, ..plain(world, agent) }
}

/// Returns the jobs. A plan is asked for with as many replies before it as the answer if it has no
/// steps, so such a plan and its answer are one text.
pub(super) fn jobs() -> Vec<(&'static str, Scenario)> {
    let alone = |replies: Vec<Reply>| vec![("root", replies)];
    let unused = || says("nobody asks for this");
    vec![
        (
            "a plan",
            Scenario {
                prompts: &["one", "two"],
                scripts: alone(vec![
                    plan(&[("read", "1"), ("note", "a"), ("ask", ""), ("unknown", "")]),
                    unused(),
                    unused(),
                    unused(),
                    // The tool that there is not is planned for once more.
                    plan(&[("note", "b")]),
                    says("done"),
                    says("{\"steps\":[]}"),
                ]),
                build: planning,
            },
        ),
        (
            "a plan that fails for good",
            Scenario {
                prompts: &["go"],
                scripts: alone(vec![
                    plan(&[("fail", ""), ("read", "1")]),
                    plan(&[("fail", "")]),
                    plan(&[("read", "2"), ("fail", "")]),
                    unused(),
                    plan(&[("fail", "")]),
                    says("it cannot be done"),
                ]),
                build: planning,
            },
        ),
        (
            "a plan, and what others say",
            Scenario {
                prompts: &["go"],
                scripts: alone(vec![
                    plan(&[("say", "steer"), ("read", "1")]),
                    plan(&[("say", "follow"), ("read", "2")]),
                    unused(),
                    says("done"),
                    plan(&[("read", "3")]),
                    says("and followed up"),
                ]),
                build: planning,
            },
        ),
        (
            "a plan that is done to its end",
            Scenario {
                prompts: &["go"],
                scripts: alone(vec![
                    plan(&[("fail", ""), ("shell", "x"), ("say", "queue"), ("read", "1")]),
                    unused(),
                    unused(),
                    unused(),
                    says("done"),
                ]),
                build: planning_once,
            },
        ),
    ]
}
