//! What a confinement comes to on this machine, now: which paths are there, and which are not.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::names::keeps_a_name;
use crate::guard::Confinement;

/// How files look to a confined command.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Layout {
    /// Where something else holds than for what is around it, those that contain others first.
    pub(super) pieces: Vec<Piece>,
    /// What must not be made: of protected paths that do not exist, the first part that is missing.
    pub(super) absent: Vec<PathBuf>,
    /// What was looked for, and which file or folder was found.
    seen: Vec<(PathBuf, Option<Identity>)>,
}

/// One place where something else holds than for what is around it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Piece {
    pub(super) path: PathBuf,
    pub(super) kind: Kind,
    pub(super) is_folder: bool,
}

/// What holds at a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Kind {
    /// It may be written.
    Writable,
    /// As around it; but it contains what is protected, and must not be moved away with it.
    Passage,
    /// It may be read only.
    Protected,
    /// It cannot be seen.
    Hidden,
}

/// Tells a file or folder from another that takes its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Identity {
    device: u64,
    number: u64,
}

impl Identity {
    pub(super) fn of(found: &rustix::fs::Stat) -> Self {
        Self { device: found.st_dev, number: found.st_ino }
    }
}

impl Layout {
    /// Looks at the paths of a confinement.
    pub(super) fn of(confinement: &Confinement) -> Self {
        let mut layout = Draft::default();
        let mut walks: Vec<Walk> = confinement.writable.iter().map(|path| Walk::to(path)).collect();
        walks.retain(|walk| walk.end == End::There);
        walks.iter().filter(|walk| walk.is_own(&walks)).for_each(|walk| layout.add_writable(walk));
        layout.sought.extend(confinement.writable.iter().cloned());
        confinement.protected.iter().for_each(|path| layout.add_protected(path));
        confinement.hidden.iter().for_each(|path| layout.add_hidden(path));
        layout.finish()
    }

    /// Tells whether all that was there is as it was looked at.
    pub(super) fn holds(&self) -> bool {
        self.seen.iter().all(|(path, found)| identity(path) == *found)
    }
}

/// Returns which file or folder is there now, if any; a link is not followed.
pub(super) fn identity(path: &Path) -> Option<Identity> {
    rustix::fs::lstat(path).ok().as_ref().map(Identity::of)
}

/// A layout that is still being made.
#[derive(Debug, Default)]
struct Draft {
    kinds: BTreeMap<PathBuf, Kind>,
    absent: Vec<PathBuf>,
    sought: Vec<PathBuf>,
}

impl Draft {
    fn add_writable(&mut self, walk: &Walk) {
        self.set(walk.real.clone(), Kind::Writable);
    }

    fn add_protected(&mut self, path: &Path) {
        self.sought.push(path.to_owned());
        let walk = Walk::to(path);
        // What leads to it must not come to lead elsewhere.
        walk.links.into_iter().for_each(|link| self.protect(link));
        let missing = match walk.end {
            End::There => return self.protect(walk.real),
            End::Missing(name) => name,
            // The links that lead there stay.
            End::Lost => return,
        };
        let absent = walk.real.join(missing);
        // Elsewhere nothing can be made anyway.
        if self.is_writable(&walk.real) {
            self.add_passages(&absent);
            if !self.absent.contains(&absent) {
                self.absent.push(absent);
            }
        }
    }

    fn protect(&mut self, path: PathBuf) {
        if self.is_writable(&path) {
            self.add_passages(&path);
            self.set(path, Kind::Protected);
        }
    }

    fn add_hidden(&mut self, path: &Path) {
        self.sought.push(path.to_owned());
        if let Ok(real) = fs::canonicalize(path) {
            self.add_passages(&real);
            self.set(real, Kind::Hidden);
        }
    }

    /// Tells whether a path is in something that may be written.
    fn is_writable(&self, path: &Path) -> bool {
        path.ancestors().any(|path| self.kinds.get(path) == Some(&Kind::Writable))
    }

    /// Keeps the folders on the way to a path from being moved away.
    fn add_passages(&mut self, path: &Path) {
        for folder in path.ancestors().skip(1) {
            if self.kinds.get(folder) == Some(&Kind::Writable) || !self.is_writable(folder) {
                return;
            }
            self.set(folder.to_owned(), Kind::Passage);
        }
    }

    /// The stricter of two that are said of one path counts.
    fn set(&mut self, path: PathBuf, kind: Kind) {
        let known = self.kinds.entry(path).or_insert(kind);
        *known = kind.max(*known);
    }

    fn finish(mut self) -> Layout {
        // A map of paths has those that contain others first.
        let pieces = self.kinds.into_iter().map(|(path, kind)| {
            let is_folder = fs::symlink_metadata(&path).is_ok_and(|found| found.is_dir());
            Piece { path, kind, is_folder }
        });
        let pieces: Vec<_> = pieces.collect();
        self.sought.extend(pieces.iter().map(|piece| piece.path.clone()));
        self.sought.sort();
        self.sought.dedup();
        self.sought.retain(|path| !self.absent.contains(path));
        let seen = self.sought.into_iter().map(|path| (identity(&path), path));
        let seen = seen.map(|(identity, path)| (path, identity)).collect();
        Layout { pieces, absent: self.absent, seen }
    }
}

/// Where a path leads.
#[derive(Debug, Default)]
struct Walk {
    /// What of it exists, without links.
    real: PathBuf,
    end: End,
    /// The links on the way, each by where it really is.
    links: Vec<PathBuf>,
}

/// How a walk ends.
#[derive(Debug, Default, PartialEq, Eq)]
enum End {
    #[default]
    There,
    /// With the first part that does not exist.
    Missing(OsString),
    /// In circles, or with what cannot be looked into.
    Lost,
}

impl Walk {
    /// As many links as the system follows.
    const MOST: usize = 40;

    /// Follows an absolute path.
    fn to(path: &Path) -> Self {
        let mut walk = Self { real: PathBuf::from("/"), ..Self::default() };
        let parts = |path: &Path| path.components().map(part).collect::<VecDeque<OsString>>();
        let mut rest = parts(path);
        while let Some(name) = rest.pop_front() {
            if name == "." {
                continue;
            }
            if name == ".." {
                walk.real.pop();
                continue;
            }
            let next = walk.real.join(&name);
            match fs::symlink_metadata(&next) {
                Ok(found) if found.is_symlink() => {
                    let target = fs::read_link(&next);
                    walk.links.push(next);
                    let Some(target) = target.ok().filter(|_| walk.links.len() <= Self::MOST)
                    else {
                        return Self { end: End::Lost, ..walk };
                    };
                    if target.is_absolute() {
                        walk.real = PathBuf::from("/");
                    }
                    rest = parts(&target).into_iter().chain(rest).collect();
                }
                // What only keeps a name taken is nobody's.
                Ok(found) if keeps_a_name(&next, &found) => {
                    return Self { end: End::Missing(name), ..walk };
                }
                Ok(_) => walk.real = next,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    return Self { end: End::Missing(name), ..walk };
                }
                Err(_) => return Self { end: End::Lost, ..walk },
            }
        }
        walk
    }

    /// Tells whether none of the links on the way is one that a command may have made, to have something
    /// else writable than it was: those in what may be written must not lead out of that.
    fn is_own(&self, all: &[Self]) -> bool {
        let is_kept = |link: &PathBuf| {
            let around =
                all.iter().filter(|around| link.starts_with(&around.real) && *link != around.real);
            around.into_iter().all(|around| self.real.starts_with(&around.real))
        };
        self.links.iter().all(is_kept)
    }
}

/// Returns a part of a path as a name; its root is where a walk begins.
fn part(component: Component<'_>) -> OsString {
    match component {
        Component::Prefix(_) | Component::RootDir | Component::CurDir => ".".into(),
        Component::ParentDir => "..".into(),
        Component::Normal(name) => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_link_made_in_a_writable_folder_makes_nothing_else_writable() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("work/real")).unwrap();
        std::os::unix::fs::symlink("/", root.join("work/build")).unwrap();
        std::os::unix::fs::symlink("real", root.join("work/own")).unwrap();
        std::os::unix::fs::symlink("work", root.join("link")).unwrap();
        let names = ["work/build", "work/own", "work", "link/build"];
        let writable = |names: &[&str]| Confinement {
            writable: names.iter().map(|name| root.join(name)).collect(),
            ..Confinement::default()
        };
        let layout = Layout::of(&writable(&names));
        let paths: Vec<_> = layout.pieces.iter().map(|piece| piece.path.clone()).collect();
        assert_eq!(paths, [root.join("work"), root.join("work/real")]);
    }

    #[test]
    fn what_leads_to_something_protected_stays_where_it_is() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("a/b/.git")).unwrap();
        let confinement = Confinement {
            writable: vec![root.clone(), root.join("none")],
            protected: vec![root.join("a/b/.git"), root.join("c/d"), "/etc/passwd".into()],
            hidden: vec![root.join("a/b/.git")],
            ..Confinement::default()
        };
        let layout = Layout::of(&confinement);
        let piece = |path: &str, kind| Piece { path: root.join(path), kind, is_folder: true };
        let expected = [
            Piece { path: root.clone(), kind: Kind::Writable, is_folder: true },
            piece("a", Kind::Passage),
            piece("a/b", Kind::Passage),
            piece("a/b/.git", Kind::Hidden),
        ];
        assert_eq!(layout.pieces, expected);
        assert_eq!(layout.absent, [root.join("c")]);
        assert!(layout.holds());
        fs::remove_dir(root.join("a/b/.git")).unwrap();
        assert!(!layout.holds());
    }
}
