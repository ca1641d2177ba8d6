//! Plans: what the model proposes, which plan counts, and how far it was followed.

use std::sync::Arc;

use bowline_llm::{AssistantMessage, CallId, Message};

use crate::conversation::{Call, Last};
use crate::entry::{AssistantSaid, CallEnded, CallStatus, Plan, PlanStep, StepTaken};

use super::{Context, Stop, Whose};

/// How far the open run is with planning.
#[derive(Debug, Clone, Default)]
pub struct Planning {
    /// What the model said when it was asked for a plan. It is gone once there is a plan, or the user
    /// has said something since.
    pub proposal: Option<Arc<AssistantMessage>>,
    /// The plan that counts. There is none before the first one, nor when the user has said something
    /// to an answer that came of one.
    pub course: Option<Course>,
    /// How many plans there were since the user last said something.
    pub tries: u32,
    /// How many plans there were in the run.
    pub plans: u32,
}

/// A plan, and how far it was followed.
#[derive(Debug, Clone)]
pub struct Course {
    /// The plan.
    pub plan: Plan,
    /// How the steps that were taken have ended, in order; `None` for one that has not.
    pub ends: Vec<Option<CallStatus>>,
    /// Whether the user has said something since the plan was made.
    pub is_overtaken: bool,
    /// Whether the model has spoken since the plan was made.
    pub is_answered: bool,
    // The call of the step that was taken last.
    call: Option<CallId>,
}

impl Course {
    /// Returns the step that comes next, with its place; `None` behind the last one.
    pub fn next(&self) -> Option<(usize, &PlanStep)> {
        let index = self.ends.len();
        self.plan.steps.get(index).map(|step| (index, step))
    }

    /// Returns the first step that did not succeed, by its place, with how it ended.
    pub fn failed(&self) -> Option<(usize, CallStatus)> {
        let ends = self.ends.iter().enumerate();
        let mut ends = ends.filter_map(|(index, end)| end.map(|status| (index, status)));
        ends.find(|(_, status)| status.is_error())
    }
}

impl Planning {
    /// Takes note that the user has said something.
    pub(super) fn overtake(&mut self) {
        self.proposal = None;
        self.tries = 0;
        self.course.take_if(|course| course.is_answered);
        if let Some(course) = &mut self.course {
            course.is_overtaken = true;
        }
    }

    /// Takes note that the model has spoken.
    pub(super) fn answer(&mut self) {
        if let Some(course) = &mut self.course {
            course.is_answered = true;
        }
    }

    /// Takes note of the end of a call.
    pub(super) fn end(&mut self, ended: &CallEnded) {
        if let Some(course) = &mut self.course
            && course.call.as_ref() == Some(&ended.call)
            && let Some(end) = course.ends.last_mut()
        {
            *end = Some(ended.status);
        }
    }
}

impl Context {
    /// Keeps what the model said when it was asked for a plan. It is no part of the conversation; one
    /// that counts for nothing ends the run as any such reply does.
    pub(super) fn propose(&mut self, said: &AssistantSaid) {
        self.count(said);
        let stop = Stop::of(said);
        if said.broken.is_some() || stop.is_void() {
            self.last = Last::Broken;
            self.stop = Some(stop);
            self.answer.clear();
        } else if let Some(run) = &mut self.run {
            run.planning.proposal = Some(Arc::clone(&said.message));
        }
    }

    pub(super) fn adopt(&mut self, plan: &Plan) {
        let Some(run) = &mut self.run else { return };
        let planning = &mut run.planning;
        planning.proposal = None;
        planning.tries += 1;
        planning.plans += 1;
        planning.course = Some(Course {
            plan: plan.clone(),
            ends: Vec::new(),
            is_overtaken: false,
            is_answered: false,
            call: None,
        });
    }

    /// Shows the model a step as a call of its own, and opens the call.
    pub(super) fn take_step(&mut self, taken: &StepTaken) {
        if let Some(run) = &mut self.run
            && let Some(course) = &mut run.planning.course
        {
            course.ends.push(None);
            course.call = Some(taken.call.id.clone());
        }
        self.view.push(Message::Assistant(Arc::new(taken.message())).into(), Whose::Model);
        self.batch = vec![Call::from(&taken.call)];
        self.calls.insert(taken.call.id.clone());
        self.answer.clear();
        self.goes_on = false;
        self.stop = None;
        self.last = Last::Answer;
    }
}
