use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::*;
use crate::{AssistantPart, Opaque, RawJson, Reasoning, ToolCall};

fn decoder() -> Decoder {
    Decoder::new("mine".into(), 7)
}

fn decode(events: &[Value]) -> (Vec<StreamEvent>, Result<Response, ModelError>) {
    let mut decoder = decoder();
    let mut emitted = Vec::new();
    for event in events {
        let data = event.to_string();
        let event = sse::Event { name: "", data: &data };
        if let Err(error) = decoder.push(&event, &mut |event| emitted.push(event)) {
            return (emitted, Err(error));
        }
    }
    (emitted, decoder.finish())
}

fn event(kind: &str, fields: &Value) -> Value {
    let mut event = fields.clone();
    event["type"] = format!("response.{kind}").into();
    event
}

fn added(place: u64, item: &Value) -> Value {
    event("output_item.added", &json!({"output_index": place, "item": item}))
}

fn done(place: u64, item: &Value) -> Value {
    event("output_item.done", &json!({"output_index": place, "item": item}))
}

fn text_delta(place: u64, delta: &str) -> Value {
    event("output_text.delta", &json!({"output_index": place, "content_index": 0, "delta": delta}))
}

fn completed(output: &Value) -> Value {
    event("completed", &json!({"response": {"id": "r", "status": "completed", "output": output}}))
}

fn message(text: &str) -> Value {
    json!({"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
        "content": [{"type": "output_text", "text": text, "annotations": []}]})
}

fn call(id: &str, arguments: &str) -> Value {
    json!({"type": "function_call", "id": format!("fc_{id}"), "call_id": id, "name": "f",
        "arguments": arguments, "status": "completed"})
}

fn document(response: &Value) -> Result<Response, ModelError> {
    decoder().document(response.to_string().as_bytes())
}

fn kept(item: &Value) -> Opaque {
    Opaque { provider: "mine".to_owned(), item: RawJson::of(item).unwrap() }
}

fn tool_call(id: &str, arguments: &str) -> AssistantPart {
    let (name, arguments) = ("f".to_owned(), arguments.to_owned());
    AssistantPart::ToolCall(ToolCall { id: id.into(), name, arguments })
}

fn spoken(text: &str) -> [AssistantPart; 2] {
    let frame = kept(&json!({"type": "message", "id": "msg_1"}));
    [AssistantPart::Opaque(frame), AssistantPart::Text(text.to_owned())]
}

#[test]
fn text_is_joined_and_its_deltas_are_handed_out() {
    let (events, response) = decode(&[
        event("created", &json!({"response": {"id": "r", "model": "m-1", "output": []}})),
        added(0, &json!({"type": "message", "id": "msg_1", "content": []})),
        text_delta(0, "a"),
        text_delta(0, ""),
        text_delta(0, "b\n"),
        done(0, &message("ab\n")),
        completed(&json!([message("ab\n")])),
    ]);
    assert_eq!(
        events,
        [StreamEvent::TextDelta("a".to_owned()), StreamEvent::TextDelta("b\n".to_owned())]
    );
    let response = response.unwrap();
    assert_eq!(response.message.content, spoken("ab\n"));
    assert_eq!((response.stop, response.usage), (StopReason::EndTurn, None));
    assert_eq!(response.model.as_deref(), Some("m-1"));
}

#[test]
fn every_status_has_its_meaning() {
    for (status, reason, stop) in [
        ("completed", None, StopReason::EndTurn),
        ("incomplete", Some("max_output_tokens"), StopReason::MaxTokens),
        ("incomplete", Some("content_filter"), StopReason::Refused),
        ("incomplete", Some("tired"), StopReason::Other("tired".to_owned())),
        ("incomplete", None, StopReason::Other("incomplete".to_owned())),
        ("cancelled", None, StopReason::Canceled),
        ("paused", None, StopReason::Other("paused".to_owned())),
    ] {
        let details = reason.map(|reason| json!({"reason": reason}));
        let response = json!({"status": status, "incomplete_details": details, "output": []});
        assert_eq!(document(&response).unwrap().stop, stop, "{status}");
        let kind = if status == "paused" { "completed" } else { status };
        let streamed = decode(&[event(kind, &json!({"response": response}))]).1;
        assert_eq!(streamed.unwrap().stop, stop, "{status}");
    }
}

#[test]
fn the_event_tells_the_status_where_the_response_does_not() {
    let details = json!({"incomplete_details": {"reason": "max_output_tokens"}});
    let response = decode(&[event("incomplete", &json!({"response": details}))]).1.unwrap();
    assert_eq!(response.stop, StopReason::MaxTokens);
    assert_eq!(decode(&[event("completed", &json!({}))]).1.unwrap().stop, StopReason::EndTurn);
}

#[test]
fn a_stream_without_its_last_event_broke_off() {
    let whole = [added(0, &message("")), text_delta(0, "a"), done(0, &message("a"))];
    for n in 0..=whole.len() {
        assert_eq!(decode(&whole[..n]).1.unwrap_err().kind, ErrorKind::Incomplete);
    }
    let mut decoder = decoder();
    let end = sse::Event { name: "", data: "[DONE]" };
    decoder.push(&end, &mut drop).unwrap();
    assert!(decoder.is_done() && !decoder.has_stopped());
    assert_eq!(decoder.finish().unwrap_err().kind, ErrorKind::Incomplete);
}

#[test]
fn a_response_still_in_progress_is_no_answer() {
    let error = document(&json!({"status": "in_progress", "output": []})).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Incomplete);
}

#[test]
fn items_that_were_seen_count_where_the_last_event_leaves_them_out() {
    let expected = [spoken("ab").to_vec(), vec![tool_call("c1", "{}")]].concat();
    let frame = AssistantPart::Opaque(kept(&json!({"type": "function_call", "id": "fc_c1"})));
    let seen = [done(1, &call("c1", "{}")), done(0, &message("ab"))];
    for output in [json!([]), json!(null), json!([message("ab")])] {
        let (_, response) = decode(&[seen.to_vec(), vec![completed(&output)]].concat());
        let response = response.unwrap();
        let mut content = expected.clone();
        content.insert(2, frame.clone());
        assert_eq!(response.message.content, content, "{output}");
        assert_eq!(response.stop, StopReason::ToolUse);
    }
}

#[test]
fn pieces_count_where_no_item_was_ever_whole() {
    let delta = |kind: &str, delta: &str| event(kind, &json!({"item_id": "x", "delta": delta}));
    let (events, response) = decode(&[
        event("output_item.added", &json!({"item": {"type": "reasoning", "id": "x"}})),
        delta("reasoning_summary_text.delta", "h"),
        delta("reasoning_summary_text.delta", "m"),
        text_delta(1, "a"),
        text_delta(1, "b"),
        added(
            2,
            &json!({"type": "function_call", "call_id": "c", "name": "f",
            "status": "in_progress"}),
        ),
        event("function_call_arguments.delta", &json!({"output_index": 2, "delta": "{"})),
        event("function_call_arguments.delta", &json!({"output_index": 2, "delta": "}"})),
        event("function_call_arguments.done", &json!({"output_index": 2, "arguments": "{}"})),
        completed(&json!([])),
    ]);
    assert_eq!(events.len(), 7);
    let item = json!({"type": "reasoning", "id": "x",
        "summary": [{"type": "summary_text", "text": "hm"}]});
    let reasoning = Reasoning { text: "hm".to_owned(), payload: Some(kept(&item)) };
    assert_eq!(
        response.unwrap().message.content,
        [
            AssistantPart::Reasoning(reasoning),
            AssistantPart::Text("ab".to_owned()),
            tool_call("c", "{}"),
        ]
    );
}

#[test]
fn what_comes_only_as_a_whole_is_handed_out_too() {
    let reasoning = json!({"type": "reasoning", "id": "rs", "summary": [],
        "content": [{"type": "reasoning_text", "text": "hm"}]});
    let (events, _) = decode(&[
        done(0, &reasoning),
        done(1, &message("a")),
        done(2, &call("c1", "{}")),
        completed(&json!([])),
    ]);
    let delta = |name: Option<&str>, arguments: &str| StreamEvent::ToolCallDelta {
        index: 0,
        name: name.map(str::to_owned),
        arguments: arguments.to_owned(),
    };
    assert_eq!(
        events,
        [
            StreamEvent::ReasoningDelta("hm".to_owned()),
            StreamEvent::TextDelta("a".to_owned()),
            delta(Some("f"), ""),
            delta(None, "{}"),
        ]
    );
}

#[test]
fn parallel_calls_are_told_apart_and_numbered() {
    let delta = |place: u64, delta: &str| {
        event("function_call_arguments.delta", &json!({"output_index": place, "delta": delta}))
    };
    let (events, response) = decode(&[
        added(0, &json!({"type": "reasoning", "id": "rs"})),
        added(1, &call("a", "")),
        added(2, &call("b", "")),
        delta(2, "{\"y\":2}"),
        delta(1, "{\"x\""),
        delta(1, ":1}"),
        completed(&json!([
            {"type": "reasoning", "id": "rs", "summary": []},
            call("a", "{\"x\":1}"),
            call("b", "{\"y\":2}"),
        ])),
    ]);
    let said: Vec<_> = events
        .iter()
        .map(|event| match event {
            StreamEvent::ToolCallDelta { index, arguments, .. } => (*index, arguments.as_str()),
            other => panic!("unexpected {other:?}"),
        })
        .collect();
    assert_eq!(said, [(0, ""), (1, ""), (1, "{\"y\":2}"), (0, "{\"x\""), (0, ":1}")]);
    let message = response.unwrap().message;
    let calls: Vec<_> =
        message.tool_calls().map(|call| (call.id.as_str(), &*call.arguments)).collect();
    assert_eq!(calls, [("a", "{\"x\":1}"), ("b", "{\"y\":2}")]);
}

#[test]
fn summaries_and_texts_of_several_parts_are_set_apart() {
    let delta = |n: u64, delta: &str| {
        let fields = json!({"output_index": 0, "summary_index": n, "delta": delta});
        event("reasoning_summary_text.delta", &fields)
    };
    let item = json!({"type": "reasoning", "id": "rs", "encrypted_content": "e", "summary": [
        {"type": "summary_text", "text": "one"}, {"type": "summary_text", "text": "two"},
    ]});
    let (events, response) = decode(&[
        added(0, &json!({"type": "reasoning", "id": "rs"})),
        delta(0, "o"),
        delta(0, "ne"),
        delta(1, "two"),
        completed(&json!([item])),
    ]);
    let shown: String = events
        .into_iter()
        .map(|event| match event {
            StreamEvent::ReasoningDelta(delta) => delta,
            other => panic!("unexpected {other:?}"),
        })
        .collect();
    assert_eq!(shown, "one\n\ntwo");
    let payload = Some(kept(&item));
    let reasoning = Reasoning { text: "one\n\ntwo".to_owned(), payload };
    assert_eq!(response.unwrap().message.content, [AssistantPart::Reasoning(reasoning)]);
}

#[test]
fn reasoning_that_comes_twice_is_shown_once() {
    let delta = |kind: &str| event(kind, &json!({"output_index": 0, "delta": "hm"}));
    let (events, _) = decode(&[
        added(0, &json!({"type": "reasoning", "id": "rs"})),
        delta("reasoning_text.delta"),
        delta("reasoning_summary_text.delta"),
        completed(&json!([])),
    ]);
    assert_eq!(events, [StreamEvent::ReasoningDelta("hm".to_owned())]);
}

#[test]
fn a_message_of_several_parts_keeps_what_no_reader_sees() {
    let cited = json!({"type": "output_text", "text": "a",
        "annotations": [{"type": "url_citation", "url": "u"}], "logprobs": []});
    let item = json!({"type": "message", "id": "m", "role": "assistant", "phase": "commentary",
    "status": "completed", "content": [
        cited,
        {"type": "output_text", "text": "", "annotations": []},
        {"type": "output_text", "text": "b", "annotations": []},
    ]});
    let response = document(&json!({"status": "completed", "output": [item]})).unwrap();
    let frame = json!({"content": [
            {"annotations": [{"type": "url_citation", "url": "u"}], "type": "output_text"},
            {"type": "output_text"},
        ], "id": "m", "phase": "commentary", "type": "message"});
    assert_eq!(
        response.message.content,
        [
            AssistantPart::Opaque(kept(&frame)),
            AssistantPart::Text("a".to_owned()),
            AssistantPart::Text("b".to_owned()),
        ]
    );
}

#[test]
fn a_refusal_is_kept_as_text_and_told_by_the_stop() {
    let item = json!({"type": "message", "content": [{"type": "refusal", "refusal": "I won't"}]});
    let (events, response) = decode(&[
        added(0, &json!({"type": "message", "content": []})),
        event("refusal.delta", &json!({"output_index": 0, "content_index": 0, "delta": "I won't"})),
        completed(&json!([item])),
    ]);
    let response = response.unwrap();
    assert_eq!(events, [StreamEvent::TextDelta("I won't".to_owned())]);
    assert_eq!(response.message.to_text(), "I won't");
    assert_eq!(response.stop, StopReason::Refused);
}

#[test]
fn items_of_tools_the_provider_runs_are_kept_whole() {
    let search = json!({"action": {"query": "q", "type": "search"}, "id": "ws_1",
        "status": "completed", "type": "web_search_call"});
    let (events, response) = decode(&[
        added(0, &json!({"type": "web_search_call", "id": "ws_1"})),
        event("web_search_call.searching", &json!({"output_index": 0, "item_id": "ws_1"})),
        done(0, &search),
        completed(&json!([search])),
    ]);
    assert_eq!(events, []);
    assert_eq!(response.unwrap().message.content, [AssistantPart::Opaque(kept(&search))]);
}

#[test]
fn calls_without_an_id_get_one_and_arguments_stay_as_they_are() {
    let item =
        |arguments: Value| json!({"type": "function_call", "name": "f", "arguments": arguments});
    let items = [item(json!("{")), item(json!({"a": 1})), item(json!(null))];
    let response = document(&json!({"id": "r", "output": items})).unwrap();
    let calls: Vec<_> = response.message.tool_calls().collect();
    let arguments: Vec<_> = calls.iter().map(|call| &*call.arguments).collect();
    assert_eq!(arguments, ["{", "{\"a\":1}", ""]);
    assert!(calls[0].id.as_str().starts_with("call_") && calls[0].id != calls[1].id);
}

#[test]
fn a_failed_response_tells_why_and_what_was_billed() {
    let response = json!({"status": "failed", "error": {"code": "rate_limit_exceeded", "message": "slow"},
        "output": [], "usage": {"input_tokens": 3, "output_tokens": 1}});
    let streamed = decode(&[event("failed", &json!({"response": response}))]).1;
    for error in [streamed.unwrap_err(), document(&response).unwrap_err()] {
        assert_eq!((error.kind, &*error.message), (ErrorKind::RateLimited, "slow"));
        assert_eq!(error.usage.total(), 4);
    }
    let unsaid = decode(&[event("failed", &json!({"response": {"error": null}}))]).1;
    assert_eq!(unsaid.unwrap_err().kind, ErrorKind::Overloaded);
}

#[test]
fn an_error_is_read_in_every_shape() {
    for error in [
        json!({"type": "error", "code": "context_length_exceeded", "message": "no", "param": null}),
        json!({"type": "error", "error": {"code": "context_length_exceeded", "message": "no"}}),
        json!({"error": {"code": "context_length_exceeded", "message": "no"}}),
    ] {
        let (_, response) = decode(&[added(0, &message("")), text_delta(0, "a"), error]);
        let error = response.unwrap_err();
        assert_eq!((error.kind, &*error.message), (ErrorKind::ContextOverflow, "no"));
    }
    let error = document(&json!({"error": {"code": 402, "message": "no credit"}})).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Quota);
}

#[test]
fn the_name_of_an_event_stands_in_for_its_type() {
    let push = |name, data| {
        let mut decoder = decoder();
        decoder.push(&sse::Event { name, data }, &mut drop)?;
        decoder.finish()
    };
    assert_eq!(push("response.completed", "{}").unwrap().stop, StopReason::EndTurn);
    let error = push("error", r#"{"code":"rate_limit_exceeded","message":"slow"}"#).unwrap_err();
    assert_eq!(error.kind, ErrorKind::RateLimited);
}

#[test]
fn what_is_no_answer_is_refused() {
    for body in ["{}", "[1", "<html>", r#"{"choices":[]}"#] {
        let error = decoder().document(body.as_bytes()).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Decode, "{body}");
    }
    let event = sse::Event { name: "", data: "<html>" };
    assert_eq!(decoder().push(&event, &mut drop).unwrap_err().kind, ErrorKind::Decode);
    let cut = "event: response.created\ndata: {\"type\":\"response.created\"}\n\n";
    assert_eq!(decoder().whole(cut.as_bytes()).unwrap_err().kind, ErrorKind::Incomplete);
}

#[test]
fn signs_of_life_change_nothing() {
    let mut decoder = decoder();
    for (name, data) in [("ping", ""), ("", " "), ("", "{}"), ("", r#"{"type":"ping"}"#)] {
        decoder.push(&sse::Event { name, data }, &mut drop).unwrap();
    }
    assert!(!decoder.is_done());
}

#[test]
fn events_of_another_day_change_nothing() {
    let (events, response) = decode(&[
        json!({"type": "keepalive", "sequence_number": 3}),
        event("holographic.delta", &json!({"delta": {"x": 1}, "output_index": 9, "item_id": 4})),
        completed(&json!([message("a")])),
        text_delta(0, "late"),
    ]);
    assert_eq!(events, []);
    assert_eq!(response.unwrap().message.to_text(), "a");
}

#[test]
fn usage_keeps_unknown_and_zero_apart() {
    let usage = |usage: Value| document(&json!({"output": [], "usage": usage})).unwrap().usage;
    assert_eq!(usage(json!(null)), None);
    assert_eq!(usage(json!({})), None);
    assert_eq!(
        usage(json!({"input_tokens": 5, "output_tokens": 2.0, "input_tokens_details": null})),
        Some(Usage { input: 5, output: 2, ..Usage::default() })
    );
    assert_eq!(
        usage(json!({
            "input_tokens": 5, "output_tokens": 2,
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 3},
            "output_tokens_details": {"reasoning_tokens": 1},
        })),
        Some(Usage {
            input: 5,
            output: 2,
            cache_read: Some(0),
            cache_write: Some(3),
            reasoning: Some(1),
        })
    );
}

#[test]
fn a_failure_that_would_repeat_is_told_from_one_that_may_pass() {
    for (code, kind) in [
        ("invalid_prompt", ErrorKind::InvalidRequest),
        ("invalid_image_url", ErrorKind::InvalidRequest),
        ("image_parse_error", ErrorKind::InvalidRequest),
        ("image_content_policy_violation", ErrorKind::Refused),
        ("vector_store_timeout", ErrorKind::Overloaded),
        ("server_error", ErrorKind::Overloaded),
    ] {
        let response = json!({"status": "failed", "error": {"code": code, "message": "no"}});
        assert_eq!(document(&response).unwrap_err().kind, kind, "{code}");
    }
}

#[test]
fn items_are_told_apart_whatever_a_gateway_makes_of_places_and_ids() {
    let delta = |kind: &str, id: &str, delta: &str| {
        event(kind, &json!({"output_index": 0, "item_id": id, "delta": delta}))
    };
    let bare = |kind: &str, delta: &str| event(kind, &json!({"delta": delta}));
    let (arguments, thought) = ("function_call_arguments.delta", "reasoning_text.delta");
    let shared_place = [
        added(0, &json!({"type": "reasoning", "id": "rs"})),
        delta(thought, "rs_a", "h"),
        delta(thought, "rs_b", "m"),
        delta("output_text.delta", "msg", "ab"),
        added(0, &call("c1", "")),
        delta(arguments, "fc_c1", "{\"x\":1}"),
        added(0, &call("c2", "")),
        delta(arguments, "fc_c2", "{\"y\""),
        delta(arguments, "fc_c2", ":2}"),
    ];
    let unplaced = [
        bare(thought, "hm"),
        bare("output_text.delta", "ab"),
        event("output_item.added", &json!({"item": call("c1", "")})),
        bare(arguments, "{\"x\":1}"),
        event("output_item.added", &json!({"item": call("c2", "")})),
        bare(arguments, "{\"y\":2}"),
    ];
    let whole = json!([
        {"type": "reasoning", "id": "rs", "summary": []},
        message("ab"),
        call("c1", "{\"x\":1}"),
        call("c2", "{\"y\":2}"),
    ]);
    for events in [&shared_place[..], &unplaced[..]] {
        for end in [json!([]), whole.clone()] {
            let (_, response) = decode(&[events, &[completed(&end)]].concat());
            let message = response.unwrap().message;
            assert_eq!(message.to_text(), "ab");
            let calls: Vec<_> =
                message.tool_calls().map(|call| (call.id.as_str(), &*call.arguments)).collect();
            assert_eq!(calls, [("c1", "{\"x\":1}"), ("c2", "{\"y\":2}")], "{end}");
            let reasoning =
                message.content.iter().filter(|part| matches!(part, AssistantPart::Reasoning(_)));
            assert_eq!(reasoning.count(), 1);
        }
    }
}

#[test]
fn an_item_that_comes_twice_is_one() {
    let (_, response) = decode(&[
        done(0, &message("a")),
        added(0, &message("")),
        done(0, &message("a")),
        completed(&json!([])),
    ]);
    assert_eq!(response.unwrap().message.content, spoken("a"));
}
