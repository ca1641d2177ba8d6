//! What can be said of hooks.

use super::Settings;

/// A hook is a command of yours that runs at a moment of a session, such as before a tool is called.
/// Hooks stand as [[hooks]] in config.toml, or in Claude Code's settings.json.
#[derive(Debug, clap::Args)]
pub(crate) struct Hooks {
    #[command(subcommand)]
    pub(crate) command: HookCommand,
    #[command(flatten)]
    pub(crate) settings: Settings,
}

#[derive(Debug, clap::Subcommand)]
pub(crate) enum HookCommand {
    /// List the hooks in the order in which what they say counts, also those that do not run.
    List {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
}
