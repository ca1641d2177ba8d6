//! The events of a plan and of its steps.

use std::sync::Arc;

use bowline_llm::{Message, MessageRef, RawJson};

use crate::entry::{CallStatus, Plan, StepTaken};
use crate::event::EventBody;

use super::Sheet;

impl Sheet<'_> {
    pub(super) fn planned(&mut self, plan: &Plan) {
        let (count, steps) = (plan.steps.len(), plan.steps.clone());
        self.push(None, EventBody::PlanCreated { count, steps });
    }

    /// Tells that a step begins, and of its call as of any that the model makes.
    pub(super) fn step_taken(&mut self, taken: &StepTaken) {
        let StepTaken { index, count, call } = taken.clone();
        if let Ok(args) = RawJson::parse(&*call.arguments) {
            let start = EventBody::PlanStepStart { index, count, tool: call.name.clone(), args };
            self.push(Some(&call.id), start);
        }
        let (name, arguments) = (call.name, call.arguments);
        self.push(Some(&call.id), EventBody::ToolCall { name, arguments });
        let message = MessageRef::from(Message::Assistant(Arc::new(taken.message())));
        self.push(None, EventBody::MessageAdded { message });
    }

    pub(super) fn step_ended(&mut self, step: StepTaken, status: CallStatus) {
        let StepTaken { index, count, call } = step;
        let ended = EventBody::PlanStepEnd { index, count, tool: call.name, status };
        self.push(Some(&call.id), ended);
    }
}
