//! The names by which models call the tools of servers.

use std::collections::HashMap;

use sha2::{Digest as _, Sha256};

/// What begins the name of each tool of a server.
const PREFIX: &str = "mcp__";

/// The longest name that all providers take.
const MAX_NAME: usize = 64;

/// The longest part of it that names the server.
const MAX_SERVER: usize = 24;

/// Which tools of servers an agent has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scope {
    /// The servers; `None` for all.
    pub servers: Option<Vec<String>>,
    /// The names of tools, in which `*` stands for anything; `None` for all.
    pub tools: Option<Vec<String>>,
}

impl Scope {
    /// Tells whether it has anything of a server.
    pub(super) fn has_server(&self, name: &str) -> bool {
        self.servers.as_ref().is_none_or(|servers| servers.iter().any(|known| known == name))
    }

    /// Tells whether it has a tool.
    pub(super) fn has_tool(&self, name: &str) -> bool {
        self.tools.as_ref().is_none_or(|tools| tools.iter().any(|pattern| fits(pattern, name)))
    }
}

/// Tells whether a name fits a pattern in which `*` stands for anything.
fn fits(pattern: &str, name: &str) -> bool {
    let Some((before, after)) = pattern.split_once('*') else { return pattern == name };
    let Some(rest) = name.strip_prefix(before) else { return false };
    let mut ends = rest.char_indices().map(|(at, _)| at).chain([rest.len()]);
    ends.any(|at| fits(after, rest.get(at..).unwrap_or_default()))
}

/// Makes the part of names that stands for each server. It depends on nothing but the names that are
/// configured, so that a server that is not there changes no other's tools.
pub(super) fn of_servers(names: &[&str]) -> Vec<String> {
    let clean: Vec<String> = names.iter().map(|name| clean(name, MAX_SERVER)).collect();
    distinct(names, &clean, MAX_SERVER)
}

/// Makes the names of a server's tools.
pub(super) fn of_tools(server: &str, names: &[&str]) -> Vec<String> {
    let room = MAX_NAME - PREFIX.len() - server.len() - 2;
    let clean: Vec<String> = names.iter().map(|name| clean(name, room)).collect();
    let distinct = distinct(names, &clean, room);
    distinct.into_iter().map(|tool| format!("{PREFIX}{server}__{tool}")).collect()
}

/// Makes names of which all providers take each character. No two underscores stand together, so that
/// it stays clear where the server's name ends; what is too long ends in a hash.
fn clean(name: &str, room: usize) -> String {
    let mut clean = String::new();
    for c in name.chars() {
        let c = if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
        if c != '_' || !clean.ends_with('_') {
            clean.push(c);
        }
    }
    if clean.len() <= room && !clean.is_empty() { clean } else { hashed(name, &clean, room) }
}

/// Has names that became the same by cleaning end in a hash of what they were.
fn distinct(names: &[&str], clean: &[String], room: usize) -> Vec<String> {
    let mut count = HashMap::new();
    for name in clean {
        *count.entry(name.as_str()).or_insert(0) += 1;
    }
    let is_alone = |name: &str| count.get(name) == Some(&1);
    let each = names.iter().zip(clean);
    each.map(|(name, clean)| match is_alone(clean) || name == clean {
        true => clean.clone(),
        false => hashed(name, clean, room),
    })
    .collect()
}

fn hashed(name: &str, clean: &str, room: usize) -> String {
    let hash = Sha256::digest(name.as_bytes());
    let hash: String = hash.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
    let kept = clean.get(..room.saturating_sub(hash.len() + 1)).unwrap_or(clean);
    format!("{}_{hash}", kept.trim_end_matches('_'))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn names_are_what_every_provider_takes() {
        assert_eq!(
            of_tools("fs", &["read_file", "a.b/c"]),
            ["mcp__fs__read_file", "mcp__fs__a_b_c"]
        );
        let long = "x".repeat(100);
        let names = of_tools("fs", &[&long, "ü", ""]);
        assert_eq!(names[0].len(), MAX_NAME);
        assert_eq!(names[1], "mcp__fs___");
        for name in &names {
            let is_taken = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
            assert!(name.len() <= MAX_NAME && name.chars().all(is_taken), "{name}");
        }
        let server = of_servers(&["a server with a very long name indeed"]).remove(0);
        assert!(server.len() <= MAX_SERVER, "{server}");
        assert!(of_tools(&server, &[&long])[0].len() <= MAX_NAME);
    }

    #[test]
    fn names_that_would_be_the_same_differ_always_in_the_same_way() {
        let names = of_tools("fs", &["a b", "a_b", "a.b"]);
        assert_eq!(names[1], "mcp__fs__a_b");
        assert!(names[0].starts_with("mcp__fs__a_b_") && names[0] != names[2], "{names:?}");
        let other_way = of_tools("fs", &["a.b", "a_b", "a b"]);
        assert_eq!(other_way, [names[2].clone(), names[1].clone(), names[0].clone()]);
        assert_eq!(of_servers(&["a__b", "c"]), ["a_b", "c"]);
    }

    #[test]
    fn a_star_stands_for_anything() {
        let scope = Scope { servers: None, tools: Some(vec!["mcp__fs__*".into(), "x*y*z".into()]) };
        for (name, has) in [
            ("mcp__fs__read", true),
            ("mcp__fs__", true),
            ("mcp__git__log", false),
            ("xyz", true),
            ("x1y2z", true),
            ("x1y2", false),
        ] {
            assert_eq!(scope.has_tool(name), has, "{name}");
        }
        assert!(Scope::default().has_tool("any"));
        assert!(!Scope { tools: Some(Vec::new()), ..Scope::default() }.has_tool("any"));
    }
}
