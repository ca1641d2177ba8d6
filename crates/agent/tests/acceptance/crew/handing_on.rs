//! A task that one agent hands on to another.

use std::sync::{Arc, Mutex};

use bowline_agent::crew::board::{BoardError, TaskBoard, TaskStatus};
use bowline_agent::crew::{Boards, Member, Spawn};
use bowline_agent::tool::Toolbox;
use bowline_llm::scripted::Reply;
use bowline_llm::{Message, ScriptedModel, text_of};
use futures::future::BoxFuture;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::{Crew, done, report};
use crate::support::{echo, lines_of};

fn hand_on(target: &str) -> Reply {
    let arguments = json!({ "target_agent": target, "reason": "no Rust", "context": "see lib.rs" });
    Reply::call("handoff", arguments.to_string())
}

fn able(member: &mut Member) {
    member.max_handoffs = 9;
}

fn hire(crew: &Crew, name: &str, script: impl IntoIterator<Item = Reply>) -> ScriptedModel {
    let tools = Toolbox::default().with(echo()).unwrap();
    crew.hire_with(name, ScriptedModel::new(script), tools, able)
}

fn crew() -> Crew {
    Crew::for_tasks(json!([{ "agent": "coder", "task": "go", "context": "it is blue" }]))
}

async fn play(crew: Crew, max_handoffs: u32) -> Value {
    let member = Member { max_handoffs, ..crew.member() };
    report(&crew.play_as(member).await)
}

// 99
#[tokio::test]
async fn a_handoff_says_to_whom_why_and_what_is_known() {
    let crew = crew();
    let with = |target: &str, reason: &str, context: &str| {
        let arguments = json!({ "target_agent": target, "reason": reason, "context": context });
        Reply::call("handoff", arguments.to_string())
    };
    let script = [
        with("", "b", "c"),
        with("a", " ", "c"),
        with("a", "b", ""),
        hand_on("tester").and_call(
            "handoff",
            json!({
                "target_agent": "writer", "reason": "x", "context": "y",
            })
            .to_string(),
        ),
    ];
    let coder = hire(&crew, "coder", script);
    hire(&crew, "tester", [done("tested")]);
    hire(&crew, "writer", []);
    let report = play(crew, 1).await;
    let requests = coder.requests();
    let errors: Vec<String> = (1..4).flat_map(|n| lines_of(requests[n].messages.last())).collect();
    assert_eq!(
        errors,
        [
            "results call_1!=\"target_agent must not be empty\"",
            "results call_2!=\"reason must not be empty\"",
            "results call_3!=\"context must not be empty\"",
        ]
    );
    assert_eq!(report["result"], "tested");
}

// 100, B26: the peer is told what the first one did, too.
#[tokio::test]
async fn a_peer_goes_on_with_the_task() {
    let crew = crew();
    let looked = Reply::call("echo", r#"{"text":"found it"}"#);
    hire(&crew, "coder", [looked, hand_on("tester")]);
    let tester = hire(&crew, "tester", [done("tested")]);
    let report = play(crew, 1).await;
    let said: Vec<String> = tester.requests()[0]
        .messages
        .iter()
        .map(|message| match &**message {
            Message::User(said) => text_of(&said.content),
            _ => String::new(),
        })
        .collect();
    assert_eq!(said.len(), 2);
    assert!(said[0].starts_with(
        "<handoff_context>\nFrom: coder-task-1\nReason: no Rust\n\nsee lib.rs\n\nWhat coder-task-1 \
         did:\necho {\"text\":\"found it\"}\nhandoff "
    ));
    assert_eq!(said[1], "go");
    let completion = json!({ "status": "completed", "summary": "tested" });
    let expected = json!({
        "agent": "coder",
        "name": "tester-task-1",
        "result": "tested",
        "completion": completion,
    });
    assert_eq!(report, expected);
}

// 101, B21: the limit is the delegating agent's, and none means none.
#[tokio::test]
async fn a_chain_of_handoffs_ends_at_the_limit() {
    let crew = crew();
    let coder = hire(&crew, "coder", [hand_on("tester"), hand_on("tester"), hand_on("tester")]);
    let tester = hire(&crew, "tester", [hand_on("coder"), Reply::text("I must do it myself")]);
    let report = play(crew, 3).await;
    assert_eq!((coder.remaining(), tester.remaining()), (1, 0));
    // The last one in the chain is not offered the tool.
    assert_eq!(report["result"], "I must do it myself");
    let last = tester.requests();
    let offered = |n: usize| last[n].tools.specs().iter().any(|spec| spec.name == "handoff");
    assert_eq!((offered(0), offered(1)), (true, false));
}

#[tokio::test]
async fn a_handoff_beyond_the_limit_is_an_error() {
    let crew = crew();
    // It brings a tool that was made for another place.
    let misplaced = Spawn { depth: 1, ..Spawn::root("coder") };
    let tools = Member { max_handoffs: 9, ..crew.member() };
    hire(&crew, "tester", []);
    let tools = tools.tools(&misplaced);
    crew.hire_with("coder", ScriptedModel::new([hand_on("tester")]), tools, |_| {});
    let report = play(crew, 0).await;
    assert_eq!(report["error"], "handoff: the limit of 0 in a chain is reached");
}

// 102, B26
#[tokio::test]
async fn a_task_is_not_handed_on_to_just_anybody() {
    let expected = [
        ("coder", "coder cannot hand on to itself"),
        ("CODER", "CODER cannot hand on to itself"),
        ("root", "root delegated the task, it is not to be handed back"),
        ("testr", "there is no agent \"testr\"; did you mean \"tester\"?"),
    ];
    for (target, error) in expected {
        let crew = crew();
        let coder = hire(&crew, "coder", [hand_on(target), Reply::text("I did it myself")]);
        hire(&crew, "tester", []);
        hire(&crew, "root", []);
        // It is told at once, and can go on.
        assert_eq!(play(crew, 3).await["result"], "I did it myself");
        let told = lines_of(coder.requests()[1].messages.last());
        assert_eq!(told, [format!("results call_1!={error:?}")]);
    }
    let crew = crew();
    hire(&crew, "coder", [hand_on("root")]);
    hire(&crew, "root", [done("back at mine")]);
    let member = Member { max_handoffs: 1, allow_self: true, ..crew.member() };
    assert_eq!(report(&crew.play_as(member).await)["result"], "back at mine");
}

#[derive(Clone, Default)]
struct Slate(Arc<Mutex<Vec<String>>>);

impl TaskBoard for Slate {
    fn claim_task(&self, _: &str, agent: &str) -> Result<(), BoardError> {
        self.0.lock().unwrap().push(format!("claimed by {agent}"));
        Ok(())
    }

    fn reassign(&self, _: &str, agent: &str) -> Result<(), BoardError> {
        self.0.lock().unwrap().push(format!("passed on to {agent}"));
        Ok(())
    }

    fn update_task_status(&self, _: &str, status: TaskStatus) -> Result<(), BoardError> {
        self.0.lock().unwrap().push(status.to_string());
        Ok(())
    }

    fn watch_canceled(&self, _: &str) -> BoxFuture<'static, ()> {
        Box::pin(std::future::pending())
    }
}

// 103
#[tokio::test]
async fn a_task_that_is_handed_on_has_two_owners_and_one_end() {
    let task = json!([{ "agent": "coder", "task": "go", "task_id": "t" }]);
    for (target, expected) in [
        ("tester", vec!["claimed by coder-task-1", "passed on to tester-task-1", "completed"]),
        ("nobody", vec!["claimed by coder-task-1", "failed"]),
    ] {
        let crew = Crew::for_tasks(task.clone());
        hire(&crew, "coder", [hand_on(target)]);
        hire(&crew, "tester", [done("tested")]);
        let slate = Slate::default();
        let board = slate.clone();
        let boards: Boards = Arc::new(move |_| Arc::new(board.clone()));
        let member = Member { max_handoffs: 1, board: Some(boards), ..crew.member() };
        crew.play_as(member).await;
        assert_eq!(*slate.0.lock().unwrap(), expected);
    }
}

#[tokio::test]
async fn who_may_hand_on_is_told_to_whom() {
    let crew = crew();
    let coder = hire(&crew, "coder", [done("coded")]);
    hire(&crew, "tester", []);
    hire(&crew, "root", []);
    play(crew, 1).await;
    let request = &coder.requests()[0];
    let specs = request.tools.specs();
    let handoff = specs.iter().find(|spec| spec.name == "handoff").unwrap();
    assert!(handoff.description.ends_with(" There are: tester (Does tester.)."), "{handoff:?}");
    // Where there is nobody else, it is not offered.
    let crew = self::crew();
    let coder = hire(&crew, "coder", [done("coded")]);
    play(crew, 1).await;
    let request = &coder.requests()[0];
    assert!(request.tools.specs().iter().all(|spec| spec.name != "handoff"));
}

#[tokio::test]
async fn a_handoff_that_fails_keeps_what_was_done() {
    let crew = crew();
    let looked = Reply::text("Half of it is done.").and_call("echo", r#"{"text":"found it"}"#);
    hire(&crew, "coder", [looked, hand_on("tester")]);
    let broken = bowline_agent::crew::Card::new("tester", "");
    crew.registry.register(broken, |_| {
        Err(bowline_agent::AgentError::NotMade("its model is gone".to_owned()))
    });
    let report = play(crew, 1).await;
    let error = report["error"].as_str().unwrap();
    assert!(error.starts_with("handoff: tester cannot be made: "), "{error}");
    assert_eq!(
        (&report["name"], &report["partial"]),
        (&json!("coder-task-1"), &json!("Half of it is done."))
    );
    assert!(report["trace"].as_str().unwrap().starts_with("echo "), "{report}");
}

// What the peer does not have it does not get; it has the rest.
#[tokio::test]
async fn a_peer_may_lack_a_tool_of_the_task() {
    let task = json!({ "agent": "coder", "task": "go", "tools": ["echo"] });
    let crew = Crew::for_tasks(json!([task]));
    hire(&crew, "coder", [hand_on("tester")]);
    let tools = Toolbox::default().with(crate::support::tool("other", async |_, _| Ok("".into())));
    let tester = ScriptedModel::new([done("tested")]);
    let tester = crew.hire_with("tester", tester, tools.unwrap(), able);
    assert_eq!(play(crew, 1).await["result"], "tested");
    let request = &tester.requests()[0];
    let names: Vec<&str> = request.tools.specs().iter().map(|spec| &*spec.name).collect();
    assert!(!names.contains(&"other") && names.contains(&"task_complete"), "{names:?}");
}

/// A board that lets nobody pass a task on.
struct Stubborn;

impl TaskBoard for Stubborn {
    fn claim_task(&self, _: &str, _: &str) -> Result<(), BoardError> {
        Ok(())
    }

    fn reassign(&self, id: &str, _: &str) -> Result<(), BoardError> {
        Err(BoardError::Unclaimed { id: id.to_owned() })
    }

    fn update_task_status(&self, _: &str, _: TaskStatus) -> Result<(), BoardError> {
        Ok(())
    }

    fn watch_canceled(&self, _: &str) -> BoxFuture<'static, ()> {
        Box::pin(std::future::pending())
    }
}

#[tokio::test]
async fn a_board_that_does_not_take_a_handoff_is_told() {
    let task = json!([{ "agent": "coder", "task": "go", "task_id": "t" }]);
    let crew = Crew::for_tasks(task);
    hire(&crew, "coder", [hand_on("tester")]);
    hire(&crew, "tester", [done("tested")]);
    let boards: Boards = Arc::new(|_| Arc::new(Stubborn));
    let member = Member { max_handoffs: 1, board: Some(boards), ..crew.member() };
    let report = report(&crew.play_as(member).await);
    assert_eq!(report["result"], "tested");
    let warning = "the board did not take the handoff: t has no assignee; claim it first";
    assert_eq!(report["warning"], warning);
}
