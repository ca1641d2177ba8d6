//! Responses.

use bowline_llm::chat::SystemRole;
use bowline_llm::responses::{Codec, Config, Dialect};
use bowline_llm::wire::Codec as _;
use bowline_llm::{
    AssistantMessage, AssistantPart, Effort, Media, Message, MessageRef, ModelInfo, Opaque, Part,
    RawJson, Reasoning, Request, Stored, StoredKind, ToolBlock, ToolCall, ToolResult, ToolSpec,
    UserMessage,
};
use pretty_assertions::assert_eq;
use proptest::prelude::*;
use serde_json::{Value, json};

fn info() -> ModelInfo {
    ModelInfo { provider: "mine".to_owned(), model: "gpt-5.6".to_owned(), ..ModelInfo::default() }
}

fn local() -> Codec {
    Codec::new(&info(), Dialect::of("http://localhost:8080/v1"), true)
}

fn openai() -> Codec {
    Codec::new(&info(), Dialect::openai(), true)
}

/// Encodes a message and reads the items it became.
fn items(codec: &Codec, message: &Message) -> Value {
    let bytes = codec.encode(message);
    serde_json::from_str(&format!("[{}]", std::str::from_utf8(&bytes).unwrap())).unwrap()
}

fn body(codec: &Codec, request: &Request) -> Value {
    serde_json::from_slice(&codec.body(request)).unwrap()
}

fn request(messages: impl IntoIterator<Item = Message>) -> Request {
    Request { messages: messages.into_iter().map(MessageRef::from).collect(), ..Request::default() }
}

fn assistant(content: impl Into<Vec<AssistantPart>>) -> Message {
    Message::Assistant(AssistantMessage { content: content.into() }.into())
}

fn text(text: &str) -> AssistantPart {
    AssistantPart::Text(text.to_owned())
}

fn call(id: &str, name: &str, arguments: &str) -> AssistantPart {
    AssistantPart::ToolCall(ToolCall {
        id: id.into(),
        name: name.to_owned(),
        arguments: arguments.to_owned(),
    })
}

fn kept(provider: &str, item: &Value) -> Opaque {
    Opaque { provider: provider.to_owned(), item: RawJson::of(item).unwrap() }
}

fn reasoning(provider: &str, item: &Value) -> AssistantPart {
    let payload = Some(kept(provider, item));
    AssistantPart::Reasoning(Reasoning { text: "hm".to_owned(), payload })
}

fn opaque(item: &Value) -> AssistantPart {
    AssistantPart::Opaque(kept("mine", item))
}

fn encrypted(id: &str) -> Value {
    json!({"type": "reasoning", "id": id, "summary": [], "encrypted_content": "gAAA"})
}

fn result(id: &str, content: Vec<Part>, is_error: bool) -> ToolResult {
    ToolResult { call: id.into(), name: "read".to_owned(), content: content.into(), is_error }
}

fn image() -> Media {
    Media { media_type: "image/png".to_owned(), data: "AAAA".into(), name: None }
}

fn pdf() -> Media {
    let name = Some("a.pdf".to_owned());
    Media { media_type: "application/pdf".to_owned(), data: "JVBE".into(), name }
}

fn said(text: &str) -> Part {
    Part::Text(text.to_owned())
}

#[test]
fn the_body_is_laid_out_in_a_fixed_order() {
    let schema = RawJson::parse(r#"{"type":"object","b":1,"a":2}"#).unwrap();
    let spec = |name: &str| ToolSpec {
        name: name.into(),
        description: "d".into(),
        schema: schema.clone(),
    };
    let request = Request {
        system: "be \"brief\"".into(),
        tools: ToolBlock::new(vec![spec("z"), spec("a")]),
        effort: Some(Effort::High),
        max_output_tokens: Some(99),
        cache_key: Some("k".into()),
        ..request([Message::user("hi")])
    };
    let tool = |name: &str| {
        format!(
            r#"{{"type":"function","name":"{name}","description":"d","parameters":{{"type":"object","b":1,"a":2}},"strict":false}}"#
        )
    };
    let hi = r#"{"type":"message","role":"user","content":[{"type":"input_text","text":"hi"}]}"#;
    let (z, a) = (tool("z"), tool("a"));
    let expected = format!(
        concat!(
            r#"{{"model":"gpt-5.6","stream":true,"store":false,"include":["reasoning.encrypted_content"],"#,
            r#""reasoning":{{"effort":"high","summary":"auto"}},"max_output_tokens":99,"prompt_cache_key":"k","#,
            r#""parallel_tool_calls":true,"tools":[{},{}],"instructions":"be \"brief\"","input":[{}]}}"#
        ),
        z, a, hi
    );
    assert_eq!(String::from_utf8(openai().body(&request)).unwrap(), expected);
    let expected = format!(
        concat!(
            r#"{{"model":"gpt-5.6","stream":true,"store":false,"reasoning":{{"effort":"high"}},"max_output_tokens":99,"#,
            r#""parallel_tool_calls":true,"tools":[{},{}],"instructions":"be \"brief\"","input":[{}]}}"#
        ),
        z, a, hi
    );
    assert_eq!(String::from_utf8(local().body(&request)).unwrap(), expected);
}

#[test]
fn a_request_says_no_more_than_it_must() {
    let expected = json!({"model": "gpt-5.6", "store": false, "input": []});
    let local = Dialect::of("http://localhost");
    assert_eq!(body(&Codec::new(&info(), local, false), &request([])), expected);
    let limited = ModelInfo { max_output_tokens: Some(77), ..info() };
    let groq = Dialect::of("https://api.groq.com/openai/v1");
    let expected = json!({"model": "gpt-5.6", "max_output_tokens": 77, "input": []});
    assert_eq!(body(&Codec::new(&limited, groq, false), &request([])), expected);
}

#[test]
fn only_models_that_reason_are_asked_for_it() {
    let asks = |model: &str, effort| {
        let codec =
            Codec::new(&ModelInfo { model: model.into(), ..info() }, Dialect::openai(), true);
        let body = body(&codec, &Request { effort, ..request([]) });
        (body.get("include").is_some(), body.get("reasoning").cloned())
    };
    let summary = || Some(json!({"summary": "auto"}));
    for model in ["gpt-5.6", "o3", "openai/o4-mini", "codex-mini-latest", "gpt-6"] {
        assert_eq!(asks(model, None), (true, summary()), "{model}");
    }
    for model in ["gpt-4.1", "gpt-4o-mini", "chatgpt-4o-latest", "gpt-5-chat-latest"] {
        assert_eq!(asks(model, None), (false, None), "{model}");
    }
    let asked = json!({"effort": "low", "summary": "auto"});
    assert_eq!(asks("gpt-4.1", Some(Effort::Low)).1, Some(asked));
}

#[test]
fn the_system_text_goes_where_the_server_looks_for_it() {
    let request = Request { system: "be brief".into(), ..request([Message::user("hi")]) };
    for (role, name) in [(SystemRole::System, "system"), (SystemRole::Developer, "developer")] {
        let dialect = Dialect { system_role: Some(role), ..Dialect::openai() };
        let body = body(&Codec::new(&info(), dialect, true), &request);
        assert_eq!(body.get("instructions"), None);
        let content = json!([{"type": "input_text", "text": "be brief"}]);
        assert_eq!(body["input"][0], json!({"type": "message", "role": name, "content": content}));
        assert_eq!(body["input"][1]["role"], "user");
    }
    let xai = Dialect::of("https://api.x.ai/v1");
    assert_eq!(xai.system_role, Some(SystemRole::System));
    for url in ["https://api.openai.com/v1", "https://x.openai.azure.com/openai/v1"] {
        assert_eq!(Config::new(url).dialect, Dialect::openai(), "{url}");
    }
    for url in ["http://127.0.0.1:1/v1", "https://api.openai.com.evil.example/v1", "no url"] {
        assert!(!Config::new(url).dialect.takes_cache_key, "{url}");
    }
}

#[test]
fn users_send_text_images_and_documents() {
    let stored = Stored {
        kind: StoredKind::Image,
        hash: "ab12".to_owned(),
        bytes: 5,
        media_type: None,
        name: None,
    };
    let content =
        vec![said("look"), Part::Image(image()), Part::Document(pdf()), Part::Stored(stored)];
    let user = Message::User(UserMessage { content }.into());
    let expected = json!([{"type": "message", "role": "user", "content": [
        {"type": "input_text", "text": "look"},
        {"type": "input_image", "image_url": "data:image/png;base64,AAAA", "detail": "auto"},
        {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBE"},
        {"type": "input_text", "text": "[image of 5 bytes is missing: sha256 ab12]"},
    ]}]);
    assert_eq!(items(&openai(), &user), expected);
    let of = |media_type: &str| Media { media_type: media_type.to_owned(), ..image() };
    let content = vec![Part::Image(of("image/tiff")), Part::Document(of("text/plain"))];
    let user = Message::User(UserMessage { content }.into());
    let expected = json!([
        {"type": "input_text", "text": "[a file of type image/tiff cannot be shown]"},
        {"type": "input_text", "text": "[document]\n\u{0}\u{0}\u{0}"},
    ]);
    assert_eq!(items(&openai(), &user)[0]["content"], expected);
    let empty = Message::User(UserMessage::default().into());
    assert_eq!(items(&openai(), &empty)[0]["content"], json!([{"type": "input_text", "text": ""}]));
}

#[test]
fn a_reply_of_this_provider_goes_back_in_its_order() {
    let search = json!({"type": "web_search_call", "id": "ws_1", "status": "completed"});
    let phase = json!({"type": "message", "id": "msg_1", "phase": "commentary"});
    let reply = assistant([
        reasoning("mine", &encrypted("rs_1")),
        opaque(&search),
        reasoning("mine", &encrypted("rs_2")),
        opaque(&phase),
        text("so"),
        opaque(&json!({"type": "function_call", "id": "fc_1"})),
        call("c1", "read", "{ \"a\": 1}"),
        opaque(&json!({"type": "function_call", "id": "fc_2"})),
        call("c2", "read", ""),
    ]);
    let call = |id: &str, call: &str, arguments: &str| {
        json!({"type": "function_call", "id": id, "call_id": call, "name": "read",
            "arguments": arguments, "status": "completed"})
    };
    let content = json!([{"type": "output_text", "text": "so", "annotations": []}]);
    let expected = json!([
        encrypted("rs_1"),
        search,
        encrypted("rs_2"),
        {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
            "phase": "commentary", "content": content},
        call("fc_1", "c1", "{ \"a\": 1}"),
        call("fc_2", "c2", "{}"),
    ]);
    assert_eq!(items(&openai(), &reply), expected);
    assert_eq!(items(&local(), &reply), expected);
    let sent = String::from_utf8(openai().encode(&reply).to_vec()).unwrap();
    assert!(sent.contains(RawJson::of(&encrypted("rs_1")).unwrap().as_str()));

    // Another provider gets what anybody can read, and nothing else.
    let other = ModelInfo { provider: "other".to_owned(), ..info() };
    let foreign = items(&Codec::new(&other, Dialect::openai(), true), &reply);
    let call = |call: &str, arguments: &str| json!({"type": "function_call", "call_id": call, "name": "read", "arguments": arguments});
    let plain = json!([
        {"type": "message", "role": "assistant", "content": "so"},
        call("c1", "{ \"a\": 1}"),
        call("c2", "{}"),
    ]);
    assert_eq!(foreign, plain);
}

#[test]
fn several_texts_of_one_message_stay_one_item() {
    let citation = json!([{"type": "url_citation", "url": "u"}]);
    let frame = json!({"type": "message", "id": "m", "content": [
        {"type": "output_text", "annotations": citation}, {"type": "refusal"},
    ]});
    let reply = assistant([opaque(&frame), text("a"), text("no"), text("after")]);
    let sent = items(&openai(), &reply);
    let content = json!([
        {"type": "output_text", "text": "a", "annotations": citation},
        {"type": "refusal", "refusal": "no"},
    ]);
    assert_eq!((&sent[0]["content"], &sent[0]["id"]), (&content, &json!("m")));
    assert_eq!(sent[1], json!({"type": "message", "role": "assistant", "content": "after"}));
}

#[test]
fn frames_without_what_fills_them_are_left_out() {
    let message = || opaque(&json!({"type": "message", "id": "m"}));
    let function = || opaque(&json!({"type": "function_call", "id": "f"}));
    for content in [
        vec![message()],
        vec![function(), message()],
        vec![message(), text("")],
        vec![text("")],
        vec![reasoning("mine", &encrypted("r")), message(), text("")],
        vec![],
    ] {
        assert_eq!(items(&local(), &assistant(content)), json!([]));
    }
    let sent = items(&openai(), &assistant([message(), call("c", "read", "{}")]));
    assert_eq!(sent[0]["call_id"], "c");
}

#[test]
fn reasoning_that_led_to_nothing_is_left_out() {
    let end = [text("a"), reasoning("mine", &encrypted("r1")), reasoning("mine", &encrypted("r2"))];
    assert_eq!(items(&openai(), &assistant(end)).as_array().unwrap().len(), 1);
    let request = request([
        Message::user("a"),
        assistant([reasoning("mine", &encrypted("r"))]),
        Message::user("b"),
    ]);
    assert_eq!(body(&openai(), &request)["input"].as_array().unwrap().len(), 2);
}

#[test]
fn ids_stay_away_where_the_reasoning_before_them_does() {
    let plain = json!({"type": "reasoning", "id": "rs", "encrypted_content": null,
        "summary": [{"type": "summary_text", "text": "hm"}]});
    let empty = json!({"type": "reasoning", "id": "rs", "encrypted_content": "", "summary": []});
    let reply = |item: &Value| {
        assistant([
            reasoning("mine", item),
            opaque(&json!({"type": "web_search_call", "id": "ws"})),
            opaque(&json!({"type": "message", "id": "msg", "phase": "commentary"})),
            text("so"),
            opaque(&json!({"type": "function_call", "id": "fc"})),
            call("c", "read", "{}"),
        ])
    };
    for item in [&plain, &empty] {
        let sent = items(&openai(), &reply(item));
        let expected = json!([
            {"type": "message", "role": "assistant", "phase": "commentary", "content": "so"},
            {"type": "function_call", "call_id": "c", "name": "read", "arguments": "{}",
                "status": "completed"},
        ]);
        assert_eq!(sent, expected);
    }
    // Servers that store nothing take the reasoning they can read.
    let sent = items(&local(), &reply(&plain));
    assert_eq!((&sent[0], &sent[2]["id"]), (&plain, &json!("msg")));
    let sent = items(&local(), &reply(&empty));
    assert_ne!(sent[0]["id"], "msg");
}

#[test]
fn a_model_that_does_not_reason_is_shown_no_reasoning() {
    let reply = assistant([
        reasoning("mine", &encrypted("rs")),
        opaque(&json!({"type": "message", "id": "msg"})),
        text("so"),
    ]);
    let request = request([Message::user("a"), reply]);
    let older = ModelInfo { model: "gpt-4.1".to_owned(), ..info() };
    let plain = json!({"type": "message", "role": "assistant", "content": "so"});
    for _ in 0..2 {
        assert_eq!(body(&openai(), &request)["input"][1], encrypted("rs"));
        let older = Codec::new(&older, Dialect::openai(), true);
        assert_eq!(body(&older, &request)["input"][1], plain, "the encoding is not shared");
    }
    // Nothing follows from the name of a model elsewhere.
    let local = Codec::new(&older, Dialect::of("http://localhost"), true);
    assert_eq!(body(&local, &request)["input"][1], encrypted("rs"));
}

#[test]
fn strict_servers_get_an_id_for_every_message_and_never_one_twice() {
    let replies = [
        assistant([text("Done."), text("Done."), call("c1", "read", "{}")]),
        assistant([text("Done."), text("Done."), call("c2", "read", "{}")]),
    ];
    let mut ids = Vec::new();
    for reply in &replies {
        let sent = items(&local(), reply);
        assert_eq!(sent[0]["status"], "completed");
        assert_eq!(items(&local(), reply), sent, "encoding is pure");
        ids.extend([0, 1].map(|n| sent[n]["id"].as_str().unwrap().to_owned()));
    }
    assert!(ids.iter().all(|id| id.starts_with("msg_")));
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 4);
}

#[test]
fn what_another_wire_of_the_provider_made_is_left_out() {
    let reply = assistant([
        reasoning("mine", &json!([{"type": "reasoning.text", "text": "hm"}])),
        reasoning("mine", &json!({"type": "thinking", "signature": "s"})),
        opaque(&json!({"type": "redacted_thinking", "data": "x"})),
        opaque(&json!({"type": "server_tool_use", "id": "srvtoolu_1", "name": "n", "input": {}})),
        opaque(&json!({"thoughtSignature": "s"})),
        opaque(&json!([1])),
        opaque(&json!({"type": "message", "id": "msg"})),
        text("so"),
    ]);
    let sent = items(&openai(), &reply);
    assert_eq!((sent.as_array().unwrap().len(), &sent[0]["id"]), (1, &json!("msg")));
}

#[test]
fn arguments_names_and_ids_that_the_wire_refuses_are_mapped() {
    for raw in ["{\"a\":", "[1]", "null", "rm -rf"] {
        let sent = items(&openai(), &assistant([call("1", "read", raw)]));
        let sent: Value = serde_json::from_str(sent[0]["arguments"].as_str().unwrap()).unwrap();
        assert_eq!(sent, json!({"invalid_arguments": raw}));
    }
    let long = "x".repeat(65);
    for name in ["a.b c", "", "ä", &long] {
        let sent = &items(&openai(), &assistant([call("1", name, "{}")]))[0]["name"];
        assert!(matches!(sent.as_str().unwrap().len(), 1..=64), "{sent}");
    }
    assert_eq!(items(&openai(), &assistant([call("1", "mcp__x", "{}")]))[0]["name"], "mcp__x");
    for id in ["call_1", "toolu_01-a", "functions.read:0"] {
        assert_eq!(items(&openai(), &assistant([call(id, "read", "{}")]))[0]["call_id"], id);
    }
    let mut made = Vec::new();
    for id in ["", "a b", "ä", &long] {
        let call = items(&openai(), &assistant([call(id, "read", "{}")]));
        let results = Message::Results(vec![result(id, Vec::new(), false)]);
        let output = items(&openai(), &results);
        assert_eq!(call[0]["call_id"], output[0]["call_id"]);
        made.push(call[0]["call_id"].as_str().unwrap().to_owned());
    }
    assert!(made.iter().all(|id| matches!(id.len(), 1..=64)));
    made.sort();
    made.dedup();
    assert_eq!(made.len(), 4);
}

#[test]
fn results_are_texts_or_lists_of_parts() {
    let results = Message::Results(vec![
        result("1", vec![said("a"), said("b")], false),
        result("2", vec![said("no such file")], true),
        result("3", vec![said("Error: told already")], true),
        result("4", Vec::new(), false),
        result("5", vec![said("see"), Part::Image(image()), Part::Document(pdf())], true),
    ]);
    let output = |id: &str, output: Value| json!({"type": "function_call_output", "call_id": id, "output": output});
    let mut expected = vec![
        output("1", json!("a\nb")),
        output("2", json!("Error: no such file")),
        output("3", json!("Error: told already")),
        output("4", json!("")),
    ];
    let media = [
        json!({"type": "input_image", "image_url": "data:image/png;base64,AAAA", "detail": "auto"}),
        json!({"type": "input_file", "filename": "a.pdf",
            "file_data": "data:application/pdf;base64,JVBE"}),
    ];
    let text = |text: &str| json!({"type": "input_text", "text": text});
    let mut in_place = expected.clone();
    in_place.push(output("5", json!([text("Error:"), text("see"), media[0], media[1]])));
    assert_eq!(items(&openai(), &results), Value::from(in_place));

    let said = "Error: see\n[attachment 1: image/png, see the next user message]\n\
        [attachment 2: a.pdf, see the next user message]";
    expected.push(output("5", json!(said)));
    expected.push(json!({"type": "message", "role": "user", "content": [
        text("[attachment 1, from read (5)]"),
        media[0],
        text("[attachment 2, from read (5)]"),
        media[1],
    ]}));
    assert_eq!(items(&local(), &results), Value::from(expected));
}

#[test]
fn a_message_is_encoded_anew_for_another_provider_or_dialect() {
    let reply = assistant([reasoning("mine", &encrypted("rs")), text("so")]);
    let request = request([Message::user("a"), reply]);
    let other = ModelInfo { provider: "other".to_owned(), ..info() };
    let other = Codec::new(&other, Dialect::openai(), true);
    let shape = |codec: &Codec| {
        let input = &body(codec, &request)["input"];
        let last = input.as_array().unwrap().last().unwrap();
        (input.as_array().unwrap().len(), last.get("id").is_some())
    };
    for _ in 0..2 {
        assert_eq!(shape(&openai()), (3, false));
        assert_eq!(shape(&other), (2, false));
        assert_eq!(shape(&local()), (3, true));
    }
}

fn any_part() -> impl Strategy<Value = Part> {
    prop_oneof![
        ".{0,12}".prop_map(Part::Text),
        Just(Part::Image(image())),
        Just(Part::Document(image())),
    ]
}

fn any_assistant_part() -> impl Strategy<Value = AssistantPart> {
    let kept = prop_oneof![
        Just(encrypted("rs")),
        Just(json!({"type": "reasoning", "id": "rs"})),
        Just(json!({"type": "message", "id": "m", "content": [{"type": "refusal"}, 1]})),
        Just(json!({"type": "function_call", "id": "f"})),
        Just(json!({"type": "web_search_call", "id": "w"})),
        Just(json!([1])),
    ];
    prop_oneof![
        ".{0,12}".prop_map(AssistantPart::Text),
        (".{0,4}", ".{0,4}", ".{0,12}").prop_map(|(id, name, raw)| call(&id, &name, &raw)),
        kept.prop_flat_map(
            |item| prop_oneof![Just(reasoning("mine", &item)), Just(opaque(&item)),]
        ),
    ]
}

fn any_message() -> impl Strategy<Value = Message> {
    let parts = || prop::collection::vec(any_part(), 0..3);
    let results = prop::collection::vec((parts(), any::<bool>()), 0..3);
    prop_oneof![
        parts().prop_map(|parts| Message::User(UserMessage { content: parts }.into())),
        prop::collection::vec(any_assistant_part(), 0..6).prop_map(assistant),
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
        for codec in [openai(), local(), Codec::new(&info(), Dialect::of("https://api.x.ai/v1"), true)] {
            let mut before: Option<Vec<u8>> = None;
            let mut request = Request { system: system.as_str().into(), ..Request::default() };
            for message in &messages {
                request.messages.push_back_mut(MessageRef::from(message.clone()));
                let bytes = codec.body(&request);
                let read = body(&codec, &request);
                let input = read["input"].as_array().unwrap();
                prop_assert_eq!(&bytes, &codec.body(&request.clone()), "encoding is pure");
                // Reasoning is never the last of a reply, and every call has an id that fits.
                for pair in input.windows(2).filter(|pair| pair[0]["type"] == "reasoning") {
                    prop_assert!(pair[1]["role"] != "user");
                }
                for id in input.iter().filter_map(|item| item.get("call_id")) {
                    prop_assert!((1..=64).contains(&id.as_str().unwrap().len()));
                }
                if let Some(before) = before {
                    prop_assert!(bytes.starts_with(&before[..before.len() - 2]));
                }
                prop_assert!(bytes.ends_with(b"]}"), "the messages come last");
                before = Some(bytes);
            }
        }
    }
}
