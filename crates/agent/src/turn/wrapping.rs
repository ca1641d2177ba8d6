//! What the middleware around a run has to do with it.

use std::sync::Arc;

use crate::conversation::OpenRun;
use crate::entry::{Act, Phase, RunError};
use crate::error::AgentError;
use crate::event::AgentMeta;
use crate::id::RunId;
use crate::limits::LimitKind;
use crate::middleware::Middleware;
use crate::outcome::Outcome;
use crate::session::Session;

use super::{Halt, Turn};

/// Who ends a run with an error, in its log.
const MIDDLEWARE: &str = "middleware";

impl Turn {
    /// Returns the open run, if anything is to be wrapped around it.
    pub(crate) fn wrapped_run(&self) -> Option<RunId> {
        let run = self.conversation.run()?;
        (!self.agent.middleware.is_empty()).then_some(run.id)
    }

    pub(crate) fn middleware(&self) -> Vec<Arc<dyn Middleware>> {
        self.agent.middleware.clone()
    }

    pub(crate) fn session(&self) -> Arc<Session> {
        Arc::clone(&self.session)
    }

    pub(crate) fn meta(&self) -> Arc<AgentMeta> {
        Arc::clone(&self.meta)
    }

    /// Tells whether nothing is left but to end the open run; also if none is.
    pub(crate) fn is_ending(&self) -> bool {
        self.conversation.run().is_none_or(OpenRun::is_ending)
    }

    /// Returns how the latest run came out.
    pub(crate) fn latest(&self) -> Option<Outcome> {
        self.conversation.totals().latest.as_deref().cloned()
    }

    /// Answers all who wait for the run.
    pub(crate) fn answer(&mut self, result: &Result<Outcome, AgentError>) {
        for waiter in self.waiters.drain(..) {
            let _ = waiter.send(result.clone());
        }
    }

    pub(crate) async fn run_out_of_time(&mut self) -> Result<(), Halt> {
        self.hit(LimitKind::RunTime).await
    }

    /// Ends a run with an error, unless it has ended.
    pub(super) async fn fail(&mut self, run: RunId, error: RunError) -> Result<(), Halt> {
        if self.conversation.run().is_none_or(|open| open.id != run || open.fatal.is_some()) {
            return Ok(());
        }
        let failed = self.acted(MIDDLEWARE, Phase::Before, Act::Fail(error), None);
        self.commit(vec![failed]).await?;
        self.stop.cancel();
        Ok(())
    }
}
