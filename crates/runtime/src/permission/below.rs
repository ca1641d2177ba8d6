//! What is below a folder: a sandbox is made of paths, and rules and protections are about names.

use std::collections::{HashMap, VecDeque};
use std::fs::{self, DirEntry};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::seen::real;

/// What stood in folders before agents did anything there: what agents make themselves is theirs, such as a
/// repository that they clone.
#[derive(Debug, Default)]
pub(crate) struct Standing {
    below: Mutex<ByFolder<PathBuf>>,
    elsewhere: Mutex<ByFolder<(usize, PathBuf)>>,
}

type ByFolder<T> = HashMap<PathBuf, Arc<[T]>>;

/// Folders that hold what was fetched or made: tools change all of it, and nobody works there.
const FETCHED: [&str; 14] = [
    "node_modules",
    "bower_components",
    "target",
    "build",
    "dist",
    "out",
    "deps",
    "_deps",
    "Pods",
    ".venv",
    "venv",
    ".tox",
    ".terraform",
    ".cache",
];

/// So many folders are looked into, those nearest to where the search begins first.
const MOST_FOLDERS: usize = 20_000;

impl Standing {
    /// Returns what of these names is below the folders of a folder. It is looked for once.
    pub(super) fn below(&self, folder: &Path, names: &[&str]) -> Arc<[PathBuf]> {
        once(&self.below, folder, || named(folder, names))
    }

    /// Returns where those of these names lead that stand in a folder and are kept somewhere else, each with
    /// its place among the names. It is looked for once.
    pub(super) fn elsewhere(&self, folder: &Path, names: &[&str]) -> Arc<[(usize, PathBuf)]> {
        once(&self.elsewhere, folder, || {
            let places = names.iter().enumerate().flat_map(|(at, name)| {
                led_to(folder, name).into_iter().map(move |place| (at, place))
            });
            places.collect()
        })
    }
}

fn once<T>(known: &Mutex<ByFolder<T>>, folder: &Path, find: impl Fn() -> Vec<T>) -> Arc<[T]> {
    let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
    match known.get(folder) {
        Some(found) => Arc::clone(found),
        None => Arc::clone(known.entry(folder.to_owned()).or_insert_with(|| find().into())),
    }
}

/// Returns where a name in a folder leads: what is behind a link, and the folder of a repository if that is
/// told there.
fn led_to(folder: &Path, name: &str) -> Vec<PathBuf> {
    let written = folder.join(name);
    let place = real(&written);
    let told = if name == ".git" { told_repository(&place) } else { None };
    // It is told as seen from the link.
    let repository = told.map(|told| real(&folder.join(told)));
    // What the folder lies in is not kept in it.
    let is_kept = |place: &PathBuf| *place != written && !folder.starts_with(place);
    [Some(place), repository].into_iter().flatten().filter(is_kept).collect()
}

/// Returns the path that a file holds which says where git keeps a repository.
fn told_repository(file: &Path) -> Option<String> {
    // Such a file is short.
    file.symlink_metadata().ok().filter(|data| data.is_file() && data.len() < 1 << 16)?;
    Some(fs::read_to_string(file).ok()?.strip_prefix("gitdir:")?.trim().to_owned())
}

fn named(folder: &Path, names: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    walk(folder, |place, name, entry| {
        let is_named = names.contains(&name);
        // In the folder itself they are known without a search.
        found.extend((is_named && place != folder).then(|| entry.path()));
        !is_named
    });
    found
}

/// Returns the files below a folder whose names are wanted, but for what was fetched or made.
pub(super) fn files(folder: &Path, is_wanted: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let mut found = Vec::new();
    walk(folder, |_, name, entry| {
        found.extend((!is_folder(entry) && is_wanted(name)).then(|| entry.path()));
        name != ".git"
    });
    found
}

/// Goes through what is below a folder, what is nearest first. `visit` gets the folder, a name in it and its
/// entry, and tells whether that is gone into; what was fetched or made is not.
fn walk(folder: &Path, mut visit: impl FnMut(&Path, &str, &DirEntry) -> bool) {
    let mut left = VecDeque::from([folder.to_owned()]);
    for _ in 0..MOST_FOLDERS {
        let Some(next) = left.pop_front() else { break };
        for (name, entry) in entries(&next) {
            let is_open = visit(&next, &name, &entry) && !FETCHED.contains(&name.as_str());
            if is_open && is_folder(&entry) {
                left.push_back(entry.path());
            }
        }
    }
}

/// Returns the folders in a folder. Links are none.
pub(super) fn folders(folder: &Path) -> impl Iterator<Item = (String, PathBuf)> {
    entries(folder).filter(|(_, entry)| is_folder(entry)).map(|(name, entry)| (name, entry.path()))
}

/// Returns what is in a folder; of one that cannot be read nothing.
pub(super) fn entries(folder: &Path) -> impl Iterator<Item = (String, DirEntry)> {
    let entries = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    entries.map(|entry| (entry.file_name().to_string_lossy().into_owned(), entry))
}

fn is_folder(entry: &DirEntry) -> bool {
    entry.file_type().is_ok_and(|kind| kind.is_dir())
}
