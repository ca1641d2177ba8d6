//! What a path is: as it is written, and as it really is.

use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

/// A path as it is written, and as it really is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Seen {
    /// Without `.` and `..`, which are taken away by name alone.
    pub(super) written: Form,
    /// Without links, as far as it exists, if that is another one.
    real: Option<Form>,
}

/// A path, and where the places are on it that patterns begin at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Form {
    pub(super) path: PathBuf,
    pub(super) names: Vec<String>,
    /// How many names lead to the working folder, if it is in that.
    pub(super) work: Option<usize>,
    /// How many names lead to the home folder, if it is in that.
    pub(super) home: Option<usize>,
}

impl Seen {
    /// Takes a path as it is written and as it really is.
    pub(super) fn new(written: Form, real: Form) -> Self {
        let real = Some(real).filter(|real| real.path != written.path);
        Self { written, real }
    }

    /// Returns the path as it really is.
    pub(super) fn real(&self) -> &Path {
        &self.real.as_ref().unwrap_or(&self.written).path
    }

    pub(super) fn any(&self, is_so: impl Fn(&Form) -> bool) -> bool {
        is_so(&self.written) || self.real.as_ref().is_some_and(is_so)
    }

    pub(super) fn all(&self, is_so: impl Fn(&Form) -> bool) -> bool {
        is_so(&self.written) && self.real.as_ref().is_none_or(is_so)
    }

    pub(super) fn find<T>(&self, find: impl Fn(&Form) -> Option<T>) -> Option<T> {
        find(&self.written).or_else(|| self.real.as_ref().and_then(find))
    }
}

/// Removes `.` and `..` by name alone.
pub(super) fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => drop(plain.pop()),
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => {
                plain.push(component);
            }
        }
    }
    plain
}

/// So many links are followed; what has more is no file.
const LINKS: usize = 40;

/// Follows links as far as the path exists. What does not exist cannot be a link.
pub(super) fn real(path: &Path) -> PathBuf {
    let (mut real, mut links) = (PathBuf::from("/"), 0);
    // How many names lead on from the last folder that exists.
    let mut beyond = 0_usize;
    let mut left: Vec<OsString> = names_reversed(path);
    while let Some(name) = left.pop() {
        if name == ".." {
            real.pop();
            beyond = beyond.saturating_sub(1);
            continue;
        }
        real.push(&name);
        if beyond > 0 {
            beyond += 1;
            continue;
        }
        let target = match std::fs::read_link(&real) {
            Ok(target) => target,
            Err(error) => {
                // That of what is there and no link is another one.
                beyond = usize::from(error.kind() != std::io::ErrorKind::InvalidInput);
                continue;
            }
        };
        links += 1;
        if links > LINKS {
            continue;
        }
        real.pop();
        if target.is_absolute() {
            real = PathBuf::from("/");
        }
        left.extend(names_reversed(&target));
    }
    real
}

fn names_reversed(path: &Path) -> Vec<OsString> {
    let names = path.components().rev().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::CurDir | Component::RootDir | Component::Prefix(_) => None,
    });
    names.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_followed_as_far_as_the_path_exists_also_back_from_what_does_not() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        std::fs::create_dir(root.join("there")).unwrap();
        std::os::unix::fs::symlink("there", root.join("link")).unwrap();
        for (written, expected) in [
            ("link/x", "there/x"),
            ("link/none/x/../link", "there/none/link"),
            ("none/x/../../link/x", "there/x"),
            ("there/../link", "there"),
        ] {
            assert_eq!(real(&root.join(written)), root.join(expected), "{written}");
        }
    }
}
