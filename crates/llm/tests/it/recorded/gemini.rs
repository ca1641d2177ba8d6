//! Gemini's generateContent.

use bowline_llm::gemini::{Client, Codec, Config, Dialect};
use bowline_llm::http::Transport;
use bowline_llm::{AssistantPart, Message, ModelInfo, Response, StopReason, wire::Decode as _};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::{Case, Wire, answer, cases, recorded_tests};

pub(crate) struct Gemini;

fn codec(provider: &str) -> Codec {
    Codec::new(&info(provider), Dialect::of(""), true)
}

fn info(provider: &str) -> ModelInfo {
    let model = "gemini-2.5-flash".to_owned();
    ModelInfo { provider: provider.to_owned(), model, ..ModelInfo::default() }
}

impl Wire for Gemini {
    type Codec = Codec;

    const FOLDER: &'static str = "gemini";
    const CASES: usize = 9;
    const CUT: &'static [&'static str] = &["gemini-sse-trunc-45", "gemini-sse-parallel-44"];

    fn codec() -> Codec {
        codec("mine")
    }

    fn client(base_url: &str, stream: bool) -> Client {
        let config = Config { info: info("mine"), stream, ..Config::new(base_url) };
        Client::new(config, &Transport::default()).unwrap()
    }

    fn check(case: &Case, response: &Response) {
        let usage = response.usage.expect("all recorded answers have a usage");
        let mut thinking = String::new();
        let mut signatures = 0;
        for part in &response.message.content {
            match part {
                AssistantPart::Reasoning(reasoning) => thinking.push_str(&reasoning.text),
                AssistantPart::Opaque(opaque) => {
                    signatures += usize::from(opaque.item.as_str().contains("thoughtSignature"));
                }
                AssistantPart::Text(_) | AssistantPart::ToolCall(_) => {}
            }
        }
        let calls = response.message.tool_calls().map(|call| {
            let args: Value = serde_json::from_str(&call.arguments).unwrap();
            json!({"name": call.name, "args": args})
        });
        let expected = &case.expect;
        let stop = match expected["stop"].as_str().unwrap() {
            "STOP" if response.message.tool_calls().count() > 0 => StopReason::ToolUse,
            "STOP" => StopReason::EndTurn,
            "MAX_TOKENS" => StopReason::MaxTokens,
            other => panic!("unexpected {other}"),
        };
        assert_eq!(response.stop, stop, "{}", case.name);
        // Ours holds what was read for the provider's own tools, and its output the thoughts.
        let total = recorded(case)["totalTokenCount"].as_u64().unwrap();
        assert_eq!(usage.total(), total, "{}", case.name);
        let tools = recorded(case)["toolUsePromptTokenCount"].as_u64().unwrap_or(0);
        let got = json!({
            "api": "gemini",
            "text": response.message.to_text(),
            "thinking": thinking,
            "nsig": signatures,
            "tools": calls.collect::<Vec<_>>(),
            "stop": expected["stop"],
            "usage": {
                "inp": usage.input - tools,
                "out": usage.output - usage.reasoning.unwrap_or(0),
                "thoughts": usage.reasoning,
                "cached": usage.cache_read,
            },
        });
        assert_eq!(&got, expected, "{}", case.name);
    }
}

/// Returns the chunks of a recorded answer.
fn chunks(case: &Case) -> Vec<Value> {
    if !case.is_stream() {
        return vec![serde_json::from_str(&case.body).unwrap()];
    }
    let data = case.body.lines().filter_map(|line| line.strip_prefix("data: "));
    data.map(|data| serde_json::from_str(data).unwrap()).collect()
}

/// Returns the counts that the provider sent last.
fn recorded(case: &Case) -> Value {
    chunks(case).pop().unwrap()["usageMetadata"].take()
}

recorded_tests!(Gemini);

/// Reads what a message is sent as, with what nobody but us adds or joins taken back.
fn sent(codec: &Codec, message: &Message) -> Vec<Value> {
    let bytes = codec.encode(message);
    serde_json::from_str(&format!("[{}]", std::str::from_utf8(&bytes).unwrap())).unwrap()
}

#[test]
fn what_was_answered_goes_back_part_by_part() {
    for case in cases::<Gemini>().iter().filter(|case| !case.is_error()) {
        let message = Message::Assistant(answer(&codec("mine"), case).message.into());
        let mut expected: Vec<Value> = Vec::new();
        for mut chunk in chunks(case) {
            let parts = chunk["candidates"][0]["content"]["parts"].take();
            for part in parts.as_array().unwrap() {
                // Pieces of one text go back as one.
                match (expected.last_mut().and_then(|last| last.get_mut("text")), part.get("text"))
                {
                    (Some(Value::String(text)), Some(Value::String(more))) => text.push_str(more),
                    _ => expected.push(part.clone()),
                }
            }
        }
        let mut got = sent(&codec("mine"), &message);
        for part in &mut got {
            // Ids were made where the model gave none.
            if let Some(call) = part.get_mut("functionCall") {
                call.as_object_mut().unwrap().remove("id");
            }
        }
        assert_eq!(got, expected, "{}", case.name);
        let elsewhere = sent(&codec("other"), &message);
        let foreign = elsewhere.iter().any(|part| part.get("executableCode").is_some());
        assert!(!foreign && !format!("{elsewhere:?}").contains("thoughtSignature"));
    }
}

#[test]
fn ids_are_the_same_for_one_reply_and_others_for_the_next() {
    use bowline_llm::wire::Codec as _;
    let case = super::named::<Gemini>("gemini-json-parallel-41");
    let ids = |salt| {
        let reply = codec("mine").decoder(salt).document(case.body.as_bytes()).unwrap();
        reply.message.tool_calls().map(|call| call.id.clone()).collect::<Vec<_>>()
    };
    assert_eq!(ids(1), ids(1));
    assert_ne!(ids(1)[0], ids(1)[1]);
    assert_ne!(ids(1), ids(2));
}
