use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::*;
use crate::Usage;

fn decode(chunks: &[Value]) -> (Vec<StreamEvent>, Result<Response, ModelError>) {
    decode_with(7, chunks)
}

fn decode_with(salt: u64, chunks: &[Value]) -> (Vec<StreamEvent>, Result<Response, ModelError>) {
    let mut decoder = Decoder::new("mine".into(), salt);
    let mut events = Vec::new();
    for chunk in chunks {
        let data = chunk.to_string();
        let event = sse::Event { name: "", data: &data };
        if let Err(error) = decoder.push(&event, &mut |event| events.push(event)) {
            return (events, Err(error));
        }
    }
    (events, decoder.finish())
}

/// A chunk in the middle of a reply.
fn parts(parts: &Value) -> Value {
    json!({"candidates": [{"content": {"role": "model", "parts": parts}, "index": 0}]})
}

/// The chunk that ends a reply.
fn last(reason: &str) -> Value {
    json!({"candidates": [{"content": {"role": "model"}, "finishReason": reason}]})
}

fn content(chunks: &[Value]) -> Vec<AssistantPart> {
    let mut chunks = chunks.to_vec();
    chunks.push(last("STOP"));
    decode(&chunks).1.unwrap().message.content
}

fn failure(chunks: &[Value]) -> ModelError {
    decode(chunks).1.unwrap_err()
}

fn item(text: &str) -> Opaque {
    Opaque { provider: "mine".to_owned(), item: RawJson::parse(text).unwrap() }
}

fn opaque(text: &str) -> AssistantPart {
    AssistantPart::Opaque(item(text))
}

fn text(text: &str) -> AssistantPart {
    AssistantPart::Text(text.to_owned())
}

#[test]
fn text_is_joined_and_its_deltas_are_handed_out() {
    let chunks = [
        parts(&json!([{"text": "a"}])),
        parts(&json!([{"text": ""}, {"text": "b"}])),
        last("STOP"),
    ];
    let (events, response) = decode(&chunks);
    let delta = |text: &str| StreamEvent::TextDelta(text.to_owned());
    assert_eq!(events, [delta("a"), delta("b")]);
    let response = response.unwrap();
    assert_eq!(response.message, AssistantMessage::text("ab"));
    assert_eq!((response.stop, response.usage), (StopReason::EndTurn, None));
}

#[test]
fn every_finish_reason_has_its_meaning() {
    for (reason, stop) in [
        ("STOP", StopReason::EndTurn),
        ("MAX_TOKENS", StopReason::MaxTokens),
        ("SAFETY", StopReason::Refused),
        ("RECITATION", StopReason::Refused),
        ("LANGUAGE", StopReason::Refused),
        ("BLOCKLIST", StopReason::Refused),
        ("PROHIBITED_CONTENT", StopReason::Refused),
        ("SPII", StopReason::Refused),
        ("IMAGE_SAFETY", StopReason::Refused),
        ("OTHER", StopReason::Other("OTHER".to_owned())),
        ("TOO_MANY_TOOL_CALLS", StopReason::Other("TOO_MANY_TOOL_CALLS".to_owned())),
    ] {
        assert_eq!(decode(&[last(reason)]).1.unwrap().stop, stop, "{reason}");
    }
    for (reason, kind) in [
        ("MALFORMED_FUNCTION_CALL", ErrorKind::Incomplete),
        ("UNEXPECTED_TOOL_CALL", ErrorKind::Incomplete),
        ("MISSING_THOUGHT_SIGNATURE", ErrorKind::InvalidRequest),
    ] {
        let error = failure(&[last(reason)]);
        assert_eq!((error.kind, error.code.as_deref()), (kind, Some(reason)));
    }
}

#[test]
fn a_failed_reply_keeps_what_was_billed_and_what_was_said_about_it() {
    let error = failure(&[json!({
        "candidates": [{"finishReason": "MALFORMED_FUNCTION_CALL", "finishMessage": "call(x"}],
        "usageMetadata": {"promptTokenCount": 9, "totalTokenCount": 9},
    })]);
    assert_eq!(error.message, "the model wrote no valid call (MALFORMED_FUNCTION_CALL): call(x");
    assert_eq!(error.usage, Usage { input: 9, ..Usage::default() });
    let usage = json!({"usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 2}});
    let broken = failure(&[parts(&json!([{"text": "a"}])), usage.clone()]);
    assert_eq!((broken.kind, broken.usage.total()), (ErrorKind::Incomplete, 5));
    let error = failure(&[usage, json!({"error": {"code": 503, "status": "UNAVAILABLE"}})]);
    assert_eq!((error.kind, error.status), (ErrorKind::Overloaded, Some(503)));
    assert_eq!(error.usage.total(), 5);
}

#[test]
fn an_unspecified_reason_is_none() {
    let chunks = [parts(&json!([{"text": "a"}])), last("FINISH_REASON_UNSPECIFIED")];
    assert_eq!(failure(&chunks).kind, ErrorKind::Incomplete);
}

#[test]
fn a_blocked_prompt_is_refused() {
    let error = failure(&[json!({
        "promptFeedback": {"blockReason": "PROHIBITED_CONTENT"},
        "usageMetadata": {"promptTokenCount": 4},
    })]);
    assert_eq!((error.kind, error.usage.input), (ErrorKind::Refused, 4));
    assert_eq!(error.code.as_deref(), Some("PROHIBITED_CONTENT"));
    let ratings = json!({"promptFeedback": {"safetyRatings": []}});
    assert_eq!(decode(&[ratings, last("STOP")]).1.unwrap().stop, StopReason::EndTurn);
}

#[test]
fn errors_inside_a_stream_may_be_wrapped_into_an_array() {
    let error = failure(&[json!([{"error": {
        "code": 429, "message": "slow down", "status": "RESOURCE_EXHAUSTED",
        "details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "2s"}],
    }}])]);
    assert_eq!((error.kind, error.status), (ErrorKind::RateLimited, Some(429)));
    assert_eq!(error.retry_after, Some(std::time::Duration::from_secs(2)));
}

#[test]
fn thoughts_are_reasoning_and_end_where_something_else_begins() {
    let chunks = [
        parts(&json!([{"text": "hm", "thought": true}])),
        parts(&json!([{"text": "m", "thought": true}, {"text": "so"}])),
        parts(&json!([{"text": "wait", "thought": true}])),
        last("STOP"),
    ];
    let (events, response) = decode(&chunks);
    let thought = |text: &str| StreamEvent::ReasoningDelta(text.to_owned());
    let said = StreamEvent::TextDelta("so".to_owned());
    assert_eq!(events, [thought("hm"), thought("m"), said, thought("wait")]);
    let reasoning =
        |text: &str| AssistantPart::Reasoning(Reasoning { text: text.to_owned(), payload: None });
    let expected = [reasoning("hmm"), text("so"), reasoning("wait")];
    assert_eq!(response.unwrap().message.content, expected);
}

#[test]
fn a_signature_stands_before_what_it_signs() {
    let signed = json!([{"text": "a"}, {"text": "b", "thoughtSignature": "S"}, {"text": "c"}]);
    let mark = opaque(r#"{"thoughtSignature":"S","text":[1,2]}"#);
    assert_eq!(content(&[parts(&signed)]), [mark, text("abc")]);

    let trailing = [parts(&json!([{"text": "ab"}])), parts(&json!([{"thoughtSignature": "S"}]))];
    let mark = opaque(r#"{"thoughtSignature":"S","text":[2,2]}"#);
    assert_eq!(content(&trailing), [mark, text("ab")], "the last part is the text");

    let calls = json!([
        {"functionCall": {"id": "1", "name": "f"}, "thoughtSignature": "S"},
        {"functionCall": {"id": "2", "name": "f"}, "thoughtSignature": ""},
    ]);
    let call = |id: &str| {
        AssistantPart::ToolCall(ToolCall {
            id: id.into(),
            name: "f".to_owned(),
            arguments: "{}".to_owned(),
        })
    };
    let mark = opaque(r#"{"thoughtSignature":"S"}"#);
    assert_eq!(content(&[parts(&calls)]), [mark, call("1"), call("2")]);

    let thoughts = json!([
        {"text": "h", "thought": true},
        {"text": "m", "thought": true, "thoughtSignature": "S"},
        {"text": "?", "thought": true},
    ]);
    let payload = Some(item(r#"{"thoughtSignature":"S","text":[1,2]}"#));
    let expected = [
        AssistantPart::Reasoning(Reasoning { text: "hm".to_owned(), payload }),
        AssistantPart::Reasoning(Reasoning { text: "?".to_owned(), payload: None }),
    ];
    assert_eq!(content(&[parts(&thoughts)]), expected);
}

#[test]
fn a_signature_keeps_its_bytes() {
    let data = r#"{"candidates":[{"content":{"parts":[{"text":"a","thoughtSignature":"A\u003d\u003d"}]},"finishReason":"STOP"}]}"#;
    let response = Decoder::new("mine".into(), 1).document(data.as_bytes()).unwrap();
    let AssistantPart::Opaque(item) = &response.message.content[0] else { panic!("no item") };
    assert_eq!(item.item.as_str(), r#"{"thoughtSignature":"A\u003d\u003d","text":[0,1]}"#);
}

#[test]
fn parts_of_other_kinds_are_kept_as_they_are() {
    let code = json!({"executableCode": {"language": "PYTHON", "code": "1"}});
    let result = json!({"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}});
    let image = json!({"inlineData": {"mimeType": "image/png", "data": "AA=="},
        "thoughtSignature": "S"});
    let chunk = parts(&json!([code, result, {"text": "a"}, image]));
    let expected = [
        opaque(&code.to_string()),
        opaque(&result.to_string()),
        text("a"),
        opaque(&image.to_string()),
    ];
    assert_eq!(content(&[chunk]), expected);
}

#[test]
fn calls_without_ids_get_some_that_collide_with_no_other() {
    let reply = [
        parts(&json!([{"functionCall": {"name": "f", "args": {"a": 1}}}, {"functionCall": {}}])),
        parts(&json!([{"functionCall": {"id": "own", "name": "g", "args": null}}])),
        last("STOP"),
    ];
    let calls = |salt| {
        let response = decode_with(salt, &reply).1.unwrap();
        assert_eq!(response.stop, StopReason::ToolUse);
        response.message.tool_calls().cloned().collect::<Vec<_>>()
    };
    let (first, again, other) = (calls(1), calls(1), calls(2));
    assert_eq!(first, again);
    assert_ne!(first[0].id, first[1].id);
    assert_ne!(first[0].id, other[0].id);
    assert_eq!(first[2].id.as_str(), "own");
    let arguments: Vec<_> = first.iter().map(|call| call.arguments.as_str()).collect();
    assert_eq!(arguments, [r#"{"a":1}"#, "{}", "{}"]);
}

#[test]
fn calls_are_handed_out_whole() {
    let (events, _) = decode(&[parts(&json!([{"functionCall": {"name": "f", "args": {"a": 1}}}]))]);
    let arguments = r#"{"a":1}"#.to_owned();
    let delta = StreamEvent::ToolCallDelta { index: 0, name: Some("f".to_owned()), arguments };
    assert_eq!(events, [delta]);
}

#[test]
fn a_cut_reply_with_calls_is_cut_all_the_same() {
    let calls = parts(&json!([{"functionCall": {"name": "f"}}]));
    assert_eq!(decode(&[calls, last("MAX_TOKENS")]).1.unwrap().stop, StopReason::MaxTokens);
}

fn usage(counts: &[Value]) -> Option<Usage> {
    let mut chunks: Vec<Value> =
        counts.iter().map(|counts| json!({"usageMetadata": counts})).collect();
    chunks.insert(0, last("STOP"));
    decode(&chunks).1.unwrap().usage
}

#[test]
fn usage_adds_up_to_the_providers_total() {
    let counts = json!({
        "promptTokenCount": 25, "toolUsePromptTokenCount": 75, "cachedContentTokenCount": 5,
        "candidatesTokenCount": 30, "thoughtsTokenCount": 34, "totalTokenCount": 164,
    });
    let expected = Usage {
        input: 100,
        output: 64,
        cache_read: Some(5),
        cache_write: None,
        reasoning: Some(34),
    };
    assert_eq!(usage(&[counts]), Some(expected));
    assert_eq!(expected.total(), 164);
    // Some servers count thoughts among the candidates' tokens; their total shows it.
    let counts = json!({"promptTokenCount": 10, "candidatesTokenCount": 30,
        "thoughtsTokenCount": 20, "totalTokenCount": 40});
    assert_eq!(usage(&[counts]).unwrap().output, 30);
    assert_eq!(usage(&[json!({})]), None);
}

#[test]
fn usage_that_comes_after_the_end_counts_and_replaces_what_came_before() {
    let early = json!({"promptTokenCount": 10, "cachedContentTokenCount": 8});
    let late = json!({"promptTokenCount": 10, "candidatesTokenCount": 3});
    let expected = Usage { input: 10, output: 3, cache_read: Some(8), ..Usage::default() };
    assert_eq!(usage(&[early, late]), Some(expected));
}

#[test]
fn only_the_first_candidate_is_taken() {
    let chunk = json!({"candidates": [
        {"content": {"parts": [{"text": "a"}]}, "finishReason": "STOP"},
        {"index": 1, "content": {"parts": [{"text": "b"}]}, "finishReason": "SAFETY"},
    ], "modelVersion": "gemini-x"});
    let response = decode(&[chunk]).1.unwrap();
    assert_eq!((response.message.to_text(), response.stop), ("a".to_owned(), StopReason::EndTurn));
    assert_eq!(response.model.as_deref(), Some("gemini-x"));
}

#[test]
fn a_document_may_be_an_array_of_chunks() {
    let chunks =
        json!([parts(&json!([{"text": "a"}])), parts(&json!([{"text": "b"}])), last("STOP")]);
    let document = |body: &str| Decoder::new("mine".into(), 1).document(body.as_bytes());
    assert_eq!(document(&chunks.to_string()).unwrap().message, AssistantMessage::text("ab"));
    for body in ["{}", "[]", "x", r#"{"candidates":[]}"#] {
        assert_eq!(document(body).unwrap_err().kind, ErrorKind::Decode, "{body}");
    }
    let pretty = "{\"candidates\":[{\"content\":{\"parts\":[{\"functionCall\":{\"name\":\"f\",\"args\":{\n  \"a\": 1\n}}}]}}]}";
    let response = document(pretty).unwrap();
    assert_eq!(response.message.tool_calls().next().unwrap().arguments, "{\n  \"a\": 1\n}");
}

#[test]
fn what_is_no_chunk_is_not_understood() {
    for data in ["{", "1", r#"{"candidates":[{"content":{"parts":[{"text":1}]}}]}"#] {
        let mut decoder = Decoder::new("mine".into(), 1);
        let error = decoder.push(&sse::Event { name: "", data }, &mut drop).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Decode, "{data}");
    }
}

#[test]
fn a_gateways_own_end_marker_ends_the_reply() {
    let mut decoder = Decoder::new("mine".into(), 1);
    decoder.push(&sse::Event { name: "", data: "[DONE]" }, &mut drop).unwrap();
    assert!(decoder.is_done());
    assert_eq!(decoder.finish().unwrap_err().kind, ErrorKind::Incomplete);
}
