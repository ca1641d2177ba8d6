//! Where `cd` leads.

use std::path::{Component, Path, PathBuf};

use super::found::Found;
use super::{Run, Word, interpreter};

/// So many ways are followed; beyond that a folder may be any.
const MOST_WAYS: usize = 16;

/// So many names of a way are followed, since each program behind `cd` is looked at in each of the ways.
const MOST_NAMES: usize = 64;

/// The folders that a program may run in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Folder {
    /// Where the steps of `cd` may have led, the likeliest first: from the folder that the whole command was
    /// started in, from the top, or from `~`.
    pub ways: Vec<PathBuf>,
    /// Whether it may be any other as well.
    pub is_open: bool,
}

impl Default for Folder {
    fn default() -> Self {
        Self { ways: vec![PathBuf::new()], is_open: false }
    }
}

impl Folder {
    /// Returns one that may be any.
    pub(super) fn open(&self) -> Self {
        Self { is_open: true, ..self.clone() }
    }

    /// Adds what it may be as well.
    pub(super) fn add(&mut self, other: &Self) {
        self.is_open |= other.is_open;
        for way in &other.ways {
            if self.ways.contains(way) {
                continue;
            }
            match self.ways.len() < MOST_WAYS && way.components().nth(MOST_NAMES).is_none() {
                true => self.ways.push(way.clone()),
                false => self.is_open = true,
            }
        }
    }

    fn step(&self, target: &Path) -> Self {
        let ways: Vec<PathBuf> = self.ways.iter().map(|way| joined(way, target)).collect();
        // Only what does not begin where it is leads out of not knowing.
        let is_open = self.is_open && !is_fixed(target);
        let mut folder = Self { ways: Vec::new(), is_open };
        folder.add(&Self { ways, is_open });
        folder
    }
}

fn is_fixed(path: &Path) -> bool {
    path.is_absolute() || path.starts_with("~")
}

/// Goes on from a folder as the shell does: `..` is taken away by name alone.
fn joined(way: &Path, target: &Path) -> PathBuf {
    let mut joined = if is_fixed(target) { PathBuf::new() } else { way.to_owned() };
    for component in target.components() {
        let last = joined.components().next_back();
        match (component, last) {
            (Component::CurDir, _) => {}
            (Component::ParentDir, Some(Component::Normal(name))) if name != "~" => {
                joined.pop();
            }
            (Component::ParentDir, Some(Component::RootDir)) => {}
            (component, _) => joined.push(component),
        }
    }
    joined
}

/// Notes where `cd`, `pushd` or `popd` leads.
pub(super) fn change(found: &mut Found, name: &str, run: &Run) {
    let is_shell = match run.through.last().map(String::as_str) {
        None => true,
        Some(name) => interpreter::is_shell(name) || matches!(name, "eval" | "command" | "builtin"),
    };
    let target = target(name, run).filter(|_| is_shell);
    let folder = match &target {
        Some(target) => found.folder.step(target),
        None => found.folder.open(),
    };
    found.visited.add(&folder);
    found.folder = folder;
}

fn target(name: &str, run: &Run) -> Option<PathBuf> {
    let mut operands = run.words.get(1..).unwrap_or_default();
    while let [Word::Known(option), rest @ ..] = operands
        && matches!(option.as_str(), "--" | "-L" | "-e" | "-@")
    {
        operands = rest;
    }
    match operands {
        [] if name == "cd" => Some(PathBuf::from("~")),
        [Word::Known(target)] if !target.is_empty() && !target.starts_with(['-', '+', '~']) => {
            (name != "popd").then(|| PathBuf::from(target))
        }
        [Word::Unknown { source, .. }] if name != "popd" => known_place(source),
        _ => None,
    }
}

/// Reads `~`, `$HOME` and `$PWD` with what follows, as long as that is plain.
fn known_place(source: &str) -> Option<PathBuf> {
    const PLACES: [(&str, &str); 5] =
        [("~", "~"), ("$HOME", "~"), ("${HOME}", "~"), ("$PWD", "."), ("${PWD}", ".")];
    let text: String = source.chars().filter(|c| *c != '"').collect();
    let named = |(name, place): (&str, &'static str)| Some((text.strip_prefix(name)?, place));
    let (rest, place) = PLACES.into_iter().find_map(named)?;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '-' | '_');
    let is_path = rest.is_empty() || rest.starts_with('/');
    (is_path && rest.chars().all(is_plain)).then(|| PathBuf::from(format!("{place}{rest}")))
}
