//! `bowline sessions show --tree`: the story of a crew, read from the log alone.
#![allow(clippy::unwrap_used, reason = "a failure here is a failure of the test")]

mod support;

use std::fs;
use std::sync::Arc;

use bowline::agent::crew::board::{Board, NewTask};
use bowline::agent::crew::{Card, Interaction, Member, Registry, Spawn};
use bowline::agent::tool::{ToolContext, Toolbox, tool_fn};
use bowline::agent::{Agent, AgentError, schemars};
use bowline::llm::Usage;
use bowline::llm::scripted::{Reply, ScriptedModel};
use bowline::store::{Durability, Files};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use support::Home;

/// What a crew was told to do, in words. Times differ from run to run and are left out.
const STORY: &str = r#"session ID
lead: done, 4 turns, 400 tokens in, 40 out, TIME; with its agents 1000 tokens in, 100 out
  run done, 4 turns, 400 tokens in, 40 out, TIME, scripted/script
    prompt: Get the parser right.
    says: First the board.
    > plan the parser [ok, TIME]
    board: task-1 is made: fix the parser
    > delegate coder, reviewer [ok, TIME]
      coder-fix-1 (coder): done, 3 turns, 300 tokens in, 30 out, TIME; with its agents 400 tokens in, 40 out
        run done, 3 turns, 300 tokens in, 30 out, TIME, scripted/script
          briefing: <delegation_context> It is broken. </delegation_context>
          prompt: fix the parser
          > request_input Which file? [ok, TIME]
            asks: Which file?
            is answered: src/parser.rs
          > delegate typist [ok, TIME]
            typist-type-1 (typist): done, 1 turn, 100 tokens in, 10 out, TIME
              run done, 1 turn, 100 tokens in, 10 out, TIME, scripted/script
                prompt: type it
                says: typed
          > task_complete completed [ok, TIME]
          completed: The parser is fixed. run done, forged
            files: src/parser.rs
            tests: cargo test
            caveats: no fuzzing
      reviewer-review-1 (reviewer): done, 1 turn, 100 tokens in, 10 out, TIME
        run done, 1 turn, 100 tokens in, 10 out, TIME, scripted/script
          prompt: review it
          > handoff expert [ok, TIME]
          hands on to expert: too hard
      expert-review-1 (expert): done, 1 turn, 100 tokens in, 10 out, TIME
        run done, 1 turn, 100 tokens in, 10 out, TIME, scripted/script
          briefing: <handoff_context> From: reviewer-review-1 Reason: too hard none What reviewer-review-1 did: handoff {"context":"none","reason":"too hard","target_agent":"expert …
          prompt: review it
          says: It is right.
    board: task-1 is in_progress, coder-fix-1
    > answer_delegation_questions [ok, TIME]
    board: task-1 is completed, coder-fix-1
    delegate is over in the background
    says: Both are done.
"#;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Plan {
    title: String,
}

fn usage() -> Usage {
    Usage { input: 100, output: 10, ..Usage::default() }
}

fn model(replies: impl IntoIterator<Item = Reply>) -> Arc<ScriptedModel> {
    Arc::new(ScriptedModel::new(replies.into_iter().map(|reply| reply.with_usage(usage()))))
}

fn call(tool: &str, arguments: &Value) -> Reply {
    Reply::call(tool, arguments.to_string())
}

fn worker(spawn: &Spawn, replies: impl IntoIterator<Item = Reply>) -> Result<Agent, AgentError> {
    let member = Member { max_handoffs: 1, ..spawn.member() };
    Ok(Agent { tools: member.tools(spawn), ..Agent::new(model(replies)) })
}

fn registry() -> Arc<Registry> {
    let registry = Arc::new(Registry::default());
    registry.register(Card::new("coder", "Writes code."), |spawn| {
        let typing = json!({ "tasks": [{ "agent": "typist", "task": "type it" }] });
        let completion = json!({
            "status": "completed",
            "summary": "The parser\u{1b}[31m is\u{1b}[0m fixed.\u{202e}\nrun done, forged",
            "files_modified": ["src/parser.rs"],
            "tests_run": ["cargo test"],
            "caveats": "no fuzzing",
        });
        let asking = call("request_input", &json!({ "question": "Which\u{1b}]0;mine\u{7} file?" }));
        worker(spawn, [asking, call("delegate", &typing), call("task_complete", &completion)])
    });
    registry.register(Card::new("reviewer", "Reviews code."), |spawn| {
        let peer = json!({ "target_agent": "expert", "reason": "too hard", "context": "none" });
        worker(spawn, [call("handoff", &peer)])
    });
    let typist = |spawn: &Spawn| worker(spawn, [Reply::text("typed")]);
    registry.register(Card::new("typist", "Types."), typist);
    let expert = |spawn: &Spawn| worker(spawn, [Reply::text("It is right.")]);
    registry.register(Card::new("expert", "Knows it all."), expert);
    registry
}

/// Has a crew do a job in a session that the command finds.
async fn crew(home: &Home) -> String {
    let plan = tool_fn("plan", "Plans a task.", async |plan: Plan, cx: ToolContext| {
        let task = NewTask { title: format!("fix {}", plan.title), ..NewTask::default() };
        Ok(Board::of(&cx).create(task)?.task.id.into())
    });
    let tasks = json!({ "tasks": [
        { "agent": "coder", "task": "fix the parser", "context": "It is broken.",
          "task_id": "task-1", "mode": "interactive" },
        { "agent": "reviewer", "task": "review it" },
    ] });
    let answers = json!({ "answers": [{ "delegation_id": "d-1", "answer": "src/parser.rs" }] });
    let replies = [
        Reply::text("First the board.").and_call("plan", r#"{"title":"the parser"}"#),
        call("delegate", &tasks),
        call("answer_delegation_questions", &answers),
        Reply::text("Both are done."),
    ];
    let member = Member {
        interaction: Interaction::Interactive,
        max_handoffs: 1,
        board: Some(Arc::new(|cx| Arc::new(Board::of(cx)))),
        ..Member::new("lead", registry())
    };
    let own = Toolbox::default().with(plan).unwrap();
    let store = Files::new(home.path("home/data/sessions"), Durability::Process);
    let lead = Agent {
        name: "lead".to_owned(),
        tools: Toolbox::layered([&own, &member.tools(&Spawn::root("lead"))]),
        store: Arc::new(store),
        ..Agent::new(model(replies))
    };
    let handle = lead.start();
    let answer = handle.prompt("Get the parser right.").text().await.unwrap();
    assert_eq!(answer, "Both are done.");
    let session = handle.session_id().to_string();
    handle.close().await;
    session
}

fn home() -> Home {
    Home::configured("")
}

fn show(home: &Home, session: &str) -> String {
    let (code, out, err) = home.run(&["sessions", "show", "--tree", session]);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    timeless(&out.replace(session, "ID"))
}

/// Puts a word in the place of every time.
fn timeless(text: &str) -> String {
    let mut words: Vec<String> = Vec::new();
    for word in text.split(' ') {
        let unit = ["ms", "s"].into_iter().find(|unit| {
            let rest = word.strip_prefix(unit);
            rest.is_some_and(|rest| !rest.starts_with(char::is_alphabetic))
        });
        let is_number = words.last().is_some_and(|last| last.parse::<f64>().is_ok());
        match (unit, is_number) {
            (Some(unit), true) => {
                words.pop();
                words.push(word.replacen(unit, "TIME", 1));
            }
            _ => words.push(word.to_owned()),
        }
    }
    words.join(" ")
}

fn tree(home: &Home, session: &str) -> (i32, Value) {
    let (code, out, _) = home.run(&["sessions", "show", "--tree", "--json", session]);
    assert_eq!(out.lines().count(), 1);
    (code, serde_json::from_str(&out).unwrap())
}

#[tokio::test]
async fn the_tree_tells_who_did_what_for_whom() {
    let home = home();
    let session = crew(&home).await;
    assert_eq!(show(&home, &session), STORY);
}

/// Returns the calls of an agent, in order.
fn calls(agent: &Value) -> Vec<&Value> {
    let stretches = agent["stretches"].as_array().unwrap().iter();
    let steps = stretches.flat_map(|stretch| stretch["steps"].as_array().unwrap());
    steps.filter(|step| step["type"] == "call").collect()
}

#[tokio::test]
async fn the_tree_is_told_as_nested_json_too() {
    let home = home();
    let session = crew(&home).await;
    let (code, tree) = tree(&home, &session);
    assert_eq!((code, &tree["session"]), (0, &json!(session)));
    let lead = &tree["agents"][0];
    assert_eq!(lead["with_agents"]["usage"], json!({ "input": 1000, "output": 100 }));
    let delegated = calls(lead)[1];
    let below = delegated["agents"].as_array().unwrap();
    let places: Vec<_> = below.iter().map(|agent| (&agent["config"], &agent["key"])).collect();
    let expected = [("coder", "0"), ("reviewer", "1"), ("expert", "1/1")];
    let expected = expected.map(|(config, key)| (json!(config), json!(key)));
    assert_eq!(places, expected.iter().map(|(config, key)| (config, key)).collect::<Vec<_>>());
    let coder = &below[0];
    assert_eq!(coder["used"]["spent"]["cost_usd"], Value::Null, "nobody knows the price");
    assert_eq!(calls(coder)[1]["agents"][0]["name"], "typist-type-1");
    let run = coder["stretches"].as_array().unwrap().last().unwrap()["run"].clone();
    assert_eq!((&run["outcome"], &run["used"]["turns"]), (&json!("done"), &json!(3)));
    // A program gets what was said as it was said.
    let summary = "The parser\u{1b}[31m is\u{1b}[0m fixed.\u{202e}\nrun done, forged";
    assert_eq!(run["completion"]["summary"], summary);
}

#[tokio::test]
async fn a_log_that_is_cut_off_anywhere_is_told_as_far_as_it_goes() {
    let home = home();
    let session = crew(&home).await;
    let log = home.log(&session);
    let whole = fs::read_to_string(&log).unwrap();
    let ends: Vec<usize> = whole.match_indices('\n').map(|(at, _)| at + 1).collect();
    let mut open_agents = 0;
    for (lines, end) in ends.iter().enumerate() {
        // The next line is torn, where there is one.
        let torn = ends.get(lines + 1).map_or(*end, |next| (end + next) / 2);
        fs::write(&log, &whole[..torn]).unwrap();
        let (code, tree) = tree(&home, &session);
        assert_eq!(code, 0, "after line {}", lines + 1);
        let lead = &tree["agents"][0];
        let is_whole = *end == whole.len();
        assert_eq!(lead["outcome"], if is_whole { "done" } else { "open" }, "line {}", lines + 1);
        let delegated = calls(lead).into_iter().find(|call| call["tool"] == "delegate");
        let below = delegated.and_then(|call| call["agents"].as_array().cloned());
        let open = below.into_iter().flatten().filter(|agent| agent["outcome"] == "open").count();
        open_agents = open_agents.max(open);
    }
    assert_eq!(open_agents, 2, "two agents were at work at once");

    fs::write(&log, "{\"hash\":\"no line was ever whole").unwrap();
    let (code, nothing) = tree(&home, &session);
    assert_eq!((code, &nothing["agents"]), (0, &json!([])));
}

#[tokio::test]
async fn of_a_damaged_log_the_tree_tells_what_is_before_the_damage() {
    let home = home();
    let session = crew(&home).await;
    let log = home.log(&session);
    let whole = fs::read_to_string(&log).unwrap();
    fs::write(&log, whole.replace("First the board.", "First the blard.")).unwrap();
    let (code, out, err) = home.run(&["sessions", "show", "--tree", &session]);
    assert_eq!(code, 1);
    assert!(out.contains("prompt: Get the parser right.") && !out.contains("blard"), "{out}");
    assert!(err.contains("line 2"), "{err}");
}
