//! Hooks of calls: before them, in place of a person, and after them.

use pretty_assertions::assert_eq;
use serde_json::json;

use super::*;

/// An answer of a hook, as a script prints it.
fn prints(answer: &Value) -> String {
    format!("cat > /dev/null; echo '{answer}'")
}

fn decides(decision: &str, more: Value) -> String {
    let mut output = json!({ "hookEventName": "PreToolUse", "permissionDecision": decision });
    if let Value::Object(more) = more {
        output.as_object_mut().unwrap().extend(more);
    }
    prints(&json!({ "hookSpecificOutput": output }))
}

#[test]
fn a_hook_denies_a_call_by_its_exit_code() {
    let provider = obedient();
    let home = Home::new(&provider);
    let keeps = keeps(&home, "seen");
    add(
        &home,
        "PreToolUse",
        "bash",
        &format!("{keeps}; echo 'not on \u{1b}[31mFridays' >&2; exit 2"),
    );
    let (code, out, err) = home.run(&["exec", "sh touch made"]);
    assert_eq!((code, out.as_str()), (0, "done\n"), "{err}");
    assert!(!home.work().join("made").exists());
    assert_eq!(told(&provider), "denied: a hook forbids it: not on Fridays");
    assert!(err.contains("! a PreToolUse hook denied bash: not on Fridays"), "{err}");
    let session = home.sessions().remove(0);
    assert_eq!(
        kept(&home, "seen"),
        [json!({
            "session_id": session,
            "transcript_path": home.log(&session),
            "cwd": home.work(),
            "permission_mode": "auto",
            "hook_event_name": "PreToolUse",
            "tool_name": "bash",
            "tool_input": { "command": "touch made" },
            "tool_use_id": kept(&home, "seen")[0]["tool_use_id"],
        })]
    );
    // Another tool is none of its business.
    assert_eq!(home.run(&["exec", "put made"]).0, 0);
    assert!(home.work().join("made").exists());
    assert_eq!(kept(&home, "seen").len(), 1);
}

#[test]
fn a_hook_denies_by_json_and_the_old_way() {
    for answer in [
        decides("deny", json!({ "permissionDecisionReason": "no" })),
        prints(&json!({ "decision": "block", "reason": "no" })),
    ] {
        let provider = obedient();
        let home = Home::new(&provider);
        add(&home, "PreToolUse", "*", &answer);
        assert_eq!(home.run(&["exec", "sh touch made"]).0, 0);
        assert_eq!(told(&provider), "denied: a hook forbids it: no");
    }
}

#[test]
fn a_decision_that_is_not_known_is_none_and_is_said() {
    for (answer, what) in [
        (json!({ "decision": "Block", "reason": "no" }), "decision \"Block\""),
        (
            json!({ "hookSpecificOutput": { "permissionDecision": "DENY" } }),
            "permissionDecision \"DENY\"",
        ),
    ] {
        let provider = obedient();
        let home = Home::new(&provider);
        add(&home, "PreToolUse", "*", &prints(&answer));
        let (code, _, err) = home.run(&["exec", "sh touch made"]);
        assert_eq!(code, 0, "{err}");
        assert!(home.work().join("made").exists());
        let said = format!("printed JSON that is not read: the {what} is none of ");
        assert!(err.contains(&said), "{err}");
    }
}

#[test]
fn a_hook_gives_a_call_other_arguments_which_the_rules_look_at() {
    let provider = obedient();
    let home = Home::with(&provider, "[permissions]\ndeny = [\"bash(rm *)\"]\n");
    let keeps = keeps(&home, "seen");
    let other = |command: &str| {
        format!("{keeps}\n{}", decides("allow", json!({ "updatedInput": { "command": command } })))
    };
    add(&home, "PreToolUse", "bash", &other("touch other"));
    assert_eq!(home.run(&["exec", "sh touch made"]).0, 0);
    assert!(home.work().join("other").exists() && !home.work().join("made").exists());
    assert_eq!(kept(&home, "seen").len(), 1, "it is asked once");
    let session = home.sessions().remove(0);
    let started = home.entries(&session).into_iter().find(|it| it["kind"] == "call_started");
    assert!(started.unwrap().to_string().contains("touch other"));

    let provider = obedient();
    let home = Home::with(&provider, "[permissions]\ndeny = [\"bash(rm *)\"]\n");
    fs::write(home.work().join("kept"), "").unwrap();
    add(
        &home,
        "PreToolUse",
        "bash",
        &decides("allow", json!({ "updatedInput": { "command": "rm kept" } })),
    );
    assert_eq!(home.run(&["exec", "sh touch made"]).0, 0);
    assert!(told(&provider).starts_with("denied: bash(rm kept): it falls under the rule"));
    assert!(home.work().join("kept").exists());
}

#[test]
fn what_a_hook_allows_nobody_is_asked_about_but_rules_and_protected_files_stand() {
    let allowed = |config: &str, prompt: &str| {
        let provider = obedient();
        let home = Home::with(&provider, config);
        fs::create_dir_all(home.work().join(".git/hooks")).unwrap();
        add(&home, "PreToolUse", "*", &decides("allow", json!({})));
        let code = home.run(&["exec", "--mode", "ask", prompt]).0;
        (code, provider.requests().len())
    };
    assert_eq!(allowed("", "sh touch made"), (0, 2));
    assert_eq!(allowed("", "put made"), (0, 2));
    // 4: a person would have to be asked.
    assert_eq!(allowed("", "put .git/hooks/pre-commit").0, 4);
    assert_eq!(allowed("[permissions]\nask = [\"bash(touch *)\"]\n", "sh touch made").0, 4);
    let (code, _) = allowed("[permissions]\ndeny = [\"bash(touch *)\"]\n", "sh touch made");
    assert_eq!(code, 0);
    // Nor does it allow what the sandbox would not.
    assert_eq!(allowed("", "put ../beside").0, 4);
}

#[test]
fn a_deny_rule_beats_what_a_hook_allows() {
    let provider = obedient();
    let home = Home::with(&provider, "[permissions]\ndeny = [\"bash(touch *)\"]\n");
    add(&home, "PreToolUse", "*", &decides("allow", json!({})));
    assert_eq!(home.run(&["exec", "sh touch made"]).0, 0);
    assert!(told(&provider).starts_with("denied: bash(touch made): it falls under the rule"));
    assert!(!home.work().join("made").exists());
}

#[test]
fn of_what_hooks_say_the_strictest_counts() {
    let provider = obedient();
    let home = Home::new(&provider);
    add(&home, "PreToolUse", "*", &decides("allow", json!({})));
    add(&home, "PreToolUse", "*", "echo one >&2; exit 2");
    add(&home, "PreToolUse", "*", &decides("ask", json!({ "permissionDecisionReason": "sure?" })));
    add(&home, "PreToolUse", "*", "sleep 0.2; echo two >&2; exit 2");
    assert_eq!(home.run(&["exec", "sh touch made"]).0, 0);
    assert_eq!(told(&provider), "denied: a hook forbids it: one\ntwo");
}

#[test]
fn a_hook_that_asks_where_nobody_is_denies() {
    let provider = obedient();
    let home = Home::new(&provider);
    add(&home, "PreToolUse", "*", &decides("ask", json!({ "permissionDecisionReason": "sure?" })));
    assert_eq!(home.run(&["exec", "sh touch made"]).0, 0);
    assert_eq!(told(&provider), "denied: a hook asks, and nobody is there to answer: sure?");
}

#[test]
fn a_hook_decides_in_place_of_a_person() {
    let decided = |behavior: &str| {
        let provider = obedient();
        let home = Home::new(&provider);
        let decision = json!({ "behavior": behavior, "message": "not this" });
        let output = json!({ "hookEventName": "PermissionRequest", "decision": decision });
        let keeps = keeps(&home, "seen");
        let prints = prints(&json!({ "hookSpecificOutput": output }));
        add(&home, "PermissionRequest", "Bash", &format!("{keeps}\n{prints}"));
        let code = home.run(&["exec", "--mode", "ask", "sh touch made"]).0;
        assert_eq!(kept(&home, "seen").len(), 1);
        (code, told(&provider), home.work().join("made").exists())
    };
    let (code, _, is_made) = decided("allow");
    assert_eq!((code, is_made), (0, true));
    let denied = "denied: a hook forbids it: not this".to_owned();
    assert_eq!(decided("deny"), (0, denied, false));
}

#[test]
fn a_hook_adds_to_what_the_model_is_told_of_a_call() {
    let provider = obedient();
    let home = Home::new(&provider);
    let keeps = keeps(&home, "seen");
    add(&home, "PostToolUse", "bash", &format!("{keeps}; echo 'run the tests' >&2; exit 2"));
    let (code, _, err) = home.run(&["exec", "sh echo hello"]);
    assert_eq!(code, 0, "{err}");
    assert!(
        told(&provider).ends_with("hello\n\n[a hook says: run the tests]"),
        "{:?}",
        told(&provider)
    );
    assert!(err.contains("! a PostToolUse hook complains: run the tests"), "{err}");
    let seen = kept(&home, "seen").remove(0);
    assert_eq!(seen["tool_input"], json!({ "command": "echo hello" }));
    assert_eq!(seen["tool_response"].as_str().unwrap().trim(), "hello");
}

#[test]
fn a_hook_hears_of_a_call_that_failed() {
    let provider = obedient();
    let home = Home::new(&provider);
    let keeps = keeps(&home, "seen");
    let context = json!({ "hookSpecificOutput": { "additionalContext": "try make" } });
    add(&home, "PostToolUseFailure", "Write", &format!("{keeps}\n{}", prints(&context)));
    add(&home, "PostToolUse", "Write", &keeps);
    assert_eq!(home.run(&["exec", "put ."]).0, 0);
    assert!(told(&provider).ends_with("[a hook says: try make]"), "{}", told(&provider));
    let seen = kept(&home, "seen");
    assert_eq!(seen.len(), 1);
    assert_eq!(seen[0]["hook_event_name"], "PostToolUseFailure");
    assert!(seen[0]["error"].as_str().unwrap().contains("is a folder"), "{seen:?}");
}

#[test]
fn a_hook_ends_the_run() {
    for event in ["PreToolUse", "PostToolUse"] {
        let provider = obedient();
        let home = Home::new(&provider);
        add(&home, event, "*", &prints(&json!({ "continue": false, "stopReason": "enough" })));
        let (code, _, err) = home.run(&["exec", "sh touch made"]);
        assert_eq!(code, 1, "{event}: {err}");
        assert!(err.contains("a hook ended the run: enough"), "{event}: {err}");
        assert_eq!(provider.requests().len(), 1, "{event}");
        assert_eq!(home.run(&["sessions", "verify"]).0, 0);
    }
}

#[test]
fn a_hook_that_fails_is_a_warning() {
    let provider = obedient();
    let home = Home::new(&provider);
    add(&home, "PreToolUse", "*", "echo 'no such thing' >&2; exit 7");
    add(&home, "PostToolUse", "*", "echo '{ is no JSON'");
    let (code, _, err) = home.run(&["exec", "sh touch made"]);
    assert_eq!(code, 0, "{err}");
    assert!(home.work().join("made").exists());
    assert!(err.contains("failed with code 7: no such thing"), "{err}");
    assert!(err.contains("printed JSON that is not read"), "{err}");
}

#[test]
fn a_hook_whose_time_is_up_is_ended_with_all_it_started() {
    let provider = obedient();
    // Whoever else sleeps on this machine sleeps for another time.
    let time = format!("7{}", std::process::id());
    let home = Home::with(
        &provider,
        &format!(
            "[[hooks]]\nevent = \"PreToolUse\"\ncommand = \"sleep {time} & (setsid sleep {time} &) ; sleep {time}\"\n\
             timeout = \"300ms\"\n"
        ),
    );
    let (code, _, err) = home.run(&["exec", "--sandbox", "off", "sh ps -eo args"]);
    assert_eq!(code, 0, "{err}");
    assert!(err.contains("was ended after 0.3 s"), "{err}");
    let shown = told(&provider);
    assert!(shown.contains("ps -eo args"), "{shown}");
    assert!(!shown.contains(&format!("sleep {time}")), "{shown}");
    home.wait_until_gone();
}

#[test]
fn what_a_hook_says_is_bounded_and_without_secrets() {
    let provider = obedient();
    let home = Home::new(&provider);
    fs::write(home.work().join(".env"), "PASSWORD=correct-horse-battery\n").unwrap();
    let says = "echo correct-horse-battery >&2; head -c 2000000 /dev/zero | tr '\\0' x >&2; exit 2";
    add(&home, "PreToolUse", "*", says);
    assert_eq!(home.run(&["exec", "sh touch made"]).0, 0);
    let told = told(&provider);
    assert!(!told.contains("correct-horse") && told.contains("[cut: the hook said"), "{told}");
    assert!(told.len() < 11_000, "{}", told.len());
}

#[test]
fn keys_are_not_in_the_environment_of_a_hook() {
    let provider = obedient();
    let home = Home::new(&provider);
    let seen = home.path("seen");
    add(&home, "PreToolUse", "*", &format!("env > {}", seen.display()));
    let mut command = home.bowline();
    command.env("OPENAI_API_KEY", "sk-nobody-else").args(["exec", "sh touch made"]);
    assert!(command.output().unwrap().status.success());
    let seen = fs::read_to_string(seen).unwrap();
    let work = home.work();
    assert!(!seen.contains("sk-nobody-else") && !seen.contains("API_KEY"), "{seen}");
    assert!(seen.contains(&format!("CLAUDE_PROJECT_DIR={}\n", work.display())), "{seen}");
    assert!(seen.contains(&format!("BOWLINE_PROJECT_DIR={}\n", work.display())), "{seen}");
}

#[test]
fn nobody_waits_for_a_hook_that_is_async_and_it_ends_with_the_process() {
    let provider = obedient();
    let home = Home::with(
        &provider,
        "[[hooks]]\nevent = \"PreToolUse\"\ncommand = \"sleep 74; exit 2\"\nasync = true\n",
    );
    assert_eq!(home.run(&["exec", "sh touch made"]).0, 0);
    assert!(home.work().join("made").exists());
    home.wait_until_gone();
}

#[test]
fn what_a_hook_does_to_files_after_a_call_is_undone_with_it() {
    let provider = obedient();
    let home = Home::new(&provider);
    let git = std::process::Command::new("git")
        .args(["init", "--quiet"])
        .env("HOME", home.path(""))
        .current_dir(home.work())
        .output();
    assert!(git.unwrap().status.success());
    add(&home, "PostToolUse", "Write", "sed -i s/put/formatted/ a.txt");
    assert_eq!(home.run(&["exec", "put a.txt"]).0, 0);
    let file = home.work().join("a.txt");
    assert_eq!(fs::read_to_string(&file).unwrap(), "formatted\n");
    let (code, out, err) = home.run(&["rewind", "--yes"]);
    assert_eq!((code, file.exists()), (0, false), "{out}{err}");
}

#[test]
fn a_hook_that_decides_is_heard_also_if_one_for_which_nobody_waits_runs_the_same() {
    let provider = obedient();
    let hook = "[[hooks]]\nevent = \"PreToolUse\"\ncommand = \"exit 2\"\n";
    let home = Home::with(&provider, &format!("{hook}async = true\n{hook}"));
    assert_eq!(home.run(&["exec", "sh touch made"]).0, 0);
    assert!(!home.work().join("made").exists());
}

#[test]
fn what_a_hook_tells_before_a_call_is_said_once_behind_it() {
    let context = json!({ "additionalContext": "It is slow." });
    let rewrites = json!({
        "additionalContext": "It is slow.", "updatedInput": { "command": "touch other" }
    });
    let decision = json!({ "behavior": "allow" });
    let for_a_person = json!({ "hookSpecificOutput": {
        "hookEventName": "PermissionRequest", "decision": decision,
        "additionalContext": "It is slow.",
    } });
    for (event, answer) in [
        ("PreToolUse", decides("allow", context)),
        ("PreToolUse", decides("allow", rewrites)),
        ("PermissionRequest", prints(&for_a_person)),
    ] {
        let provider = obedient();
        let home = Home::new(&provider);
        add(&home, event, "*", &answer);
        assert_eq!(home.run(&["exec", "--mode", "ask", "sh touch made"]).0, 0);
        let request = provider.requests().pop().unwrap();
        let texts: Vec<_> = messages(&request).iter().map(text).collect();
        let times = texts.iter().filter(|text| text.contains("It is slow.")).count();
        assert_eq!((times, texts.last().unwrap().as_str()), (1, "It is slow."), "{answer}");
    }
}
