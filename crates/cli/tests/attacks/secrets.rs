//! Secrets that somebody tries to get out.

use pretty_assertions::assert_eq;
use serde_json::json;

use super::support::{Home, Provider, Raw, Reply};
use super::{calls, told};

const KEY: &str = "sk-very-secret-0123456789";

/// Tells where a key stands of what a run left and said.
fn places(home: &Home, said: &[&String]) -> Vec<String> {
    let mut places: Vec<String> =
        said.iter().filter(|text| text.contains(KEY)).map(|text| (*text).clone()).collect();
    let mut folders = vec![home.path("home/data")];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = std::fs::read_dir(folder) else { continue };
        for entry in entries {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if String::from_utf8_lossy(&std::fs::read(&path).unwrap()).contains(KEY) {
                places.push(path.display().to_string());
            }
        }
    }
    places
}

#[test]
fn a_server_that_repeats_the_key_tells_it_to_nobody() {
    let error = json!({ "error": { "message": format!("no: {KEY}"), "code": KEY, "type": KEY } });
    let stream = "text/event-stream";
    let answers = [
        (401, "application/json", error.to_string()),
        (401, "text/html", format!("<p>Authorization: Bearer {KEY}</p>")),
        (429, "application/json", error.to_string()),
        (500, "text/plain", format!("key {KEY}")),
        (200, stream, format!("data: {error}\n\n")),
        (200, stream, format!("data: {{garbage {KEY}\n\n")),
        (200, "application/json", error.to_string()),
    ];
    for (status, content_type, body) in answers {
        let raw = Raw { status, content_type: content_type.to_owned(), body, is_cut: false };
        let provider = Provider::answering(move |_| Reply::Raw(raw.clone()));
        let home = Home::new(&provider);
        let path = home.path("home/config/config.toml");
        let config =
            std::fs::read_to_string(&path).unwrap().replace("max_retries = 0", "max_retries = 1");
        std::fs::write(&path, format!("{config}api_key = \"{KEY}\"\n")).unwrap();
        let (code, out, err) = home.run(&["exec", "--json", "go"]);
        assert_ne!(code, 0, "{status} {content_type}");
        assert_eq!(places(&home, &[&out, &err]), [""; 0], "{status} {content_type}");
    }
}

#[test]
fn no_command_that_shows_a_configuration_shows_a_key() {
    let home = Home::configured(&format!(
        "model = \"test/model\"\n[providers.test]\nbase_url = \"http://127.0.0.1:1/v1\"\nmax_retries = 0\napi_key = \"{KEY}\"\n"
    ));
    for command in [
        &["config", "show"][..],
        &["doctor", "--json"],
        &["models"],
        &["exec", "--dump-prompt", "go"],
        &["agents", "show", "default"],
        &["exec", "--json", "go"],
    ] {
        let mut command_line = home.bowline();
        command_line.args(command).env("RUST_BACKTRACE", "full").env("RUST_LOG", "trace");
        let output = command_line.output().unwrap();
        let (out, err) =
            (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
        assert_eq!(places(&home, &[&out, &err]), [""; 0], "{command:?}");
    }
}

#[test]
fn prose_about_placeholders_is_written_as_it_is() {
    let prose = "A placeholder is `[secret name]`, or [secret …]; not [secret made-up].\n";
    let provider = calls(vec![("write", json!({ "path": "prose", "content": prose }))]);
    let home = Home::new(&provider);
    told(&home, &provider, &[]);
    assert_eq!(std::fs::read_to_string(home.work().join("prose")).unwrap(), prose);
}

#[test]
fn the_brackets_of_a_placeholder_hide_no_token() {
    let token = format!("ghp_{}", "aB3dE6gH9jK2mN5pQ8rS1tU4vW7xY0zA1b2C");
    let command = "printf '[secret %s] TOKEN=[secret-%s' $(cat token) $(cat token)";
    let provider = calls(vec![("bash", json!({ "command": command }))]);
    let home = Home::new(&provider);
    std::fs::write(home.work().join("token"), &token).unwrap();
    let told = told(&home, &provider, &[]);
    assert!(!told[0].contains(&token) && told[0].contains("[secret github-token-"), "{told:?}");
}

#[test]
fn a_patch_neither_moves_nor_quotes_what_may_not_be_read() {
    let patch = |lines: &str| {
        let patch = format!("*** Begin Patch\n*** Update File: .env\n{lines}\n*** End Patch");
        ("apply_patch", json!({ "patch": patch }))
    };
    for lines in ["*** Move to: notes.txt", "@@\n-KEY=\n+KEY"] {
        for (mode, more) in [
            ("accept-edits", &[][..]),
            ("accept-edits", &["--allow", "write(**)"]),
            ("auto", &[]),
            ("bypass", &["--deny", "read(.env)"]),
        ] {
            let provider = calls(vec![patch(lines)]);
            let home = Home::new(&provider);
            std::fs::write(home.work().join(".env"), format!("KEY={KEY}\n")).unwrap();
            let said = ["exec", "-m", "test/gpt-5", "--mode", mode];
            home.run(&[&said[..], more, &["go"]].concat());
            assert!(home.work().join(".env").exists(), "{lines} {mode} {more:?}");
            assert!(!home.work().join("notes.txt").exists(), "{lines} {mode} {more:?}");
            assert_eq!(places(&home, &[]), [""; 0], "{lines} {mode} {more:?}");
            let requests = provider.requests();
            assert!(!requests.iter().any(|it| it.to_string().contains(KEY)), "{lines} {mode}");
        }
    }
}

/// Runs `env` in a home whose `[shell_environment]` is as given, and returns what it says.
fn variables(shell_environment: &str) -> String {
    let provider = calls(vec![(
        "bash",
        json!({ "command": "env; for p in /proc/*; do cat $p/environ; done | tr '\\0' '\\n'" }),
    )]);
    let home = Home::with(&provider, shell_environment);
    let path = home.path("home/config/config.toml");
    let config = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, format!("{config}api_key_env = \"ACCESS\"\n")).unwrap();
    let output = home
        .bowline()
        .args(["exec", "go"])
        .envs([
            ("ACCESS", KEY),
            ("MY_COPY", KEY),
            ("MY_COLOUR", "red"),
            ("MY_PASSWORD", "Tr0ub4dor&3"),
        ])
        .envs([("OTHER", "x"), ("CI", "yes"), ("MY_URL", "http://me:pw@x.example")])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let said = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    // What a command writes is kept as it is, if it has the key.
    let has_key = shell_environment.contains("ACCESS");
    let mut places = places(&home, &[&said[0], &said[1]]);
    places.retain(|place| !(has_key && place.ends_with(".out")));
    assert_eq!(places, [""; 0], "{shell_environment}");
    let request = provider.requests().pop().unwrap();
    let told = super::messages(&request).last().unwrap()["content"].as_str().unwrap().to_owned();
    assert!(!told.contains(KEY), "{told}");
    told
}

#[test]
fn commands_get_the_variables_that_are_said_and_keys_only_by_name() {
    let has =
        |told: &str, name: &str| told.lines().any(|line| line.starts_with(&format!("{name}=")));
    let names =
        ["CI", "PATH", "MY_COLOUR", "OTHER", "ACCESS", "MY_COPY", "MY_PASSWORD", "MY_URL", "ADDED"];
    for (said, passed) in [
        ("", &["CI", "PATH"][..]),
        ("pass = [\"MY_*\"]", &["CI", "PATH", "MY_COLOUR"]),
        ("pass = [\"*\"]", &["CI", "PATH", "MY_COLOUR", "OTHER"]),
        ("drop = [\"C*\"]\nset = { ADDED = \"1\" }", &["PATH", "ADDED"]),
        ("drop = [\"*\"]\npass = [\"PATH\", \"OTHER\"]", &["PATH", "OTHER"]),
        ("pass = [\"ACCESS\", \"MY_PASSWORD\"]", &["CI", "PATH", "ACCESS", "MY_PASSWORD"]),
    ] {
        let told = variables(&format!("[shell_environment]\n{said}\n"));
        let seen: Vec<_> = names.into_iter().filter(|name| has(&told, name)).collect();
        let passed: Vec<_> = names.into_iter().filter(|name| passed.contains(name)).collect();
        assert_eq!(seen, passed, "{said}: {told}");
    }
}

#[test]
fn a_variable_that_is_none_is_a_fault() {
    for wrong in ["pass = [\"A*B\"]", "drop = [\"\"]", "pass = [\"A=B\"]", "inherit = \"all\""] {
        let home = Home::configured(&format!("[shell_environment]\n{wrong}\n"));
        let (code, _, err) = home.run(&["config", "show"]);
        assert_eq!(code, 2, "{wrong}: {err}");
        assert!(err.contains("shell_environment"), "{wrong}: {err}");
    }
}
