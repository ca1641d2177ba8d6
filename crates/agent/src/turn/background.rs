//! What calls have left to go on behind them, while the run goes on.

use std::panic::AssertUnwindSafe;

use futures::FutureExt;
use futures::future::{BoxFuture, join_all};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use bowline_llm::CallId;

use crate::children::Children;
use crate::driver::panic_text;
use crate::entry::{BackgroundEnded, Behind, EntryKind};
use crate::event::Phase;
use crate::journal::JournalError;
use crate::limits::LimitKind;
use crate::mailbox::Command;
use crate::op::Input;
use crate::tool::{Prepared, Rest};

use super::{Halt, Turn, until};

/// Work of a call that is over.
pub(super) struct Background {
    children: Children,
    task: AbortHandle,
    // Set when it is over: what it has to say, if anything.
    over: Option<Option<Input>>,
}

impl Turn {
    /// Lets what a call left go on behind it.
    pub(super) fn go_on_behind(&mut self, call: CallId, rest: Rest, children: Children) {
        self.spawn_behind(call, children, rest.work);
    }

    fn spawn_behind(
        &mut self,
        call: CallId,
        children: Children,
        work: BoxFuture<'static, Option<Input>>,
    ) {
        let (voice, of) = (self.mailbox.voice(), call.clone());
        let task = tokio::spawn(async move {
            let said = AssertUnwindSafe(work).catch_unwind().await.unwrap_or_else(|panic| {
                let what = panic_text(&*panic);
                Some(format!("What went on behind a call panicked: {what}").into())
            });
            // Whose agent is gone has nobody to tell.
            let _ = voice.send(Command::BackgroundOver { call: of, said });
        });
        let background = Background { children, task: task.abort_handle(), over: None };
        self.background.insert(call, background);
    }

    /// Takes note that the work behind a call is over.
    pub(super) fn background_over(&mut self, call: &CallId, said: Option<Input>) {
        if let Some(background) = self.background.get_mut(call) {
            background.over = Some(said);
        }
    }

    /// Starts again what went on behind calls when an earlier process died: their tools run again,
    /// and find what they had made.
    pub(super) fn resume_background(&mut self) {
        let Some(run) = self.conversation.run().filter(|run| !run.is_ending()) else { return };
        let lost: Vec<_> = run
            .background
            .iter()
            .filter(|behind| !self.background.contains_key(&behind.call.id))
            .cloned()
            .collect();
        for behind in lost {
            let call = behind.call.id.clone();
            let prepared = self
                .tools
                .get(&behind.call.name)
                .and_then(|tool| tool.prepare(&behind.call.arguments).ok());
            // Nobody listens any more to what it says on the way.
            let (nobody, _) = mpsc::unbounded_channel();
            let (cx, scope) = self.tool_context(&call, None, nobody);
            let children = cx.children.clone();
            let work = async move {
                let Prepared { run, .. } = prepared?;
                run(cx).await.ok()?;
                match scope.take_rest() {
                    Some(rest) => rest.work.await,
                    None => None,
                }
            };
            self.spawn_behind(call, children, work.boxed());
        }
    }

    /// Says what the work behind calls has come to, if anything can be said now.
    pub(super) async fn deliver_background(&mut self, active: Option<Instant>) -> Result<(), Halt> {
        if !self.can_be_said() {
            return Ok(());
        }
        let is_over = |_: &CallId, background: &mut Background| background.over.is_some();
        let mut over: Vec<_> = self.background.extract_if(is_over).collect();
        over.sort_by(|(a, _), (b, _)| a.cmp(b));
        let mut kinds = Vec::new();
        for (call, background) in over {
            background.children.close().await;
            self.end_orphans(&call).await?;
            let said =
                background.over.flatten().map(|said| self.agent.redaction.apply_to_input(&said));
            let message = said.map(|said| said.0);
            kinds.push(EntryKind::BackgroundEnded(BackgroundEnded { call, message }));
        }
        self.commit_after(kinds, active.map(|since| since.elapsed())).await
    }

    /// Tells whether the run cannot end yet because work behind a call is to be awaited.
    pub(super) fn awaits_background(&self) -> bool {
        let run = self.conversation.run();
        run.is_some_and(|run| run.background.iter().any(|behind| behind.behind == Behind::Awaited))
    }

    /// Waits until work behind a call is over, or mail has come.
    pub(super) async fn wait_for_background(&mut self) -> Result<(), Halt> {
        self.enter(Phase::Waiting);
        let (deadline, began) = (self.deadline(), Instant::now());
        let before = self.conversation.seq();
        loop {
            tokio::select! {
                mail = self.mailbox.next() => self.accept(mail).await?,
                () = until(deadline) => return self.hit(LimitKind::RunTime).await,
            }
            let is_over = self.background.values().any(|background| background.over.is_some());
            if is_over {
                return self.deliver_background(Some(began)).await;
            }
            if self.conversation.seq() != before {
                return Ok(());
            }
        }
    }

    /// Stops what goes on behind calls, because the run ends, and returns what there is to write.
    pub(super) async fn end_background(&mut self) -> Result<Vec<EntryKind>, Halt> {
        self.close_background().await;
        let Some(run) = self.conversation.run() else { return Ok(Vec::new()) };
        let calls: Vec<CallId> =
            run.background.iter().map(|behind| behind.call.id.clone()).collect();
        let mut kinds = Vec::new();
        for call in calls {
            self.end_orphans(&call).await?;
            kinds.push(EntryKind::BackgroundEnded(BackgroundEnded { call, message: None }));
        }
        Ok(kinds)
    }

    /// Lets go of what goes on behind calls because the log failed: it goes on when the run does.
    pub(super) async fn let_go_of_background(&mut self, error: &JournalError) {
        for background in self.background.values() {
            background.children.let_go(error);
        }
        self.close_background().await;
    }

    /// Has everything stopped that sub-agents do for calls which wait or are over, without waiting for
    /// it. What is in flight is stopped at the same time: one after the other, each level of agents
    /// would double the time that those above it wait.
    pub(super) fn stop_children_aside(&self) {
        self.waiting.values().for_each(Children::stop);
        for background in self.background.values() {
            background.task.abort();
            background.children.stop();
        }
    }

    /// Stops what goes on behind calls in this process.
    pub(super) async fn close_background(&mut self) {
        let background: Vec<_> =
            self.background.drain().map(|(_, background)| background).collect();
        background.iter().for_each(|background| background.task.abort());
        join_all(background.iter().map(|background| background.children.close())).await;
    }
}
