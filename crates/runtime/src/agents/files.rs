//! The files of agents: front matter with the keys of `[agents.NAME]`, and below it the instructions.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::config::{self, AgentFile, Fault, Layer, Node, Origin, Place, Table, Value};
use crate::error::ConfigError;
use crate::front_matter::{self, Cut};
use crate::project;
use crate::reading;

use super::{foreign, names};

/// A file, and what it says.
type Read = (PathBuf, Result<Option<Layer>, ConfigError>);

/// Whose form a file has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Bowline,
    Claude,
    Opencode,
}

/// The folders of a project in which agents are described; what is found in a later one counts.
const FOLDERS: [(&str, Form); 3] = [
    (".opencode/agent", Form::Opencode),
    (".claude/agents", Form::Claude),
    (".bowline/agents", Form::Bowline),
];

/// Reads the user's agents.
pub(crate) fn of_user(config_folder: &Path) -> Vec<Read> {
    folder(&config_folder.join("agents"), Form::Bowline)
}

/// Reads the agents of the project around a directory: of each kind those of the nearest folder.
pub(crate) fn of_project(cwd: &Path) -> Vec<Read> {
    let folders = project::path_to(cwd);
    let nearest = FOLDERS.iter().filter_map(|(name, form)| {
        let found = folders.iter().rev().map(|folder| folder.join(name)).find(|it| it.is_dir())?;
        Some((found, *form))
    });
    nearest.flat_map(|(path, form)| folder(&path, form)).collect()
}

fn folder(folder: &Path, form: Form) -> Vec<Read> {
    let failed = |source: io::Error| ConfigError::Read { path: folder.to_owned(), source };
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Vec::new(),
        Err(error) => return vec![(folder.to_owned(), Err(failed(error)))],
    };
    let mut paths: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    paths.sort();
    let read = |path: &Path| match (form, file(path, form)) {
        (Form::Claude | Form::Opencode, Err(error)) => Ok(Some(refused(path, &error))),
        (_, read) => read,
    };
    paths.into_iter().map(|path| (path.clone(), read(&path))).collect()
}

/// Makes a layer without an agent, which says why: others read the file too, so that nothing here can
/// be made of it is no reason not to start.
fn refused(path: &Path, error: &ConfigError) -> Layer {
    let notes = vec![format!("not taken: {error}")];
    // Nobody is called so, and nobody gives way to it.
    let name = String::new();
    let agent = AgentFile { name, path: path.to_owned(), is_foreign: true, notes };
    Layer { agent: Some(agent), ..Layer::of(Table::new()) }
}

fn file(path: &Path, form: Form) -> Result<Option<Layer>, ConfigError> {
    let failed = |source| ConfigError::Read { path: path.to_owned(), source };
    let text = match form {
        Form::Bowline => reading::text_of(path).map_err(failed)?,
        Form::Claude | Form::Opencode => {
            String::from_utf8_lossy(&reading::bytes_of(path).map_err(failed)?).into_owned()
        }
    };
    let origin = Arc::new(Origin::File(path.to_owned()));
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let read = match form {
        Form::Bowline => ours(&text, &stem, &origin).map(Some),
        Form::Claude => foreign::claude(&text, &stem, &origin).map(Some),
        Form::Opencode => foreign::opencode(&text, &stem, &origin),
    };
    let described = read.map_err(config::as_error)?;
    let Some(Described { name, table, left_out }) = described else { return Ok(None) };
    if let Some(what) = names::wrong_name(&name) {
        return Err(ConfigError::Invalid {
            path: path.to_owned(),
            what: format!("{name:?}: {what}"),
        });
    }
    let notes = match left_out.as_slice() {
        [] => Vec::new(),
        names => vec![format!("{}: not taken: {}", path.display(), names.join(", "))],
    };
    let place = Place { origin, line: None };
    let table = config::below(
        &["agents".to_owned(), name.clone()],
        Node { value: Value::Table(table), place: place.clone() },
        &place,
    );
    config::check(&table).map_err(config::as_errors)?;
    let is_foreign = form != Form::Bowline;
    let agent = AgentFile { name, path: path.to_owned(), is_foreign, notes };
    Ok(Some(Layer { agent: Some(agent), ..Layer::of(table) }))
}

/// What a file says of an agent, in our shape.
pub(super) struct Described {
    pub(super) name: String,
    pub(super) table: Table,
    /// What means nothing here.
    pub(super) left_out: Vec<String>,
}

fn ours(text: &str, stem: &str, origin: &Arc<Origin>) -> Result<Described, Fault> {
    let wrong = |line: Option<usize>, what: String| {
        let place = Some(Place { origin: Arc::clone(origin), line });
        Fault { place, what, is_unknown_key: false }
    };
    let Parts { matter, body, line } = split(text).map_err(|what| wrong(Some(1), what))?;
    let table = config::yaml(&matter, origin);
    let mut table = table.map_err(|(line, what)| wrong(line, what))?;
    config::agent_to_ours(&mut table).map_err(|(line, what)| wrong(line, what))?;
    let name = match table.remove("name") {
        None => stem.to_owned(),
        Some(node) => match node.as_str().filter(|name| !name.trim().is_empty()) {
            Some(name) => name.to_owned(),
            None => return Err(wrong(node.place.line, "name: a text is expected".to_owned())),
        },
    };
    if !body.trim().is_empty() {
        if let Some(node) = table.get("instructions") {
            let what = "instructions: they stand below the front matter too; keep one".to_owned();
            return Err(wrong(node.place.line, what));
        }
        table.insert("instructions".to_owned(), instructions(&body, line, origin));
    }
    Ok(Described { name, table, left_out: Vec::new() })
}

/// Makes a node of the text below the front matter.
pub(super) fn instructions(body: &str, line: usize, origin: &Arc<Origin>) -> Node {
    let place = Place { origin: Arc::clone(origin), line: Some(line) };
    Node { value: Value::Leaf(body.trim().into()), place }
}

/// A Markdown file with front matter.
pub(super) struct Parts {
    /// The front matter, with an empty line in the place of its first `---`.
    pub(super) matter: String,
    pub(super) body: String,
    /// The line at which the body begins.
    pub(super) line: usize,
}

/// Takes a file apart. Without front matter all of it is body.
pub(super) fn split(text: &str) -> Result<Parts, String> {
    let Cut { header, body, is_unclosed, line } = front_matter::cut(text);
    if is_unclosed {
        return Err("the front matter that begins here has no end: a line with ---".to_owned());
    }
    // Its lines are those of the file.
    let matter = header.map(|header| format!("\n{header}")).unwrap_or_default();
    Ok(Parts { matter, body, line })
}
