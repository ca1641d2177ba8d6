//! Rules about commands.
//!
//! What a rule allows it must name: word by word, in its place. What a rule denies or asks about is
//! found however it is spelt: with a path to the program, with options before and between, through
//! programs that run it.

use std::collections::BTreeSet;

use super::glob::Glob;
use super::harmless;
use super::shell::{self, Count, Run, Word, base};

/// Commands, word by word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CommandPattern {
    /// Variables that are set for it, as far as it says.
    variables: Vec<(String, Glob)>,
    words: Vec<Glob>,
    /// Those of the words that are no options.
    plain: Vec<Glob>,
    /// Those that are.
    options: Vec<String>,
    /// Whether further words may follow.
    is_open: bool,
    /// The same with the program's name alone, if its folder is named.
    by_name: Option<Box<Self>>,
}

/// A program that is run, in the ways in which rules look at it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Spelt {
    /// As it is written, behind what gives it more rights.
    strict: Vec<Word>,
    /// Its name, if it is where the system keeps its own programs.
    system: Option<String>,
    /// With what it is run through, from each of that on; and each of that as it is written.
    loose: Vec<Loose>,
    /// Variables that are set for it.
    variables: Vec<(String, Word)>,
    /// What its words may run, were it one that runs others.
    carried: Carried,
    /// The text of a program that it is given in a language that is not read.
    code: String,
}

/// A program by its name, with its words as they come and by kind.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Loose {
    words: Vec<Word>,
    plain: Vec<Word>,
    options: Vec<String>,
    /// Its words but for options, each with whether it may be the value of one.
    doubtful: Vec<(Word, bool)>,
}

/// Whether something fits a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fit {
    No,
    /// That is only known when the command runs.
    Maybe,
    Yes,
}

/// The folders in which programs are the system's own.
const SYSTEM_FOLDERS: [&str; 5] = ["/bin/", "/sbin/", "/usr/bin/", "/usr/sbin/", "/usr/local/bin/"];

/// Programs that run others with more rights or elsewhere: who may run a program may not run it so.
const RAISING: [&str; 12] = [
    "sudo",
    "doas",
    "su",
    "runuser",
    "pkexec",
    "chroot",
    "nsenter",
    "unshare",
    "ssh",
    "docker",
    "podman",
    "systemd-run",
];

/// Programs that do something with names and run none of them, beside those that only look.
const KNOWN: [&str; 30] = [
    "adduser",
    "apk",
    "apt",
    "apt-get",
    "brew",
    "chgrp",
    "chmod",
    "chown",
    "cp",
    "curl",
    "dnf",
    "export",
    "gh",
    "git",
    "helm",
    "kill",
    "killall",
    "ln",
    "man",
    "mkdir",
    "mv",
    "pacman",
    "pip",
    "pkill",
    "rm",
    "rmdir",
    "systemctl",
    "terraform",
    "touch",
    "yum",
];

/// Programs that run others behind these words, or whatever they are told, and none else.
const RUNNING: [(&str, &[&str]); 12] = [
    ("bundle", &["exec"]),
    ("cargo", &["run", "r"]),
    ("docker", &["run", "exec"]),
    ("gem", &["exec"]),
    ("go", &["run"]),
    ("kubectl", &["exec", "run", "debug"]),
    ("npm", &["exec", "x", "explore"]),
    ("pnpm", &["exec", "dlx"]),
    ("podman", &["run", "exec"]),
    ("poetry", &["run"]),
    ("ssh", &[]),
    ("yarn", &["exec", "run", "dlx"]),
];

/// So many of a program's words are looked at for what it may run.
const MOST_CARRIED: usize = 32;

/// Options before the subcommand of a program that take a value.
const VALUED: [(&str, &[&str]); 7] = [
    ("git", &["-C", "-c", "--git-dir", "--work-tree", "--namespace", "--config-env"]),
    ("docker", &["-H", "--host", "-c", "--context", "--config", "-l", "--log-level"]),
    ("kubectl", &["-n", "--namespace", "--context", "--kubeconfig", "-s", "--server", "--cluster"]),
    ("npm", &["--prefix", "-C", "-w", "--workspace"]),
    ("cargo", &["-C", "--config", "--color", "-Z"]),
    ("systemctl", &["-H", "--host", "-M", "--machine"]),
    ("gh", &["-R", "--repo"]),
];

impl CommandPattern {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let text = match text.strip_suffix(":*") {
            Some(start) => format!("{start} *"),
            None => text.to_owned(),
        };
        let mut words = split(&text)?;
        let is_open = words.len() > 1 && words.last().is_some_and(|last| last == "*");
        if is_open {
            words.pop();
        }
        let variables = variables(&words);
        words.drain(..variables.len());
        let pattern = Self::of(&words, is_open, variables);
        let name = words.first().map(|program| base(program).to_owned()).unwrap_or_default();
        let is_in_folder = words.first().is_some_and(|program| *program != name);
        if !is_in_folder || name.is_empty() || name.contains(['*', '\\']) {
            return Ok(pattern);
        }
        words[0] = name;
        let by_name = Self::of(&words, is_open, pattern.variables.clone());
        Ok(Self { by_name: Some(Box::new(by_name)), ..pattern })
    }

    fn of(words: &[String], is_open: bool, variables: Vec<(String, Glob)>) -> Self {
        let words: Vec<Glob> = words.iter().map(|word| Glob::new(word)).collect();
        let option = |word: &Glob| word.literal().filter(|word| is_option(word)).map(str::to_owned);
        let plain = words.iter().filter(|word| option(word).is_none()).cloned().collect();
        let options = words.iter().filter_map(option).collect();
        Self { variables, words, plain, options, is_open, by_name: None }
    }

    /// Returns its words, those that stand for nothing but themselves.
    pub(super) fn literals(&self) -> Vec<Option<String>> {
        self.words.iter().map(|word| word.literal().map(str::to_owned)).collect()
    }

    /// Returns its words as [`Self::literals`] does, from behind the options before the subcommand on.
    pub(super) fn behind_options(&self) -> Vec<Option<String>> {
        let program = self.words.first().and_then(Glob::literal).map(base).unwrap_or_default();
        let valued = valued(program);
        let mut words = self.words.get(1..).unwrap_or_default();
        while let [option, rest @ ..] = words
            && let Some(option) = option.literal()
            && (is_option(option) || is_toolchain(program, option))
        {
            let taken = usize::from(valued.contains(&option));
            words = rest.get(taken..).unwrap_or_default();
        }
        words.iter().map(|word| word.literal().map(str::to_owned)).collect()
    }

    /// Tells whether further words may follow.
    pub(super) fn is_open(&self) -> bool {
        self.is_open
    }

    /// Says whether a rule that allows this allows a program to be run.
    pub(super) fn allows(&self, run: &Spelt) -> Fit {
        let is_named = |name: &String| self.variables.iter().any(|(known, _)| known == name);
        let is_harmless = |(name, value): &(String, Word)| shell::is_harmless(name, value);
        if run.variables.iter().any(|set| !is_named(&set.0) && !is_harmless(set)) {
            return Fit::No;
        }
        let with = self.fits_variables(run);
        let system = run.system.as_ref().map(|name| Word::Known(name.clone()));
        let fit = fit(&self.words, self.is_open, &run.strict);
        let fit = match (system, run.strict.split_first()) {
            (Some(name), Some((_, rest))) if fit == Fit::No => {
                let words: Vec<Word> = std::iter::once(name).chain(rest.iter().cloned()).collect();
                self::fit(&self.words, self.is_open, &words)
            }
            _ => fit,
        };
        fit.min(with)
    }

    /// Says whether the variables that are named are set to what is said of them.
    fn fits_variables(&self, run: &Spelt) -> Fit {
        let fits = |(name, value): &(String, Glob)| {
            let set = run.variables.iter().rev().find(|(set, _)| set == name);
            match set.map(|(_, word)| word) {
                Some(Word::Known(text)) if value.fits(text) => Fit::Yes,
                Some(Word::Unknown { .. }) if value.is_any() => Fit::Yes,
                Some(Word::Unknown { starts, .. }) if value.could_fit(starts) => Fit::Maybe,
                Some(_) | None => Fit::No,
            }
        };
        self.variables.iter().map(fits).min().unwrap_or(Fit::Yes)
    }

    /// Says whether a rule that denies this, or asks about it, is about a program that is run.
    pub(super) fn concerns(&self, run: &Spelt) -> Fit {
        let by_name = || self.by_name.as_ref().map_or(Fit::No, |by_name| by_name.concerns(run));
        match self.concerns_as_written(run) {
            Fit::Yes => Fit::Yes,
            fit => fit.max(by_name()),
        }
    }

    fn concerns_as_written(&self, run: &Spelt) -> Fit {
        let fit = run.loose.iter().map(|loose| self.concerns_one(loose)).max().unwrap_or(Fit::No);
        let may_be = || {
            run.carried.may_be(self)
                || self.words.first().and_then(Glob::literal).is_some_and(|name| run.mentions(name))
        };
        let fit = if fit == Fit::No && may_be() { Fit::Maybe } else { fit };
        fit.min(self.fits_variables(run))
    }

    fn concerns_one(&self, loose: &Loose) -> Fit {
        let is_open = self.is_open || !self.options.is_empty();
        let as_written = fit(&self.words, self.is_open, &loose.words);
        if as_written == Fit::Yes || !self.options.iter().all(|option| has(&loose.options, option))
        {
            return as_written;
        }
        let found = as_written.max(fit(&self.plain, is_open, &loose.plain));
        if found == Fit::No && may_fit(&self.plain, is_open, &loose.doubtful) {
            return Fit::Maybe;
        }
        found
    }
}

impl Spelt {
    /// Takes a run of a command, of which the text may be what it reads.
    pub(super) fn new(run: &Run, command: &str) -> Self {
        let raised = run.through.iter().filter(|name| is_raising(base(name)));
        let mut strict: Vec<Word> = raised.map(|name| Word::Known(name.clone())).collect();
        strict.extend(run.words.iter().cloned());
        let program = strict.first().and_then(Word::known);
        let system = program.and_then(of_system).map(str::to_owned);
        let loose = |at: usize| {
            let named = |name: &String| Word::Known(base(name).to_owned());
            let through = run.through.get(at..).unwrap_or_default();
            let mut words: Vec<Word> = through.iter().map(named).collect();
            words.extend(run.words.iter().cloned());
            words
        };
        let loose = (0..=run.through.len()).map(loose);
        let whole = run.outer.iter().map(|words| words.to_vec());
        let loose = loose.chain(whole).flat_map(spellings).map(Loose::new).collect();
        let code: Vec<&str> = match (run.is_reading, run.is_opaque) {
            (true, _) => vec![command],
            (false, true) => run.words.iter().skip(1).map(Word::source).collect(),
            (false, false) => Vec::new(),
        };
        let variables = run.assignments.clone();
        Self { strict, system, loose, variables, carried: carried(run), code: code.join(" ") }
    }

    /// Tells whether the text of a program names another one.
    fn mentions(&self, name: &str) -> bool {
        let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        self.code.split(|c| !is_part(c)).any(|word| word == name)
    }
}

/// Returns words with the name of their program alone, and as they are if it has a folder.
fn spellings(words: Vec<Word>) -> impl Iterator<Item = Vec<Word>> {
    let mut by_name = words.clone();
    if let Some(Word::Known(program)) = by_name.first_mut() {
        *program = base(program).to_owned();
    }
    let as_written = Some(words).filter(|words| *words != by_name);
    std::iter::once(by_name).chain(as_written)
}

/// What a program's words may run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Carried {
    /// What of them would be a program, were it one that runs others.
    loose: Vec<Loose>,
    /// The names of programs that others of them may be: beyond some words only the name is looked at.
    beyond: Vec<String>,
    /// Whether what that would run is not known.
    is_unclear: bool,
}

/// Returns what of a program's words would be a program, if it may be one that runs others: what is known of
/// programs does not end with those that are known here.
fn carried(run: &Run) -> Carried {
    let mut carried = Carried::default();
    let Some(start) = start_of_carried(run) else { return carried };
    for (at, word) in run.words.iter().enumerate().skip(start) {
        let name = word.known().map(base).unwrap_or_default();
        if name.is_empty() || is_option(name) {
            continue;
        }
        if at >= start + MOST_CARRIED {
            carried.is_unclear |= shell::runs_others(name);
            carried.beyond.push(name.to_owned());
            continue;
        }
        let words: Vec<Word> = run.words.iter().skip(at).take(MOST_CARRIED).cloned().collect();
        if let Some(script) = shell::carried(&words) {
            carried.is_unclear |= !script.doubts.is_empty() || words.len() == MOST_CARRIED;
            let runs = script.runs.into_iter().map(|run| run.words);
            carried.loose.extend(runs.flat_map(spellings).map(Loose::new));
        }
        carried.loose.extend(spellings(words).map(Loose::new));
    }
    carried
}

/// Returns from where on a program's words may be those of another; `None` if it runs none of them.
fn start_of_carried(run: &Run) -> Option<usize> {
    let name = run.name()?;
    let is_verb =
        |verbs: &[&str], word: &Word| word.known().is_some_and(|word| verbs.contains(&word));
    match RUNNING.iter().find(|(running, _)| *running == name) {
        Some((_, [])) => Some(1),
        Some((_, verbs)) => run.words.iter().position(|word| is_verb(verbs, word)).map(|at| at + 1),
        None => (!KNOWN.contains(&name) && !harmless::looks(name)).then_some(1),
    }
}

impl Carried {
    fn may_be(&self, pattern: &CommandPattern) -> bool {
        let program = pattern.words.first().and_then(Glob::literal);
        self.is_unclear
            || self.loose.iter().any(|loose| pattern.concerns_one(loose) > Fit::No)
            || program.is_some_and(|program| self.beyond.iter().any(|name| name == program))
    }
}

impl Loose {
    fn new(words: Vec<Word>) -> Self {
        let program = base(words.first().and_then(Word::known).unwrap_or_default());
        let valued = valued(program);
        // The options of git are all known.
        let is_plain = program == "git";
        let (mut plain, mut options, mut skips): (Vec<Word>, _, _) =
            (Vec::new(), Vec::new(), false);
        let (mut doubtful, mut follows) = (Vec::new(), false);
        for word in &words {
            let text = word.known().unwrap_or_default();
            if std::mem::take(&mut skips) {
                continue;
            }
            if is_option(text) {
                // Before the subcommand an option may take the next word.
                skips = plain.len() == 1 && valued.contains(&text);
                follows = !is_plain && !skips && text != "--" && !text.contains('=');
                options.push(text.to_owned());
            } else if plain.len() != 1 || !is_toolchain(program, text) {
                plain.push(word.clone());
                doubtful.push((word.clone(), std::mem::take(&mut follows)));
            }
        }
        Self { words, plain, options, doubtful }
    }
}

/// Returns the options of a program before its subcommand that take a value.
fn valued(program: &str) -> &'static [&'static str] {
    VALUED.iter().find(|(name, _)| *name == program).map_or(&[], |(_, valued)| *valued)
}

/// Tells whether a word before the subcommand says which version of a program is meant.
fn is_toolchain(program: &str, text: &str) -> bool {
    program == "cargo" && text.starts_with('+')
}

fn is_option(text: &str) -> bool {
    text.starts_with('-') && text.len() > 1
}

/// Compares word by word.
fn fit(patterns: &[Glob], is_open: bool, words: &[Word]) -> Fit {
    for (at, pattern) in patterns.iter().enumerate() {
        match words.get(at) {
            None => return Fit::No,
            Some(Word::Known(word)) if pattern.fits(word) => {}
            Some(Word::Known(_)) => return Fit::No,
            Some(Word::Unknown { count: Count::One, .. }) if pattern.is_any() => {}
            Some(Word::Unknown { starts, .. }) => {
                return if pattern.could_fit(starts) { Fit::Maybe } else { Fit::No };
            }
        }
    }
    let rest = words.get(patterns.len()..).unwrap_or_default();
    let may_vanish = |word: &Word| matches!(word, Word::Unknown { count: Count::Any, .. });
    match rest {
        [] => Fit::Yes,
        _ if is_open => Fit::Yes,
        rest if rest.iter().all(may_vanish) => Fit::Maybe,
        _ => Fit::No,
    }
}

/// Tells whether words fit if some of those are left out that may be values of options.
fn may_fit(patterns: &[Glob], is_open: bool, words: &[(Word, bool)]) -> bool {
    let is_program = |pattern: &Glob| match words.first() {
        Some((Word::Known(name), _)) => pattern.fits(name),
        Some((Word::Unknown { .. }, _)) | None => true,
    };
    let is_doubtful = || words.iter().any(|(_, may_be_value)| *may_be_value);
    if !patterns.first().is_some_and(is_program) || !is_doubtful() {
        return false;
    }
    // How many of the patterns may have been found so far.
    let mut found = BTreeSet::from([0]);
    for (word, may_be_value) in words {
        let could = |at: usize| match (patterns.get(at), word) {
            (Some(pattern), Word::Known(word)) => pattern.fits(word),
            (Some(pattern), Word::Unknown { starts, .. }) => pattern.could_fit(starts),
            (None, _) => false,
        };
        let goes_on = found.iter().filter(|at| could(**at)).map(|at| at + 1);
        let stays = found.iter().filter(|at| *may_be_value || is_open && **at == patterns.len());
        found = goes_on.chain(stays.copied()).collect();
    }
    found.contains(&patterns.len())
}

/// Tells whether an option was given: a long one by its name, with or without a value; of short ones
/// each letter.
fn has(given: &[String], option: &str) -> bool {
    let is_long = |text: &str| text.starts_with("--");
    if is_long(option) {
        let name = |text: &str| text.split('=').next().unwrap_or_default().to_owned();
        return given.iter().any(|one| is_long(one) && (one == option || name(one) == option));
    }
    let short = || given.iter().filter(|one| !is_long(one));
    option.chars().skip(1).all(|letter| short().any(|one| one.contains(letter)))
}

/// Tells whether a program runs others with more rights, or elsewhere.
pub(super) fn is_raising(program: &str) -> bool {
    RAISING.contains(&program)
}

/// Returns the name of a program that lies where the system keeps its own.
fn of_system(program: &str) -> Option<&str> {
    let name = SYSTEM_FOLDERS.iter().find_map(|folder| program.strip_prefix(folder))?;
    (!name.is_empty() && !name.contains('/')).then_some(name)
}

/// Takes `NAME=value` from the front of a pattern's words, if a program follows.
fn variables(words: &[String]) -> Vec<(String, Glob)> {
    let variable = |word: &String| {
        let (name, value) = word.split_once('=')?;
        shell::is_name(name).then(|| (name.to_owned(), Glob::new(value)))
    };
    let variables: Vec<_> = words.iter().map_while(variable).collect();
    if variables.len() < words.len() { variables } else { Vec::new() }
}

/// Splits a pattern into words, as simple as it is: between quotes nothing splits.
fn split(text: &str) -> Result<Vec<String>, String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for character in text.chars() {
        match (quote, character) {
            (Some(open), close) if open == close => quote = None,
            (None, '\'' | '"') => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            (None, ' ' | '\t' | '\n') => words.extend(word.take()),
            (None, '|' | '&' | ';' | '<' | '>' | '`' | '$') => {
                return Err(format!(
                    "{character:?} in {text:?}: a rule is about one program and its words; of a command \
                     line each program is looked at by itself (in quotes it is a character like any)"
                ));
            }
            (Some(_) | None, character) => word.get_or_insert_default().push(character),
        }
    }
    words.extend(word);
    match (quote, words.is_empty()) {
        (Some(quote), _) => Err(format!("{text:?}: {quote} is not closed")),
        (None, true) => Err("a command has a program at least".to_owned()),
        (None, false) => Ok(words),
    }
}
