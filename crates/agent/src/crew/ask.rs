//! Questions of sub-agents: `request_input` asks, `answer_delegation_questions` answers.

use std::collections::HashSet;
use std::sync::Arc;

use futures::future::try_join_all;
use serde::Deserialize;
use uuid::Uuid;

use crate::entry::Wake;
use crate::id::OpId;
use crate::tool::{Access, Deadline, Recovery, Tool, ToolContext, ToolError, ToolOutput, Waked};

use super::deeds::{self, Deeds};
use super::delegate::to_json;
use super::delegation::{Answer, Open};
use super::member::Seat;

/// Asks the agent that delegated the task, and waits for its answer.
pub(super) struct RequestInput;

/// Ask the agent that gave you the task something that you cannot find out yourself and cannot go on
/// without.
#[derive(Deserialize, schemars::JsonSchema)]
pub(super) struct Question {
    question: String,
}

impl Tool for RequestInput {
    const NAME: &'static str = "request_input";
    type Input = Question;

    fn access(&self, _: &Question) -> Access {
        Access::none()
    }

    fn recovery(&self, _: &Question) -> Recovery {
        Recovery::Rerun
    }

    async fn run(&self, input: Question, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        match &cx.wake {
            Some(Waked::Answered(answer)) => Ok(answer.as_str().into()),
            Some(Waked::Decided(_) | Waked::Happened) | None
                if input.question.trim().is_empty() =>
            {
                Err(ToolError::failed("the question must not be empty"))
            }
            Some(Waked::Decided(_) | Waked::Happened) | None => {
                Ok(ToolOutput::Waiting(Wake::Parent { question: input.question }))
            }
        }
    }
}

/// Answers sub-agents, and waits until each has finished or asks again.
pub(super) struct AnswerQuestions(pub(super) Arc<Seat>);

/// Answer questions of agents that you gave tasks to with mode `interactive`. You get a list of what
/// came of each: its result, or its next question.
#[derive(Deserialize, schemars::JsonSchema)]
pub(super) struct Answers {
    answers: Vec<OneAnswer>,
}

#[derive(Deserialize, schemars::JsonSchema)]
struct OneAnswer {
    /// Such as `d-1`.
    delegation_id: String,
    answer: String,
}

impl Tool for AnswerQuestions {
    const NAME: &'static str = "answer_delegation_questions";
    type Input = Answers;

    fn access(&self, _: &Answers) -> Access {
        Access::none()
    }

    fn recovery(&self, _: &Answers) -> Recovery {
        // An answer that was given is not given again.
        Recovery::Reattach
    }

    fn deadline(&self) -> Deadline {
        Deadline::Own
    }

    async fn run(&self, input: Answers, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let mut ids = HashSet::new();
        if let Some(twice) = input.answers.iter().find(|one| !ids.insert(&*one.delegation_id)) {
            let id = &twice.delegation_id;
            return Err(ToolError::Failed(format!("{id:?} is answered twice; answer it once")));
        }
        let mut asking: Vec<(Open, Answer)> = Vec::new();
        // Nobody is answered unless all can be.
        for (index, one) in input.answers.into_iter().enumerate() {
            let delegation = self.0.delegations.find(cx, &one.delegation_id).await?;
            let name = format!("answer {} {index}", cx.call);
            let op = OpId::from(Uuid::new_v5(&cx.agent.id.into(), name.as_bytes()));
            asking.push((delegation, Answer { op, text: one.answer }));
        }
        let slot = cx.step_aside();
        let answered = asking.iter().map(|(asking, answer)| asking.answer(cx, answer.clone()));
        let standings = tokio::select! {
            biased;
            () = cx.cancel.cancelled() => return Err(ToolError::failed("canceled")),
            standings = try_join_all(answered) => standings?,
        };
        tokio::select! {
            () = slot.take_back() => {}
            () = cx.cancel.cancelled() => {}
        }
        let mut reports = Vec::new();
        let mut all = Deeds::default();
        for ((asking, _), (report, deeds)) in asking.iter().zip(standings) {
            if report.delegation_id.is_none() {
                self.0.delegations.close(cx, &asking.delegation)?;
            }
            all.join(deeds);
            reports.push(report);
        }
        if cx.agent.depth > 0 && !all.is_empty() {
            cx.record(deeds::RECORD, &all)?;
        }
        to_json(&reports)
    }
}
