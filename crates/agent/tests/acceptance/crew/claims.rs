//! What an agent says of its task, and what its log says.

use bowline_agent::tool::Toolbox;
use bowline_llm::ScriptedModel;
use bowline_llm::scripted::Reply;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::{Crew, complete, delegate, done, report, runner, stranger, writer};
use crate::support::lines_of;

fn tools() -> Toolbox {
    Toolbox::default().with(writer()).unwrap().with(runner()).unwrap()
}

fn write(path: &str) -> Reply {
    Reply::call("write", json!({ "path": path }).to_string())
}

fn run(command: &str) -> Reply {
    Reply::call("bash", json!({ "command": command }).to_string())
}

/// Returns what the lead is told of a coder that does these things.
async fn told_of(script: impl IntoIterator<Item = Reply>) -> (Value, ScriptedModel) {
    let crew = Crew::for_tasks(json!([{ "agent": "coder", "task": "go" }]));
    let model = crew.hire_with("coder", ScriptedModel::new(script), tools(), |_| {});
    let told = crew.play().await;
    (report(&told), model)
}

// 75
#[tokio::test]
async fn only_a_valid_completion_ends_the_work() {
    let script = [
        complete(&json!({ "status": "done", "summary": "x" })),
        complete(&json!({ "status": "completed" })),
        Reply::call("task_complete", "{"),
        complete(&json!({
            "status": "completed",
            "summary": "all done",
            "caveats": "not on Windows",
        })),
        Reply::text("never said"),
    ];
    let (report, model) = told_of(script).await;
    assert_eq!(model.remaining(), 1);
    let requests = model.requests();
    let refusals: Vec<_> =
        (1..4).map(|n| lines_of(requests[n].messages.last())[0].contains("!=")).collect();
    assert_eq!(refusals, [true; 3]);
    assert_eq!(report["result"], "all done");
    let completion =
        json!({ "status": "completed", "summary": "all done", "caveats": "not on Windows" });
    assert_eq!(report["completion"], completion);
}

// 76
#[tokio::test]
async fn the_first_completion_counts() {
    let twice = done("first")
        .and_call("task_complete", json!({ "status": "failed", "summary": "second" }).to_string());
    let crew = Crew::for_tasks(json!([{ "agent": "coder", "task": "go" }]));
    crew.hire("coder", [twice]);
    let told = crew.play().await;
    assert_eq!(report(&told)["completion"], json!({ "status": "completed", "summary": "first" }));
    let results: Vec<String> = told
        .events
        .iter()
        .filter(|event| event.agent.depth == 1)
        .filter_map(|event| match &event.body {
            bowline_agent::event::EventBody::ToolEnd { content, .. } => {
                Some(bowline_llm::text_of(content))
            }
            _ => None,
        })
        .collect();
    assert_eq!(
        results,
        ["The task is completed.", "Ignored: you have said already that the task is over."]
    );
}

// 74: a summary that says nothing.
#[tokio::test]
async fn an_empty_summary_comes_to_its_status() {
    let (report, _) = told_of([complete(&json!({ "status": "failed", "summary": "" }))]).await;
    assert_eq!(report["result"], "failed");
    let completion = json!({ "status": "failed", "summary": " ", "caveats": "no network" });
    let (report, _) = told_of([complete(&completion)]).await;
    assert_eq!(report["result"], "failed: no network");
}

fn claims(files: &[&str], tests: &[&str]) -> Reply {
    complete(&json!({
        "status": "completed",
        "summary": "done",
        "files_modified": files,
        "tests_run": tests,
    }))
}

/// M46: what is claimed is not trusted blindly.
#[tokio::test]
async fn what_is_true_of_a_claim_is_not_doubted() {
    let files = &["src/lib.rs", "./Cargo.toml", "/home/README.md"];
    let tests = &["cargo test -p agent"];
    let (report, _) = told_of([
        write("src/lib.rs").and_call("write", r#"{"path":"Cargo.toml"}"#),
        write("README.md"),
        run("cargo test   -p agent --fail-fast"),
        run("cd x && cargo test -p agent 2>&1"),
        claims(files, tests),
    ])
    .await;
    assert_eq!((report.get("discrepancies"), report.get("unverified")), (None, None));
    assert_eq!(report["completion"]["files_modified"], json!(files));
}

#[tokio::test]
async fn what_is_not_true_of_a_claim_is_told() {
    let (report, _) = told_of([claims(&["src/lib.rs"], &["cargo test"])]).await;
    let expected = ["src/lib.rs: nothing wrote it", "cargo test: no command was run"];
    assert_eq!(report["discrepancies"], json!(expected));
    let (report, _) = told_of([
        write("src/main.rs"),
        run("cargo test # fails"),
        claims(&["src/lib.rs"], &["cargo test", "make check"]),
    ])
    .await;
    let expected = [
        "/home/src/main.rs: written, and not said to be",
        "cargo test: it ended with exit code 101",
    ];
    assert_eq!(report["discrepancies"], json!(expected));
    let expected = [
        "src/lib.rs: only a command may have written it",
        "make check: no command that was run is it",
    ];
    assert_eq!(report["unverified"], json!(expected));
}

#[tokio::test]
async fn a_call_that_failed_or_was_rewritten_counts_as_what_it_was() {
    let (report, _) = told_of([
        Reply::call("write", r#"{"path":1}"#),
        Reply::call("missing", r#"{"path":"a"}"#),
        claims(&["a"], &[]),
    ])
    .await;
    assert_eq!(
        report["discrepancies"],
        json!(["a: nothing wrote it", "/home/: written, and not said to be"])
    );
}

#[tokio::test]
async fn what_the_agents_of_an_agent_did_is_its_own_doing() {
    let crew = Crew::for_tasks(json!([{ "agent": "middle", "task": "go" }]));
    let leaf = [write("deep.rs"), run("cargo test"), done("wrote it")];
    crew.hire_with("leaf", ScriptedModel::new(leaf), tools(), |_| {});
    let down = delegate(json!([{ "agent": "leaf", "task": "go" }]));
    crew.hire("middle", [down, claims(&["deep.rs", "other.rs"], &["cargo test"])]);
    let told = crew.play().await;
    let report = report(&told);
    assert_eq!(report.get("discrepancies"), None);
    assert_eq!(report["unverified"], json!(["other.rs: only a command may have written it"]));
}

/// A model that says nothing of its files says nothing untrue of a task that it answers in words.
#[tokio::test]
async fn an_answer_in_words_claims_nothing() {
    let (report, _) = told_of([write("a"), Reply::text("done")]).await;
    let expected = json!({ "agent": "coder", "name": "coder-task-1", "result": "done" });
    assert_eq!(report, expected);
}

// Only what a command really runs is what it is.
#[tokio::test]
async fn a_command_that_only_mentions_a_test_did_not_run_it() {
    let (report, _) = told_of([run("echo cargo test"), claims(&[], &["cargo test"])]).await;
    assert_eq!(report["unverified"], json!(["cargo test: no command that was run is it"]));
    let (report, _) = told_of([run("cargo"), claims(&[], &["cargo test"])]).await;
    assert_eq!(report["unverified"], json!(["cargo test: no command that was run is it"]));
    let (report, _) = told_of([run("cargo test | tail -3"), claims(&[], &["cargo test"])]).await;
    let expected = "cargo test: how it ended does not show in \"cargo test | tail -3\"";
    assert_eq!(report["unverified"], json!([expected]));
}

#[tokio::test]
async fn a_test_that_ran_before_the_last_change_is_said_to() {
    let stale = "cargo test: files were written after it was run, and it was not run again";
    let script = [run("cargo test"), write("a"), claims(&["a"], &["cargo test"])];
    let (report, _) = told_of(script).await;
    assert_eq!(report["unverified"], json!([stale]));
    let script =
        [run("cargo test"), write("a"), run("cargo test"), claims(&["a"], &["cargo test"])];
    let (report, _) = told_of(script).await;
    assert_eq!(report.get("unverified"), None);
}

// A tool that does not say what it changes may have written it.
#[tokio::test]
async fn what_a_strangers_tool_may_have_written_is_not_contradicted() {
    let crew = Crew::for_tasks(json!([{ "agent": "coder", "task": "go" }]));
    let tools = tools().with(stranger("mcp__fs__write")).unwrap();
    let script = [Reply::call("mcp__fs__write", "{}"), claims(&["a"], &["make"])];
    crew.hire_with("coder", ScriptedModel::new(script), tools, |_| {});
    let report = report(&crew.play().await);
    assert_eq!(report.get("discrepancies"), None);
    let expected =
        ["a: only mcp__fs__write may have written it", "make: no command that was run is it"];
    assert_eq!(report["unverified"], json!(expected));
}
