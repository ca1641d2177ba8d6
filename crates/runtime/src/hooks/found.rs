//! Where hooks come from.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::claude;
use super::config::{Event, HookConfig, Matcher};
use crate::config::{self, Fault, Layer, Loaded, Node, Table, Value};
use crate::environment::{Environment, Folders};
use crate::permission::Kind;
use crate::project;

/// A hook, and where it comes from.
#[derive(Debug, Clone)]
pub struct Hook {
    /// At which moment it runs.
    pub event: Event,
    /// About what.
    pub matcher: Matcher,
    /// What runs, as a shell takes it.
    pub command: String,
    /// How long it may take.
    pub timeout: Duration,
    /// Whether nobody waits for it.
    pub is_async: bool,
    /// How tools and their arguments are called in what it reads.
    pub speech: Speech,
    /// Who says it.
    pub layer: Kind,
    /// Where it stands.
    pub place: String,
    /// Why it does not run; `None` if it does.
    pub off: Option<&'static str>,
}

/// How tools and their arguments are called in what a hook reads and says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Speech {
    /// As the model calls them.
    Bowline,
    /// As Claude Code does, from whose settings the hook is.
    Claude,
}

/// All hooks, in the order in which what they say counts, and what a person should know of them.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) hooks: Vec<Hook>,
    pub(crate) notes: Vec<String>,
}

const UNTRUSTED: &str = "the folder is not trusted";
const SWITCHED_OFF: &str = "hooks are switched off";
const ONLY_MANAGED: &str = "only managed hooks run on this machine";

/// Finds all hooks of a configuration that has been read.
///
/// # Errors
/// What is wrong with one of the configuration's own, and where.
pub(crate) fn find(
    loaded: &Loaded,
    folders: &Folders,
    environment: &Environment,
) -> Result<Found, Vec<Fault>> {
    let mut found = Found { hooks: loaded.managed.hooks.clone(), notes: Vec::new() };
    let mut own = Vec::new();
    for layer in &loaded.layers {
        own.extend(of_layer(layer, folders)?);
    }
    let mut is_off = loaded.config.hooks_enabled == Some(false);
    for Settings { path, layer } in settings(environment) {
        let Some(file) = claude::read(&path) else { continue };
        let off = (layer != Kind::User && !loaded.is_trusted()).then_some(UNTRUSTED);
        if off.is_none() {
            is_off |= file.is_off;
            if !file.notes.is_empty() {
                found.notes.push(format!("{}: {}", path.display(), file.notes.join("; ")));
            }
        }
        own.extend(file.hooks.into_iter().map(|hook| Hook {
            event: hook.event,
            matcher: hook.matcher,
            command: hook.command,
            timeout: hook.timeout,
            is_async: hook.is_async,
            speech: Speech::Claude,
            layer,
            place: path.display().to_string(),
            off,
        }));
    }
    let switched = match (loaded.managed.only_managed_hooks, is_off) {
        (true, _) => Some(ONLY_MANAGED),
        (false, true) => Some(SWITCHED_OFF),
        (false, false) => None,
    };
    own.iter_mut().for_each(|hook| hook.off = hook.off.or(switched));
    found.hooks.extend(own);
    Ok(found)
}

fn of_layer(layer: &Layer, folders: &Folders) -> Result<Vec<Hook>, Vec<Fault>> {
    let Some(first) = layer.table.get("hooks") else { return Ok(Vec::new()) };
    let kind = Kind::of(&first.place.origin, folders);
    let off = (!layer.is_applied).then_some(UNTRUSTED);
    let hooks = of_table(&layer.table, kind)?;
    Ok(hooks.into_iter().map(|hook| Hook { off, ..hook }).collect())
}

/// Returns the hooks of a table that has them under `hooks`.
///
/// # Errors
/// All that is wrong with the first one with which something is.
pub(crate) fn of_table(table: &Table, layer: Kind) -> Result<Vec<Hook>, Vec<Fault>> {
    let items = match table.get("hooks").map(|node| &node.value) {
        Some(Value::List(items)) => items.as_slice(),
        Some(Value::Leaf(_) | Value::Table(_)) | None => &[],
    };
    items.iter().map(|item| of_node(item, layer)).collect()
}

fn of_node(node: &Node, layer: Kind) -> Result<Hook, Vec<Fault>> {
    let table = node.as_table().cloned().unwrap_or_default();
    let config: HookConfig = config::read_as(&table)?;
    Ok(Hook {
        event: config.event,
        matcher: config.matcher,
        command: config.command,
        timeout: config.timeout,
        is_async: config.is_async,
        speech: Speech::Bowline,
        layer,
        place: node.place.to_string(),
        off: None,
    })
}

/// A file of Claude Code's settings, whether it is there or not.
struct Settings {
    path: PathBuf,
    layer: Kind,
}

fn settings(environment: &Environment) -> Vec<Settings> {
    let user = environment.get("HOME").map(Path::new);
    let own = user.map(|home| claude::files(home)[0].clone());
    let own = own.into_iter().map(|path| Settings { path, layer: Kind::User });
    let home = user.map(Path::to_path_buf);
    let of_project = project::path_to(&environment.cwd).into_iter().rev();
    // The user's own are no project's.
    let folder = of_project
        .filter(|folder| home.as_deref() != Some(*folder))
        .find(|folder| folder.join(".claude").is_dir());
    let of_project = folder.into_iter().flat_map(claude::files);
    let layers = [Kind::Project, Kind::Local];
    let of_project = of_project.zip(layers).map(|(path, layer)| Settings { path, layer });
    own.chain(of_project).collect()
}

/// Returns the files of another program in the project that bring hooks.
pub(crate) fn of_project(environment: &Environment) -> Vec<PathBuf> {
    let all = settings(environment).into_iter().filter(|settings| settings.layer != Kind::User);
    let has_any = |path: &PathBuf| claude::read(path).is_some_and(|file| !file.hooks.is_empty());
    all.map(|settings| settings.path).filter(has_any).collect()
}
