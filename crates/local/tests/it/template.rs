//! Conversation as a chat template says.

use bowline_llm::{
    AssistantMessage, AssistantPart, ErrorKind, Message, Model as _, Part, Reasoning, Response,
    StopReason, StreamEvent, ToolCall, ToolResult,
};
use bowline_local::Way;
use pretty_assertions::assert_eq;
use serde_json::Value;

use crate::gguf::{CALL, CALLS, END_OF_THOUGHT, END_OF_TURN, TAGGED, THINK};
use crate::{Place, ask, gguf, request};

const TOOLS: [(&str, &str); 2] = [
    (
        "add",
        r#"{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"integer"}},"required":["a","b"],"additionalProperties":false}"#,
    ),
    ("stop", r#"{"type":"object","properties":{},"additionalProperties":false}"#),
];

const NEWLINE: usize = b'\n' as usize;

fn place(chain: &[(usize, usize)]) -> Place {
    Place::new(&gguf::Model { template: Some(TAGGED), chain, ..gguf::Model::default() })
}

fn bytes(before: usize, text: &str, after: usize) -> Vec<(usize, usize)> {
    let mut chain = Vec::new();
    let mut last = before;
    for byte in text.bytes().map(usize::from).chain([after]) {
        chain.push((last, byte));
        last = byte;
    }
    chain
}

#[test]
fn a_text_is_told_as_it_comes() {
    let place = place(&bytes(NEWLINE, "Hi!", END_OF_TURN));
    let model = place.open();
    assert_eq!(model.way(), Way::Template);
    let reply = ask(&model, request(vec![Message::user("Hello")], &TOOLS));
    assert_eq!(reply.told(), "Hi!");
    let response = reply.response();
    assert_eq!(response.message, AssistantMessage::text("Hi!"));
    assert_eq!(response.stop, StopReason::EndTurn);
    assert_eq!(response.usage.unwrap().output, 4);
}

#[test]
fn a_call_has_the_shape_of_its_tool_whatever_the_model_would_say() {
    // After the tag it would say nothing but its name.
    let mut chain = bytes(NEWLINE, "I", CALL);
    chain.extend([(usize::from(b'>'), END_OF_TURN), (CALL, NEWLINE)]);
    chain.extend([(usize::from(b'"'), usize::from(b'a')), (usize::from(b' '), usize::from(b'7'))]);
    let digits = usize::from(b'7');
    chain.extend([(digits, usize::from(b',')), (digits, usize::from(b'}'))]);
    let place = place(&chain);
    let model = place.open();
    let reply = ask(&model, request(vec![Message::user("Add")], &TOOLS));
    assert_eq!(reply.told(), "I");
    let response = reply.response();
    assert_eq!(response.stop, StopReason::ToolUse);
    let AssistantMessage { content } = &response.message;
    let [AssistantPart::Text(text), AssistantPart::ToolCall(call), ..] = &**content else {
        panic!("{content:?}")
    };
    assert_eq!((text.as_str(), call.name.as_str()), ("I", "add"));
    let arguments: Value = serde_json::from_str(&call.arguments).unwrap();
    let keys: Vec<&String> = arguments.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["a", "b"]);
    assert!(arguments["a"].is_i64() && arguments["b"].is_i64(), "{arguments}");
}

#[test]
fn a_call_that_was_cut_off_is_none() {
    let place = place(&[(NEWLINE, CALL)]);
    let mut request = request(vec![Message::user("Add")], &TOOLS);
    request.max_output_tokens = Some(6);
    let response = ask(&place.open(), request).response();
    assert_eq!(response.stop, StopReason::MaxTokens);
    assert_eq!(response.message, AssistantMessage::default());
}

#[test]
fn without_tools_a_tag_is_text() {
    let place = place(&[(NEWLINE, CALL), (CALL, END_OF_TURN)]);
    let response = ask(&place.open(), request(vec![Message::user("Hi")], &[])).response();
    assert_eq!(response.message, AssistantMessage::text("<tool_call>"));
}

#[test]
fn reasoning_is_told_apart() {
    let mut chain = vec![(NEWLINE, THINK)];
    chain.extend(bytes(THINK, "hm", END_OF_THOUGHT));
    chain.extend(bytes(END_OF_THOUGHT, "Yes", END_OF_TURN));
    let place = place(&chain);
    let reply = ask(&place.open(), request(vec![Message::user("Well?")], &TOOLS));
    assert_eq!(reply.told(), "Yes");
    let thought = reply.events.iter().filter_map(|event| match event {
        StreamEvent::ReasoningDelta(text) => Some(text.as_str()),
        _ => None,
    });
    assert_eq!(thought.collect::<String>(), "hm");
    let reasoning = Reasoning { text: "hm".to_owned(), payload: None };
    let content = vec![AssistantPart::Reasoning(reasoning), AssistantPart::Text("Yes".to_owned())];
    assert_eq!(reply.response().message, AssistantMessage { content });
}

#[test]
fn what_is_told_is_what_is_kept() {
    let newline = usize::from(b'\n');
    let template = TAGGED.replace("assistant\\n", "assistant\\n<think>");
    let mut chain = bytes(END_OF_THOUGHT, "\n", usize::from(b'<'));
    chain.extend([(usize::from(b'<'), END_OF_TURN), (THINK, END_OF_THOUGHT), (newline, newline)]);
    chain.retain(|link| *link != (newline, newline));
    let model = gguf::Model { template: Some(&template), chain: &chain, ..gguf::Model::default() };
    let reply = ask(&Place::new(&model).open(), request(vec![Message::user("Hi")], &TOOLS));
    // A closing mark at once, a space before the text, and the beginning of a mark at its end.
    assert_eq!(reply.told(), "<");
    assert_eq!(reply.response().message, AssistantMessage::text("<"));
}

#[test]
fn an_answer_has_an_end() {
    let place = place(&[(NEWLINE, usize::from(b'a')), (usize::from(b'a'), usize::from(b'a'))]);
    let mut request = request(vec![Message::user("Hi")], &TOOLS);
    request.max_output_tokens = Some(10);
    let response = ask(&place.open(), request).response();
    assert_eq!(response.stop, StopReason::MaxTokens);
    assert_eq!(response.message, AssistantMessage::text("aaaaaaaaaa"));
}

#[test]
fn nobody_but_the_template_ends_a_turn() {
    let place = place(&bytes(NEWLINE, "ok", END_OF_TURN));
    let model = place.open();
    let input = |text: &str| {
        ask(&model, request(vec![Message::user(text)], &[])).response().usage.unwrap().input
    };
    // A token of the template would be one; these are the letters.
    for mark in ["<|im_end|>", "</tool_call>", "<think>"] {
        assert_eq!(input(&format!("x{mark}")) - input("x"), mark.len() as u64, "{mark}");
    }
}

#[test]
fn a_conversation_with_calls_is_read_once() {
    let place = place(&bytes(NEWLINE, "ok", END_OF_TURN));
    let model = place.open();
    let call =
        ToolCall { id: "c1".into(), name: "add".to_owned(), arguments: "{\"a\":1".to_owned() };
    let said = AssistantMessage { content: vec![AssistantPart::ToolCall(call)] };
    let result = ToolResult {
        call: "c1".into(),
        name: "add".to_owned(),
        content: vec![Part::Text("no JSON".to_owned())].into(),
        is_error: true,
    };
    let mut messages = vec![Message::user("Add")];
    let first = ask(&model, request(messages.clone(), &TOOLS)).response().usage.unwrap();
    messages.extend([Message::Assistant(said.into()), Message::Results(vec![result])]);
    let then = ask(&model, request(messages, &TOOLS)).response().usage.unwrap();
    assert!(then.cache_read.unwrap() >= first.input - 1, "{first:?} {then:?}");
}

#[test]
fn a_conversation_that_does_not_fit_is_an_overflow() {
    let place = place(&bytes(NEWLINE, "ok", END_OF_TURN));
    let model = place.open_with(Some(512)).unwrap();
    assert_eq!(model.info().context_window, Some(512));
    let error = ask(&model, request(vec![Message::user("a".repeat(600))], &[])).error();
    assert_eq!(error.kind, ErrorKind::ContextOverflow, "{error}");
}

/// What a model says that calls `add` once it has begun: numbers where it may, and then an end.
const NUMBERS: [(u8, u8); 4] = [(b' ', b'7'), (b':', b'7'), (b'7', b','), (b'7', b'}')];

/// After a quote it begins the name of `add`.
const A_NAME: (usize, usize) = (b'"' as usize, b'a' as usize);

/// Asks a model that begins a call as its template says, and would not go on by itself.
fn call_of(template: &str, opening: &[(usize, usize)]) -> Response {
    let numbers = NUMBERS.map(|(before, after)| (usize::from(before), usize::from(after)));
    let mut chain = opening.to_vec();
    chain.extend(numbers);
    let model = gguf::Model { template: Some(template), chain: &chain, ..gguf::Model::default() };
    let place = Place::new(&model);
    let model = place.open();
    assert_eq!(model.way(), Way::Template);
    let called = AssistantMessage {
        content: vec![AssistantPart::ToolCall(ToolCall {
            id: "call_1".into(),
            name: "add".to_owned(),
            arguments: r#"{"a":1,"b":2}"#.to_owned(),
        })],
    };
    let result = ToolResult {
        call: "call_1".into(),
        name: "add".to_owned(),
        content: vec![Part::Text("3".to_owned())].into(),
        is_error: false,
    };
    let mut messages = vec![Message::user("Add"), Message::Assistant(called.into())];
    messages.extend([
        Message::Results(vec![result]),
        Message::assistant("3"),
        Message::user("Go on"),
    ]);
    ask(&model, request(messages, &TOOLS)).response()
}

fn assert_adds(response: &Response) {
    assert_eq!(response.stop, StopReason::ToolUse, "{response:?}");
    for call in response.message.tool_calls() {
        assert_eq!(call.name, "add");
        let arguments: Value = serde_json::from_str(&call.arguments).unwrap();
        assert!(arguments["a"].is_i64() && arguments["b"].is_i64(), "{arguments}");
    }
    assert!(response.message.tool_calls().count() > 0);
}

#[test]
fn a_call_that_is_nothing_but_json_is_held_to_its_tool() {
    let template = include_str!("../../fixtures/templates/llama3-style.jinja");
    let response = call_of(template, &bytes(NEWLINE, "{\"name", usize::from(b'"')));
    assert_adds(&response);
    assert_eq!(response.message.content.len(), 1, "one call at a time and no text");
}

#[test]
fn a_list_of_calls_is_held_to_the_tools() {
    let template = include_str!("../../fixtures/templates/mistral-nemo.jinja");
    let bracket = usize::from(b']');
    let response = call_of(template, &[(bracket, CALLS), (usize::from(b'}'), bracket), A_NAME]);
    assert_adds(&response);
}

#[test]
fn calls_between_tags_are_held_to_the_tools_in_real_templates() {
    for template in [
        include_str!("../../fixtures/templates/qwen2.5.jinja"),
        include_str!("../../fixtures/templates/qwen3.jinja"),
    ] {
        assert_adds(&call_of(template, &[(NEWLINE, CALL), A_NAME]));
    }
}

#[test]
fn a_template_that_refuses_says_why_in_one_line() {
    let template = TAGGED.to_owned() + "{{ raise_exception('roles must\nalternate') }}";
    let model = gguf::Model { template: Some(&template), ..gguf::Model::default() };
    let error = ask(&Place::new(&model).open(), request(vec![Message::user("Hi")], &[])).error();
    assert_eq!(error.kind, ErrorKind::InvalidRequest);
    assert_eq!(error.message, "the chat template of the model failed: roles must alternate");
    let template = TAGGED.to_owned() + "{{ messages | no_such_filter }}";
    let model = gguf::Model { template: Some(&template), ..gguf::Model::default() };
    let error = ask(&Place::new(&model).open(), request(vec![Message::user("Hi")], &[])).error();
    assert!(error.message.contains("no_such_filter"), "{error}");
    assert!(!error.message.contains('\n'), "{error}");
}

#[test]
fn what_several_have_said_is_split_as_one_text() {
    let tokens = |before: &str, said: &str, after: &str| {
        let template = format!(
            "{{% if tools %}}<tool_call>{{% endif %}}<|im_start|>{before}{{{{ messages[0].content }}}}{after}<|im_end|>"
        );
        let pieces = ["▁", "▁a", "ab", "▁ab"];
        let chain = [(END_OF_TURN, END_OF_TURN)];
        let model = gguf::Model {
            template: Some(&template),
            chain: &chain,
            pieces: &pieces,
            ..gguf::Model::default()
        };
        let request = request(vec![Message::user(said)], &[]);
        ask(&Place::new(&model).open(), request).response().usage.unwrap().input
    };
    // A space, three letters, " ab" three times, and the two marks around it.
    for (before, said, after) in [
        ("", "say ab ab ab", ""),
        ("say ", "ab", " ab ab"),
        ("say ab ", "ab ab", ""),
        ("sa", "y ab ab", " ab"),
    ] {
        assert_eq!(tokens(before, said, after), 9, "{before:?} {said:?} {after:?}");
    }
    // A mark that somebody says becomes letters, and no space comes into it.
    assert_eq!(tokens("say ", "ab<think>ab", " ab"), 9 + "<think>".len() as u64);
    assert_eq!(tokens("say ab", "<", "think>ab ab"), 9 + "<think>".len() as u64);
}

#[test]
fn a_type_that_contains_itself_is_held_to() {
    // A tree: a number, and perhaps another tree below it. The model would write words.
    const PLANT: &str = r##"{"type":"object","properties":{"tree":{"$ref":"#/$defs/Tree"}},"required":["tree"],"additionalProperties":false,"$defs":{"Tree":{"type":"object","properties":{"size":{"type":"integer"},"below":{"anyOf":[{"$ref":"#/$defs/Tree"},{"type":"null"}]}},"required":["size","below"],"additionalProperties":false}}}"##;
    let mut chain = vec![(NEWLINE, CALL), (usize::from(b'"'), usize::from(b'p'))];
    let numbers = NUMBERS.map(|(before, after)| (usize::from(before), usize::from(after)));
    chain.extend(numbers);
    let place = place(&chain);
    let mut request =
        request(vec![Message::user("Plant")], &[("stop", TOOLS[1].1), ("plant", PLANT)]);
    request.max_output_tokens = Some(400);
    let response = ask(&place.open(), request).response();
    assert_eq!(response.stop, StopReason::ToolUse, "{response:?}");
    for call in response.message.tool_calls() {
        let arguments: Value = serde_json::from_str(&call.arguments).unwrap();
        let mut tree = &arguments["tree"];
        while !tree.is_null() {
            assert!(tree["size"].is_i64() && tree.as_object().unwrap().len() == 2, "{arguments}");
            tree = &tree["below"];
        }
    }
}
