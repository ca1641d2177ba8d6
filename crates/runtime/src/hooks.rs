//! Hooks: commands of the user that run at moments of a session.
//!
//! A hook reads what happens as JSON, and says with its exit code or with JSON what is to become of it.
//! The loop knows nothing of hooks: they are a gate of calls and one of prompts, something that is asked
//! before a run ends, a middleware, and what lies around tools and around `compact`. Without hooks none
//! of that is there.
//!
//! - `config`: how one is written; `claude` reads those of Claude Code, `found` finds all.
//! - `command` runs one, `answer` is what it says.
//! - `around` is what lies around an agent, `calls` around its calls, `compaction` around `compact`.

mod answer;
mod around;
mod calls;
mod claude;
mod command;
mod compaction;
mod config;
mod found;

#[cfg(test)]
mod tests;

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::join_all;
use serde_json::{Map, Value, json};
use tokio::task::JoinSet;
use uuid::Uuid;

use bowline_agent::Redaction;
use bowline_agent::event::AgentMeta;
use bowline_agent::id::{AgentId, SessionId};
use bowline_agent::middleware::Activation;
use bowline_store::Files;

use crate::config::{AgentConfig, Mode};
use crate::project;
use crate::runtime::Runtime;
use answer::Answer;
use command::Shell;

pub use config::{Event, HookConfig, Matcher};
pub(crate) use found::{Found, find, of_project, of_table};
pub use found::{Hook, Speech};

pub(crate) use around::Hooked;

/// How long a hook may take when the session ends: somebody may wait for the process to go.
const AT_END: Duration = Duration::from_secs(5);

impl Runtime {
    /// Returns all hooks, also those that do not run, in the order in which what they say counts.
    pub fn hooks(&self) -> &[Hook] {
        &self.loaded.hooks
    }

    /// Returns what a person should know of hooks, and nobody was there to be told.
    pub fn hook_complaints(&self) -> Vec<String> {
        self.hooks
            .as_ref()
            .map(|hooks| std::mem::take(&mut *lock(&hooks.untold)))
            .unwrap_or_default()
    }

    /// Makes what runs the hooks of this process, if there are any.
    pub(crate) fn with_hooks(mut self) -> Self {
        let list: Vec<Arc<Hook>> = self
            .loaded
            .hooks
            .iter()
            .filter(|hook| hook.off.is_none())
            .cloned()
            .map(Arc::new)
            .collect();
        if list.is_empty() {
            return self;
        }
        let workspace = self.workspace();
        let cwd = workspace.cwd.clone();
        let root = project::git_root(&cwd).unwrap_or(&cwd).to_string_lossy().into_owned();
        let mut environment = workspace.environment.clone();
        environment.set("CLAUDE_PROJECT_DIR", &root);
        environment.set("BOWLINE_PROJECT_DIR", &root);
        let shell = Shell {
            processes: workspace.processes,
            program: environment.shell(),
            environment: environment.variables().to_vec(),
            cwd,
        };
        self.hooks = Some(Arc::new(Hooks {
            list,
            shell: Arc::new(shell),
            sessions: self.sessions(),
            asked: Mutex::default(),
            driven: Mutex::default(),
            taken_up: Mutex::default(),
            untold: Mutex::default(),
            unawaited: Mutex::default(),
        }));
        self
    }

    /// Returns the hooks around an agent; `None` if there are none.
    pub(crate) fn hooks_of(
        &self,
        agent: &AgentConfig,
        is: Attended,
        redaction: &Redaction,
    ) -> Option<Arc<Hooked>> {
        let hooks = Arc::clone(self.hooks.as_ref()?);
        let Attended { attended, is_kept } = is;
        let mode = self.mode_of(agent, attended);
        let seat = Arc::new(Seat { mode, redaction: redaction.clone(), is_kept });
        Some(Arc::new(Hooked { hooks, seat, is_attended: attended, pending: Mutex::default() }))
    }

    /// Runs the hooks of the end of sessions, and ends those for which nobody waits.
    pub(crate) async fn end_hooks(&self) {
        if let Some(hooks) = &self.hooks {
            hooks.end().await;
        }
    }
}

/// How an agent's session is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Attended {
    /// Whether somebody is there to be asked.
    pub(crate) attended: bool,
    /// Whether it is kept in files.
    pub(crate) is_kept: bool,
}

/// The hooks of this process, and what they have said.
#[derive(Debug)]
pub(crate) struct Hooks {
    /// Those that run, in the order in which what they say counts.
    list: Vec<Arc<Hook>>,
    shell: Arc<Shell>,
    sessions: Files,
    /// What was said of calls that may be reviewed again, the newest last: several gates ask about one.
    asked: Mutex<VecDeque<(Asked, Answer)>>,
    /// The agents that are driven.
    driven: Mutex<HashMap<AgentId, Activation>>,
    /// The first agents of the sessions that were taken up.
    taken_up: Mutex<HashMap<AgentId, Whose>>,
    /// What a person should know, and could not be told.
    untold: Mutex<Vec<String>>,
    /// Hooks for which nobody waits. They end with the process.
    unawaited: Mutex<JoinSet<()>>,
}

/// So many answers about calls are kept.
const ASKED: usize = 64;

/// A call about which hooks were asked.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Asked {
    event: Event,
    agent: AgentId,
    call: String,
    arguments: String,
}

/// What hooks are told of every moment of an agent.
#[derive(Debug, Clone)]
struct Whose {
    agent: Arc<AgentMeta>,
    seat: Arc<Seat>,
}

/// How an agent is set up.
#[derive(Debug)]
struct Seat {
    mode: Mode,
    redaction: Redaction,
    is_kept: bool,
}

/// A moment of a session.
struct Moment<'a> {
    event: Event,
    /// The names of what it is about, any of which a matcher may name; none where nothing is told apart.
    about: &'a [&'a str],
    /// What is told of it.
    fields: &'a (dyn Fn(Speech) -> Value + Sync),
}

impl Hooks {
    /// Asks the hooks of a moment, all at once; what they say is put together in their order.
    async fn ask(&self, whose: &Whose, moment: Moment<'_>) -> Answer {
        let mut inputs: HashMap<Speech, Arc<str>> = HashMap::new();
        let mut asked: Vec<&Hook> = Vec::new();
        let mut answers = Vec::new();
        for hook in self.about(moment.event, moment.about) {
            let is_same = |other: &&Hook| {
                (&other.command, other.speech, other.is_async)
                    == (&hook.command, hook.speech, hook.is_async)
            };
            if asked.iter().any(is_same) {
                continue;
            }
            asked.push(hook);
            let input = inputs
                .entry(hook.speech)
                .or_insert_with(|| self.input(whose, &moment, hook.speech).to_string().into());
            let (hook, input, shell) =
                (Arc::clone(hook), Arc::clone(input), Arc::clone(&self.shell));
            let time = match moment.event {
                Event::SessionEnd => hook.timeout.min(AT_END),
                _ => hook.timeout,
            };
            if hook.is_async {
                let mut unawaited = lock(&self.unawaited);
                while unawaited.try_join_next().is_some() {}
                unawaited.spawn(async move { drop(shell.run(&hook, &input, time).await) });
                continue;
            }
            answers.push(async move {
                let ended = shell.run(&hook, &input, time).await;
                Answer::of(&hook, ended, &whose.seat.redaction)
            });
        }
        let answers = join_all(answers).await;
        answers.into_iter().fold(Answer::default(), Answer::and)
    }

    /// As [`Hooks::ask`], about a call. Who asks again about the very same hears what was decided before,
    /// and not what was to be told then.
    async fn ask_once(&self, whose: &Whose, asked: Asked, moment: Moment<'_>) -> Answer {
        let known = lock(&self.asked).iter().find(|(it, _)| *it == asked).map(|(_, it)| it.clone());
        if let Some(known) = known {
            return known;
        }
        let answer = self.ask(whose, moment).await;
        self.keep(asked, answer.clone());
        answer
    }

    /// Keeps what was decided about a call.
    fn keep(&self, asked: Asked, answer: Answer) {
        let answer = Answer { warnings: Vec::new(), context: Vec::new(), ..answer };
        let mut all = lock(&self.asked);
        if all.len() >= ASKED {
            all.pop_front();
        }
        all.push_back((asked, answer));
    }

    /// Returns the hooks of an event that are about something.
    fn about(&self, event: Event, names: &[&str]) -> impl Iterator<Item = &Arc<Hook>> {
        let is_about = move |hook: &&Arc<Hook>| names.is_empty() || hook.matcher.fits(names);
        self.list.iter().filter(move |hook| hook.event == event).filter(is_about)
    }

    /// Tells whether there is any hook of these events.
    fn has_any(&self, events: &[Event]) -> bool {
        self.list.iter().any(|hook| events.contains(&hook.event))
    }

    /// Returns what a hook reads.
    fn input(&self, whose: &Whose, moment: &Moment<'_>, speech: Speech) -> Value {
        let Whose { agent, seat } = whose;
        let session = SessionId::from(Uuid::from(root(agent)));
        let mode = match speech {
            Speech::Bowline => seat.mode.as_str(),
            Speech::Claude => claude::mode(seat.mode),
        };
        let mut input = Map::new();
        let mut tell = |name: &str, value: Value| drop(input.insert(name.to_owned(), value));
        tell("session_id", json!(session.to_string()));
        // The file appears with the first commit.
        let folder = self.sessions.folder(session).ok().filter(|_| seat.is_kept);
        if let Some(folder) = folder {
            tell("transcript_path", json!(folder.with_extension("jsonl")));
        }
        tell("cwd", json!(self.shell.cwd));
        tell("permission_mode", json!(mode));
        tell("hook_event_name", json!(moment.event.as_str()));
        if agent.parent.is_some() {
            tell("agent_id", json!(agent.id.to_string()));
            tell("agent_type", json!(agent.config));
        }
        if let Value::Object(fields) = (moment.fields)(speech) {
            input.extend(fields);
        }
        Value::Object(input)
    }

    /// Tells those who watch an agent something that a person should know.
    fn warn(&self, agent: &AgentMeta, warnings: impl IntoIterator<Item = String>) {
        let driven = lock(&self.driven).get(&agent.id).cloned();
        for warning in warnings {
            match &driven {
                Some(activation) => activation.warn(warning),
                None => lock(&self.untold).push(warning),
            }
        }
    }

    async fn end(&self) {
        let taken_up = std::mem::take(&mut *lock(&self.taken_up));
        for whose in taken_up.into_values() {
            let reason = "other";
            let fields = |_| json!({ "reason": reason });
            let moment = Moment { event: Event::SessionEnd, about: &[reason], fields: &fields };
            let answer = self.ask(&whose, moment).await;
            self.warn(&whose.agent, answer.warnings);
        }
        let mut unawaited = std::mem::take(&mut *lock(&self.unawaited));
        unawaited.shutdown().await;
    }
}

/// Returns the first agent of an agent's session.
fn root(agent: &AgentMeta) -> AgentId {
    agent.ancestors.last().copied().unwrap_or(agent.id)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
