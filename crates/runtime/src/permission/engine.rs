//! The rules of an agent and of all above it.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use bowline_agent::gate::Review;
use bowline_agent::tool::Access;
use bowline_llm::ToolCall;

use super::call::{Call, Command};
use super::guard::Passed;
use super::judgement::{Decision, Judgement};
use super::places::Places;
use super::policy::Policy;
use super::rule::Rule;
use super::suggest::remember;

/// The rules of an agent and of all above it: what one of them does not let pass does not pass.
#[derive(Debug)]
pub struct Engine {
    own: Arc<Policy>,
    /// Those of the agents above it, nearest first.
    above: Vec<Arc<Policy>>,
    /// The configured tools that are tasks, each with the agent that does them.
    tasks: Arc<BTreeMap<String, String>>,
    /// Where rules are kept that people allow for good.
    file: Option<PathBuf>,
    commands: Mutex<HashMap<String, Arc<Command>>>,
    pub(super) passed: Mutex<Passed>,
}

/// So many commands are kept as they were read.
const COMMANDS: usize = 256;

impl Engine {
    /// Makes an engine of the rules of an agent, and of those of the agents above it, nearest first.
    /// `tasks` are the configured tools that are tasks, each with the agent that does them.
    pub fn new(
        own: Arc<Policy>,
        above: impl IntoIterator<Item = Arc<Policy>>,
        tasks: Arc<BTreeMap<String, String>>,
    ) -> Self {
        let above = above.into_iter().collect();
        let (commands, passed) = (Mutex::default(), Mutex::default());
        Self { own, above, tasks, file: None, commands, passed }
    }

    /// Says in which file rules are kept that people allow for good.
    #[must_use]
    pub fn keeping_in(self, file: PathBuf) -> Self {
        Self { file: Some(file), ..self }
    }

    /// Says what is decided about a call, whatever a person has said of it.
    pub fn judge(&self, review: &Review<'_>) -> Judgement {
        self.learn(review.granted);
        self.judge_call(&self.call(review.call, review.access))
    }

    /// Tells whether a tool is denied whatever it is called with: then a model need not know of it.
    pub fn hides(&self, tool: &str) -> bool {
        let mut entries = self.policies().flat_map(|policy| policy.entries.iter());
        entries.any(|entry| entry.decision == Decision::Deny && entry.rule.is_all_of(tool))
    }

    /// Takes what the session was granted.
    pub(super) fn learn(&self, granted: &[String]) {
        self.policies().for_each(|policy| policy.approvals.learn(granted));
    }

    /// Keeps a rule for good. Where it cannot be kept it allows this call and no other.
    pub(super) fn keep(&self, rule: &str) {
        let (Ok(rule), Some(file)) = (Rule::parse(rule), &self.file) else { return };
        if remember(&rule, file).is_ok() {
            self.policies().for_each(|policy| policy.approvals.keep(&rule));
        }
    }

    pub(super) fn call(&self, call: &ToolCall, access: &Access) -> Call {
        let task_of = |tool: &str| self.tasks.get(tool).cloned();
        Call::of(call, access, self.places(), &task_of, &|text| self.read(text))
    }

    pub(super) fn judge_call(&self, call: &Call) -> Judgement {
        let above = self.above.iter().map(|policy| policy.judge(call));
        above.fold(self.own.judge(call), Judgement::and)
    }

    pub(super) fn policies(&self) -> impl Iterator<Item = &Policy> {
        std::iter::once(&*self.own).chain(self.above.iter().map(|policy| &**policy))
    }

    /// Reads a command, or finds it as it was read before.
    pub(super) fn read(&self, text: &str) -> Arc<Command> {
        let mut commands = self.commands.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(command) = commands.get(text) {
            return Arc::clone(command);
        }
        let command = Arc::new(Command::read(text));
        if commands.len() >= COMMANDS {
            commands.clear();
        }
        commands.insert(text.to_owned(), Arc::clone(&command));
        command
    }

    pub(super) fn places(&self) -> &Places {
        &self.own.places
    }
}
