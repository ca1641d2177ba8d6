//! Hooks of sessions: their beginning and end, prompts, ends of runs, sub-agents, summaries.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use pretty_assertions::assert_eq;
use serde_json::json;

use super::*;

fn names(seen: &[Value]) -> Vec<String> {
    seen.iter().map(|seen| seen["hook_event_name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_session_starts_and_ends_with_hooks() {
    let provider = obedient();
    let home = Home::new(&provider);
    let keeps = keeps(&home, "seen");
    add(&home, "SessionStart", "startup", &format!("{keeps}; echo 'The build is red.'"));
    add(&home, "SessionStart", "resume", &format!("{keeps}; echo 'The build is green.'"));
    add(&home, "SessionEnd", "*", &keeps);
    assert_eq!(home.run(&["exec", "hello"]).0, 0);
    assert_eq!(home.run(&["exec", "--continue", "again"]).0, 0);
    let seen = kept(&home, "seen");
    assert_eq!(names(&seen), ["SessionStart", "SessionEnd", "SessionStart", "SessionEnd"]);
    assert_eq!(seen[0]["source"], "startup");
    assert_eq!(seen[1]["reason"], "other");
    assert_eq!(seen[2]["source"], "resume");
    let request = provider.requests().pop().unwrap();
    let said: Vec<_> = messages(&request).iter().skip(1).map(said).collect();
    assert!(said.windows(2).any(|two| two == ["The build is red.", "hello"]), "{said:?}");
    assert!(said.windows(2).any(|two| two == ["The build is green.", "again"]), "{said:?}");
}

#[test]
fn a_prompt_that_a_hook_blocks_is_not_run_and_nothing_of_it_is_kept() {
    let provider = obedient();
    let home = Home::new(&provider);
    let body = "grep -q secret && { echo 'say it without the secret' >&2; exit 2; }; exit 0";
    add(&home, "UserPromptSubmit", "", body);
    let (code, out, err) = home.run(&["exec", "the secret is x"]);
    assert_eq!((code, out.as_str()), (1, ""), "{err}");
    assert!(err.contains("a hook refused the prompt: say it without the secret"), "{err}");
    assert_eq!(provider.requests().len(), 0);
    assert_eq!(home.sessions(), Vec::<String>::new());
    assert_eq!(home.run(&["exec", "hello"]).0, 0);
    let session = home.sessions().remove(0);
    let before = home.entries(&session).len();
    assert_eq!(home.run(&["exec", "--continue", "a secret"]).0, 1);
    assert_eq!(home.entries(&session).len(), before);
}

#[test]
fn who_interrupts_does_not_wait_for_the_hook_of_a_prompt() {
    for (signal, code) in [("-INT", Some(130)), ("-KILL", None)] {
        let provider = obedient();
        let home = Home::new(&provider);
        add(&home, "UserPromptSubmit", "", "echo > begun; sleep 77");
        let mut child =
            home.bowline().args(["exec", "hello"]).stderr(Stdio::null()).spawn().unwrap();
        until("the hook is at work", || home.work().join("begun").exists());
        let pid = child.id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
        assert_eq!(child.wait().unwrap().code(), code);
        home.wait_until_gone();
        assert_eq!((provider.requests().len(), home.sessions().len()), (0, 0));
    }
}

#[test]
fn a_hook_adds_to_a_prompt() {
    let provider = obedient();
    let home = Home::new(&provider);
    add(&home, "UserPromptSubmit", "", "echo 'It is Monday.'");
    let context = json!({ "hookSpecificOutput": { "hookEventName": "UserPromptSubmit",
        "additionalContext": "It rains." }, "systemMessage": "look out" });
    add(&home, "UserPromptSubmit", "", &format!("echo '{context}'"));
    let (code, _, err) = home.run(&["exec", "hello"]);
    assert_eq!(code, 0, "{err}");
    let request = provider.requests().pop().unwrap();
    let all: Vec<_> = messages(&request).iter().map(text).collect();
    assert!(all[all.len() - 2].ends_with("It is Monday.\nIt rains."), "{all:?}");
    assert_eq!(all[all.len() - 1], "hello");
    assert!(err.contains("! look out"), "{err}");
}

#[test]
fn a_hook_sends_the_agent_back_to_work_once() {
    let provider = obedient();
    let home = Home::new(&provider);
    let keeps = keeps(&home, "seen");
    let body = format!(
        "{keeps}; tail -n 1 {} | grep -q '\"stop_hook_active\":true' || {{ echo 'run the tests' >&2; exit 2; }}",
        home.path("seen").display()
    );
    add(&home, "Stop", "", &body);
    let (code, out, err) = home.run(&["exec", "hello"]);
    assert_eq!((code, out.as_str()), (0, "done\n"), "{err}");
    let requests = provider.requests();
    assert_eq!(requests.len(), 2);
    let last = text(messages(&requests[1]).last().unwrap());
    assert_eq!(last, "A Stop hook says that this is not done: run the tests");
    assert!(err.contains("! the Stop hook sends default back: run the tests"), "{err}");
}

#[test]
fn a_hook_that_never_lets_an_agent_stop_is_heard_eight_times() {
    let provider = obedient();
    let home = Home::new(&provider);
    add(&home, "Stop", "", "echo '{\"decision\":\"block\",\"reason\":\"more\"}'");
    let (code, out, err) = home.run(&["exec", "hello"]);
    assert_eq!((code, out.as_str()), (0, "done\n"), "{err}");
    assert_eq!(provider.requests().len(), 9);
    assert!(err.contains("the Stop hook is not heard any more"), "{err}");
}

const CREW: &str = "\
[agents.default]
description = \"leads\"

[agents.coder]
description = \"Writes code.\"
model = \"test/coder\"
tools = [\"write\"]
";

#[test]
fn hooks_hear_of_sub_agents_and_each_call_once() {
    let provider = Provider::answering(|request| {
        let results = support::results(request);
        match (request["model"].as_str().unwrap(), results) {
            ("coder", 0) => Reply::Calls(vec![(
                "call".to_owned(),
                "write",
                json!({ "path": "a.txt", "content": "made\n" }),
            )]),
            ("coder", _) => Reply::Text("a.txt is there".to_owned()),
            (_, 0) => Reply::Calls(vec![(
                "call".to_owned(),
                "delegate",
                json!({ "tasks": [{ "agent": "coder", "task": "Write it." }] }),
            )]),
            (_, _) => Reply::Text("done".to_owned()),
        }
    });
    let home = Home::with(&provider, CREW);
    let keeps = keeps(&home, "seen");
    let begins = format!(
        "{keeps}; echo '{}'",
        json!({ "hookSpecificOutput": {
        "hookEventName": "SubagentStart", "additionalContext": "Tabs, no spaces." } })
    );
    add(&home, "SubagentStart", "coder", &begins);
    add(&home, "PreToolUse", "Write", &keeps);
    add(&home, "SubagentStop", "coder", &keeps);
    add(&home, "UserPromptSubmit", "", &keeps);
    let (code, _, err) = home.run(&["exec", "go"]);
    assert_eq!(code, 0, "{err}");
    let seen = kept(&home, "seen");
    assert_eq!(names(&seen), ["UserPromptSubmit", "SubagentStart", "PreToolUse", "SubagentStop"]);
    assert_eq!(seen[0]["agent_id"], Value::Null);
    for of_coder in &seen[1..] {
        assert_eq!(of_coder["agent_type"], "coder");
        assert_eq!(of_coder["agent_id"], seen[1]["agent_id"]);
        assert_eq!(of_coder["session_id"], seen[0]["session_id"]);
    }
    let requests = provider.requests();
    let coder = requests.iter().find(|request| request["model"] == "coder").unwrap();
    assert!(messages(coder).iter().any(|message| text(message).contains("Tabs, no spaces.")));
}

#[test]
fn a_summary_is_refused_or_told_of() {
    let provider = Provider::answering(|request| {
        let system = messages(request)[0]["content"].as_str().unwrap_or_default();
        match system.contains("working notes") {
            true => Reply::Text("## Done\nA story was told.".to_owned()),
            false => Reply::Text("A long story. ".repeat(400)),
        }
    });
    let home = Home::new(&provider);
    let keeps = keeps(&home, "seen");
    let refuse = home.path("refuse");
    fs::write(&refuse, "").unwrap();
    let body = format!(
        "{keeps}; test -e {} && {{ echo 'not now' >&2; exit 2; }}; exit 0",
        refuse.display()
    );
    add(&home, "PreCompact", "manual", &body);
    add(&home, "PostCompact", "", &keeps);
    add(&home, "SessionStart", "compact", &format!("{keeps}; echo 'The plan is in PLAN.md.'"));
    assert_eq!(home.run(&["exec", "Tell a story."]).0, 0);
    assert_eq!(home.run(&["exec", "--continue", "Another."]).0, 0);
    assert_eq!(kept(&home, "seen"), Vec::<Value>::new());
    // Where nothing is asked there is nothing to say either.
    add(&home, "SessionStart", "resume", "echo 'It is late.'");
    let (code, _, err) = home.run(&["exec", "--continue", "/compact the hero"]);
    assert_ne!(code, 0, "{err}");
    assert!(err.contains("not summarised, because a hook refuses it: not now"), "{err}");
    fs::remove_file(refuse).unwrap();
    let (code, _, err) = home.run(&["exec", "--continue", "/compact the hero"]);
    assert_eq!(code, 0, "{err}");
    let seen = kept(&home, "seen");
    assert_eq!(names(&seen), ["PreCompact", "PreCompact", "PostCompact", "SessionStart"]);
    assert_eq!(seen[1]["trigger"], "manual");
    assert_eq!(seen[1]["custom_instructions"], "the hero");
    assert_eq!(seen[2]["trigger"], "manual");
    assert!(seen[2]["compact_summary"].as_str().unwrap().contains("A story was told."));
    assert_eq!(seen[3]["source"], "compact");
    assert_eq!(provider.requests().len(), 3, "the model was only asked for a summary");
    assert_eq!(home.run(&["exec", "--continue", "five"]).0, 0);
    let request = provider.requests().pop().unwrap();
    assert!(
        messages(&request).iter().any(|message| text(message).contains("The plan is in PLAN.md."))
    );
}

#[test]
fn a_run_that_goes_on_after_a_crash_asks_nothing_twice() {
    let provider = obedient();
    let home = Home::new(&provider);
    let keeps = keeps(&home, "seen");
    for event in ["SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop"] {
        add(&home, event, "", &keeps);
    }
    let mut child = home
        .bowline()
        .args(["exec", "--json", "sh sleep 75"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let has_started = |line: &String| line.contains("\"tool_start\"");
    assert!(lines.into_iter().any(|line| has_started(&line)));
    child.kill().unwrap();
    child.wait().unwrap();
    home.wait_until_gone();
    assert_eq!(names(&kept(&home, "seen")), ["SessionStart", "UserPromptSubmit", "PreToolUse"]);
    let (code, out, err) = home.run(&["exec", "--continue"]);
    assert_eq!((code, out.as_str()), (0, "done\n"), "{err}");
    let seen = kept(&home, "seen");
    // The call that was cut off is not started again, and has no result of its own.
    assert_eq!(names(&seen)[3..], ["SessionStart", "Stop"]);
    assert_eq!(seen[3]["source"], "resume");
}

#[test]
fn what_a_hook_says_when_an_open_run_goes_on_is_said_once() {
    let provider = obedient();
    let home = Home::new(&provider);
    add(&home, "SessionStart", "resume", "echo 'The power was out.'");
    let mut child = home
        .bowline()
        .args(["exec", "--json", "sh sleep 76"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    assert!(lines.any(|line| line.contains("\"tool_start\"")));
    child.kill().unwrap();
    child.wait().unwrap();
    home.wait_until_gone();
    let (code, _, err) = home.run(&["exec", "--continue"]);
    assert_eq!(code, 0, "{err}");
    let request = provider.requests().pop().unwrap();
    let said = messages(&request).iter().filter(|message| text(message) == "The power was out.");
    assert_eq!(said.count(), 1);
}
