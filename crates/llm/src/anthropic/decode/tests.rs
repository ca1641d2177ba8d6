use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::*;
use crate::Usage;
use crate::{AssistantPart, Opaque, RawJson, Reasoning, ToolCall};

fn decoder() -> Decoder {
    Decoder::new("mine".into(), 7)
}

fn push(
    decoder: &mut Decoder,
    event: &Value,
    events: &mut Vec<StreamEvent>,
) -> Result<(), ModelError> {
    let data = event.to_string();
    decoder.push(&sse::Event { name: "", data: &data }, &mut |event| events.push(event))
}

fn decode(stream: &[Value]) -> (Vec<StreamEvent>, Result<Response, ModelError>) {
    let mut decoder = decoder();
    let mut events = Vec::new();
    for event in stream {
        if let Err(error) = push(&mut decoder, event, &mut events) {
            return (events, Err(error));
        }
    }
    (events, decoder.finish())
}

fn message_start() -> Value {
    json!({"type": "message_start", "message": {
        "id": "msg_1", "model": "claude", "content": [], "stop_reason": null,
        "usage": {"input_tokens": 5, "output_tokens": 1},
    }})
}

fn start(index: u64, block: &Value) -> Value {
    json!({"type": "content_block_start", "index": index, "content_block": block})
}

fn delta(index: u64, delta: &Value) -> Value {
    json!({"type": "content_block_delta", "index": index, "delta": delta})
}

fn stop(index: u64) -> Value {
    json!({"type": "content_block_stop", "index": index})
}

fn end(reason: &str) -> [Value; 2] {
    let delta = json!({"stop_reason": reason, "stop_sequence": null});
    [
        json!({"type": "message_delta", "delta": delta, "usage": {"output_tokens": 9}}),
        json!({"type": "message_stop"}),
    ]
}

/// Decodes one block between the beginning and the end of a reply.
fn block(block: &[Value]) -> (Vec<StreamEvent>, Vec<AssistantPart>) {
    let stream = [&[message_start()], block, &end("end_turn")].concat();
    let (events, response) = decode(&stream);
    (events, response.unwrap().message.content)
}

fn opaque(item: &str) -> Opaque {
    Opaque { provider: "mine".to_owned(), item: RawJson::parse(item).unwrap() }
}

#[test]
fn every_stop_reason_has_its_meaning() {
    for (reason, stop) in [
        ("end_turn", StopReason::EndTurn),
        ("stop_sequence", StopReason::EndTurn),
        ("tool_use", StopReason::ToolUse),
        ("max_tokens", StopReason::MaxTokens),
        ("model_context_window_exceeded", StopReason::MaxTokens),
        ("refusal", StopReason::Refused),
        ("pause_turn", StopReason::Paused),
    ] {
        let stream = [&[message_start()][..], &end(reason)].concat();
        assert_eq!(decode(&stream).1.unwrap().stop, stop);
        let document = json!({"content": [], "stop_reason": reason}).to_string();
        assert_eq!(decoder().document(document.as_bytes()).unwrap().stop, stop);
    }
}

#[test]
fn a_stop_reason_alone_is_no_end() {
    let [reason, _] = end("end_turn");
    let error = decode(&[message_start(), reason]).1.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Incomplete);
    assert_eq!(error.usage, Usage { input: 5, output: 9, ..Usage::default() });
}

#[test]
fn what_follows_the_end_is_not_read() {
    let stream = [&[message_start()][..], &end("end_turn"), &[json!("[DONE]")]].concat();
    assert!(decode(&stream).1.is_ok());
}

#[test]
fn a_call_that_is_told_in_one_piece_has_its_arguments_and_its_deltas() {
    let call = json!({"type": "tool_use", "id": "a", "name": "f", "input": {"x": 1}});
    let stream = [
        &[message_start(), start(0, &call)][..],
        &[delta(0, &json!({"type": "input_json_delta", "partial_json": ""})), stop(0)],
        &end("end_turn"),
    ];
    let (events, response) = decode(&stream.concat());
    let arguments = r#"{"x":1}"#.to_owned();
    let (first, second) = (Some("f".to_owned()), arguments.clone());
    assert_eq!(
        events,
        [
            StreamEvent::ToolCallDelta { index: 0, name: first, arguments: String::new() },
            StreamEvent::ToolCallDelta { index: 0, name: None, arguments: second },
        ]
    );
    let response = response.unwrap();
    let call = ToolCall { id: "a".into(), name: "f".to_owned(), arguments };
    assert_eq!(response.message.content, [AssistantPart::ToolCall(call)]);
    assert_eq!(response.stop, StopReason::ToolUse, "a call is waited for whatever the reason says");
}

#[test]
fn arguments_count_whatever_shape_a_server_gives_them() {
    let arguments = |input: &Value| {
        let call = json!({"type": "tool_use", "id": "a", "name": "f", "input": input});
        let stream = [&[message_start(), start(0, &call)][..], &end("tool_use")].concat();
        let (events, response) = decode(&stream);
        let message = response.unwrap().message;
        let document = json!({"content": [call], "stop_reason": "tool_use"}).to_string();
        assert_eq!(decoder().document(document.as_bytes()).unwrap().message, message);
        let told = events.iter().filter_map(|event| match event {
            StreamEvent::ToolCallDelta { arguments, .. } => Some(arguments.as_str()),
            _ => None,
        });
        let arguments = message.tool_calls().next().unwrap().arguments.clone();
        assert_eq!(told.collect::<String>(), arguments);
        arguments
    };
    assert_eq!(arguments(&json!({"x": 1})), r#"{"x":1}"#, "no end of the block was told");
    assert_eq!(arguments(&json!("{\"x\": 1}")), r#"{"x": 1}"#);
    assert_eq!(arguments(&json!({})), "{}");
    assert_eq!(arguments(&Value::Null), "");
}

#[test]
fn arguments_stay_as_the_model_wrote_them() {
    let call = json!({"type": "tool_use", "id": "a", "name": "f", "input": {}});
    let piece = |json: &str| delta(0, &json!({"type": "input_json_delta", "partial_json": json}));
    let (_, content) = block(&[start(0, &call), piece("{\"x\": "), piece("1.0 "), stop(0)]);
    let AssistantPart::ToolCall(call) = &content[0] else { panic!("{content:?}") };
    assert_eq!(call.arguments, "{\"x\": 1.0 ");
}

#[test]
fn missing_ids_are_made_and_differ() {
    let call = json!({"type": "tool_use", "id": "", "name": "f", "input": {}});
    let (_, content) = block(&[start(0, &call), start(1, &call)]);
    let ids: Vec<_> = content
        .iter()
        .filter_map(|part| match part {
            AssistantPart::ToolCall(call) => Some(call.id.clone()),
            _ => None,
        })
        .collect();
    assert!(ids.len() == 2 && ids[0] != ids[1], "{ids:?}");
}

#[test]
fn thinking_keeps_its_text_and_its_signature() {
    let (events, content) = block(&[
        start(0, &json!({"type": "thinking", "thinking": "", "signature": ""})),
        delta(0, &json!({"type": "thinking_delta", "thinking": "h"})),
        delta(0, &json!({"type": "thinking_delta", "thinking": "m"})),
        delta(0, &json!({"type": "signature_delta", "signature": "s+/="})),
        stop(0),
        start(1, &json!({"type": "redacted_thinking", "data": "d"})),
        stop(1),
    ]);
    let hm = ["h", "m"].map(|text| StreamEvent::ReasoningDelta(text.to_owned()));
    assert_eq!(events, hm);
    let payload = Some(opaque(r#"{"type":"thinking","signature":"s+/="}"#));
    let redacted = Some(opaque(r#"{"data":"d","type":"redacted_thinking"}"#));
    assert_eq!(
        content,
        [
            AssistantPart::Reasoning(Reasoning { text: "hm".to_owned(), payload }),
            AssistantPart::Reasoning(Reasoning { text: String::new(), payload: redacted }),
        ]
    );
}

#[test]
fn the_items_of_the_providers_own_tools_are_kept_whole() {
    let search = json!({"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}});
    let result = r#"{"type":"web_search_tool_result","tool_use_id":"s","content":[{"n":1.0}]}"#;
    let result_start: Value = serde_json::from_str(result).unwrap();
    let (events, content) = block(&[
        start(0, &search),
        delta(0, &json!({"type": "input_json_delta", "partial_json": "{\"query\":"})),
        delta(0, &json!({"type": "input_json_delta", "partial_json": " \"x\"}"})),
        stop(0),
        start(1, &result_start),
        stop(1),
    ]);
    assert_eq!(events, []);
    let search =
        r#"{"id":"s","input":{"query": "x"},"name":"web_search","type":"server_tool_use"}"#;
    assert_eq!(
        content,
        [
            AssistantPart::Opaque(opaque(search)),
            AssistantPart::Opaque(opaque(&result_start.to_string())),
        ]
    );
}

#[test]
fn a_block_of_a_kind_that_is_not_known_yet_is_kept_with_what_is_added() {
    let (_, content) = block(&[
        start(0, &json!({"type": "digest", "content": null})),
        delta(0, &json!({"type": "digest_delta", "content": "a"})),
        delta(0, &json!({"type": "digest_delta", "content": "b", "n": 1})),
        stop(0),
    ]);
    assert_eq!(
        content,
        [AssistantPart::Opaque(opaque(r#"{"content":"ab","n":1,"type":"digest"}"#))]
    );
}

#[test]
fn unknown_events_and_empty_texts_are_passed_over() {
    let (events, content) = block(&[
        json!({"type": "ping"}),
        json!({"type": "news", "what": [1]}),
        start(0, &json!({"type": "text", "text": "", "citations": []})),
        delta(0, &json!({"type": "text_delta", "text": "a"})),
        stop(0),
        start(1, &json!({"type": "text", "text": ""})),
        stop(1),
    ]);
    assert_eq!(events, [StreamEvent::TextDelta("a".to_owned())]);
    assert_eq!(content, [AssistantPart::Text("a".to_owned())]);
}

#[test]
fn citations_and_callers_are_kept_before_what_they_belong_to() {
    let cite = |url: &str| delta(0, &json!({"type": "citations_delta", "citation": {"url": url}}));
    let call = |caller: &str| {
        let caller = json!({"type": caller, "tool_id": "s"});
        json!({"type": "tool_use", "id": caller["type"], "name": "f", "input": {}, "caller": caller})
    };
    let (_, content) = block(&[
        start(0, &json!({"type": "text", "text": "", "odd": 1})),
        cite("u"),
        delta(0, &json!({"type": "text_delta", "text": "a"})),
        cite("v"),
        stop(0),
        start(1, &call("code")),
        start(2, &call("direct")),
    ]);
    let called = |id: &str| {
        let arguments = "{}".to_owned();
        AssistantPart::ToolCall(ToolCall { id: id.into(), name: "f".to_owned(), arguments })
    };
    assert_eq!(
        content,
        [
            AssistantPart::Opaque(opaque(
                r#"{"citations":[{"url":"u"},{"url":"v"}],"type":"text"}"#
            )),
            AssistantPart::Text("a".to_owned()),
            AssistantPart::Opaque(opaque(
                r#"{"caller":{"tool_id":"s","type":"code"},"type":"tool_use"}"#
            )),
            called("code"),
            called("direct"),
        ]
    );
}

#[test]
fn usage_counts_the_cache_as_input_and_grows() {
    let usage = |first: &Value, last: &Value| {
        let stream = [
            json!({"type": "message_start", "message": {"usage": first}}),
            json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": last}),
            json!({"type": "message_stop"}),
        ];
        decode(&stream).1.unwrap().usage
    };
    assert_eq!(usage(&json!(null), &json!({})), None);
    let first = json!({
        "input_tokens": 5, "output_tokens": 1,
        "cache_read_input_tokens": 100, "cache_creation_input_tokens": 20,
    });
    let last = json!({"output_tokens": 9, "output_tokens_details": {"thinking_tokens": 4}});
    let expected = Usage {
        input: 125,
        output: 9,
        cache_read: Some(100),
        cache_write: Some(20),
        reasoning: Some(4),
    };
    assert_eq!(usage(&first, &last), Some(expected));
    let zeros = json!({"input_tokens": 0, "output_tokens": 2, "cache_read_input_tokens": null});
    let expected = Usage { input: 3, output: 2, ..Usage::default() };
    assert_eq!(usage(&json!({"input_tokens": 3}), &zeros), Some(expected));
}

// Synthetic: the shapes are the vendor's documentation's, no recording has them.
#[test]
fn an_error_in_the_stream_fails_by_its_type_and_tells_what_was_billed() {
    for (name, kind) in [
        ("overloaded_error", ErrorKind::Overloaded),
        ("api_error", ErrorKind::Overloaded),
        ("rate_limit_error", ErrorKind::RateLimited),
        ("timeout_error", ErrorKind::Timeout),
        ("authentication_error", ErrorKind::Auth),
        ("permission_error", ErrorKind::Auth),
        ("billing_error", ErrorKind::Quota),
        ("not_found_error", ErrorKind::NotFound),
        ("invalid_request_error", ErrorKind::InvalidRequest),
    ] {
        let error = json!({"type": "error", "error": {"type": name, "message": "no"}});
        let error = decode(&[message_start(), error]).1.unwrap_err();
        assert_eq!((error.kind, error.code.as_deref()), (kind, Some(name)));
        assert_eq!(error.usage.total(), 6);
    }
}

#[test]
fn an_error_needs_no_type_of_its_own() {
    for (name, data) in [
        ("error", r#"{"error":{"type":"overloaded_error","message":"no"}}"#),
        ("", r#"{"error":{"code":529,"message":"no"}}"#),
        ("", r#"{"type":"error","message":"no"}"#),
        ("error", r#"{"message":"no"}"#),
        ("error", r#"{"type":"error","error":"no"}"#),
    ] {
        let event = sse::Event { name, data };
        let error = decoder().push(&event, &mut drop).unwrap_err();
        assert_eq!((error.kind, error.message.as_str()), (ErrorKind::Overloaded, "no"), "{data}");
    }
}

#[test]
fn signs_of_life_and_events_of_another_day_change_nothing() {
    let events = |data: &[&str]| {
        let mut decoder = decoder();
        for data in data {
            decoder.push(&sse::Event { name: "ping", data }, &mut drop).unwrap();
        }
        decoder.is_done()
    };
    assert!(!events(&["", " ", r#"{"type":"ping"}"#, "[DONE]"]), "it has not stopped");
    let odd = r#"{"type":"odd","message":"a","delta":[1],"usage":7,"content_block":null}"#;
    let stopped = r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"}}"#;
    assert!(events(&[odd, stopped, "[DONE]"]), "gateways end all wires alike");
}

#[test]
fn what_makes_no_sense_is_refused() {
    let refused = |stream: &[Value]| decode(stream).1.unwrap_err().kind;
    assert_eq!(refused(&[json!("no event")]), ErrorKind::Decode);
    let text = delta(3, &json!({"type": "text_delta", "text": "a"}));
    assert_eq!(refused(&[message_start(), text]), ErrorKind::Decode);
    assert_eq!(refused(&[start(0, &json!({"no": "type"}))]), ErrorKind::Decode);
    for (body, kind) in [
        ("[1", ErrorKind::Decode),
        ("{}", ErrorKind::Decode),
        (r#"{"type":"error","error":{"type":"overloaded_error"}}"#, ErrorKind::Overloaded),
    ] {
        assert_eq!(decoder().document(body.as_bytes()).unwrap_err().kind, kind, "{body}");
    }
}
