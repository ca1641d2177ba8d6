//! Chat Completions.

use bowline_llm::chat::{Client, Codec, Config, Dialect};
use bowline_llm::http::Transport;
use bowline_llm::{AssistantPart, ModelInfo, Response, StopReason};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::{Case, Wire, answer, named, recorded_tests};

pub(crate) struct Chat;

fn info(provider: &str) -> ModelInfo {
    ModelInfo { provider: provider.to_owned(), model: "m".to_owned(), ..ModelInfo::default() }
}

fn codec(provider: &str) -> Codec {
    Codec::new(&info(provider), Dialect::of("http://localhost"), true)
}

impl Wire for Chat {
    type Codec = Codec;

    const FOLDER: &'static str = "chat";
    const CASES: usize = 16;
    const CUT: &'static [&'static str] = &["chat-sse-cache-32", "chat-sse-tool-35"];

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
            let text = if call.arguments.is_empty() { "{}" } else { &call.arguments };
            let args: Value = serde_json::from_str(text).unwrap();
            json!({"id": call.id, "name": call.name, "args": args})
        });
        let reasoning = response.message.content.iter().find_map(|part| match part {
            AssistantPart::Reasoning(reasoning) if !reasoning.text.is_empty() => {
                Some(reasoning.text.clone())
            }
            _ => None,
        });
        let stop = match &response.stop {
            StopReason::EndTurn => "stop",
            StopReason::ToolUse => "tool_calls",
            StopReason::MaxTokens => "length",
            other => panic!("unexpected {other:?}"),
        };
        let got = json!({
            "api": "chat",
            "text": response.message.to_text(),
            "refusal": null,
            "reasoning": reasoning,
            "tools": calls.collect::<Vec<_>>(),
            "stop": stop,
            "usage": {"inp": usage.input, "out": usage.output, "cached": usage.cache_read},
        });
        assert_eq!(got, case.expect, "{}", case.name);
    }
}

recorded_tests!(Chat);

#[test]
fn encrypted_reasoning_goes_back_byte_for_byte() {
    let case = named::<Chat>("chat-sse-tool-35");
    let item = r#"[{"data":"encrypted_reasoning_REDACTED_1","format":"openai-responses-v1","id":"rs_REDACTED_1","index":0,"type":"reasoning.encrypted"}]"#;
    assert!(case.body.contains(item));
    let message = answer(&Chat::codec(), &case).message;
    let message = bowline_llm::Message::Assistant(message.into());
    let sent = Chat::codec().encode(&message);
    let sent = std::str::from_utf8(&sent).unwrap();
    assert!(sent.contains(&format!("\"reasoning_details\":{item}")), "{sent}");
    let sent = codec("other").encode(&message);
    assert!(!std::str::from_utf8(&sent).unwrap().contains("reasoning"));
}
