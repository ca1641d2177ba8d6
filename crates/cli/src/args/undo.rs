//! What can be said about going back.

use super::Settings;

/// Before an agent writes, the files of the project are recorded; your own git repository is only read.
/// Without more words this goes back to before the last prompt, and shows first what would be done. Files
/// that were changed since by somebody else are left alone. --undo takes it back.
#[derive(Debug, clap::Args)]
pub(crate) struct Rewind {
    /// The session, or the beginning of its id; without it the newest of this directory.
    pub(crate) session: Option<String>,
    /// To before this prompt, by its number in --list; or to this entry of the log.
    #[arg(long, value_name = "PROMPT|ENTRY")]
    pub(crate) to: Option<String>,
    /// Back by so many prompts.
    #[arg(short = 'n', value_name = "PROMPTS", conflicts_with = "to")]
    pub(crate) prompts: Option<usize>,
    /// Bring files back; the conversation stays.
    #[arg(long)]
    pub(crate) files_only: bool,
    /// Go back in the conversation; the files stay.
    #[arg(long, conflicts_with = "files_only")]
    pub(crate) conversation_only: bool,
    /// Bring back also files that somebody else has changed since.
    #[arg(long)]
    pub(crate) force: bool,
    /// Do not ask.
    #[arg(short, long, conflicts_with = "dry_run")]
    pub(crate) yes: bool,
    /// Only show what would be done.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Take the last rewind back.
    #[arg(long, conflicts_with_all = ["to", "prompts", "files_only", "conversation_only"])]
    pub(crate) undo: bool,
    /// List the prompts.
    #[arg(long, conflicts_with_all = ["to", "prompts", "undo", "yes", "dry_run", "force"])]
    pub(crate) list: bool,
    #[command(flatten)]
    pub(crate) settings: Settings,
}

/// What is shown is what the session's own calls changed, from before the first of them to now.
#[derive(Debug, clap::Args)]
pub(crate) struct Diff {
    /// The session, or the beginning of its id; without it the newest of this directory.
    pub(crate) session: Option<String>,
    /// Only which files, and how many lines of each.
    #[arg(long, conflicts_with = "json")]
    pub(crate) stat: bool,
    /// Print which files, and how many lines of each, as one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) settings: Settings,
}
