//! Hooks of Claude Code, as they stand in its settings, and what they expect to read.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value};

use bowline_agent::visible::name;

use super::config::{Event, Matcher, a_minute};
use crate::config::Mode;
use crate::reading::text_of;

/// What of a file of settings is about hooks.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Settings {
    hooks: Map<String, Value>,
    disable_all_hooks: bool,
}

/// Hooks of one event that are about the same.
#[derive(Debug, Deserialize)]
#[serde(expecting = "an object")]
struct Group {
    #[serde(default)]
    matcher: Option<String>,
    hooks: Vec<Value>,
}

/// A hook as it is written.
#[derive(Debug, Deserialize)]
#[serde(expecting = "an object")]
struct Written {
    #[serde(default)]
    r#type: String,
    #[serde(default)]
    command: String,
    #[serde(default)]
    timeout: Option<Value>,
    #[serde(default)]
    r#async: bool,
    #[serde(default)]
    r#if: Option<Value>,
}

/// A hook of a file of settings.
#[derive(Debug, Clone)]
pub(super) struct Read {
    pub(super) event: Event,
    pub(super) matcher: Matcher,
    pub(super) command: String,
    pub(super) timeout: Duration,
    pub(super) is_async: bool,
}

/// What a file of settings says.
#[derive(Debug, Default)]
pub(super) struct File {
    pub(super) hooks: Vec<Read>,
    /// Whether hooks are switched off.
    pub(super) is_off: bool,
    /// What a person should know, without the name of the file.
    pub(super) notes: Vec<String>,
}

/// Reads a file of settings; `None` if there is none. It is another program's: what cannot be used is
/// said and left out.
pub(super) fn read(path: &Path) -> Option<File> {
    let text = match text_of(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return None,
        Err(error) => {
            return Some(File {
                notes: vec![format!("cannot be read: {error}")],
                ..File::default()
            });
        }
    };
    let settings: Settings = match serde_json::from_str(&text) {
        Ok(settings) => settings,
        Err(error) => {
            return Some(File { notes: vec![format!("is not read: {error}")], ..File::default() });
        }
    };
    let mut file = File { is_off: settings.disable_all_hooks, ..File::default() };
    for (name, groups) in settings.hooks {
        let Some(event) = Event::named(&name) else {
            file.notes.push(format!("the hooks of {name} are left out, an event that is not here"));
            continue;
        };
        file.take_event(event, &groups);
    }
    Some(file)
}

impl File {
    /// Takes the hooks of an event: what is wrong with one is no reason to do without the others, which may
    /// be there to forbid something.
    fn take_event(&mut self, event: Event, groups: &Value) {
        let Value::Array(groups) = groups else {
            self.notes.push(format!("{event} is left out: a list is expected"));
            return;
        };
        for (group, at) in groups.iter().zip(1..) {
            if let Err(what) = self.take_group(event, at, group) {
                self.notes.push(format!("{event} {at} is left out: {what}"));
            }
        }
    }

    fn take_group(&mut self, event: Event, at: usize, group: &Value) -> Result<(), String> {
        let group = Group::deserialize(group).map_err(|error| error.to_string())?;
        let matcher = Matcher::parse(group.matcher.as_deref().unwrap_or_default())?;
        for (hook, number) in group.hooks.iter().zip(1..) {
            let place = format!("{event} {at}, hook {number}");
            match Written::deserialize(hook) {
                Ok(hook) => self.take(event, &matcher, hook, &place),
                Err(error) => self.notes.push(format!("{place} is left out: {error}")),
            }
        }
        Ok(())
    }

    fn take(&mut self, event: Event, matcher: &Matcher, hook: Written, place: &str) {
        let kind = &hook.r#type;
        if kind != "command" {
            self.notes.push(format!(
                "a hook of {event} is left out, because it is of the kind {kind:?} and no command"
            ));
            return;
        }
        if hook.command.trim().is_empty() {
            self.notes.push(format!("{place} is left out: it has no command"));
            return;
        }
        if hook.r#if.is_some() {
            let note = format!("`if` is not read, and {:?} always runs", hook.command);
            self.notes.push(note);
        }
        let time = hook.timeout.unwrap_or_default();
        let seconds = time.as_f64().and_then(|time| Duration::try_from_secs_f64(time).ok());
        let seconds = seconds.filter(|time| !time.is_zero());
        if seconds.is_none() && !time.is_null() {
            let usual = a_minute().as_secs();
            self.notes.push(format!("{place}: {time} is no time in seconds, so it has {usual}"));
        }
        self.hooks.push(Read {
            event,
            matcher: matcher.clone(),
            command: hook.command,
            timeout: seconds.unwrap_or_else(a_minute),
            is_async: hook.r#async,
        });
    }
}

/// The tools that have another name there.
const TOOLS: [(&str, &str); 12] = [
    ("ask_user", "AskUserQuestion"),
    ("bash", "Bash"),
    ("delegate", "Task"),
    ("edit", "Edit"),
    ("fetch", "WebFetch"),
    ("glob", "Glob"),
    ("grep", "Grep"),
    ("list", "LS"),
    ("load_skill", "Skill"),
    ("read", "Read"),
    ("update_plan", "TodoWrite"),
    ("write", "Write"),
];

/// Returns the names that a matcher may mean by a tool: ours, theirs, and of patches, which are not
/// there, those of what else changes files.
pub(super) fn names(ours: &str) -> Vec<&str> {
    match ours {
        "apply_patch" => vec![ours, "edit", "Edit", "write", "Write"],
        _ => vec![ours, tool_name(ours)],
    }
}

/// Returns the name that a tool has there.
pub(super) fn tool_name(ours: &str) -> &str {
    TOOLS.iter().find(|(name, _)| *name == ours).map_or(ours, |(_, theirs)| theirs)
}

/// The tools whose `path` is called `file_path` there.
const OF_FILES: [&str; 3] = ["edit", "read", "write"];

/// Returns the arguments of a call as they are written there: files by their whole paths.
pub(super) fn arguments(tool: &str, ours: Value, cwd: &Path) -> Value {
    let Value::Object(mut object) = ours else { return ours };
    if OF_FILES.contains(&tool)
        && let Some(path) = object.remove("path").or_else(|| object.remove("file_path"))
    {
        let path = match path {
            Value::String(path) => {
                // The tool takes a name in quotes for what it stands for.
                let path = name::read(&path).unwrap_or_else(|| path.into());
                Value::String(cwd.join(path).to_string_lossy().into_owned())
            }
            other => other,
        };
        object.insert("file_path".to_owned(), path);
    }
    if tool == "bash" {
        if let Some(background) = object.remove("background") {
            object.insert("run_in_background".to_owned(), background);
        }
        // Seconds here, milliseconds there.
        if let Some(seconds) = object.get("timeout").and_then(Value::as_u64) {
            object.insert("timeout".to_owned(), seconds.saturating_mul(1000).into());
        }
    }
    Value::Object(object)
}

/// Returns arguments that were written as there as they are written here.
pub(super) fn arguments_back(tool: &str, theirs: Value) -> Value {
    let Value::Object(mut object) = theirs else { return theirs };
    let names = match tool {
        "bash" => [("run_in_background", "background")].as_slice(),
        tool if OF_FILES.contains(&tool) => &[("file_path", "path")],
        _ => &[],
    };
    for (theirs, ours) in names {
        if let Some(value) = object.remove(*theirs) {
            object.insert((*ours).to_owned(), value);
        }
    }
    if tool == "bash" {
        if let Some(millis) = object.get("timeout").and_then(Value::as_u64) {
            object.insert("timeout".to_owned(), millis.div_ceil(1000).into());
        }
        // Says what the command is for; nobody here wants to know.
        object.remove("description");
    }
    Value::Object(object)
}

/// Returns what came of a call as it is told there.
pub(super) fn response(tool: &str, input: &Value, text: &str) -> Value {
    match tool {
        "bash" => serde_json::json!({ "stdout": text, "stderr": "", "interrupted": false }),
        "write" | "edit" => serde_json::json!({
            "filePath": input.get("file_path"), "success": true, "content": text
        }),
        _ => serde_json::json!({ "content": text }),
    }
}

/// Returns the name that a permission mode has there.
pub(super) fn mode(mode: Mode) -> &'static str {
    match mode {
        Mode::Ask => "default",
        Mode::AcceptEdits => "acceptEdits",
        Mode::Plan => "plan",
        Mode::Auto => "auto",
        Mode::Deny => "dontAsk",
        Mode::Bypass => "bypassPermissions",
    }
}

/// The files of settings in a folder of the user or of a project.
pub(super) fn files(folder: &Path) -> [PathBuf; 2] {
    ["settings.json", "settings.local.json"].map(|name| folder.join(".claude").join(name))
}
