//! Messages between agents at work.

use bowline_agent::crew::{Extra, Member};
use bowline_agent::tool::Toolbox;
use bowline_llm::ScriptedModel;
use bowline_llm::scripted::Reply;
use pretty_assertions::assert_eq;
use serde_json::json;

use super::{Crew, report, reports};
use crate::support::{Latch, held, lines_of};

fn send(to: &str) -> Reply {
    Reply::call("send_message", json!({ "to": to, "message": "use v2" }).to_string())
}

fn able(member: &mut Member) {
    member.extras = vec![Extra::SendMessage];
}

// 3.10: not lost, and not only one at a time (B29).
#[tokio::test]
async fn an_agent_writes_to_its_sibling_at_work() {
    let crew = Crew::for_tasks(json!([
        { "agent": "coder", "task": "go" },
        { "agent": "tester", "task": "go" },
    ]));
    let latch = Latch::default();
    let tools = Toolbox::default().with(held("held", &latch)).unwrap();
    let script = [Reply::call("held", "{}"), Reply::text("I use v2")];
    let coder = crew.hire_with("coder", ScriptedModel::new(script), tools, |_| {});
    let open = latch.clone();
    let opener = crate::support::tool("open", move |_, _| {
        open.open();
        async { Ok("".into()) }
    });
    let waits = latch.clone();
    let waiter = crate::support::tool("wait", move |_, _| {
        let latch = waits.clone();
        async move {
            latch.reached().await;
            Ok("".into())
        }
    });
    let tools = Toolbox::default().with(opener).unwrap().with(waiter).unwrap();
    let twice = send("coder-task-1")
        .and_call("send_message", json!({ "to": "coder-task-1", "message": "really" }).to_string());
    let script = [
        Reply::call("wait", "{}"),
        twice,
        send("tester-task-1").and_call("send_message", r#"{"to":"root","message":"x"}"#),
        Reply::call("open", "{}"),
        Reply::text("sent"),
    ];
    let tester = crew.hire_with("tester", ScriptedModel::new(script), tools, able);
    let told = crew.play().await;
    assert_eq!(reports(&told)[0]["result"], "I use v2");
    let asked = lines_of(coder.requests()[1].messages.iter());
    assert_eq!(
        asked[3..],
        [
            "user \"<message from=\\\"tester-task-1\\\">\\nuse v2\\n</message>\"",
            "user \"<message from=\\\"tester-task-1\\\">\\nreally\\n</message>\"",
        ]
    );
    let refused = lines_of(tester.requests()[3].messages.last());
    assert!(
        refused[0].contains("no agent \\\"tester-task-1\\\" is at work; at work are coder-task"),
        "{refused:?}"
    );
}

#[tokio::test]
async fn who_is_not_at_work_gets_no_message() {
    let crew = Crew::for_tasks(json!([{ "agent": "coder", "task": "go" }]));
    let model = ScriptedModel::new([send("coder-9"), Reply::text("nobody there")]);
    let coder = crew.hire_with("coder", model, Toolbox::default(), able);
    let told = crew.play().await;
    let refused = lines_of(coder.requests()[1].messages.last());
    assert!(refused[0].contains("is at work; nobody you can write to is at"), "{refused:?}");
    assert_eq!(report(&told)["result"], "nobody there");
}
