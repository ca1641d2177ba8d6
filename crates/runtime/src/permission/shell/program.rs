//! What a program would run in turn.

use super::found::Found;
use super::reader::Reader;
use super::{Count, Run, Word};
use super::{builtin, find, git, interpreter, launch, wrapper};

/// Folders in which a program is the one of that name.
const FOLDERS: &[&str] =
    &["/bin", "/usr/bin", "/usr/local/bin", "/sbin", "/usr/sbin", "/usr/local/sbin"];

/// Programs that are seen through one after another.
const MOST_THROUGH: usize = 8;

/// So many words, and bytes of a word, are kept of a program that was seen through.
const MOST_OUTER: usize = 32;
const LONGEST_OUTER: usize = 200;

/// A program's words, and the variables that are set for it.
type Command = (Vec<Word>, Vec<(String, Word)>);

/// What is seen in the words of one program.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// Whether the program itself is one of the runs.
    stays: bool,
    is_opaque: bool,
    /// Whether it reads such a text from its input.
    is_reading: bool,
    doubts: Vec<&'static str>,
    commands: Vec<Command>,
    /// A file that a shell reads, with its arguments.
    file: Vec<Word>,
    scripts: Vec<Text>,
    /// Files that it opens for writing as a redirection would.
    pub(super) writes: Vec<Word>,
}

/// A text that a shell reads.
#[derive(Debug)]
struct Text {
    text: String,
    /// Whether the shell may be another than bash.
    is_plain: bool,
    /// Whether it is the shell that reads the command itself.
    is_same_shell: bool,
}

impl Seen {
    /// The program does nothing but what it is.
    pub(super) fn itself() -> Self {
        Self { stays: true, ..Self::default() }
    }

    /// The program is given a text that is not read.
    pub(super) fn opaque() -> Self {
        Self { is_opaque: true, ..Self::itself() }
    }

    /// The program is given such a text by its input.
    pub(super) fn reading() -> Self {
        Self { is_reading: true, ..Self::opaque() }
    }

    /// What the program does is only known when it runs.
    pub(super) fn doubt(what: &'static str) -> Self {
        Self { doubts: vec![what], ..Self::itself() }
    }

    /// Another program runs in its place.
    pub(super) fn command(words: Vec<Word>, assignments: Vec<(String, Word)>) -> Self {
        Self { commands: vec![(words, assignments)], ..Self::default() }
    }

    /// A shell reads a file in its place.
    pub(super) fn file(words: Vec<Word>) -> Self {
        Self { file: words, ..Self::default() }
    }

    /// A shell reads a text in its place.
    pub(super) fn script(text: Option<&Word>, is_plain: bool) -> Self {
        match text {
            Some(Word::Known(text)) => Self {
                scripts: vec![Text { text: text.clone(), is_plain, is_same_shell: false }],
                ..Self::default()
            },
            _ => Self::doubt("the commands that a shell is given are only known when it runs"),
        }
    }

    /// The shell itself reads a text.
    pub(super) fn evaluated(text: Option<&Word>, is_plain: bool) -> Self {
        let mut seen = Self::script(text, is_plain);
        for script in &mut seen.scripts {
            script.is_same_shell = true;
        }
        seen
    }

    pub(super) fn add_doubt(&mut self, what: &'static str) {
        self.doubts.push(what);
    }

    pub(super) fn add_command(&mut self, words: Vec<Word>) {
        self.commands.push((words, Vec::new()));
    }

    pub(super) fn and_itself(mut self) -> Self {
        self.stays = true;
        self
    }
}

/// Notes a run, or what it would run if it is a program that runs others.
pub(super) fn settle(found: &mut Found, run: Run, is_plain: bool) {
    if run.through.len() < MOST_THROUGH && found.descend() {
        settled(found, run, is_plain);
    } else {
        found.doubt("it is nested too deeply to be read", &run.text);
        return;
    }
    found.ascend();
}

fn settled(found: &mut Found, run: Run, is_plain: bool) {
    let Some(program) = run.words.first().and_then(Word::known) else {
        found.doubt("the program is only known when it runs", &run.text);
        found.run(run);
        return;
    };
    for word in &run.words {
        if word.source().contains("/dev/tcp/") || word.source().contains("/dev/udp/") {
            found.doubt("a redirection could reach the network", &run.text);
        }
    }
    let (folder, name) = match program.rsplit_once('/') {
        Some((folder, name)) => (Some(folder), name.to_owned()),
        None => (None, program.to_owned()),
    };
    let seen = look(found, &name, &run, is_plain);
    let is_elsewhere = folder.is_some_and(|folder| !FOLDERS.contains(&folder));
    if is_elsewhere && !(seen.stays && seen.commands.is_empty()) {
        found.doubt("a program of this name would run others, but this may be another", &run.text);
        found.run(run.clone());
    }
    follow(found, run, &name, seen, is_plain);
}

fn follow(found: &mut Found, run: Run, name: &str, seen: Seen, is_plain: bool) {
    for what in seen.doubts {
        found.doubt(what, &run.text);
    }
    let mut through = run.through.clone();
    through.push(name.to_owned());
    let mut outer = run.outer.clone();
    outer.push(run.words.iter().take(MOST_OUTER).map(shortened).collect());
    // What is redirected is said once, by whatever is noted first.
    let mut rest = Run { through, outer, ..run.clone() };
    if seen.stays {
        let mut run = run;
        run.is_opaque |= seen.is_opaque;
        run.is_reading |= seen.is_reading;
        run.writes.extend(seen.writes);
        found.run(run);
        (rest.reads, rest.writes) = (Vec::new(), Vec::new());
    }
    if !seen.file.is_empty() {
        found.run(Run { words: seen.file, ..rest.clone() });
        (rest.reads, rest.writes) = (Vec::new(), Vec::new());
    }
    for (words, assignments) in seen.commands {
        let mut inner = Run { words, ..rest.clone() };
        for (name, value) in &assignments {
            found.assign(name, value, &inner.text);
        }
        inner.assignments.extend(assignments);
        settle(found, inner, is_plain);
        (rest.reads, rest.writes) = (Vec::new(), Vec::new());
    }
    for script in seen.scripts {
        let folder = found.folder.clone();
        if !rest.reads.is_empty() || !rest.writes.is_empty() {
            found.run(Run { words: Vec::new(), ..rest.clone() });
        }
        let mut reader = Reader::new(&script.text, found);
        reader.through.clone_from(&rest.through);
        reader.outer.clone_from(&rest.outer);
        reader.is_plain = is_plain && script.is_same_shell || script.is_plain;
        reader.script();
        if !script.is_same_shell {
            found.folder = folder;
        }
    }
}

/// Keeps of a long word, such as the text of a script, what it begins with.
fn shortened(word: &Word) -> Word {
    let source = word.source();
    if source.len() <= LONGEST_OUTER {
        return word.clone();
    }
    let cut = |text: &str| text.chars().take(LONGEST_OUTER / 4).collect::<String>();
    Word::Unknown { source: cut(source), starts: cut(word.starts()), count: Count::One }
}

/// Whether a program runs what its words say, and is seen through.
pub(super) fn runs_others(name: &str) -> bool {
    let is_one =
        ["xargs", "flock", "su", "runuser", "watch", "eval", "find", "gfind"].contains(&name);
    is_one || wrapper::is_one(name) || interpreter::is_any_shell(name)
}

fn look(found: &mut Found, name: &str, run: &Run, is_plain: bool) -> Seen {
    let words = run.words.as_slice();
    if let Some(seen) = builtin::look(found, name, run, is_plain) {
        return seen;
    }
    if let Some(seen) = wrapper::look(name, words) {
        if name == "exec" && words.len() == 1 {
            return Seen::itself();
        }
        return seen;
    }
    match name {
        "xargs" => wrapper::xargs(words),
        "flock" => wrapper::flock(words),
        "su" | "runuser" => wrapper::su(words),
        "watch" => wrapper::watch(words),
        "find" | "gfind" => find::look(words),
        "git" => git::look(words),
        _ => interpreter::look(name, words)
            .or_else(|| launch::look(name, words))
            .unwrap_or_else(Seen::itself),
    }
}
