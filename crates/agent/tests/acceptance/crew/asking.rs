//! Agents that ask the one that delegated to them.

use std::time::Duration;

use bowline_agent::crew::{Card, Interaction, Member};
use bowline_agent::entry::Ending;
use bowline_agent::tool::Toolbox;
use bowline_llm::ScriptedModel;
use bowline_llm::scripted::Reply;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::{Crew, delegate, done, report, reports};
use crate::support::{Told, hear, lines_of};

fn ask(question: &str) -> Reply {
    Reply::call("request_input", json!({ "question": question }).to_string())
}

fn answer(answers: Value) -> Reply {
    Reply::call("answer_delegation_questions", Value::from_iter([("answers", answers)]).to_string())
}

fn to(id: &str, answer: &str) -> Value {
    json!({ "delegation_id": id, "answer": answer })
}

fn interactive(agent: &str) -> Value {
    json!({ "agent": agent, "task": "go", "mode": "interactive" })
}

/// Returns what a model was told by the last results of each request.
fn answered(model: &ScriptedModel, request: usize) -> String {
    let requests = model.requests();
    let bowline_llm::Message::Results(results) = &**requests[request].messages.last().unwrap()
    else {
        panic!("no results")
    };
    bowline_llm::text_of(&results[0].content)
}

fn told(told: &Told, call: &str) -> Vec<Value> {
    serde_json::from_str(&told.result(call)).unwrap()
}

// 104, B23: once with the context, then it must decide itself.
#[tokio::test]
async fn without_anybody_to_ask_an_agent_gets_the_context_once() {
    let task = json!({ "agent": "coder", "task": "go", "context": "it is blue" });
    let crew = Crew::for_tasks(json!([task]));
    let coder =
        crew.hire("coder", [ask("which colour?"), ask("which colour?"), ask(" "), done("ok")]);
    let told = crew.play().await;
    let first = answered(&coder, 1);
    assert!(first.contains("it is blue") && first.contains("say in your caveats"), "{first}");
    let second = answered(&coder, 2);
    assert!(!second.contains("it is blue") && second.contains("Decide it yourself"), "{second}");
    assert_eq!(answered(&coder, 3), "the question must not be empty");
    assert_eq!(report(&told)["result"], "ok");
    assert_eq!(told.ending(), Ending::Done);
}

// 104: after a handoff.
#[tokio::test]
async fn a_peer_gets_what_the_first_agent_told_it() {
    let task = json!({ "agent": "coder", "task": "go", "context": "it is blue" });
    let crew = Crew::for_tasks(json!([task]));
    let handoff = json!({ "target_agent": "tester", "reason": "r", "context": "it is red" });
    let able: fn(&mut Member) = |member| member.max_handoffs = 1;
    let model = ScriptedModel::new([Reply::call("handoff", handoff.to_string())]);
    crew.hire_with("coder", model, Toolbox::default(), able);
    let tester = crew.hire("tester", [ask("which colour?"), done("ok")]);
    let member = Member { max_handoffs: 1, ..crew.member() };
    crew.play_as(member).await;
    let answer = answered(&tester, 1);
    assert!(answer.contains("it is red") && !answer.contains("it is blue"), "{answer}");
}

async fn play(crew: Crew, question_timeout: Option<Duration>) -> Told {
    let interaction = Interaction::Interactive;
    let member = Member { interaction, question_timeout, ..crew.member() };
    crew.play_as(member).await
}

// 106, B22: who does not ask the lead is not asked by it, and does not keep the others.
#[tokio::test]
async fn a_lead_is_asked_and_answers() {
    let tasks =
        json!([interactive("coder"), interactive("tester"), { "agent": "writer", "task": "go" }]);
    let crew = Crew::new([
        delegate(tasks),
        answer(json!([to("d-1", "the red one")])),
        answer(json!([to("d-1", "yes")])),
        Reply::text("done"),
    ]);
    let coder = crew.hire("coder", [ask("which?"), ask("really?"), done("coded")]);
    crew.hire("tester", [Reply::text("tested")]);
    let writer = crew.hire("writer", [ask("what?"), done("written")]);
    let lead = crew.stage.model.clone();
    let told_all = play(crew, None).await;
    let question = |id: &str, content: &str| {
        json!({
            "agent": "coder",
            "name": "coder-task-1",
            "delegation_id": "d-1",
            "pending_question": { "id": id, "agent": "coder-task-1", "content": content },
        })
    };
    let first = told(&told_all, "call_1");
    assert_eq!(first[0], question("q-1", "which?"));
    assert_eq!((&first[1]["result"], &first[2]["result"]), (&json!("tested"), &json!("written")));
    assert_eq!(told(&told_all, "call_2"), [question("q-2", "really?")]);
    let last = told(&told_all, "call_3");
    assert_eq!((last.len(), &last[0]["result"]), (1, &json!("coded")));
    assert_eq!((answered(&coder, 1), answered(&coder, 2)), ("the red one".into(), "yes".into()));
    assert!(answered(&writer, 1).contains("Nobody can be asked"));
    assert_eq!(told_all.text(), "done");
    let names: Vec<_> =
        lead.requests()[0].tools.specs().iter().map(|spec| spec.name.clone()).collect();
    assert!(names.contains(&"answer_delegation_questions".to_owned()));
}

// 107
#[tokio::test]
async fn nobody_is_answered_if_somebody_is_not_there() {
    let crew = Crew::new([
        delegate(json!([interactive("coder")])),
        answer(json!([to("d-1", "red"), to("d-7", "blue")])),
        answer(json!([to("d-1", "green")])),
        answer(json!([to("d-1", "again")])),
        Reply::text("done"),
    ]);
    let coder = crew.hire("coder", [ask("which?"), done("coded")]);
    let all = play(crew, None).await;
    assert_eq!(all.result("call_2"), "there is no delegation \"d-7\": d-1");
    assert_eq!(told(&all, "call_3")[0]["result"], "coded");
    assert_eq!(all.result("call_4"), "there is no delegation \"d-1\": none is open");
    assert_eq!(answered(&coder, 1), "green");
}

#[tokio::test]
async fn a_lead_that_is_not_interactive_cannot_be_asked() {
    let crew = Crew::for_tasks(json!([interactive("coder")]));
    let coder = crew.hire("coder", []);
    let told = crew.play().await;
    assert_eq!(report(&told)["error"], "you cannot be asked: give the task without a mode");
    assert_eq!(coder.requests().len(), 0);
}

// 107, B22: a question that is not answered in time.
#[tokio::test(start_paused = true)]
async fn an_agent_whose_question_is_not_answered_in_time_is_stopped() {
    let crew = Crew::new([
        delegate(json!([interactive("coder")])),
        Reply::call(
            "delegate",
            json!({ "tasks": [{ "agent": "slow", "task": "go" }] }).to_string(),
        ),
        answer(json!([to("d-1", "too late")])),
        Reply::text("done"),
    ]);
    crew.hire("coder", [ask("which?")]);
    let slow = crate::support::tool("slow", async |_, _| {
        tokio::time::sleep(Duration::from_secs(60)).await;
        Ok("".into())
    });
    let tools = Toolbox::default().with(slow).unwrap();
    let model = ScriptedModel::new([Reply::call("slow", "{}"), Reply::text("slow")]);
    crew.hire_with("slow", model, tools, |_| {});
    let all = play(crew, Some(Duration::from_secs(30))).await;
    let late = &told(&all, "call_3")[0];
    assert_eq!(late["error"], "timeout: no answer to its question for 30 s");
    assert_eq!(all.text(), "done");
}

// 107, B22: a lead that never answers.
#[tokio::test]
async fn questions_end_with_the_run_that_should_have_answered() {
    let crew = Crew::new([delegate(json!([interactive("coder")])), Reply::text("never mind")]);
    let coder = crew.hire("coder", [ask("which?"), done("never")]);
    let all = play(crew, None).await;
    assert_eq!(all.text(), "never mind");
    assert_eq!(coder.remaining(), 1);
    let shown = lines_of(coder.requests()[0].messages.iter());
    assert_eq!(shown, ["user \"go\""]);
}

// B22: who waits for an answer does not keep others of its kind from working.
#[tokio::test]
async fn an_agent_that_waits_for_an_answer_gives_its_slot_back() {
    let crew = Crew::new([
        delegate(json!([interactive("coder")])),
        delegate(json!([{ "agent": "coder", "task": "go" }])),
        answer(json!([to("d-1", "red")])),
        Reply::text("done"),
    ]);
    let card = Card { max_concurrency: 1, ..Card::new("coder", "") };
    let model = ScriptedModel::new([ask("which?"), done("second"), done("first")]);
    crew.hire_as(card, model, Toolbox::default(), |_| {});
    let all = play(crew, None).await;
    assert_eq!(told(&all, "call_2")[0]["result"], "second");
    assert_eq!(told(&all, "call_3")[0]["result"], "first");
}

// 105
#[tokio::test]
async fn canceling_a_lead_that_waits_for_its_agents_stops_all() {
    let crew =
        Crew::new([delegate(json!([interactive("coder")])), answer(json!([to("d-1", "red")]))]);
    let gate = bowline_llm::scripted::Gate::default();
    let coder = crew.hire("coder", [ask("which?"), Reply::text("").held_by(&gate)]);
    let member = Member { interaction: Interaction::Interactive, ..crew.member() };
    let handle = crew.lead(&member).start();
    let run = handle.prompt("go");
    let (all, ()) = tokio::join!(hear(run), async {
        while coder.requests().len() < 2 {
            tokio::task::yield_now().await;
        }
        handle.cancel();
    });
    assert!(matches!(all.ending(), Ending::Canceled(_)));
    let ends = all.ends();
    assert_eq!(ends.last().unwrap(), "tool_end(call_2, canceled)");
    assert_eq!(reports(&all)[0]["delegation_id"], "d-1");
}

/// An agent that asks, and a lead that answers when its run is over, or in a fork.
fn late() -> Crew {
    let crew = Crew::new([
        delegate(json!([interactive("coder")])),
        Reply::text("bye"),
        answer(json!([to("d-1", "the red one")])),
        Reply::text("too late"),
    ]);
    crew.hire("coder", [ask("which?")]);
    crew
}

#[tokio::test]
async fn a_delegation_ends_with_the_run_that_opened_it() {
    let crew = late();
    let member = Member { interaction: Interaction::Interactive, ..crew.member() };
    let stage = crew.lead(&member);
    let handle = stage.start();
    hear(handle.prompt("go")).await;
    let late = hear(handle.prompt("answer it")).await;
    assert_eq!(late.result("call_2"), "there is no delegation \"d-1\": none is open");
    assert_eq!(late.text(), "too late");
}

#[tokio::test]
async fn a_fork_has_no_agents_that_ask() {
    let crew = late();
    let member = Member { interaction: Interaction::Interactive, ..crew.member() };
    let stage = crew.lead(&member);
    let handle = stage.start();
    hear(handle.prompt("go")).await;
    let (session, entries) =
        (handle.session_id(), crate::support::log_of(handle.session_id()).await);
    let at = entries.iter().map(|(_, entry)| entry).find_map(|entry| match &entry.kind {
        bowline_agent::entry::EntryKind::CallEnded(_) => Some(entry.id),
        _ => None,
    });
    let from = bowline_agent::ForkPoint { session, entries, hash: None, at };
    let fork = stage.agent.fork(from).await.unwrap();
    let late = hear(fork.prompt("answer it")).await;
    assert_eq!(late.result("call_2"), "there is no delegation \"d-1\": none is open");
}

#[tokio::test]
async fn one_question_is_not_answered_twice_in_one_call() {
    let crew = Crew::new([
        delegate(json!([interactive("coder")])),
        answer(json!([to("d-1", "the red one"), to("d-1", "no, the blue one")])),
        answer(json!([to("d-1", "the red one")])),
        Reply::text("done"),
    ]);
    let coder = crew.hire("coder", [ask("which?"), done("coded")]);
    let all = play(crew, None).await;
    assert_eq!(all.result("call_2"), "\"d-1\" is answered twice; answer it once");
    assert_eq!(told(&all, "call_3")[0]["result"], "coded");
    assert_eq!(answered(&coder, 1), "the red one");
}
