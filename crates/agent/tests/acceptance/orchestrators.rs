//! Orchestrators that say what cannot be done: the history stays whole.

use std::sync::Arc;
use std::time::Duration;

use bowline_agent::conversation::Conversation;
use bowline_agent::entry::{Ending, Wake};
use bowline_agent::orchestrator::{NextStep, Orchestrator, Purpose, React};
use bowline_agent::tool::{ToolContext, ToolOutput};
use bowline_llm::scripted::Reply;
use bowline_llm::{StopReason, StreamEvent};
use pretty_assertions::assert_eq;

use crate::support::{Stage, echo, hear, stage, tool};

/// Says one thing while calls are open, and another when the model has answered.
struct Stubborn(NextStep, NextStep);

impl Orchestrator for Stubborn {
    fn next(&self, conversation: &Conversation) -> NextStep {
        match React.next(conversation) {
            NextStep::CallTools | NextStep::Wait(_) => self.0.clone(),
            NextStep::Settle => self.1.clone(),
            step => step,
        }
    }
}

/// Wants the model asked whatever has happened.
struct Greedy(Purpose);

impl Orchestrator for Greedy {
    fn next(&self, _: &Conversation) -> NextStep {
        NextStep::CallModel(self.0)
    }
}

fn greedy(purpose: Purpose, replies: impl IntoIterator<Item = Reply>) -> Stage {
    let stage = stage(replies).with(echo());
    stage.change(|agent| agent.orchestrator = Arc::new(Greedy(purpose)))
}

const ASKED: [Purpose; 5] =
    [Purpose::Turn, Purpose::WrapUp, Purpose::Compact, Purpose::Continue, Purpose::Repair];

/// Providers refuse a request that ends with what the model itself has said.
#[tokio::test]
async fn a_model_that_has_answered_is_not_asked_for_more() {
    for purpose in ASKED {
        let stage = greedy(purpose, [Reply::call("echo", "{}"), Reply::text("done")]);
        let handle = stage.start();
        assert_eq!(hear(handle.prompt("go")).await.text(), "done", "{purpose:?}");
        assert_eq!(stage.model.requests().len(), 2, "{purpose:?}");
    }
}

#[tokio::test]
async fn an_answer_that_was_cut_goes_on_whatever_an_orchestrator_calls_it() {
    for purpose in ASKED {
        let cut = Reply::text("one, ").with_stop(StopReason::MaxTokens);
        let stage = greedy(purpose, [cut, Reply::text("two")]);
        assert_eq!(stage.play().await.text(), "one, two", "{purpose:?}");
        let asked = stage.asked();
        assert!(asked[1].last().unwrap().starts_with("user "), "{purpose:?}: {asked:#?}");
    }
}

/// What had come of a reply that broke off stands in the conversation as the model's.
#[tokio::test]
async fn a_reply_that_broke_off_ends_the_run_whatever_an_orchestrator_says() {
    for purpose in ASKED {
        let half = StreamEvent::TextDelta("half".to_owned());
        let stage = greedy(purpose, [Reply::breaks_off().with_deltas([half])]);
        let told = stage.play().await;
        assert!(matches!(told.ending(), Ending::Failed(_)), "{purpose:?}: {:?}", told.ending());
        assert_eq!(stage.model.requests().len(), 1, "{purpose:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn open_calls_come_before_what_an_orchestrator_says() {
    let steps = [
        NextStep::CallModel(Purpose::Turn),
        NextStep::CallTools,
        NextStep::Step,
        NextStep::Settle,
        NextStep::Wait(vec![("call_9".into(), Wake::Job("none".into()))]),
        NextStep::Rest,
    ];
    for (open, over) in
        steps.iter().flat_map(|open| steps[1..].iter().map(move |over| (open, over)))
    {
        let calls = Reply::call("echo", r#"{"text":"a"}"#).and_call("waits", "{}");
        let stage = stage([calls, Reply::text("done")]).with(echo());
        let stage = stage.with(tool("waits", |_, cx: ToolContext| async move {
            Ok(match cx.wake {
                None => ToolOutput::Waiting(Wake::At(cx.now() + Duration::from_secs(60))),
                Some(_) => "woken".into(),
            })
        }));
        let orchestrator = Arc::new(Stubborn(open.clone(), over.clone()));
        let stage = stage.change(|agent| agent.orchestrator = orchestrator);
        let told = tokio::time::timeout(Duration::from_secs(600), stage.play()).await;
        let told = told.unwrap_or_else(|_| panic!("{open:?}, {over:?}: it never ends"));
        assert_eq!(told.text(), "done", "{open:?}, {over:?}");
        assert_eq!(stage.asked()[1][2], r#"results call_1="a" call_2="woken""#);
    }
}
