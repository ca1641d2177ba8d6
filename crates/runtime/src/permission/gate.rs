//! The gate: what the rules say of a call before it starts.

use std::path::PathBuf;

use async_trait::async_trait;

use bowline_agent::gate::{Gate, Review, Verdict};
use bowline_agent::op::{self, Scope};

use super::engine::Engine;
use super::judgement::{Decision, Judgement, Why};
use super::rule::Rule;
use bowline_agent::visible;

#[async_trait]
impl Gate for Engine {
    async fn review(&self, review: &Review<'_>) -> Verdict {
        if let Some(op::Decision::Allow { scope: Scope::Always { rule } }) = review.decision {
            self.keep(rule);
        }
        self.learn(review.granted);
        let call = self.call(review.call, review.access);
        let judgement = self.judge_call(&call);
        match (judgement.decision, review.decision) {
            (Decision::Allow, _) => {
                self.pass(&review.call.id, &call);
                Verdict::Allow { rule: judgement.rule().map(str::to_owned) }
            }
            (Decision::Ask, Some(op::Decision::Allow { .. })) => {
                self.pass(&review.call.id, &call);
                Verdict::Allow { rule: Some("a person allowed it".to_owned()) }
            }
            (Decision::Ask, Some(op::Decision::Deny { reason })) => {
                Verdict::Deny { reason: reason.clone() }
            }
            (Decision::Ask, None) => Verdict::Wait {
                question: question(review, &judgement),
                rule: Rule::suggested(review).map(|rule| rule.to_string()),
            },
            (Decision::Deny, _) => Verdict::Deny { reason: judgement.reason() },
        }
    }
}

/// Asks whether a call may be, and says why there is a question where that is not plain.
fn question(review: &Review<'_>, judgement: &Judgement) -> String {
    let asked = what(review);
    let asks = judgement.segments.iter().filter(|segment| segment.decision == Decision::Ask);
    let reasons = asks.filter_map(|segment| match &segment.why {
        why @ Why::Rule { .. } => Some(format!("{}: {why}", visible::on_one_line(&segment.what))),
        Why::Mode { because, .. } if segment.what.starts_with("bash") => {
            (because != "it is a command").then(|| because.clone())
        }
        Why::Mode { because, .. } => Some(because.clone()),
    });
    let mut said: Vec<String> = Vec::new();
    for reason in reasons.filter(|reason| reason != "it writes") {
        if !said.contains(&reason) {
            said.push(reason);
        }
    }
    if said.is_empty() { asked } else { format!("{asked} ({})", said.join("; ")) }
}

fn what(review: &Review<'_>) -> String {
    let access = review.access;
    let name = &review.call.name;
    if let Some(command) = &access.execute {
        return format!("run `{}`?", visible::in_lines(command));
    }
    let paths = [&access.writes, &access.reads].into_iter().find(|paths| !paths.is_empty());
    if let Some(paths) = paths {
        let shown = |path: &PathBuf| visible::on_one_line(&path.to_string_lossy()).into_owned();
        let paths: Vec<_> = paths.paths().iter().map(shown).collect();
        return format!("{name} {}?", paths.join(", "));
    }
    if !access.network.is_empty() {
        let hosts = access.network.join(", ");
        return format!("{name}: connect to {}?", visible::on_one_line(&hosts));
    }
    format!("call {name} {}?", visible::in_lines(&review.call.arguments))
}
