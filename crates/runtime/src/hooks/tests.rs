use std::path::PathBuf;
use std::time::Duration;

use pretty_assertions::assert_eq;
use serde_json::json;
use tempfile::TempDir;

use bowline_agent::{Agent, Redaction};

use super::answer::{Answer, Verdict};
use super::command::{Ended, Printed};
use super::{Event, Hook, Matcher, Speech, claude};
use crate::config::{self, Said, Trust};
use crate::environment::{Environment, Folders};
use crate::permission::Kind;
use crate::test_machine::folder_with;
use crate::{Choice, Runtime};

/// A machine with files: `etc`, `config` and `home` of the user, `work` for the project.
struct Machine(TempDir);

impl Machine {
    fn new(files: &[(&str, &str)]) -> Self {
        Self(folder_with(&["work/.git"], files))
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    fn runtime(&self) -> Result<Runtime, String> {
        let folders = Folders {
            system: self.path("etc"),
            config: self.path("config"),
            data: self.path("data"),
            cache: self.path("cache"),
        };
        let home = self.path("home").display().to_string();
        let environment =
            Environment { vars: [("HOME".to_owned(), home)].into(), cwd: self.path("work") };
        let (loaded, faults) =
            config::read_all(&folders, &environment, &Said::default(), Trust::Project);
        let shown = |text: String| text.replace(&format!("{}/", self.0.path().display()), "");
        match faults.first() {
            Some(fault) => Err(shown(fault.to_string())),
            None => Ok(Runtime::with(environment, folders, loaded)),
        }
    }

    /// Returns the commands of the hooks, and whether each runs.
    fn listed(&self) -> Vec<(String, bool)> {
        let runtime = self.runtime().unwrap();
        let all = runtime.hooks().iter();
        all.map(|hook| (hook.command.clone(), hook.off.is_none())).collect()
    }

    fn agent(&self) -> Agent {
        let runtime = self.runtime().unwrap();
        let own = runtime.agent_config("default").unwrap();
        let model = crate::provider::ModelName::parse("here/big").unwrap().into();
        let choice = Choice {
            agent: own.name.clone(),
            model,
            limits: runtime.config.limits.headless_of(&own),
            ephemeral: true,
            attended: false,
            instructions: String::new(),
            skills: crate::skills::Skills::default(),
            output_schema: None,
        };
        runtime.agent(&choice).unwrap()
    }
}

const MODELS: &str =
    "model = \"here/big\"\n[providers.here]\nbase_url = \"http://127.0.0.1:9/v1\"\n";

fn stop(command: &str) -> String {
    format!("[[hooks]]\nevent = \"Stop\"\ncommand = \"{command}\"\n")
}

/// Settings of Claude Code with one hook.
fn settings(command: &str) -> String {
    let hook = json!({ "type": "command", "command": command });
    json!({ "hooks": { "Stop": [{ "hooks": [hook] }] } }).to_string()
}

#[test]
fn hooks_of_all_places_run_in_the_order_of_their_places() {
    let machine = Machine::new(&[
        ("etc/managed.toml", &stop("managed")),
        ("etc/config.toml", &stop("system")),
        ("config/config.toml", &stop("user")),
        ("work/.bowline/config.toml", &stop("project")),
        ("work/.bowline/config.local.toml", &stop("local")),
        ("home/.claude/settings.json", &settings("claude's user")),
        ("work/.claude/settings.json", &settings("claude's project")),
        ("work/.claude/settings.local.json", &settings("claude's local")),
    ]);
    let names = [
        "managed",
        "system",
        "user",
        "project",
        "local",
        "claude's user",
        "claude's project",
        "claude's local",
    ];
    assert_eq!(machine.listed(), names.map(|name| (name.to_owned(), true)));
}

#[test]
fn who_looks_after_the_machine_may_want_no_other_hooks() {
    let machine = Machine::new(&[
        ("etc/managed.toml", &format!("only_managed_hooks = true\n{}", stop("managed"))),
        ("config/config.toml", &stop("user")),
        ("home/.claude/settings.json", &settings("claude's")),
    ]);
    let listed = [("managed", true), ("user", false), ("claude's", false)];
    assert_eq!(machine.listed(), listed.map(|(name, runs)| (name.to_owned(), runs)));
    // Nobody switches those of the machine off.
    let machine = Machine::new(&[
        ("etc/managed.toml", &stop("managed")),
        ("config/config.toml", &format!("hooks_enabled = false\n{}", stop("user"))),
    ]);
    let listed = [("managed", true), ("user", false)];
    assert_eq!(machine.listed(), listed.map(|(name, runs)| (name.to_owned(), runs)));
    let machine = Machine::new(&[("etc/managed.toml", "[[hooks]]\nevnt = \"Stop\"\n")]);
    let error = machine.runtime().unwrap_err();
    assert!(error.starts_with("etc/managed.toml: line 2: unknown key \"evnt\""), "{error}");
}

#[test]
fn an_agent_without_hooks_has_nothing_around_it() {
    let machine = Machine::new(&[("config/config.toml", MODELS)]);
    let agent = machine.agent();
    assert!(agent.middleware.is_empty() && agent.on_stop.is_none() && agent.prompt_gate.is_none());
    assert!(machine.runtime().unwrap().hooks.is_none());
    let config = format!("{MODELS}[[hooks]]\nevent = \"Stop\"\ncommand = \"true\"\n");
    let agent = Machine::new(&[("config/config.toml", &config)]).agent();
    assert!(agent.on_stop.is_some() && agent.prompt_gate.is_some());
}

#[test]
fn who_matches_what_changes_files_matches_patches_too() {
    let fits =
        |matcher: &str, tool: &str| Matcher::parse(matcher).unwrap().fits(&claude::names(tool));
    assert!(fits("Edit|Write", "apply_patch") && fits("edit", "apply_patch"));
    assert!(fits("Bash", "bash") && fits("bash", "bash") && !fits("Bash", "job"));
}

#[test]
fn a_matcher_is_names_or_a_pattern() {
    let fits = |matcher: &str, name: &str| Matcher::parse(matcher).unwrap().fits(&[name]);
    for (matcher, name, is_it) in [
        ("", "bash", true),
        ("*", "bash", true),
        ("Edit|Write", "Write", true),
        ("Edit|Write", "WriteMore", false),
        ("mcp__.*__write", "mcp__files__write_all", true),
        ("^mcp__files", "bash", false),
        (".*", "anything", true),
    ] {
        assert_eq!(fits(matcher, name), is_it, "{matcher} {name}");
    }
    assert!(Matcher::parse("a(").unwrap_err().contains("no regular expression"));
}

fn hook(event: Event, layer: Kind) -> Hook {
    Hook {
        event,
        matcher: Matcher::All,
        command: "check".to_owned(),
        timeout: Duration::from_secs(1),
        is_async: false,
        speech: Speech::Bowline,
        layer,
        place: String::new(),
        off: None,
    }
}

fn answer(hook: &Hook, ended: Ended) -> Answer {
    Answer::of(hook, ended, &Redaction::default())
}

fn exit(code: i32) -> Ended {
    Ended::Exit(Printed { code: Some(code), stdout: String::new(), stderr: "why".to_owned() })
}

#[test]
fn a_managed_gate_that_fails_stays_shut() {
    let fails: [fn() -> Ended; 3] =
        [|| exit(1), || Ended::Late(Duration::from_secs(1)), || Ended::Lost("gone".to_owned())];
    for fail in fails {
        let managed = answer(&hook(Event::PreToolUse, Kind::Managed), fail());
        assert!(matches!(managed.verdict, Verdict::Block(_)), "{managed:?}");
        // What has happened cannot be kept from happening.
        for other in [hook(Event::PostToolUse, Kind::Managed), hook(Event::PreToolUse, Kind::User)]
        {
            let said = answer(&other, fail());
            assert_eq!((said.verdict, said.warnings.len()), (Verdict::Silent, 1));
        }
    }
}

#[test]
fn a_managed_gate_that_says_what_is_not_known_stays_shut() {
    let said = |text: &str| {
        let printed = Printed { code: Some(0), stdout: text.to_owned(), stderr: String::new() };
        answer(&hook(Event::PreToolUse, Kind::Managed), Ended::Exit(printed)).verdict
    };
    for text in [
        r#"{"decision":"Block"}"#,
        r#"{"hookSpecificOutput":{"permissionDecision":"DENY"}}"#,
        r#"{"hookSpecificOutput":{"decision":{"behavior":""}}}"#,
    ] {
        assert!(matches!(said(text), Verdict::Block(_)), "{text}");
    }
    // Whatever else is said, who says no is understood.
    let both =
        r#"{"decision":"block","reason":"no","hookSpecificOutput":{"permissionDecision":"?"}}"#;
    assert_eq!(said(both), Verdict::Block("no".to_owned()));
    assert_eq!(said(r#"{"decision":null}"#), Verdict::Silent);
}

#[test]
fn where_nothing_can_be_forbidden_a_hook_that_tries_is_a_warning() {
    for event in Event::ALL {
        let said = answer(&hook(event, Kind::User), exit(2));
        let is_block = said.verdict == Verdict::Block("why".to_owned());
        assert_eq!(is_block, said.warnings.is_empty(), "{event}");
        assert_eq!(is_block, event.can_be_blocked(), "{event}");
    }
}

#[test]
fn what_hooks_say_is_put_together_with_the_strictest_first() {
    let said = |verdict| Answer { verdict, ..Answer::default() };
    let verdicts = [
        Verdict::Silent,
        Verdict::Allow,
        Verdict::Ask("sure?".to_owned()),
        Verdict::Block("no".to_owned()),
    ];
    for (at, one) in verdicts.iter().enumerate() {
        for other in &verdicts[..=at] {
            let both = said(one.clone()).and(said(other.clone())).verdict;
            let swapped = said(other.clone()).and(said(one.clone())).verdict;
            assert_eq!(both, swapped);
            assert!(both >= *one && both >= *other, "{one:?} {other:?}");
        }
    }
}

#[test]
fn arguments_go_there_and_back() {
    let cwd = std::path::Path::new("/home/ann");
    for (tool, ours, theirs) in [
        (
            "write",
            json!({ "path": "a/b", "content": "x" }),
            json!({ "file_path": "/home/ann/a/b", "content": "x" }),
        ),
        (
            "bash",
            json!({ "command": "ls", "timeout": 3, "background": true }),
            json!({ "command": "ls", "timeout": 3000, "run_in_background": true }),
        ),
        ("grep", json!({ "pattern": "x", "path": "a" }), json!({ "pattern": "x", "path": "a" })),
    ] {
        assert_eq!(claude::arguments(tool, ours.clone(), cwd), theirs);
        let mut back = claude::arguments_back(tool, theirs);
        if tool == "write" {
            assert_eq!(back["path"], "/home/ann/a/b");
            back["path"] = json!("a/b");
        }
        assert_eq!(back, ours);
    }
    assert_eq!(
        claude::arguments_back("bash", json!({ "command": "ls", "description": "d" })),
        json!({ "command": "ls" })
    );
}
