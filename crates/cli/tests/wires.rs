//! Recorded answers of every wire, played to the command.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failure here is a failure of the test")]

mod support;

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use support::{Home, Provider, Raw, Reply};

/// A wire, and what of it is seen from outside.
struct Wire {
    name: &'static str,
    /// What the address ends in.
    below: &'static str,
    /// The first line of a request for the model `x/y:free`.
    asks: &'static str,
    /// The header that carries the key.
    key: &'static str,
    /// A recorded text that ends a run.
    text: &'static str,
}

const WIRES: [Wire; 4] = [
    Wire {
        name: "chat",
        below: "/v1",
        asks: "post /v1/chat/completions ",
        key: "authorization: bearer sk-secret",
        text: "chat-sse-text-34",
    },
    Wire {
        name: "responses",
        below: "/v1",
        asks: "post /v1/responses ",
        key: "authorization: bearer sk-secret",
        text: "responses-sse-think-57",
    },
    Wire {
        name: "anthropic",
        below: "",
        asks: "post /v1/messages ",
        key: "x-api-key: sk-secret",
        text: "anthropic-sse-text-16",
    },
    Wire {
        name: "gemini",
        below: "",
        asks: "post /v1beta/models/x/y:free:streamgeneratecontent?alt=sse ",
        key: "x-goog-api-key: sk-secret",
        text: "gemini-sse-cache-43",
    },
];

fn wire(name: &str) -> &'static Wire {
    WIRES.iter().find(|wire| wire.name == name).unwrap()
}

/// One recorded exchange.
struct Case {
    name: String,
    raw: Raw,
    expect: Value,
}

impl Wire {
    fn cases(&self) -> Vec<Case> {
        let fixtures =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../llm/fixtures").join(self.name);
        let mut files: Vec<_> =
            std::fs::read_dir(fixtures).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        files.iter().map(|file| Case::read(file)).collect()
    }

    fn case(&self, name: &str) -> Case {
        self.cases().into_iter().find(|case| case.name == name).unwrap()
    }

    /// Runs a task with a provider that answers so, and then with the recorded text.
    fn play(&self, answers: Vec<Raw>, more: &[&str]) -> Played {
        self.play_below(self.below, answers, more)
    }

    fn play_below(&self, below: &str, answers: Vec<Raw>, more: &[&str]) -> Played {
        let text = self.case(self.text).raw;
        let asked = AtomicUsize::new(0);
        let provider = Provider::answering(move |_| {
            let n = asked.fetch_add(1, Ordering::Relaxed);
            Reply::Raw(answers.get(n).unwrap_or(&text).clone())
        });
        let home = Home::new(&provider);
        let wire = format!("providers.test.wire={}", self.name);
        let url = format!("providers.test.base_url={}{}", provider.origin(), below);
        let mut arguments = vec!["exec", "--json", "-c", &wire, "-c", &url];
        arguments.extend_from_slice(more);
        arguments.push("go");
        let (code, out, err) = home.run(&arguments);
        let events = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        Played { code, events, err, requests: provider.requests(), heads: provider.heads() }
    }
}

impl Case {
    fn read(file: &Path) -> Self {
        let case: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
        let answer = &case["response"];
        let content_type = answer["headers"]["content-type"].as_str();
        let raw = Raw {
            status: u16::try_from(answer["status"].as_u64().unwrap()).unwrap(),
            content_type: content_type.unwrap_or("text/event-stream").to_owned(),
            body: answer["body"].as_str().unwrap().to_owned(),
            is_cut: false,
        };
        let name = file.file_stem().unwrap().to_string_lossy().into_owned();
        Self { name, raw, expect: case["expect"].clone() }
    }

    /// Returns the tokens: all of the request, all of the answer. Gemini counts what its own tools
    /// brought for itself, so that of a request only a part is expected.
    fn tokens(&self) -> (u64, u64) {
        let usage = &self.expect["usage"];
        let sum = |keys: &[&str]| keys.iter().map(|key| usage[key].as_u64().unwrap_or(0)).sum();
        (sum(&["inp", "cr", "cw"]), sum(&["out", "thoughts"]))
    }
}

/// What came of a run.
struct Played {
    code: i32,
    events: Vec<Value>,
    err: String,
    requests: Vec<Value>,
    heads: Vec<String>,
}

impl Played {
    fn of<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Value> {
        self.events.iter().filter(move |event| event["type"] == kind).map(|event| &event["data"])
    }

    /// Returns the events of the first model call that was answered.
    fn first_turn(&self) -> &[Value] {
        let end = self.events.iter().position(|event| event["type"] == "turn_end").unwrap();
        &self.events[..=end]
    }
}

/// Returns an answer that is an error.
fn error(status: u16, body: &Value) -> Raw {
    let content_type = "application/json".to_owned();
    Raw { status, content_type, body: body.to_string(), is_cut: false }
}

/// What the vendor's SDK makes of this one is less than what was streamed.
const ODD: &str = "responses-json-tool-51";

#[test]
fn every_recorded_answer_is_heard() {
    for wire in &WIRES {
        for case in wire.cases().iter().filter(|case| case.raw.status == 200) {
            let played = wire.play(vec![case.raw.clone()], &[]);
            let name = &case.name;
            let turn = played.first_turn();
            let of = |kind: &'static str| turn.iter().filter(move |event| event["type"] == kind);
            let text: String =
                of("text").map(|event| event["data"]["text"].as_str().unwrap()).collect();
            assert_eq!(text, case.expect["text"].as_str().unwrap(), "{name}: {}", played.err);
            if name != ODD {
                let calls = of("tool_call").map(|event| {
                    let arguments = event["data"]["arguments"].as_str().unwrap();
                    let arguments = if arguments.is_empty() { "{}" } else { arguments };
                    let args: Value = serde_json::from_str(arguments).unwrap();
                    json!({ "name": event["data"]["name"], "args": args })
                });
                let expected = case.expect["tools"].as_array().unwrap().iter();
                let expected =
                    expected.map(|call| json!({ "name": call["name"], "args": call["args"] }));
                assert_eq!(calls.collect::<Vec<_>>(), expected.collect::<Vec<_>>(), "{name}");
            }
            let usage = &turn.last().unwrap()["data"]["usage"];
            let (input, output) = case.tokens();
            assert_eq!(usage["output"], output, "{name}");
            if wire.name == "gemini" {
                assert!(usage["input"].as_u64().unwrap() >= input, "{name}");
            } else {
                assert_eq!(usage["input"], input, "{name}");
            }
        }
    }
}

#[test]
fn every_recorded_error_ends_with_its_code_and_is_not_tried_again() {
    for wire in &WIRES {
        for case in wire.cases().iter().filter(|case| case.raw.status != 200) {
            let retries = ["-c", "providers.test.max_retries=3"];
            let played = wire.play(vec![case.raw.clone()], &retries);
            let code = if matches!(case.raw.status, 401 | 403) { 5 } else { 1 };
            assert_eq!((played.code, played.requests.len()), (code, 1), "{}", case.name);
            assert!(played.err.starts_with("bowline: ") || played.err.contains("\nbowline: "));
        }
    }
}

#[test]
fn keys_headers_and_names_of_models_get_there() {
    for wire in &WIRES {
        let played = wire.play(
            vec![],
            &[
                "-m",
                "test/x/y:free",
                "-c",
                "providers.test.api_key=sk-secret",
                "-c",
                "providers.test.headers.x-team=blue",
            ],
        );
        assert_eq!(played.code, 0, "{}: {}", wire.name, played.err);
        let head = &played.heads[0];
        assert!(head.starts_with(wire.asks), "{head}");
        for line in [wire.key, "x-team: blue"] {
            assert!(head.contains(&format!("\r\n{line}\r\n")), "{head}");
        }
        if wire.name != "gemini" {
            assert_eq!(played.requests[0]["model"], "x/y:free");
        }
        assert!(!played.err.contains("sk-secret"));
    }
}

#[test]
fn an_address_with_a_version_is_understood_by_all() {
    for wire in &WIRES {
        for below in ["/v1", "/v1/"] {
            let played = wire.play_below(below, vec![], &["-m", "test/x/y:free"]);
            assert_eq!(played.code, 0, "{}: {}", wire.name, played.err);
            assert!(played.heads[0].starts_with(wire.asks), "{}", played.heads[0]);
        }
    }
}

#[test]
fn without_streaming_a_document_is_asked_for() {
    for (name, case) in [
        ("chat", "chat-json-text-27"),
        ("responses", "responses-json-text-49"),
        ("anthropic", "anthropic-json-tool-10"),
        ("gemini", "gemini-json-text-42"),
    ] {
        let wire = wire(name);
        let document = wire.case(case).raw;
        let answers = vec![document.clone(), wire.case(wire.text).raw];
        let played = wire.play(answers, &["-c", "providers.test.stream=false"]);
        assert_ne!(played.requests[0]["stream"], true, "{name}");
        let head = &played.heads[0];
        assert_eq!(name == "gemini", head.contains(":generatecontent http"), "{head}");
        assert!(played.of("text").next().is_some() || played.of("tool_call").next().is_some());
    }
}

#[test]
fn what_is_overloaded_or_breaks_off_is_tried_again() {
    let body = json!({ "type": "error", "error": { "type": "overloaded_error", "message": "Overloaded" } });
    for wire in &WIRES {
        let mut cut = wire.case(wire.text).raw;
        cut.body.truncate(cut.body.len() / 2);
        while !cut.body.is_char_boundary(cut.body.len()) {
            cut.body.pop();
        }
        let ended = cut.clone();
        cut.is_cut = true;
        // A stream that was closed in order is no answer either.
        let answers = vec![error(529, &body), cut, ended];
        let played = wire.play(answers, &["-c", "providers.test.max_retries=3"]);
        assert_eq!((played.code, played.requests.len()), (0, 4), "{}: {}", wire.name, played.err);
        assert_eq!(played.of("retry").count(), 3, "{}", wire.name);
        let same = played.requests.iter().all(|request| *request == played.requests[0]);
        assert!(same, "{}: each attempt asks the same", wire.name);
        let expected = wire.case(wire.text).expect["text"].clone();
        let texts: Vec<_> = played.of("text").map(|text| text["text"].clone()).collect();
        assert_eq!(texts, [expected], "{}", wire.name);
    }
}

/// Returns a stream of these events: name and data.
fn stream(events: &[(&str, Value)]) -> Raw {
    let event = |(name, data): &(&str, Value)| format!("event: {name}\ndata: {data}\n\n");
    let body = events.iter().map(event).collect();
    Raw { status: 200, content_type: "text/event-stream".to_owned(), body, is_cut: false }
}

#[test]
fn an_error_within_a_stream_voids_what_came_before_it() {
    let text = json!({ "type": "content_block_delta", "index": 0,
        "delta": { "type": "text_delta", "text": "half" } });
    let start = json!({ "type": "content_block_start", "index": 0,
        "content_block": { "type": "text", "text": "" } });
    let usage = json!({ "input_tokens": 7, "output_tokens": 1 });
    let message = json!({ "type": "message_start", "message": { "id": "m", "usage": usage } });
    let overloaded = json!({ "type": "error",
        "error": { "type": "overloaded_error", "message": "Overloaded" } });
    let anthropic = [
        ("message_start", message),
        ("content_block_start", start),
        ("content_block_delta", text),
        ("error", overloaded),
    ];
    let chat = [
        ("", json!({ "choices": [{ "index": 0, "delta": { "content": "half" } }] })),
        ("", json!({ "error": { "message": "overloaded", "code": 503 } })),
    ];
    for (name, events) in [("anthropic", &anthropic[..]), ("chat", &chat[..])] {
        let retries = ["-c", "providers.test.max_retries=1"];
        let played = wire(name).play(vec![stream(events)], &retries);
        assert_eq!((played.code, played.requests.len()), (0, 2), "{name}: {}", played.err);
        assert_eq!(played.of("retry").count(), 1, "{name}");
        assert!(played.of("text").all(|text| text["text"] != "half"), "{name}");
        // What the failed attempt was billed counts.
        let tokens = &played.of("run_end").next().unwrap()["usage"]["input"];
        let expected = if name == "anthropic" { 22 + 7 } else { 191 };
        assert_eq!(tokens, expected, "{name}");
    }
}

#[test]
fn a_server_that_tells_no_usage_works() {
    let delta = json!({ "choices": [{ "index": 0, "delta": { "content": "ok" } }] });
    let finish = json!({ "choices": [{ "index": 0, "delta": {}, "finish_reason": "stop" }] });
    let played = wire("chat").play(vec![stream(&[("", delta), ("", finish)])], &[]);
    assert_eq!(played.code, 0, "{}", played.err);
    let turn = played.of("turn_end").next().unwrap();
    assert_eq!((&turn["usage"], &turn["cost_usd"]), (&Value::Null, &Value::Null));
}

/// Runs a recorded answer with calls and returns the request that follows it.
fn after_calls(wire: &Wire, case: &str) -> Value {
    let played = wire.play(vec![wire.case(case).raw], &[]);
    assert_eq!((played.code, played.requests.len()), (0, 2), "{case}: {}", played.err);
    played.requests[1].clone()
}

#[test]
fn anthropic_gets_its_thinking_back_and_the_result_behind_it() {
    let request = after_calls(wire("anthropic"), "anthropic-sse-think-17");
    let messages = request["messages"].as_array().unwrap();
    let [.., assistant, results] = messages.as_slice() else { panic!("{request}") };
    let kinds = |message: &Value| -> Vec<String> {
        let parts = message["content"].as_array().unwrap().iter();
        parts.map(|part| part["type"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(kinds(assistant), ["thinking", "text", "tool_use"]);
    assert!(assistant["content"][0]["signature"].as_str().unwrap().starts_with("signature_RE"));
    assert_eq!(kinds(results), ["tool_result"]);
    assert_eq!(results["content"][0]["tool_use_id"], assistant["content"][2]["id"]);
    assert_eq!(results["content"][0]["is_error"], true);
    assert_eq!(results["content"][0]["cache_control"]["type"], "ephemeral");
}

#[test]
fn responses_get_their_items_back_in_order() {
    let request = after_calls(wire("responses"), "responses-sse-tool-58");
    let input = request["input"].as_array().unwrap();
    let [.., reasoning, call, output] = input.as_slice() else { panic!("{request}") };
    let kinds = [reasoning, call, output].map(|item| item["type"].as_str().unwrap());
    assert_eq!(kinds, ["reasoning", "function_call", "function_call_output"]);
    assert_eq!(call["call_id"], output["call_id"]);
    assert_eq!((&request["store"], &call["name"]), (&json!(false), &json!("lookup_harbor_label")));
}

#[test]
fn gemini_gets_its_signature_back_where_it_stood() {
    let request = after_calls(wire("gemini"), "gemini-json-parallel-41");
    let contents = request["contents"].as_array().unwrap();
    let [.., model, user] = contents.as_slice() else { panic!("{request}") };
    let calls = model["parts"].as_array().unwrap();
    let names = |parts: &[Value], key: &str| -> Vec<Value> {
        parts.iter().map(|part| part[key]["name"].clone()).collect()
    };
    assert_eq!(names(calls, "functionCall"), ["add", "subtract"]);
    assert!(calls[0]["thoughtSignature"].is_string() && calls[1]["thoughtSignature"].is_null());
    let results = user["parts"].as_array().unwrap();
    assert_eq!(names(results, "functionResponse"), ["add", "subtract"]);
}

#[test]
fn chat_gets_its_encrypted_reasoning_back() {
    let request = after_calls(wire("chat"), "chat-sse-tool-35");
    let messages = request["messages"].as_array().unwrap();
    let [.., assistant, result] = messages.as_slice() else { panic!("{request}") };
    assert_eq!(assistant["reasoning_details"][0]["type"], "reasoning.encrypted");
    assert_eq!(assistant["tool_calls"][0]["id"], "call_REDACTED_1");
    assert_eq!(
        (&result["role"], &result["tool_call_id"]),
        (&json!("tool"), &json!("call_REDACTED_1"))
    );
}

#[test]
fn a_call_that_a_model_wrote_as_text_is_run() {
    let call = r#"{"name": "bash", "parameters": {"command": "echo from-text"}}"#;
    for written in [
        format!("I look.\n<tool_call>\n{call}\n</tool_call>"),
        format!("[TOOL_CALLS][{call}]"),
        call.to_owned(),
    ] {
        let provider = Provider::answering(move |request| match support::results(request) {
            0 => Reply::Text(written.clone()),
            _ => Reply::Text("done".to_owned()),
        });
        let home = Home::new(&provider);
        let (code, out, err) = home.run(&["exec", "go"]);
        assert_eq!((code, out.as_str()), (0, "done\n"), "{err}");
        let last = provider.requests().pop().unwrap();
        let [.., assistant, result] = support::messages(&last).as_slice() else { panic!() };
        assert_eq!(result["content"], "from-text\n");
        assert_eq!(assistant["tool_calls"][0]["id"], result["tool_call_id"]);
        assert!(!assistant["content"].to_string().contains("bash"));
    }
}

/// Runs with the recorded text of Anthropic's wire and returns what the turn and the run cost.
fn costs(model: &str, more: &[&str]) -> (Value, Value) {
    let mut arguments = vec!["-m", model];
    arguments.extend_from_slice(more);
    let wire = wire("anthropic");
    let played = wire.play(vec![wire.case("anthropic-sse-tool-18").raw], &arguments);
    assert_eq!(played.code, 0, "{}", played.err);
    let turn = played.of("turn_end").next().unwrap()["cost_usd"].clone();
    (turn, played.of("run_end").next().unwrap()["cost_usd"].clone())
}

#[test]
fn what_a_turn_and_a_run_cost_is_told_where_the_price_is_known() {
    let price = "providers.test.models.\"m\".price={ input = 1000.0, output = 10000.0 }";
    let (turn, run) = costs("test/m", &["-c", price]);
    // 755 tokens in and 84 out, then 22 in and 5 out.
    let close = |cost: &Value, expected: f64| (cost.as_f64().unwrap() - expected).abs() < 1e-9;
    assert!(close(&turn, 0.755 + 0.84), "{turn}");
    assert!(close(&run, 0.755 + 0.84 + 0.022 + 0.05), "{run}");
    assert_eq!(costs("test/m", &[]), (Value::Null, Value::Null));
}

#[test]
fn the_catalog_knows_what_its_models_cost_and_may_answer() {
    let wire = wire("anthropic");
    let text = wire.case(wire.text).raw;
    let provider = Provider::answering(move |_| Reply::Raw(text.clone()));
    let home = Home::new(&provider);
    let url = format!("providers.anthropic.base_url={}", provider.origin());
    let run = |model: &str, more: &[&str]| {
        let mut arguments = vec!["exec", "--json", "-c", &url, "-m", model];
        arguments.extend_from_slice(more);
        arguments.push("go");
        let (code, out, err) = home.run(&arguments);
        assert_eq!(code, 0, "{err}");
        let end: Value = serde_json::from_str(out.lines().last().unwrap()).unwrap();
        (end["data"]["cost_usd"].clone(), provider.requests().pop().unwrap()["max_tokens"].clone())
    };
    let (cost, limit) = run("anthropic/claude-sonnet-5-5", &[]);
    assert!((cost.as_f64().unwrap() - (22.0 * 2.0 + 5.0 * 10.0) / 1e6).abs() < 1e-12, "{cost}");
    assert_eq!(limit, 32_000);
    // A limit in dollars can be kept.
    run("anthropic/claude-haiku-4-5-20251001", &["--max-cost", "1"]);
    let own = "providers.anthropic.max_output_tokens=9";
    assert_eq!(run("anthropic/claude-unheard-of", &["-c", own]), (Value::Null, json!(9)));
    let (code, _, err) = home.run(&[
        "exec",
        "-c",
        &url,
        "-m",
        "anthropic/claude-unheard-of",
        "--max-cost",
        "1",
        "go",
    ]);
    assert_eq!(code, 2);
    assert!(err.contains("the price of anthropic/claude-unheard-of is unknown"), "{err}");
}

#[test]
fn a_schema_is_asked_for_in_the_words_of_the_wire() {
    let schema = json!({ "type": "object", "required": ["n"], "additionalProperties": false,
        "properties": { "n": { "type": "integer" } } });
    let claude = json!({ "format": { "type": "json_schema", "schema": schema } });
    for (wire, model, place, expected) in [
        ("anthropic", "test/claude-opus-4-7", "/output_config", claude),
        ("gemini", "test/gemini-3-pro", "/generationConfig/responseJsonSchema", schema.clone()),
        // Nobody knows whether this one would mind.
        ("chat", "test/model", "/response_format", Value::Null),
        ("responses", "test/model", "/text", Value::Null),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("schema.json");
        std::fs::write(&file, schema.to_string()).unwrap();
        let arguments = ["-m", model, "--output-schema", file.to_str().unwrap()];
        let played = self::wire(wire).play(Vec::new(), &arguments);
        // What is recorded does not fit, so it is asked for twice, in the same words.
        assert_eq!((played.code, played.requests.len()), (8, 2), "{wire}: {}", played.err);
        for request in &played.requests {
            let asked = request.pointer(place).cloned().unwrap_or_default();
            assert_eq!(asked, expected, "{wire}");
        }
    }
}
