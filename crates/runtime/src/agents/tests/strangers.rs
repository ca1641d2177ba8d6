//! Agents as other programs describe them.

use pretty_assertions::assert_eq;

use crate::config::{self, Config, Trust};

use super::Machine;

/// Reads one foreign file of a trusted project: the agents, and what is not taken.
fn foreign(path: &str, text: &str) -> (Config, Vec<String>) {
    let files = [("home/skills/mending/SKILL.md", "Mend."), (path, text)];
    let machine = Machine::new(&files);
    let (loaded, faults) = machine.load(Trust::Project);
    assert_eq!(faults, Vec::<String>::new());
    let own = |note: &&String| note.contains("not taken");
    let notes = loaded.notes.iter().filter(own).map(|note| machine.shown(note)).collect();
    (loaded.config, notes)
}

fn names(list: Option<&Vec<String>>) -> Vec<&str> {
    list.unwrap().iter().map(String::as_str).collect()
}

#[test]
fn agents_of_claude_code_are_read() {
    let text = "---\nname: code-reviewer\ndescription: Use this when: code has changed\n\
        tools: Read, Grep, Bash, Bash(git:*), WebSearch, mcp__x__y\nmodel: sonnet\ncolor: blue\n\
        permissionMode: plan\nmaxTurns: 12\nskills: mending, sewing\nmemory: user\n---\n\nReview.\n";
    let (config, notes) = foreign("work/.claude/agents/reviewer.md", text);
    // Such front matter is no YAML.
    let agent = &config.agents["code-reviewer"];
    assert_eq!(agent.description, "Use this when: code has changed");
    assert_eq!(agent.instructions, "Review.");
    assert_eq!(names(agent.tools.as_ref()), ["read", "grep", "bash"]);
    assert_eq!(agent.model, "anthropic/claude-sonnet-5-5");
    assert_eq!(agent.permissions.mode, Some(config::Mode::Plan));
    assert_eq!((agent.max_depth, agent.warn_turns), (Some(0), 0));
    assert_eq!(names(agent.skills.as_ref()), ["mending"]);
    assert_eq!(agent.limits.model_turns, Some(12));
    assert_eq!(
        notes,
        [
            "work/.claude/agents/reviewer.md: not taken: tool Bash(git:*), tool WebSearch, memory",
            "work/.claude/agents/reviewer.md: not taken: tool mcp__x__y, skill sewing",
        ]
    );
    let all = "---\ndescription: x\ndisallowedTools: [Bash, Edit, Task, \"Read(~/private)\"]\nmodel: inherit\nmaxTurns: 3\n---\n";
    let (config, notes) = foreign("work/.claude/agents/all.md", all);
    let agent = &config.agents["all"];
    assert_eq!((agent.model.as_str(), agent.limits.model_turns), ("", Some(3)));
    let tools = names(agent.tools.as_ref());
    assert!(tools.contains(&"read") && !tools.contains(&"bash"), "{tools:?}");
    assert!(!tools.contains(&"edit") && !tools.contains(&"apply_patch"), "{tools:?}");
    assert_eq!((agent.max_depth, notes.len()), (Some(0), 0));
    assert_eq!(agent.permissions.deny[0].rule.to_string(), "Read(~/private)");
}

#[test]
fn agents_of_opencode_are_read() {
    let text = "---\ndescription: Reviews.\nmode: subagent\nmodel: anthropic/claude-opus-5\n\
        temperature: 0.1\ntools:\n  write: false\n  edit: false\n  my_*: false\npermission:\n  \
        bash: deny\n  webfetch: ask\n  read:\n    \"*.key\": deny\n    \"*\": ask\nsteps: 5\n---\nReview.\n";
    let (config, notes) = foreign("work/.opencode/agent/review.md", text);
    let agent = &config.agents["review"];
    assert_eq!(agent.model, "anthropic/claude-opus-5");
    assert_eq!(agent.limits.model_turns, Some(5));
    assert_eq!(
        names(agent.tools.as_ref()),
        ["ask_user", "read", "list", "job", "glob", "grep", "fetch", "update_plan"]
    );
    assert_eq!(notes, ["work/.opencode/agent/review.md: not taken: tool my_*, temperature"]);
    let said = |rules: &[config::RuleConfig]| {
        rules.iter().map(|it| it.rule.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(said(&agent.permissions.ask), ["read(*)", "webfetch"]);
    assert_eq!(said(&agent.permissions.deny), ["read(*.key)"]);
    let only = "---\ntools:\n  \"*\": false\n  read: true\n---\n";
    let (config, _) = foreign("work/.opencode/agent/only.md", only);
    assert_eq!(names(config.agents["only"].tools.as_ref()), ["read"]);
    let (config, _) = foreign("work/.opencode/agent/off.md", "---\ndisable: true\n---\n");
    assert!(config.agents.is_empty());
}

/// Nothing that would keep an agent from something is lost: what is not understood takes the tool away.
#[test]
fn what_others_forbid_is_never_allowed_here() {
    let tools = |text: &str, path: &str| {
        let (config, _) = foreign(path, text);
        let agent = &config.agents["a"];
        (names(agent.tools.as_ref()).join(" "), agent.max_depth)
    };
    let opencode = |text: &str| tools(&format!("---\n{text}\n---\n"), "work/.opencode/agent/a.md");
    assert_eq!(opencode("permission: deny"), (String::new(), Some(0)));
    assert_eq!(opencode("permission: ask"), (String::new(), Some(0)));
    assert_eq!(opencode("permission:\n  \"*\": deny"), (String::new(), Some(0)));
    assert_eq!(opencode("tools: [read]"), ("read".to_owned(), Some(0)));
    assert_eq!(opencode("tools: read, grep"), ("read grep".to_owned(), Some(0)));
    // Turned on is what is turned on, and nothing else.
    assert!(!opencode("tools:\n  bash: \"no\"").0.contains("bash"));
    let rules = "permission:\n  bash:\n    \"git *\": allow\n    \"*\": ask\n  edit: deny";
    let (left, _) = opencode(rules);
    assert_eq!(left, "ask_user read list bash job glob grep fetch update_plan");
    let (config, _) = foreign("work/.opencode/agent/a.md", &format!("---\n{rules}\n---\n"));
    assert_eq!(config.agents["a"].permissions.ask[0].rule.to_string(), "bash(*)");
    // What is no rule here takes the tool away.
    assert!(!opencode("permission:\n  bash: maybe").0.contains("bash"));
    // It may be a tool of a server.
    assert!(!opencode("tools:\n  my_*: false").0.is_empty());
    // A colon in a text changes nothing of the rest.
    let colon =
        "description: Use this when: code has changed\ntools:\n  \"*\": false\n  read: true";
    assert_eq!(opencode(colon).0, "read");
    let claude = |text: &str| tools(&format!("---\n{text}\n---\n"), "work/.claude/agents/a.md");
    let (left, _) = claude("disallowedTools: Bash(rm");
    assert!(left.contains("read") && !left.contains("bash"), "{left}");
}

#[test]
fn a_file_that_cannot_be_read_for_sure_is_no_agent() {
    for (text, what) in [
        (
            "---\ntools: Read\n",
            "line 1: the front matter that begins here has no end: a line with ---",
        ),
        ("---\ntools: [Read\nname: a\n---\n", "line "),
        ("---\nname: \"a\\nb\"\n---\n", "\"a\\nb\": the name of an agent has 1 to 64 characters"),
    ] {
        let machine = Machine::new(&[("work/.claude/agents/a.md", text)]);
        let (loaded, faults) = machine.load(Trust::Project);
        assert!(loaded.config.agents.is_empty(), "{text}");
        // Others read it too, so it does not keep anything from starting.
        assert_eq!(faults, Vec::<String>::new());
        let notes: Vec<_> = loaded.notes.iter().map(|note| machine.shown(note)).collect();
        let what = format!("not taken: work/.claude/agents/a.md: {what}");
        assert!(notes.iter().any(|note| note.starts_with(&what)), "{notes:?}");
    }
}
