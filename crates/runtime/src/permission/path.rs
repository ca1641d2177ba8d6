//! Rules about files.

use std::path::PathBuf;

use super::glob::Glob;
use super::places::Places;
use super::seen::Form;

/// A file or folder, with all that is in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PathPattern {
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
        let strange = ['?', '[', '{'];
        let mut escaped = false;
        for character in text.chars() {
            if !escaped && strange.contains(&character) {
                return Err(format!(
                    "{character:?} in {text:?}: in paths only * and ** stand for something; write \
                     \\{character} for the character, and two rules for two names"
                ));
            }
            escaped = !escaped && character == '\\';
        }
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
        Ok(Self { root, steps })
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
                Self { root: Root::Work, steps: rest.to_vec() }.only(places)
            }
            _ => self.only(places),
        }
    }

    fn root(&self, places: &Places) -> Option<PathBuf> {
        match self.root {
            Root::Top => Some(PathBuf::from("/")),
            Root::Home => places.home.last().cloned(),
            Root::Work => places.work.last().cloned(),
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
