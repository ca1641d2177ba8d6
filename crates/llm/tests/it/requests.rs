//! What is sent: the shapes providers accepted, and a prefix that never changes.

use bowline_llm::chat::{Codec, Config, Dialect, MaxTokens, Replay, SystemRole};
use bowline_llm::wire::Codec as _;
use bowline_llm::{
    AssistantMessage, AssistantPart, Effort, Media, Message, MessageRef, ModelInfo, Opaque, Part,
    RawJson, Reasoning, Request, Stored, StoredKind, ToolBlock, ToolCall, ToolResult, ToolSpec,
    UserMessage,
};
use pretty_assertions::assert_eq;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::recorded::{self, chat::Chat};

mod anthropic;
mod gemini;
mod responses;
mod servers;
mod shapes;

fn info() -> ModelInfo {
    ModelInfo { provider: "mine".to_owned(), model: "m".to_owned(), ..ModelInfo::default() }
}

fn dialect() -> Dialect {
    Dialect::of("http://localhost:8080/v1")
}

fn codec() -> Codec {
    Codec::new(&info(), dialect(), true)
}

/// Encodes a message and reads the items it became.
fn items(message: &Message) -> Vec<Value> {
    items_of(&codec(), message)
}

fn items_of(codec: &Codec, message: &Message) -> Vec<Value> {
    let bytes = codec.encode(message);
    serde_json::from_str(&format!("[{}]", std::str::from_utf8(&bytes).unwrap())).unwrap()
}

fn request(messages: impl IntoIterator<Item = Message>) -> Request {
    Request { messages: messages.into_iter().map(MessageRef::from).collect(), ..Request::default() }
}

fn image() -> Media {
    Media { media_type: "image/png".to_owned(), data: "AAAA".into(), name: None }
}

fn assistant(content: Vec<AssistantPart>) -> Message {
    Message::Assistant(AssistantMessage { content }.into())
}

fn call(id: &str, arguments: &str) -> AssistantPart {
    AssistantPart::ToolCall(ToolCall {
        id: id.into(),
        name: "read".to_owned(),
        arguments: arguments.to_owned(),
    })
}

fn result(id: &str, content: Vec<Part>, is_error: bool) -> ToolResult {
    ToolResult { call: id.into(), name: "read".to_owned(), content: content.into(), is_error }
}

#[test]
fn the_body_is_laid_out_in_a_fixed_order() {
    let schema = RawJson::parse(r#"{"type":"object","b":1,"a":2}"#).unwrap();
    let spec = |name: &str| ToolSpec {
        name: name.to_owned(),
        description: "d".to_owned(),
        schema: schema.clone(),
    };
    let request = Request {
        system: "be \"brief\"".into(),
        tools: ToolBlock::new(vec![spec("z"), spec("a")]),
        effort: Some(Effort::High),
        max_output_tokens: Some(9),
        cache_key: Some("k".into()),
        ..request([Message::user("hi")])
    };
    let tool = |name: &str| {
        format!(
            r#"{{"type":"function","function":{{"name":"{name}","description":"d","parameters":{{"type":"object","b":1,"a":2}}}}}}"#
        )
    };
    let expected = format!(
        concat!(
            r#"{{"model":"m","stream":true,"stream_options":{{"include_usage":true}},"max_tokens":9,"#,
            r#""reasoning_effort":"high","tools":[{},{}],"messages":["#,
            r#"{{"role":"system","content":"be \"brief\""}},{{"role":"user","content":"hi"}}]}}"#
        ),
        tool("z"),
        tool("a")
    );
    assert_eq!(String::from_utf8(codec().body(&request)).unwrap(), expected);

    let openai =
        Dialect { system_role: SystemRole::Developer, ..Dialect::of("https://api.openai.com/v1") };
    let body = Codec::new(&info(), openai, false).body(&request);
    let body: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(body.get("stream"), None);
    assert_eq!(body.get("max_tokens"), None);
    assert_eq!(body["max_completion_tokens"], 9);
    assert_eq!(body["prompt_cache_key"], "k");
    assert_eq!(body["messages"][0]["role"], "developer");
}

#[test]
fn the_limit_of_the_model_holds_where_the_request_names_none() {
    let info = ModelInfo { max_output_tokens: Some(77), ..info() };
    let body = Codec::new(&info, dialect(), true).body(&request([Message::user("hi")]));
    assert_eq!(serde_json::from_slice::<Value>(&body).unwrap()["max_tokens"], 77);
}

#[test]
fn only_openai_gets_the_fields_only_openai_knows() {
    for url in ["https://api.openai.com/v1", "https://x.openai.azure.com/openai/v1"] {
        let dialect = Config::new(url).dialect;
        assert_eq!(dialect.max_tokens, MaxTokens::MaxCompletionTokens, "{url}");
        assert!(dialect.takes_cache_key);
    }
    for url in ["http://127.0.0.1:1/v1", "https://api.openai.com.evil.example/v1", "no url"] {
        assert_eq!(Config::new(url).dialect.max_tokens, MaxTokens::MaxTokens, "{url}");
    }
}

#[test]
fn users_send_text_images_and_documents() {
    let pdf = Media {
        media_type: "application/pdf".to_owned(),
        data: "JVBE".into(),
        name: Some("a.pdf".to_owned()),
    };
    let content = [Part::Text("look".to_owned()), Part::Image(image()), Part::Document(pdf)];
    let user = Message::User(UserMessage { content: content.into() }.into());
    let expected = json!([{"role": "user", "content": [
        {"type": "text", "text": "look"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
        {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBE"}},
    ]}]);
    assert_eq!(Value::from(items(&user)), expected);
}

#[test]
fn a_body_that_was_not_fetched_is_told_as_missing() {
    let stored = Stored {
        kind: StoredKind::Image,
        hash: "ab12".to_owned(),
        bytes: 5,
        media_type: None,
        name: None,
    };
    let user = Message::User(UserMessage { content: [Part::Stored(stored)].into() }.into());
    let text = "[image of 5 bytes is missing: sha256 ab12]";
    let expected = json!([{"role": "user", "content": [{"type": "text", "text": text}]}]);
    assert_eq!(Value::from(items(&user)), expected);
}

#[test]
fn assistants_send_text_and_calls() {
    let text = AssistantPart::Text("so".to_owned());
    assert_eq!(
        Value::from(items(&assistant(vec![text.clone()]))),
        json!([{"role": "assistant", "content": "so"}])
    );
    let calls = json!([
        {"id": "1", "type": "function", "function": {"name": "read", "arguments": "{ \"a\": 1}"}},
        {"id": "2", "type": "function", "function": {"name": "read", "arguments": "{}"}},
    ]);
    assert_eq!(
        Value::from(items(&assistant(vec![call("1", "{ \"a\": 1}"), call("2", "")]))),
        json!([{"role": "assistant", "content": null, "tool_calls": calls}])
    );
    assert_eq!(
        items(&assistant(vec![text, call("1", "{}")]))[0]["content"],
        json!("so"),
        "text beside calls is kept"
    );
    assert_eq!(
        Value::from(items(&assistant(Vec::new()))),
        json!([{"role": "assistant", "content": ""}])
    );
}

#[test]
fn names_that_a_model_made_up_are_made_to_fit() {
    let long = "x".repeat(65);
    let sent = ["f.bash", "bash<|channel|>json", "läs", "", &long].map(|name| {
        let (name, arguments) = (name.to_owned(), String::new());
        let call = AssistantPart::ToolCall(ToolCall { id: "1".into(), name, arguments });
        let mut items = items(&assistant(vec![call]));
        items[0]["tool_calls"][0]["function"]["name"].take()
    });
    for (n, name) in sent.iter().enumerate() {
        let name = name.as_str().unwrap();
        let is_taken = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        assert!((1..=64).contains(&name.len()) && name.chars().all(is_taken), "{name}");
        assert!(!sent[..n].contains(&name.into()), "{name}");
    }
}

#[test]
fn arguments_that_are_no_object_are_wrapped_into_one() {
    for raw in ["{\"a\":", "[1]", "null", "rm -rf"] {
        let sent = &items(&assistant(vec![call("1", raw)]))[0]["tool_calls"][0];
        let sent = sent["function"]["arguments"].as_str().unwrap();
        let sent: Value = serde_json::from_str(sent).unwrap();
        assert_eq!(sent, json!({"invalid_arguments": raw}));
    }
}

#[test]
fn reasoning_goes_back_only_where_it_came_from() {
    let item = RawJson::parse(r#"[{"type":"reasoning.text", "text":"hm"}]"#).unwrap();
    let message = |provider: &str, item: &RawJson| {
        let payload = Opaque { provider: provider.to_owned(), item: item.clone() };
        assistant(vec![
            AssistantPart::Reasoning(Reasoning { text: "hm".into(), payload: Some(payload) }),
            AssistantPart::Text("so".to_owned()),
        ])
    };
    let sent = codec().encode(&message("mine", &item));
    assert!(String::from_utf8_lossy(&sent).contains(item.as_str()));
    let plain = json!([{"role": "assistant", "content": "so"}]);
    assert_eq!(Value::from(items(&message("other", &item))), plain);
    let of_another_wire = RawJson::parse(r#"{"signature":"s"}"#).unwrap();
    assert_eq!(Value::from(items(&message("mine", &of_another_wire))), plain);

    let replaying = Dialect { replay: Replay::Given, ..dialect() };
    let sent = items_of(&Codec::new(&info(), replaying, true), &message("other", &item));
    assert_eq!(sent[0]["reasoning_content"], "hm");
}

#[test]
fn a_message_is_encoded_anew_for_another_provider() {
    let item = RawJson::parse("[1]").unwrap();
    let payload = Some(Opaque { provider: "mine".to_owned(), item });
    let request = request([
        Message::user("a"),
        assistant(vec![AssistantPart::Reasoning(Reasoning { text: String::new(), payload })]),
    ]);
    let other = ModelInfo { provider: "other".to_owned(), ..info() };
    let other = Codec::new(&other, dialect(), true);
    let has_details = |body: Vec<u8>| String::from_utf8(body).unwrap().contains("details");
    assert!(has_details(codec().body(&request)));
    assert!(!has_details(other.body(&request)));
    assert!(has_details(codec().body(&request)));
}

#[test]
fn results_follow_in_call_order_and_their_media_after_the_last() {
    let results = Message::Results(vec![
        result("1", vec![Part::Text("a".to_owned()), Part::Image(image())], false),
        result("2", vec![Part::Text("no such file".to_owned())], true),
        result("3", vec![Part::Text("Error: told already".to_owned())], true),
        result("4", Vec::new(), false),
    ]);
    let expected = json!([
        {"role": "tool", "tool_call_id": "1",
         "content": "a\n[attachment 1: image/png, see the next user message]"},
        {"role": "tool", "tool_call_id": "2", "content": "Error: no such file"},
        {"role": "tool", "tool_call_id": "3", "content": "Error: told already"},
        {"role": "tool", "tool_call_id": "4", "content": ""},
        {"role": "user", "content": [
            {"type": "text", "text": "[attachment 1, from read (1)]"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
        ]},
    ]);
    assert_eq!(Value::from(items(&results)), expected);
}

#[test]
fn recorded_requests_are_written_again_as_they_were() {
    for case in recorded::cases::<Chat>() {
        let recorded = &case.request;
        let mut request = request([]);
        let mut messages = Vec::new();
        let mut names = std::collections::HashMap::new();
        for item in recorded["messages"].as_array().unwrap() {
            match item["role"].as_str().unwrap() {
                "system" => request.system = plain(&item["content"]).as_str().unwrap().into(),
                "user" => messages.push(Message::User(read_user(&item["content"]).into())),
                "assistant" => {
                    for call in item["tool_calls"].as_array().unwrap() {
                        names.insert(call["id"].clone(), call["function"]["name"].clone());
                    }
                    messages.push(assistant(read_calls(item)));
                }
                "tool" => {
                    let text = Part::Text(item["content"].as_str().unwrap().to_owned());
                    let id = &item["tool_call_id"];
                    assert!(names.contains_key(id));
                    let result = result(id.as_str().unwrap(), vec![text], false);
                    messages.push(Message::Results(vec![result]));
                }
                role => panic!("unexpected {role}"),
            }
        }
        request.messages = messages.into_iter().map(MessageRef::from).collect();
        request.tools = read_tools(recorded);
        let limit = recorded.get("max_tokens").or(recorded.get("max_completion_tokens"));
        request.max_output_tokens = limit.and_then(Value::as_u64);
        let max_tokens = if recorded.get("max_completion_tokens").is_some() {
            MaxTokens::MaxCompletionTokens
        } else {
            MaxTokens::MaxTokens
        };
        let info = ModelInfo { model: recorded["model"].as_str().unwrap().to_owned(), ..info() };
        let stream = recorded["stream"] == true;
        let codec = Codec::new(&info, Dialect { max_tokens, ..dialect() }, stream);
        let sent: Value = serde_json::from_slice(&codec.body(&request)).unwrap();
        assert_eq!(normal(&sent), normal(recorded), "{}", case.name);
    }
}

/// Writes one text in a list as plain text, and drops what only the recording client sends.
fn normal(body: &Value) -> Value {
    let mut body = body.clone();
    let fields = body.as_object_mut().unwrap();
    let foreign = ["n", "temperature", "tool_choice", "thinking", "reasoning", "include_reasoning"];
    for field in foreign {
        fields.remove(field);
    }
    if fields.get("stream") == Some(&json!(false)) {
        fields.remove("stream");
    }
    // One recording streams without asking for the usage; ours always asks.
    fields.remove("stream_options");
    for item in fields["messages"].as_array_mut().unwrap() {
        item["content"] = plain(&item["content"]);
    }
    body
}

fn plain(content: &Value) -> Value {
    match content.as_array().map(Vec::as_slice) {
        Some([only]) if only["type"] == "text" => only["text"].clone(),
        _ => content.clone(),
    }
}

fn read_user(content: &Value) -> UserMessage {
    let Some(parts) = content.as_array() else {
        return UserMessage::text(content.as_str().unwrap());
    };
    let parts = parts.iter().map(|part| match part["type"].as_str().unwrap() {
        "text" => Part::Text(part["text"].as_str().unwrap().to_owned()),
        "file" => {
            let uri = part["file"]["file_data"].as_str().unwrap();
            let (media_type, data) =
                uri.strip_prefix("data:").unwrap().split_once(";base64,").unwrap();
            Part::Document(Media {
                media_type: media_type.to_owned(),
                data: data.into(),
                name: part["file"]["filename"].as_str().map(str::to_owned),
            })
        }
        kind => panic!("unexpected {kind}"),
    });
    UserMessage { content: parts.collect() }
}

fn read_calls(item: &Value) -> Vec<AssistantPart> {
    let calls = item["tool_calls"].as_array().unwrap().iter();
    calls
        .map(|call| {
            AssistantPart::ToolCall(ToolCall {
                id: call["id"].as_str().unwrap().into(),
                name: call["function"]["name"].as_str().unwrap().to_owned(),
                arguments: call["function"]["arguments"].as_str().unwrap().to_owned(),
            })
        })
        .collect()
}

fn read_tools(body: &Value) -> ToolBlock {
    let tools = body["tools"].as_array().into_iter().flatten();
    ToolBlock::new(
        tools
            .map(|tool| ToolSpec {
                name: tool["function"]["name"].as_str().unwrap().to_owned(),
                description: tool["function"]["description"].as_str().unwrap().to_owned(),
                schema: RawJson::of(&tool["function"]["parameters"]).unwrap(),
            })
            .collect(),
    )
}

fn any_part() -> impl Strategy<Value = Part> {
    prop_oneof![
        ".{0,12}".prop_map(Part::Text),
        Just(Part::Image(image())),
        Just(Part::Document(image())),
    ]
}

fn any_assistant_part() -> impl Strategy<Value = AssistantPart> {
    prop_oneof![
        ".{0,12}".prop_map(AssistantPart::Text),
        ("[a-z0-9]{1,4}", ".{0,12}").prop_map(|(id, arguments)| call(&id, &arguments)),
        ".{0,12}".prop_map(|text| {
            let item = RawJson::of(&[&text]).unwrap();
            let payload = Some(Opaque { provider: "mine".to_owned(), item });
            AssistantPart::Reasoning(Reasoning { text, payload })
        }),
    ]
}

fn any_message() -> impl Strategy<Value = Message> {
    let parts = || prop::collection::vec(any_part(), 0..3);
    let results = prop::collection::vec((parts(), any::<bool>()), 0..3);
    prop_oneof![
        parts().prop_map(|parts| Message::User(UserMessage { content: parts }.into())),
        prop::collection::vec(any_assistant_part(), 0..3).prop_map(assistant),
        results.prop_map(|results| Message::Results(
            results.into_iter().map(|(parts, failed)| result("1", parts, failed)).collect()
        )),
    ]
}

proptest! {
    #[test]
    fn a_request_begins_with_the_one_before(
        messages in prop::collection::vec(any_message(), 1..8),
        system in ".{0,9}",
    ) {
        let mut before: Option<Vec<u8>> = None;
        let mut request = Request { system: system.into(), ..Request::default() };
        for message in messages {
            request.messages.push_back_mut(MessageRef::from(message));
            let body = codec().body(&request);
            let read: Value = serde_json::from_slice(&body).unwrap();
            prop_assert!(read["messages"].is_array());
            prop_assert_eq!(&body, &codec().body(&request.clone()), "encoding is pure");
            if let Some(before) = before {
                prop_assert!(body.starts_with(&before[..before.len() - 2]));
            }
            prop_assert!(body.ends_with(b"]}"), "messages come last");
            before = Some(body);
        }
    }
}
