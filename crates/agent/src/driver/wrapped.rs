//! Driving a run with its agent's middleware around it.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use crate::entry::{Ending, RunError, RunErrorKind};
use crate::error::AgentError;
use crate::id::RunId;
use crate::mailbox::{Command, Mail};
use crate::middleware::{Control, GRACE, wrap};
use crate::op::CancelReason;
use crate::outcome::Outcome;
use crate::turn::{Halt, Turn, until};

use super::{drive_run, panic_text};

/// Drives the open run, and answers those who wait for it with what its middleware says.
pub(super) async fn activate(turn: &mut Turn, run: RunId) -> Result<(), Halt> {
    let (ends, ended) = watch::channel(None);
    let go = Arc::new(Notify::new());
    let (session, voice) = (turn.session(), turn.mailbox.voice());
    let control = Control { session, voice, go: Arc::clone(&go), ended };
    let mut around = Around::new(wrap(turn.middleware(), run, turn.meta(), control));
    let driven = async {
        let happens = take_up(turn, &mut around, &go, run).await?;
        drive_within(turn, &mut around, run).await?;
        Ok::<bool, Halt>(happens)
    };
    let happened = match driven.await {
        Ok(happened) => happened,
        Err(halt) => {
            ends.send_replace(Some(Err(halt.0.clone().into())));
            // Whoever waits is told by the one who recovers; those around it may still clean up.
            let _ = tokio::time::timeout(GRACE, around.returns()).await;
            return Err(halt);
        }
    };
    let Some(outcome) = turn.latest() else { return Ok(()) };
    ends.send_replace(Some(Ok(outcome.clone())));
    let is_patient = happened && !matches!(outcome.ending, Ending::Canceled(_));
    let patience = (!is_patient).then(|| Instant::now() + GRACE);
    let seen_off = see_off(turn, &mut around, patience).await;
    let result = match around.result.take() {
        Some(Ok(result)) => result,
        Some(Err(panic)) if outcome.is_done() => Err(AgentError::Middleware(panic)),
        // The panic is what ended it, or it had failed before.
        Some(Err(_)) | None => Ok(outcome),
    };
    turn.answer(&result);
    seen_off
}

/// What is around a run, until it returns.
struct Around {
    work: BoxFuture<'static, Result<Result<Outcome, AgentError>, String>>,
    // What it returned, or what it said when it panicked.
    result: Option<Result<Result<Outcome, AgentError>, String>>,
}

impl Around {
    fn new(work: BoxFuture<'static, Result<Outcome, AgentError>>) -> Self {
        let work = AssertUnwindSafe(work).catch_unwind().map(|done| {
            done.map_err(|panic| format!("a middleware panicked: {}", panic_text(&*panic)))
        });
        Self { work: work.boxed(), result: None }
    }

    /// Waits until it has returned. It may be dropped at any time.
    async fn returns(&mut self) {
        if self.result.is_none() {
            self.result = Some((&mut self.work).await);
        }
    }

    /// Returns the error with which its panic ends the run.
    fn panic(&self) -> Option<RunError> {
        let Some(Err(panic)) = &self.result else { return None };
        Some(RunError { kind: RunErrorKind::Panic, message: panic.clone() })
    }
}

/// Waits until the run may begin, or is to end without having done anything; tells whether those
/// around it let it happen.
async fn take_up(
    turn: &mut Turn,
    around: &mut Around,
    go: &Notify,
    run: RunId,
) -> Result<bool, Halt> {
    let deadline = turn.deadline();
    while !turn.is_ending() {
        tokio::select! {
            biased;
            () = around.returns() => break,
            () = go.notified() => {
                // What they said before comes before what the run does.
                take_all(turn).await?;
                return Ok(true);
            }
            mail = turn.mailbox.next() => turn.accept(mail).await?,
            () = until(deadline) => turn.run_out_of_time().await?,
        }
    }
    if around.result.is_none() {
        return Ok(false);
    }
    if let Some(error) = around.panic() {
        turn.accept(Mail::Command(Command::FailOwn { run, error })).await?;
    }
    // It may have said why.
    take_all(turn).await?;
    if !turn.is_ending() {
        turn.cancel(CancelReason::User, None).await?;
    }
    Ok(false)
}

/// Takes what has been asked of the agent by now.
async fn take_all(turn: &mut Turn) -> Result<(), Halt> {
    while let Some(command) = turn.mailbox.now() {
        turn.accept(Mail::Command(command)).await?;
    }
    Ok(())
}

/// Drives the run, and lets those around it do what they do meanwhile.
async fn drive_within(turn: &mut Turn, around: &mut Around, run: RunId) -> Result<(), Halt> {
    let voice = turn.mailbox.voice();
    let mut driven = std::pin::pin!(drive_run(turn));
    if around.result.is_none() {
        tokio::select! {
            biased;
            done = &mut driven => return done,
            () = around.returns() => {}
        }
        if let Some(error) = around.panic() {
            // The owner listens: it is driven.
            let _ = voice.send(Command::FailOwn { run, error });
        }
    }
    driven.await
}

/// Waits until those around the run return. What is asked of the agent meanwhile waits, where it
/// would begin another run.
async fn see_off(
    turn: &mut Turn,
    around: &mut Around,
    mut patience: Option<Instant>,
) -> Result<(), Halt> {
    while around.result.is_none() {
        if turn.closing {
            patience.get_or_insert_with(|| Instant::now() + GRACE);
        }
        tokio::select! {
            biased;
            () = around.returns() => {}
            () = until(patience) => return Ok(()),
            mail = turn.mailbox.next() => match mail {
                Mail::Command(command @ (Command::Prompt { .. } | Command::Continue { .. })) => {
                    turn.mailbox.keep(command);
                }
                Mail::Command(command) => turn.accept_at_rest(command).await?,
                Mail::Inbox => turn.collect_inbox().await?,
                Mail::Deserted => {}
            },
        }
    }
    Ok(())
}
