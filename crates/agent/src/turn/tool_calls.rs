//! One set of calls: started as their conflicts allow, ended the moment each ends.

use std::panic::{AssertUnwindSafe, resume_unwind};
use std::sync::Arc;

use futures::FutureExt;
use tokio::sync::mpsc;
use tokio::time::Instant;

use bowline_llm::{CallId, Part};

use crate::agent::Agent;
use crate::children::Children;
use crate::conversation::{Call, CallState};
use crate::entry::{
    CallEnded, CallStatus, CallWaiting, Custom, Ending, EntryKind, ExternalUsage, RunErrorKind,
};
use crate::event::{EventBody, Phase};
use crate::hub::Live;
use crate::limits::LimitKind;
use crate::tool::{
    Before, CallScope, Concluded, Piece, Prepared, Record, ScopeMessage, ToolContext, ToolError,
    ToolOutput, Waked,
};

use super::admission::{Admitted, Desk, Ready, Reviewer, Round};
use super::batch::{Batch, Happening, Landed, Landing, Start};
use super::{Halt, Turn, result, until};

impl Turn {
    /// Runs the open calls until each has ended or waits.
    pub(super) async fn call_tools(&mut self) -> Result<(), Halt> {
        self.enter(Phase::Tools);
        let mut batch = Batch::new(self.agent.tool_execution);
        let run = AssertUnwindSafe(self.run_batch(&mut batch)).catch_unwind();
        let done = run.await;
        if !matches!(done, Ok(Ok(()))) {
            // What they did can no longer be written down. Nothing of them may be left. When the
            // log failed the run goes on later, and finds its sub-agents as they are now.
            if let Ok(Err(Halt(error))) = &done {
                batch.let_go(error);
                self.waiting.values().for_each(|children| children.let_go(error));
            }
            batch.abort().await;
            for (_, children) in self.waiting.drain().collect::<Vec<_>>() {
                children.close().await;
            }
        }
        done.unwrap_or_else(|panic| resume_unwind(panic))
    }

    async fn run_batch(&mut self, batch: &mut Batch) -> Result<(), Halt> {
        let deadline = self.deadline();
        // When work was last accounted for.
        let mut since = Instant::now();
        // What a tool says changes nothing about what may start.
        let mut only_said = false;
        loop {
            if !only_said {
                self.end_unwanted(batch).await?;
                // What is steered in skips what has not started.
                if !self.feeds.steering.is_asked() {
                    self.start_ready(batch).await?;
                }
            }
            let is_idle = batch.is_idle() && batch.round.is_none();
            if is_idle && !self.waits_for_steering() {
                return Ok(());
            }
            only_said = false;
            tokio::select! {
                biased;
                mail = self.mailbox.next() => self.accept(mail).await?,
                () = until(deadline), if self.has_time_limit() => self.hit(LimitKind::RunTime).await?,
                handed = self.feeds.steering.answer() => self.accept_steering(handed).await?,
                happening = batch.next(), if !is_idle => match happening {
                    Happening::Landed(landed) => {
                        let active = since.elapsed();
                        since += active;
                        self.land(landed, active).await?;
                        self.feeds.steering.ask();
                    }
                    Happening::Said(call, message) => {
                        only_said = true;
                        self.heard(call, message).await?;
                    }
                    Happening::Admitted(admitted) => {
                        self.start_admitted(batch, admitted).await?;
                    }
                },
            }
            if self.must_stop() {
                batch.stop(CallStatus::Canceled);
            }
        }
    }

    fn has_time_limit(&self) -> bool {
        self.conversation.run().is_some_and(|run| run.limit.is_none())
    }

    /// Tells whether calls in flight are to be stopped.
    fn must_stop(&self) -> bool {
        self.conversation.run().is_some_and(|run| {
            let out_of_time = run.limit.as_ref().is_some_and(|hit| hit.limit == LimitKind::RunTime);
            run.canceled.is_some() || run.fatal.is_some() || out_of_time
        })
    }

    /// Ends calls that are not to start, or not to wait any longer.
    async fn end_unwanted(&mut self, batch: &mut Batch) -> Result<(), Halt> {
        let Some(run) = self.conversation.run() else { return Ok(()) };
        let must_stop = self.must_stop();
        let (status, why) = if run.canceled.is_some() {
            (CallStatus::Canceled, "canceled before it ended".to_owned())
        } else if let Some(error) = &run.fatal {
            let is_of_tool = error.kind == RunErrorKind::Tool;
            let why = if is_of_tool { "another tool ended the run" } else { "the run has failed" };
            (CallStatus::Canceled, format!("canceled: {why}"))
        } else if let Some(hit) = &run.limit {
            (CallStatus::Skipped, format!("skipped: the limit {} is reached", hit.limit.as_str()))
        } else if self.conversation.is_void() {
            (
                CallStatus::Skipped,
                "skipped: the reply that asked for it was not completed".to_owned(),
            )
        } else if run.is_steered() {
            (CallStatus::Skipped, "skipped: the user said something first".to_owned())
        } else {
            return Ok(());
        };
        let ends = run.limit.is_some() || must_stop;
        let unwanted = |call: &&Call| match &call.state {
            // Waiting for a decision, it has not started either.
            CallState::New => true,
            CallState::Waiting(_) | CallState::Woken(_) => ends || !call.started,
            CallState::Started => must_stop && !batch.runs(call.id()),
            CallState::Ended(_) => false,
        };
        let open = self.conversation.open_calls();
        let calls: Vec<Call> = open
            .into_iter()
            .filter(|call| !batch.runs(call.id()))
            .filter(unwanted)
            .cloned()
            .collect();
        if !calls.is_empty() {
            // What the gate was asked may be about these; it is asked again about the others.
            batch.round = None;
        }
        let (mut kinds, desk) = (Vec::new(), self.desk());
        for call in calls {
            if let Some(children) = self.waiting.remove(call.id()) {
                children.close().await;
            }
            self.end_orphans(call.id()).await?;
            kinds.push(match (&call.state, status) {
                // It was cut off, and may have changed something.
                (CallState::Started, _) if !desk.may_repeat(&call) => interrupted(&call),
                (_, CallStatus::Skipped) if call.started => {
                    ended(call.id().clone(), CallStatus::Canceled, &why)
                }
                _ => ended(call.id().clone(), status, &why),
            });
        }
        self.commit(kinds).await
    }

    /// Starts what can start now. While a gate thinks about it, the loop goes on.
    async fn start_ready(&mut self, batch: &mut Batch) -> Result<(), Halt> {
        while batch.round.is_none() {
            let mut round = self.round(batch).decide().boxed();
            let Some(admitted) = (&mut round).now_or_never() else {
                batch.round = Some(round);
                return Ok(());
            };
            if !self.start_admitted(batch, admitted).await? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Starts what was let pass: all of it in one commit. Tells whether more may start now.
    async fn start_admitted(
        &mut self,
        batch: &mut Batch,
        admitted: Admitted,
    ) -> Result<bool, Halt> {
        let Admitted { mut kinds, ready, kept } = admitted;
        batch.prepared.extend(kept);
        for kind in &kinds {
            if let EntryKind::CallEnded(ended) = kind {
                if let Some(children) = self.waiting.remove(&ended.call) {
                    children.close().await;
                }
                self.end_orphans(&ended.call).await?;
            }
        }
        // A call that ends without running may be what others waited for.
        let ends_any = kinds.iter().any(|kind| !matches!(kind, EntryKind::CallStarted(_)));
        let starts_any = !ready.is_empty();
        kinds.sort_by_key(|kind| matches!(kind, EntryKind::CallStarted(_)));
        self.find_twins(&mut kinds);
        self.commit(kinds).await?;
        for ready in ready {
            self.put_in_flight(batch, ready);
        }
        self.check_call_limit().await?;
        Ok(ends_any && (starts_any || self.conversation.has_open_calls()))
    }

    /// The calls that fit under the limit have started: the others never will.
    async fn check_call_limit(&mut self) -> Result<(), Halt> {
        let Some(run) = self.conversation.run().filter(|run| run.limit.is_none()) else {
            return Ok(());
        };
        let limit = run.limits.tool_calls;
        let left = self.conversation.open_calls().iter().any(|call| !call.started);
        if limit > 0 && run.tool_calls >= limit && left {
            self.hit(LimitKind::ToolCalls).await?;
        }
        Ok(())
    }

    /// Prepares to decide about the calls that are not in flight.
    fn round(&self, batch: &mut Batch) -> Round {
        let mut open = self.conversation.open_calls();
        open.retain(|call| !batch.runs(call.id()) && !matches!(call.state, CallState::Waiting(_)));
        let known = |call: &Call| (call.clone(), batch.prepared.remove(call.id()));
        let calls = open.into_iter().map(known).collect();
        Round { reviewer: self.reviewer(), room: batch.room(), left: self.room_for_calls(), calls }
    }

    pub(super) fn reviewer(&self) -> Reviewer {
        Reviewer {
            gate: Arc::clone(&self.agent.gate),
            meta: Arc::clone(&self.meta),
            desk: self.desk(),
            granted: self.session.questions.granted(),
        }
    }

    fn desk(&self) -> Desk {
        let offered = self.conversation.tools().0.clone();
        Desk { bounds: self.effects.bounds().clone(), offered, tools: self.tools.clone() }
    }

    /// Returns how many more calls may start; `None` for any number.
    fn room_for_calls(&self) -> Option<u32> {
        let run = self.conversation.run()?;
        let limit = run.limits.tool_calls;
        (limit > 0).then(|| limit.saturating_sub(run.tool_calls))
    }

    fn put_in_flight(&mut self, batch: &mut Batch, ready: Ready) {
        let Ready { call, prepared, wake } = ready;
        let Prepared { access, deadline, run, .. } = self.with_secrets(&call, prepared);
        let (cx, scope) = self.tool_context(&call, wake, batch.voice());
        batch.start(Start { call, access, deadline, run, cx, scope });
    }

    /// Makes what the tool of a call gets to see.
    pub(super) fn tool_context(
        &mut self,
        call: &CallId,
        wake: Option<Waked>,
        speaks: mpsc::UnboundedSender<CallId>,
    ) -> (ToolContext, Arc<CallScope>) {
        let before = Before {
            recorded: self.conversation.records().clone(),
            messages: self.conversation.messages().clone(),
        };
        let redaction = self.agent.redaction.clone();
        let scope = Arc::new(CallScope::new(call.clone(), speaks, before, redaction));
        // A call that waited has its sub-agents still.
        let children = self.waiting.remove(call).unwrap_or_else(|| {
            let (session, meta) = (Arc::clone(&self.session), Arc::clone(&self.meta));
            // What the parent must answer with is nothing to a sub-agent like it.
            let like = Agent { output_schema: None, tells_with: None, ..self.agent.clone() };
            Children::new(session, like, meta, call.clone())
        });
        children.run_again();
        let open = self.conversation.run();
        let limits = open.map(|run| run.limits.clone()).unwrap_or_default();
        let concluded = open.map(|run| Concluded {
            completed: run.completion.is_some(),
            handed_off: run.handoff.is_some(),
        });
        let cx = ToolContext {
            session: self.session.id,
            agent: Arc::clone(&self.meta),
            call: call.clone(),
            cancel: self.stop.child_token(),
            tool_time: limits.tool_time(),
            output_bytes: limits.output_bytes,
            folder: self.log.folder(),
            wake,
            concluded: concluded.unwrap_or_default(),
            children,
            source: Arc::clone(&self.session.source),
            scope: Arc::clone(&scope),
            shared: Arc::clone(&self.session.shared),
            desks: Arc::clone(&self.session.desks),
            watches: Arc::clone(&self.session.watches),
            behind: self.behind(),
            log: Some(Arc::downgrade(&self.log)),
            put_away: self.conversation.put_away().clone(),
            bounds: self.effects.bounds().clone(),
        };
        (cx, scope)
    }

    /// Commits that a call has ended, or waits, with what its tool recorded.
    async fn land(&mut self, landed: Landed, active: std::time::Duration) -> Result<(), Halt> {
        let Landed { call, result, unheard, records, ran, children, rest } = landed;
        for message in unheard {
            self.heard(call.clone(), message).await?;
        }
        let mut kinds = self.recorded(&call, records);
        let fatal = matches!(result, Landing::Returned(Err(ToolError::Fatal(_))));
        let mut concluded = None;
        let (status, content) = match result {
            Landing::Returned(Ok(ToolOutput::Waiting(wake))) => {
                self.waiting.insert(call.clone(), children);
                let passed = self.conversation.open_call(&call);
                let passed_to = passed.and_then(|call| self.desk().passed_to(call));
                kinds.push(EntryKind::CallWaiting(CallWaiting { call, wake, passed_to }));
                return self.commit_after(kinds, Some(active)).await;
            }
            Landing::Returned(Ok(ToolOutput::Content(parts))) => (CallStatus::Ok, parts),
            Landing::Returned(Ok(ToolOutput::Concluded { content, conclusion })) => {
                concluded = Some(conclusion.redacted(&self.agent.redaction));
                (CallStatus::Ok, content)
            }
            Landing::Returned(Err(ToolError::Failed(why))) => (CallStatus::Error, text(why)),
            Landing::Returned(Err(ToolError::TimedOut(why))) => (CallStatus::Timeout, text(why)),
            Landing::Returned(Err(ToolError::Fatal(error))) => {
                (CallStatus::Error, text(error.to_string()))
            }
            Landing::Stopped(status, said) => {
                let why = said.unwrap_or_else(|| result::stopped(status, ran));
                (status, text(why))
            }
            Landing::Panicked(panic) => {
                let message = format!("the tool panicked: {panic}");
                let body = EventBody::Warning { message: message.clone() };
                self.say(Live { call_id: Some(call.clone()), ..body.into() });
                (CallStatus::Error, text(message))
            }
        };
        let rest = rest.filter(|_| status == CallStatus::Ok && concluded.is_none());
        let behind = rest.as_ref().map(|left| left.rest.behind);
        if rest.is_none() {
            children.close().await;
            // One that an earlier process had made may not have been made again.
            self.end_orphans(&call).await?;
        }
        let ended = self.fit(call.clone(), status, content, ran).await?;
        let ended = CallEnded { fatal, conclusion: concluded, behind, ..ended };
        kinds.push(EntryKind::CallEnded(ended));
        let done = self.commit_after(kinds, Some(active)).await;
        if let Some(left) = rest {
            self.go_on_behind(call, left, children);
        }
        done
    }

    /// Makes entries of what was recorded for a call.
    pub(super) fn recorded(&self, call: &CallId, records: Vec<Record>) -> Vec<EntryKind> {
        let entry = |(name, data): Record| {
            let data = self.agent.redaction.apply_to_json(data);
            EntryKind::Custom(Custom { name: name.to_string(), call: Some(call.clone()), data })
        };
        records.into_iter().map(entry).collect()
    }

    /// Cuts a result to what the model gets to see, and keeps the whole beside the log.
    async fn fit(
        &self,
        call: CallId,
        status: CallStatus,
        content: Vec<Part>,
        ran: std::time::Duration,
    ) -> Result<CallEnded, Halt> {
        let limit = self.conversation.run().map_or(0, |run| run.limits.output_bytes);
        let ms = Some(u64::try_from(ran.as_millis()).unwrap_or(u64::MAX));
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let (content, whole) = result::cut(self.agent.redaction.apply_to(content), limit);
        let full = match whole {
            Some(whole) => Some(super::body::keep(&whole, &*self.log.blobs()).await?),
            None => None,
        };
        Ok(CallEnded {
            call,
            status,
            content: content.into(),
            ms,
            full,
            fatal: false,
            conclusion: None,
            behind: None,
        })
    }

    async fn heard(&mut self, call: CallId, message: ScopeMessage) -> Result<(), Halt> {
        match message {
            ScopeMessage::Output(Piece { text, omitted }) => {
                let body = EventBody::ToolOutput { text, omitted };
                self.say(Live { call_id: Some(call), ..body.into() });
                Ok(())
            }
            ScopeMessage::Usage(usage, cost_usd) => {
                let external = ExternalUsage { call, usage, cost_usd };
                self.commit(vec![EntryKind::ExternalUsage(external)]).await
            }
        }
    }

    /// Ends all sub-agents of the calls that are open.
    pub(super) async fn end_children(&mut self) -> Result<(), Halt> {
        for (_, children) in self.waiting.drain().collect::<Vec<_>>() {
            children.close().await;
        }
        for call in self.conversation.open_calls() {
            self.end_orphans(call.id()).await?;
        }
        Ok(())
    }

    /// Ends the run whatever is open: what is in flight is no longer known.
    pub(crate) async fn abandon(&mut self, ending: Ending) -> Result<(), Halt> {
        self.end_children().await?;
        let ends = self.conversation.open_calls().into_iter().map(|call| {
            if call.started {
                return interrupted(call);
            }
            let why = "skipped: the run ended before it started";
            ended(call.id().clone(), CallStatus::Skipped, why)
        });
        let kinds = ends.collect();
        self.finish(ending, kinds).await
    }
}

/// Makes the entry of a call of which nobody knows what it did.
fn interrupted(call: &Call) -> EntryKind {
    ended(call.id().clone(), CallStatus::Interrupted, result::INTERRUPTED)
}

/// Makes the entry of a call that ended without its tool saying anything.
pub(super) fn ended(call: CallId, status: CallStatus, why: &str) -> EntryKind {
    EntryKind::CallEnded(CallEnded::unheard(call, status, why))
}

fn text(text: String) -> Vec<Part> {
    vec![Part::Text(text)]
}
