//! Servers that do something wrong: what it is stays theirs.

use std::time::Duration;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use bowline_tools::mcp::{Program, Reach, ServerConfig, Servers};

use super::{Way, call, config, host, parts, reach, servers, tools};
use crate::desk::{Desk, failure, until};
use crate::mcp_server::{Manners, McpServer};

async fn schemas(odd_tools: Vec<Value>) -> (Vec<(String, Value)>, Vec<String>, Vec<String>) {
    let manners = Manners { odd_tools, ..Manners::default() };
    let (desk, server) = (Desk::new(), McpServer::start(manners));
    let configs = vec![config("test", Ok(reach(&server, Way::Lines)))];
    let servers = Servers::start(configs, host(&desk, false));
    servers.settled().await;
    let block = tools(&servers).block();
    let odd = block.specs().iter().filter(|spec| spec.name.contains("odd"));
    let schema = |text: &str| serde_json::from_str(text).unwrap();
    let schemas = odd.map(|spec| (spec.name.clone(), schema(spec.schema.as_str()))).collect();
    let changed = servers.reports().remove(0).changed;
    (schemas, servers.complaints(), changed)
}

#[tokio::test]
async fn a_careless_schema_is_put_right_and_one_that_is_none_leaves_out_its_tool_only() {
    let (schemas, complaints, changed) = schemas(vec![
        json!({ "name": "odd_empty", "inputSchema": {} }),
        json!({ "name": "odd_choice", "inputSchema": { "oneOf": [{ "properties": { "a": {} } }] } }),
        json!({ "name": "odd_text", "inputSchema": { "type": "string" } }),
    ])
    .await;
    assert_eq!(
        schemas,
        [
            (
                "mcp__test__odd_choice".to_owned(),
                json!({ "type": "object", "properties": { "a": {} } })
            ),
            ("mcp__test__odd_empty".to_owned(), json!({ "type": "object", "properties": {} })),
        ]
    );
    assert_eq!(
        complaints,
        [
            "MCP server test: the tool odd_text is left out: its arguments are no object but \"string\""
        ]
    );
    assert_eq!(
        changed,
        ["tool odd_choice: oneOf at the top is folded into one list of properties"]
    );
}

#[tokio::test]
async fn what_is_no_tool_is_left_out_and_the_others_stay() {
    let odd = vec![json!({ "name": "odd", "inputSchema": "none" }), json!({ "title": "x" })];
    let (schemas, complaints, _) = schemas(odd).await;
    assert_eq!(schemas, []);
    assert_eq!(complaints.len(), 2, "{complaints:#?}");
    assert!(
        complaints[0].starts_with("MCP server test: the tool odd is left out: "),
        "{complaints:#?}"
    );
    assert!(complaints[1].contains("the tool without a name is left out: "), "{complaints:#?}");
    let manners = Manners { odd_tools: vec![json!(7)], ..Manners::default() };
    let (desk, server) = (Desk::new(), McpServer::start(manners));
    let configs = vec![config("test", Ok(reach(&server, Way::Http)))];
    let servers = Servers::start(configs, host(&desk, false));
    servers.settled().await;
    assert_eq!(call(&desk, &servers, "mcp__test__echo", json!({})).await.unwrap(), "{}");
}

#[tokio::test]
async fn an_answer_that_is_too_long_is_an_error_at_once_and_the_next_call_works() {
    let manners = Manners {
        odd_tools: vec![json!({ "name": "too_long", "inputSchema": {} })],
        ..Manners::default()
    };
    let (desk, server) = (Desk::new(), McpServer::start(manners));
    let servers = servers(&desk, &server, Way::Lines, false).await;
    let failed = failure(call(&desk, &servers, "mcp__test__too_long", json!({})).await);
    assert_eq!(failed, "the answer is longer than the 16 MiB that are taken (error -32000)");
    assert_eq!(call(&desk, &servers, "mcp__test__echo", json!({})).await.unwrap(), "{}");
    assert_eq!(server.starts(), 1);
}

#[tokio::test]
async fn a_server_that_does_not_say_what_it_offers_now_keeps_no_call_and_no_end_waiting() {
    let manners = Manners { falls_silent: true, ..Manners::default() };
    let (desk, server) = (Desk::new(), McpServer::start(manners));
    let servers = servers(&desk, &server, Way::Lines, false).await;
    let before = server.seen_of("tools/list").len();
    call(&desk, &servers, "mcp__test__grow", json!({})).await.unwrap();
    until("it is asked", || server.seen_of("tools/list").len() > before).await;
    let wait = Duration::from_secs(20);
    let echo = call(&desk, &servers, "mcp__test__echo", json!({}));
    assert_eq!(tokio::time::timeout(wait, echo).await.unwrap().unwrap(), "{}");
    tokio::time::timeout(wait, servers.close()).await.unwrap();
}

#[tokio::test]
async fn a_server_that_changes_all_the_time_is_asked_only_when_somebody_wants_to_know() {
    let manners = Manners { changes_always: true, ..Manners::default() };
    let (desk, server) = (Desk::new(), McpServer::start(manners));
    let servers = servers(&desk, &server, Way::Lines, false).await;
    let known = tools(&servers).len();
    call(&desk, &servers, "mcp__test__grow", json!({})).await.unwrap();
    until("the new tool is known", || servers.reports()[0].tools.len() > known).await;
    let tools = tools(&servers);
    let listed = server.seen_of("tools/list").len();
    for _ in 0..50 {
        parts(&desk, &tools, "mcp__test__echo", json!({})).await.unwrap();
    }
    // Of four pages each: what was wanted just before is still asked for, and then nothing more.
    let since = server.seen_of("tools/list").len() - listed;
    assert!(since <= 5 * 4, "{since}");
}

#[tokio::test]
async fn an_end_does_not_wait_for_a_server_that_is_being_started() {
    let (desk, server) = (Desk::new(), McpServer::start(Manners::default()));
    let hanging = McpServer::start(Manners { hangs: true, ..Manners::default() });
    let script = format!(
        "if [ -e began ]; then exec bash -c '{}'; fi; touch began; exec bash -c '{}'",
        hanging.program()[1],
        server.program()[1]
    );
    let program = Program {
        command: "bash".to_owned(),
        arguments: vec!["-c".to_owned(), script],
        environment: Vec::new(),
        cwd: None,
    };
    let startup_timeout = Duration::from_secs(600);
    let config = ServerConfig { startup_timeout, ..config("test", Ok(Reach::Program(program))) };
    let servers = Servers::start(vec![config], host(&desk, false));
    servers.settled().await;
    failure(call(&desk, &servers, "mcp__test__crash", json!({})).await);
    let ends = async {
        until("it is started again", || hanging.starts() > 0).await;
        tokio::time::timeout(Duration::from_secs(20), servers.close()).await.unwrap();
    };
    let (called, ()) = tokio::join!(call(&desk, &servers, "mcp__test__echo", json!({})), ends);
    assert_eq!(failure(called), "MCP server test: its keeper is gone");
}

#[tokio::test]
async fn failures_of_http_are_told_as_what_they_are() {
    let page = "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\nconnection: close\r\n\r\n<h1>Hi</h1>";
    let did_not_run = "the call did not run";
    let unknown = "what the call did is unknown: check before you repeat it";
    for (answer, why, then) in [
        (
            "HTTP/1.1 401 Unauthorized\r\nwww-authenticate: Bearer\r\nconnection: close\r\ncontent-length: 0\r\n\r\n",
            "it wants authorization (HTTP 401): give it one in `headers`",
            did_not_run,
        ),
        (
            "HTTP/1.1 403 Forbidden\r\nconnection: close\r\ncontent-length: 3\r\n\r\nno!",
            "HTTP 403 Forbidden: no!",
            did_not_run,
        ),
        (
            "HTTP/1.1 404 Not Found\r\nconnection: close\r\ncontent-length: 0\r\n\r\n",
            "it does not know the session (HTTP 404)",
            did_not_run,
        ),
        (
            "HTTP/1.1 500 Oh\r\nconnection: close\r\ncontent-length: 0\r\n\r\n",
            "it failed (HTTP 500)",
            unknown,
        ),
        (page, "it answered with text/html, which is no answer of an MCP server", unknown),
    ] {
        let manners = Manners { answers_calls: Some(answer), ..Manners::default() };
        let (desk, server) = (Desk::new(), McpServer::start(manners));
        let servers = servers(&desk, &server, Way::Http, false).await;
        let failed = failure(call(&desk, &servers, "mcp__test__image", json!({})).await);
        assert_eq!(failed, format!("MCP server test: {why}; {then}"));
    }
}

#[tokio::test]
async fn a_stream_is_not_asked_for_again_without_a_pause() {
    let manners = Manners { hurries: true, ..Manners::default() };
    let (desk, server) = (Desk::new(), McpServer::start(manners));
    let configs = vec![ServerConfig {
        timeout: Some(Duration::from_millis(2500)),
        ..config("test", Ok(reach(&server, Way::Http)))
    }];
    let servers = Servers::start(configs, host(&desk, false));
    servers.settled().await;
    let result = call(&desk, &servers, "mcp__test__slow", json!({})).await;
    assert!(result.is_err(), "{result:?}");
    let again = server.heads().iter().filter(|head| head.contains("last-event-id")).count();
    assert!((1..5).contains(&again), "{again}");
}

#[tokio::test]
async fn a_list_of_things_to_read_has_an_end() {
    let manners = Manners { has_resources: true, more_resources: 100_000, ..Manners::default() };
    let (desk, server) = (Desk::new(), McpServer::start(manners));
    let servers = servers(&desk, &server, Way::Lines, false).await;
    let listed = call(&desk, &servers, "mcp_resources", json!({})).await.unwrap();
    assert_eq!(listed.lines().count(), 22, "{listed}");
    assert!(server.seen_of("resources/list").len() <= 22);
}

#[tokio::test]
async fn what_a_server_says_of_its_tools_counts_only_if_it_is_trusted() {
    let (desk, server) = (Desk::new(), McpServer::start(Manners::default()));
    for trust_hints in [true, false] {
        let config = config("test", Ok(reach(&server, Way::Lines)));
        let servers =
            Servers::start(vec![ServerConfig { trust_hints, ..config }], host(&desk, false));
        servers.settled().await;
        let prepared = tools(&servers).get("mcp__test__echo").unwrap().prepare("{}").unwrap();
        assert_eq!(prepared.access.exclusive, !trust_hints);
    }
}
