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
    /// What of them; `None` for all.
    pub only: Option<Only>,
}

/// A choice of what servers offer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Only {
    /// Their tools.
    pub tools: Vec<Pattern>,
    /// Whether what they have to read can be read.
    pub resources: bool,
}

/// Tools of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    /// The server, as it is configured.
    pub server: String,
    /// The tool, by its name there or by the one that stands for it here; `*` stands for anything.
    pub tool: String,
}

impl Scope {
    /// Tells whether it has anything of a server.
    pub fn has_server(&self, name: &str) -> bool {
        let is_named = |tools: &[Pattern]| tools.iter().any(|tool| tool.server == name);
        self.servers.as_ref().is_none_or(|servers| servers.iter().any(|known| known == name))
            && self.only.as_ref().is_none_or(|only| only.resources || is_named(&only.tools))
    }

    /// Tells whether it has what servers have to read.
    pub(super) fn has_resources(&self) -> bool {
        self.only.as_ref().is_none_or(|only| only.resources)
    }

    /// Tells whether it has a tool of a server, which has one name there and another here.
    pub(super) fn has_tool(&self, server: &str, names: [&str; 2]) -> bool {
        let is_it = |pattern: &Pattern| pattern.server == server && pattern.is_any_of(names);
        self.only.as_ref().is_none_or(|only| only.tools.iter().any(is_it))
    }
}

impl Pattern {
    /// Reads `mcp__SERVER` or `mcp__SERVER__TOOL`, where the server is one of these, as it is
    /// configured or as it stands in the names of its tools.
    pub fn read<'a>(name: &str, servers: impl IntoIterator<Item = &'a str>) -> Option<Self> {
        let rest = name.strip_prefix(PREFIX)?;
        let servers: Vec<&str> = servers.into_iter().collect();
        let here = of_servers(&servers);
        let each = servers.iter().zip(&here);
        let read = each.flat_map(|(server, here)| {
            [server, here.as_str()].map(|begins| {
                let tool = match rest.strip_prefix(begins)? {
                    "" => "*",
                    tool => tool.strip_prefix("__").filter(|tool| !tool.is_empty())?,
                };
                Some((begins.len(), Self { server: (*server).to_owned(), tool: tool.to_owned() }))
            })
        });
        read.flatten().max_by_key(|(length, _)| *length).map(|(_, pattern)| pattern)
    }

    /// Returns the names by which those tools are called here that a name may mean which names a server, and
    /// its tools, as they name themselves; `*` stands for anything.
    pub fn called_here<'a>(name: &str, servers: impl IntoIterator<Item = &'a str>) -> Vec<String> {
        let Some(rest) = name.strip_prefix(PREFIX) else { return Vec::new() };
        let servers: Vec<&str> = servers.into_iter().collect();
        let here = of_servers(&servers);
        let each = servers.iter().zip(&here).flat_map(|(server, here)| {
            let tools = [server, here.as_str()].into_iter().filter_map(|begins| {
                match rest.strip_prefix(begins)? {
                    "" | "*" => Some("*"),
                    tool => tool.strip_prefix("__").filter(|tool| !tool.is_empty()),
                }
            });
            tools.flat_map(move |tool| {
                let room = room(here);
                let plain = spelt(tool, |c| c == '*');
                let named = match tool.contains('*') {
                    true => vec![plain],
                    // It ends in a hash where it is long, or where another has its name.
                    false => vec![hashed(tool, &plain, room), clean(tool, room)],
                };
                named.into_iter().map(move |tool| format!("{PREFIX}{here}__{tool}"))
            })
        });
        each.collect()
    }

    pub(super) fn is_any_of(&self, names: [&str; 2]) -> bool {
        names.iter().any(|name| fits(&self.tool, name))
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
    let room = room(server);
    let clean: Vec<String> = names.iter().map(|name| clean(name, room)).collect();
    let distinct = distinct(names, &clean, room);
    distinct.into_iter().map(|tool| format!("{PREFIX}{server}__{tool}")).collect()
}

/// Returns how long the part of a tool's name is that stands for its server.
pub(super) fn prefix_length(server: &str) -> usize {
    PREFIX.len() + server.len() + 2
}

/// Returns how long the part of a tool's name may be that stands for the tool.
fn room(server: &str) -> usize {
    MAX_NAME - prefix_length(server)
}

/// Makes names of which all providers take each character. What is too long ends in a hash.
fn clean(name: &str, room: usize) -> String {
    let clean = spelt(name, |_| false);
    match clean.len() <= room && !clean.is_empty() {
        true => clean,
        false => hashed(name, &clean, room),
    }
}

/// Spells a name by what all providers take, and what is kept beside that. No two underscores stand
/// together, so that it stays clear where the server's name ends.
fn spelt(name: &str, is_kept: impl Fn(char) -> bool) -> String {
    let mut spelt = String::new();
    for c in name.chars() {
        let is_taken = c.is_ascii_alphanumeric() || c == '-' || is_kept(c);
        let c = if is_taken { c } else { '_' };
        if c != '_' || !spelt.ends_with('_') {
            spelt.push(c);
        }
    }
    // At its ends one would stand beside those that part the names.
    spelt.trim_matches('_').to_owned()
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
    match kept.trim_end_matches('_') {
        "" => hash,
        kept => format!("{kept}_{hash}"),
    }
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
        assert!(names[1] != names[2] && !names[1].contains("___"), "{names:?}");
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
    fn no_name_ends_or_begins_with_what_parts_names() {
        assert_eq!(of_servers(&["_git_", "x"]), ["git", "x"]);
        let both = of_servers(&["git", "git_"]);
        assert!(both[0] == "git" && both[1].starts_with("git_") && both[1].len() > 8, "{both:?}");
        assert_eq!(of_tools("git", &["_x_"]), ["mcp__git__x"]);
    }

    #[test]
    fn a_star_stands_for_anything() {
        for (pattern, name, fits) in [
            ("*", "read", true),
            ("*", "", true),
            ("r*", "log", false),
            ("x*y*z", "xyz", true),
            ("x*y*z", "x1y2z", true),
            ("x*y*z", "x1y2", false),
        ] {
            assert_eq!(super::fits(pattern, name), fits, "{pattern} {name}");
        }
    }

    #[test]
    fn a_pattern_names_a_server_as_it_is_configured_or_as_tools_are_called() {
        let servers = ["git", "git_", "my server", "a__b"];
        let read = |name: &str| {
            Pattern::read(name, servers).map(|Pattern { server, tool }| format!("{server}|{tool}"))
        };
        for (name, pattern) in [
            ("mcp__git", Some("git|*")),
            ("mcp__git__lo*", Some("git|lo*")),
            // The longest name counts.
            ("mcp__git___x", Some("git_|x")),
            ("mcp__my server__do.it", Some("my server|do.it")),
            ("mcp__my_server__do_it", Some("my server|do_it")),
            ("mcp__a__b__c", Some("a__b|c")),
            ("mcp__gi", None),
            ("git__log", None),
        ] {
            assert_eq!(read(name).as_deref(), pattern, "{name}");
        }
    }

    #[test]
    fn what_names_itself_otherwise_is_found_by_what_it_is_called_here() {
        let long = "a server with a very long name indeed";
        let servers = ["git", "git_", "a__b", long];
        let called = of_servers(&servers);
        for (at, server) in servers.iter().enumerate() {
            let tools = ["log", "del.all", "_x_", "b__c", "b_c", "ü", &"y".repeat(100)];
            let here = of_tools(&called[at], &tools);
            for (tool, here) in tools.iter().zip(here) {
                for name in [format!("{server}__{tool}"), (*server).to_owned()] {
                    let found = Pattern::called_here(&format!("mcp__{name}"), servers);
                    assert!(
                        found.iter().any(|found| super::fits(found, &here)),
                        "{name}: {found:?}"
                    );
                }
            }
        }
        let found = Pattern::called_here("mcp__git__del.*", servers);
        assert_eq!(found, ["mcp__git__del_*"; 2]);
        assert!(Pattern::called_here("mcp__gi", servers).is_empty());
        assert!(Pattern::called_here("bash", servers).is_empty());
    }

    #[test]
    fn a_scope_has_what_it_names_by_either_name() {
        let only = |tool: &str| Scope {
            servers: None,
            only: Some(Only {
                tools: vec![Pattern { server: "fs".to_owned(), tool: tool.to_owned() }],
                resources: false,
            }),
        };
        assert!(only("do.it").has_tool("fs", ["do.it", "do_it"]));
        assert!(only("do_*").has_tool("fs", ["do.it", "do_it"]));
        assert!(!only("*").has_tool("fs_", ["do.it", "do_it"]) && !only("*").has_server("fs_"));
        assert!(Scope::default().has_tool("any", ["x", "x"]) && Scope::default().has_resources());
        let none = Scope { only: Some(Only::default()), ..Scope::default() };
        assert!(!none.has_server("fs") && !none.has_resources());
    }
}
