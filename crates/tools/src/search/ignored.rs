//! The files that say what is ignored: whoever reads them takes them for files, and would wait for a pipe,
//! and read without end what has none.

use std::fs::{File, Metadata};
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};

/// The longest such file, in bytes.
const LONGEST: u64 = 1 << 20;

/// Tells whether what a folder says of what is ignored can be read.
pub(super) fn is_readable(folder: &Path) -> bool {
    let rules = [".gitignore", ".ignore"].map(|name| folder.join(name));
    rules.iter().all(|path| is_usual(path))
        && repository(folder).is_some_and(|git| is_usual(&git.join("info/exclude")))
}

/// Returns the folder of the repository that a folder is the root of, or would be; `None` if what names it
/// cannot be read.
fn repository(folder: &Path) -> Option<PathBuf> {
    let git = folder.join(".git");
    if !git.metadata().is_ok_and(|git| git.is_file()) {
        return Some(git);
    }
    let Some(linked) = first_line(&git)?.strip_prefix("gitdir: ").map(PathBuf::from) else {
        return Some(git);
    };
    let common = linked.join("commondir");
    match common.exists() {
        true => Some(linked.join(first_line(&common)?)),
        false => Some(linked),
    }
}

fn first_line(path: &Path) -> Option<String> {
    let file =
        path.metadata().is_ok_and(|found| is_short(&found)).then(|| File::open(path).ok())?;
    BufReader::new(file?.take(LONGEST)).lines().next()?.ok()
}

/// Tells whether something is a file, a folder or nothing.
fn is_usual(path: &Path) -> bool {
    path.metadata().map_or(true, |found| found.is_dir() || is_short(&found))
}

fn is_short(found: &Metadata) -> bool {
    found.is_file() && found.len() <= LONGEST
}
