//! MCP servers through the command: configured, started, called, and gone with it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failure here is a failure of the test")]

#[path = "../../tools/tests/support/mcp_server.rs"]
mod mcp_server;
mod support;

use std::process::Stdio;

use mcp_server::{Manners, McpServer};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use support::{Home, Provider, Reply, messages, results, until};

/// A provider that makes these calls, one reply each, and then says `done`.
fn calls(calls: &'static [(&'static str, &'static str)]) -> Provider {
    Provider::answering(move |request| match calls.get(results(request)) {
        Some((tool, arguments)) => {
            let arguments = serde_json::from_str(arguments).unwrap();
            Reply::Calls(vec![(format!("call_{}", results(request)), *tool, arguments)])
        }
        None => Reply::Text("done".to_owned()),
    })
}

/// The section of a server that is a program.
fn as_program(server: &McpServer) -> String {
    let args = toml::Value::from(server.program().to_vec());
    format!("[mcp_servers.test]\ncommand = \"bash\"\nargs = {args}\n")
}

/// What the model was told of its last call.
fn told(provider: &Provider) -> Value {
    let request = provider.requests().pop().unwrap();
    messages(&request).last().unwrap()["content"].clone()
}

fn names(request: &Value) -> Vec<String> {
    let tools = request["tools"].as_array().unwrap().iter();
    tools.map(|tool| tool["function"]["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_program_brings_tools_that_the_model_calls() {
    let provider = calls(&[
        ("mcp__test__echo", r#"{"text": "hello"}"#),
        ("mcp__test__grow", "{}"),
        ("mcp__test__ask", "{}"),
    ]);
    let server = McpServer::start(Manners::default());
    let home = Home::with(&provider, &as_program(&server));
    let (code, out, err) = home.run(&["exec", "go"]);
    assert_eq!((code, out.as_str()), (0, "done\n"), "{err}");
    let requests = provider.requests();
    assert!(names(&requests[0]).contains(&"mcp__test__echo".to_owned()), "{requests:#?}");
    assert_eq!(messages(&requests[1]).last().unwrap()["content"], r#"{"text":"hello"}"#);
    // Nobody is there, so what it asks is declined.
    assert_eq!(told(&provider), r#"{"action":"decline"}"#);
    // What it offers since then counts from the next run on.
    assert!(requests.iter().all(|request| request["tools"] == requests[0]["tools"]));
    let (code, _, err) = home.run(&["exec", "--continue", "again"]);
    assert_eq!(code, 0, "{err}");
    let again = provider.requests().pop().unwrap();
    assert!(names(&again).contains(&"mcp__test__grown".to_owned()));
    assert_eq!(home.processes(), Vec::<String>::new());
}

/// What a model calls it has other characters, or fewer.
#[test]
fn a_server_is_denied_by_the_name_that_it_is_configured_by() {
    for name in ["a__b", "my-company-internal-tracker"] {
        for (rule, is_left) in
            [(format!("mcp__{name}__ec*"), true), (format!("mcp__{name}"), false)]
        {
            let provider = calls(&[]);
            let server = McpServer::start(Manners::default());
            let section =
                as_program(&server).replace("mcp_servers.test", &format!("mcp_servers.{name}"));
            let rules = format!("[permissions]\ndeny = [{rule:?}]\n");
            let home = Home::with(&provider, &format!("{rules}{section}"));
            let (code, _, err) = home.run(&["exec", "go"]);
            assert_eq!(code, 0, "{err}");
            let names = names(&provider.requests()[0]);
            assert!(!names.iter().any(|name| name.ends_with("__echo")), "{rule}: {names:?}");
            assert_eq!(
                names.iter().any(|name| name.ends_with("__grow")),
                is_left,
                "{rule}: {names:?}"
            );
        }
    }
}

#[test]
fn an_address_brings_tools_and_what_it_is_given_reaches_no_model() {
    let provider = calls(&[
        ("mcp__test__echo", r#"{"text": "the token is tok-0123456789"}"#),
        ("mcp__test__image", "{}"),
    ]);
    let server = McpServer::start(Manners::default());
    let section = format!(
        "[mcp_servers.test]\ntype = \"http\"\nurl = \"{}\"\n\
         headers = {{ authorization = \"Bearer ${{MCP_TEST_KEY}}\" }}\n",
        server.url()
    );
    let home = Home::with(&provider, &section);
    let mut command = home.bowline();
    command.args(["exec", "--json", "go"]).env("MCP_TEST_KEY", "tok-0123456789");
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(server.heads().iter().all(|head| head.contains("bearer tok-0123456789")));
    let requests = provider.requests();
    let first = &messages(&requests[1]).last().unwrap()["content"];
    assert_eq!(first, r#"{"text":"the token is [secret test token of authorization]"}"#);
    let last = provider.requests().pop().unwrap().to_string();
    assert!(last.contains("data:image/png;base64,iVBORw0KGgo="), "{last}");
    let (_, shown, _) = home.run(&["config", "show"]);
    assert!(shown.contains("authorization = \"(hidden)\""), "{shown}");
}

#[test]
fn servers_that_cannot_be_used_are_named_and_keep_nobody_from_working() {
    let provider = calls(&[]);
    let server = McpServer::start(Manners { hangs: true, ..Manners::default() });
    let config = format!(
        "{}startup_timeout = \"200ms\"\n[mcp_servers.gone]\ncommand = \"no-such-program\"\n\
         [mcp_servers.unset]\nurl = \"http://${{NOWHERE}}/\"\n\
         [mcp_servers.off]\ncommand = \"false\"\nenabled = false\n",
        as_program(&server)
    );
    let home = Home::with(&provider, &config);
    let (code, out, err) = home.run(&["exec", "go"]);
    assert_eq!((code, out.as_str()), (0, "done\n"), "{err}");
    let said: Vec<&str> = err.lines().filter(|line| line.contains("MCP server")).collect();
    assert_eq!(said.len(), 3, "{err}");
    assert_eq!(
        said[0],
        "bowline: MCP server gone: there is no program \"no-such-program\" in PATH"
    );
    assert!(
        said[1].starts_with("bowline: MCP server test: it did not answer within 0.2 s"),
        "{err}"
    );
    assert_eq!(said[2], "bowline: MCP server unset: the variable NOWHERE is not set");
}

#[test]
fn what_a_server_says_is_only_text_for_a_terminal() {
    let provider = calls(&[]);
    let script = r"printf '\033[2Jgone\033]0;title\007\n' >&2; exit 3";
    let args = toml::Value::from(vec!["-c", script]);
    let home =
        Home::with(&provider, &format!("[mcp_servers.bad]\ncommand = \"bash\"\nargs = {args}\n"));
    let (code, _, err) = home.run(&["exec", "go"]);
    assert_eq!(code, 0, "{err}");
    let ends = "it ended before it had answered; it ended with exit code 3 (gone)\n";
    assert!(err.contains(ends) && !err.contains('\u{1b}'), "{err:?}");
    let (_, out, _) = home.run(&["mcp", "check"]);
    assert!(out.contains("         | gone\n") && !out.contains('\u{1b}'), "{out:?}");
}

#[test]
fn only_servers_that_the_agent_or_its_crew_can_use_are_started() {
    let provider = calls(&[]);
    let [own, of_crew, other] = [(); 3].map(|()| McpServer::start(Manners::default()));
    let section = |name: &str, server: &McpServer| as_program(server).replace("test", name);
    let agents = "[agents.lead]\ntools = [\"mcp__own__x\"]\ndelegates = [\"hand\"]\n\
                  [agents.hand]\ntools = [\"mcp__crew\"]\nmax_depth = 0\n\
                  [agents.far]\ntools = [\"mcp__other\"]\n";
    let servers =
        [section("own", &own), section("crew", &of_crew), section("other", &other)].concat();
    let home = Home::with(&provider, &format!("{servers}{agents}"));
    let (code, _, err) = home.run(&["exec", "--agent", "lead", "go"]);
    assert_eq!(code, 0, "{err}");
    assert_eq!((own.starts(), of_crew.starts(), other.starts()), (1, 1, 0), "{err}");
    let (code, _, err) = home.run(&["exec", "--agent", "lead", "--dump-prompt", "go"]);
    assert!(code == 0 && err.contains("without the tools of MCP servers (own): "), "{err}");
}

#[test]
fn a_tool_that_is_named_and_not_there_is_said_with_the_nearest() {
    let provider = calls(&[]);
    let server = McpServer::start(Manners::default());
    let agent = "[agents.a]\ntools = [\"mcp__test__ecco\", \"mcp__test__image\"]\n";
    let home = Home::with(&provider, &format!("{}{agent}", as_program(&server)));
    let (code, _, err) = home.run(&["exec", "--agent", "a", "go"]);
    assert_eq!(code, 0, "{err}");
    let said = "bowline: MCP server test: it has no tool ecco; did you mean echo?\n";
    assert!(err.contains(said), "{err}");
    assert_eq!(names(&provider.requests()[0]), ["mcp__test__image"]);
}

#[test]
fn check_starts_each_server_and_list_starts_none() {
    let provider = calls(&[]);
    let server = McpServer::start(Manners::default());
    let config = format!("{}[mcp_servers.gone]\ncommand = \"no-such\"\n", as_program(&server));
    let home = Home::with(&provider, &config);
    std::fs::write(
        home.work().join(".mcp.json"),
        r#"{ "mcpServers": { "theirs": { "command": "npx", "args": ["-y", "x"], "timeout": 5000,
             "autoApprove": [] } } }"#,
    )
    .unwrap();
    let (code, out, _) = home.run(&["mcp", "list"]);
    assert_eq!((code, server.starts()), (0, 0));
    let lines: Vec<&str> = out.lines().collect();
    assert!(
        lines[0].starts_with("gone: no-such  # ") && lines[1].starts_with("test: bash -c "),
        "{out}"
    );
    let not_applied =
        "theirs: npx -y x (not applied: the folder is not trusted; see `bowline trust`)";
    assert!(out.contains(not_applied) && out.contains(".mcp.json:1"), "{out}");

    let (code, out, _) = home.run(&["mcp", "check"]);
    assert_eq!((code, server.starts()), (1, 1), "{out}");
    assert!(out.contains("PROBLEM  gone: there is no program \"no-such\" in PATH"), "{out}");
    assert!(out.contains("ok       test: test server 1, 10 tools ("), "{out}");
    assert!(out.contains("mcp__test__echo\n") && out.contains("| relay "), "{out}");
    let (code, out, _) = home.run(&["mcp", "check", "--json"]);
    let reports: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(code, 1);
    assert_eq!(reports[1]["state"], "ready");
    assert_eq!(reports[0]["state"]["failed"], "there is no program \"no-such\" in PATH");
    let (_, _, err) = home.run(&["exec", "go"]);
    assert!(
        err.contains("not applied: ") && err.contains(".mcp.json; the folder is not trusted"),
        "{err}"
    );
}

#[test]
fn many_tools_are_left_out_until_the_model_looks_for_them() {
    let provider = calls(&[
        ("tool_search", r#"{"query": "polish gadget 42"}"#),
        ("tool_call", r#"{"name": "mcp__test__thing_42", "arguments": {"times": 3}}"#),
    ]);
    let server = McpServer::start(Manners { more_tools: 200, ..Manners::default() });
    let home = Home::with(&provider, &as_program(&server));
    let (code, _, err) = home.run(&["exec", "go"]);
    assert_eq!(code, 0, "{err}");
    let requests = provider.requests();
    let offered = names(&requests[0]);
    assert!(!offered.iter().any(|name| name.starts_with("mcp__")), "{offered:?}");
    assert!(offered.iter().any(|name| name == "tool_search"), "{offered:?}");
    assert_eq!(told(&provider), r#"{"times":3}"#);
    // What was sent stays as it was, so that the provider need not read it anew.
    assert!(requests.iter().all(|request| request["tools"] == requests[0]["tools"]));
    let inline = home.run(&["exec", "-c", "mcp.schema_bytes=0", "go"]);
    assert_eq!(inline.0, 0, "{}", inline.2);
    assert!(names(&provider.requests()[3]).contains(&"mcp__test__thing_42".to_owned()));
}

// A tool that is called by the name of another one is that other one, whoever asks.
#[test]
fn a_rule_about_a_tool_holds_however_it_is_called() {
    for (rules, effects) in [
        ("[permissions]\ndeny = [\"mcp__test__echo\"]\n", ""),
        ("", "effects = [{ kind = \"tool_scope\", exclude = [\"mcp__test__echo\"] }]\n"),
    ] {
        let provider = calls(&[(
            "tool_call",
            r#"{"name": "mcp__test__echo", "arguments": {"text": "hello"}}"#,
        )]);
        let server = McpServer::start(Manners::default());
        let few = "[mcp]\nschema_bytes = 10\n";
        let agent = format!("[agents.default]\n{effects}");
        let home = Home::with(&provider, &format!("{agent}{rules}{few}{}", as_program(&server)));
        let (code, _, err) = home.run(&["exec", "go"]);
        assert_eq!(code, 0, "{err}");
        let told = told(&provider);
        assert!(told.as_str().unwrap().contains("denied"), "{rules}{effects}: {told}");
    }
}

#[test]
fn no_server_outlives_a_command_that_is_killed() {
    let provider = calls(&[("mcp__test__slow", "{}")]);
    let server = McpServer::start(Manners::default());
    let home = Home::with(&provider, &as_program(&server));
    let mut command = home.bowline();
    command.args(["exec", "go"]).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    until("the server is called", || !server.seen_of("tools/call").is_empty());
    assert!(home.processes().iter().any(|process| process.contains("/dev/tcp/")));
    child.kill().unwrap();
    child.wait().unwrap();
    until("nothing is left", || home.processes().is_empty());
    // The next process tells the model that nobody knows what the call did.
    let session = home.sessions().remove(0);
    let (code, _, err) = home.run(&["exec", "--resume", &session]);
    assert_eq!(code, 0, "{err}");
    let told = told(&provider);
    assert!(told.as_str().unwrap().contains("interrupted: "), "{told}");
}

#[test]
fn a_server_of_shelly_is_one_too() {
    let provider = calls(&[("mcp__test__echo", "{}")]);
    let server = McpServer::start(Manners::default());
    let home = Home::new(&provider);
    let list = json!({ "mcp_servers": [
        { "name": "test", "command": "bash", "args": server.program() },
    ] });
    // `$` stands for variables there.
    let list = list.to_string().replace("$$", "").replace("$!", "%1");
    std::fs::write(home.path("home/config/shelly.config.yaml"), list).unwrap();
    let (code, _, err) = home.run(&["exec", "--profile", "shelly", "go"]);
    assert_eq!(code, 0, "{err}");
    assert_eq!(told(&provider), "{}");
}
