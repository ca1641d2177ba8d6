//! What one request and the next have in common, over a long run on each wire.

use bowline_llm::anthropic;
use bowline_llm::chat;
use bowline_llm::gemini;
use bowline_llm::responses;
use bowline_llm::wire::Codec;
use bowline_llm::{
    AssistantMessage, AssistantPart, Effort, Message, MessageRef, ModelInfo, Opaque, Part, RawJson,
    Reasoning, Request, ToolBlock, ToolCall, ToolResult, ToolSpec,
};
use serde_json::{Value, json};

const TURNS: usize = 200;

const MARK: &str = r#","cache_control":{"type":"ephemeral"}"#;

pub(crate) fn info() -> ModelInfo {
    ModelInfo { provider: "mine".to_owned(), model: "m".to_owned(), ..ModelInfo::default() }
}

/// Returns the bodies of a run as a coding agent makes it: 24 KB of tools and system text, and
/// turns of about 1 KB with one to three calls; `payload` is what the provider wants back of its
/// reasoning.
pub(crate) fn bodies(codec: &impl Codec, payload: &str) -> Vec<String> {
    let tool = |n: usize| ToolSpec {
        name: format!("tool_{n}"),
        description: "Does what its name says, with all the care that it needs. ".repeat(15),
        schema: RawJson::of(&json!({"type": "object", "properties": {"path": {"type": "string"}}}))
            .unwrap(),
    };
    let mut request = Request {
        system: "Be careful, and say what you have done.\n".repeat(250).into(),
        tools: ToolBlock::new((0..14).map(tool).collect()),
        effort: Some(Effort::High),
        cache_key: Some("session".into()),
        ..Request::default()
    };
    request.messages.push_back_mut(Message::user("Mend the roof.").into());
    let mut bodies = Vec::new();
    for turn in 0..TURNS {
        bodies.push(String::from_utf8(codec.body(&request)).unwrap());
        let (reply, results) = self::turn(turn, payload);
        request.messages.push_back_mut(reply);
        request.messages.push_back_mut(results);
        if turn % 10 == 9 {
            request.messages.push_back_mut(Message::user("And the gutter, please.").into());
        }
    }
    bodies
}

fn turn(turn: usize, payload: &str) -> (MessageRef, MessageRef) {
    let item = RawJson::parse(payload).unwrap();
    let payload = Some(Opaque { provider: "mine".to_owned(), item });
    let text = "I look at it first.".to_owned();
    let mut content = vec![AssistantPart::Reasoning(Reasoning { text, payload })];
    if turn.is_multiple_of(3) {
        content.push(AssistantPart::Text(format!("This is step {turn}.")));
    }
    let calls = 1 + turn % 3;
    let call = |n: usize| ToolCall {
        id: format!("call_{turn}_{n}").into(),
        name: format!("tool_{n}"),
        arguments: format!(r#"{{"path": "house/{turn}/roof.rs"}}"#),
    };
    content.extend((0..calls).map(|n| AssistantPart::ToolCall(call(n))));
    let line = format!("the {turn}th tile is loose\n");
    let result = |n: usize| ToolResult {
        call: call(n).id,
        name: call(n).name,
        content: [Part::Text(line.repeat(22 / calls))].into(),
        is_error: n == 2,
    };
    let results = Message::Results((0..calls).map(result).collect());
    (Message::Assistant(AssistantMessage { content }.into()).into(), results.into())
}

/// Returns which share of the bytes of each request the next one begins with. The brackets that
/// close a request, which `end` holds, are no part of it.
pub(crate) fn shares(bodies: &[String], end: &str) -> Vec<f64> {
    let share = |pair: &[String]| {
        let before = pair[0].trim_end_matches(|c| end.contains(c)).as_bytes();
        let same = before.iter().zip(pair[1].as_bytes()).take_while(|(a, b)| a == b).count();
        same as f64 / before.len() as f64
    };
    bodies.windows(2).map(share).collect()
}

fn least(shares: &[f64]) -> f64 {
    shares.iter().copied().fold(1.0, f64::min)
}

#[test]
fn chat_requests_begin_with_the_one_before() {
    for url in ["https://api.openai.com/v1", "https://api.mistral.ai/v1", "http://localhost/v1"] {
        let codec = chat::Codec::new(&info(), chat::Dialect::of(url), true);
        let bodies = bodies(&codec, r#"[{"type":"reasoning.text","text":"I look at it first."}]"#);
        assert_eq!(least(&shares(&bodies, "]}")), 1.0, "{url}");
    }
}

#[test]
fn gemini_requests_begin_with_the_one_before() {
    for model in ["gemini-2.5-flash", "gemini-3.1-pro-preview"] {
        let info = ModelInfo { model: model.to_owned(), ..info() };
        let codec = gemini::Codec::new(&info, gemini::Dialect::of(""), true);
        let bodies = bodies(&codec, r#"{"thoughtSignature":"c2lnbmF0dXJl","text":[0,19]}"#);
        assert!(bodies[TURNS - 1].contains("c2lnbmF0dXJl"));
        assert_eq!(least(&shares(&bodies, "]}")), 1.0);
    }
}

#[test]
fn responses_requests_begin_with_the_one_before() {
    let payload = r#"{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"Z0FBQUFB"}"#;
    for url in ["https://api.openai.com/v1", "https://api.x.ai/v1", "http://localhost:8080/v1"] {
        let codec = responses::Codec::new(&info(), responses::Dialect::of(url), true);
        let bodies = bodies(&codec, payload);
        assert_eq!(least(&shares(&bodies, "]}")), 1.0);
        let last = bodies.last().unwrap();
        assert_eq!(last.matches(payload).count(), TURNS - 1, "all reasoning is still there");
    }
}

#[test]
fn anthropic_requests_begin_with_the_one_before_but_for_their_marks() {
    let payload = r#"{"type":"thinking","signature":"c2lnbmF0dXJl"}"#;
    for model in ["claude-sonnet-4-6", "claude-sonnet-4-5"] {
        let codec = anthropic::Codec::new(&info(), anthropic::Dialect::of(model), true);
        let marked = bodies(&codec, payload);
        let bare: Vec<_> = marked.iter().map(|body| body.replace(MARK, "")).collect();
        assert_eq!(least(&shares(&bare, "]}")), 1.0);
        let shares = shares(&marked, "]}");
        // What is lost is one turn, and no more: the mark before it has moved on.
        for (body, share) in marked.iter().zip(&shares).skip(1) {
            let before = body.match_indices(MARK).nth(2).unwrap().0;
            assert!((share * body.len() as f64).ceil() >= before as f64, "{share}");
        }
        assert!(least(&shares) >= 0.95, "{shares:?}");
        assert!(shares[TURNS - 2] >= 0.99, "{shares:?}");
        for (n, body) in marked.iter().enumerate() {
            let marks = if n == 0 { 3 } else { 4 };
            assert_eq!(body.matches(MARK).count(), marks, "request {n}");
            let read: Value = serde_json::from_str(body).unwrap();
            assert_marks(&read, n);
        }
    }
}

/// Checks that the last block of all, and the last before the newest reply, are the marked ones.
fn assert_marks(body: &Value, n: usize) {
    let messages = body["messages"].as_array().unwrap();
    let is_marked = |block: &Value| block.get("cache_control").is_some();
    let marked: Vec<usize> = (0..messages.len())
        .filter(|at| messages[*at]["content"].as_array().unwrap().iter().any(is_marked))
        .collect();
    let last = messages.len() - 1;
    assert_eq!(marked, if n == 0 { vec![last] } else { vec![last - 2, last] });
    for at in marked {
        let blocks = messages[at]["content"].as_array().unwrap();
        assert_eq!(messages[at]["role"], "user");
        // A remark that came after the results stands behind what the last request sent.
        let has_remark = blocks.iter().rev().skip(1).any(is_marked);
        assert!(is_marked(blocks.last().unwrap()) && !has_remark, "request {n}");
    }
    assert!(is_marked(body["tools"].as_array().unwrap().last().unwrap()));
    assert!(is_marked(body["system"].as_array().unwrap().last().unwrap()));
}
