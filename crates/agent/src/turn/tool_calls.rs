//! One set of calls: started as their conflicts allow, ended the moment each ends.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use futures::FutureExt;
use tokio::time::Instant;

use bowline_llm::{CallId, Part, ToolCall};

use crate::children::Children;
use crate::conversation::{Call, CallState};
use crate::driver::panic_text;
use crate::entry::{
    CallEnded, CallStarted, CallStatus, CallWaiting, Custom, Ending, EntryKind, ExternalUsage, Wake,
};
use crate::event::{EventBody, Phase};
use crate::gate::{Review, Verdict};
use crate::hub::Live;
use crate::limits::LimitKind;
use crate::op::Decision;
use crate::tool::{
    Access, CallScope, Prepared, Recovery, ScopeMessage, ToolContext, ToolError, ToolOutput, Waked,
};

use super::batch::{Batch, Happening, Landed, Landing, Start};
use super::{Halt, Turn, result, until};

/// How often a gate may rewrite the arguments of one call.
const REWRITES: usize = 8;

/// What is to become of a call that could start.
enum Admission {
    Starts(CallStarted, Prepared),
    /// It goes on without starting again.
    GoesOn(Prepared),
    Ends(CallStatus, String),
    Waits(Wake),
}

/// A call that is about to start.
struct Ready {
    call: CallId,
    prepared: Prepared,
    wake: Option<Waked>,
}

impl Turn {
    /// Runs the open calls until each has ended or waits.
    pub(super) async fn call_tools(&mut self) -> Result<(), Halt> {
        self.enter(Phase::Tools);
        let mut batch = Batch::new(self.agent.tool_execution);
        let run = AssertUnwindSafe(self.run_batch(&mut batch)).catch_unwind();
        let done = run.await;
        if !matches!(done, Ok(Ok(()))) {
            // What they did can no longer be written down. Nothing of them may be left.
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
        loop {
            self.end_unwanted(batch).await?;
            self.start_ready(batch).await?;
            if batch.is_idle() {
                return Ok(());
            }
            tokio::select! {
                biased;
                mail = self.mailbox.next() => self.accept(mail).await?,
                () = until(deadline), if self.has_time_limit() => self.hit(LimitKind::RunTime).await?,
                happening = batch.next() => match happening {
                    Happening::Landed(landed) => {
                        let active = since.elapsed();
                        since += active;
                        self.land(landed, active).await?;
                    }
                    Happening::Said(call, message) => self.heard(call, message).await?,
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
        } else if run.fatal.is_some() {
            (CallStatus::Canceled, "canceled: another tool ended the run".to_owned())
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
        let calls: Vec<(CallId, bool)> = open
            .into_iter()
            .filter(|call| !batch.runs(call.id()))
            .filter(unwanted)
            .map(|call| (call.id().clone(), call.started))
            .collect();
        let mut kinds = Vec::new();
        for (call, started) in calls {
            if let Some(children) = self.waiting.remove(&call) {
                children.close().await;
            }
            let status = if started && status == CallStatus::Skipped {
                CallStatus::Canceled
            } else {
                status
            };
            kinds.push(ended(call, status, &why));
        }
        self.commit(kinds).await
    }

    /// Starts what can start now: all of them in one commit.
    async fn start_ready(&mut self, batch: &mut Batch) -> Result<(), Halt> {
        loop {
            let (mut kinds, ready) = self.admit(batch).await;
            let ends_any = kinds.iter().any(|kind| !matches!(kind, EntryKind::CallStarted(_)));
            let starts_any = !ready.is_empty();
            // A call that ends without running may be what others waited for.
            kinds.sort_by_key(|kind| matches!(kind, EntryKind::CallStarted(_)));
            self.commit(kinds).await?;
            for ready in ready {
                self.put_in_flight(batch, ready);
            }
            self.check_call_limit().await?;
            if !ends_any || !starts_any && !self.conversation.has_open_calls() {
                return Ok(());
            }
        }
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

    /// Decides about the calls that are not in flight, in order.
    async fn admit(&mut self, batch: &mut Batch) -> (Vec<EntryKind>, Vec<Ready>) {
        let mut kinds = Vec::new();
        let mut ready: Vec<Ready> = Vec::new();
        let mut ahead: Vec<Access> = Vec::new();
        let open: Vec<Call> = self.conversation.open_calls().into_iter().cloned().collect();
        let mut room = self.room_for_calls();
        for call in open {
            if batch.runs(call.id()) || matches!(call.state, CallState::Waiting(_)) {
                continue;
            }
            let prepared = match batch.prepared.remove(call.id()) {
                Some(prepared) => prepared,
                None => match self.prepare(&call.call.name, call.arguments()) {
                    Ok(prepared) => prepared,
                    Err((status, why)) => {
                        kinds.push(ended(call.id().clone(), status, &why));
                        continue;
                    }
                },
            };
            let starts = ready.iter().map(|ready| &ready.prepared.access);
            let fits = batch.has_room(&prepared.access, ready.len(), starts.chain(&ahead));
            let is_over_limit = !call.started && room == Some(0);
            if is_over_limit || !fits {
                ahead.push(prepared.access.clone());
                batch.prepared.insert(call.id().clone(), prepared);
                continue;
            }
            let wake = match &call.state {
                CallState::Woken(waked) => Some(waked.clone()),
                CallState::New
                | CallState::Started
                | CallState::Waiting(_)
                | CallState::Ended(_) => None,
            };
            let id = call.id().clone();
            match self.review(&call, prepared).await {
                Admission::Starts(started, prepared) => {
                    room = room.map(|room| room.saturating_sub(1));
                    kinds.push(EntryKind::CallStarted(started));
                    ready.push(Ready { call: id, prepared, wake: None });
                }
                Admission::GoesOn(prepared) => ready.push(Ready { call: id, prepared, wake }),
                Admission::Ends(status, why) => kinds.push(ended(id, status, &why)),
                Admission::Waits(wake) => {
                    kinds.push(EntryKind::CallWaiting(CallWaiting { call: id, wake }));
                }
            }
        }
        (kinds, ready)
    }

    /// Returns how many more calls may start; `None` for any number.
    fn room_for_calls(&self) -> Option<u32> {
        let run = self.conversation.run()?;
        let limit = run.limits.tool_calls;
        (limit > 0).then(|| limit.saturating_sub(run.tool_calls))
    }

    /// Finds the tool and reads the arguments.
    fn prepare(&self, name: &str, arguments: &str) -> Result<Prepared, (CallStatus, String)> {
        let known = self.conversation.tools().0;
        let is_offered = known.specs().iter().any(|spec| spec.name == name);
        let Some(tool) = self.agent.tools.get(name).filter(|_| is_offered) else {
            let names = known.specs().iter().map(|spec| spec.name.as_str());
            return Err((CallStatus::Error, result::unknown_tool(name, names)));
        };
        let prepared = catch_unwind(AssertUnwindSafe(|| tool.prepare(arguments)));
        match prepared {
            Ok(prepared) => prepared.map_err(|error| (CallStatus::Error, error.to_string())),
            Err(panic) => {
                let text = panic_text(&*panic);
                Err((CallStatus::Error, format!("the tool panicked: {text}")))
            }
        }
    }

    /// Asks the gate about a call that has not started, and recovers one that had.
    async fn review(&self, call: &Call, prepared: Prepared) -> Admission {
        if call.started {
            let was_cut_off = matches!(call.state, CallState::Started);
            return match prepared.recovery {
                Recovery::Unknown if was_cut_off => {
                    Admission::Ends(CallStatus::Interrupted, result::INTERRUPTED.to_owned())
                }
                Recovery::Rerun | Recovery::Reattach | Recovery::Unknown => {
                    Admission::GoesOn(prepared)
                }
            };
        }
        let decision = match &call.state {
            CallState::Woken(Waked::Decided(decision)) => Some(decision),
            CallState::Woken(_)
            | CallState::New
            | CallState::Started
            | CallState::Waiting(_)
            | CallState::Ended(_) => None,
        };
        if let Some(Decision::Deny { reason }) = decision {
            return Admission::Ends(CallStatus::Denied, format!("denied: {reason}"));
        }
        let mut asked = ToolCall { arguments: call.arguments().to_owned(), ..call.call.clone() };
        let mut prepared = prepared;
        for _ in 0..=REWRITES {
            let access = prepared.access.clone();
            let review = Review { call: &asked, access: &access, agent: &self.meta, decision };
            // A gate that cannot say does not let anything pass.
            let verdict = AssertUnwindSafe(self.agent.gate.review(&review)).catch_unwind().await;
            let verdict = verdict.unwrap_or_else(|panic| Verdict::Deny {
                reason: format!("the gate panicked: {}", panic_text(&*panic)),
            });
            match verdict {
                Verdict::Allow { rule } => {
                    let is_rewritten = asked.arguments != call.call.arguments;
                    let arguments = is_rewritten.then(|| asked.arguments.clone());
                    let started = CallStarted { call: call.id().clone(), arguments, rule };
                    return Admission::Starts(started, prepared);
                }
                Verdict::Deny { reason } => {
                    return Admission::Ends(CallStatus::Denied, format!("denied: {reason}"));
                }
                Verdict::Wait { question } => {
                    return Admission::Waits(Wake::Decision { question });
                }
                Verdict::Rewrite { arguments } => {
                    prepared = match self.prepare(&asked.name, &arguments) {
                        Ok(prepared) => prepared,
                        Err((status, why)) => return Admission::Ends(status, why),
                    };
                    asked.arguments = arguments;
                }
            }
        }
        let why = "denied: the arguments were rewritten without end".to_owned();
        Admission::Ends(CallStatus::Denied, why)
    }

    fn put_in_flight(&mut self, batch: &mut Batch, ready: Ready) {
        let Ready { call, prepared, wake } = ready;
        let Prepared { access, deadline, run, .. } = prepared;
        let scope =
            CallScope::new(call.clone(), batch.voice(), self.conversation.records().clone());
        let scope = Arc::new(scope);
        // A call that waited has its sub-agents still.
        let children = self.waiting.remove(&call).unwrap_or_else(|| {
            let (session, meta) = (Arc::clone(&self.session), Arc::clone(&self.meta));
            Children::new(session, self.agent.clone(), meta, call.clone())
        });
        children.run_again();
        let limits = self.conversation.run().map(|run| run.limits.clone()).unwrap_or_default();
        let cx = ToolContext {
            session: self.session.id,
            agent: Arc::clone(&self.meta),
            call: call.clone(),
            cancel: self.stop.child_token(),
            tool_time: limits.tool_time(),
            output_bytes: limits.output_bytes,
            folder: self.log.folder(),
            wake,
            children,
            source: Arc::clone(&self.session.source),
            scope: Arc::clone(&scope),
        };
        batch.start(Start { call, access, deadline, run, cx, scope });
    }

    /// Commits that a call has ended, or waits, with what its tool recorded.
    async fn land(&mut self, landed: Landed, active: std::time::Duration) -> Result<(), Halt> {
        let Landed { call, result, unheard, records, ran, children } = landed;
        for message in unheard {
            self.heard(call.clone(), message).await?;
        }
        let redaction = self.agent.redaction.clone();
        let record = |(name, data): (Arc<str>, _)| {
            let data = redaction.apply_to_json(data);
            EntryKind::Custom(Custom { name: name.to_string(), call: Some(call.clone()), data })
        };
        let mut kinds: Vec<EntryKind> = records.into_iter().map(record).collect();
        let fatal = matches!(result, Landing::Returned(Err(ToolError::Fatal(_))));
        let (status, content) = match result {
            Landing::Returned(Ok(ToolOutput::Waiting(wake))) => {
                self.waiting.insert(call.clone(), children);
                kinds.push(EntryKind::CallWaiting(CallWaiting { call, wake }));
                return self.commit_after(kinds, Some(active)).await;
            }
            Landing::Returned(Ok(ToolOutput::Content(parts))) => (CallStatus::Ok, parts),
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
        children.close().await;
        let ended = self.fit(call, status, content, ran).await?;
        kinds.push(EntryKind::CallEnded(CallEnded { fatal, ..ended }));
        self.commit_after(kinds, Some(active)).await
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
        Ok(CallEnded { call, status, content: content.into(), ms, full, fatal: false })
    }

    async fn heard(&mut self, call: CallId, message: ScopeMessage) -> Result<(), Halt> {
        match message {
            ScopeMessage::Output(text) => {
                let text = self.agent.redaction.apply(&text).into_owned();
                let body = EventBody::ToolOutput { text };
                self.say(Live { call_id: Some(call), ..body.into() });
                Ok(())
            }
            ScopeMessage::Usage(usage, cost_usd) => {
                let external = ExternalUsage { call, usage, cost_usd };
                self.commit(vec![EntryKind::ExternalUsage(external)]).await
            }
        }
    }

    /// Ends the run whatever is open: what is in flight is no longer known.
    pub(crate) async fn abandon(&mut self, ending: Ending) -> Result<(), Halt> {
        for (_, children) in self.waiting.drain().collect::<Vec<_>>() {
            children.close().await;
        }
        let ends = self.conversation.open_calls().into_iter().map(|call| {
            let (status, why) = match call.started {
                true => (CallStatus::Interrupted, result::INTERRUPTED),
                false => (CallStatus::Skipped, "skipped: the run ended before it started"),
            };
            ended(call.id().clone(), status, why)
        });
        let kinds = ends.collect();
        self.finish(ending, kinds).await
    }
}

/// Makes the entry of a call that ended without its tool saying anything.
fn ended(call: CallId, status: CallStatus, why: &str) -> EntryKind {
    let content = Arc::new([Part::Text(why.to_owned())]);
    EntryKind::CallEnded(CallEnded { call, status, content, ms: None, full: None, fatal: false })
}

fn text(text: String) -> Vec<Part> {
    vec![Part::Text(text)]
}
