//! Rules about files.

use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::path::{Path, PathBuf};

use super::below;
use super::glob::Glob;
use super::places::Places;
use super::seen::Form;

/// A file or folder, with all that is in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PathPattern {
    /// As it is written.
    text: String,
    root: Root,
    steps: Vec<Step>,
}

/// Where a pattern begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Root {
    Top,
    Home,
    Work,
}

/// One step of a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    /// Any number of folders.
    Deep,
    Name(Glob),
}

impl PathPattern {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        check_marks(text)?;
        let (root, rest) = match (text.strip_prefix("~/"), text.strip_prefix('/')) {
            (Some(rest), _) => (Root::Home, rest),
            (None, _) if text == "~" => (Root::Home, ""),
            (None, Some(rest)) => (Root::Top, rest),
            (None, None) => (Root::Work, text),
        };
        let mut steps = Vec::new();
        // As in a .gitignore: a name alone is meant wherever it is.
        if root == Root::Work && !rest.trim_end_matches('/').contains('/') && rest != "." {
            steps.push(Step::Deep);
        }
        for name in rest.split('/') {
            match name {
                "" | "." => {}
                ".." => {
                    return Err(format!("{text:?}: `..` leads elsewhere; write the whole path"));
                }
                "**" if steps.last() == Some(&Step::Deep) => {}
                "**" => steps.push(Step::Deep),
                name => steps.push(Step::Name(Glob::new(name))),
            }
        }
        Ok(Self { text: text.to_owned(), root, steps })
    }

    /// Tells whether a path is meant.
    pub(super) fn fits(&self, path: &Form) -> bool {
        let from = match self.root {
            Root::Top => Some(0),
            Root::Home => path.home,
            Root::Work => path.work,
        };
        from.is_some_and(|from| fits(&self.steps, path.names.get(from..).unwrap_or_default()))
    }

    /// Tells whether the pattern names what makes a path special: not merely a folder in which it is,
    /// nor everything.
    pub(super) fn names(&self, special: &str) -> bool {
        let is_meant = |step: &Step| match step {
            Step::Deep => false,
            Step::Name(glob) => !glob.is_any() && glob.fits(special),
        };
        self.steps.iter().any(is_meant)
    }

    /// Tells whether every file is meant, or every one of the home folder.
    pub(super) fn is_everything(&self) -> bool {
        let is_wide = |step: &Step| match step {
            Step::Deep => true,
            Step::Name(glob) => glob.is_any(),
        };
        self.root != Root::Work && self.steps.iter().all(is_wide)
    }

    /// Returns the one file or folder that is meant; `None` if there is more than one.
    pub(super) fn only(&self, places: &Places) -> Option<PathBuf> {
        let mut steps = self.steps.as_slice();
        // A name alone is meant wherever it is, but in the folder itself too.
        if self.root == Root::Work && steps.len() > 1 && steps.first() == Some(&Step::Deep) {
            return None;
        }
        if let [before @ .., Step::Deep] = steps {
            steps = before;
        }
        let mut path = self.root(places)?;
        for step in steps {
            match step {
                Step::Name(glob) => path.push(glob.literal()?),
                Step::Deep => return None,
            }
        }
        Some(path)
    }

    /// Returns what is meant for certain: the one file or folder, or what of this name is in the working
    /// folder itself.
    pub(super) fn nearest(&self, places: &Places) -> Option<PathBuf> {
        match (self.root, self.steps.as_slice()) {
            (Root::Work, [Step::Deep, rest @ ..]) if !rest.is_empty() => {
                Self { steps: rest.to_vec(), ..self.clone() }.only(places)
            }
            _ => self.only(places),
        }
    }

    /// Returns what is meant of the files that are there; `None` if that are too many to be looked through. A
    /// `**` goes no further than the workspace.
    pub(super) fn existing(&self, places: &Places) -> Option<BTreeSet<PathBuf>> {
        let mut search = Search { places, found: BTreeSet::new(), folders: 0, listed: 0 };
        search.follow(&self.root(places)?, &self.steps);
        search.is_bearable().then_some(search.found)
    }

    fn root(&self, places: &Places) -> Option<PathBuf> {
        match self.root {
            Root::Top => Some(PathBuf::from("/")),
            Root::Home => places.home.last().cloned(),
            Root::Work => places.work.last().cloned(),
        }
    }
}

impl fmt::Display for PathPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The marks that have a meaning in a path, or elsewhere.
pub(super) const MARKS: [char; 7] = ['*', '?', '[', '{', '|', '$', '\\'];

/// Refuses what means something elsewhere and nothing here: whoever wrote it meant other files.
fn check_marks(text: &str) -> Result<(), String> {
    if let Some((scheme, path)) = text.split_once("://") {
        let path = if scheme == "file" { path } else { "/x" };
        return Err(format!("{text:?} is no path; write it like {path}"));
    }
    let what = match text.as_bytes() {
        [b'!', ..] => "`!` excepts nothing; write a rule that says the opposite of it",
        [b'~', next, ..] if *next != b'/' => {
            "only your own home folder has a sign, ~/; write the whole path of another"
        }
        _ => "",
    };
    if !what.is_empty() {
        let mark = &text[..1];
        return Err(format!("{text:?}: {what}, or \\{mark} for the character"));
    }
    let mut is_escaped = false;
    for mark in text.chars() {
        if !is_escaped && mark != '*' && mark != '\\' && MARKS.contains(&mark) {
            let what = match mark {
                '$' => "no variable is read; write ~/ for the home folder",
                '|' => "in paths only * and ** stand for something; write two rules for two names",
                _ => "in paths only * and ** stand for something; write a rule for each name",
            };
            return Err(format!("{mark:?} in {text:?}: {what}, or \\{mark} for the character"));
        }
        is_escaped = !is_escaped && mark == '\\';
    }
    Ok(())
}

/// A look at the files that are there.
struct Search<'p> {
    places: &'p Places,
    found: BTreeSet<PathBuf>,
    /// Folders that were looked into because of a `**`.
    folders: usize,
    /// Those in which names were held against a pattern.
    listed: usize,
}

impl Search<'_> {
    /// So many folders are looked into, at every command.
    const MOST_FOLDERS: usize = 50_000;

    /// So many files can each be treated otherwise than what is around them.
    const MOST_FOUND: usize = 2_000;

    fn is_bearable(&self) -> bool {
        self.folders.max(self.listed) <= Self::MOST_FOLDERS && self.found.len() <= Self::MOST_FOUND
    }

    fn follow(&mut self, path: &Path, steps: &[Step]) {
        let Some((step, rest)) = steps.split_first() else {
            self.found.insert(path.to_owned());
            return;
        };
        match step {
            Step::Deep if rest.is_empty() => self.follow(path, rest),
            Step::Deep => self.follow_deep(path, rest),
            Step::Name(glob) => match glob.literal() {
                Some(name) if path.join(name).symlink_metadata().is_ok() => {
                    self.follow(&path.join(name), rest);
                }
                Some(_) => {}
                None => {
                    self.listed += 1;
                    for (name, entry) in below::entries(path) {
                        if !self.is_bearable() {
                            return;
                        }
                        if glob.fits(&name) {
                            self.follow(&entry.path(), rest);
                        }
                    }
                }
            },
        }
    }

    /// Follows the rest of the steps from a folder and all below it, as far as they are in the workspace.
    fn follow_deep(&mut self, path: &Path, rest: &[Step]) {
        let is_inside = self.places.roots().any(|root| path.starts_with(root));
        let mut folders: VecDeque<PathBuf> = match is_inside {
            true => [path.to_owned()].into(),
            false => self.places.roots().filter(|root| root.starts_with(path)).cloned().collect(),
        };
        while let Some(folder) = folders.pop_front() {
            self.folders += 1;
            if !self.is_bearable() {
                return;
            }
            self.follow(&folder, rest);
            // What git keeps are no files of the project.
            let below = below::folders(&folder).filter(|(name, _)| name != ".git");
            folders.extend(below.map(|(_, folder)| folder));
        }
    }
}

/// Compares step by step; a folder stands for all that is in it.
fn fits(steps: &[Step], names: &[String]) -> bool {
    let Some((step, rest)) = steps.split_first() else { return true };
    match step {
        Step::Deep if rest.is_empty() => true,
        Step::Deep => (0..=names.len()).any(|at| fits(rest, names.get(at..).unwrap_or_default())),
        Step::Name(glob) => {
            names.split_first().is_some_and(|(name, below)| glob.fits(name) && fits(rest, below))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_count_however_a_pattern_leads_through_them() {
        let root = tempfile::tempdir().unwrap();
        for folder in ["a/x", "b/x", "c/x"] {
            std::fs::create_dir_all(root.path().join(folder)).unwrap();
        }
        let places = Places::default();
        let folders = |text: &str| {
            let pattern = PathPattern::parse(text).unwrap();
            let mut search =
                Search { places: &places, found: BTreeSet::new(), folders: 0, listed: 0 };
            search.follow(root.path(), &pattern.steps);
            (search.found.len(), search.listed)
        };
        assert_eq!(folders("/*/x"), (3, 1));
        assert_eq!(folders("/*/none*"), (0, 4));
        assert_eq!(folders("/*/*/*"), (0, 7));
    }
}
