//! What reaches a live agent: commands from handles, operations from the session's inbox.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};

use bowline_llm::{CallId, RawJson};

use crate::agent::Busy;
use crate::entry::RunError;
use crate::error::AgentError;
use crate::event::Event;
use crate::id::{EntryId, OpId, RunId};
use crate::journal::{Inbox, JournalError};
use crate::op::{CancelReason, Decision, Input, Op};
use crate::outcome::Outcome;

pub(crate) type Reply<T> = oneshot::Sender<Result<T, AgentError>>;

/// What a handle asks of the task that owns the agent.
#[derive(Debug)]
pub(crate) enum Command {
    /// Start a run.
    Prompt { op: Op, busy: Busy, reply: Reply<Seat> },
    /// Go on with a run that was found open.
    Continue { reply: Reply<Option<Seat>> },
    /// Take an operation; without a run, refuse it.
    Post { op: Op, reply: Reply<()> },
    /// Take an operation that came through the session's inbox.
    Inbox { op: Op },
    /// Add a user message without asking the model.
    AddTurn { id: OpId, input: Input, reply: Reply<()> },
    /// Add an entry of the embedding program's own.
    Custom { name: String, data: RawJson, reply: Reply<EntryId> },
    /// Go back to an earlier entry.
    Rewind { to: Option<EntryId>, reply: Reply<()> },
    /// Cancel a run, if it is still this one that is open.
    CancelOwn { own: Own, reason: CancelReason },
    /// End a run with an error, if it is still this one that is open.
    FailOwn { run: RunId, error: RunError },
    /// What went on behind a call is over, and has this to say.
    BackgroundOver { call: CallId, said: Option<Input> },
    /// Somebody decided about a call that asked the very same as this one.
    DecideAlike { call: CallId, decision: Decision },
    /// Whoever asked what this call wants to know is gone: it asks itself.
    Reconsider { call: CallId },
    /// More is allowed than was: a call that waits for permission may have it now.
    Granted { call: CallId },
    /// End: cancel what runs, then let go of the log.
    Close { reason: CancelReason },
    /// End without writing anything more: the log failed under the agent above.
    LetGo { error: JournalError },
}

impl Command {
    /// Refuses a command.
    pub(crate) fn refuse(self, error: AgentError) {
        match self {
            Self::Prompt { reply, .. } => drop(reply.send(Err(error))),
            Self::Continue { reply } => drop(reply.send(Err(error))),
            Self::Post { reply, .. } | Self::AddTurn { reply, .. } | Self::Rewind { reply, .. } => {
                drop(reply.send(Err(error)));
            }
            Self::Custom { reply, .. } => drop(reply.send(Err(error))),
            Self::Inbox { .. }
            | Self::CancelOwn { .. }
            | Self::FailOwn { .. }
            | Self::BackgroundOver { .. }
            | Self::DecideAlike { .. }
            | Self::Reconsider { .. }
            | Self::Granted { .. }
            | Self::Close { .. }
            | Self::LetGo { .. } => {}
        }
    }
}

/// A run as the one who asked for it knows it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Own {
    /// By its prompt, while nobody has said what came of that.
    Prompt(OpId),
    Run(RunId),
}

/// A place from which to watch a run.
#[derive(Debug)]
pub(crate) struct Seat {
    pub(crate) run: RunId,
    pub(crate) events: mpsc::UnboundedReceiver<Arc<Event>>,
    pub(crate) outcome: oneshot::Receiver<Result<Outcome, AgentError>>,
}

/// What a live agent hears next.
pub(crate) enum Mail {
    Command(Command),
    /// Something may be in the session's inbox.
    Inbox,
    /// Nobody holds a handle any more.
    Deserted,
}

pub(crate) struct Mailbox {
    commands: mpsc::UnboundedReceiver<Command>,
    // What those say who work for the agent itself.
    own: (mpsc::UnboundedSender<Command>, mpsc::UnboundedReceiver<Command>),
    // Commands whose time comes when the open run is over.
    after_run: VecDeque<Command>,
    // Commands that were heard too early.
    again: VecDeque<Command>,
    // The session's inbox; only the root looks into it.
    inbox: Option<Arc<dyn Inbox>>,
    deserted: bool,
}

impl Mailbox {
    pub(crate) fn new(
        commands: mpsc::UnboundedReceiver<Command>,
        inbox: Option<Arc<dyn Inbox>>,
    ) -> Self {
        let (own, after_run) = (mpsc::unbounded_channel(), VecDeque::new());
        Self { commands, own, after_run, again: VecDeque::new(), inbox, deserted: false }
    }

    /// Waits for the next mail. It may be dropped at any time without losing any.
    pub(crate) async fn next(&mut self) -> Mail {
        if let Some(command) = self.again.pop_front() {
            return Mail::Command(command);
        }
        tokio::select! {
            command = self.commands.recv(), if !self.deserted => match command {
                Some(command) => Mail::Command(command),
                None => {
                    self.deserted = true;
                    Mail::Deserted
                }
            },
            Some(command) = self.own.1.recv() => Mail::Command(command),
            () = changed(self.inbox.as_deref()) => Mail::Inbox,
        }
    }

    /// Returns where those who work for the agent itself say what they want of it.
    pub(crate) fn voice(&self) -> mpsc::UnboundedSender<Command> {
        self.own.0.clone()
    }

    /// Returns a command that is there already.
    pub(crate) fn now(&mut self) -> Option<Command> {
        let again = self.again.pop_front();
        again.or_else(|| self.commands.try_recv().or_else(|_| self.own.1.try_recv()).ok())
    }

    /// Has commands heard again, before all others.
    pub(crate) fn put_back(&mut self, commands: Vec<Command>) {
        self.again.extend(commands);
    }

    /// Keeps a command for the time after the open run.
    pub(crate) fn keep(&mut self, command: Command) {
        self.after_run.push_back(command);
    }

    /// Returns a command that was kept for now.
    pub(crate) fn kept(&mut self) -> Option<Command> {
        self.after_run.pop_front()
    }

    /// Tells whether a command waits for the end of the open run.
    pub(crate) fn keeps_any(&self) -> bool {
        !self.after_run.is_empty()
    }

    /// Tells whether nobody holds a handle any more, and nothing is left of what they asked.
    pub(crate) fn is_deserted(&self) -> bool {
        self.deserted && self.after_run.is_empty() && self.again.is_empty()
    }
}

async fn changed(inbox: Option<&dyn Inbox>) {
    match inbox {
        Some(inbox) => inbox.changed().await,
        None => std::future::pending().await,
    }
}
