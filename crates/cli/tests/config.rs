//! Configuration, models and instructions, as a user meets them.

#![allow(clippy::unwrap_used, reason = "a failure here is a failure of the test")]

mod support;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use support::{Home, Provider, Reply, messages, obedient};

fn home() -> (Home, Provider) {
    let provider = Provider::answering(|_| Reply::Text("done".to_owned()));
    (Home::new(&provider), provider)
}

fn user_file(home: &Home) -> PathBuf {
    home.path("home/config/config.toml")
}

/// Replaces the user's configuration.
fn configure(home: &Home, config: &str) {
    std::fs::write(user_file(home), config).unwrap();
}

/// Runs with more variables: exit code, stdout, stderr.
fn run_with(home: &Home, vars: &[(&str, &str)], arguments: &[&str]) -> (i32, String, String) {
    let output = home.bowline().envs(vars.iter().copied()).args(arguments).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn show_prints_what_counts_without_secrets() {
    let (home, provider) = home();
    let vars = [("MINE", "sk-very-secret"), ("BOWLINE_LIMITS_MODEL_TURNS", "7")];
    let key = "providers.test.api_key_env=MINE";
    let given = "providers.other.api_key=sk-other-secret";
    let (code, out, err) = run_with(&home, &vars, &["config", "show", "-c", key, "-c", given]);
    assert_eq!((code, err.as_str()), (0, ""));
    let shown: toml::Table = toml::from_str(&out).unwrap();
    assert_eq!(shown["model"].as_str(), Some("test/model"));
    assert_eq!(shown["limits"]["model_turns"].as_integer(), Some(7));
    assert_eq!(shown["limits"]["run_time"].as_str(), Some("30m"));
    assert_eq!(shown["providers"]["test"]["base_url"].as_str(), Some(&*provider.base_url()));
    assert_eq!(shown["providers"]["test"]["api_key_env"].as_str(), Some("MINE"));
    assert!(!out.contains("secret"), "{out}");
}

#[test]
fn what_bowline_tells_its_commands_and_hooks_is_no_setting_of_a_bowline_among_them() {
    let provider = obedient();
    let said = |home: &Home, by: &str| {
        let (bowline, path) = (env!("CARGO_BIN_EXE_bowline"), home.path(by));
        format!("{bowline} config show > {0} 2>&1; echo $? >> {0}", path.display())
    };
    let home = Home::new(&provider);
    let hook = said(&home, "hook");
    let hook = format!("\n[[hooks]]\nevent = \"PreToolUse\"\ncommand = {}\n", json!(hook));
    configure(&home, &(std::fs::read_to_string(user_file(&home)).unwrap() + &hook));
    let command = format!("sh {}", said(&home, "command"));
    let (code, _, err) = run_with(&home, &[], &["exec", "--yolo", &command]);
    assert_eq!(code, 0, "{err}");
    for by in ["hook", "command"] {
        let said = std::fs::read_to_string(home.path(by)).unwrap();
        assert!(said.ends_with("\n0\n") && !said.contains("BOWLINE_"), "{by}: {said}");
    }
}

#[test]
fn explain_names_the_layer_and_the_line() {
    let (home, _provider) = home();
    let (code, out, _) =
        run_with(&home, &[("BOWLINE_MODEL", "a/b")], &["config", "explain", "model"]);
    let file = user_file(&home);
    let expected = format!(
        "model = \"a/b\"  # BOWLINE_MODEL\n    instead of \"test/model\"  # {}:1\n",
        file.display()
    );
    assert_eq!((code, out), (0, expected));
    let (code, out, _) = home.run(&["config", "explain"]);
    assert_eq!(code, 0);
    assert!(out.contains(&format!("model = \"test/model\"  # {}:1\n", file.display())), "{out}");
    assert!(out.contains("limits.model_turns = 100  # default\n"), "{out}");
    let (code, _, err) = home.run(&["config", "explain", "limits.model_turn"]);
    assert_eq!(code, 2);
    assert!(err.contains("did you mean \"model_turns\""), "{err}");
}

#[test]
fn path_works_even_when_the_file_is_broken() {
    let (home, _provider) = home();
    configure(&home, "model = [");
    let file = user_file(&home);
    let (code, out, _) = home.run(&["config", "path"]);
    assert_eq!((code, out), (0, format!("{}\n", file.display())));
    let (code, out, _) = home.run(&["config", "path", "--all", "--profile", "fast"]);
    assert_eq!(code, 0);
    assert!(out.contains("/etc/bowline/config.toml  (system"), "{out}");
    assert!(out.trim_end().ends_with("fast.config.toml  (profile, absent)"), "{out}");
    assert_eq!(home.run(&["config", "show"]).0, 2);
}

#[test]
fn a_profile_changes_the_model() {
    let (home, provider) = home();
    std::fs::write(home.path("home/config/fast.config.toml"), "model = \"test/fast\"\n").unwrap();
    let (code, _, err) = home.run(&["exec", "--profile", "fast", "hello"]);
    assert_eq!(code, 0, "{err}");
    assert_eq!(provider.requests()[0]["model"], "fast");
    let (code, _, err) = home.run(&["exec", "--profile", "slow", "hello"]);
    assert_eq!(code, 2);
    assert!(err.contains("slow.config.toml") && err.contains("[profiles.slow]"), "{err}");
}

#[test]
fn a_configuration_in_yaml_is_read_too() {
    let (home, provider) = home();
    std::fs::remove_file(user_file(&home)).unwrap();
    let url = provider.base_url();
    let yaml = format!(
        "providers:\n  - name: mine\n    kind: openai\n    base_url: {url}\n    model: m:7b\n\
         agents:\n  - name: assistant\n"
    );
    std::fs::write(home.path("home/config/config.yaml"), yaml).unwrap();
    let (code, out, err) = home.run(&["exec", "hello"]);
    assert_eq!((code, out.as_str()), (0, "done\n"), "{err}");
    assert!(!err.contains("no effect"), "{err}");
    assert_eq!(provider.requests()[0]["model"], "m:7b");
}

#[test]
fn a_project_that_is_not_trusted_decides_nothing() {
    let (home, provider) = home();
    std::fs::create_dir(home.work().join(".bowline")).unwrap();
    for file in [".bowline/config.toml", ".bowline/config.local.toml"] {
        std::fs::write(home.work().join(file), "model = \"test/evil\"\n").unwrap();
    }
    let (code, _, err) = home.run(&["exec", "hello"]);
    assert_eq!(code, 0, "{err}");
    assert_eq!(provider.requests()[0]["model"], "model");
    assert_eq!(err.matches("not applied:").count(), 1, "{err}");
}

#[test]
fn a_key_file_that_others_can_read_is_refused() {
    let (home, provider) = home();
    let file = home.path("home/config/key");
    std::fs::write(&file, "sk-1").unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    let arguments = ["exec", "-c", "providers.test.api_key_file=key", "hello"];
    let (code, _, err) = home.run(&arguments);
    assert_eq!(code, 5);
    assert!(err.contains("chmod 600") && !err.contains("sk-1"), "{err}");
    assert!(provider.requests().is_empty());
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(home.run(&arguments).0, 0);
}

/// An Ollama with one model that says `hi`, and the requests it got.
fn ollama() -> (SocketAddr, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let requests = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&requests);
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let (mut length, mut line, mut head) = (0, String::new(), String::new());
            while reader.read_line(&mut line).unwrap_or_default() > 2 {
                if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
                head.push_str(&std::mem::take(&mut line));
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).unwrap();
            let path = head.split(' ').nth(1).unwrap_or_default();
            let answer = match path {
                "/api/version" => json!({ "version": "0.12.3" }),
                "/api/tags" => json!({ "models": [{ "name": "nomic-embed" }, { "name": "q:7b" }] }),
                "/api/ps" => json!({ "models": [{ "name": "q:7b", "context_length": 8192 }] }),
                "/v1/chat/completions" => json!({ "choices": [{
                    "message": { "role": "assistant", "content": "hi" }, "finish_reason": "stop"
                }], "usage": { "prompt_tokens": 1, "completion_tokens": 1 } }),
                _ => Value::Null,
            };
            if !head.is_empty() {
                seen.lock().unwrap().push(head + &String::from_utf8(body).unwrap());
            }
            let _ = write!(
                stream,
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n{answer}"
            );
        }
    });
    (address, requests)
}

#[test]
fn a_local_server_is_taken_when_nothing_names_a_model() {
    let (home, _provider) = home();
    configure(&home, "");
    let (address, requests) = ollama();
    let servers = format!("[\"{address}\"]");
    let vars = [("BOWLINE_LOCAL_SERVERS", servers.as_str())];
    let (code, out, err) = run_with(&home, &vars, &["exec", "a very private task"]);
    assert_eq!((code, out.as_str()), (0, "hi\n"), "{err}");
    assert!(err.contains("taking q:7b of Ollama at") && err.contains("8192 tokens"), "{err}");
    let requests = requests.lock().unwrap();
    let asked = requests.iter().position(|request| request.contains("/v1/chat/completions"));
    let before = &requests[..asked.unwrap()];
    assert!(before.iter().all(|request| !request.contains("private")), "{before:?}");
    assert!(requests[asked.unwrap()].contains("\"q:7b\""));
}

#[test]
fn nobody_is_asked_when_a_model_is_named() {
    let (home, _provider) = home();
    let (address, requests) = ollama();
    let servers = format!("[\"{address}\"]");
    let vars = [("BOWLINE_LOCAL_SERVERS", servers.as_str())];
    assert_eq!(run_with(&home, &vars, &["exec", "hello"]).0, 0);
    assert!(requests.lock().unwrap().is_empty());
}

#[test]
fn without_any_model_the_complaint_says_what_to_do() {
    let (home, _provider) = home();
    configure(&home, "local_servers = []\n");
    let (code, _, err) = home.run(&["exec", "hello"]);
    assert_eq!(code, 2);
    let file = user_file(&home).display().to_string();
    for part in ["--model", &file, "ANTHROPIC_API_KEY", "OPENAI_API_KEY", "Ollama"] {
        assert!(err.contains(part), "{err}");
    }
}

#[test]
fn instructions_are_told_once_in_the_first_message_and_never_in_the_system_text() {
    let (home, provider) = home();
    std::fs::write(home.work().join("AGENTS.md"), "Say please. @more.md").unwrap();
    std::fs::write(home.work().join("more.md"), "Say thanks.").unwrap();
    assert_eq!(home.run(&["exec", "hello"]).0, 0);
    assert_eq!(home.run(&["exec", "--continue", "again"]).0, 0);
    assert_eq!(home.run(&["exec", "--no-context-files", "hello"]).0, 0);
    let requests = provider.requests();
    let texts = |request: &Value| -> Vec<(String, String)> {
        messages(request)
            .iter()
            .map(|message| (message["role"].as_str().unwrap().to_owned(), message.to_string()))
            .collect()
    };
    let first = texts(&requests[0]);
    assert_eq!(first[0].0, "system");
    assert!(!first[0].1.contains("please"));
    let file = home.work().join("AGENTS.md").canonicalize().unwrap();
    assert!(
        first[1].1.contains(&format!("<instructions file=\\\"{}\\\">", file.display())),
        "{first:?}"
    );
    assert!(first[1].1.contains("Say please.") && first[1].1.contains("Say thanks."));
    let again: String = texts(&requests[1]).into_iter().map(|(_, text)| text).collect();
    assert_eq!(again.matches("Say please.").count(), 1);
    assert!(!requests[2].to_string().contains("please"));
}

#[test]
fn doctor_is_content_with_what_works() {
    let (home, _provider) = home();
    let none = [("BOWLINE_LOCAL_SERVERS", "[]")];
    assert_eq!(home.run(&["exec", "hello"]).0, 0);
    let (code, out, err) = run_with(&home, &none, &["doctor", "--json"]);
    let report: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &report["ok"]), (0, &json!(true)), "{out}{err}");
    let what = |name: &str| {
        let checks = report["checks"].as_array().unwrap();
        let check = checks.iter().find(|check| check["name"] == name).unwrap();
        (check["status"].as_str().unwrap().to_owned(), check["what"].as_str().unwrap().to_owned())
    };
    let ok = |text: &str| ("ok".to_owned(), text.to_owned());
    assert_eq!(what("model"), ok("test/model"));
    assert_eq!(what("helper process"), ok("runs commands"));
    assert_eq!(what("sessions"), ok("1, all sound"));
    assert_eq!(what("sandbox").0, "ok");
}

#[test]
fn doctor_says_what_is_wrong_and_what_to_do() {
    let (home, _provider) = home();
    assert_eq!(home.run(&["exec", "hello"]).0, 0);
    let session = &home.sessions()[0];
    let day = std::fs::read_dir(home.path("home/data/sessions")).unwrap().next().unwrap().unwrap();
    let log = day.path().join(format!("{session}.jsonl"));
    let text = std::fs::read_to_string(&log).unwrap();
    std::fs::write(&log, text.replacen("hello", "hullo", 1)).unwrap();
    configure(
        &home,
        "model = \"far/m\"\nfallback = [\"far/n\", \"dead/m\", \"nobody/m\"]\n\
         [providers.dead]\nbase_url = \"http://127.0.0.1:1/v1\"\n[providers.far]\nbase_url = \"https://far.example\"\napi_key_env = \"FAR\"\n",
    );
    let vars = [("BOWLINE_LOCAL_SERVERS", "[]"), ("OPENAI_API_KEY", "sk-very-secret")];
    let (code, out, _) = run_with(&home, &vars, &["doctor"]);
    assert_eq!(code, 1);
    let line = |start: &str| out.lines().find(|line| line.starts_with(start)).unwrap().to_owned();
    assert_eq!(line("PROBLEM  model"), "PROBLEM  model: far/m: no key: FAR is not set; set FAR");
    let stand_in = |start: &str| line(&format!("PROBLEM  fallback: {start}"));
    assert!(stand_in("far/n").ends_with("no key: FAR is not set; set FAR"));
    assert!(stand_in("dead/m").contains("nothing answers at 127.0.0.1:1; start its server"));
    assert!(stand_in("unknown provider \"nobody\"").ends_with("correct `fallback` or [providers]"));
    assert!(
        line("PROBLEM  sessions").contains("1 of 1 are damaged; see `bowline sessions verify`")
    );
    assert!(out.contains("provider: openai: key in OPENAI_API_KEY"), "{out}");
    assert!(!out.contains("sk-very-secret"));

    configure(&home, "modle = 1\n");
    let (code, out, _) = run_with(&home, &vars, &["doctor"]);
    assert_eq!(code, 1);
    assert!(out.contains("line 1: unknown key \"modle\""), "{out}");
}

#[test]
fn models_says_what_can_be_used_and_why_the_rest_cannot() {
    let (home, _provider) = home();
    let (address, _) = ollama();
    configure(
        &home,
        &format!(
            "[providers.mine]\nbase_url = \"http://{address}/v1\"\nmodel = \"m:7b\"\ncontext_window = 9000\n\
         models.\"m:7b\".images = true\n\
         [providers.dead]\nbase_url = \"http://127.0.0.1:1/v1\"\nmodel = \"m\"\n\
         [providers.far]\nbase_url = \"https://far.example\"\napi_key_env = \"FAR\"\n"
        ),
    );
    let servers = format!("[\"{address}\"]");
    let vars =
        [("BOWLINE_LOCAL_SERVERS", servers.as_str()), ("ANTHROPIC_API_KEY", "sk-ant-secret")];
    let (code, out, err) = run_with(&home, &vars, &["models", "--json"]);
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(!out.contains("secret"));
    let models: Value = serde_json::from_str(&out).unwrap();
    let usable = |name: &str| {
        let all = models["usable"].as_array().unwrap();
        all.iter().find(|model| model["name"] == name).unwrap_or(&Value::Null).clone()
    };
    let claude = usable("anthropic/claude-sonnet-5-5");
    assert_eq!(claude["is_default"], true);
    assert_eq!(
        (&claude["context_window"], &claude["price"]["input"]),
        (&json!(1_000_000), &json!(2.0))
    );
    assert_eq!(
        (&claude["images"], &claude["why"]),
        (&json!(true), &json!("key in ANTHROPIC_API_KEY"))
    );
    let mine = usable("mine/m:7b");
    assert_eq!((&mine["context_window"], &mine["price"]), (&json!(9000), &Value::Null));
    assert_eq!((&mine["images"], &mine["reasoning"]), (&json!(true), &Value::Null));
    let served = models["usable"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|model| model["why"] == format!("Ollama at {address}"));
    assert_eq!(served.count(), 1);
    let unusable = models["unusable"].as_array().unwrap();
    let unusable =
        |name: &str| unusable.iter().find(|one| one["provider"] == name).unwrap().clone();
    assert_eq!(unusable("far")["fix"], "set FAR");
    assert_eq!(unusable("dead")["why"], "nothing answers at 127.0.0.1:1");
    assert_eq!(unusable("openai")["why"], "no key: OPENAI_API_KEY is not set");
    assert_eq!(unusable("vllm")["why"], "no server is found");

    let (code, out, _) = run_with(&home, &vars, &["models"]);
    assert_eq!(code, 0);
    let line = out.lines().find(|line| line.starts_with('*')).unwrap();
    assert!(
        line.contains("anthropic/claude-sonnet-5-5") && line.contains("$2 in, $10 out"),
        "{out}"
    );
    assert!(out.contains("\n- far: no key: FAR is not set; set FAR\n"), "{out}");
}
