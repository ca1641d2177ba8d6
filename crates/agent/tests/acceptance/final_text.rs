//! The ways to get only the answer of a run.

use bowline_agent::entry::{Ending, RunErrorKind};
use bowline_agent::{RunFailure, collect_final_text};
use bowline_llm::scripted::{Gate, Reply};
use bowline_llm::{AssistantPart, ErrorKind, Message, ModelError, Reasoning, StopReason};
use futures::StreamExt;
use pretty_assertions::assert_eq;

use crate::support::{echo, like, stage, tool};
use bowline_agent::children::Child;

fn reasoning(text: &str) -> AssistantPart {
    AssistantPart::Reasoning(Reasoning { text: text.to_owned(), payload: None })
}

fn why<T: std::fmt::Debug>(result: Result<T, RunFailure>) -> String {
    result.unwrap_err().to_string()
}

// F044
#[tokio::test]
async fn the_final_text_is_that_of_the_completed_reply() {
    let script = || stage([Reply::text("whole").with_deltas([])]);
    assert_eq!(collect_final_text(script().agent.prompt("go")).await.unwrap(), "whole");
    assert_eq!(script().agent.prompt("go").text().await.unwrap(), "whole");
    let message = script().agent.prompt("go").run_to_message().await.unwrap();
    assert_eq!(message, Message::assistant("whole"));
}

// F045
#[tokio::test]
async fn text_that_is_not_final_is_no_answer() {
    let stage = stage([Reply::text("Hm").and(reasoning("?"))]);
    let text = collect_final_text(stage.agent.prompt("go")).await;
    assert_eq!(why(text), "the agent did not return an answer");
}

// F046
#[tokio::test]
async fn a_later_turn_without_text_clears_an_earlier_answer() {
    let gate = Gate::default();
    let stage = stage([Reply::text("first").held_by(&gate), Reply::reasoning("only thoughts")]);
    let handle = stage.start();
    let run = handle.prompt("go");
    gate.reached().await;
    handle.queue("more").await.unwrap();
    gate.open();
    assert_eq!(why(collect_final_text(run).await), "the agent did not return an answer");
}

#[tokio::test]
async fn a_model_that_says_nothing_at_all_is_asked_once_more() {
    let silence = || Reply::text(" \n");
    let stage = stage([silence(), Reply::text("It is done.")]);
    let outcome = stage.agent.prompt("go").await.unwrap();
    assert_eq!((outcome.is_done(), outcome.text().as_str()), (true, "It is done."));
    let asked = "You said nothing. Go on with the work, or say what came of it.";
    assert_eq!(**stage.model.requests()[1].messages.last().unwrap(), Message::user(asked));
    let stage = crate::support::stage([silence(), Reply::reasoning("Hm")]);
    let outcome = stage.agent.prompt("go").await.unwrap();
    let Ending::Failed(error) = &outcome.ending else { panic!("{:?}", outcome.ending) };
    let said = (error.kind, error.message.as_str());
    assert_eq!(said, (RunErrorKind::Stop, "the model said nothing"));
    assert_eq!(stage.model.requests().len(), 2);
}

#[tokio::test]
async fn who_has_done_something_may_end_in_silence() {
    let call = || Reply::call("echo", r#"{"text":"x"}"#);
    for script in [vec![call(), Reply::text("")], vec![Reply::text(""), call(), Reply::text("")]] {
        let number = script.len();
        let stage = crate::support::stage(script).with(echo());
        let outcome = stage.agent.prompt("go").await.unwrap();
        assert_eq!((outcome.is_done(), outcome.text().as_str()), (true, ""));
        assert_eq!(stage.model.requests().len(), number);
    }
}

// F047
#[tokio::test]
async fn what_sub_agents_say_and_how_they_end_does_not_count() {
    for reply in [
        Reply::text("child's"),
        Reply::error(ModelError::new(ErrorKind::Auth, "no key")),
        Reply::text("x").with_stop(StopReason::Canceled),
    ] {
        let stage = stage([Reply::call("ask", "{}"), Reply::text("root's")]);
        let agent = stage.agent.clone();
        let stage = stage.with(tool("ask", move |_, cx| {
            let (_, agent) = like(&agent, "child", [reply.clone()]);
            async move {
                let child = Child::new(agent);
                let child = cx.children.create(child).await.unwrap();
                Ok(child.prompt("say").await.unwrap().text().into())
            }
        }));
        assert_eq!(collect_final_text(stage.agent.prompt("go")).await.unwrap(), "root's");
    }
}

// F048
#[tokio::test]
async fn a_failed_run_gives_its_error() {
    let script = || stage([Reply::error(ModelError::new(ErrorKind::Auth, "no key"))]);
    let wanted = "authentication failed: no key";
    assert_eq!(why(collect_final_text(script().agent.prompt("go")).await), wanted);
    assert_eq!(why(script().agent.prompt("go").text().await), wanted);
    assert_eq!(why(script().agent.prompt("go").run_to_message().await), wanted);
    let nothing = collect_final_text(futures::stream::empty()).await;
    assert_eq!(why(nothing), "the agent did not return an answer");
}

// F048: a stream that ends before the run does holds no answer.
#[tokio::test]
async fn a_stream_that_is_cut_short_has_no_answer() {
    let stage = stage([Reply::text("whole")]);
    let cut = stage.agent.prompt("go").take(4);
    assert_eq!(why(collect_final_text(cut).await), "the agent did not return an answer");
}

// F049
#[tokio::test]
async fn a_canceled_run_says_so() {
    let gate = Gate::default();
    let stage = stage([Reply::text("late").held_by(&gate)]);
    let handle = stage.start();
    let run = handle.prompt("go");
    gate.reached().await;
    handle.cancel();
    assert_eq!(why(collect_final_text(run).await), "the run was canceled");
}

#[tokio::test]
async fn a_refused_prompt_says_why() {
    let gate = Gate::default();
    let stage = stage([Reply::text("late").held_by(&gate)]);
    let handle = stage.start();
    let first = handle.prompt("go");
    gate.reached().await;
    let refused = "the agent is already running";
    assert_eq!(why(collect_final_text(handle.prompt("again")).await), refused);
    assert_eq!(why(handle.prompt("again").text().await), refused);
    gate.open();
    assert_eq!(first.text().await.unwrap(), "late");
}

#[tokio::test]
async fn a_callback_hears_every_event() {
    let stage = stage([Reply::call("echo", "{}"), Reply::text("done")]).with(echo());
    let mut heard = Vec::new();
    let run = stage.agent.prompt("go");
    let outcome = run.run_with_callback(|event| heard.push(event.body.is_terminal())).await;
    assert_eq!(outcome.unwrap().text(), "done");
    assert!(heard.len() > 8);
    assert_eq!(heard.iter().filter(|is_last| **is_last).count(), 1);
    assert_eq!(heard.last(), Some(&true));
}
