//! What an agent tells and asks a person, in a session as it runs.

use std::sync::Arc;

use bowline_agent::Agent;
use bowline_agent::event::EventBody;
use bowline_agent::tool::{DynTool, Toolbox};
use bowline_llm::scripted::{Reply, ScriptedModel};
use bowline_llm::text_of;
use bowline_tools::{AskUser, Message, UpdatePlan};
use futures::StreamExt;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

/// What a call came to in a session of its own.
#[derive(Debug, Default, PartialEq)]
struct Told {
    result: String,
    is_error: bool,
    questions: Vec<Value>,
    outputs: Vec<String>,
    customs: Vec<Value>,
}

impl Told {
    fn text(result: &str) -> Self {
        Self { result: result.to_owned(), ..Self::default() }
    }

    fn error(result: &str) -> Self {
        Self { is_error: true, ..Self::text(result) }
    }
}

/// Has an agent call a tool, answers what it asks, and says what came of it.
async fn told(tool: impl DynTool + 'static, name: &str, arguments: Value, answer: &str) -> Told {
    let script = [Reply::call(name, arguments.to_string()), Reply::text("done")];
    let tools = Toolbox::default().with(tool).unwrap();
    let agent = Agent { attended: true, tools, ..Agent::new(Arc::new(ScriptedModel::new(script))) };
    let handle = agent.start();
    let mut run = handle.prompt("go");
    let mut told = Told::default();
    while let Some(event) = run.next().await {
        match &event.body {
            EventBody::Question { question, options, .. } => {
                told.questions.push(json!([question, options]));
                handle.answer("call_1".into(), answer.to_owned()).await.unwrap();
            }
            EventBody::ToolOutput { text, .. } => told.outputs.push(text.clone()),
            EventBody::Custom { name, data } => {
                let data: Value = serde_json::from_str(data.as_str()).unwrap();
                told.customs.push(json!({ name: data }));
            }
            _ => {}
        }
    }
    assert_eq!(run.text().await.unwrap(), "done");
    let messages = handle.messages();
    let Some(bowline_llm::Message::Results(results)) = messages.iter().nth(2).map(|m| &**m) else {
        panic!("no results: {messages:?}");
    };
    told.result = text_of(&results[0].content);
    told.is_error = results[0].is_error;
    told
}

#[tokio::test]
async fn a_plan_is_recorded() {
    let plan = json!({ "steps": [
        { "step": "look", "status": "completed" },
        { "step": "change", "status": "in_progress" },
        { "step": "test", "status": "pending" },
    ]});
    let told = told(UpdatePlan, "update_plan", plan.clone(), "").await;
    let expected = Told {
        customs: vec![json!({ "plan": plan })],
        ..Told::text("plan updated: 1 of 3 steps completed")
    };
    assert_eq!(told, expected);
}

#[tokio::test]
async fn a_plan_with_two_active_steps_or_an_empty_one_is_refused() {
    let plan = json!({ "steps": [
        { "step": "a", "status": "in_progress" },
        { "step": "b", "status": "in_progress" },
    ]});
    let why = "2 steps are in_progress, at most one may be; the plan was not changed";
    assert_eq!(told(UpdatePlan, "update_plan", plan, "").await, Told::error(why));
    let plan = json!({ "steps": [{ "step": " ", "status": "pending" }] });
    let why = "step 1 has no text; the plan was not changed";
    assert_eq!(told(UpdatePlan, "update_plan", plan, "").await, Told::error(why));
}

#[tokio::test]
async fn a_question_waits_for_its_answer() {
    let asked = json!({ "question": "which?", "options": ["a", " ", "b"] });
    let expected = Told { questions: vec![json!(["which?", ["a", "b"]])], ..Told::text("c") };
    assert_eq!(told(AskUser, "ask_user", asked, "c").await, expected);
    let asked = json!({ "question": "sure?" });
    let expected = Told {
        questions: vec![json!(["sure?", []])],
        ..Told::text("(the user gave an empty answer)")
    };
    assert_eq!(told(AskUser, "ask_user", asked, "").await, expected);
}

#[tokio::test]
async fn an_empty_question_is_not_asked() {
    let told = told(AskUser, "ask_user", json!({ "question": " \n" }), "").await;
    assert_eq!(told, Told::error("the question is empty"));
}

#[tokio::test]
async fn a_message_is_shown_and_kept() {
    let sent = json!({ "text": "halfway" });
    let expected = Told {
        outputs: vec!["halfway".to_owned()],
        customs: vec![json!({ "message": { "text": "halfway" } })],
        ..Told::text("message sent")
    };
    assert_eq!(told(Message, "message", sent, "").await, expected);
    let told = told(Message, "message", json!({ "text": "" }), "").await;
    assert_eq!(told, Told::error("the text is empty"));
}
