//! Tasks of a board that are delegated.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use bowline_agent::crew::board::{BoardError, TaskBoard, TaskStatus};
use bowline_agent::crew::{Boards, Member};
use bowline_agent::limits::Limits;
use bowline_llm::scripted::{Gate, Reply};
use bowline_llm::{ErrorKind, ModelError, ScriptedModel};
use futures::FutureExt;
use futures::future::BoxFuture;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::{Crew, complete, done, report};
use crate::support::{Told, hear, lines};

/// A board that writes down what it is asked.
#[derive(Clone, Default)]
struct Ledger {
    asked: Arc<Mutex<Vec<String>>>,
    assignees: Arc<Mutex<HashMap<String, String>>>,
    is_broken: bool,
    canceled: Arc<watch::Sender<bool>>,
}

impl Ledger {
    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }

    fn note(&self, asked: String) {
        self.asked.lock().unwrap().push(asked);
    }

    fn boards(&self) -> Option<Boards> {
        let board = self.clone();
        Some(Arc::new(move |_| Arc::new(board.clone())))
    }
}

impl TaskBoard for Ledger {
    fn claim_task(&self, id: &str, agent: &str) -> Result<(), BoardError> {
        self.note(format!("claim {id} for {agent}"));
        let mut assignees = self.assignees.lock().unwrap();
        match assignees.get(id) {
            Some(assignee) if assignee != agent => {
                let (id, assignee) = (id.to_owned(), assignee.clone());
                Err(BoardError::Taken { id, assignee })
            }
            _ => {
                assignees.insert(id.to_owned(), agent.to_owned());
                Ok(())
            }
        }
    }

    fn reassign(&self, id: &str, agent: &str) -> Result<(), BoardError> {
        self.note(format!("reassign {id} to {agent}"));
        self.assignees.lock().unwrap().insert(id.to_owned(), agent.to_owned());
        Ok(())
    }

    fn update_task_status(&self, id: &str, status: TaskStatus) -> Result<(), BoardError> {
        self.note(format!("{id} is {status}"));
        match self.is_broken {
            true => Err(BoardError::Unknown { id: id.to_owned(), known: "none".to_owned() }),
            false => Ok(()),
        }
    }

    fn watch_canceled(&self, _: &str) -> BoxFuture<'static, ()> {
        let mut canceled = self.canceled.subscribe();
        async move { drop(canceled.wait_for(|canceled| *canceled).await) }.boxed()
    }
}

fn task() -> Value {
    json!([{ "agent": "coder", "task": "go", "task_id": "task-1" }])
}

async fn told_of(ledger: &Ledger, script: impl IntoIterator<Item = Reply>) -> Told {
    let crew = Crew::for_tasks(task());
    crew.hire("coder", script);
    let member = Member { board: ledger.boards(), ..crew.member() };
    crew.play_as(member).await
}

// 77
#[tokio::test]
async fn a_task_is_claimed_under_the_agents_name_and_ends_as_it_says() {
    let ledger = Ledger::default();
    told_of(&ledger, [done("yes")]).await;
    assert_eq!(ledger.asked(), ["claim task-1 for coder-task-1", "task-1 is completed"]);
    let ledger = Ledger::default();
    told_of(&ledger, [complete(&json!({ "status": "failed", "summary": "no" }))]).await;
    assert_eq!(ledger.asked(), ["claim task-1 for coder-task-1", "task-1 is failed"]);
}

// 78
#[tokio::test]
async fn a_task_id_without_a_board_means_nothing() {
    let crew = Crew::for_tasks(task());
    crew.hire("coder", [done("yes")]);
    let told = crew.play().await;
    assert_eq!(report(&told)["result"], "yes");
    let ledger = Ledger::default();
    let crew = Crew::for_tasks(json!([{ "agent": "coder", "task": "go" }]));
    crew.hire("coder", [done("yes")]);
    let member = Member { board: ledger.boards(), ..crew.member() };
    crew.play_as(member).await;
    assert_eq!(ledger.asked(), [""; 0]);
}

// 79
#[tokio::test]
async fn a_task_that_the_lead_has_claimed_goes_over_to_its_agent() {
    let ledger = Ledger::default();
    ledger.assignees.lock().unwrap().insert("task-1".to_owned(), "root".to_owned());
    let told = told_of(&ledger, [done("yes")]).await;
    assert_eq!(
        ledger.asked(),
        ["claim task-1 for coder-task-1", "reassign task-1 to coder-task-1", "task-1 is completed"]
    );
    assert_eq!(report(&told)["result"], "yes");
}

#[tokio::test]
async fn a_task_that_somebody_else_has_is_not_begun() {
    let ledger = Ledger::default();
    ledger.assignees.lock().unwrap().insert("task-1".to_owned(), "stranger".to_owned());
    let told = told_of(&ledger, [done("never")]).await;
    let error = report(&told)["error"].as_str().unwrap().to_owned();
    assert_eq!(error, "failed to claim task \"task-1\": task-1 belongs to stranger");
    assert_eq!(ledger.asked(), ["claim task-1 for coder-task-1"]);
    let of_child = lines(&told.events, |_| true);
    assert!(!of_child.iter().any(|line| line.starts_with("coder-")), "{of_child:?}");
}

// 80
#[tokio::test]
async fn a_task_whose_agent_is_exhausted_has_failed() {
    let ledger = Ledger::default();
    let crew = Crew::for_tasks(task());
    let Crew { registry, stage } = crew;
    let limits = Limits { model_turns: 1, wrap_up: false, ..Limits::default() };
    let stage = stage.change(|agent| agent.limits = limits);
    let crew = Crew { registry, stage };
    crew.hire("coder", [Reply::call("nothing", "{}")]);
    let Crew { registry, stage } = crew;
    let stage = stage.change(|agent| agent.limits = Limits::default());
    let crew = Crew { registry, stage };
    let member = Member { board: ledger.boards(), ..crew.member() };
    let told = crew.play_as(member).await;
    assert_eq!(report(&told)["completion"]["summary"], "exhausted its iteration limit");
    assert_eq!(ledger.asked().last().unwrap(), "task-1 is failed");
}

// 81
#[tokio::test]
async fn a_task_whose_agent_fails_has_failed() {
    let ledger = Ledger::default();
    let failed = Reply::error(ModelError::new(ErrorKind::Auth, "no key"));
    let told = told_of(&ledger, [failed]).await;
    assert!(report(&told)["error"].as_str().unwrap().contains("no key"));
    assert_eq!(ledger.asked().last().unwrap(), "task-1 is failed");
}

// 82
#[tokio::test]
async fn a_board_that_fails_is_a_warning() {
    let ledger = Ledger { is_broken: true, ..Ledger::default() };
    let told = told_of(&ledger, [done("yes")]).await;
    let warning = "the board was not updated: there is no task \"task-1\"; none";
    let completion = json!({ "status": "completed", "summary": "yes" });
    let expected = json!({
        "agent": "coder",
        "name": "coder-task-1",
        "result": "yes",
        "completion": completion,
        "warning": warning,
    });
    assert_eq!(report(&told), expected);
    let failed = Reply::error(ModelError::new(ErrorKind::Auth, "no key"));
    let told = told_of(&ledger, [failed]).await;
    assert_eq!(report(&told)["warning"], warning);
    assert!(report(&told)["error"].as_str().unwrap().contains("no key"));
}

// 86
#[tokio::test]
async fn a_task_that_is_answered_in_words_is_completed() {
    let ledger = Ledger::default();
    told_of(&ledger, [Reply::text("here it is")]).await;
    assert_eq!(ledger.asked().last().unwrap(), "task-1 is completed");
}

// 89
#[tokio::test]
async fn a_task_that_is_canceled_on_the_board_is_stopped() {
    let ledger = Ledger::default();
    let crew = Crew::for_tasks(task());
    let gate = Gate::default();
    let slow = Reply::text("I am at").held_at_the_end_by(&gate);
    let model = crew.hire_with("coder", ScriptedModel::new([slow]), Default::default(), |_| {});
    let member = Member { board: ledger.boards(), ..crew.member() };
    let handle = crew.lead(&member).start();
    let run = handle.prompt("go");
    let (told, ()) = tokio::join!(hear(run), async {
        while model.requests().is_empty() {
            tokio::task::yield_now().await;
        }
        ledger.canceled.send_replace(true);
    });
    let report = report(&told);
    assert_eq!(report["error"], "task canceled");
    assert_eq!(ledger.asked(), ["claim task-1 for coder-task-1", "task-1 is canceled"]);
    assert_eq!(told.text(), "done");
}
