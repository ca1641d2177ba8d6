//! Plan and execute: the model plans first, then the steps are done without asking it.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use bowline_llm::RawJson;

use crate::conversation::{Conversation, Course, Last};
use crate::entry::{Plan, PlanStep};

use super::{NextStep, Orchestrator, Purpose, React, open_calls};

/// How often the model may plan anew because a step failed, until the user says something.
const REPLANS: u32 = 3;

/// Plans, then does the steps one after the other, then goes on as [`React`] does, usually with the
/// answer.
///
/// Each step is a real tool call. What the user says meanwhile is planned for, unless
/// [`Replan::Off`] says otherwise. A plan that cannot be read is one without steps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PlanExecute {
    /// When the model plans anew.
    pub replan: Replan,
}

/// When the model makes a new plan in place of one that is not done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Replan {
    /// When a step failed, at most three times, and when the user said something.
    #[default]
    OnFailure,
    /// Never: all steps are done, whatever becomes of them (seed 004).
    Off,
}

impl Orchestrator for PlanExecute {
    fn name(&self) -> &str {
        match self.replan {
            Replan::OnFailure => "plan_execute",
            Replan::Off => "plan_execute_once",
        }
    }

    fn next(&self, conversation: &Conversation) -> NextStep {
        let Some(run) = conversation.run() else { return NextStep::Rest };
        if let Some(step) = open_calls(conversation) {
            return step;
        }
        let planning = &run.planning;
        if let Some(reply) = &planning.proposal {
            return NextStep::Plan(read_plan(&reply.to_text()));
        }
        match &planning.course {
            None if conversation.last() == Last::Said => NextStep::CallModel(Purpose::Plan),
            Some(course) if conversation.last() != Last::Broken && !course.is_answered => {
                self.follow(course, planning.tries, conversation)
            }
            None | Some(_) => React.next(conversation),
        }
    }
}

impl PlanExecute {
    /// Returns the next step of a plan that nothing was said about yet.
    fn follow(&self, course: &Course, tries: u32, conversation: &Conversation) -> NextStep {
        let has_failed = course.failed().is_some();
        if self.replan == Replan::OnFailure {
            if course.is_overtaken || (has_failed && tries <= REPLANS) {
                return NextStep::CallModel(Purpose::Plan);
            }
            if has_failed {
                // It cannot be planned: the model does it step by step.
                return React.next(conversation);
            }
        }
        match course.next() {
            Some(_) => NextStep::Step,
            None => React.next(conversation),
        }
    }
}

/// Reads a plan from what a model said: JSON, in the first fenced block if there is one. What cannot
/// be read is a plan without steps.
pub fn read_plan(said: &str) -> Plan {
    #[derive(Deserialize)]
    struct Written {
        steps: Vec<Step>,
    }
    #[derive(Deserialize)]
    struct Step {
        tool: String,
        args: Option<RawJson>,
    }
    let written: Result<Written, _> = serde_json::from_str(block(said.trim()));
    let nothing = RawJson::parse("{}").ok();
    let steps = written.map(|written| written.steps).unwrap_or_default().into_iter();
    let steps = steps.filter_map(|Step { tool, args }| {
        Some(PlanStep { tool, args: args.or_else(|| nothing.clone())? })
    });
    Plan { steps: steps.collect() }
}

/// Returns what stands in the first fenced block; without one, everything.
fn block(text: &str) -> &str {
    let Some((_, fenced)) = text.split_once("```") else { return text };
    // Behind the fence may stand the name of the language.
    let inside = fenced.split_once('\n').map_or(fenced, |(_, inside)| inside);
    inside.split_once("```").map_or(inside, |(inside, _)| inside)
}

/// Returns what the model is asked when it is to plan.
pub(crate) fn question(conversation: &Conversation) -> String {
    let mut text = String::new();
    let course = conversation.run().and_then(|run| run.planning.course.as_ref());
    if let Some(course) = course.filter(|course| !course.is_answered) {
        let done = course.ends.len();
        let _ = match course.failed() {
            Some((index, status)) => {
                writeln!(text, "Step {} of the plan ended as {}.", index + 1, status.as_str())
            }
            None => writeln!(text, "The plan is overtaken."),
        };
        let left = Plan { steps: course.plan.steps.iter().skip(done).cloned().collect() };
        if let (false, Ok(left)) = (left.steps.is_empty(), RawJson::of(&left)) {
            let _ = writeln!(text, "These steps of it were not done: {}", left.as_str());
        }
        text.push_str("Plan anew what is to be done from here on. ");
    }
    text.push_str(ASK);
    text
}

const ASK: &str = "Do not call tools now and do not answer yet. Say which tool calls will do what was \
     asked, in order, as JSON and nothing else: {\"steps\": [{\"tool\": \"name\", \"args\": {}}]}. They \
     are made one after the other exactly as you write them, so that none can depend on the result of \
     another; then you see all results. If nothing needs to be called: {\"steps\": []}.";

#[cfg(test)]
mod tests {
    use super::{PlanStep, RawJson, read_plan};

    #[test]
    fn a_plan_is_read_from_json_or_from_the_first_fenced_block() {
        let step = |tool: &str, args: &str| PlanStep {
            tool: tool.to_owned(),
            args: RawJson::parse(args).unwrap(),
        };
        let expected = [step("read", r#"{ "path": "a" }"#), step("list", "{}")];
        let json = r#"{"steps":[{"tool":"read","args":{ "path": "a" }},{"tool":"list"}]}"#;
        let said = [
            json.to_owned(),
            format!("  {json}\n"),
            format!("Here is the plan:\n```json\n{json}\n```\nand `more`.\n```json\n{{}}\n```"),
            format!("```\n{json}"),
        ];
        for said in said {
            assert_eq!(read_plan(&said).steps, expected, "{said}");
        }
    }

    #[test]
    fn what_is_no_plan_has_no_steps() {
        let said = ["", "I would read a file.", "[]", r#"{"steps":"none"}"#, r#"{"steps":[]}"#];
        for said in said {
            assert_eq!(read_plan(said).steps, [], "{said}");
        }
    }
}
