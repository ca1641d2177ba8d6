//! The layers of the configuration: where they come from, and what they make together.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::agents::{files, names};
use crate::environment::{Environment, Folders};
use crate::error::ConfigError;
use crate::hooks::{self, Hook};
use crate::mcp;
use crate::permission::{self, Managed};
use crate::project;
use crate::reading;
use crate::skills;
use crate::trust::Trusted;
use bowline_agent::visible::on_one_line;

use super::assigned::{set, variable_layer};
use super::check::{self, Fault, as_error, as_errors};
use super::node::{self, Node, Origin, Place, Table, Value};
use super::{Config, Flags, read, seeds};

/// One layer of the configuration.
#[derive(Debug, Clone)]
pub struct Layer {
    /// What it says.
    pub table: Table,
    /// Whether it counts: what a project says counts only when the project is trusted.
    pub is_applied: bool,
    /// Sections of other programs that mean nothing here.
    pub ignored: Vec<String>,
    /// The agent of which it says everything, if it is an agent's file.
    pub(crate) agent: Option<AgentFile>,
}

/// A file that says everything of one agent.
#[derive(Debug, Clone)]
pub(crate) struct AgentFile {
    /// The name of the agent.
    pub(crate) name: String,
    /// Where it is.
    pub(crate) path: PathBuf,
    /// Whether another program reads it too: what it says may mean nothing here.
    pub(crate) is_foreign: bool,
    /// What a person should know of it, one line each.
    pub(crate) notes: Vec<String>,
}

/// Whose files count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Trust {
    /// The user's and those for everybody on this machine.
    #[default]
    User,
    /// Those of the project too.
    Project,
}

impl Layer {
    /// Makes a layer that counts.
    pub(crate) fn of(table: Table) -> Self {
        Self { table, is_applied: true, ignored: Vec::new(), agent: None }
    }

    /// Returns the agents of which it says something.
    pub(crate) fn agents(&self) -> impl Iterator<Item = (&String, &Node)> {
        self.table.get("agents").and_then(Node::as_table).into_iter().flatten()
    }
}

/// What the command line says about the configuration.
#[derive(Debug, Clone, Default)]
pub struct Said {
    /// The profile.
    pub profile: Option<String>,
    /// Assignments `key=value`.
    pub assignments: Vec<String>,
    /// Whether the project is trusted for this start.
    pub trust: bool,
    /// What flags say.
    pub flags: Flags,
}

impl Said {
    /// Returns the profile that counts: that of the command line, else that of the environment.
    pub fn profile<'a>(&'a self, environment: &'a Environment) -> Option<&'a str> {
        self.profile.as_deref().or(environment.get("BOWLINE_PROFILE"))
    }
}

/// The configuration and what it is made of.
#[derive(Debug, Clone, Default)]
pub struct Loaded {
    /// The configuration.
    pub config: Config,
    /// All layers that count, laid over each other.
    pub merged: Table,
    /// The layers, later ones winning.
    pub layers: Vec<Layer>,
    /// What a person should know, one line each.
    pub notes: Vec<String>,
    /// What who looks after this machine says.
    pub managed: Managed,
    /// What flags of the command line say.
    pub flags: Flags,
    /// All commands that are to run at moments of a session, also those that do not.
    pub hooks: Vec<Hook>,
    /// Whose files count.
    pub(crate) trust: Trust,
}

impl Loaded {
    /// Tells whether what the project brings counts.
    pub fn is_trusted(&self) -> bool {
        self.trust == Trust::Project
    }
}

/// A file of the configuration, whether it is there or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// What it is.
    pub kind: Kind,
    /// Where it is, or would be.
    pub path: PathBuf,
}

/// What a file of the configuration is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// For everybody on this machine.
    System,
    /// The user's.
    User,
    /// The project's, for everybody who works on it.
    Project,
    /// The project's, for this user.
    Local,
    /// A profile's.
    Profile,
}

impl Kind {
    /// Returns its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Project => "project",
            Self::Local => "project, local",
            Self::Profile => "profile",
        }
    }
}

impl Trust {
    /// Tells whose files count in a directory.
    pub(crate) fn of(folders: &Folders, environment: &Environment, said: &Said) -> Self {
        let is_trusted = || said.trust || Trusted::new(folders).holds(&environment.cwd);
        match may_trust(folders) && is_trusted() {
            true => Self::Project,
            false => Self::User,
        }
    }
}

/// Tells whether users may trust folders on this machine. A file that cannot be read does not say that they
/// may; what is wrong with it is told elsewhere.
fn may_trust(folders: &Folders) -> bool {
    Managed::read(folders).is_ok_and(|managed| managed.trust != Some(false))
}

/// Reads all layers. What a project says counts only if it is trusted.
///
/// # Errors
/// [`ConfigError`] with what is wrong and where.
pub fn load(
    folders: &Folders,
    environment: &Environment,
    said: &Said,
) -> Result<Loaded, ConfigError> {
    let trust = Trust::of(folders, environment, said);
    let (loaded, faults) = read_all(folders, environment, said, trust);
    faults.into_iter().next().map_or(Ok(loaded), Err)
}

/// Reads all layers, and finds all that is wrong with them.
pub(crate) fn read_all(
    folders: &Folders,
    environment: &Environment,
    said: &Said,
    trust: Trust,
) -> (Loaded, Vec<ConfigError>) {
    let loaded = Loaded { trust, ..Loaded::default() };
    let mut reading = Reading { loaded, faults: Vec::new(), environment };
    reading.files(folders, trust);
    if let Some(name) = said.profile(environment) {
        let layers = profile(name, &reading.loaded.layers, folders, environment);
        let layers = reading.sound(layers);
        reading.loaded.layers.extend(layers.into_iter().flatten());
    }
    for (name, value) in &environment.vars {
        if let Some(name_after) = name.strip_prefix("BOWLINE_") {
            let layer = variable_layer(name, name_after, value, &mut reading.loaded);
            reading.sound(layer);
        }
    }
    for assignment in &said.assignments {
        let layer = reading.sound(set(assignment));
        reading.loaded.layers.extend(layer);
    }
    reading.loaded.layers.extend(said.flags.layer());
    reading.loaded.flags = said.flags.clone();
    reading.loaded.managed = reading.sound(Managed::read(folders)).unwrap_or_default();
    reading.lay(folders)
}

/// Layers while they are read.
struct Reading<'a> {
    loaded: Loaded,
    faults: Vec<ConfigError>,
    environment: &'a Environment,
}

/// Something that was looked for at a path; `None` if it is not there.
type Found = (PathBuf, Result<Option<Layer>, ConfigError>);

impl Reading<'_> {
    /// Keeps what is wrong for later.
    fn sound<T>(&mut self, result: Result<T, ConfigError>) -> Option<T> {
        result.map_err(|fault| self.faults.push(fault)).ok()
    }

    /// Reads the files: those of agents before those that must not say the same again.
    fn files(&mut self, folders: &Folders, trust: Trust) {
        let sources = sources(folders, self.environment, None);
        let (mut own, mut of_project) = (Vec::new(), files::of_project(&self.environment.cwd));
        for Source { kind, path } in self.sound(sources).into_iter().flatten() {
            let layer = file(&path, self.environment);
            match kind {
                Kind::User => {
                    own.extend(files::of_user(&folders.config));
                    own.push((path, layer));
                }
                Kind::System | Kind::Profile => own.push((path, layer)),
                Kind::Project | Kind::Local => of_project.push((path, layer)),
            }
        }
        own.into_iter().for_each(|found| self.take(found));
        match trust {
            Trust::Project => of_project.into_iter().for_each(|found| self.take(found)),
            Trust::User => {
                let skills = skills::places(folders, self.environment, false);
                let skills = skills.into_iter().filter(|place| !place.is_applied);
                let skills =
                    skills.map(|place| place.folder).filter(|folder| skills::has_any(folder));
                let others = skills.chain(hooks::of_project(self.environment));
                not_trusted(of_project, others, may_trust(folders), &mut self.loaded);
            }
        }
    }

    /// Takes a file that counts. An agent of which a file says everything must not be configured
    /// elsewhere; another program's file gives way.
    fn take(&mut self, (_, layer): Found) {
        let Some(layer) = self.sound(layer).flatten() else { return };
        for (name, node) in layer.agents() {
            let is_its = |agent: &AgentFile| agent.name == *name;
            let same = self
                .loaded
                .layers
                .iter_mut()
                .rfind(|other| other.is_applied && other.agent.as_ref().is_some_and(is_its));
            let Some(Layer { is_applied, agent: Some(other), .. }) = same else { continue };
            let is_beside = match &layer.agent {
                Some(agent) => agent.path.parent() == other.path.parent(),
                None => true,
            };
            if !is_beside || other.is_foreign {
                // The nearer file says everything anew.
                *is_applied = false;
                continue;
            }
            let what = format!("the agent {name:?} is also in {}; keep one", other.path.display());
            self.faults.push(as_error(Fault {
                place: Some(node.place.clone()),
                what,
                is_unknown_key: false,
            }));
        }
        self.loaded.layers.push(layer);
    }

    /// Lays the layers over each other.
    fn lay(mut self, folders: &Folders) -> (Loaded, Vec<ConfigError>) {
        let loaded = &mut self.loaded;
        for layer in loaded.layers.iter().filter(|layer| layer.is_applied) {
            if let (Some(agent), Some(node)) = (&layer.agent, loaded.merged.get_mut("agents"))
                && let Value::Table(agents) = &mut node.value
            {
                agents.remove(&agent.name);
            }
            node::merge(&mut loaded.merged, &layer.table);
        }
        match check::check_all(&loaded.merged) {
            Ok(config) => loaded.config = config,
            // What is wrong within one layer was found there.
            Err(faults) if self.faults.is_empty() => self.faults.push(as_errors(faults)),
            Err(_) => {}
        }
        let skills = skills::names(&skills::places(folders, self.environment, loaded.is_trusted()));
        let faults = names::check(loaded, &skills);
        self.faults.extend(faults.into_iter().map(as_error));
        self.faults.extend(permission::check(loaded).map(as_error));
        let unknown = names::unknown_in_rules(loaded, folders);
        loaded.notes.extend(unknown);
        note_without_effect(loaded);
        let found = match hooks::find(&self.loaded, folders, self.environment) {
            Ok(found) => found,
            Err(faults) => {
                // What the last layer says of hooks was read with the rest of it.
                if self.faults.is_empty() {
                    self.faults.push(as_errors(faults));
                }
                hooks::Found::default()
            }
        };
        self.loaded.hooks = found.hooks;
        self.loaded.notes.extend(found.notes);
        // Each is told in one line, and names what strangers wrote.
        let notes = self.loaded.notes.iter().map(|note| on_one_line(note).into_owned());
        self.loaded.notes = notes.collect();
        (self.loaded, self.faults)
    }
}

/// Keeps what a project says, without applying it; says so in one line.
fn not_trusted(
    results: Vec<Found>,
    others: impl Iterator<Item = PathBuf>,
    may_trust: bool,
    loaded: &mut Loaded,
) {
    let mut paths = Vec::new();
    for (path, result) in results {
        match result {
            Ok(None) => {}
            Ok(Some(layer)) => {
                // Of agents the folder says enough.
                let folder = layer.agent.as_ref().and_then(|agent| agent.path.parent());
                let shown = folder.unwrap_or(&path).display().to_string();
                if !paths.contains(&shown) {
                    paths.push(shown);
                }
                loaded.layers.push(Layer { is_applied: false, ..layer });
            }
            Err(error) => loaded.notes.extend(
                error.each().iter().map(|fault| format!("not applied, and would not be: {fault}")),
            ),
        }
    }
    paths.extend(others.map(|path| path.display().to_string()));
    if !paths.is_empty() {
        let paths = paths.join(", ").replace(char::is_control, "\u{fffd}");
        let what_to_do = match may_trust {
            true => "look at them, then say --trust, or once and for all `bowline trust`",
            false => "whoever looks after this machine does not let users trust folders",
        };
        loaded.notes.push(format!("not applied: {paths}; the folder is not trusted: {what_to_do}"));
    }
}

fn note_without_effect(loaded: &mut Loaded) {
    let applied = loaded.layers.iter().filter(|layer| layer.is_applied);
    let ignored = applied.flat_map(|layer| layer.ignored.iter().map(String::as_str));
    let mut names: Vec<_> = loaded.config.without_effect();
    for name in ignored {
        if !names.iter().any(|other| other == name) {
            names.push(name.to_owned());
        }
    }
    if !names.is_empty() {
        loaded.notes.push(format!("no effect in this version: {}", names.join(", ")));
    }
}

/// Returns the files of the configuration in the order of their layers, later ones winning.
///
/// # Errors
/// [`ConfigError::Invalid`] if a folder holds a TOML and a YAML one.
pub fn sources(
    folders: &Folders,
    environment: &Environment,
    profile: Option<&str>,
) -> Result<Vec<Source>, ConfigError> {
    let mut sources = vec![
        source(Kind::System, &folders.system, "config")?,
        source(Kind::User, &folders.config, "config")?,
    ];
    if let Some(path) = project::mcp_file(&environment.cwd) {
        sources.push(Source { kind: Kind::Project, path });
    }
    if let Some(folder) = project::bowline_folder(&environment.cwd) {
        sources.push(source(Kind::Project, &folder, "config")?);
        sources.push(source(Kind::Local, &folder, "config.local")?);
    }
    if let Some(profile) = profile {
        sources.push(source(Kind::Profile, &folders.config, &format!("{profile}.config"))?);
    }
    Ok(sources)
}

fn source(kind: Kind, folder: &Path, stem: &str) -> Result<Source, ConfigError> {
    let toml = folder.join(format!("{stem}.toml"));
    let yaml = ["yaml", "yml"].map(|extension| folder.join(format!("{stem}.{extension}")));
    let yaml = yaml.into_iter().find(|path| path.exists());
    let path = match yaml {
        Some(yaml) if toml.exists() => {
            let what = format!("there is {} too; keep one of them", toml.display());
            return Err(ConfigError::Invalid { path: yaml, what });
        }
        Some(yaml) => yaml,
        None => toml,
    };
    Ok(Source { kind, path })
}

/// Reads a file; `None` if there is none.
///
/// # Errors
/// [`ConfigError`] with the file and the line of what is wrong.
pub fn file(path: &Path, environment: &Environment) -> Result<Option<Layer>, ConfigError> {
    let text = match reading::text_of(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(ConfigError::Read { path: path.to_owned(), source }),
    };
    let origin = Arc::new(Origin::File(path.to_owned()));
    let is_toml = path.extension().is_some_and(|extension| extension == "toml");
    // JSON is YAML.
    let read = if is_toml { read::toml(&text, &origin) } else { read::yaml(&text, &origin) };
    let lookup = |name: &str| environment.get(name).map(str::to_owned);
    let is_mcp = path.file_name().is_some_and(|name| name == project::MCP_FILE);
    let ours = read.and_then(|table| match is_mcp {
        true => mcp::to_ours(table).map(|(table, ignored)| seeds::Ours { table, ignored }),
        false => seeds::to_ours(table, &lookup),
    });
    let ours = ours.map_err(|(line, what)| {
        as_error(Fault { place: Some(Place { origin, line }), what, is_unknown_key: false })
    })?;
    check::check(&ours.table).map_err(as_errors)?;
    Ok(Some(Layer { ignored: ours.ignored, ..Layer::of(ours.table) }))
}

/// Reads a TOML file as it is; `None` if there is none.
pub(crate) fn table_of(path: &Path) -> Result<Option<Table>, ConfigError> {
    let text = match reading::text_of(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(ConfigError::Read { path: path.to_owned(), source }),
    };
    let origin = Arc::new(Origin::File(path.to_owned()));
    let table = read::toml(&text, &origin);
    table.map(Some).map_err(|(line, what)| {
        as_error(Fault { place: Some(Place { origin, line }), what, is_unknown_key: false })
    })
}

/// Makes the layers of a profile: `[profiles.NAME]` of the files, then the file `NAME.config.toml`
/// in the user's folder.
fn profile(
    name: &str,
    layers: &[Layer],
    folders: &Folders,
    environment: &Environment,
) -> Result<Vec<Layer>, ConfigError> {
    let wrong = |what: String| ConfigError::Profile { name: name.to_owned(), what };
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.is_empty() || name.starts_with('.') || !name.chars().all(is_name) {
        return Err(wrong("a name has only letters, digits, `-`, `_` and `.`".to_owned()));
    }
    let path = ["profiles".to_owned(), name.to_owned()];
    let sections = layers.iter().filter(|layer| layer.is_applied);
    let sections = sections.filter_map(|layer| node::find(&layer.table, &path)?.as_table());
    let mut found: Vec<_> = sections.map(|table| Layer::of(table.clone())).collect();
    let source = source(Kind::Profile, &folders.config, &format!("{name}.config"))?;
    found.extend(file(&source.path, environment)?);
    if found.is_empty() {
        let file = source.path.display();
        return Err(wrong(format!("there is no {file} and no [profiles.{name}]")));
    }
    Ok(found)
}
