//! Gemini's generateContent.

use bowline_llm::gemini::{Client, Codec, Config, Dialect};
use bowline_llm::http::Transport;
use bowline_llm::wire::{Codec as _, Decode as _};
use bowline_llm::{
    AssistantPart, Effort, Media, Message, ModelInfo, Opaque, Part, RawJson, Reasoning, Request,
    ToolBlock, ToolCall, ToolSpec, UserMessage,
};
use pretty_assertions::assert_eq;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{any_message, assistant, call, image, request, result};
use crate::exchange::outcome;
use crate::loopback::{Answer, Server};
use crate::recorded::{self, gemini::Gemini};

/// A model that needs no signature, and one that does.
const OLD: &str = "gemini-2.5-flash";
const NEW: &str = "gemini-3.1-pro-preview";

/// What stands for the signature of a call that another model made.
const FOREIGN: &str = "skip_thought_signature_validator";

fn info(model: &str) -> ModelInfo {
    ModelInfo { provider: "mine".to_owned(), model: model.to_owned(), ..ModelInfo::default() }
}

fn codec(model: &str) -> Codec {
    Codec::new(&info(model), Dialect::of(""), true)
}

fn body(codec: &Codec, request: &Request) -> Value {
    serde_json::from_slice(&codec.body(request)).unwrap()
}

/// Encodes a message and reads the parts it became.
fn parts(model: &str, message: &Message) -> Value {
    let bytes = codec(model).encode(message);
    serde_json::from_str(&format!("[{}]", std::str::from_utf8(&bytes).unwrap())).unwrap()
}

fn opaque(provider: &str, item: &str) -> Opaque {
    Opaque { provider: provider.to_owned(), item: RawJson::parse(item).unwrap() }
}

fn item(item: &str) -> AssistantPart {
    AssistantPart::Opaque(opaque("mine", item))
}

fn thought(provider: &str, text: &str, item: &str) -> AssistantPart {
    let payload = Some(opaque(provider, item));
    AssistantPart::Reasoning(Reasoning { text: text.to_owned(), payload })
}

fn text(text: &str) -> AssistantPart {
    AssistantPart::Text(text.to_owned())
}

fn user(parts: Vec<Part>) -> Message {
    Message::User(UserMessage { content: parts }.into())
}

fn media(media_type: &str, name: Option<&str>) -> Media {
    let name = name.map(str::to_owned);
    Media { media_type: media_type.to_owned(), data: "AAAA".into(), name }
}

#[test]
fn the_body_is_laid_out_in_a_fixed_order() {
    let schema = RawJson::parse(r##"{"type":"object","$ref":"#/$defs/b","a":2}"##).unwrap();
    let spec = |name: &str| ToolSpec {
        name: name.to_owned(),
        description: "d".to_owned(),
        schema: schema.clone(),
    };
    let run = r#"{"executableCode":{"language":"PYTHON", "code":"1"}}"#;
    let request = Request {
        system: "be \"brief\"".into(),
        tools: ToolBlock::new(vec![spec("z"), spec("a")]),
        effort: Some(Effort::High),
        max_output_tokens: Some(9),
        cache_key: Some("k".into()),
        ..request([
            Message::user("hi"),
            assistant(vec![
                thought("mine", "hm", r#"{"thoughtSignature":"s+/\u003d","text":[0,2]}"#),
                item(r#"{"thoughtSignature":"t","text":[2,2]}"#),
                text("so"),
                item(run),
                item(r#"{"thoughtSignature":"c"}"#),
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
    let tool = |name: &str| {
        format!(
            r##"{{"name":"{name}","description":"d","parametersJsonSchema":{{"type":"object","$ref":"#/$defs/b","a":2}}}}"##
        )
    };
    let expected = [
        r#"{"systemInstruction":{"parts":[{"text":"be \"brief\""}]},"#,
        &format!(r#""tools":[{{"functionDeclarations":[{},{}]}}],"#, tool("z"), tool("a")),
        r#""generationConfig":{"maxOutputTokens":9,"#,
        r#""thinkingConfig":{"includeThoughts":true,"thinkingLevel":"HIGH"}},"#,
        r#""contents":[{"role":"user","parts":[{"text":"hi"}]},"#,
        r#"{"role":"model","parts":["#,
        r#"{"text":"hm","thought":true,"thoughtSignature":"s+/\u003d"},"#,
        r#"{"text":"so"},{"text":"","thoughtSignature":"t"},"#,
        run,
        r#",{"functionCall":{"id":"1","name":"read","args":{ "a": 1.0}},"thoughtSignature":"c"},"#,
        r#"{"functionCall":{"id":"2","name":"read","args":{}}}]},"#,
        r#"{"role":"user","parts":["#,
        r#"{"functionResponse":{"id":"1","name":"read","response":{"output":"a"},"#,
        r#""parts":[{"inlineData":{"mimeType":"image/png","data":"AAAA"}}]}},"#,
        r#"{"functionResponse":{"id":"2","name":"read","response":{"error":"no such file"}}},"#,
        r#"{"text":"go on"}]}]}"#,
    ];
    let sent = String::from_utf8(codec(NEW).body(&request)).unwrap();
    assert_eq!(sent, expected.concat());
}

#[test]
fn nothing_is_said_where_there_is_nothing_to_say() {
    let hi = request([Message::user("hi")]);
    let sent = String::from_utf8(codec("gemini-2.0-flash").body(&hi)).unwrap();
    assert_eq!(sent, r#"{"contents":[{"role":"user","parts":[{"text":"hi"}]}]}"#);
    let info = ModelInfo { max_output_tokens: Some(77), ..info(OLD) };
    let config = body(&Codec::new(&info, Dialect::of(""), false), &hi)["generationConfig"].take();
    let shown = json!({"includeThoughts": true});
    assert_eq!(config, json!({"maxOutputTokens": 77, "thinkingConfig": shown}));
}

#[test]
fn users_send_text_images_and_documents() {
    let sent = parts(
        OLD,
        &user(vec![
            Part::Text("look".to_owned()),
            Part::Text(String::new()),
            Part::Image(image()),
            Part::Document(media("application/pdf", Some("a.pdf"))),
            Part::Document(media("text/x-rust", None)),
            Part::Document(media("application/json", None)),
            Part::Image(media("image/tiff", Some("a.tiff"))),
        ]),
    );
    let data = |mime_type: &str| json!({"inlineData": {"mimeType": mime_type, "data": "AAAA"}});
    let expected = json!([
        {"text": "look"},
        data("image/png"),
        data("application/pdf"),
        data("text/plain"),
        data("text/plain"),
        {"text": "[a file \"a.tiff\" of type image/tiff cannot be shown]"},
    ]);
    assert_eq!(sent, expected);
    for empty in [Vec::new(), vec![Part::Text(String::new())]] {
        assert_eq!(parts(OLD, &user(empty)), json!([{"text": " "}]));
    }
}

#[test]
fn messages_of_one_speaker_in_a_row_are_one_content() {
    let foreign = AssistantPart::Opaque(opaque("other", r#"{"type":"x"}"#));
    let request = request([
        Message::user("a"),
        Message::user("b"),
        assistant(vec![foreign]),
        Message::user("c"),
        Message::assistant("d"),
        Message::assistant("e"),
    ]);
    let expected = json!([
        {"role": "user", "parts": [{"text": "a"}, {"text": "b"}, {"text": "c"}]},
        {"role": "model", "parts": [{"text": "d"}, {"text": "e"}]},
    ]);
    assert_eq!(body(&codec(OLD), &request)["contents"], expected);
}

#[test]
fn arguments_that_are_no_object_are_wrapped_into_one() {
    for raw in ["{\"a\":", "[1]", "null", "rm -rf"] {
        let sent = parts(OLD, &assistant(vec![call("1", raw)]));
        assert_eq!(sent[0]["functionCall"]["args"], json!({"invalid_arguments": raw}));
    }
}

#[test]
fn vertex_gets_the_ids_that_its_models_gave_and_no_others() {
    let history = |id: &str| {
        let result = result(id, vec![Part::Text("ok".to_owned())], false);
        [assistant(vec![call(id, "{}")]), Message::Results(vec![result])]
    };
    let ids = |base_url: &str, id: &str| {
        let codec = Codec::new(&info(OLD), Dialect::of(base_url), true);
        let [call, results] = history(id).map(|message| {
            let bytes = codec.encode(&message);
            serde_json::from_slice::<Value>(&bytes).unwrap()
        });
        let call = call["functionCall"]["id"].clone();
        assert_eq!(call, results["functionResponse"]["id"], "they stay a pair");
        call
    };
    for base_url in [
        "https://us-central1-aiplatform.googleapis.com/v1/projects/p/locations/l/publishers/google",
        "http://gateway.example/v1/publishers/google",
    ] {
        assert_eq!(ids(base_url, "ZX9IviSb"), "ZX9IviSb");
        for id in ["call_0123456789abcdef", "toolu_01", "aB3xK9mP2", "call-123"] {
            assert_eq!(ids(base_url, id), Value::Null, "{id}");
        }
    }
    assert_eq!(ids("https://generativelanguage.googleapis.com", "toolu_01"), "toolu_01");
}

#[test]
fn a_view_without_its_beginning_begins_with_the_user() {
    let mut request = request([assistant(vec![text("a")]), Message::user("b")]);
    let omitted = json!({"text": "[The beginning is left out.]"});
    let contents = |request: &Request| body(&codec(OLD), request)["contents"].take();
    let model = json!({"role": "model", "parts": [{"text": "a"}]});
    let user = json!({"role": "user", "parts": [{"text": "b"}]});
    let begun = json!({"role": "user", "parts": [omitted]});
    assert_eq!(contents(&request), json!([begun, model, user]));
    request.messages =
        [assistant(Vec::new()), Message::user("b")].map(Into::into).into_iter().collect();
    let joined = json!({"role": "user", "parts": [omitted, {"text": "b"}]});
    assert_eq!(contents(&request), json!([joined]));
}

#[test]
fn names_and_ids_are_such_as_the_server_takes() {
    let named = |id: &str, name: &str| {
        let (id, name) = (id.into(), name.to_owned());
        let call = AssistantPart::ToolCall(ToolCall { id, name, arguments: String::new() });
        parts(OLD, &assistant(vec![call]))[0]["functionCall"].take()
    };
    for name in ["read", "default_api:read.file-2", "_x"] {
        assert_eq!(named("i|1/ü", name), json!({"id": "i|1/ü", "name": name, "args": {}}));
    }
    let long = "x".repeat(65);
    for name in ["", "2x", "read file", "läs", &long] {
        let sent = named("", name);
        let sent = sent.as_object().unwrap();
        assert!(!sent.contains_key("id"));
        let sent = sent["name"].as_str().unwrap();
        assert!(sent.starts_with('_') && sent.is_ascii() && sent.len() <= 64, "{sent}");
        assert!(!sent.contains(' '));
    }
}

#[test]
fn reasoning_and_signatures_go_back_only_where_they_came_from() {
    let message = |provider: &str| {
        let marked = |item: &str| AssistantPart::Opaque(opaque(provider, item));
        assistant(vec![
            thought(provider, "hm", r#"{"thoughtSignature":"r","text":[0,2]}"#),
            AssistantPart::Reasoning(Reasoning { text: "unsigned".to_owned(), payload: None }),
            marked(r#"{"thoughtSignature":"t","text":[0,1]}"#),
            text("so"),
            marked(r#"{"codeExecutionResult":{"outcome":"OUTCOME_OK"}}"#),
            marked(r#"{"thoughtSignature":"c"}"#),
            call("1", "{}"),
        ])
    };
    let expected = json!([
        {"text": "hm", "thought": true, "thoughtSignature": "r"},
        {"text": "s", "thoughtSignature": "t"},
        {"text": "o"},
        {"codeExecutionResult": {"outcome": "OUTCOME_OK"}},
        {"functionCall": {"id": "1", "name": "read", "args": {}}, "thoughtSignature": "c"},
    ]);
    assert_eq!(parts(NEW, &message("mine")), expected);
    let bare = json!([{"text": "so"}, {"functionCall": {"id": "1", "name": "read", "args": {}}}]);
    assert_eq!(parts(OLD, &message("other")), bare);
    let of_another_wire = assistant(vec![
        thought("mine", "hm", r#"{"type":"thinking","signature":"s"}"#),
        thought("mine", "hm", r#"[{"type":"reasoning.text"}]"#),
        item(r#"{"type":"server_tool_use"}"#),
        item("[1]"),
        text("so"),
    ]);
    assert_eq!(parts(NEW, &of_another_wire), json!([{"text": "so"}]));
}

#[test]
fn the_first_call_of_another_model_gets_the_signature_that_stands_for_none() {
    let signatures = |model: &str, content: Vec<AssistantPart>| {
        let sent = parts(model, &assistant(content));
        let calls = sent.as_array().unwrap().iter().filter(|part| part.get("text").is_none());
        calls.map(|part| part.get("thoughtSignature").cloned()).collect::<Vec<_>>()
    };
    let two = || vec![text("so"), call("1", "{}"), call("2", "{}")];
    assert_eq!(signatures(NEW, two()), [Some(FOREIGN.into()), None]);
    assert_eq!(signatures(OLD, two()), [None, None]);
    let own = vec![item(r#"{"thoughtSignature":"c"}"#), call("1", "{}"), call("2", "{}")];
    assert_eq!(signatures(NEW, own), [Some("c".into()), None]);
}

#[test]
fn a_signature_whose_bearer_is_gone_stands_alone() {
    let lost = assistant(vec![
        item(r#"{"thoughtSignature":"c"}"#),
        item(r#"{"thoughtSignature":"t","text":[0,1]}"#),
        call("1", "{}"),
        item(r#"{"thoughtSignature":"e","text":[0,0]}"#),
    ]);
    let expected = json!([
        {"text": "", "thoughtSignature": "c"},
        {"text": "", "thoughtSignature": "t"},
        {"functionCall": {"id": "1", "name": "read", "args": {}}},
        {"text": "", "thoughtSignature": "e"},
    ]);
    assert_eq!(parts(OLD, &lost), expected);
}

#[test]
fn a_message_is_encoded_anew_for_another_model() {
    let request = request([Message::user("a"), assistant(vec![call("1", "{}")])]);
    let has_foreign =
        |model: &str| String::from_utf8(codec(model).body(&request)).unwrap().contains(FOREIGN);
    assert!(!has_foreign(OLD));
    assert!(has_foreign(NEW));
    assert!(!has_foreign(OLD));
}

#[test]
fn media_of_results_follow_the_last_one_where_results_cannot_hold_them() {
    let gif = media("image/gif", None);
    let results = Message::Results(vec![
        result("1", vec![Part::Text("a".to_owned()), Part::Image(image())], false),
        result("2", vec![Part::Image(gif)], false),
        result("3", Vec::new(), false),
    ]);
    let blob = json!({"inlineData": {"mimeType": "image/png", "data": "AAAA"}});
    let response = |id: &str, text: &str| json!({"functionResponse": {"id": id, "name": "read", "response": {"output": text}}});
    let unshown = "[a file of type image/gif cannot be shown]";
    let old = json!([
        response("1", "a\n[attachment 1: image/png, see below]"),
        response("2", unshown),
        response("3", ""),
        {"text": "[attachment 1, from read (1)]"},
        blob,
    ]);
    assert_eq!(parts(OLD, &results), old);
    let mut first = response("1", "a");
    first["functionResponse"]["parts"] = json!([blob]);
    assert_eq!(parts(NEW, &results), json!([first, response("2", unshown), response("3", "")]));
    let heic = media("image/heic", Some("a.heic"));
    let heic = parts(NEW, &Message::Results(vec![result("1", vec![Part::Image(heic)], false)]));
    assert_eq!(heic[0], response("1", "[attachment 1: a.heic, see below]"));
    assert_eq!(heic[2]["inlineData"]["mimeType"], "image/heic");
}

#[test]
fn recorded_requests_are_written_again_as_they_were() {
    let mut seen = 0;
    for case in recorded::cases::<Gemini>().iter().filter(|case| !case.is_error()) {
        let recorded = &case.request;
        let mut request = request(recorded["contents"].as_array().unwrap().iter().map(read));
        if let Some(system) = recorded["systemInstruction"]["parts"][0]["text"].as_str() {
            request.system = system.into();
        }
        request.tools = read_tools(recorded);
        request.max_output_tokens = recorded["generationConfig"]["maxOutputTokens"].as_u64();
        let sent = body(&codec("gemini-2.0-flash"), &request);
        for field in ["contents", "systemInstruction", "tools"] {
            let was = normal(recorded.get(field).unwrap_or(&Value::Null));
            // Code is run where the provider is asked to; bowline does not ask.
            if was != json!([{"codeExecution": {}}]) {
                assert_eq!(sent.get(field).unwrap_or(&Value::Null), &was, "{}: {field}", case.name);
                seen += 1;
            }
        }
    }
    assert_eq!(seen, 20);
}

fn read(content: &Value) -> Message {
    let parts = content["parts"].as_array().unwrap();
    if content["role"] == "user" {
        let response = &parts[0]["functionResponse"];
        if response.is_null() {
            return Message::user(parts[0]["text"].as_str().unwrap());
        }
        let said = response["response"]["return_value"].as_str().unwrap();
        let mut result =
            result(response["id"].as_str().unwrap(), vec![Part::Text(said.to_owned())], false);
        result.name = response["name"].as_str().unwrap().to_owned();
        return Message::Results(vec![result]);
    }
    let chunk = json!({"candidates": [{"content": content, "finishReason": "STOP"}]}).to_string();
    let reply = codec(OLD).decoder(1).document(chunk.as_bytes()).unwrap();
    Message::Assistant(reply.message.into())
}

fn read_tools(body: &Value) -> ToolBlock {
    let tools = body["tools"][0]["functionDeclarations"].as_array().into_iter().flatten();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    ToolBlock::new(
        tools
            .map(|tool| ToolSpec {
                name: text(&tool["name"]),
                description: text(&tool["description"]),
                schema: RawJson::of(schema(tool)).unwrap(),
            })
            .collect(),
    )
}

fn schema(tool: &Value) -> &Value {
    tool.get("parameters").or(tool.get("parameters_json_schema")).unwrap()
}

/// Drops what the recording clients send without need, and takes our names where several are right.
fn normal(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(normal).collect(),
        Value::Object(fields) => {
            if fields.contains_key("parameters") || fields.contains_key("parameters_json_schema") {
                return json!({
                    "name": value["name"],
                    "description": value["description"],
                    "parametersJsonSchema": schema(value),
                });
            }
            let is_system = fields.contains_key("role") && fields["parts"][0].get("text").is_some();
            let kept = fields.iter().filter(|(key, value)| {
                let is_default = *key == "thought" && **value == json!(false);
                !value.is_null() && !is_default
            });
            let mut fields: serde_json::Map<_, _> =
                kept.map(|(key, value)| (key.clone(), normal(value))).collect();
            if let Some(said) = fields.remove("return_value") {
                fields.insert("output".to_owned(), said);
            }
            // The system text is nobody's turn.
            if is_system && fields["role"] == "model" {
                fields.remove("role");
            }
            Value::Object(fields)
        }
        other => other.clone(),
    }
}

#[tokio::test]
async fn models_are_found_below_the_address_with_the_key_in_a_header() {
    let hello =
        r#"{"candidates":[{"content":{"parts":[{"text":"Hello"}]},"finishReason":"STOP"}]}"#;
    let server = Server::start(vec![
        Answer::sse(&format!("data: {hello}\r\n\r\n")),
        Answer::json(hello),
        Answer::json(&format!("[{hello}]")),
    ])
    .await;
    let models = ["google/gemini-3:free", "models/gemini-2.5-pro", OLD];
    for (model, stream) in models.into_iter().zip([true, false, true]) {
        let base_url = server.url().replace("/v1", "/v1beta");
        let config = Config {
            info: info(model),
            api_key: Some("g-secret".into()),
            stream,
            ..Config::new(base_url)
        };
        let client = Client::new(config, &Transport::default()).unwrap();
        assert!(!format!("{client:?}").contains("g-secret"));
        assert_eq!(outcome(&client).await.unwrap().message.to_text(), "Hello");
    }
    let heads: Vec<_> = server.requests().into_iter().map(|request| request.head).collect();
    let paths = [
        "post /v1beta/models/google/gemini-3:free:streamgeneratecontent?alt=sse http/1.1",
        "post /v1beta/models/gemini-2.5-pro:generatecontent http/1.1",
        "post /v1beta/models/gemini-2.5-flash:streamgeneratecontent?alt=sse http/1.1",
    ];
    for (head, path) in heads.iter().zip(paths) {
        assert_eq!(head.lines().next(), Some(path));
        assert!(head.contains("x-goog-api-key: g-secret"), "{head}");
    }
}

#[tokio::test]
async fn an_error_says_in_its_body_how_long_to_wait() {
    let body = json!([{"error": {
        "code": 429, "message": "Please retry in 7.5s.", "status": "RESOURCE_EXHAUSTED",
        "details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "7.5s"}],
    }}]);
    let answer = Answer::json(&body.to_string()).status(429);
    let waits = |header: Option<&'static str>| {
        let answer = match header {
            Some(seconds) => answer.clone().header("retry-after", seconds),
            None => answer.clone(),
        };
        async move {
            let server = Server::start(vec![answer]).await;
            let config = Config { info: info(OLD), ..Config::new(server.url()) };
            let client = Client::new(config, &Transport::default()).unwrap();
            outcome(&client).await.unwrap_err().retry_after.unwrap().as_secs_f64()
        }
    };
    assert_eq!(waits(None).await, 7.5);
    assert_eq!(waits(Some("3")).await, 7.5);
    assert_eq!(waits(Some("9")).await, 9.0);
}

fn any_wire_part() -> impl Strategy<Value = Value> {
    let signature = prop::option::of("[a-zA-Z0-9+/]{1,6}");
    let bare = prop_oneof![
        ("[a-zäß ]{0,4}", any::<bool>()).prop_map(|(text, thought)| {
            if thought { json!({"text": text, "thought": true}) } else { json!({"text": text}) }
        }),
        "[a-z]{1,4}".prop_map(|id| json!({"functionCall": {"id": id, "name": "f", "args": {}}})),
        "[a-z]{0,4}".prop_map(|code| json!({"executableCode": {"code": code}})),
    ];
    (bare, signature).prop_map(|(mut part, signature)| {
        if let Some(signature) = signature {
            part["thoughtSignature"] = signature.into();
        }
        part
    })
}

/// Joins texts without signatures, and drops what says nothing.
fn joined(parts: &[Value]) -> Vec<Value> {
    let is_bare =
        |part: &Value| part.get("text").is_some() && part.get("thoughtSignature").is_none();
    let mut joined: Vec<Value> = Vec::new();
    for part in parts.iter().filter(|part| !is_bare(part) || part["text"] != "") {
        match joined.last_mut() {
            Some(last)
                if is_bare(last) && is_bare(part) && last.get("thought") == part.get("thought") =>
            {
                let text =
                    format!("{}{}", last["text"].as_str().unwrap(), part["text"].as_str().unwrap());
                last["text"] = text.into();
            }
            _ => joined.push(part.clone()),
        }
    }
    joined
}

proptest! {
    #[test]
    fn what_was_decoded_is_encoded_again(
        chunks in prop::collection::vec(prop::collection::vec(any_wire_part(), 0..4), 0..4),
    ) {
        let mut decoder = codec(OLD).decoder(1);
        for parts in &chunks {
            let data = json!({"candidates": [{"content": {"parts": parts}}]}).to_string();
            let event = bowline_llm::sse::Event { name: "", data: &data };
            decoder.push(&event, &mut |_| {}).unwrap();
        }
        let last = r#"{"candidates":[{"finishReason":"STOP"}]}"#;
        decoder.push(&bowline_llm::sse::Event { name: "", data: last }, &mut |_| {}).unwrap();
        let message = Message::Assistant(decoder.finish().unwrap().message.into());
        let Value::Array(sent) = parts(OLD, &message) else { panic!("no parts") };
        // A run of thoughts goes back only as far as it belongs to a signature.
        let without = |parts: Vec<Value>| {
            let is_unsigned = |part: &Value| {
                part.get("thought").is_some() && part.get("thoughtSignature").is_none()
            };
            parts.into_iter().filter(|part| !is_unsigned(part)).collect::<Vec<_>>()
        };
        let expected = without(joined(&chunks.concat()));
        prop_assert_eq!(joined(&without(sent)), joined(&expected));
    }

    #[test]
    fn every_history_is_one_the_server_accepts(
        messages in prop::collection::vec(any_message(), 0..8),
    ) {
        for model in [OLD, NEW] {
            let mut before: Option<String> = None;
            let mut request = Request::default();
            for message in &messages {
                request.messages.push_back_mut(message.clone().into());
                let sent = String::from_utf8(codec(model).body(&request)).unwrap();
                prop_assert_eq!(sent.as_bytes(), codec(model).body(&request.clone()));
                let read: Value = serde_json::from_str(&sent).unwrap();
                prop_assert_eq!(&read["contents"][0]["role"], "user");
                let mut role = Value::Null;
                for content in read["contents"].as_array().unwrap() {
                    prop_assert_ne!(&content["role"], &role, "speakers take turns");
                    role = content["role"].clone();
                    let parts = content["parts"].as_array().unwrap();
                    prop_assert!(!parts.is_empty());
                    for part in parts {
                        let is_signed = part.get("thoughtSignature").is_some();
                        prop_assert!(is_signed || part["text"] != "");
                    }
                }
                if let Some(before) = before {
                    let before = before.trim_end_matches(|c| "]}".contains(c));
                    prop_assert!(sent.starts_with(before));
                }
                before = Some(sent);
            }
        }
    }
}
