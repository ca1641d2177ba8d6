//! What is remembered of failures, and told to the next.

use std::sync::{Arc, Mutex};

use bowline_agent::async_trait;
use bowline_agent::crew::{Failure, Member, Reflections};
use bowline_agent::limits::Limits;
use bowline_llm::scripted::Reply;
use bowline_llm::{ErrorKind, Message, ModelError, text_of};
use pretty_assertions::assert_eq;
use serde_json::json;

use super::{Crew, complete, done};

#[derive(Default)]
struct Diary(Mutex<Vec<Failure>>);

#[async_trait]
impl Reflections for Diary {
    async fn prior(&self, task: &str) -> Option<String> {
        task.contains("again").then(|| "it was the cache".to_owned())
    }

    async fn note(&self, failure: Failure) {
        self.0.lock().unwrap().push(failure);
    }
}

// 72, 83: what is known goes between the context and the task.
#[tokio::test]
async fn an_agent_is_told_what_went_wrong_before() {
    let crew = Crew::for_tasks(json!([
        { "agent": "coder", "task": "try again", "context": "blue" },
    ]));
    let coder = crew.hire("coder", [done("yes")]);
    let member = Member { reflections: Some(Arc::<Diary>::default()), ..crew.member() };
    crew.play_as(member).await;
    let said: Vec<String> = coder.requests()[0]
        .messages
        .iter()
        .map(|message| match &**message {
            Message::User(said) => text_of(&said.content),
            _ => String::new(),
        })
        .collect();
    assert_eq!(
        said,
        [
            "<delegation_context>\nblue\n</delegation_context>",
            "<prior_reflections>\nWhat went wrong at tasks like this one before:\nit was the cache\n\
             </prior_reflections>",
            "try again",
        ]
    );
}

// B24: failures of all sorts are remembered, each by its own id.
#[tokio::test]
async fn failures_are_remembered() {
    let crew = Crew::for_tasks(json!([
        { "agent": "good", "task": "a" },
        { "agent": "bad", "task": "b" },
        { "agent": "broken", "task": "c" },
        { "agent": "nobody", "task": "d" },
    ]));
    crew.hire("good", [done("yes")]);
    crew.hire(
        "bad",
        [complete(&json!({
            "status": "failed",
            "summary": "no network",
            "caveats": "try at night",
            "files_modified": ["x"],
        }))],
    );
    crew.hire("broken", [Reply::error(ModelError::new(ErrorKind::Auth, "no key"))]);
    let diary = Arc::new(Diary::default());
    let member = Member { reflections: Some(diary.clone()), ..crew.member() };
    crew.play_as(member).await;
    let noted = diary.0.lock().unwrap().clone();
    assert_eq!(noted.len(), 2);
    let bad = noted.iter().find(|failure| failure.agent == "bad-task-1").unwrap();
    assert_eq!(bad.summary, "no network");
    assert_eq!(bad.caveats.as_deref(), Some("try at night"));
    assert_eq!((&*bad.task, &bad.files_modified[..]), ("b", &["x".to_owned()][..]));
    let broken = noted.iter().find(|failure| failure.agent == "broken-task-1").unwrap();
    assert!(broken.summary.contains("no key"), "{broken:?}");
    assert_ne!(bad.id, broken.id);
}

// It did nothing wrong.
#[tokio::test]
async fn an_agent_that_a_limit_above_it_stops_has_nothing_to_remember() {
    let crew = Crew::for_tasks(json!([{ "agent": "coder", "task": "go" }]));
    crew.hire("coder", [Reply::call("nothing", "{}"), Reply::text("never")]);
    let diary = Arc::new(Diary::default());
    let member = Member { reflections: Some(diary.clone()), ..crew.member() };
    let limits = Limits { model_turns: 2, wrap_up: false, ..Limits::none() };
    let Crew { registry, stage } = crew;
    let stage = stage.change(|agent| agent.limits = limits);
    let told = Crew { registry, stage }.play_as(member).await;
    let summary = "stopped: the iteration limit of an agent above it is used up";
    assert_eq!(super::report(&told)["completion"]["summary"], summary);
    assert_eq!(diary.0.lock().unwrap().len(), 0);
}

#[tokio::test]
async fn what_was_done_is_remembered_with_the_failure() {
    let crew = Crew::for_tasks(json!([{ "agent": "coder", "task": "go" }]));
    let failed = Reply::error(ModelError::new(ErrorKind::Auth, "no key"));
    crew.hire("coder", [Reply::call("nothing", "{}"), failed]);
    let diary = Arc::new(Diary::default());
    let member = Member { reflections: Some(diary.clone()), ..crew.member() };
    crew.play_as(member).await;
    let noted = diary.0.lock().unwrap().clone();
    let approach = noted[0].approach.clone().unwrap();
    assert!(approach.starts_with("nothing {} -> error: "), "{approach}");
}
