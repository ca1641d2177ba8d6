//! What each server of this wire gets, as its row says.

use bowline_llm::chat::{Codec, Dialect};
use bowline_llm::wire::Codec as _;
use bowline_llm::{
    AssistantMessage, AssistantPart, Effort, Media, Message, ModelInfo, Part, Reasoning, Request,
    ToolCall, ToolResult, UserMessage,
};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

/// Returns a request with an effort, a cache key, and a history of one call with reasoning and one
/// without.
fn request() -> Request {
    let call = |id: &str, reasoning: Option<&str>| {
        let reasoning = reasoning.map(|text| {
            AssistantPart::Reasoning(Reasoning { text: text.to_owned(), payload: None })
        });
        let call = ToolCall { id: id.into(), name: "f".to_owned(), arguments: "{}".to_owned() };
        let content = reasoning.into_iter().chain([AssistantPart::ToolCall(call)]).collect();
        Message::Assistant(AssistantMessage { content }.into())
    };
    let result = |id: &str| {
        let content = [Part::Text("ok".to_owned())].into();
        let call = id.into();
        Message::Results(vec![ToolResult { call, name: "f".to_owned(), content, is_error: false }])
    };
    let long = "toolu_01234567890123456789012345678901234567890";
    let messages = [
        Message::User(UserMessage::text("hi").into()),
        call("toolu_1", Some("because")),
        result("toolu_1"),
        call(long, None),
        result(long),
    ];
    Request {
        messages: messages.into_iter().map(Into::into).collect(),
        effort: Some(Effort::Xhigh),
        max_output_tokens: Some(9),
        cache_key: Some("key".into()),
        ..Request::default()
    }
}

fn body(provider: &str, base_url: &str, model: &str) -> Value {
    body_of(&request(), provider, base_url, model)
}

fn body_of(request: &Request, provider: &str, base_url: &str, model: &str) -> Value {
    let info = ModelInfo {
        provider: provider.to_owned(),
        model: model.to_owned(),
        ..ModelInfo::default()
    };
    let codec = Codec::new(&info, Dialect::find(provider, base_url), true);
    serde_json::from_slice(&codec.body(request)).unwrap()
}

/// Returns what a body holds besides its messages.
fn fields(body: &Value) -> Value {
    let mut body = body.clone();
    let fields = body.as_object_mut().unwrap();
    for same in ["model", "stream", "messages"] {
        fields.remove(same).unwrap();
    }
    body
}

#[test]
fn each_server_gets_the_fields_it_knows() {
    let options = json!({ "include_usage": true });
    for (provider, base_url, expected) in [
        (
            "openai",
            "https://api.openai.com/v1",
            json!({ "stream_options": options, "max_completion_tokens": 9,
                "reasoning_effort": "xhigh", "prompt_cache_key": "key" }),
        ),
        (
            "mistral",
            "https://api.mistral.ai/v1",
            json!({ "max_tokens": 9, "reasoning_effort": "high", "prompt_cache_key": "key" }),
        ),
        (
            "groq",
            "https://api.groq.com/openai/v1",
            json!({ "stream_options": options, "max_tokens": 9, "reasoning_effort": "high" }),
        ),
        (
            "deepseek",
            "https://api.deepseek.com/v1",
            json!({ "stream_options": options, "max_tokens": 9, "reasoning_effort": "xhigh" }),
        ),
        (
            "vllm",
            "http://127.0.0.1:8000/v1",
            json!({ "stream_options": options, "max_tokens": 9, "reasoning_effort": "high" }),
        ),
    ] {
        assert_eq!(fields(&body(provider, base_url, "m")), expected, "{provider}");
    }
}

#[test]
fn claude_is_told_to_keep_what_it_was_sent_behind_a_gateway_that_can() {
    let marked = |base_url, model| body("x", base_url, model)["cache_control"].clone();
    let ephemeral = json!({ "type": "ephemeral" });
    let openrouter = "https://openrouter.ai/api/v1";
    assert_eq!(marked(openrouter, "anthropic/claude-sonnet-5.5"), ephemeral);
    assert_eq!(marked(openrouter, "x/y:free"), Value::Null);
    assert_eq!(marked("http://localhost/v1", "anthropic/claude-sonnet-5.5"), Value::Null);
}

#[test]
fn reasoning_goes_back_to_those_that_want_it() {
    for (provider, base_url, expected) in [
        ("deepseek", "https://api.deepseek.com/v1", [json!("because"), json!("")]),
        ("xai", "https://api.x.ai/v1", [json!("because"), Value::Null]),
        ("llamacpp", "http://127.0.0.1:8080/v1", [json!("because"), Value::Null]),
        ("groq", "https://api.groq.com/openai/v1", [Value::Null, Value::Null]),
        ("mistral", "https://api.mistral.ai/v1", [Value::Null, Value::Null]),
        ("mine", "http://127.0.0.1:8080/v1", [Value::Null, Value::Null]),
    ] {
        let body = body(provider, base_url, "m");
        let messages = &body["messages"];
        let got = [&messages[1], &messages[3]].map(|message| message["reasoning_content"].clone());
        assert_eq!(got, expected, "{provider}");
    }
}

#[test]
fn ids_of_calls_are_what_the_server_takes_and_still_name_their_results() {
    type Taken = fn(&str) -> bool;
    let nine: Taken = |id| id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let short: Taken = |id| id.len() <= 40;
    let checks: [(&str, &str, Taken); 4] = [
        ("https://api.mistral.ai/v1", "mistral-large-latest", nine),
        ("https://openrouter.ai/api/v1", "mistralai/devstral-2512", nine),
        ("https://openrouter.ai/api/v1", "openai/gpt-5.6", short),
        ("https://api.openai.com/v1", "gpt-4.1", short),
    ];
    for (base_url, model, is_taken) in checks {
        let body = body("x", base_url, model);
        let messages = &body["messages"];
        let mut ids = Vec::new();
        for (call, result) in [(1, 2), (3, 4)] {
            let id = messages[call]["tool_calls"][0]["id"].as_str().unwrap();
            assert!(is_taken(id), "{model}: {id}");
            assert_eq!(messages[result]["tool_call_id"], id);
            ids.push(id.to_owned());
        }
        assert_ne!(ids[0], ids[1]);
    }
}

const MISTRAL: &str = "https://api.mistral.ai/v1";
const OPENROUTER: &str = "https://openrouter.ai/api/v1";

/// Returns a part of a type; the data are the words `Hi`.
fn media(make: fn(Media) -> Part, media_type: &str, name: &str) -> Part {
    let (media_type, name) = (media_type.to_owned(), Some(name.to_owned()));
    make(Media { media_type, data: "SGk=".into(), name })
}

#[test]
fn mistral_answers_results_before_a_user_speaks() {
    let mut request = request();
    let image = media(Part::Image, "image/png", "a.png");
    let result = ToolResult {
        call: "toolu_1".into(),
        name: "f".to_owned(),
        content: [image].into(),
        is_error: false,
    };
    let thought = Reasoning { text: "hm".to_owned(), payload: None };
    let thought = AssistantMessage { content: vec![AssistantPart::Reasoning(thought)] };
    for message in [
        Message::user("no, the other one"),
        Message::user("please"),
        Message::Assistant(thought.into()),
        Message::Results(vec![result]),
    ] {
        request.messages.push_back_mut(message.into());
    }
    let turns = |base_url: &str, model: &str| -> String {
        let body = body_of(&request, "x", base_url, model);
        let messages = body["messages"].as_array().unwrap().iter();
        messages.map(|message| &message["role"].as_str().unwrap()[..1]).collect()
    };
    for (base_url, model) in [(MISTRAL, "devstral"), (OPENROUTER, "mistralai/devstral")] {
        assert_eq!(turns(base_url, model), "uatatauuatau", "{base_url}");
    }
    assert_eq!(turns(OPENROUTER, "x/y"), "uatatuuatu");
    let body = body_of(&request, "x", MISTRAL, "devstral");
    let said: Vec<_> = [5, 8, 10].iter().map(|n| &body["messages"][*n]["content"]).collect();
    assert_eq!(said, ["I have read the results.", "[no answer]", "I have read the results."]);
}

#[test]
fn what_a_server_does_not_take_is_told_in_words() {
    let parts = [
        media(Part::Image, "image/jpg", "a.jpg"),
        media(Part::Image, "image/svg+xml", "a.svg"),
        media(Part::Document, "application/pdf", "a.pdf"),
        media(Part::Document, "text/csv", "a.csv"),
    ];
    let request = Request {
        messages: [Message::User(UserMessage { content: parts.into() }.into()).into()]
            .into_iter()
            .collect(),
        ..Request::default()
    };
    let text = |text: &str| json!({"type": "text", "text": text});
    let unshown = |name: &str, media_type: &str| {
        text(&format!("[a file {name:?} of type {media_type} cannot be shown]"))
    };
    let image = json!({"type": "image_url", "image_url": {"url": "data:image/jpeg;base64,SGk="}});
    let svg = unshown("a.svg", "image/svg+xml");
    let file = json!({"filename": "a.pdf", "file_data": "data:application/pdf;base64,SGk="});
    let pdf = json!({"type": "file", "file": file});
    let told = unshown("a.pdf", "application/pdf");
    let csv = text("[a.csv]\nHi");
    for (provider, base_url, expected) in [
        ("openai", "https://api.openai.com/v1", [&image, &svg, &pdf, &csv]),
        ("openrouter", OPENROUTER, [&image, &svg, &pdf, &csv]),
        ("mine", "http://127.0.0.1:8080/v1", [&image, &svg, &pdf, &csv]),
        ("groq", "https://api.groq.com/openai/v1", [&image, &svg, &told, &csv]),
        ("vllm", "http://127.0.0.1:8000/v1", [&image, &svg, &told, &csv]),
        (
            "deepseek",
            "https://api.deepseek.com/v1",
            [&unshown("a.jpg", "image/jpg"), &svg, &told, &csv],
        ),
    ] {
        let body = body_of(&request, provider, base_url, "m");
        assert_eq!(body["messages"][0]["content"], json!(expected), "{provider}");
    }
}
