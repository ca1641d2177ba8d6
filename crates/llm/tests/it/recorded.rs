//! Recorded answers mean what the vendor's SDK says they mean, however their bytes arrive.

use std::fs;
use std::path::Path;

use bowline_llm::chat::{Codec, Dialect};
use bowline_llm::{
    AssistantPart, ErrorKind, ModelError, ModelInfo, Response, StopReason, StreamEvent, sse,
};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

/// One recorded exchange.
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) request: Value,
    pub(crate) status: u16,
    pub(crate) content_type: String,
    pub(crate) body: String,
    expect: Value,
}

impl Case {
    pub(crate) fn is_stream(&self) -> bool {
        self.content_type.starts_with("text/event-stream")
    }

    pub(crate) fn is_error(&self) -> bool {
        self.status >= 400
    }

    pub(crate) fn kind(&self) -> ErrorKind {
        match self.expect["error"].as_str().unwrap() {
            "PermissionDeniedError" => ErrorKind::Auth,
            "NotFoundError" => ErrorKind::NotFound,
            other => panic!("unexpected {other}"),
        }
    }

    /// Compares a response with what was expected.
    pub(crate) fn check(&self, response: &Response) {
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
        assert_eq!(got, self.expect, "{}", self.name);
    }
}

/// Returns all recorded exchanges.
pub(crate) fn cases() -> Vec<Case> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/chat");
    let mut paths: Vec<_> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let cases: Vec<_> = paths.iter().map(|path| case(path)).collect();
    assert_eq!(cases.len(), 16);
    cases
}

fn case(path: &Path) -> Case {
    let mut case: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    let response = &case["response"];
    Case {
        name: path.file_stem().unwrap().to_string_lossy().into_owned(),
        status: u16::try_from(response["status"].as_u64().unwrap()).unwrap(),
        content_type: response["headers"]["content-type"].as_str().unwrap().to_owned(),
        body: response["body"].as_str().unwrap().to_owned(),
        request: case["request"]["body"].take(),
        expect: case["expect"].take(),
    }
}

fn named(name: &str) -> Case {
    cases().into_iter().find(|case| case.name.starts_with(name)).unwrap()
}

fn codec() -> Codec {
    let info = ModelInfo { provider: "mine".to_owned(), ..ModelInfo::default() };
    Codec::new(&info, Dialect::of("http://localhost"), true)
}

fn decode(body: &[u8], size: usize) -> (Vec<StreamEvent>, Result<Response, ModelError>) {
    let mut lines = sse::Decoder::default();
    let mut decoder = codec().decoder(1);
    let mut events = Vec::new();
    for piece in body.chunks(size) {
        lines.push(piece);
        while let Some(event) = lines.next_event().unwrap() {
            if let Err(error) = decoder.push(event.data, &mut |event| events.push(event)) {
                return (events, Err(error));
            }
        }
    }
    (events, decoder.finish())
}

#[test]
fn streams_mean_the_same_at_every_chunking() {
    for case in cases().iter().filter(|case| case.is_stream()) {
        let (events, whole) = decode(case.body.as_bytes(), usize::MAX);
        let whole = whole.unwrap();
        case.check(&whole);
        for size in [1, 7, 64] {
            let (pieces, response) = decode(case.body.as_bytes(), size);
            assert_eq!((&pieces, &response.unwrap()), (&events, &whole), "{}", case.name);
        }
    }
}

#[test]
fn documents_are_read() {
    for case in cases().iter().filter(|case| !case.is_stream() && !case.is_error()) {
        case.check(&codec().decoder(1).document(case.body.as_bytes()).unwrap());
    }
}

#[test]
fn deltas_add_up_to_the_message() {
    for case in cases().iter().filter(|case| case.is_stream()) {
        let (events, response) = decode(case.body.as_bytes(), usize::MAX);
        let message = response.unwrap().message;
        let mut text = String::new();
        let mut reasoning = String::new();
        let mut calls: Vec<(String, String)> = Vec::new();
        for event in events {
            match event {
                StreamEvent::TextDelta(delta) => text.push_str(&delta),
                StreamEvent::ReasoningDelta(delta) => reasoning.push_str(&delta),
                StreamEvent::ToolCallDelta { index, name, arguments } => {
                    if let Some(name) = name {
                        assert_eq!(index, calls.len());
                        calls.push((name, String::new()));
                    }
                    calls[index].1.push_str(&arguments);
                }
                other => panic!("unexpected {other:?}"),
            }
        }
        assert_eq!(text, message.to_text());
        let said: Vec<_> =
            message.tool_calls().map(|call| (call.name.clone(), call.arguments.clone())).collect();
        assert_eq!(calls, said);
        let thought: String = message
            .content
            .iter()
            .filter_map(|part| match part {
                AssistantPart::Reasoning(reasoning) => Some(reasoning.text.as_str()),
                _ => None,
            })
            .collect();
        assert_eq!(reasoning, thought);
    }
}

#[test]
fn a_cut_anywhere_gives_an_error_or_the_complete_answer() {
    for name in ["chat-sse-cache-32", "chat-sse-tool-35"] {
        let case = named(name);
        let body = case.body.as_bytes();
        let whole = decode(body, usize::MAX).1.unwrap();
        let mut complete = 0;
        for cut in 0..body.len() {
            match decode(&body[..cut], usize::MAX).1 {
                Ok(response) => {
                    complete += 1;
                    assert_eq!(response.message, whole.message, "cut at {cut}");
                    assert_eq!(response.stop, whole.stop, "cut at {cut}");
                }
                Err(error) => assert_eq!(error.kind, ErrorKind::Incomplete, "cut at {cut}"),
            }
        }
        assert!(complete > 0 && complete < body.len() / 2, "{complete}");
    }
}

#[test]
fn encrypted_reasoning_goes_back_byte_for_byte() {
    let case = named("chat-sse-tool-35");
    let item = r#"[{"data":"encrypted_reasoning_REDACTED_1","format":"openai-responses-v1","id":"rs_REDACTED_1","index":0,"type":"reasoning.encrypted"}]"#;
    assert!(case.body.contains(item));
    let message = decode(case.body.as_bytes(), usize::MAX).1.unwrap().message;
    let message = bowline_llm::Message::Assistant(message.into());
    let sent = codec().encode(&message);
    let sent = std::str::from_utf8(&sent).unwrap();
    assert!(sent.contains(&format!("\"reasoning_details\":{item}")), "{sent}");
    let other = ModelInfo { provider: "other".to_owned(), ..ModelInfo::default() };
    let sent = Codec::new(&other, Dialect::of("http://localhost"), true).encode(&message);
    assert!(!std::str::from_utf8(&sent).unwrap().contains("reasoning"));
}
