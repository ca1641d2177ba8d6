//! Conversation in plain lines.

use std::fs;
use std::process::Command;

use bowline_llm::{
    AssistantMessage, AssistantPart, ErrorKind, Message, Model as _, Part, Request, StopReason,
    ToolCall, ToolResult,
};
use bowline_local::{LocalModel, Way};
use futures::StreamExt as _;
use futures::executor::block_on;
use pretty_assertions::assert_eq;
use proptest::prelude::*;
use serde_json::Value;

use crate::{Place, ask, gguf, request};

const TOOLS: [(&str, &str); 5] = [
    ("read", r#"{"type":"object"}"#),
    ("write", r#"{"type":"object"}"#),
    ("list", r#"{"type":"object"}"#),
    ("grep", r#"{"type":"object"}"#),
    ("bash", r#"{"type":"object"}"#),
];

/// A model that would say "aaaa…" if it were let.
fn place() -> Place {
    let a = usize::from(b'a');
    let chain: Vec<(usize, usize)> = (0..256).map(|byte| (byte, a)).collect();
    Place::new(&gguf::Model { chain: &chain, ..gguf::Model::default() })
}

/// Opens the model with a window that is large enough for its letters, each of which is a token.
fn open(place: &Place) -> LocalModel {
    place.open_with(Some(4096)).unwrap()
}

fn said(text: &str) -> Request {
    request(vec![Message::user(text)], &TOOLS)
}

/// Returns the conversation after a call and its result.
fn after(text: &str, call: &ToolCall, result: &str, is_error: bool) -> Vec<Message> {
    let said = AssistantMessage { content: vec![AssistantPart::ToolCall(call.clone())] };
    let result = ToolResult {
        call: call.id.clone(),
        name: call.name.clone(),
        content: vec![Part::Text(result.to_owned())].into(),
        is_error,
    };
    vec![Message::user(text), Message::Assistant(said.into()), Message::Results(vec![result])]
}

#[test]
fn a_request_that_names_a_file_is_about_that_file() {
    let place = place();
    let model = open(&place);
    assert_eq!(model.way(), Way::Lines);
    assert_eq!(place.open().info().context_window, Some(2048));
    let response = ask(&model, said("What is the port in server.toml?")).response();
    assert_eq!(response.stop, StopReason::ToolUse);
    let call = response.message.tool_calls().next().unwrap().clone();
    assert_eq!((&*call.name, &*call.arguments), ("read", r#"{"path":"server.toml"}"#));
    assert!(response.usage.unwrap().input > 100);
}

#[test]
fn after_a_success_comes_an_answer_and_after_a_failure_another_call() {
    let place = place();
    let model = open(&place);
    let text = "What is the port in server.toml?";
    let response = ask(&model, said(text)).response();
    let call = response.message.tool_calls().next().unwrap().clone();
    let failed = after(text, &call, "server.toml is not there", true);
    let response = ask(&model, request(failed, &TOOLS)).response();
    let other = response.message.tool_calls().next().unwrap();
    assert_ne!(other.name, call.name);
    assert_ne!(other.id, call.id);
    let reply = ask(&model, request(after(text, &call, "port = 1", false), &TOOLS));
    let told = reply.told();
    let response = reply.response();
    assert_eq!(response.stop, StopReason::EndTurn);
    assert_eq!(response.message.to_text(), told);
    assert!(!told.is_empty() && !told.contains('\n'), "{told:?}");
}

#[test]
fn without_tools_there_are_answers_only() {
    let place = place();
    let response = ask(&open(&place), request(vec![Message::user("Read a.txt")], &[])).response();
    assert_eq!(response.stop, StopReason::EndTurn);
    assert_eq!(response.message.tool_calls().count(), 0);
}

#[test]
fn what_was_read_before_changes_no_answer() {
    let place = place();
    let warm = open(&place);
    let first = ask(&warm, said("Find tomatoes")).response();
    let again = ask(&warm, said("Find carrots")).response();
    let fresh = ask(&open(&place), said("Find carrots")).response();
    let arguments = |response: &bowline_llm::Response| {
        response.message.tool_calls().map(|call| call.arguments.clone()).collect::<Vec<_>>()
    };
    assert_eq!(arguments(&again), arguments(&fresh));
    assert_ne!(arguments(&again), arguments(&first));
    let usage = again.usage.unwrap();
    assert!(usage.cache_read.unwrap() > usage.input / 2, "{usage:?}");
}

#[test]
fn what_does_not_fit_is_an_overflow_and_old_turns_go_first() {
    let place = place();
    let model = open(&place);
    let long = "word ".repeat(2000);
    let error = ask(&model, said(&long)).error();
    assert_eq!(error.kind, ErrorKind::ContextOverflow, "{error}");
    let mut messages = vec![Message::user(long), Message::assistant("Yes.")];
    messages.push(Message::user("What is in a.txt?"));
    let response = ask(&model, request(messages, &TOOLS)).response();
    assert_eq!(response.message.tool_calls().next().unwrap().arguments, r#"{"path":"a.txt"}"#);
}

#[test]
fn a_reply_that_nobody_hears_ends() {
    let place = place();
    let model = open(&place);
    let mut stream = model.stream(request(vec![Message::user("Say something")], &[]));
    assert!(block_on(stream.next()).unwrap().is_ok());
    drop(stream);
    // The next one is answered.
    ask(&model, said("Read a.txt")).response();
}

#[test]
fn within_tokio_a_model_that_is_busy_is_dropped_without_waiting() {
    let place = place();
    let model = open(&place);
    fs::remove_file(place.path()).unwrap();
    assert!(Command::new("mkfifo").arg(place.path()).status().unwrap().success());
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let file = runtime.block_on(async {
        let mut stream = model.stream(request(vec![Message::user("Say something")], &[]));
        assert!(futures::poll!(stream.next()).is_pending());
        // It loads as long as this is open: opening it for writing waits for one who reads.
        let file = fs::OpenOptions::new().write(true).open(place.path()).unwrap();
        drop(model);
        drop(stream);
        file
    });
    drop(file);
    // The end of the runtime waits for the end of the thread.
    drop(runtime);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    /// Whatever is asked, a call has the arguments of its tool, copied from the request.
    #[test]
    fn every_call_is_well_formed(text in r#"([a-zA-Z"'`.\\/{}()äß🦀-]{1,8}[ \n]){1,12}"#) {
        let place = place();
        let response = ask(&open(&place), said(&text)).response();
        for call in response.message.tool_calls() {
            let arguments: Value = serde_json::from_str(&call.arguments).unwrap();
            let keys: &[&str] = match call.name.as_str() {
                "read" => &["path"],
                "write" => &["path", "content"],
                "list" => &["path"],
                "grep" => &["pattern"],
                other => panic!("{other} is no tool of this model"),
            };
            for key in keys {
                let argument = arguments[*key].as_str().unwrap();
                let copied = argument.trim_end_matches('\n').replace('\\', "");
                let line = text.replace('\\', "").replace('\n', " ");
                prop_assert!(copied == "." || line.contains(&copied), "{argument:?} of {text:?}");
            }
        }
    }
}
