//! Answers that must fit a schema.

use std::sync::Arc;

use bowline_agent::children::Child;
use bowline_agent::conversation::Conversation;
use bowline_agent::entry::{Ending, EntryKind, RunError, RunErrorKind, Via};
use bowline_agent::limits::{LimitKind, Limits};
use bowline_agent::orchestrator::{NextStep, Orchestrator, Purpose, React};
use bowline_agent::schemars::{self, JsonSchema};
use bowline_agent::tool::ToolContext;
use bowline_agent::{Agent, OutputSchema};
use bowline_llm::Message;
use bowline_llm::scripted::{Gate, Reply};
use pretty_assertions::assert_eq;

use crate::support::{Stage, Text, crashed, echo, hear, like, log_of, stage, tool};

#[derive(Debug, PartialEq, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Count {
    n: i32,
}

fn schema() -> OutputSchema {
    OutputSchema::of::<Count>().unwrap()
}

fn shaped(replies: impl IntoIterator<Item = Reply>) -> Stage {
    stage(replies).change(|agent| agent.output_schema = Some(schema()))
}

/// Returns the last thing that was said to the model in each request.
fn told(stage: &Stage) -> Vec<String> {
    let last = |request: bowline_llm::Request| match &**request.messages.last().unwrap() {
        Message::User(said) => bowline_llm::text_of(&said.content),
        other => format!("{other:?}"),
    };
    stage.model.requests().into_iter().map(last).collect()
}

fn invalid(complaint: &str) -> Ending {
    let message = format!("the answer does not fit the schema: {complaint}");
    Ending::Failed(RunError { kind: RunErrorKind::OutputInvalid, message })
}

#[tokio::test]
async fn an_answer_that_fits_is_read_as_a_value() {
    let stage = shaped([Reply::call("echo", "{}"), Reply::text("```json\n{\"n\": 1}\n```")]);
    let stage = stage.with(echo());
    let outcome = stage.agent.prompt("count").await.unwrap();
    assert_eq!(outcome.json.as_deref(), Some("{\"n\": 1}"));
    assert_eq!(outcome.parse::<Count>().unwrap(), Count { n: 1 });
    let prompt = &told(&stage)[0];
    assert!(prompt.starts_with("count\n\n"), "{prompt}");
    assert!(prompt.ends_with(schema().schema().as_str()), "{prompt}");
    // Every request of the run asks for the same.
    for request in stage.model.requests() {
        assert_eq!(request.output_schema.as_ref(), Some(schema().schema()));
    }
    let stage = shaped([Reply::text("{\"n\": 2}")]);
    assert_eq!(stage.agent.prompt("count").parse::<Count>().await.unwrap(), Count { n: 2 });
}

#[tokio::test]
async fn a_run_without_a_schema_is_not_held_to_one() {
    let stage = stage([Reply::text("Done!")]);
    let outcome = stage.agent.prompt("go").await.unwrap();
    assert_eq!((outcome.is_done(), outcome.json.clone()), (true, None));
    assert_eq!(stage.model.requests()[0].output_schema, None);
    assert!(outcome.parse::<Count>().is_err());
}

#[tokio::test]
async fn an_answer_that_does_not_fit_may_be_mended_once() {
    let stage = shaped([
        Reply::text("{\"n\": \"one\"}"),
        Reply::call("echo", "{}"),
        Reply::text("{\"n\": 1}"),
    ]);
    let stage = stage.with(echo());
    let handle = stage.start();
    let run = hear(handle.prompt("count")).await;
    assert_eq!((run.ending(), run.text()), (Ending::Done, "{\"n\": 1}".to_owned()));
    let repair = &told(&stage)[1];
    assert!(repair.contains("/n: \"one\" is not of type \"integer\""), "{repair}");
    let purposes =
        log_of(handle.session_id()).await.into_iter().filter_map(|(_, entry)| match entry.kind {
            EntryKind::Assistant(said) => Some(said.purpose),
            _ => None,
        });
    let purposes: Vec<_> = purposes.collect();
    assert_eq!(purposes, [Purpose::Turn, Purpose::Repair, Purpose::Turn]);
    let runs = run.lines().iter().filter(|line| line.starts_with("run_")).count();
    assert_eq!(runs, 2, "one beginning and one end: {:?}", run.lines());
}

#[tokio::test]
async fn an_answer_that_never_fits_ends_the_run_as_invalid() {
    let stage = shaped([Reply::text("Done!"), Reply::text("{\"n\": 1, \"m\": 2}")]);
    let outcome = stage.agent.prompt("count").await.unwrap();
    let complaint = "the answer: Additional properties are not allowed ('m' was unexpected)";
    assert_eq!(outcome.ending, invalid(complaint));
    assert_eq!((outcome.text().as_str(), outcome.json), ("{\"n\": 1, \"m\": 2}", None));
    assert_eq!(stage.model.requests().len(), 2);
    let stage = shaped([Reply::text(""), Reply::text("no")]);
    let error = stage.agent.prompt("count").parse::<Count>().await.unwrap_err();
    assert!(error.to_string().contains("the answer is no JSON"), "{error}");
}

#[tokio::test]
async fn only_what_ends_the_run_must_fit() {
    let gate = Gate::default();
    let stage = shaped([Reply::text("Not yet.").held_by(&gate), Reply::text("{\"n\": 1}")]);
    let handle = stage.start();
    let run = handle.prompt("count");
    gate.reached().await;
    handle.follow_up("now").await.unwrap();
    gate.open();
    assert_eq!(run.parse::<Count>().await.unwrap(), Count { n: 1 });
    assert_eq!(told(&stage)[1], "now");
}

#[tokio::test]
async fn a_limit_ends_the_run_before_the_repair() {
    let limits = Limits { model_turns: 1, ..Limits::none() };
    let stage = shaped([Reply::text("Done!")]).change(|agent| agent.limits = limits);
    let outcome = stage.agent.prompt("count").await.unwrap();
    assert_eq!(outcome.ending, Ending::Limit(LimitKind::ModelTurns));
}

#[tokio::test]
async fn the_repair_is_made_whatever_the_orchestrator_says() {
    /// Never asks a model again.
    struct Once;
    impl Orchestrator for Once {
        fn next(&self, conversation: &Conversation) -> NextStep {
            match React.next(conversation) {
                NextStep::CallModel(_) if !conversation.messages().is_empty() => {
                    let asked = conversation.run().is_some_and(|run| run.model_turns > 0);
                    if asked { NextStep::Settle } else { NextStep::CallModel(Purpose::Turn) }
                }
                step => step,
            }
        }
    }
    let stage = shaped([Reply::text("Done!"), Reply::text("{\"n\": 1}")]);
    let stage = stage.change(|agent| agent.orchestrator = Arc::new(Once));
    assert_eq!(stage.agent.prompt("count").parse::<Count>().await.unwrap(), Count { n: 1 });
}

#[tokio::test]
async fn whoever_goes_on_with_a_run_keeps_to_its_schema() {
    for last in ["run_started", "assistant", "repair"] {
        let whole = shaped([Reply::text("Done!"), Reply::text("{\"n\": 1}")]);
        let handle = whole.start();
        handle.prompt("count").await.unwrap();
        let id = handle.session_id();
        handle.close().await;
        let agent = crashed(&whole.agent, id, |entry| match &entry.kind {
            EntryKind::User(said) => match last {
                "run_started" => said.via == Via::Prompt,
                _ => said.via == Via::Repair && last == "repair",
            },
            kind => kind.name() == last && last == "assistant",
        })
        .await;
        // It is another agent now, which has no schema of its own.
        let left = if last == "run_started" { 0 } else { 1 };
        let replies = [Reply::text("Done!"), Reply::text("{\"n\": 1}")];
        let (model, other) = like(&agent, "root", replies.into_iter().skip(left));
        let other = Agent { output_schema: None, ..other };
        let handle = other.resume(id).await.unwrap();
        let run = handle.continue_run().await.unwrap().unwrap();
        assert_eq!(run.parse::<Count>().await.unwrap(), Count { n: 1 }, "{last}");
        let asked = model.requests();
        let sent = |requests: &[bowline_llm::Request]| {
            let messages = requests.iter().map(|request| request.messages.clone());
            let schemas = requests.iter().map(|request| request.output_schema.clone());
            messages.zip(schemas).collect::<Vec<_>>()
        };
        assert_eq!(sent(&asked), sent(&whole.model.requests()[left..]), "{last}");
    }
}

#[tokio::test]
async fn what_is_told_with_a_tool_is_what_must_fit() {
    let tells = |text: &str| Reply::call("tell", serde_json::json!({ "text": text }).to_string());
    let telling = |replies: Vec<Reply>| {
        let tell = tool("tell", |input: Text, cx: ToolContext| async move {
            cx.record("told", &serde_json::json!({ "text": input.text }))?;
            Ok("told".into())
        });
        shaped(replies).with(tell).change(|agent| agent.tells_with = Some("told".to_owned()))
    };
    let stage = telling(vec![
        tells("I count."),
        tells("one"),
        Reply::text("bye"),
        tells("{\"n\": 1}"),
        Reply::text("bye"),
    ]);
    let outcome = stage.agent.prompt("count").await.unwrap();
    assert_eq!((outcome.is_done(), outcome.json.as_deref()), (true, Some("{\"n\": 1}")));
    // No provider could shape what a tool is called with.
    assert!(stage.model.requests().iter().all(|request| request.output_schema.is_none()));
    // Who tells nothing is heard all the same.
    let stage = telling(vec![Reply::text("{\"n\": 2}")]);
    assert_eq!(stage.agent.prompt("count").parse::<Count>().await.unwrap(), Count { n: 2 });
}

#[tokio::test]
async fn a_sub_agent_like_its_parent_answers_as_it_likes() {
    let stage = shaped([Reply::call("ask", "{}"), Reply::text("{\"n\": 1}")]);
    let stage = stage.with(tool("ask", |_, cx: ToolContext| async move {
        let (model, agent) = like(cx.children.parent().unwrap(), "child", [Reply::text("free")]);
        let child = Child::new(agent);
        let outcome = cx.children.create(child).await?.prompt("say").await?;
        assert_eq!(model.requests()[0].output_schema, None);
        Ok(outcome.text().into())
    }));
    let run = stage.play().await;
    assert_eq!((run.ending(), run.result("call_1")), (Ending::Done, "free".to_owned()));
}
