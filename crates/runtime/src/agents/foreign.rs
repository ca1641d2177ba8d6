//! Agents as other programs describe them. What means nothing here is left out and said; nothing that
//! is wrong with them is an error, for somebody else reads them too.

use std::sync::Arc;

use bowline_llm::Effort;

use crate::config::{self, ALL, Node, Origin, Place, Table, Value};

use crate::permission::Rule;

use super::files::{self, Described, Parts};
use super::toolboxes;

/// Tools by the names that Claude Code and opencode give them; the same in any case.
const TOOLS: [(&str, &str); 19] = [
    ("read", "read"),
    ("write", "write"),
    ("edit", "edit"),
    ("multiedit", "edit"),
    ("patch", "edit"),
    ("apply_patch", "edit"),
    ("bash", "bash"),
    ("bashoutput", "job"),
    ("killshell", "job"),
    ("killbash", "job"),
    ("glob", "glob"),
    ("grep", "grep"),
    ("ls", "list"),
    ("list", "list"),
    ("webfetch", "fetch"),
    ("todowrite", "update_plan"),
    ("todoread", "update_plan"),
    ("askuserquestion", "ask_user"),
    ("question", "ask_user"),
];

/// The tools with which those delegate.
const DELEGATING: [&str; 2] = ["task", "agent"];

/// Models by the short names of Claude Code.
const MODELS: [(&str, &str); 3] = [
    ("sonnet", "anthropic/claude-sonnet-5-5"),
    ("opus", "anthropic/claude-opus-5-5"),
    ("haiku", "anthropic/claude-haiku-5-5"),
];

/// Reads an agent of Claude Code.
pub(super) fn claude(text: &str, stem: &str, origin: &Arc<Origin>) -> Option<Described> {
    let mut reading = Reading::new(text, stem, origin);
    let forbidden = reading.names("disallowedTools");
    if let Some(allowed) = reading.names("tools") {
        reading.tools(&allowed);
    }
    reading.forbid(forbidden.iter().flatten().map(String::as_str));
    reading.claude_model();
    reading.copy("maxTurns", &["limits", "model_turns"]);
    if let Some(skills) = reading.names("skills") {
        reading.set(&["skills"], skills.into());
    }
    let mode = reading.theirs.remove("permissionMode");
    let ours = match mode.as_ref().and_then(Node::as_str) {
        Some("acceptEdits") => Some("accept-edits"),
        Some("plan") => Some("plan"),
        Some("dontAsk") => Some("deny"),
        Some("default") | None => None,
        Some(other) => {
            reading.left_out.push(format!("permissionMode {other}"));
            None
        }
    };
    if let Some(mode) = ours {
        reading.set(&["permissions", "mode"], mode.into());
    }
    Some(reading.finish())
}

/// Reads an agent of opencode; `None` if it is turned off.
pub(super) fn opencode(text: &str, stem: &str, origin: &Arc<Origin>) -> Option<Described> {
    let mut reading = Reading::new(text, stem, origin);
    let is_off = reading.theirs.remove("disable");
    if is_off.is_some_and(|node| node.to_toml().as_bool() == Some(true)) {
        return None;
    }
    let switches = reading.theirs.remove("tools");
    let switches = switches.as_ref().and_then(Node::as_table).into_iter().flatten();
    let (on, off): (Vec<_>, Vec<_>) =
        switches.partition(|(_, node)| node.to_toml().as_bool() != Some(false));
    let off: Vec<&str> = off.into_iter().map(|(name, _)| name.as_str()).collect();
    if off.contains(&ALL) {
        let on: Vec<String> = on.into_iter().map(|(name, _)| name.clone()).collect();
        reading.tools(&on);
    }
    reading.forbid(off.into_iter().filter(|name| *name != ALL));
    if let Some(permission) = reading.theirs.remove("permission") {
        for (name, said) in permission.as_table().into_iter().flatten() {
            reading.opencode_rule(name, said);
        }
    }
    reading.copy("model", &["model"]);
    for key in ["steps", "maxSteps"] {
        reading.copy(key, &["limits", "model_turns"]);
    }
    reading.theirs.remove("mode");
    Some(reading.finish())
}

/// A foreign file while it is read.
struct Reading {
    name: String,
    theirs: Table,
    ours: Table,
    left_out: Vec<String>,
    place: Place,
}

impl Reading {
    fn new(text: &str, stem: &str, origin: &Arc<Origin>) -> Self {
        let parts = files::split(text).unwrap_or_else(|_| Parts {
            matter: String::new(),
            body: text.to_owned(),
            line: 1,
        });
        let mut theirs =
            config::yaml(&parts.matter, origin).unwrap_or_else(|_| lines(&parts.matter, origin));
        let named = theirs.remove("name");
        let name = named.as_ref().and_then(Node::as_str).unwrap_or(stem).to_owned();
        let place = Place { origin: Arc::clone(origin), line: None };
        let mut reading = Self { name, theirs, ours: Table::new(), left_out: Vec::new(), place };
        reading.copy("description", &["description"]);
        reading.theirs.remove("color");
        let effort = reading.theirs.remove("effort");
        match effort.as_ref().and_then(Node::as_str) {
            None => {}
            Some("max") => reading.set(&["effort"], "xhigh".into()),
            Some(effort) if Effort::parse(effort).is_some() => {
                reading.set(&["effort"], effort.into());
            }
            Some(other) => reading.left_out.push(format!("effort {other}")),
        }
        let body = files::instructions(&parts.body, parts.line, origin);
        reading.ours.insert("instructions".to_owned(), body);
        reading
    }

    fn set(&mut self, path: &[&str], value: toml::Value) {
        let path: Vec<_> = path.iter().map(|&part| part.to_owned()).collect();
        let node = Node::plain(value, &self.place);
        config::merge(&mut self.ours, &config::below(&path, node, &self.place));
    }

    /// Takes a value as it is, if it is what is expected here.
    fn copy(&mut self, key: &str, path: &[&str]) {
        let Some(node) = self.theirs.remove(key) else { return };
        let value = node.to_toml();
        let is_fit = match path.last() {
            Some(&"model_turns") => value.as_integer().is_some_and(|n| u32::try_from(n).is_ok()),
            _ => value.as_str().is_some(),
        };
        match is_fit {
            true => self.set(path, value),
            false => self.left_out.push(format!("{key} {value}")),
        }
    }

    /// Takes a list of names, which may be one text with commas.
    fn names(&mut self, key: &str) -> Option<Vec<String>> {
        let node = self.theirs.remove(key)?;
        let names: Vec<String> = match node.to_toml() {
            toml::Value::String(text) => text.split(',').map(|name| name.trim().into()).collect(),
            toml::Value::Array(items) => {
                items.iter().filter_map(|item| item.as_str().map(str::to_owned)).collect()
            }
            other => vec![other.to_string()],
        };
        Some(names.into_iter().filter(|name| !name.is_empty()).collect())
    }

    /// Allows these tools and no others. Without one to delegate with it cannot delegate.
    fn tools(&mut self, names: &[String]) {
        if names.iter().any(|name| name == ALL) {
            return;
        }
        let mut tools: Vec<String> = Vec::new();
        let mut delegates = false;
        for name in names {
            match our_tool(name) {
                Some(tool) if tools.contains(&tool) => {}
                Some(tool) => tools.push(tool),
                None if DELEGATING.contains(&&*name.to_lowercase()) => delegates = true,
                None => self.left_out.push(format!("tool {name}")),
            }
        }
        self.set(&["tools"], tools.into());
        if !delegates {
            self.set(&["max_depth"], 0.into());
        }
    }

    /// Takes tools away.
    fn forbid<'a>(&mut self, names: impl Iterator<Item = &'a str>) {
        for name in names {
            if DELEGATING.contains(&&*name.to_lowercase()) {
                self.set(&["max_depth"], 0.into());
                continue;
            }
            if name.contains('(') && Rule::parse(name).is_ok() {
                self.rule("deny", name);
                continue;
            }
            let Some(tool) = our_tool(name) else {
                self.left_out.push(format!("tool {name}"));
                continue;
            };
            let has: Vec<String> = match self.ours.get("tools").map(Node::to_toml) {
                Some(toml::Value::Array(tools)) => {
                    tools.iter().filter_map(|tool| tool.as_str().map(str::to_owned)).collect()
                }
                Some(_) | None => {
                    let common = toolboxes::tools().filter(|tool| !toolboxes::is_listed_only(tool));
                    common.map(str::to_owned).collect()
                }
            };
            let left: Vec<_> =
                has.into_iter().filter(|own| !toolboxes::is_same(own, &tool)).collect();
            self.set(&["tools"], left.into());
        }
    }

    /// Takes what opencode says of a tool. What it allows some of, and asks about the rest of, has no
    /// like here: within a layer what asks goes before what allows.
    fn opencode_rule(&mut self, name: &str, said: &Node) {
        if said.as_str() == Some("deny") {
            return self.forbid(std::iter::once(name));
        }
        if let (Some("ask"), Some(_)) = (said.as_str(), our_tool(name))
            && Rule::parse(name).is_ok()
        {
            return self.rule("ask", name);
        }
        let patterns = said.as_table().into_iter().flatten();
        for (pattern, decision) in patterns {
            let rule = format!("{name}({pattern})");
            match (decision.as_str(), Rule::parse(&rule)) {
                (Some("deny"), Ok(_)) => self.rule("deny", &rule),
                _ => self.left_out.push(format!("permission {rule}")),
            }
        }
        if said.as_table().is_none() {
            self.left_out.push(format!("permission {name}"));
        }
    }

    /// Adds a rule.
    fn rule(&mut self, decision: &str, rule: &str) {
        let path = ["permissions", decision].map(str::to_owned);
        let said = config::find(&self.ours, &path).map(Node::to_toml);
        let mut rules = said.and_then(|rules| rules.as_array().cloned()).unwrap_or_default();
        rules.push(rule.into());
        self.set(&["permissions", decision], rules.into());
    }

    fn claude_model(&mut self) {
        let Some(node) = self.theirs.remove("model") else { return };
        let name = node.as_str().unwrap_or_default();
        let known = MODELS.iter().find(|(short, _)| *short == name).map(|(_, ours)| *ours);
        match (known, name) {
            (Some(ours), _) => self.set(&["model"], ours.into()),
            (None, "inherit" | "") => {}
            (None, name) if name.contains('/') => self.set(&["model"], name.into()),
            (None, name) if name.starts_with("claude-") => {
                self.set(&["model"], format!("anthropic/{name}").into());
            }
            (None, name) => self.left_out.push(format!("model {name}")),
        }
    }

    /// Says of what is left that it is not taken.
    fn finish(mut self) -> Described {
        self.left_out.extend(self.theirs.into_keys());
        Described { name: self.name, table: self.ours, left_out: self.left_out }
    }
}

/// Returns our name of a tool; `None` if there is none. Rules within a tool are not understood here,
/// and so their tool is not allowed.
fn our_tool(name: &str) -> Option<String> {
    if name.starts_with("mcp__") {
        return Some(name.to_owned());
    }
    let name = name.to_lowercase();
    TOOLS.iter().find(|(theirs, _)| *theirs == name).map(|(_, ours)| (*ours).to_owned())
}

/// Reads front matter that is no YAML, as there is much of it: what stands behind the first colon of a
/// line is text.
fn lines(matter: &str, origin: &Arc<Origin>) -> Table {
    let is_key =
        |key: &str| key.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
    let entries = matter.lines().enumerate().filter_map(|(at, line)| {
        let (key, value) = line.split_once(':')?;
        let place = Place { origin: Arc::clone(origin), line: Some(at + 1) };
        let value = Value::Leaf(value.trim().trim_matches(['"', '\'']).into());
        (is_key(key) && !key.is_empty()).then(|| (key.to_owned(), Node { value, place }))
    });
    entries.collect()
}
