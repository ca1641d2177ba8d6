//! Agents as other programs describe them. What means nothing here is left out and said. What would
//! keep an agent from something is never left out: where it is not understood, the tool is taken away
//! that it is about, and if nobody can tell which, all of them; a file that cannot be read for sure is
//! no agent.

use std::sync::Arc;

use bowline_llm::Effort;

use crate::config::{self, ALL, Fault, Node, Origin, Place, Table};

use crate::permission::Rule;

use super::files::{self, Described};
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
///
/// # Errors
/// What is wrong with a file of which nobody can tell what it forbids.
pub(super) fn claude(text: &str, stem: &str, origin: &Arc<Origin>) -> Result<Described, Fault> {
    let mut reading = Reading::new(text, stem, origin)?;
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
    Ok(reading.finish())
}

/// Reads an agent of opencode; `None` if it is turned off.
///
/// # Errors
/// As [`claude`].
pub(super) fn opencode(
    text: &str,
    stem: &str,
    origin: &Arc<Origin>,
) -> Result<Option<Described>, Fault> {
    let mut reading = Reading::new(text, stem, origin)?;
    let is_off = reading.theirs.remove("disable");
    if is_off.is_some_and(|node| node.to_toml().as_bool() == Some(true)) {
        return Ok(None);
    }
    if let Some(switches) = reading.theirs.remove("tools") {
        reading.switches(&switches);
    }
    if let Some(permission) = reading.theirs.remove("permission") {
        reading.permission(&permission);
    }
    reading.copy("model", &["model"]);
    for key in ["steps", "maxSteps"] {
        reading.copy(key, &["limits", "model_turns"]);
    }
    reading.theirs.remove("mode");
    Ok(Some(reading.finish()))
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
    fn new(text: &str, stem: &str, origin: &Arc<Origin>) -> Result<Self, Fault> {
        let wrong = |(line, what): (Option<usize>, String)| {
            let place = Some(Place { origin: Arc::clone(origin), line });
            Fault { place, what, is_unknown_key: false }
        };
        let parts = files::split(text).map_err(|what| wrong((Some(1), what)))?;
        let read = config::yaml(&parts.matter, origin);
        let read =
            read.or_else(|error| config::yaml(&quoted(&parts.matter), origin).map_err(|_| error));
        let mut theirs = read.map_err(wrong)?;
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
        Ok(reading)
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
        Some(names_in(&self.theirs.remove(key)?))
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

    /// Takes the tools of opencode, each turned on or off; or a list of those that are on.
    fn switches(&mut self, switches: &Node) {
        let Some(table) = switches.as_table() else {
            let names = names_in(switches);
            self.tools(&names);
            return;
        };
        let (on, off): (Vec<_>, Vec<_>) =
            table.iter().partition(|(_, node)| node.to_toml().as_bool() == Some(true));
        if off.iter().any(|(name, _)| *name == ALL) {
            let on: Vec<String> = on.into_iter().map(|(name, _)| name.clone()).collect();
            self.tools(&on);
        }
        let off = off.into_iter().map(|(name, _)| name.as_str());
        self.forbid(off.filter(|name| *name != ALL));
    }

    /// Takes what opencode permits. What cannot be said in rules takes the tool away.
    fn permission(&mut self, permission: &Node) {
        let Some(rules) = permission.as_table() else {
            if permission.as_str() != Some("allow") {
                self.left_out.push("permission".to_owned());
                self.tools(&[]);
            }
            return;
        };
        for (name, said) in rules {
            // What changes a file is one thing there.
            let names: &[&str] = if name == "edit" { &["edit", "write"] } else { &[name] };
            match said.as_str() {
                Some("allow") => {}
                _ if name == ALL => {
                    self.left_out
                        .extend((said.as_str() != Some("deny")).then(|| "permission *".to_owned()));
                    self.tools(&[]);
                }
                Some("deny") => self.forbid(names.iter().copied()),
                Some(_) | None => names.iter().for_each(|name| self.opencode_rule(name, said)),
            }
        }
    }

    /// Takes tools away, or what a rule such as `Bash(rm:*)` says of one; with a rule that is none here it
    /// goes whole. Where it is not known here, what servers bring goes, for it may be one of those.
    fn forbid<'a>(&mut self, names: impl Iterator<Item = &'a str>) {
        for name in names {
            let (whole, rule) =
                name.split_once('(').map_or((name, None), |(name, rule)| (name.trim(), Some(rule)));
            if DELEGATING.contains(&&*whole.to_lowercase()) {
                self.set(&["max_depth"], 0.into());
                continue;
            }
            if rule.is_some() && Rule::parse(name).is_ok() {
                self.rule("deny", name);
                continue;
            }
            let tool = our_tool(whole);
            if tool.is_none() || rule.is_some() {
                self.left_out.push(format!("tool {name}"));
            }
            let has: Vec<String> = match self.ours.get("tools").map(Node::to_toml) {
                Some(toml::Value::Array(tools)) => {
                    tools.iter().filter_map(|tool| tool.as_str().map(str::to_owned)).collect()
                }
                Some(_) | None => {
                    let common = toolboxes::tools().filter(|tool| !toolboxes::is_listed_only(tool));
                    common.map(str::to_owned).collect()
                }
            };
            let is_meant =
                |own: &str| tool.as_deref().is_some_and(|it| toolboxes::is_same(own, it));
            let left: Vec<_> = has.into_iter().filter(|own| !is_meant(own)).collect();
            self.set(&["tools"], left.into());
        }
    }

    /// Takes what opencode says of a tool: whether it may be used, perhaps by patterns. What asks goes
    /// before what allows here, so that more is asked than there, and nothing less.
    fn opencode_rule(&mut self, name: &str, said: &Node) {
        let rules: Vec<(String, Option<&str>)> = match said.as_table() {
            None => vec![(name.to_owned(), said.as_str())],
            Some(patterns) => patterns
                .iter()
                .map(|(pattern, said)| (format!("{name}({pattern})"), said.as_str()))
                .collect(),
        };
        for (rule, decision) in rules {
            match (decision, Rule::parse(&rule)) {
                (Some("allow"), _) => {}
                (Some(decision @ ("deny" | "ask")), Ok(_)) if our_tool(name).is_some() => {
                    self.rule(decision, &rule);
                }
                _ => {
                    self.left_out.push(format!("permission {rule}"));
                    self.forbid(std::iter::once(name));
                }
            }
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

/// Reads a list of names, which may be one text with commas.
fn names_in(node: &Node) -> Vec<String> {
    let names: Vec<String> = match node.to_toml() {
        toml::Value::String(text) => text.split(',').map(|name| name.trim().into()).collect(),
        toml::Value::Array(items) => {
            items.iter().filter_map(|item| item.as_str().map(str::to_owned)).collect()
        }
        other => vec![other.to_string()],
    };
    names.into_iter().filter(|name| !name.is_empty()).collect()
}

/// Makes YAML of front matter that is none, as there is much of it: those programs take all that stands
/// behind the first colon of a line for text, whatever is in it.
fn quoted(matter: &str) -> String {
    let is_key = |key: &str| {
        !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'))
    };
    let line = |line: &str| {
        let (key, value) = line.split_once(':').filter(|(key, _)| is_key(key))?;
        let value = value.trim();
        let is_plain = value.contains(": ") || value.contains(" #") || value.ends_with(':');
        let is_quoted = value.starts_with(['"', '\'', '[', '{', '|', '>']);
        (is_plain && !is_quoted).then(|| format!("{key}: '{}'", value.replace('\'', "''")))
    };
    let lines = matter.lines().map(|own| line(own).unwrap_or_else(|| own.to_owned()));
    lines.collect::<Vec<_>>().join("\n")
}
