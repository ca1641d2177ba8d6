//! What a call touches, in the terms of rules.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;

use bowline_agent::tool::{Access, Tool as _};
use bowline_llm::ToolCall;
use bowline_tools::Bash;

use super::command::Spelt;
use super::guess::Guess;
use super::harmless;
use super::places::Places;
use super::rule::DELEGATING;
use super::seen::Seen;
use super::shell::{self, Run, Script, Word};

/// A call, and what it touches.
#[derive(Debug)]
pub(super) struct Call {
    /// The tool that does the work.
    pub(super) tool: String,
    pub(super) touches: Vec<Touch>,
}

/// One thing that a call touches.
#[derive(Debug)]
pub(super) enum Touch {
    /// A program that it runs.
    Program {
        program: Arc<Program>,
        /// Whether everything that it is told of is known and in the workspace.
        is_inside: bool,
    },
    /// Something about a command that is not understood.
    Doubt(String),
    /// Files that a program is told of, in a folder that is only known when it runs.
    Adrift {
        program: Arc<Program>,
        /// What it may do with them.
        can: Can,
    },
    Read(Seen),
    Write(Seen),
    /// A file that a command names; what it does with it is not known, unless it cannot write.
    Named(Seen, Can),
    Host(String),
    /// A task for an agent of this name.
    Agent(String),
    /// A life beyond the end of bowline, for what it runs.
    Survival,
    /// Nothing that could be named; `true` if it changes nothing either.
    Tool {
        is_harmless: bool,
    },
}

/// What a program may do with a file that it is told of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Can {
    Read,
    Write,
}

/// A program of a command.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) run: Run,
    pub(super) spelt: Spelt,
    /// Whether it cannot change anything.
    pub(super) is_harmless: bool,
}

/// A command as it was read.
#[derive(Debug)]
pub(super) struct Command {
    pub(super) programs: Vec<Arc<Program>>,
    pub(super) doubts: Vec<String>,
}

impl Command {
    /// Returns a command that runs nothing.
    pub(super) fn none() -> Arc<Self> {
        Arc::new(Self { programs: Vec::new(), doubts: Vec::new() })
    }

    pub(super) fn read(text: &str) -> Self {
        let Script { runs, doubts } = shell::read(text);
        let programs = runs.into_iter().map(|run| {
            let (spelt, is_harmless) = (Spelt::new(&run, text), harmless::is_harmless(&run));
            Arc::new(Program { run, spelt, is_harmless })
        });
        let programs = programs.collect();
        let doubts = doubts.into_iter().map(|doubt| match doubt.text.is_empty() {
            true => doubt.what,
            false => format!("{} (`{}`)", doubt.what, doubt.text),
        });
        Self { programs, doubts: doubts.collect() }
    }
}

/// What of a command's arguments tells whether it is to outlive bowline.
#[derive(Deserialize)]
struct Lasting {
    survive: Option<bool>,
}

/// The name of agents that nobody has configured.
const AD_HOC: &str = "ad-hoc";

impl Call {
    /// Finds what a call touches. `task_of` says for which agent a configured tool is a task.
    pub(super) fn of(
        call: &ToolCall,
        access: &Access,
        places: &Places,
        task_of: &dyn Fn(&str) -> Option<String>,
        read: &dyn Fn(&str) -> Arc<Command>,
    ) -> Self {
        let tool = call.name.clone();
        let agents = match task_of(&tool) {
            Some(agent) => vec![agent],
            None => delegates(&tool, &call.arguments),
        };
        let mut touches: Vec<Touch> = agents.into_iter().map(Touch::Agent).collect();
        let is_delegation = !touches.is_empty();
        touches.extend(access.reads.paths().iter().map(|path| Touch::Read(see(places, path))));
        touches.extend(access.writes.paths().iter().map(|path| Touch::Write(see(places, path))));
        // What only looks around in the world is named by its server.
        let hosts = access.network.iter().filter(|host| !host.starts_with("mcp:"));
        touches.extend(hosts.map(|host| Touch::Host(host.clone())));
        if let Some(text) = &access.execute {
            command(&read(text), places, &mut touches);
            let survives = tool == Bash::NAME && survives(&call.arguments);
            touches.extend(survives.then_some(Touch::Survival));
        }
        if touches.is_empty() || (access.exclusive && !is_delegation) {
            let is_harmless = access == &Access::none();
            touches.push(Touch::Tool { is_harmless });
        }
        Self { tool, touches }
    }

    /// Returns the agents that are given tasks.
    pub(super) fn agents(&self) -> Vec<&str> {
        let agents = self.touches.iter().filter_map(|touch| match touch {
            Touch::Agent(name) => Some(name.as_str()),
            _ => None,
        });
        agents.collect()
    }
}

fn see(places: &Places, path: &Path) -> Seen {
    places.see(&places.absolute(path))
}

/// Returns the agents that are given tasks, by whichever arguments name them. What else is said beside hides
/// none: each tool takes the arguments that it knows, whatever the others are.
fn delegates(tool: &str, arguments: &str) -> Vec<String> {
    let arguments = Some(arguments).filter(|_| DELEGATING.contains(&tool));
    let arguments = arguments.and_then(|text| serde_json::from_str::<Value>(text).ok());
    // What cannot be read gives no tasks.
    let Some(Value::Object(arguments)) = arguments else { return Vec::new() };
    let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
    let named = |task: &Value| {
        let agent = text(task.get("agent")).filter(|name| !name.trim().is_empty());
        agent.unwrap_or_else(|| AD_HOC.to_owned())
    };
    let tasks = arguments.get("tasks").and_then(Value::as_array);
    let mut names: Vec<String> = tasks.into_iter().flatten().map(named).collect();
    names.extend(["agent", "target_agent"].into_iter().filter_map(|key| text(arguments.get(key))));
    names
}

/// Tells whether a command is to outlive bowline; arguments that cannot be read start none.
fn survives(arguments: &str) -> bool {
    serde_json::from_str(arguments).is_ok_and(|Lasting { survive }| survive == Some(true))
}

/// Finds what a command touches.
fn command(command: &Command, places: &Places, touches: &mut Vec<Touch>) {
    let mut guess = Guess::default();
    for program in &command.programs {
        let found = Told::of(program, places, &mut guess);
        touches.push(Touch::Program { program: Arc::clone(program), is_inside: found.is_inside });
        touches.extend(found.touches);
    }
    touches.extend(command.doubts.iter().cloned().map(Touch::Doubt));
    if guess.is_cut {
        let what = "its words may name more files than are looked at";
        touches.push(Touch::Doubt(what.to_owned()));
    }
}

/// Tells whether a command names a file that holds secrets. Then somebody has been asked about it.
pub(super) fn names_a_secret(read: &Command, places: &Places) -> bool {
    let mut touches = Vec::new();
    command(read, places, &mut touches);
    touches.iter().any(|touch| match touch {
        Touch::Read(seen) | Touch::Write(seen) | Touch::Named(seen, _) => {
            places.secret(seen).is_some()
        }
        _ => false,
    })
}

/// What a program is told of.
struct Told<'c> {
    program: &'c Arc<Program>,
    places: &'c Places,
    guess: &'c mut Guess,
    /// The folders in which it may run.
    folders: Vec<PathBuf>,
    can: Can,
    touches: Vec<Touch>,
    /// Whether all of it is known and in the workspace.
    is_inside: bool,
}

impl<'c> Told<'c> {
    fn of(program: &'c Arc<Program>, places: &'c Places, guess: &'c mut Guess) -> Self {
        let run = &program.run;
        let is_known = |word: &Word| word.known().is_some();
        let arguments = run.words.get(1..).unwrap_or_default();
        let mut told = Self {
            program,
            places,
            guess,
            folders: run.folder.ways.iter().map(|way| places.absolute(way)).collect(),
            can: if program.is_harmless { Can::Read } else { Can::Write },
            touches: Vec::new(),
            is_inside: !run.folder.is_open && arguments.iter().all(is_known),
        };
        run.reads.iter().for_each(|word| told.open(word, false));
        run.writes.iter().for_each(|word| told.open(word, true));
        for word in arguments.iter().chain(&run.reads).filter(|word| text(word).is_none()) {
            told.guess(word);
        }
        arguments.iter().filter_map(text).flat_map(named).for_each(|path| told.name(path));
        told.drift(arguments);
        told
    }

    /// Returns the paths that one may be, as it stands in the command.
    fn full(&self, path: &str) -> Vec<PathBuf> {
        match is_relative(path) {
            true => self.folders.iter().map(|folder| folder.join(path)).collect(),
            false => vec![self.places.absolute(Path::new(path))],
        }
    }

    /// Adds what a redirection opens.
    fn open(&mut self, word: &Word, is_write: bool) {
        let Some(path) = text(word) else {
            let what = format!("the file `{}` is only known when it runs", word.source());
            return self.touches.push(Touch::Doubt(what));
        };
        let net = path.strip_prefix("/dev/tcp/").or_else(|| path.strip_prefix("/dev/udp/"));
        if let Some(address) = net {
            let host = address.split('/').next().unwrap_or_default();
            return self.touches.push(Touch::Host(host.to_owned()));
        }
        if SINKS.contains(&path) {
            return;
        }
        for path in self.full(path) {
            let seen = self.places.see(&path);
            self.touches.push(if is_write { Touch::Write(seen) } else { Touch::Read(seen) });
        }
    }

    /// Adds the files that a word may mean which is not known.
    fn guess(&mut self, word: &Word) {
        for folder in &self.folders {
            let files = self.guess.files(word.source(), folder, self.places);
            let named = files.iter().map(|file| Touch::Named(self.places.see(file), self.can));
            self.touches.extend(named);
        }
    }

    /// Adds the file that a word names, if it looks like one or is there.
    fn name(&mut self, path: &str) {
        let looks_like_one = path.contains(['/', '.']) || self.program.run.folder.is_open;
        for full in self.full(path) {
            if looks_like_one || full.symlink_metadata().is_ok() {
                let seen = self.places.see(&full);
                self.is_inside &= self.places.holds(&seen);
                self.touches.push(Touch::Named(seen, self.can));
            }
        }
    }

    /// Adds that it may be any file that a word means, where the folder may be any.
    fn drift(&mut self, arguments: &[Word]) {
        let run = &self.program.run;
        if !run.folder.is_open {
            return;
        }
        let may_be_relative = |word: &Word| is_relative(word.starts());
        let is_flag = |word: &&Word| {
            word.starts().starts_with('-') && !word.source().contains(['=', '/', '.'])
        };
        let arguments = arguments.iter().filter(|word| !is_flag(word));
        if run.reads.iter().chain(&run.writes).any(may_be_relative) {
            let what = "the folder in which it opens files is only known when it runs";
            self.touches.push(Touch::Doubt(what.to_owned()));
        }
        let can = if run.writes.iter().any(may_be_relative) { Can::Write } else { self.can };
        if arguments.chain(&run.reads).chain(&run.writes).any(may_be_relative) {
            self.touches.push(Touch::Adrift { program: Arc::clone(self.program), can });
        }
    }
}

fn is_relative(path: &str) -> bool {
    !path.starts_with('/') && !path.starts_with("~/")
}

/// Returns the text of a word, if it is known, or is a path in the home folder.
fn text(word: &Word) -> Option<&str> {
    let is_plain = |source: &str| !source.contains(['$', '`', '*', '?', '[', '{', '\\', '\'', '"']);
    let at_home = || Some(word.source()).filter(|text| text.starts_with("~/") && is_plain(text));
    word.known().or_else(at_home)
}

/// The files that are there for everybody to write to.
const SINKS: [&str; 7] =
    ["/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty", "/dev/zero", "/dev/stdin", "/dev/full"];

/// Returns what of a word may be the path of a file: the word, and what stands behind the marks with
/// which programs take paths.
fn named(word: &str) -> impl Iterator<Item = &str> {
    let whole = Some(word).filter(|word| !word.starts_with('-'));
    let behind = ['=', '@', ':'].into_iter().filter_map(|mark| Some(word.split_once(mark)?.1));
    let short = word.strip_prefix('-').filter(|rest| !rest.starts_with('-'));
    let short = short.and_then(|rest| rest.get(1..));
    whole
        .into_iter()
        .chain(behind)
        .chain(short)
        .filter(|path| !path.is_empty() && !path.starts_with("//"))
}
