//! `tool_scope`.

use bowline_agent::effect::ToolScope;
use bowline_llm::Request;
use pretty_assertions::assert_eq;

use super::{call, done, then_done, with};

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
