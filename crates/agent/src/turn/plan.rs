//! Plans and their steps.

use bowline_llm::{CallId, ToolCall};

use crate::entry::{EntryKind, Plan, StepTaken};

use super::{Halt, Turn};

impl Turn {
    /// Makes a plan the one that counts.
    pub(super) async fn adopt(&mut self, plan: Plan) -> Result<(), Halt> {
        match self.was_told().await? {
            true => Ok(()),
            false => self.commit(vec![EntryKind::Planned(plan)]).await,
        }
    }

    /// Makes the next step of the plan a call, which is open then like those of a reply.
    pub(super) async fn take_step(&mut self) -> Result<(), Halt> {
        if self.was_told().await? {
            return Ok(());
        }
        let course = self.conversation.run().and_then(|run| run.planning.course.as_ref());
        let Some((course, (index, step))) = course.and_then(|it| Some((it, it.next()?))) else {
            return Ok(());
        };
        let call = ToolCall {
            id: self.conversation.unique_id(CallId::from(format!("plan-step-{index}"))),
            name: step.tool.clone(),
            arguments: step.args.as_str().to_owned(),
        };
        let taken = StepTaken { index, count: course.plan.steps.len(), call };
        self.commit(vec![EntryKind::StepTaken(taken)]).await
    }

    /// Reads what others have said, because nothing here waits for it. Tells whether there was
    /// anything: then what to do next is asked anew.
    async fn was_told(&mut self) -> Result<bool, Halt> {
        let before = self.conversation.seq();
        while let Some(command) = self.mailbox.now() {
            self.accept_command(command).await?;
        }
        Ok(self.conversation.seq() != before)
    }
}
