use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::*;
use crate::{ToolResult, ToolSpec};

fn event(data: &str) -> sse::Event<'_> {
    sse::Event { name: "", data }
}

fn decode(chunks: &[Value]) -> (Vec<StreamEvent>, Result<Response, ModelError>) {
    let mut decoder = Decoder::new("mine".into(), 7);
    let mut events = Vec::new();
    for chunk in chunks {
        let data = chunk.to_string();
        if let Err(error) = decoder.push(&event(&data), &mut |event| events.push(event)) {
            return (events, Err(error));
        }
    }
    (events, decoder.finish())
}

fn delta(delta: &Value) -> Value {
    json!({"id": "r1", "choices": [{"index": 0, "delta": delta}]})
}

fn finish(reason: &str) -> Value {
    json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
}

fn calls(deltas: &[Value]) -> Vec<(String, String, String)> {
    let mut chunks: Vec<Value> =
        deltas.iter().map(|call| delta(&json!({"tool_calls": [call]}))).collect();
    chunks.push(finish("tool_calls"));
    let response = decode(&chunks).1.unwrap();
    let call = |call: &ToolCall| (call.id.to_string(), call.name.clone(), call.arguments.clone());
    response.message.tool_calls().map(call).collect()
}

fn call(id: &str, name: &str, arguments: &str) -> (String, String, String) {
    (id.to_owned(), name.to_owned(), arguments.to_owned())
}

#[test]
fn text_is_joined_and_its_deltas_are_handed_out() {
    let (events, response) = decode(&[
        delta(&json!({"role": "assistant", "content": ""})),
        delta(&json!({"content": "a"})),
        delta(&json!({"content": "b\n"})),
        finish("stop"),
    ]);
    assert_eq!(
        events,
        [StreamEvent::TextDelta("a".to_owned()), StreamEvent::TextDelta("b\n".to_owned())]
    );
    let response = response.unwrap();
    assert_eq!(response.message, AssistantMessage::text("ab\n"));
    assert_eq!((response.stop, response.usage), (StopReason::EndTurn, None));
}

#[test]
fn every_finish_reason_has_its_meaning() {
    for (reason, stop) in [
        ("stop", StopReason::EndTurn),
        ("length", StopReason::MaxTokens),
        ("tool_calls", StopReason::ToolUse),
        ("function_call", StopReason::ToolUse),
        ("content_filter", StopReason::Refused),
        ("error", StopReason::Error),
        ("pause", StopReason::Other("pause".to_owned())),
        ("eos", StopReason::EndTurn),
        ("STOP", StopReason::EndTurn),
        ("tool_use", StopReason::ToolUse),
        ("model_length", StopReason::MaxTokens),
        ("sensitive", StopReason::Refused),
    ] {
        assert_eq!(decode(&[finish(reason)]).1.unwrap().stop, stop);
    }
}

#[test]
fn a_reply_that_the_provider_cut_off_is_none() {
    for reason in ["insufficient_system_resource", "network_error"] {
        let error = decode(&[delta(&json!({"content": "a"})), finish(reason)]).1.unwrap_err();
        assert_eq!((error.kind, error.code.as_deref()), (ErrorKind::Overloaded, Some(reason)));
    }
}

#[test]
fn an_empty_finish_reason_is_none() {
    let error = decode(&[delta(&json!({"content": "a"})), finish("")]).1.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Incomplete);
}

#[test]
fn the_end_marker_alone_is_no_end() {
    let mut decoder = Decoder::new("mine".into(), 0);
    decoder.push(&event(&delta(&json!({"content": "a"})).to_string()), &mut drop).unwrap();
    decoder.push(&event("[DONE]"), &mut drop).unwrap();
    assert!(decoder.is_done() && !decoder.has_stopped());
    assert_eq!(decoder.finish().unwrap_err().kind, ErrorKind::Incomplete);
}

#[test]
fn calls_make_a_plain_stop_a_tool_use() {
    let (_, response) = decode(&[
        delta(&json!({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "f"}}]})),
        finish("stop"),
    ]);
    assert_eq!(response.unwrap().stop, StopReason::ToolUse);
}

#[test]
fn a_refusal_is_kept_as_text_and_told_by_the_stop() {
    let (events, response) =
        decode(&[delta(&json!({"content": null, "refusal": "I won't"})), finish("stop")]);
    let response = response.unwrap();
    assert_eq!(events, [StreamEvent::TextDelta("I won't".to_owned())]);
    assert_eq!(response.message, AssistantMessage::text("I won't"));
    assert_eq!(response.stop, StopReason::Refused);
}

#[test]
fn calls_are_told_apart_by_index() {
    let got = calls(&[
        json!({"index": 0, "id": "a", "type": "function", "function": {"name": "f", "arguments": ""}}),
        json!({"index": 0, "function": {"arguments": "{\"x\""}}),
        json!({"index": 1, "id": "b", "function": {"name": "g", "arguments": "{}"}}),
        json!({"index": 0, "function": {"arguments": ":1}"}}),
    ]);
    assert_eq!(got, [call("a", "f", "{\"x\":1}"), call("b", "g", "{}")]);
}

#[test]
fn a_repeated_id_or_name_does_not_begin_a_new_call() {
    let got = calls(&[
        json!({"index": 0, "id": "a", "function": {"name": "f", "arguments": "{"}}),
        json!({"index": 0, "id": "a", "function": {"name": "f", "arguments": "}"}}),
        json!({"index": 0, "id": "", "function": {"name": null, "arguments": " "}}),
    ]);
    assert_eq!(got, [call("a", "f", "{} ")]);
}

#[test]
fn calls_that_all_have_the_index_zero_are_told_apart_by_id() {
    let got = calls(&[
        json!({"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}}),
        json!({"index": 0, "id": "b", "function": {"name": "f", "arguments": "{}"}}),
    ]);
    assert_eq!(got, [call("a", "f", "{}"), call("b", "f", "{}")]);
    let got = calls(&[
        json!({"index": 0, "id": "", "function": {"name": "f", "arguments": "{\"a\":1}"}}),
        json!({"index": 0, "id": "", "function": {"name": "f", "arguments": "{\"a\""}}),
        json!({"index": 0, "id": "", "function": {"name": "f", "arguments": ":2}"}}),
        json!({"index": 0, "id": "", "function": {"name": "f", "arguments": ""}}),
    ]);
    let told: Vec<_> = got.iter().map(|(_, _, arguments)| arguments.as_str()).collect();
    assert_eq!(told, [r#"{"a":1}"#, r#"{"a":2}"#], "without ids, by what is complete");
}

#[test]
fn calls_without_an_index_are_told_apart_by_id_or_name() {
    let got = calls(&[
        json!({"id": "a", "function": {"name": "f", "arguments": "{"}}),
        json!({"function": {"arguments": "}"}}),
        json!({"id": "b", "function": {"name": "g", "arguments": "{}"}}),
    ]);
    assert_eq!(got, [call("a", "f", "{}"), call("b", "g", "{}")]);
    let got = calls(&[
        json!({"function": {"name": "f", "arguments": {"x": 1}}}),
        json!({"function": {"name": "f", "arguments": {"x": 2}}}),
    ]);
    assert_eq!(got.iter().map(|call| &*call.2).collect::<Vec<_>>(), ["{\"x\":1}", "{\"x\":2}"]);
}

#[test]
fn missing_ids_are_made_and_differ_between_calls_and_replies() {
    let made = |salt| {
        let mut decoder = Decoder::new("mine".into(), salt);
        let chunk = delta(&json!({"tool_calls": [
            {"index": 0, "id": "", "function": {"name": "f"}},
            {"index": 1, "id": null, "function": {"name": "f"}},
            {"index": 2, "id": "own", "function": {"name": "f"}},
        ]}));
        decoder.push(&event(&chunk.to_string()), &mut drop).unwrap();
        decoder.push(&event(&finish("tool_calls").to_string()), &mut drop).unwrap();
        let message = decoder.finish().unwrap().message;
        message.tool_calls().map(|call| call.id.to_string()).collect::<Vec<_>>()
    };
    let (one, two) = (made(1), made(2));
    assert_eq!(one, made(1));
    assert_eq!(one[2], "own");
    let mut ids = [&one[..2], &two[..2]].concat();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 4);
}

#[test]
fn arguments_stay_as_the_model_wrote_them() {
    for raw in ["", "{", "{\"a\": 1 }", "\"text\"", "ä\n"] {
        let got =
            calls(&[json!({"index": 0, "id": "a", "function": {"name": "f", "arguments": raw}})]);
        assert_eq!(got, [call("a", "f", raw)]);
    }
}

#[test]
fn reasoning_comes_under_either_name_but_only_once() {
    let (events, response) = decode(&[
        delta(&json!({"reasoning_content": "a", "reasoning": "a"})),
        delta(&json!({"reasoning": "b", "reasoning_content": null})),
        delta(&json!({"reasoning": "c", "reasoning_details": [
            {"type": "reasoning.text", "text": "c", "index": 0, "signature": "s"}
        ]})),
        delta(&json!({"content": "d"})),
        finish("stop"),
    ]);
    assert_eq!(events.len(), 4);
    let item = r#"[{"index":0,"signature":"s","text":"c","type":"reasoning.text"}]"#;
    let payload =
        Opaque { provider: "mine".to_owned(), item: crate::RawJson::parse(item).unwrap() };
    assert_eq!(
        response.unwrap().message.content,
        [
            AssistantPart::Reasoning(Reasoning { text: "abc".to_owned(), payload: Some(payload) }),
            AssistantPart::Text("d".to_owned()),
        ]
    );
}

#[test]
fn content_may_come_in_parts_with_the_thinking_among_them() {
    let (_, response) = decode(&[
        delta(&json!({"content": [
            {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
            {"type": "text", "text": "so"},
        ]})),
        finish("stop"),
    ]);
    assert_eq!(
        response.unwrap().message.content,
        [
            AssistantPart::Reasoning(Reasoning { text: "hm".to_owned(), payload: None }),
            AssistantPart::Text("so".to_owned()),
        ]
    );
}

#[test]
fn usage_keeps_unknown_and_zero_apart() {
    let usage = |usage: Value| {
        let chunk = json!({"choices": [], "usage": usage});
        decode(&[finish("stop"), chunk]).1.unwrap().usage
    };
    assert_eq!(usage(json!(null)), None);
    assert_eq!(usage(json!({})), None);
    assert_eq!(
        usage(json!({"prompt_tokens": 5, "completion_tokens": 2.0, "prompt_tokens_details": null})),
        Some(Usage { input: 5, output: 2, ..Usage::default() })
    );
    assert_eq!(
        usage(json!({
            "prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7,
            "prompt_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 3},
            "completion_tokens_details": {"reasoning_tokens": 1},
        })),
        Some(Usage {
            input: 5,
            output: 2,
            cache_read: Some(0),
            cache_write: Some(3),
            reasoning: Some(1),
        })
    );
    assert_eq!(
        usage(json!({"prompt_tokens": 5, "completion_tokens": 2, "prompt_cache_hit_tokens": 4})),
        Some(Usage { input: 5, output: 2, cache_read: Some(4), ..Usage::default() })
    );
}

#[test]
fn usage_is_found_wherever_a_server_puts_it() {
    let tokens = json!({"prompt_tokens": 5, "completion_tokens": 2, "cached_tokens": 4});
    let expected = Usage { input: 5, output: 2, cache_read: Some(4), ..Usage::default() };
    for chunk in [
        json!({"choices": [], "usage": tokens}),
        json!({"choices": [], "usage": null, "x_groq": {"id": "r", "usage": tokens}}),
        json!({"choices": [{"delta": {}, "finish_reason": "stop", "usage": tokens}]}),
        json!({"choices": null, "usage": tokens}),
    ] {
        assert_eq!(decode(&[finish("stop"), chunk]).1.unwrap().usage, Some(expected));
    }
}

#[test]
fn reasoning_left_out_of_the_answer_is_counted() {
    let usage = json!({
        "prompt_tokens": 10, "completion_tokens": 4, "total_tokens": 34,
        "completion_tokens_details": {"reasoning_tokens": 20},
    });
    let chunk = json!({"choices": [], "usage": usage});
    let usage = decode(&[finish("stop"), chunk]).1.unwrap().usage.unwrap();
    assert_eq!((usage.output, usage.reasoning), (24, Some(20)));
}

#[test]
fn an_error_in_the_stream_fails_and_tells_what_was_billed() {
    let (_, response) = decode(&[
        delta(&json!({"content": "a"})),
        json!({
            "choices": [{"delta": {"content": ""}, "finish_reason": "error"}],
            "usage": {"prompt_tokens": 3, "completion_tokens": 1},
            "error": {"code": 429, "message": "slow down"},
        }),
    ]);
    let error = response.unwrap_err();
    assert_eq!((error.kind, error.status), (ErrorKind::RateLimited, Some(429)));
    assert_eq!(error.usage.total(), 4);
}

#[test]
fn an_error_is_read_in_every_shape() {
    for (name, data) in [
        ("", r#"{"error":{"message":"no","type":"server_error"}}"#),
        ("", r#"{"error":"no"}"#),
        ("", r#"{"object":"error","message":"no","type":"InternalServerError","code":500}"#),
        ("", r#"{"choices":[],"x_groq":{"error":"no"}}"#),
        ("", r#"{"choices":[{"error":{"code":502,"message":"no"}}]}"#),
        ("error", r#"{"error":{"message":"no"}}"#),
        ("error", r#"{"message":"no","code":"server_error"}"#),
        ("error", "no"),
    ] {
        let mut decoder = Decoder::new("mine".into(), 0);
        let error = decoder.push(&sse::Event { name, data }, &mut drop).unwrap_err();
        assert_eq!((error.kind, error.message.as_str()), (ErrorKind::Overloaded, "no"), "{data}");
    }
}

#[test]
fn signs_of_life_change_nothing() {
    let (_, response) = decode(&[
        delta(&json!({"role": "assistant", "content": null})),
        json!({"choices": []}),
        json!({"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {}}]}),
        delta(&json!({"role": "assistant", "content": "a"})),
        json!({"choices": [{"index": 0, "message": {"content": "b"}}]}),
        finish("stop"),
    ]);
    assert_eq!(response.unwrap().message.to_text(), "ab");
    let mut decoder = Decoder::new("mine".into(), 0);
    for data in ["", " ", "{}"] {
        decoder.push(&event(data), &mut drop).unwrap();
    }
    assert!(!decoder.is_done());
}

#[test]
fn what_is_no_chunk_is_refused() {
    let mut decoder = Decoder::new("mine".into(), 0);
    let error = decoder.push(&event("<html>"), &mut drop).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Decode);
}

#[test]
fn a_document_needs_choices_but_no_finish_reason() {
    let document = |body: &str| Decoder::new("mine".into(), 0).document(body.as_bytes());
    let answer = r#"{"choices":[{"message":{"content":"a"},"finish_reason":null}]}"#;
    assert_eq!(document(answer).unwrap().stop, StopReason::EndTurn);
    assert_eq!(document(r#"{"choices":[]}"#).unwrap_err().kind, ErrorKind::Decode);
    assert_eq!(document("[1").unwrap_err().kind, ErrorKind::Decode);
    let failed = r#"{"error":{"code":402,"message":"no credit"}}"#;
    assert_eq!(document(failed).unwrap_err().kind, ErrorKind::Quota);
}

fn tool(name: &str) -> ToolBlock {
    let schema = crate::RawJson::parse("{}").unwrap();
    let spec = ToolSpec { name: name.to_owned(), description: String::new(), schema };
    ToolBlock::new(vec![spec])
}

/// Makes a request that offers the tool `f`, and in which tools have said this.
fn asking(said: &[&str]) -> Request {
    let result = |said: &&str| {
        let content = [Part::Text((*said).to_owned())].into();
        ToolResult { call: "c".into(), name: "f".to_owned(), content, is_error: false }
    };
    let results = Message::Results(said.iter().map(result).collect());
    Request {
        tools: tool("f"),
        messages: [results.into()].into_iter().collect(),
        ..Request::default()
    }
}

#[test]
fn a_call_that_is_repeated_from_a_result_is_only_a_text() {
    for text in [
        r#"<tool_call>{"name":"f","arguments":{"a":1}}</tool_call>"#,
        r#"[TOOL_CALLS][{"name":"f","arguments":{"a":1}}]"#,
        r#"[TOOL_CALLS]f[ARGS]{"a":1}"#,
        "<function=f>\n<parameter=a>\n1\n</parameter>\n</function>",
        r#"{"name":"f","parameters":{"a":1}}"#,
    ] {
        let calls = |said: &[&str], written: &str| {
            let mut decoder = Decoder::new("mine".into(), 7).reading_calls_in_text(&asking(said));
            for chunk in [delta(&json!({ "content": written })), finish("stop")] {
                decoder.push(&event(&chunk.to_string()), &mut drop).unwrap();
            }
            let message = decoder.finish().unwrap().message;
            assert_eq!(message.to_text().is_empty(), message.tool_calls().count() > 0, "{text}");
            message.tool_calls().count()
        };
        let file = format!("# Help\n\n{}\n", text.replace('{', "{ "));
        assert_eq!(calls(&["harmless"], text), 1, "{text}");
        assert_eq!(calls(&[&file], text), 0, "{text}");
        assert_eq!(calls(&[&file], &text.replace('1', "2")), 1, "{text}");
    }
}

/// Decodes a reply whose text comes in these pieces, while the tool `f` was offered.
fn decode_text(pieces: &[&str], reason: &str) -> (Vec<StreamEvent>, Response) {
    let mut decoder = Decoder::new("mine".into(), 7).reading_calls_in_text(&asking(&[]));
    let mut events = Vec::new();
    let texts = pieces.iter().map(|text| delta(&json!({ "content": text })));
    for chunk in texts.chain([finish(reason)]) {
        let data = chunk.to_string();
        decoder.push(&event(&data), &mut |event| events.push(event)).unwrap();
    }
    (events, decoder.finish().unwrap())
}

#[test]
fn a_call_in_the_text_is_a_call_and_was_never_told_as_text() {
    const WRITTEN: [&str; 2] = [
        r#"Look: <tool_call>{"name":"f","arguments":{"a":"ä"}}</tool_call>"#,
        "Look: <function=f>\n<parameter=a>\nä\n</parameter>\n</function>",
    ];
    let split = |written: &str, size: usize| {
        let chars: Vec<char> = written.chars().collect();
        chars.chunks(size).map(|chunk| chunk.iter().collect()).collect::<Vec<String>>()
    };
    for (written, size) in WRITTEN.into_iter().flat_map(|text| [(text, 1), (text, 3), (text, 99)]) {
        let pieces = split(written, size);
        let pieces: Vec<_> = pieces.iter().map(String::as_str).collect();
        let (events, response) = decode_text(&pieces, "stop");
        assert_eq!(response.stop, StopReason::ToolUse);
        assert_eq!(response.message.to_text(), "Look: ");
        let call = response.message.tool_calls().next().unwrap();
        assert_eq!((call.name.as_str(), call.arguments.as_str()), ("f", r#"{"a":"ä"}"#));
        assert!(call.id.as_str().starts_with("call_"));
        let text: String = events
            .iter()
            .filter_map(|event| match event {
                StreamEvent::TextDelta(text) => Some(text.as_str()),
                _ => None,
            })
            .collect();
        assert_eq!(text, "Look: ");
        assert_eq!(
            events.last(),
            Some(&StreamEvent::ToolCallDelta {
                index: 0,
                name: Some("f".to_owned()),
                arguments: r#"{"a":"ä"}"#.to_owned(),
            })
        );
    }
}

#[test]
fn a_text_that_only_looks_like_a_call_is_told_as_it_is() {
    let call = r#"{"name":"f","parameters":{}}"#;
    for (text, reason) in [
        (r#"{"name":"g","parameters":{}}"#, "stop"),
        // What was cut is not run.
        (call, "length"),
        ("a <tool_call> b", "stop"),
        ("", "stop"),
    ] {
        let (events, response) = decode_text(&[text], reason);
        assert_eq!(response.message.to_text(), text);
        assert_eq!(response.message.tool_calls().count(), 0);
        let told: Vec<_> = events
            .into_iter()
            .map(|event| match event {
                StreamEvent::TextDelta(text) => text,
                other => panic!("unexpected {other:?}"),
            })
            .collect();
        assert_eq!(told.concat(), text);
    }
}

#[test]
fn beside_a_real_call_a_text_is_only_a_text() {
    let text = r#"{"name":"f","parameters":{}}"#;
    let real = json!({"index": 0, "id": "c", "function": {"name": "f", "arguments": "{}"}});
    let mut decoder = Decoder::new("mine".into(), 7).reading_calls_in_text(&asking(&[]));
    let chunks = [delta(&json!({"content": text, "tool_calls": [real]})), finish("tool_calls")];
    for chunk in chunks {
        decoder.push(&event(&chunk.to_string()), &mut drop).unwrap();
    }
    let message = decoder.finish().unwrap().message;
    assert_eq!((message.to_text().as_str(), message.tool_calls().count()), (text, 1));
}

#[test]
fn a_document_may_hold_a_call_in_its_text() {
    let text = r#"[TOOL_CALLS][{"name":"f","arguments":{}}]"#;
    let body = json!({"choices": [{"message": {"content": text}}]}).to_string();
    let decode = |decoder: Decoder| decoder.document(body.as_bytes()).unwrap();
    let plain = decode(Decoder::new("mine".into(), 7));
    assert_eq!((plain.message.to_text().as_str(), plain.stop), (text, StopReason::EndTurn));
    let reading = decode(Decoder::new("mine".into(), 7).reading_calls_in_text(&asking(&[])));
    assert_eq!((reading.message.tool_calls().count(), reading.stop), (1, StopReason::ToolUse));
}
