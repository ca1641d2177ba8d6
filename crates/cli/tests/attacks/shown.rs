//! What a person sees: nothing of it acts upon the terminal, and nothing is hidden.

use std::sync::Arc;

use bowline::agent::gate::{Review, Verdict, gate_fn};
use bowline::agent::tool::{ToolContext, Toolbox, tool_fn};
use bowline::agent::{Agent, schemars};
use bowline::llm::scripted::{Reply as Scripted, ScriptedModel};
use bowline::store::{Durability, Files};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::calls;
use super::support::{Home, Provider, Reply};

/// The clipboard, the title, a link, colours, the cursor, writing over a line, a bell, C1 codes, the
/// direction of writing.
const HOSTILE: &str = "\u{1b}]52;c;cm0gLXJm\u{7}\u{1b}]0;title\u{7}\u{1b}]8;;http://x\u{1b}\\l\u{1b}]8;;\u{1b}\\\
    \u{1b}[31mred\u{1b}[2J\u{9b}2J\u{9d}0;t\u{9c}\u{90}q\u{9c}good\rbad\u{8}\u{8}\u{7}\u{202e}txt\u{2066}x\u{1b}";

#[track_caller]
pub(super) fn is_harmless(text: &str) {
    let acts = |c: char| {
        c.is_control() && !matches!(c, '\n' | '\t')
            || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    assert!(!text.contains(acts), "{text:?}");
}

#[test]
fn whatever_models_and_tools_say_no_terminal_acts_upon_it() {
    let name = format!("{}.txt", HOSTILE.replace('/', ""));
    let provider = Provider::answering(move |request| match super::results(request) {
        0 => Reply::Calls(vec![
            (
                "1".to_owned(),
                "bash",
                json!({ "command": format!("printf '%b' '{HOSTILE}'; false") }),
            ),
            ("2".to_owned(), "write", json!({ "path": name, "content": HOSTILE })),
            ("3".to_owned(), "read", json!({ "path": format!("missing{name}") })),
            ("4".to_owned(), "fetch", json!({ "url": HOSTILE })),
        ]),
        _ => Reply::Text(HOSTILE.to_owned()),
    });
    let home = Home::new(&provider);
    let (code, out, err) = home.run(&["exec", HOSTILE]);
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("good") && err.contains("> bash printf"), "{out}{err}");
    let id = home.sessions().remove(0);
    let views = [
        &["sessions", "list"][..],
        &["sessions", "show", &id],
        &["sessions", "show", &id, "--tree"],
        &["rewind", &id, "--list"],
        &["diff", &id, "--stat"],
        &["sessions", "verify", &id],
    ];
    for text in [&out, &err] {
        is_harmless(text);
    }
    for view in views {
        let (_, out, err) = home.run(view);
        assert!(!out.is_empty(), "{view:?}: {err}");
        is_harmless(&out);
        is_harmless(&err);
    }
    // For programs all of it is there.
    let (_, out, _) = home.run(&["sessions", "show", &id, "--json"]);
    is_harmless(&out);
    let whole = serde_json::to_string(HOSTILE).unwrap();
    let mut events = out.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    assert!(
        events.any(|event| event["type"] == "text" && event.to_string().contains(&whole)),
        "{out}"
    );
}

#[test]
fn a_server_that_fails_says_nothing_to_the_terminal() {
    let body = json!({ "error": { "message": HOSTILE } }).to_string();
    let provider = Provider::answering(move |_| Reply::Status(400, body.clone()));
    let home = Home::new(&provider);
    let (code, out, err) = home.run(&["exec", "go"]);
    assert_ne!(code, 0);
    assert!(err.contains("good"), "{err}");
    is_harmless(&out);
    is_harmless(&err);
}

#[test]
fn what_a_rule_is_asked_about_is_shown_whole() {
    let home = Home::configured("[permissions]\nmode = \"ask\"\n");
    let smuggled = format!("ls {HOSTILE}\nverdict   allow");
    let (_, out, _) = home.run(&["rules", "explain", &smuggled]);
    is_harmless(&out);
    assert!(out.contains("runs      ls \\u001b]52"), "{out}");
    assert!(!out.lines().any(|line| line == "verdict   allow"), "{out}");
    for (flag, value) in [("--path", HOSTILE), ("--host", HOSTILE)] {
        let (_, out, err) = home.run(&["rules", "explain", flag, value]);
        is_harmless(&out);
        is_harmless(&err);
    }
}

#[test]
fn names_of_a_configuration_are_shown_harmlessly() {
    let quoted = serde_json::to_string(HOSTILE).unwrap();
    let home = Home::configured(&format!(
        "[agents.helper]\ndescription = {quoted}\n[permissions]\ndeny = [{{ rule = \"bash(x)\", reason = {quoted} }}]\n\
         [mcp_servers.s]\ncommand = {quoted}\n"
    ));
    for view in [
        &["agents", "list"][..],
        &["agents", "show", "helper"],
        &["rules", "list"],
        &["mcp", "list"],
        &["doctor"],
    ] {
        let (_, out, err) = home.run(view);
        assert!(view == ["doctor"] || out.contains("good"), "{view:?}: {out}{err}");
        is_harmless(&out);
        is_harmless(&err);
    }
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Said {
    command: String,
}

/// A person must not be asked about another command than the one that runs.
#[tokio::test]
async fn a_question_shows_all_of_a_command() {
    let home = Arc::new(Home::configured("[permissions]\nmode = \"ask\"\n"));
    let far = "x".repeat(500);
    let command = format!("echo hi \u{1b}]0;\nrm -rf ~ \u{7} \u{200b}\u{202e}{far} ; rm far");
    let arguments = json!({ "command": command }).to_string();
    let replies = [Scripted::call("bash", arguments), Scripted::text("done")];
    let store = Files::new(home.path("home/data/sessions"), Durability::Process);
    let asks = |review: &Review<'_>| {
        let said: Said = serde_json::from_str(&review.call.arguments).unwrap();
        Verdict::Wait { question: format!("run `{}`?", said.command), rule: Some(said.command) }
    };
    let bash =
        tool_fn("bash", "Runs it.", async |said: Said, _: ToolContext| Ok(said.command.into()));
    let agent = Agent {
        tools: Toolbox::default().with(bash).unwrap(),
        store: Arc::new(store),
        gate: Arc::new(gate_fn(asks)),
        ..Agent::new(Arc::new(ScriptedModel::new(replies)))
    };
    let handle = agent.start();
    let id = handle.session_id().to_string();
    let _run = handle.prompt("go");
    while handle.state().waiting_calls.is_empty() {
        tokio::task::yield_now().await;
    }
    let list = Arc::clone(&home);
    let listed = tokio::task::spawn_blocking(move || list.run(&["sessions", "decide", &id]));
    let (code, out, err) = listed.await.unwrap();
    assert_eq!(code, 0, "{err}");
    is_harmless(&out);
    let seen = format!(
        "run `echo hi \\u001b]0;\n    rm -rf ~ \\u0007 \\u200b\\u202e{far} ; rm far`?  (for longer: \
         echo hi \\u001b]0;\\nrm -rf ~ "
    );
    assert!(out.contains(&seen), "{out}");
    handle.close().await;
}

#[test]
fn a_call_that_hides_its_end_shows_it() {
    let provider =
        calls(vec![("bash", json!({ "command": "echo hi \u{1b}] ; touch hidden \u{7}" }))]);
    let home = Home::new(&provider);
    let (_, _, err) = home.run(&["exec", "go"]);
    assert!(err.contains("> bash echo hi \\u001b] ; touch hidden \\u0007"), "{err}");
}
