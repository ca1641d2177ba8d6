//! `tool_scope`.

use std::sync::Arc;

use bowline_agent::effect::ToolScope;
use bowline_agent::event::EventBody;
use bowline_agent::gate::{Review, Verdict, gate_fn};
use bowline_agent::tool::{DynTool, PassedOn, Prepared, ToolError, parse_arguments};
use bowline_llm::scripted::Reply;
use bowline_llm::{Request, ToolSpec};
use pretty_assertions::assert_eq;
use serde_json::json;

use super::{call, done, then_done, with};
use crate::support::{echo, stage};

fn names(request: &Request) -> Vec<&str> {
    request.tools.specs().iter().map(|spec| spec.name.as_str()).collect()
}

#[tokio::test]
async fn a_tool_that_is_excluded_is_shown_and_denied() {
    let effect = ToolScope { exclude: vec!["echo".into()], hide: false };
    let stage = with(effect, then_done([call("echo", "x"), call("count", "")]));
    let told = stage.play().await;
    assert_eq!(told.ends(), ["tool_end(call_1, denied)", "tool_end(call_2, ok)"]);
    assert_eq!(told.result("call_1"), "denied: the tool echo is out of scope here (tool_scope)");
    assert_eq!(names(&stage.model.requests()[0]), ["echo", "fail", "count"]);
    assert!(!told.call_lines().contains(&"tool_start(call_1)".to_owned()));
}

// M18: what is hidden cannot be called.
#[tokio::test]
async fn a_tool_that_is_hidden_is_denied_all_the_same() {
    let effect = ToolScope { exclude: vec!["echo".into(), "nothing".into()], hide: true };
    let stage = with(effect, then_done([call("echo", "x")]));
    let told = stage.play().await;
    assert_eq!(told.ends(), ["tool_end(call_1, denied)"]);
    let requests = stage.model.requests();
    assert_eq!(names(&requests[0]), ["fail", "count"]);
    assert_eq!(requests[1].tools, requests[0].tools);
}

#[tokio::test]
async fn an_empty_list_changes_nothing() {
    let stage = with(ToolScope::default(), [done()]);
    stage.play().await;
    let bare = stage.clone().change(|agent| agent.effects.clear());
    bare.model.push(done());
    bare.play().await;
    let requests = stage.model.requests();
    assert_eq!(requests[0].tools, requests[1].tools);
    assert_eq!(names(&requests[0]), ["echo", "fail", "count"]);
}

/// A tool that passes calls on to `echo` whatever it is to be called there.
struct Passing;

impl DynTool for Passing {
    fn spec(&self) -> ToolSpec {
        ToolSpec { name: "pass".to_owned(), ..echo().spec() }
    }

    fn passes_on(&self) -> bool {
        true
    }

    fn prepare(self: Arc<Self>, arguments: &str) -> Result<Prepared, ToolError> {
        let passed: PassedOn = parse_arguments(arguments)?;
        (Arc::new(echo()) as Arc<dyn DynTool>).prepare(passed.arguments())
    }
}

fn pass(to: &str, text: &str) -> Reply {
    Reply::call("pass", json!({ "name": to, "arguments": { "text": text } }).to_string())
}

#[tokio::test]
async fn what_is_excluded_cannot_be_reached_through_another_tool() {
    let effect = ToolScope { exclude: vec!["far".into()], hide: false };
    let stage = with(effect, then_done([pass("far", "x"), pass("near", "y")])).with(Passing);
    let told = stage.play().await;
    assert_eq!(told.ends(), ["tool_end(call_1, denied)", "tool_end(call_2, ok)"]);
    assert_eq!(told.result("call_1"), "denied: the tool far is out of scope here (tool_scope)");
    let passed = told.events.iter().find_map(|event| match &event.body {
        EventBody::ToolStart { name, passed_to, .. } => Some((name.clone(), passed_to.clone())),
        _ => None,
    });
    assert_eq!(passed, Some(("pass".to_owned(), Some("near".to_owned()))));
}

#[tokio::test]
async fn a_gate_reviews_and_rewrites_the_call_that_is_really_made() {
    let stage = stage(then_done([pass("far", "x"), pass("near", "y")])).with(Passing);
    let stage = stage.change(|agent| {
        agent.gate = Arc::new(gate_fn(|review: &Review<'_>| {
            match (review.call.name.as_str(), review.call.arguments.as_str()) {
                ("far", _) => Verdict::Deny { reason: "too far".to_owned() },
                ("near", r#"{"text":"y"}"#) => {
                    Verdict::Rewrite { arguments: r#"{"text":"z"}"#.to_owned() }
                }
                ("near", r#"{"text":"z"}"#) => Verdict::Allow { rule: None },
                other => Verdict::Deny { reason: format!("{other:?}") },
            }
        }));
    });
    let told = stage.play().await;
    assert_eq!(told.result("call_1"), "denied: too far");
    assert_eq!(told.result("call_2"), "z");
    assert!(
        told.call_lines().contains(
            &r#"tool_start(call_2, {"name":"near","arguments":{"text":"z"}})"#.to_owned()
        ),
        "{:?}",
        told.call_lines()
    );
}
