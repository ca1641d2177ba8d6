//! Who decides about prompts.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bowline_agent::AgentError;
use bowline_agent::entry::{EntryKind, Via};
use bowline_agent::event::EventBody;
use bowline_agent::prompt_gate::{Admission, PromptGate, PromptReview};
use bowline_llm::scripted::Reply;
use bowline_llm::text_of;
use pretty_assertions::assert_eq;
use tokio::sync::Notify;

use crate::support::{Stage, conversation, hear, log_of, stage};

/// Refuses what says `bad`, panics at `worse`, and tells of the rest what the weather is like. What says
/// `slow` it thinks about until it is told to go on.
#[derive(Default)]
struct Strict {
    asked: Mutex<Vec<(String, bool)>>,
    thinks: Notify,
    goes_on: Notify,
    was_dropped: AtomicBool,
}

/// Takes note that it was dropped before its time.
struct Thinking<'a>(&'a AtomicBool);

impl Drop for Thinking<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[async_trait]
impl PromptGate for Strict {
    async fn review(&self, prompt: &PromptReview<'_>) -> Admission {
        let text = text_of(&prompt.input.0.content);
        self.asked.lock().unwrap().push((text.clone(), prompt.is_first));
        match text.as_str() {
            "bad" => Admission::Refuse { reason: "not that".to_owned() },
            "worse" => panic!("oh"),
            "slow" => {
                let thinking = Thinking(&self.was_dropped);
                self.thinks.notify_one();
                self.goes_on.notified().await;
                std::mem::forget(thinking);
                Admission::default()
            }
            _ => Admission::Admit {
                before: vec!["It rains.".into()],
                warnings: vec!["take a coat".to_owned()],
            },
        }
    }
}

fn guarded(replies: impl IntoIterator<Item = Reply>) -> (Stage, Arc<Strict>) {
    let strict = Arc::<Strict>::default();
    let gate = Arc::clone(&strict) as Arc<dyn PromptGate>;
    (stage(replies).change(|agent| agent.prompt_gate = Some(gate)), strict)
}

#[tokio::test]
async fn what_is_refused_leaves_nothing_behind() {
    let (stage, strict) = guarded([Reply::text("hello")]);
    let handle = stage.start();
    for (prompt, why) in [("bad", "not that"), ("worse", "the gate of prompts panicked: oh")] {
        let told = hear(handle.prompt(prompt)).await;
        assert!(
            matches!(&told.outcome, Err(AgentError::Refused(reason)) if reason == why),
            "{:?}",
            told.outcome
        );
        assert_eq!(told.lines(), [format!("rejected({why})")]);
    }
    assert_eq!(conversation(&handle), Vec::<String>::new());
    assert_eq!(hear(handle.prompt("good")).await.text(), "hello");
    let asked = ["bad", "worse", "good"].map(|text| (text.to_owned(), true));
    assert_eq!(*strict.asked.lock().unwrap(), asked);
}

#[tokio::test]
async fn what_is_to_be_known_is_said_before_the_prompt_in_one_commit_with_it() {
    let (stage, strict) = guarded([Reply::text("hello"), Reply::text("again")]);
    let handle = stage.start();
    let told = hear(handle.prompt("good")).await;
    let warned = told.events.iter().any(
        |event| matches!(&event.body, EventBody::Warning { message } if message == "take a coat"),
    );
    assert!(warned);
    assert_eq!(conversation(&handle)[..2], ["user \"It rains.\"", "user \"good\""]);
    hear(handle.prompt("better")).await;
    assert_eq!(conversation(&handle)[3..5], ["user \"It rains.\"", "user \"better\""]);
    let log = log_of(handle.session_id()).await;
    let vias: Vec<Via> = log
        .iter()
        .filter_map(|(_, entry)| match &entry.kind {
            EntryKind::User(said) => Some(said.via),
            _ => None,
        })
        .collect();
    assert_eq!(vias, [Via::Briefing, Via::Prompt, Via::Briefing, Via::Prompt]);
    let asked = [("good".to_owned(), true), ("better".to_owned(), false)];
    assert_eq!(*strict.asked.lock().unwrap(), asked);
}

#[tokio::test]
async fn who_cancels_does_not_wait_for_the_gate() {
    let (stage, strict) = guarded([Reply::text("hello")]);
    let handle = stage.start();
    let run = handle.prompt("slow");
    strict.thinks.notified().await;
    handle.cancel();
    let told = hear(run).await;
    assert!(matches!(told.outcome, Err(AgentError::Refused(_))), "{:?}", told.outcome);
    assert!(strict.was_dropped.load(Ordering::Relaxed));
    // The same of one who lets go of it, and of the whole session.
    drop(handle.prompt("slow").cancel_on_drop());
    strict.thinks.notified().await;
    assert_eq!(hear(handle.prompt("good")).await.text(), "hello");
    let run = handle.prompt("slow");
    strict.thinks.notified().await;
    handle.close().await;
    assert!(run.await.is_err());
}

#[tokio::test]
async fn what_is_said_meanwhile_is_heard_when_the_run_has_begun() {
    let (stage, strict) = guarded([Reply::text("hello"), Reply::text("more")]);
    let handle = stage.start();
    let run = handle.prompt("slow");
    strict.thinks.notified().await;
    let (queued, ()) =
        tokio::join!(handle.follow_up("and?"), async { strict.goes_on.notify_one() });
    queued.unwrap();
    assert_eq!(hear(run).await.text(), "more");
    assert_eq!(conversation(&handle)[2], "user \"and?\"");
}
