//! How each wire asks for an answer that fits a schema, and when it does not.

use bowline_llm::wire::Codec;
use bowline_llm::{
    Effort, Message, ModelInfo, RawJson, Request, ToolBlock, ToolSpec, anthropic, chat, gemini,
    responses,
};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

/// A schema that can be kept to strictly; its keys are in no order, which must stay so.
const STRICT: &str = r#"{"type":"object","required":["n"],"properties":{"n":{"type":"integer"}},"additionalProperties":false}"#;

/// One that cannot.
const LOOSE: &str = r#"{"type":"object","properties":{"n":{"type":"integer"}}}"#;

/// One of something else than objects.
const LIST: &str = r#"{"type":"array","items":{"type":"string"}}"#;

fn request(schema: &str, has_tools: bool) -> Request {
    let tool = ToolSpec {
        name: "read".to_owned(),
        description: "d".to_owned(),
        schema: RawJson::parse(r#"{"type":"object"}"#).unwrap(),
    };
    Request {
        tools: ToolBlock::new(has_tools.then_some(tool).into_iter().collect()),
        messages: [Message::user("hi").into()].into_iter().collect(),
        output_schema: Some(RawJson::parse(schema).unwrap()),
        ..Request::default()
    }
}

fn info(model: &str) -> ModelInfo {
    ModelInfo { provider: "mine".to_owned(), model: model.to_owned(), ..ModelInfo::default() }
}

fn body(codec: &impl Codec, request: &Request) -> String {
    String::from_utf8(codec.body(request)).unwrap()
}

/// Returns what a body says of the shape: the field of this name.
fn field(codec: &impl Codec, request: &Request, name: &str) -> Value {
    serde_json::from_str::<Value>(&body(codec, request)).unwrap()[name].clone()
}

fn chat_at(provider: &str, base_url: &str, model: &str) -> chat::Codec {
    chat::Codec::new(&info(model), chat::Dialect::find(provider, base_url), true)
}

fn responses_at(base_url: &str, model: &str) -> responses::Codec {
    responses::Codec::new(&info(model), responses::Dialect::of(base_url), true)
}

fn claude(model: &str) -> anthropic::Codec {
    anthropic::Codec::new(&info(model), anthropic::Dialect::of(model), true)
}

#[test]
fn chat_completions_put_it_before_the_tools() {
    let codec = chat_at("", "https://api.openai.com/v1", "gpt-5.6");
    let format = format!(
        r#""response_format":{{"type":"json_schema","json_schema":{{"name":"answer","schema":{STRICT},"strict":true}}}}"#
    );
    let start =
        r#"{"model":"gpt-5.6","stream":true,"stream_options":{"include_usage":true},"#.to_owned();
    let end = r#","messages":[{"role":"user","content":"hi"}]}"#;
    assert_eq!(body(&codec, &request(STRICT, false)), format!("{start}{format}{end}"));
    let with_tools = body(&codec, &request(STRICT, true));
    assert!(with_tools.starts_with(&format!(r#"{start}{format},"tools":["#)), "{with_tools}");
    let format = field(&codec, &request(LOOSE, true), "response_format");
    assert_eq!(format["json_schema"]["strict"], false);
    assert_eq!(field(&codec, &request(LIST, false), "response_format"), Value::Null);
}

#[test]
fn chat_servers_are_asked_for_what_they_can() {
    let open = "https://api.openai.com/v1";
    // What is sent for a strict schema and a loose one, without tools and with them.
    let (schema, object, nothing) = ("json_schema", "json_object", "");
    for (provider, base_url, model, expected) in [
        ("", open, "gpt-5.6", [schema, schema, schema, schema]),
        ("", open, "gpt-4o", [schema, schema, schema, schema]),
        ("", open, "gpt-4-turbo", [nothing; 4]),
        ("", "https://api.x.ai/v1", "grok-4.3", [schema, nothing, schema, nothing]),
        ("", "https://api.x.ai/v1", "grok-3-mini", [nothing; 4]),
        ("", "https://api.deepseek.com", "deepseek-chat", [object, object, nothing, nothing]),
        ("", "https://api.mistral.ai/v1", "m", [schema, schema, nothing, nothing]),
        ("", "https://api.fireworks.ai/inference/v1", "m", [schema, schema, nothing, nothing]),
        ("", "https://api.groq.com/openai/v1", "m", [nothing; 4]),
        ("", "https://api.together.xyz/v1", "m", [nothing; 4]),
        ("", "https://openrouter.ai/api/v1", "openai/gpt-5.6", [nothing; 4]),
        ("ollama", "http://127.0.0.1:1/v1", "m", [schema, schema, nothing, nothing]),
        ("llamacpp", "http://127.0.0.1:1/v1", "m", [schema, schema, nothing, nothing]),
        ("lmstudio", "http://127.0.0.1:1/v1", "m", [schema, schema, nothing, nothing]),
        ("vllm", "http://127.0.0.1:1/v1", "m", [schema, schema, nothing, nothing]),
        ("mine", "http://127.0.0.1:1/v1", "m", [nothing; 4]),
    ] {
        let codec = chat_at(provider, base_url, model);
        let sent = [(STRICT, false), (LOOSE, false), (STRICT, true), (LOOSE, true)];
        let sent = sent.map(|(schema, has_tools)| {
            field(&codec, &request(schema, has_tools), "response_format")["type"].clone()
        });
        let sent = sent.each_ref().map(|kind| kind.as_str().unwrap_or_default());
        assert_eq!(sent, expected, "{provider} {base_url} {model}");
        // A list is nothing that all of them could be asked for.
        let list = field(&codec, &request(LIST, false), "response_format");
        assert_eq!(list, Value::Null, "{provider} {base_url} {model}");
    }
}

#[test]
fn responses_put_it_into_the_text() {
    let codec = responses_at("https://api.openai.com/v1", "gpt-4o");
    let format = format!(
        r#","text":{{"format":{{"type":"json_schema","name":"answer","schema":{STRICT},"strict":true}}}}"#
    );
    let expected = [
        r#"{"model":"gpt-4o","stream":true,"store":false"#,
        &format,
        r#","input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"hi"}]}]}"#,
    ];
    assert_eq!(body(&codec, &request(STRICT, false)), expected.concat());
    let asked = |codec: &responses::Codec, schema| {
        field(codec, &request(schema, true), "text")["format"]["strict"].clone()
    };
    assert_eq!(asked(&codec, STRICT), true);
    assert_eq!(asked(&codec, LOOSE), false);
    let grok = responses_at("https://api.x.ai/v1", "grok-4.3");
    assert_eq!([asked(&grok, STRICT), asked(&grok, LOOSE)], [json!(true), Value::Null]);
    for (base_url, model) in
        [("http://localhost:8080/v1", "m"), ("https://api.openai.com/v1", "gpt-3.5-turbo")]
    {
        assert_eq!(asked(&responses_at(base_url, model), STRICT), Value::Null, "{model}");
    }
}

#[test]
fn anthropic_puts_it_beside_the_effort() {
    let format = format!(r#""format":{{"type":"json_schema","schema":{STRICT}}}"#);
    let mut asked = request(STRICT, true);
    let sent = body(&claude("claude-opus-4-7"), &asked);
    let start = r#"{"model":"claude-opus-4-7","max_tokens":32000,"stream":true,"#;
    let expected = format!(r#"{start}"output_config":{{{format}}},"tools":["#);
    assert!(sent.starts_with(&expected), "{sent}");
    asked.effort = Some(Effort::High);
    let sent = body(&claude("claude-opus-4-7"), &asked);
    let config = format!(r#","output_config":{{"effort":"high",{format}}},"tools":["#);
    assert!(sent.contains(&config), "{sent}");
    for (model, schema, is_asked) in [
        ("claude-haiku-4-5-20251001", STRICT, true),
        ("claude-opus-4-1", STRICT, false),
        ("qwen3:8b", STRICT, false),
        ("claude-opus-4-7", LOOSE, false),
        ("claude-opus-4-7", LIST, false),
    ] {
        let config = field(&claude(model), &request(schema, false), "output_config");
        assert_eq!(config["format"].is_object(), is_asked, "{model} {schema}");
    }
}

#[test]
fn gemini_puts_it_into_its_generation_config() {
    let codec = gemini::Codec::new(&info("gemini-3.1-pro-preview"), gemini::Dialect::of(""), true);
    let sent = body(&codec, &request(STRICT, true));
    let config = format!(
        r#""generationConfig":{{"responseMimeType":"application/json","responseJsonSchema":{STRICT},"thinkingConfig":{{"includeThoughts":true}}}}"#
    );
    assert!(sent.contains(&config), "{sent}");
    for (model, schema, has_tools, is_asked) in [
        ("gemini-3.1-pro-preview", LIST, true, true),
        ("gemini-2.5-flash", LOOSE, false, true),
        // It refuses to be asked for both.
        ("gemini-2.5-flash", LOOSE, true, false),
        ("gemma-3-27b-it", STRICT, false, false),
        ("mine", STRICT, false, false),
    ] {
        let codec = gemini::Codec::new(&info(model), gemini::Dialect::of(""), true);
        let config = field(&codec, &request(schema, has_tools), "generationConfig");
        assert_eq!(config["responseMimeType"].is_string(), is_asked, "{model} {has_tools}");
        assert_eq!(config["responseJsonSchema"].is_object(), is_asked, "{model} {has_tools}");
    }
}

#[test]
fn the_next_request_begins_with_the_same_bytes() {
    let mut asked = request(STRICT, true);
    let codec = chat_at("", "https://api.openai.com/v1", "gpt-5.6");
    let first = body(&codec, &asked);
    asked.messages.push_back_mut(Message::assistant("{}").into());
    asked.messages.push_back_mut(Message::user("no").into());
    let start = first.strip_suffix("]}").unwrap();
    assert!(body(&codec, &asked).starts_with(start));
}
