//! Hooks of Claude Code's settings.

use pretty_assertions::assert_eq;
use serde_json::json;

use super::*;

/// Settings as people have them.
fn settings(home: &Home, folder: &str, settings: &Value) {
    let folder = home.path(folder).join(".claude");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("settings.json"), settings.to_string()).unwrap();
}

/// A guard that reads what it is told as such scripts do, without a JSON parser.
const GUARD: &str = r#"input=$(cat)
case "$input" in
  *'"tool_name":"Bash"'*'rm -rf'* | *'rm -rf'*'"tool_name":"Bash"'*)
    echo "no removal of trees" >&2; exit 2 ;;
esac
exit 0"#;

#[test]
fn the_users_settings_are_read_as_they_are() {
    let provider = obedient();
    let home = Home::new(&provider);
    let guard = script(&home, "guard.sh", GUARD);
    let keeps = script(&home, "keeps.sh", &keeps(&home, "seen"));
    let written = json!({
        "permissions": { "allow": ["Bash(ls:*)"] },
        "hooks": {
            "PreToolUse": [
                { "matcher": "Bash", "hooks": [{ "type": "command", "command": guard }] },
                { "matcher": "Edit|Write", "hooks": [
                    { "type": "command", "command": keeps, "timeout": 10 },
                    { "type": "prompt", "prompt": "Is this well?" }
                ] },
            ],
            "PostToolUse": [
                { "matcher": "^Wri", "hooks": [{ "type": "command", "command": keeps }] },
            ],
            "Stop": [{ "hooks": [{ "type": "command", "command": keeps }] }],
            "TeammateIdle": [{ "hooks": [{ "type": "command", "command": "true" }] }],
        },
    });
    settings(&home, "", &written);
    let (code, _, err) = home.run(&["exec", "sh rm -rf ."]);
    assert_eq!(code, 0, "{err}");
    assert_eq!(told(&provider), "denied: a hook forbids it: no removal of trees");
    assert!(err.contains("settings.json: "), "{err}");
    assert!(
        err.contains("the hooks of TeammateIdle are left out, an event that is not here"),
        "{err}"
    );
    assert!(
        err.contains("a hook of PreToolUse is left out, because it is of the kind \"prompt\""),
        "{err}"
    );
    assert_eq!(err.matches("settings.json").count(), 1, "{err}");
    assert_eq!(home.run(&["exec", "put made"]).0, 0);
    let seen = kept(&home, "seen");
    let names: Vec<_> = seen.iter().map(|seen| seen["hook_event_name"].as_str().unwrap()).collect();
    assert_eq!(names, ["Stop", "PreToolUse", "PostToolUse", "Stop"]);
    let made = home.work().join("made");
    assert_eq!(seen[1]["tool_name"], "Write");
    assert_eq!(seen[1]["tool_input"], json!({ "file_path": made, "content": "put\n" }));
    assert_eq!(seen[2]["tool_response"]["filePath"], json!(made));
    assert_eq!(seen[3]["stop_hook_active"], false);
    assert_eq!(seen[3]["last_assistant_message"], "done");
}

#[test]
fn other_arguments_may_be_written_as_there() {
    let provider = obedient();
    let home = Home::new(&provider);
    let other = home.work().join("other");
    let output = json!({ "hookSpecificOutput": { "hookEventName": "PreToolUse",
        "permissionDecision": "allow", "updatedInput": { "file_path": other, "content": "theirs" } } });
    let command = format!("cat > /dev/null; echo '{output}'");
    let hook = json!({ "matcher": "Write", "hooks": [{ "type": "command", "command": command }] });
    settings(&home, "", &json!({ "hooks": { "PreToolUse": [hook] } }));
    assert_eq!(home.run(&["exec", "put made"]).0, 0);
    assert_eq!(fs::read_to_string(other).unwrap(), "theirs");
    let session = home.sessions().remove(0);
    let started = home.entries(&session).into_iter().find(|it| it["kind"] == "call_started");
    assert!(!started.unwrap().to_string().contains("file_path"));
}

#[test]
fn settings_of_a_project_count_once_it_is_trusted() {
    let provider = obedient();
    let home = Home::new(&provider);
    let hook = json!({ "hooks": [{ "type": "command", "command": "touch stolen" }] });
    settings(&home, "work", &json!({ "hooks": { "SessionStart": [hook] } }));
    fs::create_dir_all(home.path("work/.bowline")).unwrap();
    let own = "[[hooks]]\nevent = \"SessionStart\"\ncommand = \"touch own\"\n";
    fs::write(home.path("work/.bowline/config.toml"), own).unwrap();
    let are_there = || ["stolen", "own"].map(|name| home.work().join(name).exists());
    let (code, _, err) = home.run(&["exec", "hello"]);
    assert_eq!((code, are_there()), (0, [false; 2]), "{err}");
    let line = err.lines().find(|line| line.contains("not applied")).unwrap();
    assert!(
        line.contains(".claude/settings.json") && line.contains(".bowline/config.toml"),
        "{err}"
    );
    let (_, listed, _) = home.run(&["hooks", "list"]);
    let untrusted = listed.lines().filter(|line| line.contains("does not run: the folder is not"));
    assert_eq!(untrusted.count(), 2, "{listed}");
    assert_eq!(home.run(&["exec", "--trust", "hello"]).0, 0);
    assert_eq!(are_there(), [true; 2]);
}

#[test]
fn all_hooks_can_be_switched_off() {
    let provider = obedient();
    let home = Home::new(&provider);
    let hook = json!({ "hooks": [{ "type": "command", "command": "touch ran" }] });
    let with =
        |is_off: bool| json!({ "disableAllHooks": is_off, "hooks": { "SessionStart": [hook] } });
    settings(&home, "", &with(true));
    add(&home, "SessionStart", "*", "touch ran");
    let ran = || home.work().join("ran").exists();
    assert_eq!((home.run(&["exec", "hello"]).0, ran()), (0, false));
    settings(&home, "", &with(false));
    let arguments = ["exec", "-c", "hooks_enabled=false", "hello"];
    assert_eq!((home.run(&arguments).0, ran()), (0, false));
    assert_eq!((home.run(&["exec", "hello"]).0, ran()), (0, true));
}

#[test]
fn settings_that_are_broken_are_said_and_left_out() {
    let provider = obedient();
    let home = Home::new(&provider);
    fs::create_dir_all(home.path(".claude")).unwrap();
    fs::write(home.path(".claude/settings.json"), "{ \"hooks\": ").unwrap();
    let (code, _, err) = home.run(&["exec", "hello"]);
    assert_eq!(code, 0, "{err}");
    assert!(err.contains(".claude/settings.json: is not read: EOF"), "{err}");
}

#[test]
fn of_an_event_only_what_is_faulty_is_left_out() {
    let provider = obedient();
    let home = Home::new(&provider);
    let guard = script(&home, "guard.sh", GUARD);
    let command = |command: &str| json!({ "type": "command", "command": command });
    let of_time = json!({ "type": "command", "command": guard, "timeout": "10" });
    let written = json!({ "hooks": { "Stop": "true", "PreToolUse": [
        5,
        { "matcher": "a(?=b)", "hooks": [command("true")] },
        { "matcher": 7, "hooks": [command("true")] },
        { "type": "command", "command": "true" },
        { "matcher": "Bash", "hooks": [
            5, { "type": "command", "command": 1 }, of_time, command(" ")
        ] },
    ] } });
    settings(&home, "", &written);
    let (code, _, err) = home.run(&["exec", "sh rm -rf ."]);
    assert_eq!(code, 0, "{err}");
    assert_eq!(told(&provider), "denied: a hook forbids it: no removal of trees");
    for note in [
        "Stop is left out: a list is expected",
        "PreToolUse 1 is left out: invalid type: integer `5`, expected an object",
        "PreToolUse 2 is left out: \"a(?=b)\" is no regular expression: look-around",
        "PreToolUse 3 is left out: invalid type: integer `7`, expected a string",
        "PreToolUse 4 is left out: missing field `hooks`",
        "PreToolUse 5, hook 1 is left out: invalid type: integer `5`, expected an object",
        "PreToolUse 5, hook 2 is left out: invalid type: integer `1`, expected a string",
        "PreToolUse 5, hook 3: \"10\" is no time in seconds, so it has 60",
        "PreToolUse 5, hook 4 is left out: it has no command",
    ] {
        assert!(err.contains(note), "{note}: {err}");
    }
}
