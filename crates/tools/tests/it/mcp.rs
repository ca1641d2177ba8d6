//! Servers over both ways to reach them, and what they do wrong.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use bowline_agent::Agent;
use bowline_agent::entry::Wake;
use bowline_agent::event::EventBody;
use bowline_agent::tool::{ToolError, ToolOutput, Toolbox, Waked};
use bowline_llm::http::Proxy;
use bowline_llm::scripted::{Reply, ScriptedModel};
use bowline_llm::{Message, Part, text_of};
use bowline_tools::mcp::{
    Host, Http, Only, Pattern, Program, Reach, Scope, ServerConfig, Servers, State,
};
use bowline_tools::process::Helper;

use crate::desk::{Desk, failure, until, with_time_held};
use crate::mcp_server::{Manners, McpServer};

mod faults;
mod hidden;

/// A way to reach a server.
#[derive(Debug, Clone, Copy)]
enum Way {
    Lines,
    Http,
}

fn reach(server: &McpServer, way: Way) -> Reach {
    match way {
        Way::Lines => Reach::Program(Program {
            command: "bash".to_owned(),
            arguments: server.program().to_vec(),
            environment: vec![("MCP_TEST".to_owned(), "yes".into())],
            cwd: None,
        }),
        Way::Http => Reach::Http(Http {
            url: server.url(),
            headers: vec![("authorization".to_owned(), "Bearer of-news".into())],
        }),
    }
}

fn config(name: &str, reach: Result<Reach, String>) -> ServerConfig {
    let startup_timeout = Duration::from_secs(60);
    ServerConfig { name: name.to_owned(), reach, startup_timeout, timeout: None, trust_hints: true }
}

fn host(desk: &Desk, attended: bool) -> Host {
    Host { workspace: desk.workspace.clone(), proxy: Proxy::default(), attended }
}

/// A server that has been reached, as `test`.
async fn servers(desk: &Desk, server: &McpServer, way: Way, attended: bool) -> Arc<Servers> {
    let configs = vec![config("test", Ok(reach(server, way)))];
    let servers = Arc::new(Servers::start(configs, host(desk, attended)));
    servers.settled().await;
    assert_eq!(servers.complaints(), Vec::<String>::new());
    servers
}

fn tools(servers: &Servers) -> Toolbox {
    servers.tools(&Scope::default(), usize::MAX)
}

async fn output(
    desk: &Desk,
    tools: &Toolbox,
    name: &str,
    arguments: Value,
) -> Result<ToolOutput, ToolError> {
    let prepared = tools.get(name).unwrap().prepare(&arguments.to_string())?;
    (prepared.run)(desk.cx.clone()).await
}

async fn parts(
    desk: &Desk,
    tools: &Toolbox,
    name: &str,
    arguments: Value,
) -> Result<Vec<Part>, ToolError> {
    match output(desk, tools, name, arguments).await? {
        ToolOutput::Content(parts) => Ok(parts),
        other => panic!("no result: {other:?}"),
    }
}

async fn call(
    desk: &Desk,
    servers: &Servers,
    name: &str,
    arguments: Value,
) -> Result<String, ToolError> {
    parts(desk, &tools(servers), name, arguments).await.map(|parts| text_of(&parts))
}

#[tokio::test]
async fn tools_are_listed_page_by_page_and_called_both_ways() {
    for way in [Way::Lines, Way::Http] {
        let (desk, server) = (Desk::new(), McpServer::start(Manners::default()));
        let servers = servers(&desk, &server, way, false).await;
        let report = servers.reports().remove(0);
        assert_eq!((report.state, report.tools.len()), (State::Ready, 10), "{way:?}");
        assert_eq!(report.server, "test server 1");
        assert_eq!(server.seen_of("tools/list").len(), 4);

        let arguments = json!({ "text": "ü", "n": 1.5, "deep": { "a": [null, true] } });
        let echoed = call(&desk, &servers, "mcp__test__echo", arguments.clone()).await.unwrap();
        assert_eq!(serde_json::from_str::<Value>(&echoed).unwrap(), arguments);
        let parts = parts(&desk, &tools(&servers), "mcp__test__image", json!({})).await.unwrap();
        assert!(matches!(&parts[..], [Part::Text(text), Part::Image(image)]
            if text == "a dot:" && image.media_type == "image/png" && &*image.data == "iVBORw0KGgo="));
        let failed = call(&desk, &servers, "mcp__test__fail", json!({})).await;
        assert_eq!(failure(failed), "no such thing");
        let refused = call(&desk, &servers, "mcp__test__env", json!({})).await;
        assert_eq!(failure(refused), "no tool env (error -32602)");
        let huge = call(&desk, &servers, "mcp__test__huge", json!({})).await.unwrap();
        assert_eq!(huge.len(), 1_100_000);
        let roots = call(&desk, &servers, "mcp__test__roots", json!({})).await.unwrap();
        let roots: Value = serde_json::from_str(&roots).unwrap();
        let uri = format!("file://{}", desk.workspace.cwd.display());
        assert_eq!(roots["roots"], json!([{ "uri": uri, "name": "work" }]));
        servers.close().await;
    }
}

#[tokio::test]
async fn headers_go_to_the_server_and_a_lost_session_is_begun_anew() {
    let (desk, server) = (Desk::new(), McpServer::start(Manners::default()));
    let servers = servers(&desk, &server, Way::Http, false).await;
    server.forget();
    assert_eq!(call(&desk, &servers, "mcp__test__echo", json!({})).await.unwrap(), "{}");
    assert_eq!(server.seen_of("initialize").len(), 2);
    for head in server.heads() {
        assert!(head.contains("authorization: bearer of-news"), "{head}");
    }
}

#[tokio::test]
async fn progress_is_shown_and_a_cancelled_call_is_told_to_the_server() {
    for way in [Way::Lines, Way::Http] {
        let (desk, server) = (Desk::new(), McpServer::start(Manners::default()));
        let servers = servers(&desk, &server, way, false).await;
        let cancel = async {
            until("the call is there", || !server.seen_of("tools/call").is_empty()).await;
            desk.cx.cancel.cancel();
        };
        let (result, ()) =
            tokio::join!(call(&desk, &servers, "mcp__test__slow", json!({})), cancel);
        assert_eq!(failure(result), "canceled; the server was told so");
        let canceled = || server.seen_of("notifications/cancelled");
        until("the server is told", || !canceled().is_empty()).await;
        let id = &server.seen_of("tools/call")[0]["id"];
        assert_eq!(&canceled()[0]["params"]["requestId"], id);
    }
}

#[tokio::test]
async fn a_call_that_takes_too_long_ends_at_the_time_of_its_server() {
    let (mut desk, server) = (Desk::new(), McpServer::start(Manners::default()));
    let time = Duration::from_millis(50);
    let config =
        ServerConfig { timeout: Some(time), ..config("test", Ok(reach(&server, Way::Lines))) };
    let servers = Servers::start(vec![config], host(&desk, false));
    servers.settled().await;
    desk.cx.tool_time = Some(Duration::from_secs(60));
    let slow = call(&desk, &servers, "mcp__test__slow", json!({}));
    let is_called = || !server.seen_of("tools/call").is_empty();
    let result = with_time_held(slow, "the call is there", is_called, time).await;
    assert!(
        matches!(&result, Err(ToolError::TimedOut(text)) if text.starts_with("timed out after 0."))
    );
    until("the server is told", || !server.seen_of("notifications/cancelled").is_empty()).await;
}

#[tokio::test]
async fn a_server_that_crashes_is_started_again_for_the_next_call() {
    for helper in [crate::desk::helper(), Helper::None] {
        let (desk, server) = (Desk::with(helper), McpServer::start(Manners::default()));
        let servers = servers(&desk, &server, Way::Lines, false).await;
        let crash = call(&desk, &servers, "mcp__test__crash", json!({}));
        let broken = with_time_held(crash, "it fails first", || false, Duration::ZERO).await;
        let broken = failure(broken);
        assert!(
            broken.contains("broke during the call") && broken.contains("exit code 7"),
            "{broken}"
        );
        assert!(broken.contains("relay") && broken.contains("check before you repeat"), "{broken}");
        assert_eq!(call(&desk, &servers, "mcp__test__echo", json!({})).await.unwrap(), "{}");
        assert_eq!(server.starts(), 2);
        servers.close().await;
    }
}

#[tokio::test]
async fn a_connection_that_breaks_is_made_anew_for_the_next_call() {
    let (desk, server) = (Desk::new(), McpServer::start(Manners::default()));
    let servers = servers(&desk, &server, Way::Http, false).await;
    let broken = failure(call(&desk, &servers, "mcp__test__crash", json!({})).await);
    assert!(
        broken.contains("test broke during the call (") && !broken.contains("rmcp"),
        "{broken}"
    );
    assert_eq!(call(&desk, &servers, "mcp__test__echo", json!({})).await.unwrap(), "{}");
}

#[tokio::test]
async fn a_server_that_hangs_or_is_missing_keeps_no_other_from_working() {
    let desk = Desk::new();
    let hanging = McpServer::start(Manners { hangs: true, ..Manners::default() });
    let fine = McpServer::start(Manners::default());
    let missing = Reach::Program(Program {
        command: "no-such-program".to_owned(),
        arguments: Vec::new(),
        environment: Vec::new(),
        cwd: None,
    });
    let broken = Reach::Program(Program {
        command: "bash".to_owned(),
        arguments: vec!["-c".to_owned(), "echo it is late >&2; exit 3".to_owned()],
        environment: Vec::new(),
        cwd: None,
    });
    let time = Duration::from_millis(300);
    let short = |config| ServerConfig { startup_timeout: time, ..config };
    let configs = vec![
        short(config("hangs", Ok(reach(&hanging, Way::Lines)))),
        short(config("hangs-too", Ok(reach(&hanging, Way::Http)))),
        config("fine", Ok(reach(&fine, Way::Lines))),
        config("missing", Ok(missing)),
        config("broken", Ok(broken)),
        config("unset", Err("the variable TOKEN is not set".to_owned())),
    ];
    let began = Instant::now();
    let servers = Servers::start(configs, host(&desk, false));
    let is_broken = || servers.complaints().iter().any(|it| it.contains("server broken"));
    with_time_held(servers.settled(), "the others settle", is_broken, time).await;
    // They would be waited for much longer.
    assert!(began.elapsed() < Duration::from_secs(40), "{:?}", began.elapsed());
    let complaints = servers.complaints();
    assert_eq!(complaints.len(), 5, "{complaints:#?}");
    assert_eq!(
        complaints[0],
        "MCP server broken: it ended before it had answered; it ended with exit code 3 (it is late)"
    );
    for (at, name) in [(1, "hangs"), (2, "hangs-too")] {
        let expected =
            format!("MCP server {name}: it did not answer within 0.3 s (startup_timeout)");
        assert!(complaints[at].starts_with(&expected), "{complaints:#?}");
    }
    assert_eq!(
        complaints[3],
        "MCP server missing: there is no program \"no-such-program\" in PATH"
    );
    assert_eq!(complaints[4], "MCP server unset: the variable TOKEN is not set");
    assert_eq!(call(&desk, &servers, "mcp__fine__echo", json!({})).await.unwrap(), "{}");
    servers.close().await;
}

#[tokio::test]
async fn what_is_no_message_is_passed_over() {
    let manners = Manners { babbles: true, ..Manners::default() };
    let (desk, server) = (Desk::new(), McpServer::start(manners));
    let servers = servers(&desk, &server, Way::Lines, false).await;
    assert_eq!(call(&desk, &servers, "mcp__test__echo", json!({})).await.unwrap(), "{}");
}

#[tokio::test]
async fn a_new_tool_is_there_when_tools_are_asked_for_again() {
    for way in [Way::Lines, Way::Http] {
        let (desk, server) = (Desk::new(), McpServer::start(Manners::default()));
        let servers = servers(&desk, &server, way, false).await;
        let before = tools(&servers);
        call(&desk, &servers, "mcp__test__grow", json!({})).await.unwrap();
        until("the new tool is known", || tools(&servers).len() == before.len() + 1).await;
        assert!(before.get("mcp__test__grown").is_none());
        assert_eq!(call(&desk, &servers, "mcp__test__grown", json!({})).await.unwrap(), "{}");
    }
}

#[tokio::test]
async fn what_a_server_asks_waits_for_a_person_and_goes_on_with_the_answer() {
    for way in [Way::Lines, Way::Http] {
        let (mut desk, server) = (Desk::new(), McpServer::start(Manners::default()));
        let servers = servers(&desk, &server, way, true).await;
        let tools = tools(&servers);
        let waits = output(&desk, &tools, "mcp__test__ask", json!({})).await.unwrap();
        let question = "test asks: Which one?\nHow many".to_owned();
        let options = vec!["decline".to_owned()];
        assert_eq!(waits, ToolOutput::Waiting(Wake::Answer { question, options }));
        desk.cx.wake = Some(Waked::Answered("lots".to_owned()));
        let again = output(&desk, &tools, "mcp__test__ask", json!({})).await.unwrap();
        assert!(matches!(again, ToolOutput::Waiting(Wake::Answer { question, .. })
            if question.starts_with("\"lots\" is no whole number")));
        desk.cx.wake = Some(Waked::Answered("3".to_owned()));
        let text = text_of(&parts(&desk, &tools, "mcp__test__ask", json!({})).await.unwrap());
        let answer: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(answer, json!({ "action": "accept", "content": { "count": 3 } }));
        // In another process nobody knows of it.
        let late = parts(&desk, &tools, "mcp__test__ask", json!({})).await;
        assert!(failure(late.map(|parts| text_of(&parts))).starts_with("interrupted"));
    }
}

#[tokio::test]
async fn in_a_session_a_person_answers_it_as_any_other_question() {
    let (desk, server) = (Desk::new(), McpServer::start(Manners::default()));
    let servers = servers(&desk, &server, Way::Lines, true).await;
    let script = [Reply::call("mcp__test__ask", "{}"), Reply::text("done")];
    let model = Arc::new(ScriptedModel::new(script));
    let more_tools = Some(servers.source(Scope::default(), usize::MAX));
    let handle = Agent { attended: true, more_tools, ..Agent::new(model) }.start();
    let mut run = handle.prompt("go");
    let mut questions = Vec::new();
    while let Some(event) = run.next().await {
        if let EventBody::Question { question, .. } = &event.body {
            questions.push(question.clone());
            handle.answer("call_1".into(), "3".to_owned()).await.unwrap();
        }
    }
    assert_eq!(questions, ["test asks: Which one?\nHow many"]);
    let messages = handle.messages();
    let Some(Message::Results(results)) = messages.iter().nth(2).map(|message| &**message) else {
        panic!("no results: {messages:?}");
    };
    let answer: Value = serde_json::from_str(&text_of(&results[0].content)).unwrap();
    assert_eq!(answer, json!({ "action": "accept", "content": { "count": 3 } }));
    assert_eq!(server.seen_of("tools/call").len(), 1);
}

#[tokio::test]
async fn where_nobody_is_what_a_server_asks_is_declined() {
    let (desk, server) = (Desk::new(), McpServer::start(Manners::default()));
    let servers = servers(&desk, &server, Way::Lines, false).await;
    let text = call(&desk, &servers, "mcp__test__ask", json!({})).await.unwrap();
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), json!({ "action": "decline" }));
    let capabilities = &server.seen_of("initialize")[0]["params"]["capabilities"];
    assert_eq!(*capabilities, json!({ "roots": { "listChanged": true } }));
}

#[tokio::test]
async fn another_folder_to_work_in_is_told() {
    let (desk, server) = (Desk::new(), McpServer::start(Manners::default()));
    let servers = servers(&desk, &server, Way::Lines, false).await;
    servers.set_root("/elsewhere/here".into());
    let told = || server.seen_of("notifications/roots/list_changed").len();
    until("the server is told", || told() == 1).await;
    let roots = call(&desk, &servers, "mcp__test__roots", json!({})).await.unwrap();
    assert!(roots.contains("file:///elsewhere/here"), "{roots}");
}

#[tokio::test]
async fn resources_are_one_tool_and_only_where_there_are_some() {
    let manners = Manners { has_resources: true, ..Manners::default() };
    let (desk, server) = (Desk::new(), McpServer::start(manners));
    let servers = servers(&desk, &server, Way::Lines, false).await;
    let listed = call(&desk, &servers, "mcp_resources", json!({})).await.unwrap();
    assert_eq!(listed, "test:\ntest://one one: The first.\n");
    let read = json!({ "server": "test", "uri": "test://one" });
    let read = call(&desk, &servers, "mcp_resources", read).await.unwrap();
    assert_eq!(read, "[test://one]\nwhat is in it");
    let wrong = call(&desk, &servers, "mcp_resources", json!({ "server": "x" })).await;
    assert_eq!(failure(wrong), "there is no such server; there is test");
    let without = McpServer::start(Manners::default());
    let others = self::servers(&desk, &without, Way::Lines, false).await;
    assert!(tools(&others).get("mcp_resources").is_none());
}

#[tokio::test]
async fn an_agent_gets_only_what_is_in_its_scope() {
    let (desk, server) = (Desk::new(), McpServer::start(Manners::default()));
    let servers = servers(&desk, &server, Way::Lines, false).await;
    let names = |servers_: Option<&[&str]>, tools: Option<&[&str]>| -> Vec<String> {
        let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        let only = tools.map(|tools| Only {
            tools: tools.iter().filter_map(|tool| Pattern::read(tool, ["test"])).collect(),
            resources: false,
        });
        let scope = Scope { servers: servers_.map(owned), only };
        servers.tools(&scope, usize::MAX).names().map(str::to_owned).collect()
    };
    assert_eq!(names(None, Some(&["mcp__test__e*"])), ["mcp__test__echo", "mcp__test__env"]);
    assert_eq!(names(Some(&["test"]), Some(&["mcp__test__ask", "bash"])), ["mcp__test__ask"]);
    assert!(names(Some(&["other"]), None).is_empty());
    let none = Only {
        tools: Pattern::read("mcp__test__echoo", ["test"]).into_iter().collect(),
        resources: true,
    };
    let missing = servers.missing(&Scope { servers: None, only: Some(none) }).remove(0);
    assert_eq!((missing.pattern.tool.as_str(), missing.known.len()), ("echoo", 10));
}

#[tokio::test]
async fn a_server_gets_what_it_is_given_and_leaves_nothing() {
    let desk = Desk::new();
    let script =
        "env | cut -d= -f1 | sort > names; sleep 1000 & setsid sleep 1001 & echo $$ > pid; cat";
    let program = Program {
        command: "bash".to_owned(),
        arguments: vec!["-c".to_owned(), script.to_owned()],
        environment: vec![("GITHUB_TOKEN".to_owned(), "secret".into())],
        cwd: None,
    };
    let startup_timeout = Duration::from_millis(500);
    let config = ServerConfig { startup_timeout, ..config("x", Ok(Reach::Program(program))) };
    let servers = Servers::start(vec![config], host(&desk, false));
    let is_up = || std::fs::read(desk.path("pid")).is_ok_and(|pid| pid.ends_with(b"\n"));
    with_time_held(servers.settled(), "it is up", is_up, startup_timeout).await;
    assert_eq!(desk.get("names"), "BOWLINE_COMMAND\nGITHUB_TOKEN\nPATH\nPWD\nSHLVL\n_\n");
    let work = desk.workspace.cwd.clone();
    until("nothing is left", || !works_in(&work)).await;
}

/// Tells whether a process works in a folder.
fn works_in(folder: &Path) -> bool {
    let mut all = std::fs::read_dir("/proc").unwrap().flatten();
    all.any(|process| {
        std::fs::read_link(process.path().join("cwd")).is_ok_and(|cwd| cwd.starts_with(folder))
    })
}
