//! The driver in this process: one task per live agent, step after step.

mod wrapped;

use std::any::Any;
use std::panic::AssertUnwindSafe;

use futures::FutureExt;

use crate::entry::{Ending, RunError, RunErrorKind};
use crate::error::AgentError;
use crate::mailbox::Mail;
use crate::turn::{Halt, Progress, Turn};

/// Owns an agent until it ends: its last handle is gone and no run is open, or it was closed.
pub(crate) async fn drive(mut turn: Turn) {
    if let Err(halt) = turn.open().await {
        recover(&mut turn, &halt).await;
    }
    loop {
        if let Err(halt) = attend(&mut turn).await {
            recover(&mut turn, &halt).await;
        }
        if turn.closing || (turn.mailbox.is_deserted() && !turn.is_awaited()) {
            break;
        }
    }
    // It may be no code of ours, and the agent is down either way.
    let _ = AssertUnwindSafe(turn.leave()).catch_unwind().await;
    while let Some(command) = turn.mailbox.now() {
        command.refuse(AgentError::Closed);
    }
}

/// Takes one piece of mail, and drives the run that it asks for to its end.
async fn attend(turn: &mut Turn) -> Result<(), Halt> {
    let mail = match turn.mailbox.kept() {
        Some(command) => Mail::Command(command),
        None => turn.mailbox.next().await,
    };
    match mail {
        Mail::Command(command) => turn.accept_at_rest(command).await?,
        Mail::Inbox => turn.collect_inbox().await?,
        Mail::Deserted => return Ok(()),
    }
    while turn.is_awaited() {
        activate(turn).await?;
    }
    Ok(())
}

/// Drives the open run until the agent rests, with what wraps it around it.
async fn activate(turn: &mut Turn) -> Result<(), Halt> {
    match turn.wrapped_run() {
        Some(run) => wrapped::activate(turn, run).await,
        None => drive_run(turn).await,
    }
}

/// Drives the open run until the agent rests. A panic in the loop ends the run, not the process.
async fn drive_run(turn: &mut Turn) -> Result<(), Halt> {
    let driven = AssertUnwindSafe(async {
        while turn.advance().await? == Progress::Stepped {}
        Ok(())
    });
    match driven.catch_unwind().await {
        Ok(done) => done,
        Err(panic) => {
            turn.reload().await?;
            let message = format!("the loop panicked: {}", panic_text(&*panic));
            let error = RunError { kind: RunErrorKind::Panic, message };
            turn.abandon(Ending::Failed(error)).await
        }
    }
}

/// After a failed commit memory is worth nothing: it is read from the log again. The run stays open
/// there.
async fn recover(turn: &mut Turn, halt: &Halt) {
    if turn.recover(halt).await.is_err() {
        // Nothing more can be done here; whoever opens the session next finds the run open.
        turn.closing = true;
    }
    turn.lose(halt);
}

/// Returns what a panic said.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}
