//! Sub-agents whose call ends without its tool: nobody else would end their runs.

use std::sync::Arc;

use futures::future::{BoxFuture, FutureExt};
use tokio::sync::mpsc;

use bowline_llm::CallId;

use crate::mailbox::Mailbox;
use crate::op::CancelReason;
use crate::session::Birth;

use super::{Halt, Progress, Turn, created};

impl Turn {
    /// Ends the runs that are open in the logs of a call's sub-agents, and below them. None of them
    /// lives any more: an owner for the time of it cancels the run and takes it to its end.
    pub(super) fn end_orphans<'a>(&'a self, call: &'a CallId) -> BoxFuture<'a, Result<(), Halt>> {
        async move {
            for meta in self.session.hub.open_children(self.meta.id, call) {
                let log = self.log.journal(meta.id).read().await?;
                let Some(created) = created(&log) else { continue };
                let (session, store) = (Arc::clone(&self.session), Arc::clone(&self.log));
                let agent = self.agent.clone();
                let (copy, briefing, work) = (None, Vec::new(), None);
                let birth = Birth { agent, created, meta, log, store, copy, briefing, work };
                let (_, nobody) = mpsc::unbounded_channel();
                let (mut turn, _) = Self::new(session, birth, Mailbox::new(nobody, None));
                turn.cancel(CancelReason::Parent, None).await?;
                while turn.advance().await? == Progress::Stepped {}
            }
            Ok(())
        }
        .boxed()
    }
}
