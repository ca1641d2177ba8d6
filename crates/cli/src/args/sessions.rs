//! What can be said of sessions.

use bowline_agent::id::SessionId;
use clap::Subcommand;

use super::{Format, Settings, TEXT, formats};

#[derive(Debug, clap::Args)]
pub(crate) struct Sessions {
    #[command(subcommand)]
    pub(crate) command: SessionCommand,
    #[command(flatten)]
    pub(crate) settings: Settings,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SessionCommand {
    /// List sessions, newest first.
    List {
        /// Only those of this directory.
        #[arg(long)]
        here: bool,
        /// Print JSON lines.
        #[arg(long)]
        json: bool,
    },
    /// Print what was said and done in a session.
    Show {
        /// The session, or the beginning of its id.
        id: String,
        /// Print who did what for whom: its agents, their runs and calls, and the agents that a call
        /// made below it.
        #[arg(long, conflicts_with = "output_format")]
        tree: bool,
        /// Print its events as JSON lines: --output-format bowline. Of the tree: as one JSON object.
        #[arg(long, conflicts_with = "output_format")]
        json: bool,
        /// Print it as another agent would have printed it; see `bowline exec --help`.
        #[arg(long, value_name = "FORMAT", default_value = TEXT, value_parser = formats())]
        output_format: Format,
    },
    /// Delete a session and everything kept of it.
    Delete {
        /// The session, or the beginning of its id.
        id: String,
    },
    /// Check that what is kept is what was written; without an id, of all sessions.
    Verify {
        /// The session, or the beginning of its id.
        id: Option<String>,
    },
    /// Say something to a session, whichever process runs it.
    Post {
        /// The session, or the beginning of its id.
        id: String,
        /// What to say.
        #[arg(required_unless_present_any = ["cancel", "compact"])]
        text: Option<String>,
        /// Say it before the next model call, and skip calls that have not started.
        #[arg(long, conflicts_with_all = ["follow_up", "cancel"])]
        steer: bool,
        /// Say it when the run would otherwise end.
        #[arg(long, conflicts_with = "cancel")]
        follow_up: bool,
        /// Say it so that no summary ever stands for it.
        #[arg(long, conflicts_with_all = ["steer", "follow_up", "cancel"])]
        pin: bool,
        /// Have the conversation summarised at the next boundary; the text is what the summary
        /// should not leave out.
        #[arg(long, conflicts_with_all = ["steer", "follow_up", "pin", "cancel"])]
        compact: bool,
        /// Say nothing; cancel the run.
        #[arg(long, conflicts_with = "text")]
        cancel: bool,
    },
    /// Decide about a call that waits for permission, or answer one that asks something; without a call,
    /// list those that wait.
    Decide(Decide),
}

#[derive(Debug, clap::Args)]
pub(crate) struct Decide {
    /// The session, or the beginning of its id.
    pub(crate) id: String,
    /// The call.
    #[arg(requires = "what")]
    pub(crate) call: Option<String>,
    #[command(flatten)]
    pub(crate) what: What,
    /// Allow it for longer than once.
    #[arg(long = "for", value_name = "HOW_LONG", requires = "allow")]
    pub(crate) how_long: Option<HowLong>,
    /// What to allow for longer; without it what the question offers.
    #[arg(long, value_name = "RULE", requires = "how_long")]
    pub(crate) rule: Option<String>,
    /// The agent whose call it is, by name, if several wait with calls of this id.
    #[arg(long, value_name = "NAME", requires = "call")]
    pub(crate) agent: Option<String>,
}

/// What becomes of a call that waits.
#[derive(Debug, clap::Args)]
#[group(id = "what", multiple = false)]
pub(crate) struct What {
    /// Let it run.
    #[arg(long, requires = "call")]
    pub(crate) allow: bool,
    /// Do not let it run; the model is told why.
    #[arg(long, value_name = "REASON", requires = "call")]
    pub(crate) deny: Option<String>,
    /// Answer what it asks.
    #[arg(long, value_name = "TEXT", requires = "call")]
    pub(crate) answer: Option<String>,
}

/// For how long something is allowed.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(crate) enum HowLong {
    /// As long as there is the session.
    Session,
    /// For good.
    Always,
}

/// How a session is named: by its id or the beginning of it.
pub(crate) type SessionName = str;

/// Finds a session by the beginning of its id.
pub(crate) fn resolve(
    store: &bowline_store::Files,
    name: &SessionName,
) -> Result<SessionId, crate::exit::Failure> {
    store.resolve(name).map_err(|error| crate::exit::Failure::Usage(error.to_string()))
}
