//! Responses.

use bowline_llm::http::Transport;
use bowline_llm::responses::{Client, Codec, Config, Dialect};
use bowline_llm::wire::{Codec as _, Decode};
use bowline_llm::{AssistantMessage, AssistantPart, Message, ModelInfo, Response, StopReason};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::{Case, Wire, answer, cases, named, recorded_tests};

pub(crate) struct Responses;

/// The stream whose final response has an empty list of items, which is all the SDK looks at.
const EMPTY_OUTPUT: &str = "responses-json-tool-51";

fn info(provider: &str) -> ModelInfo {
    ModelInfo { provider: provider.to_owned(), model: "m".to_owned(), ..ModelInfo::default() }
}

fn codec(provider: &str) -> Codec {
    Codec::new(&info(provider), Dialect::of("http://localhost"), true)
}

impl Wire for Responses {
    type Codec = Codec;

    const FOLDER: &'static str = "responses";
    const CASES: usize = 15;
    const CUT: &'static [&'static str] =
        &["responses-sse-tool-58", "responses-sse-parallel-56", "responses-sse-trunc-60"];

    fn codec() -> Codec {
        codec("mine")
    }

    fn client(base_url: &str, stream: bool) -> Client {
        let config = Config { info: info("mine"), stream, ..Config::new(base_url) };
        Client::new(config, &Transport::default()).unwrap()
    }

    fn check(case: &Case, response: &Response) {
        let usage = response.usage.expect("all recorded answers have a usage");
        let calls = response.message.tool_calls().map(|call| {
            let args: Value = serde_json::from_str(&call.arguments).unwrap();
            json!({"id": call.id, "name": call.name, "args": args})
        });
        let items = response.message.content.iter().filter_map(|part| match part {
            AssistantPart::Text(_) => Some("message"),
            AssistantPart::Reasoning(_) => Some("reasoning"),
            AssistantPart::ToolCall(_) => Some("function_call"),
            AssistantPart::Opaque(_) => None,
        });
        let status = match &response.stop {
            StopReason::EndTurn | StopReason::ToolUse => "completed",
            StopReason::MaxTokens => "incomplete",
            other => panic!("unexpected {other:?}"),
        };
        let got = json!({
            "api": "responses",
            "status": status,
            "text": response.message.to_text(),
            "items": items.collect::<Vec<_>>(),
            "tools": calls.collect::<Vec<_>>(),
            "usage": {
                "inp": usage.input,
                "out": usage.output,
                "cached": usage.cache_read,
                "reas": usage.reasoning,
            },
        });
        let mut expect = case.expect.clone();
        if case.name == EMPTY_OUTPUT {
            expect["items"] = json!(["function_call"]);
            expect["tools"] = json!([{
                "id": "call_REDACTED_1",
                "name": "plan_trip",
                "args": {"itinerary": {
                    "city": "Kyoto",
                    "days": 3,
                    "activities": ["temples", "tea ceremony"],
                    "lodging": {"name": "Sakura Inn", "rooms": 2},
                }},
            }]);
        }
        assert_eq!(got, expect, "{}", case.name);
    }
}

recorded_tests!(Responses);

fn sent(codec: &Codec, message: AssistantMessage) -> String {
    String::from_utf8(codec.encode(&Message::Assistant(message.into())).to_vec()).unwrap()
}

fn replay(codec: &Codec, case: &Case) -> String {
    sent(codec, answer(&Responses::codec(), case).message)
}

/// Returns the items of a recorded answer: those of the final response, or else those of the
/// stream.
fn output(case: &Case) -> Vec<Value> {
    if !case.is_stream() {
        let body: Value = serde_json::from_str(&case.body).unwrap();
        return body["output"].as_array().unwrap().clone();
    }
    let lines = case.body.lines().filter_map(|line| line.strip_prefix("data:"));
    let events: Vec<Value> = lines.map(|data| serde_json::from_str(data).unwrap()).collect();
    let last = events.last().unwrap()["response"]["output"].as_array().unwrap();
    if !last.is_empty() {
        return last.clone();
    }
    let done = events.iter().filter(|event| event["type"] == "response.output_item.done");
    done.map(|event| event["item"].clone()).collect()
}

#[test]
fn what_was_said_goes_back_as_it_came() {
    let mut items = 0;
    for case in cases::<Responses>().iter().filter(|case| !case.is_error()) {
        let mut expected = output(case);
        for part in expected.iter_mut().filter_map(|item| item.get_mut("content")) {
            for part in part.as_array_mut().unwrap() {
                part.as_object_mut().unwrap().remove("logprobs");
            }
        }
        if expected.last().unwrap()["type"] == "reasoning" {
            // The answer was cut before what it led to.
            expected.pop();
        }
        let replayed = format!("[{}]", replay(&Responses::codec(), case));
        let replayed: Value = serde_json::from_str(&replayed).unwrap();
        items += expected.len();
        assert_eq!(replayed, Value::from(expected), "{}", case.name);
    }
    assert_eq!(items, 21);
}

#[test]
fn encrypted_reasoning_goes_back_byte_for_byte() {
    let case = named::<Responses>("responses-sse-tool-58");
    // The stream announces the item with other ciphertexts: the last is the one that counts.
    let item = r#"{"content":[],"encrypted_content":"encrypted_content_REDACTED_3","id":"rs_REDACTED_1","summary":[],"type":"reasoning"}"#;
    assert!(case.body.contains(item));
    let replayed = replay(&Responses::codec(), &case);
    assert!(replayed.starts_with(&format!("{item},{{")), "{replayed}");
    let call = r#"{"type":"function_call","call_id":"call_REDACTED_1","name":"lookup_harbor_label","arguments":"{}"}"#;
    assert_eq!(replay(&codec("other"), &case), call);
}

#[test]
fn the_phase_of_a_message_goes_back() {
    let case = named::<Responses>("responses-json-text-49");
    let replayed: Value = serde_json::from_str(&replay(&Responses::codec(), &case)).unwrap();
    assert_eq!(replayed["phase"], "final_answer");
    assert_eq!(replayed["id"], "msg_tmp_ym1zsqcli1m");
}

#[test]
fn recorded_histories_are_written_again_as_they_were() {
    let mut items = 0;
    for case in cases::<Responses>().iter().filter(|case| case.request.is_object()) {
        for item in case.request["input"].as_array().unwrap() {
            if matches!(item["type"].as_str(), None | Some("message" | "function_call_output")) {
                continue;
            }
            // What the client sent back was an item of an answer before; with something after it.
            let end = json!({"type": "function_call", "call_id": "end", "name": "f", "id": "fc"});
            let whole = json!({"status": "completed", "output": [item, end]});
            let decoder = Responses::codec().decoder(1);
            let message = decoder.document(whole.to_string().as_bytes()).unwrap().message;
            let replayed = sent(&Responses::codec(), message);
            let replayed: Value = serde_json::from_str(&format!("[{replayed}]")).unwrap();
            let mut expected = item.clone();
            if item["type"] == "function_call" && item.get("id").is_some() {
                expected["status"] = "completed".into();
            }
            assert_eq!(replayed[0], expected, "{}", case.name);
            items += 1;
        }
    }
    assert!(items >= 7, "{items}");
}
