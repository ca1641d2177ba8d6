//! Tools of which the model is told only when it looks for them.

use std::sync::Arc;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use bowline_agent::Agent;
use bowline_agent::effect::ToolScope;
use bowline_agent::event::EventBody;
use bowline_llm::scripted::{Reply, ScriptedModel};
use bowline_llm::{Message, text_of};
use bowline_tools::mcp::Scope;

use super::{Way, parts, servers, tools};
use crate::desk::{Desk, failure};
use crate::mcp_server::{Manners, McpServer};

#[tokio::test]
async fn many_tools_are_found_and_called_by_two() {
    let manners = Manners { more_tools: 200, ..Manners::default() };
    let (desk, server) = (Desk::new(), McpServer::start(manners));
    let servers = servers(&desk, &server, Way::Lines, false).await;
    assert_eq!(tools(&servers).len(), 210);
    let few = servers.tools(&Scope::default(), 24_000);
    assert_eq!(few.names().collect::<Vec<_>>(), ["tool_search", "tool_call"]);
    let text = |name: &'static str, arguments: Value| {
        let (desk, few) = (&desk, &few);
        async move { parts(desk, few, name, arguments).await.map(|parts| text_of(&parts)) }
    };
    let found = text("tool_search", json!({ "query": "polish gadget 137" })).await.unwrap();
    assert!(found.starts_with("mcp__test__thing_137: Polishes the gadget of kind 137"), "{found}");
    assert!(
        found.contains("\"required\":[\"times\"]") && found.contains("of 210 tools"),
        "{found}"
    );
    assert!(found.len() < 6000, "{}", found.len());
    let none = text("tool_search", json!({ "query": "xylophone" })).await.unwrap();
    assert_eq!(none, "none of 210 tools matches; try other words");

    let good = json!({ "name": "mcp__test__thing_137", "arguments": { "times": 2 } });
    assert_eq!(text("tool_call", good).await.unwrap(), "{\"times\":2}");
    let bad = json!({ "name": "mcp__test__thing_137", "arguments": { "times": "two" } });
    let complaint = failure(text("tool_call", bad).await);
    assert!(complaint.contains("/times: \"two\" is not of type \"integer\""), "{complaint}");
    assert_eq!(server.seen_of("tools/call").len(), 1);
    let unknown = failure(text("tool_call", json!({ "name": "thing_137" })).await);
    assert!(unknown.contains("did you mean mcp__test__thing_137"), "{unknown}");
    // What a call touches is what the tool behind it touches.
    let access = |name: &str| {
        let arguments = json!({ "name": name }).to_string();
        few.get("tool_call").unwrap().prepare(&arguments).map(|it| it.access.exclusive)
    };
    assert!(!access("mcp__test__echo").unwrap() && access("mcp__test__env").unwrap());
}

/// Has an agent with effects make calls, and returns what it was told of each, and to which tools they
/// were passed on.
async fn played(
    effects: impl IntoIterator<Item = ToolScope>,
    calls: impl IntoIterator<Item = (&'static str, Value)>,
) -> (Vec<String>, Vec<String>) {
    let manners = Manners { more_tools: 200, ..Manners::default() };
    let (desk, server) = (Desk::new(), McpServer::start(manners));
    let servers = servers(&desk, &server, Way::Lines, false).await;
    let replies =
        calls.into_iter().map(|(tool, arguments)| Reply::call(tool, arguments.to_string()));
    let model = ScriptedModel::new(replies.chain([Reply::text("done")]));
    let effects = effects.into_iter().map(|effect| Arc::new(effect) as _).collect();
    let more_tools = Some(servers.source(Scope::default(), 24_000));
    let handle = Agent { effects, more_tools, ..Agent::new(Arc::new(model)) }.start();
    let mut run = handle.prompt("go");
    let mut passed = Vec::new();
    while let Some(event) = futures::StreamExt::next(&mut run).await {
        if let EventBody::ToolStart { passed_to, .. } = &event.body {
            passed.extend(passed_to.clone());
        }
    }
    let messages = handle.messages();
    let results = messages.iter().filter_map(|message| match &**message {
        Message::Results(results) => Some(text_of(&results[0].content)),
        _ => None,
    });
    (results.collect(), passed)
}

#[tokio::test]
async fn what_an_effect_forbids_cannot_be_called_by_tool_call_either() {
    let exclude = vec!["mcp__test__thing_7".to_owned()];
    let call = |name: &str| json!({ "name": name, "arguments": { "times": 1 } });
    let (told, passed) = played(
        [ToolScope { exclude, hide: false }],
        [("tool_call", call("mcp__test__thing_7")), ("tool_call", call("mcp__test__thing_8"))],
    )
    .await;
    let denied = "denied: the tool mcp__test__thing_7 is out of scope here (tool_scope)";
    assert_eq!(told, [denied, "{\"times\":1}"]);
    assert_eq!(passed, ["mcp__test__thing_8"]);
}

#[tokio::test]
async fn what_an_effect_hides_is_not_found() {
    let exclude = vec!["mcp__test__thing_7".to_owned()];
    let query = json!({ "query": "mcp__test__thing_7" });
    let hides = ToolScope { exclude, hide: true };
    let (told, _) = played([hides], [("tool_search", query)]).await;
    assert!(told[0].contains("of 209 tools") && !told[0].contains("thing_7:"), "{}", told[0]);
}
