//! The command against a real llama.cpp server, on all wires that it speaks.
//!
//! `just llama-server` starts one and runs this. Its model is tiny; all it can be relied on for is to
//! repeat what it was told, so the prompt holds the call that it is to make.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a failure here is a failure of the test"
)]

mod support;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use support::Home;

/// Makes the model call a tool.
const CALL: &str = "Repeat exactly this line and nothing else:\n<tool_call>\n\
    {\"name\": \"read\", \"arguments\": {\"path\": \"notes.txt\"}}\n</tool_call>";

/// The address of the server, such as `127.0.0.1:8080`.
fn address() -> String {
    #[expect(clippy::disallowed_methods, reason = "only who starts the server knows its address")]
    let address = std::env::var("BOWLINE_TEST_LLAMA_SERVER");
    address.expect("`just llama-server` starts a server and says in the environment where it is")
}

/// What came of a run of `exec --json`.
struct Run {
    code: i32,
    events: Vec<Value>,
    err: String,
}

impl Run {
    fn of(home: &Home, arguments: &[&str]) -> Self {
        let arguments = [&["exec", "--json", "-m", "real/any"], arguments].concat();
        let (code, out, err) = home.run(&arguments);
        let events = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        Self { code, events, err }
    }

    /// Returns what the events of a kind hold.
    fn all<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Value> {
        self.events.iter().filter(move |event| event["type"] == kind).map(|event| &event["data"])
    }

    /// Returns what the texts of the events of a kind are together.
    fn text(&self, kind: &str, key: &str) -> String {
        self.all(kind).map(|data| data[key].as_str().unwrap()).collect()
    }

    /// Asserts what holds of every run here: it is done, says something, costs something, and what was
    /// streamed is what counts in the end.
    fn assert_sound(&self, is_streamed: bool, name: &str) {
        let end = self.all("run_end").next().unwrap();
        assert_eq!(end["outcome"], "done", "{name}: {end} {}", self.err);
        assert_eq!(self.code, 0, "{name}: {}", self.err);
        assert_eq!(self.all("retry").collect::<Vec<_>>(), Vec::<&Value>::new(), "{name}");
        assert!(!self.text("text", "text").trim().is_empty(), "{name}");
        for turn in self.all("turn_end") {
            let tokens = |kind: &str| turn["usage"][kind].as_u64().unwrap();
            assert!(tokens("input") > 0 && tokens("output") > 0, "{name}: {turn}");
        }
        let (texts, calls) = match is_streamed {
            true => (self.text("text", "text"), self.text("tool_call", "arguments")),
            false => (String::new(), String::new()),
        };
        assert_eq!(self.text("text_delta", "text"), texts, "{name}");
        assert_eq!(self.text("tool_call_delta", "arguments"), calls, "{name}");
    }
}

/// Runs a task with a tool call, and goes on with its session, with whole answers and with streamed ones.
/// The address of the wire ends in `below`.
fn calls_a_tool_answers_and_goes_on(wire: &str, below: &str) {
    for is_streamed in [true, false] {
        let name = format!("{wire}, streamed: {is_streamed}");
        let home = Home::configured(&format!(
            "[agents.default]\ninstructions = \"Be brief.\"\n\
             [providers.real]\nwire = \"{wire}\"\nbase_url = \"http://{}{below}\"\n\
             stream = {is_streamed}\nmax_output_tokens = 128\n",
            address()
        ));
        std::fs::write(home.work().join("notes.txt"), "The word is bowline.\n").unwrap();

        let first = Run::of(&home, &[CALL]);
        first.assert_sound(is_streamed, &name);
        let call = first.all("tool_call").next().unwrap();
        assert_eq!(call["name"], "read", "{name}");
        let arguments: Value = serde_json::from_str(call["arguments"].as_str().unwrap()).unwrap();
        assert_eq!(arguments, json!({ "path": "notes.txt" }), "{name}");
        let result = first.all("tool_end").next().unwrap();
        assert_eq!(result["status"], "ok", "{name}");
        assert_eq!(result["content"], json!([{ "text": "The word is bowline.\n" }]), "{name}");

        let second = Run::of(&home, &["--resume", &home.sessions()[0], "Say hello."]);
        second.assert_sound(is_streamed, &name);
        // All that the first run has sent is sent again as it was, and read from the cache.
        let sent = first.all("turn_end").last().unwrap()["usage"]["input"].as_u64().unwrap();
        let usage = &second.all("turn_end").next().unwrap()["usage"];
        let cached = usage["cache_read"].as_u64();
        assert!(cached >= Some(sent), "{name}: {usage}, {sent} were sent before");
        assert!(cached < usage["input"].as_u64(), "{name}: {usage}");
    }
}

#[test]
#[ignore = "needs a llama.cpp server: `just llama-server`"]
fn chat_completions_carry_a_session() {
    calls_a_tool_answers_and_goes_on("chat", "/v1");
}

#[test]
#[ignore = "needs a llama.cpp server: `just llama-server`"]
fn responses_carry_a_session() {
    calls_a_tool_answers_and_goes_on("responses", "/v1");
}

#[test]
#[ignore = "needs a llama.cpp server: `just llama-server`"]
fn messages_carry_a_session() {
    calls_a_tool_answers_and_goes_on("anthropic", "");
}

#[test]
#[ignore = "needs a llama.cpp server: `just llama-server`"]
fn the_server_is_recognised_and_runs_by_itself() {
    let address = address();
    let home = Home::configured(&format!(
        "local_servers = [\"{address}\"]\n[agents.default]\ninstructions = \"Be brief.\"\n"
    ));

    let (code, out, err) = home.run(&["models", "--json"]);
    assert_eq!(code, 0, "{err}");
    let models: Value = serde_json::from_str(&out).unwrap();
    let model = &models["usable"][0];
    assert!(model["name"].as_str().unwrap().starts_with("llamacpp/"), "{models}");
    assert_eq!(model["is_default"], true, "{models}");
    assert_eq!(model["context_window"], 4096, "{models}");

    let (_, out, err) = home.run(&["doctor"]);
    assert!(out.contains(&format!("llama-server at {address}")), "{out} {err}");

    let (code, out, err) = home.run(&["exec", "Say hello."]);
    assert_eq!(code, 0, "{err}");
    assert!(!out.trim().is_empty(), "{err}");
    assert!(err.contains("no model is named; taking "), "{err}");
}
