//! What has been found in a command so far.

use std::collections::BTreeSet;

use super::variable;
use super::{Doubt, Folder, Run, Script, Word};

/// Levels of nesting that are read: each costs stack.
const DEEPEST: usize = 40;
/// Runs of one command that are listed.
const MOST_RUNS: usize = 1_000;
/// Bytes of the text that a doubt quotes.
const QUOTED: usize = 120;

/// Runs and doubts, and what decides about later ones: functions, variables, the folder.
#[derive(Debug, Default)]
pub(super) struct Found {
    script: Script,
    pub(super) folder: Folder,
    /// All folders that something in the command may lead to.
    pub(super) visited: Folder,
    pub(super) functions: BTreeSet<String>,
    called: BTreeSet<String>,
    /// Variables that are given a value which is no number.
    texts: BTreeSet<String>,
    /// Variables that arithmetic reads. It runs the commands in their text.
    reckoned: BTreeSet<String>,
    /// Variables that are lists.
    lists: BTreeSet<String>,
    /// Variables that are declared with a value which is not known: in a list it would be run.
    unread: BTreeSet<String>,
    depth: usize,
}

impl Found {
    pub(super) fn run(&mut self, run: Run) {
        if let Some(Word::Known(name)) = run.words.first() {
            self.called.insert(name.clone());
        }
        self.script.runs.push(run);
    }

    pub(super) fn doubt(&mut self, what: &str, text: &str) {
        let excerpt = &text[..text.floor_char_boundary(QUOTED)];
        let doubt = Doubt { what: what.to_owned(), text: excerpt.to_owned() };
        if !self.script.doubts.contains(&doubt) && self.script.doubts.len() < 100 {
            self.script.doubts.push(doubt);
        }
    }

    /// Whether so many runs are listed that reading on would serve nobody.
    pub(super) fn is_full(&self) -> bool {
        self.script.runs.len() >= MOST_RUNS
    }

    /// Goes one level deeper, if that is not too deep.
    pub(super) fn descend(&mut self) -> bool {
        let is_possible = self.depth < DEEPEST;
        self.depth += usize::from(is_possible);
        is_possible
    }

    pub(super) fn ascend(&mut self) {
        self.depth -= 1;
    }

    /// Notes that a variable gets a value, by whatever means.
    pub(super) fn assign(&mut self, name: &str, value: &Word, text: &str) {
        if !variable::is_name(name) {
            self.doubt("which variable it sets is only known when it runs", text);
        }
        if variable::steers(name, value) {
            self.doubt(&format!("{name} changes what programs are run or what they do"), text);
        }
        if value.source().contains("/dev/tcp/") || value.source().contains("/dev/udp/") {
            self.doubt("a redirection could reach the network", text);
        }
        if !variable::is_number(value) {
            self.texts.insert(name.to_owned());
        }
    }

    /// Notes that a variable is a list.
    pub(super) fn list(&mut self, name: &str) {
        self.lists.insert(name.to_owned());
    }

    /// Notes that a variable is declared with a value that may be the text of a list.
    pub(super) fn give_unread(&mut self, name: &str) {
        self.unread.insert(name.to_owned());
    }

    /// Notes that arithmetic reads or sets a variable.
    pub(super) fn reckon(&mut self, name: &str, text: &str) {
        if variable::is_set_by_shell(name) {
            self.doubt("arithmetic runs commands in the text that it reads", text);
        } else if variable::steers(name, &Word::Known("1".to_owned())) {
            // `1` is a folder like any other.
            self.doubt("arithmetic sets a variable that steers commands", text);
        } else {
            self.reckoned.insert(name.to_owned());
        }
    }

    pub(super) fn into_script(mut self) -> Script {
        for run in self.script.runs.iter_mut().filter(|run| run.folder.is_open) {
            run.folder.add(&self.visited);
        }
        let names: Vec<_> = self.texts.intersection(&self.reckoned).cloned().collect();
        for name in names {
            self.doubt("arithmetic reads a variable that may hold a command", &name);
        }
        let is_list = |name: &&String| self.lists.contains(*name) || variable::is_list(name);
        let names: Vec<_> = self.unread.iter().filter(is_list).cloned().collect();
        for name in names {
            self.doubt("a list is read from a text, and what is in that would be run", &name);
        }
        let names: Vec<_> = self.functions.intersection(&self.called).cloned().collect();
        for name in names {
            self.doubt("it calls a function, or the program of that name", &name);
        }
        self.script
    }
}
