//! What can be said of rules: to `bowline rules`, and to a run.

use std::path::PathBuf;

use bowline_runtime::config::{Flags, Mode, Said, SandboxProfile};
use bowline_runtime::permission::Rule;
use clap::builder::{PossibleValuesParser, TypedValueParser};

use super::Settings;

/// A rule says of a command, a file, a host, a tool or an agent whether it is allowed, asked about or
/// denied: bash(git status *), read(PATH), write(PATH), net(HOST), mcp__server__tool, agent(NAME).
#[derive(Debug, clap::Args)]
pub(crate) struct Rules {
    #[command(subcommand)]
    pub(crate) command: RuleCommand,
    #[command(flatten)]
    pub(crate) settings: Settings,
}

#[derive(Debug, clap::Subcommand)]
pub(crate) enum RuleCommand {
    /// Say what would be decided about a command, a file or a host, and which rule decides it.
    Explain(Box<Explain>),
    /// List the rules, those first that are right where two say different things.
    List {
        /// Those of this agent; without it the one that takes the prompt.
        #[arg(long, value_name = "NAME")]
        agent: Option<String>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Check all rules with their examples; exit code 2 if one is wrong.
    Check,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Explain {
    /// A command.
    #[arg(required_unless_present_any = ["path", "host", "tool"], conflicts_with_all = ["path", "host"])]
    pub(crate) line: Option<String>,
    /// A tool; without it bash for a command, read for a path, and fetch for a host.
    #[arg(long, value_name = "NAME")]
    pub(crate) tool: Option<String>,
    /// A file that the tool reads, or writes if that is what it does.
    #[arg(long, value_name = "PATH")]
    pub(crate) path: Option<PathBuf>,
    /// A host that the tool talks to.
    #[arg(long, value_name = "HOST")]
    pub(crate) host: Option<String>,
    /// As this agent does it; without it the one that takes the prompt.
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: Option<String>,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) rules: RuleFlags,
}

/// What may be done, over what is configured.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Permissions")]
pub(crate) struct RuleFlags {
    /// What happens where no rule says anything; without it auto, unless another one is configured.
    #[arg(long, value_name = "MODE", value_parser = modes(), conflicts_with = "yolo")]
    mode: Option<Mode>,
    /// What commands may write: the workspace, nothing, or (off) everything.
    #[arg(long, value_name = "PROFILE", value_parser = profiles())]
    sandbox: Option<SandboxProfile>,
    /// Allow this, such as 'bash(git push *)', 'write(/x/y)' or 'net(example.com)'; may be repeated, as
    /// --ask and --deny may.
    #[arg(long, value_name = "RULE", value_parser = Rule::parse)]
    allow: Vec<Rule>,
    /// Ask about this.
    #[arg(long, value_name = "RULE", value_parser = Rule::parse)]
    ask: Vec<Rule>,
    /// Deny this.
    #[arg(long, value_name = "RULE", value_parser = Rule::parse)]
    deny: Vec<Rule>,
    /// This folder belongs to the workspace too; may be repeated.
    #[arg(long = "add-dir", value_name = "DIR")]
    add_dirs: Vec<PathBuf>,
    /// No questions and no sandbox: --mode bypass. Rules that deny still do.
    #[arg(long, alias = "dangerously-bypass-approvals-and-sandbox")]
    yolo: bool,
}

impl RuleFlags {
    /// Folders are where the command was called, not where it works.
    fn flags(&self) -> Flags {
        let absolute =
            |folder: &PathBuf| std::path::absolute(folder).unwrap_or_else(|_| folder.clone());
        Flags {
            mode: if self.yolo { Some(Mode::Bypass) } else { self.mode },
            allow: self.allow.clone(),
            ask: self.ask.clone(),
            deny: self.deny.clone(),
            sandbox: self.sandbox,
            add_dirs: self.add_dirs.iter().map(absolute).collect(),
        }
    }

    /// Returns all that the command line says of the configuration.
    pub(crate) fn said(&self, settings: &Settings) -> Said {
        Said { flags: self.flags(), ..settings.said() }
    }
}

fn modes() -> impl TypedValueParser<Value = Mode> {
    let find = |name: String| Mode::ALL.into_iter().find(|mode| mode.as_str() == name);
    PossibleValuesParser::new(Mode::ALL.map(Mode::as_str))
        .try_map(move |name| find(name).ok_or("it is no mode"))
}

fn profiles() -> impl TypedValueParser<Value = SandboxProfile> {
    let all = SandboxProfile::ALL;
    let find = move |name: String| all.into_iter().find(|profile| profile.as_str() == name);
    PossibleValuesParser::new(all.map(SandboxProfile::as_str))
        .try_map(move |name| find(name).ok_or("it is no profile"))
}
