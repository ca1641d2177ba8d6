//! Orchestrators that say what cannot be done: the history stays whole.

use std::sync::Arc;
use std::time::Duration;

use bowline_agent::conversation::Conversation;
use bowline_agent::entry::Wake;
use bowline_agent::orchestrator::{NextStep, Orchestrator, Purpose, React};
use bowline_agent::tool::{ToolContext, ToolOutput};
use bowline_llm::scripted::Reply;
use pretty_assertions::assert_eq;

use crate::support::{echo, stage, tool};

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
