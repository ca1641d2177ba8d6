//! The effects of an agent, as a user meets them.

#![allow(clippy::unwrap_used, reason = "a failure here is a failure of the test")]

mod support;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use support::{Home, Provider, Reply, messages, results};

fn home() -> (Home, Provider) {
    let provider = Provider::answering(|_| Reply::Text("done".to_owned()));
    (Home::new(&provider), provider)
}

/// Replaces the user's configuration, and shows the effects that come of it.
fn effects(home: &Home, agents: &str) -> (i32, Value, String) {
    std::fs::write(home.path("home/config/config.toml"), agents).unwrap();
    let (code, out, err) = home.run(&["effects", "--json"]);
    (code, serde_json::from_str(&out).unwrap_or_default(), err)
}

fn value(effect: &Value, name: &str) -> Value {
    let parameters = effect["parameters"].as_array().unwrap();
    parameters.iter().find(|parameter| parameter["name"] == name).unwrap()["value"].clone()
}

fn kinds(effects: &Value) -> Vec<&str> {
    effects.as_array().unwrap().iter().map(|effect| effect["kind"].as_str().unwrap()).collect()
}

#[test]
fn an_agent_has_compact_alone_unless_something_else_is_said() {
    let (home, _provider) = home();
    let (code, shown, _) = effects(&home, "");
    assert_eq!((code, kinds(&shown)), (0, vec!["compact"]));
    assert_eq!(value(&shown[0], "threshold"), json!(0.8));
    let (_, shown, _) = effects(&home, "[agents.default]\neffects = []\n");
    assert_eq!(kinds(&shown), Vec::<&str>::new());
    let spelt = "[agents.default]\ncontext_window = 50000\ncontext_threshold = 0.7\n";
    let (_, shown, _) = effects(&home, spelt);
    assert_eq!(value(&shown[0], "threshold"), json!(0.7));
    assert_eq!(value(&shown[0], "context_window"), json!(50_000));
}

#[test]
fn effects_are_asked_in_the_order_of_their_classes() {
    let (home, _provider) = home();
    let configured = "[agents.default]\neffects = [\n  { kind = \"loop_detect\" },\n  \
                      { kind = \"token_budget\", params = { max_tokens = 1000.0 } },\n  \
                      { kind = \"inject\", text = \"hi\", at = [1] },\n  { kind = \"compact\" },\n]\n";
    let (code, shown, err) = effects(&home, configured);
    assert_eq!((code, err.as_str()), (0, ""));
    assert_eq!(kinds(&shown), ["compact", "token_budget", "loop_detect", "inject"]);
    assert_eq!(value(&shown[1], "max_tokens"), json!(1000));
}

#[test]
fn what_is_wrong_with_an_effect_is_said_with_its_line_and_ends_with_code_2() {
    let (home, _provider) = home();
    for (effect, what) in [
        ("{ kind = \"compact\", thresholt = 0.5 }", "did you mean \"threshold\"?"),
        ("{ kind = \"compat\" }", "there is no effect \"compat\"; did you mean \"compact\"?"),
        ("{ threshold = 0.5 }", "an effect needs its `kind`"),
        ("{ kind = \"compact\", params = 3 }", "the params of \"compact\" are a table"),
        ("{ kind = \"loop_detect\", threshold = 0 }", "threshold"),
        ("{ kind = \"token_budget\", max_tokens = -1 }", "max_tokens"),
        ("{ kind = \"time_budget\", max_duration = \"soon\" }", "soon"),
    ] {
        let configured = format!("[agents.default]\neffects = [\n  {effect},\n]\n");
        let (code, _, err) = effects(&home, &configured);
        assert_eq!(code, 2, "{effect}: {err}");
        assert!(err.contains("config.toml: line 3: "), "{err}");
        assert!(err.contains(what), "{err}");
        assert_eq!(err.lines().count(), 1, "{err}");
    }
}

#[test]
fn every_kind_is_listed_with_what_its_parameters_mean() {
    let (home, _provider) = home();
    let (code, out, _) = home.run(&["effects", "--all", "--json"]);
    assert_eq!(code, 0);
    let all: Vec<Value> = serde_json::from_str(&out).unwrap();
    for effect in all {
        assert_ne!(effect["what"], "", "{effect}");
        for parameter in effect["parameters"].as_array().unwrap() {
            assert_ne!(parameter["what"], "", "{parameter}");
            assert_ne!(parameter["default"], Value::Null, "{parameter}");
        }
    }
}

#[test]
fn a_conversation_that_grows_too_long_is_summarised_on_the_way() {
    // Each reply repeats what makes the conversation long; none says how many tokens that were.
    let provider = Provider::answering(|request| {
        let system = messages(request)[0]["content"].as_str().unwrap_or_default();
        if system.contains("working notes") {
            return Reply::Text("## Done\nThe first half.".to_owned());
        }
        let notes = request.to_string().contains("The first half.");
        match (notes, results(request)) {
            (true, _) => Reply::Text("done after a summary".to_owned()),
            (false, step) => {
                let command = format!("seq -f 'line %g of step {step}' 1 700");
                let call = (format!("call_{step}"), "bash", json!({ "command": command }));
                Reply::Calls(vec![call])
            }
        }
    });
    let home = Home::new(&provider);
    let window = "providers.test.context_window=40000";
    let few = "agents.default.effects=[{ kind = \"compact\", threshold = 0.5, target = 0.3 }]";
    let arguments = ["exec", "--json", "-c", window, "-c", few, "Count."];
    let (code, out, err) = home.run(&arguments);
    assert_eq!(code, 0, "{err}{out}");
    let events: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let told = |kind: &str| events.iter().filter(|event| event["type"] == kind).count();
    assert!(told("cache_break") >= 1, "{out}");
    assert_eq!(told("compaction_start"), told("compaction_end"));
    assert!(told("compaction_end") >= 1, "{out}");
    let last = provider.requests().pop().unwrap().to_string();
    assert!(last.contains("Count."), "the request itself is never summarised away");
}

// B9
#[test]
fn who_can_write_notes_is_reminded_to() {
    for (tools, reminders) in [(r#"["bash", "notes"]"#, 2), (r#"["bash"]"#, 0)] {
        let provider = Provider::answering(|request| match results(request) {
            step @ 0..4 => {
                let command = json!({ "command": format!("echo {step}") });
                Reply::Calls(vec![(format!("call_{step}"), "bash", command)])
            }
            _ => Reply::Text("done".to_owned()),
        });
        let home = Home::new(&provider);
        let tools = format!("agents.default.tools={tools}");
        let effects = "agents.default.effects=[{ kind = \"progress\", interval = 2 }]";
        let (code, out, err) = home.run(&["exec", "-c", &tools, "-c", effects, "Go."]);
        assert_eq!((code, out.as_str()), (0, "done\n"), "{err}");
        let last = provider.requests().pop().unwrap().to_string();
        assert_eq!(last.matches("Write a progress note with write_note").count(), reminders);
    }
}

#[test]
fn a_session_is_summarised_when_somebody_says_so() {
    let provider = Provider::answering(|request| {
        let system = messages(request)[0]["content"].as_str().unwrap_or_default();
        match system.contains("working notes") {
            true => Reply::Text("## Done\nA story was told.".to_owned()),
            false => Reply::Text("A long story. ".repeat(400)),
        }
    });
    let home = Home::new(&provider);
    let (code, _, err) = home.run(&["exec", "/compact"]);
    assert_eq!((code, err.lines().count()), (2, 1), "{err}");
    assert!(provider.requests().is_empty());
    assert_eq!(home.run(&["exec", "Tell a story."]).0, 0);
    assert_eq!(home.run(&["exec", "--continue", "Another."]).0, 0);
    let (code, out, err) = home.run(&["exec", "--continue", "/compact the hero's name"]);
    assert_eq!((code, out.as_str()), (0, ""), "{err}");
    assert!(err.contains("summarised: 4 messages are 3 now"), "{err}");
    let asked = provider.requests().pop().unwrap().to_string();
    assert!(asked.contains("asks that the notes keep this: the hero's name"), "{asked}");
    assert_eq!(home.run(&["exec", "--continue", "The end?"]).0, 0);
    let last = provider.requests().pop().unwrap();
    let said: Vec<&Value> = messages(&last).iter().filter(|one| one["role"] == "user").collect();
    assert!(said[0].to_string().contains("Tell a story."), "{last}");
    assert!(last.to_string().contains("A story was told."), "{last}");
    assert!(!last.to_string().contains("A long story."), "{last}");
}

/// What a provider says of a request that is too long.
fn overflow() -> Reply {
    let error = json!({ "code": "context_length_exceeded", "message": "the prompt is too long" });
    Reply::Status(400, json!({ "error": error }).to_string())
}

fn asks_for_notes(request: &Value) -> bool {
    messages(request)[0]["content"].as_str().unwrap_or_default().contains("working notes")
}

#[test]
fn a_request_that_stays_too_long_after_a_summary_is_an_exit_code_of_its_own() {
    for (notes, what) in [
        ("## Done\nA story was told.".to_owned(), "the prompt is too long"),
        ("A summary that is longer than the story. ".repeat(600), "the prompt is too long"),
    ] {
        let provider = Provider::answering(move |request| {
            match (asks_for_notes(request), request.to_string().contains("Another.")) {
                (true, _) => Reply::Text(notes.clone()),
                (false, false) => Reply::Text("A long story. ".repeat(400)),
                (false, true) => overflow(),
            }
        });
        let home = Home::new(&provider);
        assert_eq!(home.run(&["exec", "Tell a story."]).0, 0);
        let (code, out, err) = home.run(&["exec", "--json", "--continue", "Another."]);
        assert_eq!(code, 7, "{err}{out}");
        assert!(err.contains(what), "{err}");
        assert!(provider.requests().iter().any(asks_for_notes), "it was tried");
        let told = |kind: &str| out.matches(&format!("\"type\":\"{kind}\"")).count();
        assert_eq!(told("compaction_start"), told("compaction_end"), "{out}");
        assert!(told("compaction_end") >= 1 && told("run_end") == 1, "{out}");
    }
}

#[test]
fn a_session_with_bodies_beside_its_log_is_summarised() {
    let provider =
        Provider::answering(|request| match (asks_for_notes(request), results(request)) {
            (true, _) => Reply::Text("## Done\nA picture was looked at.".to_owned()),
            (false, 0) if !request.to_string().contains("The end?") => {
                let path = json!({ "path": "large.png" });
                Reply::Calls(vec![("call_1".to_owned(), "read", path)])
            }
            (false, _) => Reply::Text("It is large. ".repeat(400)),
        });
    let home = Home::new(&provider);
    let mut image = b"\x89PNG\r\n\x1a\n".to_vec();
    image.resize(300 * 1024, 0xAB);
    std::fs::write(home.work().join("large.png"), image).unwrap();
    assert_eq!(home.run(&["exec", "Look at large.png."]).0, 0);
    assert_eq!(home.run(&["exec", "--continue", "Again."]).0, 0);
    // 0xAB in base64.
    let body = "q6ur".repeat(100);
    let before = provider.requests().pop().unwrap().to_string();
    assert!(before.contains(&body), "the picture is sent although it is not in the log");
    assert!(before.len() > 300 * 1024);
    let (code, out, err) = home.run(&["exec", "--continue", "/compact what was on the picture"]);
    assert_eq!((code, out.as_str()), (0, ""), "{err}");
    assert!(err.contains("summarised: 6 messages are 3 now"), "{err}");
    let asked = provider.requests().pop().unwrap();
    assert!(asks_for_notes(&asked) && asked.to_string().len() < 64 * 1024);
    assert_eq!(home.run(&["exec", "--continue", "The end?"]).0, 0);
    let last = provider.requests().pop().unwrap().to_string();
    assert!(last.contains("A picture was looked at."), "{}", last.len());
    assert!(!last.contains(&body), "what the summary stands for is not sent any more");
    let (code, out, err) = home.run(&["sessions", "verify", &home.sessions()[0]]);
    assert_eq!(code, 0, "{out}{err}");
}
