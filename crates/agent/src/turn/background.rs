//! What calls have left to go on behind them, while the run goes on.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::{BoxFuture, join_all};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use bowline_llm::CallId;

use crate::children::Children;
use crate::driver::panic_text;
use crate::entry::{BackgroundEnded, Behind, EntryKind};
use crate::event::Phase;
use crate::journal::JournalError;
use crate::limits::LimitKind;
use crate::mailbox::Command;
use crate::op::Input;
use crate::tool::{CallScope, Prepared, Record};

use super::batch::{GRACE, Left};
use super::{Halt, Turn, until};

/// Work of a call that is over.
pub(super) struct Background {
    place: Place,
    task: JoinHandle<()>,
    // Set when it is over: what it has to say, if anything.
    over: Option<Option<Input>>,
    // When it was asked to stop.
    stopped: Option<Instant>,
    // Fires when it is over, however.
    ended: CancellationToken,
}

/// What belongs to work behind a call.
struct Place {
    children: Children,
    // What it records is written with its end.
    scope: Arc<CallScope>,
    cancel: CancellationToken,
}

impl Background {
    /// Asks it to stop, and its sub-agents.
    fn stop(&mut self) {
        self.stopped.get_or_insert_with(Instant::now);
        self.place.cancel.cancel();
        self.place.children.stop();
    }

    /// Waits until nothing of it is left, and returns what it recorded.
    async fn wind_down(mut self) -> Vec<Record> {
        let patience = self.stopped.unwrap_or_else(Instant::now) + GRACE;
        if tokio::time::timeout_at(patience, &mut self.task).await.is_err() {
            self.task.abort();
            // What it holds may have something to record when it is dropped.
            let _ = (&mut self.task).await;
        }
        self.place.children.close().await;
        self.place.scope.close()
    }
}

impl Turn {
    /// Lets what a call left go on behind it.
    pub(super) fn go_on_behind(&mut self, call: CallId, left: Left, children: Children) {
        let Left { rest, scope, cancel } = left;
        self.spawn_behind(call, Place { children, scope, cancel }, rest.work);
    }

    fn spawn_behind(
        &mut self,
        call: CallId,
        place: Place,
        work: BoxFuture<'static, Option<Input>>,
    ) {
        let (voice, of) = (self.mailbox.voice(), call.clone());
        let ended = CancellationToken::new();
        let is_over = ended.clone().drop_guard();
        let task = tokio::spawn(async move {
            let _is_over = is_over;
            let said = AssertUnwindSafe(work).catch_unwind().await.unwrap_or_else(|panic| {
                let what = panic_text(&*panic);
                Some(format!("What went on behind a call panicked: {what}").into())
            });
            // Whose agent is gone has nobody to tell.
            let _ = voice.send(Command::BackgroundOver { call: of, said });
        });
        let background = Background { place, task, over: None, stopped: None, ended };
        self.background.insert(call, background);
    }

    /// Returns the calls behind which work goes on in this process, and what tells that it is over.
    pub(super) fn behind(&self) -> HashMap<CallId, CancellationToken> {
        let ended =
            |(call, background): (&CallId, &Background)| (call.clone(), background.ended.clone());
        self.background.iter().map(ended).collect()
    }

    /// Takes note that the work behind a call is over.
    pub(super) fn background_over(&mut self, call: &CallId, said: Option<Input>) {
        if let Some(background) = self.background.get_mut(call) {
            background.over = Some(said);
        }
    }

    /// Starts again what went on behind calls when an earlier process died: their tools run again,
    /// and find what they had made. In a run that is ending they are asked to stop at once, so that they
    /// bring to its end what they had begun.
    pub(super) fn resume_background(&mut self) {
        let Some(run) = self.conversation.run() else { return };
        // The tools of an agent that is only ended here are not known.
        let is_orphan = self.meta.parent.is_some() && self.work.is_none();
        if is_orphan {
            return;
        }
        let is_ending = run.is_ending();
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
            let (children, cancel) = (cx.children.clone(), cx.cancel.clone());
            let its_scope = Arc::clone(&scope);
            let work = async move {
                let Prepared { run, .. } = prepared?;
                run(cx).await.ok()?;
                // What it records until here stands with the end of its call.
                drop(its_scope.go_behind());
                match its_scope.take_rest() {
                    Some(rest) => rest.work.await,
                    None => None,
                }
            };
            self.spawn_behind(call.clone(), Place { children, scope, cancel }, work.boxed());
            if is_ending && let Some(background) = self.background.get_mut(&call) {
                background.stop();
            }
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
            background.place.children.close().await;
            self.end_orphans(&call).await?;
            kinds.extend(self.recorded(&call, background.place.scope.close()));
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
        self.stop_background();
        let wound_down = self
            .background
            .drain()
            .map(|(call, background)| async move { (call, background.wind_down().await) });
        let mut records: HashMap<_, _> = join_all(wound_down).await.into_iter().collect();
        let Some(run) = self.conversation.run() else { return Ok(Vec::new()) };
        let calls: Vec<CallId> =
            run.background.iter().map(|behind| behind.call.id.clone()).collect();
        let mut kinds = Vec::new();
        for call in calls {
            self.end_orphans(&call).await?;
            kinds.extend(self.recorded(&call, records.remove(&call).unwrap_or_default()));
            kinds.push(EntryKind::BackgroundEnded(BackgroundEnded { call, message: None }));
        }
        Ok(kinds)
    }

    /// Lets go of what goes on behind calls because the log failed: it goes on when the run does.
    pub(super) async fn let_go_of_background(&mut self, error: &JournalError) {
        let background: Vec<_> =
            self.background.drain().map(|(_, background)| background).collect();
        for background in &background {
            // Nothing is recorded any more.
            background.place.scope.close();
            background.place.children.let_go(error);
            background.task.abort();
        }
        let children = background.iter().map(|background| background.place.children.close());
        join_all(children).await;
    }

    /// Has everything stopped that sub-agents do for calls which wait or are over, without waiting for
    /// it. What is in flight is stopped at the same time: one after the other, each level of agents
    /// would double the time that those above it wait.
    pub(super) fn stop_children_aside(&mut self) {
        self.waiting.values().for_each(Children::stop);
        self.stop_background();
    }

    fn stop_background(&mut self) {
        self.background.values_mut().for_each(Background::stop);
    }
}
