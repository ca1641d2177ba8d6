//! Anthropic's Messages.

use bowline_llm::anthropic::{Codec, DEFAULT_MAX_TOKENS, Dialect};
use bowline_llm::wire::Codec as _;
use bowline_llm::{
    AssistantPart, Effort, Media, Message, ModelInfo, Opaque, Part, RawJson, Reasoning, Request,
    ToolBlock, ToolCall, ToolSpec, UserMessage,
};
use pretty_assertions::assert_eq;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{any_message, assistant, call, image, info, request, result};
use crate::recorded::{self, anthropic::Anthropic};

fn codec() -> Codec {
    of_model("claude-sonnet-4-6", true)
}

fn of_model(model: &str, stream: bool) -> Codec {
    Codec::new(&info(), Dialect::of(model), stream)
}

fn body(codec: &Codec, request: &Request) -> Value {
    serde_json::from_slice(&codec.body(request)).unwrap()
}

/// Encodes a message and reads the blocks it became.
fn blocks(message: &Message) -> Value {
    let bytes = codec().encode(message);
    serde_json::from_str(&format!("[{}]", std::str::from_utf8(&bytes).unwrap())).unwrap()
}

fn thinking(provider: &str, text: &str, item: &str) -> AssistantPart {
    let item = RawJson::parse(item).unwrap();
    let payload = Some(Opaque { provider: provider.to_owned(), item });
    AssistantPart::Reasoning(Reasoning { text: text.to_owned(), payload })
}

fn text(text: &str) -> AssistantPart {
    AssistantPart::Text(text.to_owned())
}

fn user(parts: Vec<Part>) -> Message {
    Message::User(UserMessage { content: parts }.into())
}

fn media(media_type: &str, data: &str, name: Option<&str>) -> Media {
    Media { media_type: media_type.to_owned(), data: data.into(), name: name.map(str::to_owned) }
}

#[test]
fn the_body_is_laid_out_in_a_fixed_order() {
    let schema = RawJson::parse(r#"{"type":"object","b":1,"a":2}"#).unwrap();
    let spec = |name: &str| ToolSpec {
        name: name.to_owned(),
        description: "d".to_owned(),
        schema: schema.clone(),
    };
    let search = r#"{"type":"server_tool_use","id":"s","name":"web_search","input":{ }}"#;
    let request = Request {
        system: "be \"brief\"".into(),
        tools: ToolBlock::new(vec![spec("z"), spec("a")]),
        effort: Some(Effort::High),
        max_output_tokens: Some(9),
        cache_key: Some("k".into()),
        ..request([
            Message::user("hi"),
            assistant(vec![
                thinking("mine", "hm", r#"{"type":"thinking","signature":"s+/="}"#),
                thinking("mine", "", r#"{"type":"redacted_thinking","data":"d"}"#),
                text("so"),
                AssistantPart::Opaque(Opaque {
                    provider: "mine".to_owned(),
                    item: RawJson::parse(search).unwrap(),
                }),
                call("1", "{ \"a\": 1.0}"),
                call("2", ""),
            ]),
            Message::Results(vec![
                result("1", vec![Part::Text("a".to_owned()), Part::Image(image())], false),
                result("2", vec![Part::Text("no such file".to_owned())], true),
            ]),
            Message::user("go on"),
        ])
    };
    let tool = |name: &str, mark: &str| {
        format!(
            r#"{{"name":"{name}","description":"d","input_schema":{{"type":"object","b":1,"a":2}}{mark}}}"#
        )
    };
    let mark = r#","cache_control":{"type":"ephemeral"}"#;
    let expected = [
        r#"{"model":"m","max_tokens":9,"stream":true,"#,
        r#""thinking":{"type":"adaptive","display":"summarized"},"output_config":{"effort":"high"},"#,
        &format!(r#""tools":[{},{}],"#, tool("z", ""), tool("a", mark)),
        &format!(r#""system":[{{"type":"text","text":"be \"brief\""{mark}}}],"messages":["#),
        &format!(r#"{{"role":"user","content":[{{"type":"text","text":"hi"{mark}}}]}},"#),
        r#"{"role":"assistant","content":["#,
        r#"{"type":"thinking","thinking":"hm","signature":"s+/="},"#,
        r#"{"type":"redacted_thinking","data":"d"},"#,
        r#"{"type":"text","text":"so"},"#,
        search,
        r#",{"type":"tool_use","id":"1","name":"read","input":{ "a": 1.0}},"#,
        r#"{"type":"tool_use","id":"2","name":"read","input":{}}]},"#,
        r#"{"role":"user","content":["#,
        r#"{"type":"tool_result","tool_use_id":"1","content":[{"type":"text","text":"a"},"#,
        r#"{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAA"}}]},"#,
        r#"{"type":"tool_result","tool_use_id":"2","#,
        r#""content":[{"type":"text","text":"no such file"}],"is_error":true},"#,
        &format!(r#"{{"type":"text","text":"go on"{mark}}}]}}]}}"#),
    ];
    let sent = String::from_utf8(codec().body(&request)).unwrap();
    assert_eq!(sent, expected.concat());

    let unmarked = Dialect { marks_cache: false, ..Dialect::of("claude-sonnet-4-6") };
    let unmarked = Codec::new(&info(), unmarked, true).body(&request);
    assert_eq!(String::from_utf8(unmarked).unwrap(), expected.concat().replace(mark, ""));
}

#[test]
fn a_limit_is_always_sent() {
    let hi = request([Message::user("hi")]);
    assert_eq!(body(&codec(), &hi)["max_tokens"], DEFAULT_MAX_TOKENS);
    let info = ModelInfo { max_output_tokens: Some(77), ..info() };
    let codec = Codec::new(&info, Dialect::of("claude-sonnet-4-6"), false);
    assert_eq!(body(&codec, &hi)["max_tokens"], 77);
    assert_eq!(body(&codec, &Request { max_output_tokens: Some(5), ..hi })["max_tokens"], 5);
}

#[test]
fn an_effort_is_told_as_the_model_takes_it() {
    let sent = |model: &str, effort| {
        let request = Request { effort, ..request([Message::user("hi")]) };
        let body = body(&of_model(model, true), &request);
        let field = |name: &str| body.get(name).cloned().unwrap_or_default();
        (field("thinking"), field("output_config"))
    };
    let adaptive = json!({"type": "adaptive", "display": "summarized"});
    let level = |level: &str| json!({"effort": level});
    let nothing = (Value::Null, Value::Null);
    assert_eq!(sent("claude-opus-4-7", None), nothing);
    assert_eq!(sent("claude-opus-4-7", Some(Effort::Minimal)), (Value::Null, level("low")));
    assert_eq!(sent("claude-opus-4-7", Some(Effort::Low)), (adaptive.clone(), level("low")));
    assert_eq!(sent("claude-opus-4-7", Some(Effort::Xhigh)), (adaptive, level("max")));
    let bound = json!({
        "type": "adaptive", "display": "summarized",
        "block_binding": {"prefix_mismatch_behavior": "drop_block"},
    });
    assert_eq!(sent("claude-fable-5-1", None), (bound.clone(), Value::Null));
    assert_eq!(sent("claude-opus-5-5", Some(Effort::Minimal)), (bound, level("low")));
    let budget = |tokens: u64| (json!({"type": "enabled", "budget_tokens": tokens}), Value::Null);
    assert_eq!(sent("claude-sonnet-4-5", Some(Effort::Minimal)), nothing);
    assert_eq!(sent("claude-sonnet-4-5", Some(Effort::Medium)), budget(8_000));
    assert_eq!(sent("claude-sonnet-4-5", Some(Effort::Xhigh)), budget(28_000));
    assert_eq!(sent("claude-3-5-haiku-latest", Some(Effort::High)), nothing);
}

#[test]
fn no_budget_is_asked_for_in_a_turn_that_another_provider_began() {
    let asks = |first: AssistantPart, last: Option<Message>| {
        let results = Message::Results(vec![result("1", Vec::new(), false)]);
        let messages = [Message::user("hi"), assistant(vec![first, call("1", "{}")]), results];
        let effort = Some(Effort::High);
        let request = Request { effort, ..request(messages.into_iter().chain(last)) };
        body(&of_model("claude-sonnet-4-5", true), &request).get("thinking").is_some()
    };
    let signed = r#"{"type":"thinking","signature":"s"}"#;
    assert!(asks(thinking("mine", "hm", signed), None));
    assert!(!asks(thinking("other", "hm", signed), None));
    assert!(!asks(text("so"), None));
    assert!(!asks(text("so"), Some(Message::user("and?"))));
    assert!(asks(text("so"), Some(assistant(vec![text("done")]))));
}

#[test]
fn users_send_text_images_and_documents() {
    let sent = blocks(&user(vec![
        Part::Text("look".to_owned()),
        Part::Text(" \n".to_owned()),
        Part::Image(image()),
        Part::Image(media("image/tiff", "AAAA", Some("a.tiff"))),
        Part::Document(media("application/pdf", "JVBE", Some("a.pdf"))),
        Part::Document(media("text/csv", "YTti", None)),
        Part::Document(media("application/zip", "AAAA", None)),
    ]));
    let expected = json!([
        {"type": "text", "text": "look"},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}},
        {"type": "text", "text": "[a file \"a.tiff\" of type image/tiff cannot be shown]"},
        {"type": "document", "title": "a.pdf",
         "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBE"}},
        {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "a;b"}},
        {"type": "text", "text": "[a file of type application/zip cannot be shown]"},
    ]);
    assert_eq!(sent, expected);
}

#[test]
fn arguments_that_are_no_object_are_wrapped_into_one() {
    for raw in ["{\"a\":", "[1]", "null", "rm -rf"] {
        let sent = blocks(&assistant(vec![call("1", raw)]));
        assert_eq!(sent[0]["input"], json!({"invalid_arguments": raw}));
    }
}

#[test]
fn ids_and_names_of_other_wires_are_made_to_fit_and_stay_pairs() {
    let foreign = ToolCall {
        id: "call|ä".into(),
        name: "functions.read".to_owned(),
        arguments: String::new(),
    };
    let sent = blocks(&assistant(vec![AssistantPart::ToolCall(foreign)]));
    let answered = blocks(&Message::Results(vec![result("call|ä", Vec::new(), false)]));
    assert_eq!(sent[0]["id"], answered[0]["tool_use_id"]);
    for field in ["id", "name"] {
        let value = sent[0][field].as_str().unwrap();
        assert!(value.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'), "{value}");
    }
}

#[test]
fn nothing_is_sent_that_the_server_refuses_for_good() {
    let signed = r#"{"type":"thinking","signature":"s"}"#;
    assert_eq!(blocks(&assistant(vec![text(" \n")])), json!([]), "text of nothing");
    let cut = assistant(vec![thinking("mine", "hm", signed)]);
    assert_eq!(blocks(&cut), json!([]), "thinking that nothing follows");
    assert_eq!(blocks(&user(Vec::new())), json!([{"type": "text", "text": "[empty message]"}]));
    let results =
        Message::Results(vec![result("1", Vec::new(), false), result("2", Vec::new(), true)]);
    let failure = json!([{"type": "text", "text": "Error"}]);
    let expected = json!([
        {"type": "tool_result", "tool_use_id": "1"},
        {"type": "tool_result", "tool_use_id": "2", "content": failure, "is_error": true},
    ]);
    assert_eq!(blocks(&results), expected);
}

#[test]
fn the_media_of_a_failed_call_follow_the_results() {
    let results = Message::Results(vec![
        result("1", vec![Part::Text("no".to_owned()), Part::Image(image())], true),
        result("2", vec![Part::Image(image())], false),
    ]);
    let image = json!({
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"},
    });
    let expected = json!([
        {"type": "tool_result", "tool_use_id": "1", "is_error": true, "content": [
            {"type": "text", "text": "no"},
            {"type": "text", "text": "[attachment 1, see below]"},
        ]},
        {"type": "tool_result", "tool_use_id": "2", "content": [image]},
        {"type": "text", "text": "[attachment 1, from read (1)]"},
        image,
    ]);
    assert_eq!(blocks(&results), expected);
}

#[test]
fn a_space_between_thinking_stays() {
    let kinds = |provider: &str| {
        let signed = || thinking(provider, "hm", r#"{"type":"thinking","signature":"s"}"#);
        let parts = vec![signed(), text(" "), signed(), text(" "), call("1", "")];
        let sent = blocks(&assistant(parts));
        let kind = |block: &Value| block["type"].as_str().unwrap().to_owned();
        sent.as_array().unwrap().iter().map(kind).collect::<Vec<_>>()
    };
    assert_eq!(kinds("mine"), ["thinking", "text", "thinking", "tool_use"]);
    assert_eq!(kinds("other"), ["tool_use"]);
}

#[test]
fn reasoning_and_items_go_back_only_where_they_came_from() {
    let message = |provider: &str, reasoning: &str, item: &str| {
        let item = RawJson::parse(item).unwrap();
        let opaque = AssistantPart::Opaque(Opaque { provider: provider.to_owned(), item });
        let sent =
            blocks(&assistant(vec![thinking(provider, "hm", reasoning), opaque, text("so")]));
        sent.as_array().unwrap().len()
    };
    let (signed, found) = (
        r#"{"type":"thinking","signature":"s"}"#,
        r#"{"type":"web_search_tool_result","content":[]}"#,
    );
    assert_eq!(message("mine", signed, found), 3);
    assert_eq!(message("other", signed, found), 1);
    let other_wire = r#"{"type":"web_search_call","status":"completed"}"#;
    assert_eq!(message("mine", r#"[{"type":"reasoning.text"}]"#, other_wire), 1);
    assert_eq!(message("mine", r#"{"encrypted_content":"e"}"#, r#"{"executableCode":{}}"#), 1);
}

#[test]
fn citations_and_callers_go_back_to_who_made_them_alone() {
    let item = |provider: &str, item: &str| {
        let item = RawJson::parse(item).unwrap();
        AssistantPart::Opaque(Opaque { provider: provider.to_owned(), item })
    };
    let cited = r#"{"citations":[{"url":"u"}],"type":"text"}"#;
    let called = r#"{"caller":{"type":"code"},"type":"tool_use"}"#;
    let sent = blocks(&assistant(vec![
        item("mine", cited),
        text("a"),
        item("mine", called),
        call("1", "{}"),
        item("other", cited),
        text("b"),
        item("mine", cited),
        call("2", "{}"),
        item("mine", called),
    ]));
    let expected = json!([
        {"type": "text", "text": "a", "citations": [{"url": "u"}]},
        {"type": "tool_use", "id": "1", "name": "read", "input": {}, "caller": {"type": "code"}},
        {"type": "text", "text": "b"},
        {"type": "tool_use", "id": "2", "name": "read", "input": {}},
    ]);
    assert_eq!(sent, expected);
}

#[test]
fn a_view_without_its_beginning_begins_with_the_user() {
    for messages in [Vec::new(), vec![assistant(vec![text("so")]), Message::user("hi")]] {
        let sent = body(&codec(), &request(messages));
        assert_eq!(sent["messages"][0]["role"], "user");
        assert_eq!(sent["messages"][0]["content"][0]["text"], "[The beginning is left out.]");
    }
}

#[test]
fn messages_in_a_row_from_one_side_become_one() {
    let sent = body(
        &codec(),
        &request([
            Message::user("a"),
            assistant(vec![text(" ")]),
            Message::user("b"),
            assistant(vec![text("c")]),
            assistant(vec![text("d")]),
        ]),
    );
    let said: Vec<_> = sent["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|message| message["content"].as_array().unwrap().len())
        .collect();
    assert_eq!(said, [2, 2]);
}

#[test]
fn recorded_answers_go_back_as_they_came() {
    for case in recorded::cases::<Anthropic>().iter().filter(|case| !case.is_error()) {
        let response = recorded::answer(&codec(), case);
        let sent = blocks(&Message::Assistant(response.message.into()));
        assert_eq!(sent, Value::from(said(case)), "{}", case.name);
    }
}

/// Reads the blocks of an answer without our decoder. That nobody else asked for a call goes without
/// saying.
fn said(case: &recorded::Case) -> Vec<Value> {
    let mut blocks: Vec<Value> = if case.is_stream() {
        let data = case.body.lines().filter_map(|line| line.strip_prefix("data: "));
        let mut blocks: Vec<Value> = Vec::new();
        let mut inputs: Vec<String> = Vec::new();
        for event in data.map(|data| serde_json::from_str::<Value>(data).unwrap()) {
            let delta = &event["delta"];
            let mut grow = |field: &str| {
                let (Some(block), Some(more)) = (blocks.last_mut(), delta[field].as_str()) else {
                    return;
                };
                let grown = block[field].as_str().unwrap().to_owned() + more;
                block[field] = grown.into();
            };
            for field in ["text", "thinking", "signature"] {
                grow(field);
            }
            if let Some(json) = delta["partial_json"].as_str() {
                inputs.last_mut().unwrap().push_str(json);
            }
            if let Some(block) = event.get("content_block") {
                blocks.push(block.clone());
                inputs.push(String::new());
            }
        }
        for (block, input) in blocks.iter_mut().zip(inputs) {
            if !input.is_empty() {
                block["input"] = serde_json::from_str(&input).unwrap();
            }
        }
        blocks
    } else {
        serde_json::from_str::<Value>(&case.body).unwrap()["content"].as_array().unwrap().clone()
    };
    for block in &mut blocks {
        if block["type"] == "tool_use" && block["caller"]["type"] == "direct" {
            block.as_object_mut().unwrap().remove("caller");
        }
    }
    blocks
}

proptest! {
    #[test]
    fn every_history_is_one_the_server_accepts(
        messages in prop::collection::vec(any_message(), 0..8),
    ) {
        let mut before: Option<String> = None;
        let mut request = Request::default();
        for message in messages {
            request.messages.push_back_mut(message.into());
            let sent = String::from_utf8(codec().body(&request)).unwrap();
            prop_assert_eq!(sent.as_bytes(), codec().body(&request.clone()), "encoding is pure");
            let read: Value = serde_json::from_str(&sent).unwrap();
            let mut is_user = true;
            for message in read["messages"].as_array().unwrap() {
                prop_assert_eq!(message["role"] == "user", is_user, "sides take turns");
                is_user = !is_user;
                let blocks = message["content"].as_array().unwrap();
                prop_assert!(!blocks.is_empty());
                for block in blocks {
                    let text = block["text"].as_str().unwrap_or("x");
                    prop_assert!(!text.is_empty());
                    prop_assert!(!text.trim().is_empty() || message["role"] == "assistant");
                    let is_marked = block.get("cache_control").is_some();
                    prop_assert!(!is_marked || message["role"] == "user");
                }
            }
            let bare = sent.replace(r#","cache_control":{"type":"ephemeral"}"#, "");
            if let Some(before) = before {
                let before = before.trim_end_matches(|c| "]}".contains(c));
                prop_assert!(bare.starts_with(before));
            }
            before = Some(bare);
        }
    }
}
