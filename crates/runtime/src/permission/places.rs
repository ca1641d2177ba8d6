//! The places on this machine that rules know of, and what is special about files.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::below::{self, Standing};
use super::path::PathPattern;
use super::seen::{Form, Seen, plain, real};
use super::shell::base;
use crate::environment::{Environment, Folders};

/// The places that rules know of, each as it is called and, if that differs, as it really is.
#[derive(Debug, Clone, Default)]
pub struct Places {
    pub(super) home: Vec<PathBuf>,
    /// The working folder.
    pub(super) work: Vec<PathBuf>,
    /// What else belongs to the workspace.
    pub(super) added: Vec<PathBuf>,
    /// The folder for temporary files.
    pub(super) temp: Vec<PathBuf>,
    /// What bowline itself keeps.
    own: Vec<PathBuf>,
    /// The user's configuration of bowline.
    config: Vec<PathBuf>,
    /// What is recorded of files, those among them that may not be read.
    recorded: Vec<PathBuf>,
    /// What was in the workspace before agents were.
    standing: Arc<Standing>,
}

/// Something about a file for which an ordinary rule is not enough.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Special {
    /// The name that makes it so.
    pub(super) name: String,
    /// What it is, such as `the configuration of git`.
    pub(super) what: &'static str,
}

/// Names that are protected wherever they are: what is in them runs, or is believed, without a question.
const PROTECTED: [(&str, &str); 10] = [
    (".git", "what git keeps"),
    (".bowline", "the configuration of bowline"),
    (".agents", "the configuration of agents"),
    (".claude", "the configuration of agents"),
    (".codex", "the configuration of agents"),
    (".opencode", "the configuration of agents"),
    (".cursor", "the configuration of an editor"),
    (".vscode", "the configuration of an editor"),
    (".idea", "the configuration of an editor"),
    (".mcp.json", "the configuration of agents"),
];

/// What in `.bowline` agents write with tools of their own.
const NOTES: [&str; 3] = ["notes", "reflections", "state.json"];

/// What in the home folder runs at the next login, or opens doors.
const AT_HOME: [&str; 20] = [
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".bash_logout",
    ".profile",
    ".zshrc",
    ".zshenv",
    ".zprofile",
    ".zlogin",
    ".inputrc",
    ".gitconfig",
    ".config/git",
    ".config/fish",
    ".config/systemd",
    ".config/autostart",
    ".config/bowline",
    ".ssh",
    ".gnupg",
    ".aws",
    ".local/bin",
];

/// What in the home folder is secret.
const SECRET_AT_HOME: [&str; 14] = [
    ".ssh",
    ".aws",
    ".gnupg",
    ".azure",
    ".kube",
    ".docker/config.json",
    ".config/gh",
    ".config/gcloud",
    ".config/bowline",
    ".netrc",
    ".npmrc",
    ".pypirc",
    ".git-credentials",
    ".cargo/credentials.toml",
];

/// Names of files that hold secrets wherever they are.
const SECRET_NAMES: [&str; 12] = [
    ".netrc",
    "_netrc",
    ".npmrc",
    ".pypirc",
    ".git-credentials",
    ".pgpass",
    ".htpasswd",
    "credentials",
    "credentials.json",
    "credentials.toml",
    "secrets.json",
    "service-account.json",
];

/// Names that are examples of such files.
const EXAMPLES: [&str; 6] = ["example", "sample", "template", "dist", "defaults", "schema"];

const SECRET_ENDINGS: [&str; 6] = [".pem", ".p12", ".pfx", ".jks", ".keystore", ".key"];

const SECRET_KEYS: [&str; 5] = ["id_rsa", "id_ed25519", "id_ecdsa", "id_dsa", "id_xmss"];

impl Places {
    /// Finds the places of a process.
    pub fn new(environment: &Environment, folders: &Folders) -> Self {
        let home = environment.get("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
        let own = both(&folders.data).into_iter().chain(both(&folders.cache));
        Self {
            home: home.as_deref().map(both).unwrap_or_default(),
            work: both(&environment.cwd),
            added: Vec::new(),
            temp: Vec::new(),
            own: own.collect(),
            config: both(&folders.config).into_iter().chain(both(&folders.system)).collect(),
            recorded: both(&folders.undo()),
            standing: Arc::default(),
        }
    }

    /// Adds a folder to the workspace.
    pub fn add(&mut self, folder: &Path) {
        self.added.extend(both(&self.absolute(folder)));
    }

    /// Says where temporary files are.
    pub fn set_temp(&mut self, folder: &Path) {
        self.temp = both(folder);
    }

    /// Shares what was found in the workspace with others who look there.
    pub(crate) fn share(&mut self, standing: &Arc<Standing>) {
        self.standing = Arc::clone(standing);
    }

    /// Returns the places that examples of rules are about.
    pub(super) fn of_examples() -> Self {
        let (home, work) = (vec![PathBuf::from("/home/me")], vec![PathBuf::from("/work")]);
        Self { home, work, ..Self::default() }
    }

    /// Returns the working folder.
    pub fn work(&self) -> &Path {
        self.work.first().map_or(Path::new("/"), PathBuf::as_path)
    }

    /// Returns a path as a command names it: `~/` is the home folder, and what is relative is in the
    /// working folder.
    pub(super) fn absolute(&self, path: &Path) -> PathBuf {
        match (path.strip_prefix("~"), self.home.first()) {
            (Ok(rest), Some(home)) => home.join(rest),
            (Ok(_), None) | (Err(_), _) => self.work().join(path),
        }
    }

    /// Returns the folders of the workspace, as they really are.
    pub(super) fn roots(&self) -> impl Iterator<Item = &PathBuf> {
        self.work.last().into_iter().chain(&self.added)
    }

    /// Looks at an absolute path.
    pub(super) fn see(&self, path: &Path) -> Seen {
        Seen::new(self.form(plain(path)), self.form(real(path)))
    }

    /// Takes an absolute path that is known to have no links in it.
    pub(super) fn see_real(&self, path: &Path) -> Seen {
        let form = self.form(path.to_owned());
        Seen::new(form.clone(), form)
    }

    fn form(&self, path: PathBuf) -> Form {
        let names = path.iter().skip(1).map(|name| name.to_string_lossy().into_owned());
        let below = |folders: &[PathBuf]| {
            let folder = folders.iter().find(|folder| path.starts_with(folder))?;
            Some(folder.iter().count().saturating_sub(1))
        };
        let (work, home) = (below(&self.work), below(&self.home));
        Form { names: names.collect(), work, home, path }
    }

    /// Tells whether a path is in the workspace, as it is written and as it really is.
    pub(super) fn holds(&self, seen: &Seen) -> bool {
        seen.all(|form| self.root_of(form).is_some())
    }

    fn root_of(&self, form: &Form) -> Option<&PathBuf> {
        // The innermost first: a workspace may hold what bowline keeps.
        self.temp
            .iter()
            .chain(&self.work)
            .chain(&self.added)
            .find(|root| form.path.starts_with(root))
    }

    /// Returns why a file should not be written although it is in the workspace.
    pub(super) fn protected(&self, seen: &Seen) -> Option<Special> {
        seen.find(|form| self.protected_at(form))
    }

    /// Returns why a file should not be read without a question.
    pub(super) fn secret(&self, seen: &Seen) -> Option<Special> {
        seen.find(|form| self.secret_at(form))
    }

    fn protected_at(&self, form: &Form) -> Option<Special> {
        // The workspace itself may lie in such a folder.
        let root = self.root_of(form);
        if root.is_some_and(|root| self.temp.contains(root)) {
            // Nobody believes what is in a folder that is gone when bowline ends.
            return None;
        }
        let above = root.map_or(0, |root| root.iter().count().saturating_sub(1));
        let names = form.names.get(above..).unwrap_or_default();
        for (at, name) in names.iter().enumerate() {
            let Some((known, what)) = PROTECTED.iter().find(|(known, _)| name == known) else {
                continue;
            };
            let is_note = names.get(at + 1).is_some_and(|next| NOTES.contains(&next.as_str()));
            if *known != ".bowline" || !is_note {
                return Some(Special { name: name.clone(), what });
            }
        }
        let kept = self.roots().flat_map(|root| self.kept_elsewhere(root));
        let kept = kept.into_iter().find(|(_, place)| form.path.starts_with(place));
        if let Some((what, place)) = kept {
            return Some(Special { name: named(&place), what });
        }
        let what = "the user's own configuration";
        below_any(&self.home, &AT_HOME, &form.path)
            .or_else(|| in_any(&self.config, &form.path))
            .map(|name| Special { name, what })
            .or_else(|| {
                // A workspace may lie in what bowline keeps: then all that is in it does.
                let own = || {
                    self.own.iter().filter(|own| !root.is_some_and(|root| root.starts_with(own)))
                };
                let name = in_any(own(), &form.path)?;
                Some(Special { name, what: "what bowline keeps" })
            })
    }

    /// Returns what is protected in a folder of the workspace and kept somewhere else, and where that is.
    fn kept_elsewhere(&self, root: &Path) -> Vec<(&'static str, PathBuf)> {
        let names = PROTECTED.map(|(name, _)| name);
        let found = self.standing.elsewhere(root, &names);
        let what = |at: usize| PROTECTED.get(at).map_or("", |(_, what)| what);
        found.iter().map(|(at, place)| (what(*at), place.clone())).collect()
    }

    fn secret_at(&self, form: &Form) -> Option<Special> {
        let name = form.names.last()?;
        if is_secret_name(name) {
            return Some(Special { name: name.clone(), what: "a file that holds secrets" });
        }
        let at_home = below_any(&self.home, &SECRET_AT_HOME, &form.path);
        let at_home = at_home.filter(|_| !name.ends_with(".pub"));
        if let Some(name) = at_home.or_else(|| in_any(&self.config, &form.path)) {
            return Some(Special { name, what: "a place of secrets" });
        }
        if let Some(name) = in_any(&self.recorded, &form.path) {
            return Some(Special { name, what: "what is recorded of files" });
        }
        let is_secret = match form.names.as_slice() {
            [proc, _, .., file] if proc == "proc" => file == "environ" || file == "mem",
            [etc, file] if etc == "etc" => file == "shadow" || file == "gshadow",
            _ => false,
        };
        is_secret.then(|| Special { name: name.clone(), what: "a file that holds secrets" })
    }

    /// Returns the secret places: those of the home folder, and what is recorded of files.
    pub(super) fn secret_places(&self) -> impl Iterator<Item = PathBuf> {
        let home = self.home.last().into_iter();
        let at_home = home.flat_map(|home| SECRET_AT_HOME.iter().map(|name| home.join(name)));
        at_home.chain(self.recorded.last().cloned())
    }

    /// Returns the files of the workspace that hold secrets.
    pub(super) fn secret_files(&self) -> impl Iterator<Item = PathBuf> {
        self.roots().flat_map(|root| below::files(root, is_secret_name))
    }

    /// Returns what is protected in a folder of the workspace, unless one of the patterns lifts that: one that
    /// names it, and means all of it.
    pub(super) fn protected_in(&self, root: &Path, lifted: &[&PathPattern]) -> Vec<PathBuf> {
        let names = PROTECTED.iter().map(|(name, _)| root.join(name));
        let mut paths: Vec<PathBuf> = names.collect();
        if self.roots().any(|own| own == root) {
            let names = PROTECTED.map(|(name, _)| name);
            paths.extend(self.standing.below(root, &names).iter().cloned());
            paths.extend(self.kept_elsewhere(root).into_iter().map(|(_, place)| place));
        }
        if let Some(home) = self.home.last().filter(|home| home.starts_with(root)) {
            paths.extend(AT_HOME.iter().map(|name| home.join(name)));
        }
        paths.retain(|path| !self.is_meant(path, lifted));
        let kept = self.config.iter().chain(self.own.iter().filter(|own| *own != root));
        paths.extend(kept.filter(|path| path.starts_with(root)).cloned());
        paths
    }

    /// Returns what is to be hidden of a place of secrets: all of it but what the patterns show.
    pub(super) fn hidden_in(&self, place: &Path, shown: &[&PathPattern]) -> Vec<PathBuf> {
        let is_within = |path: PathBuf| path != place && path.starts_with(place);
        if self.is_meant(place, shown) {
            return Vec::new();
        }
        if !shown.iter().any(|pattern| pattern.only(self).is_some_and(is_within)) {
            return vec![place.to_owned()];
        }
        let entries = below::entries(place).map(|(_, entry)| entry.path());
        entries.flat_map(|entry| self.hidden_in(&entry, shown)).collect()
    }

    /// Tells whether one of these patterns names a place, and means all of it.
    fn is_meant(&self, place: &Path, patterns: &[&PathPattern]) -> bool {
        let name = named(place);
        let form = self.form(place.to_owned());
        patterns.iter().any(|pattern| pattern.names(&name) && pattern.fits(&form))
    }
}

/// Tells whether a file of this name holds variables that are set for the project, and is no example of it.
pub(crate) fn holds_settings(name: &str) -> bool {
    let is_example = |rest: &str| rest.split(['.', '-', '_']).any(|part| EXAMPLES.contains(&part));
    [".env", ".envrc"].contains(&name)
        || name.strip_prefix(".env.").is_some_and(|rest| !is_example(rest))
}

/// Tells whether a file of this name holds secrets.
fn is_secret_name(name: &str) -> bool {
    if name.starts_with(".env.") {
        return holds_settings(name);
    }
    let has_ending = SECRET_ENDINGS.iter().any(|ending| name.ends_with(ending));
    let is_key = SECRET_KEYS.iter().any(|key| name.starts_with(key)) && !name.ends_with(".pub");
    holds_settings(name) || SECRET_NAMES.contains(&name) || has_ending || is_key
}

/// Returns the name of what holds a path, if one of these in one of the folders does.
fn below_any(folders: &[PathBuf], names: &[&str], path: &Path) -> Option<String> {
    let below = folders.iter().find_map(|folder| path.strip_prefix(folder).ok())?;
    let name = names.iter().find(|name| below.starts_with(name))?;
    Some(base(name).to_owned())
}

fn in_any<'a>(folders: impl IntoIterator<Item = &'a PathBuf>, path: &Path) -> Option<String> {
    folders.into_iter().find(|folder| path.starts_with(folder)).map(|folder| named(folder))
}

fn named(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Returns a folder as it is called and, if that differs, as it really is.
fn both(folder: &Path) -> Vec<PathBuf> {
    let (written, real) = (plain(folder), real(folder));
    if written == real { vec![written] } else { vec![written, real] }
}
