//! `bowline sessions decide`: a person in another process decides about a session that runs elsewhere.
#![allow(clippy::unwrap_used, reason = "a failure here is a failure of the test")]

mod support;

use std::sync::Arc;

use bowline::agent::entry::Wake;
use bowline::agent::gate::{Review, Verdict, gate_fn};
use bowline::agent::tool::{
    DynTool, PassedOn, Prepared, ToolContext, ToolError, ToolOutput, Toolbox, input_schema,
    parse_arguments, tool_fn,
};
use bowline::agent::{Agent, SessionHandle, schemars};
use bowline::llm::ToolSpec;
use bowline::llm::scripted::{Reply, ScriptedModel};
use bowline::store::{Durability, Files};
use pretty_assertions::assert_eq;
use support::Home;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Said {
    text: String,
}

/// Asks about everything, unless a rule of the session says `say`.
fn asks(review: &Review<'_>) -> Verdict {
    if review.call.name != "say" || review.granted.iter().any(|rule| rule == "say") {
        return Verdict::Allow { rule: None };
    }
    match review.decision {
        None => {
            let question = format!("say {}?", review.call.arguments);
            Verdict::Wait { question, rule: Some("say".to_owned()) }
        }
        _ => Verdict::Allow { rule: None },
    }
}

/// An agent whose sessions are kept where the command looks for them.
fn agent(home: &Home, replies: impl IntoIterator<Item = Reply>) -> Agent {
    let say = tool_fn("say", "Says it.", async |said: Said, _: ToolContext| Ok(said.text.into()));
    let wonder = tool_fn("wonder", "Asks.", async |said: Said, cx: ToolContext| {
        use bowline::agent::tool::Waked;
        Ok(match cx.wake {
            Some(Waked::Answered(answer)) => answer.into(),
            _ => ToolOutput::Waiting(Wake::Answer { question: said.text, options: Vec::new() }),
        })
    });
    let tools = Toolbox::default().with(say).unwrap().with(wonder).unwrap();
    let store = Files::new(home.path("home/data/sessions"), Durability::Process);
    Agent {
        tools,
        store: Arc::new(store),
        gate: Arc::new(gate_fn(asks)),
        ..Agent::new(Arc::new(ScriptedModel::new(replies)))
    }
}

async fn until_waiting(handle: &SessionHandle) {
    while handle.state().waiting_calls.is_empty() {
        tokio::task::yield_now().await;
    }
}

fn say(text: &str) -> Reply {
    Reply::call("say", serde_json::json!({ "text": text }).to_string())
}

/// Runs the command while the session goes on here.
async fn bowline(home: &Arc<Home>, args: &[&str]) -> (i32, String, String) {
    let home = Arc::clone(home);
    let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
    let run = move || home.run(&args.iter().map(String::as_str).collect::<Vec<_>>());
    tokio::task::spawn_blocking(run).await.unwrap()
}

/// A tool that passes calls on to others.
struct Pass(Toolbox);

impl DynTool for Pass {
    fn spec(&self) -> ToolSpec {
        let (_, schema) = input_schema::<Said>();
        ToolSpec { name: "pass".to_owned(), description: String::new(), schema }
    }

    fn prepare(self: Arc<Self>, arguments: &str) -> Result<Prepared, ToolError> {
        let passed: PassedOn = parse_arguments(arguments)?;
        let tool = self.0.get(&passed.name).ok_or_else(|| ToolError::failed("no tool"))?;
        tool.prepare(passed.arguments())
    }

    fn passes_on(&self) -> bool {
        true
    }
}

#[tokio::test]
async fn who_decides_sees_the_tool_that_is_really_called() {
    let home = Arc::new(Home::configured(""));
    let pass = |tool: &str, text: &str| {
        let call = serde_json::json!({ "name": tool, "arguments": { "text": text } });
        Reply::call("pass", call.to_string())
    };
    let agent = agent(&home, [pass("say", "one"), pass("wonder", "which?"), Reply::text("done")]);
    let tools = agent.tools.clone().with(Pass(agent.tools.clone())).unwrap();
    let agent = Agent { tools, ..agent };
    let handle = agent.start();
    let id = handle.session_id().to_string();
    let run = handle.prompt("go");
    until_waiting(&handle).await;
    let (_, listed, _) = bowline(&home, &["sessions", "decide", &id]).await;
    assert_eq!(listed, "call_1  default  say: say {\"text\":\"one\"}?  (for longer: say)\n");
    let (code, ..) = bowline(&home, &["sessions", "decide", &id, "call_1", "--allow"]).await;
    assert_eq!(code, 0);
    handle
        .wait_for(|state| state.waiting_calls.iter().any(|(call, _)| call.as_str() == "call_2"))
        .await
        .unwrap();
    let (_, listed, _) = bowline(&home, &["sessions", "decide", &id]).await;
    assert_eq!(listed, "call_2  default  wonder: which?\n");
    let answer = ["sessions", "decide", &id, "call_2", "--answer", "both"];
    assert_eq!(bowline(&home, &answer).await.0, 0);
    assert_eq!(run.await.unwrap().text(), "done");
}

#[tokio::test]
async fn a_call_is_allowed_for_the_session_from_elsewhere() {
    let home = Arc::new(Home::configured(""));
    let agent = agent(&home, [say("one"), say("two"), Reply::text("done")]);
    let handle = agent.start();
    let id = handle.session_id().to_string();
    let run = handle.prompt("go");
    until_waiting(&handle).await;
    let (code, listed, _) = bowline(&home, &["sessions", "decide", &id]).await;
    let line = "call_1  default  say: say {\"text\":\"one\"}?  (for longer: say)\n";
    assert_eq!((code, listed.as_str()), (0, line));
    let wrong = bowline(&home, &["sessions", "decide", &id, "call_1", "--answer", "yes"]).await;
    assert_eq!(wrong.0, 2);
    assert!(wrong.2.contains("call_1 waits for permission: --allow or --deny"), "{}", wrong.2);
    for (rule, why) in [("bash(*)", "would allow"), ("net(x:443)", "a rule has no port")] {
        let always = ["call_1", "--allow", "--for", "session", "--rule", rule];
        let (code, _, said) =
            bowline(&home, &[&["sessions", "decide", &id], &always[..]].concat()).await;
        assert!(code == 2 && said.contains(why), "{code}: {said}");
    }
    let (code, ..) =
        bowline(&home, &["sessions", "decide", &id, "call_1", "--allow", "--for", "session"]).await;
    assert_eq!(code, 0);
    assert_eq!(run.await.unwrap().text(), "done");
    let nothing = bowline(&home, &["sessions", "decide", &id]).await;
    assert_eq!(nothing.1, "nothing waits for a person\n");
}

#[tokio::test]
async fn a_call_is_denied_with_a_reason_and_a_question_answered() {
    let home = Arc::new(Home::configured(""));
    let wonder = Reply::call("wonder", r#"{"text":"red or blue?"}"#);
    let agent = agent(&home, [say("one"), wonder, Reply::text("done")]);
    let handle = agent.start();
    let id = handle.session_id().to_string();
    let run = handle.prompt("go");
    until_waiting(&handle).await;
    let denied = ["sessions", "decide", &id, "call_1", "--deny", "not now"];
    assert_eq!(bowline(&home, &denied).await.0, 0);
    while !handle.state().waiting_calls.iter().any(|(call, _)| call.as_str() == "call_2") {
        tokio::task::yield_now().await;
    }
    let (_, listed, _) = bowline(&home, &["sessions", "decide", &id]).await;
    assert_eq!(listed, "call_2  default  wonder: red or blue?\n");
    let late = bowline(&home, &["sessions", "decide", &id, "call_1", "--allow"]).await;
    assert_eq!(late.0, 2);
    assert!(late.2.contains("no call call_1 of the session waits for a person"), "{}", late.2);
    let answered = ["sessions", "decide", &id, "call_2", "--answer", "green"];
    assert_eq!(bowline(&home, &answered).await.0, 0);
    run.await.unwrap();
    let (_, shown, _) = bowline(&home, &["sessions", "show", &id]).await;
    assert!(shown.contains("denied of say: denied: not now"), "{shown}");
    assert!(shown.contains("result of wonder: green"), "{shown}");
}
