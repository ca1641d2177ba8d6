//! Anthropic's Messages.

use bowline_llm::anthropic::{Client, Codec, Config, Dialect};
use bowline_llm::http::Transport;
use bowline_llm::{AssistantPart, ModelInfo, Response, StopReason};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::{Case, Wire, recorded_tests};

pub(crate) struct Anthropic;

fn info() -> ModelInfo {
    ModelInfo { provider: "mine".to_owned(), model: "m".to_owned(), ..ModelInfo::default() }
}

impl Wire for Anthropic {
    type Codec = Codec;

    const FOLDER: &'static str = "anthropic";
    const CASES: usize = 20;
    const CUT: &'static [&'static str] = &["anthropic-sse-think-17", "anthropic-sse-parallel-14"];

    fn codec() -> Codec {
        Codec::new(&info(), Dialect::of("claude-sonnet-4-6"), true)
    }

    fn client(base_url: &str, stream: bool) -> Client {
        let config = Config { info: info(), stream, ..Config::new(base_url, "m") };
        Client::new(config, &Transport::default()).unwrap()
    }

    fn check(case: &Case, response: &Response) {
        let usage = response.usage.expect("all recorded answers have a usage");
        let (mut thinking, mut signatures, mut blocks) = (String::new(), Vec::new(), Vec::new());
        for part in &response.message.content {
            blocks.push(match part {
                AssistantPart::Text(_) => "text".to_owned(),
                AssistantPart::ToolCall(_) => "tool_use".to_owned(),
                AssistantPart::Reasoning(reasoning) => {
                    thinking.push_str(&reasoning.text);
                    let payload: Value = reasoning.payload.as_ref().unwrap().item.read().unwrap();
                    let signature = payload["signature"].as_str().unwrap();
                    signatures.push(signature.get(..12).unwrap().to_owned());
                    "thinking".to_owned()
                }
                AssistantPart::Opaque(opaque) => {
                    let item: Value = opaque.item.read().unwrap();
                    item["type"].as_str().unwrap().to_owned()
                }
            });
        }
        let calls = response.message.tool_calls().map(|call| {
            let args: Value = serde_json::from_str(&call.arguments).unwrap();
            json!({"id": call.id, "name": call.name, "args": args})
        });
        let expected = &case.expect;
        let stop = match expected["stop"].as_str().unwrap() {
            "end_turn" | "stop_sequence" => StopReason::EndTurn,
            "tool_use" => StopReason::ToolUse,
            "max_tokens" => StopReason::MaxTokens,
            other => panic!("unexpected {other}"),
        };
        assert_eq!(response.stop, stop, "{}", case.name);
        let cached = usage.cache_read.unwrap_or(0) + usage.cache_write.unwrap_or(0);
        let got = json!({
            "api": "anthropic",
            "text": response.message.to_text(),
            "thinking": thinking,
            "signatures": signatures,
            "blocks": blocks,
            "tools": calls.collect::<Vec<_>>(),
            "stop": expected["stop"],
            "usage": {
                "inp": usage.input - cached, "out": usage.output,
                "cr": usage.cache_read, "cw": usage.cache_write,
            },
        });
        assert_eq!(&got, expected, "{}", case.name);
    }
}

recorded_tests!(Anthropic);
