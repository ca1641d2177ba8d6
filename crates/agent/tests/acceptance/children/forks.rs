//! Sub-agents that begin with a copy of their parent's conversation.

use bowline_agent::children::{Beginning, Child};
use bowline_agent::event::EventBody;
use bowline_agent::tool::ToolContext;
use bowline_llm::scripted::Reply;
use pretty_assertions::assert_eq;

use super::child;
use crate::support::{echo, hear, like, lines, log_of, project, stage, tool, usage};

#[tokio::test]
async fn a_fork_begins_with_its_parents_conversation() {
    let stage = stage([
        Reply::text("Hello.").with_usage(usage(5, 5)),
        Reply::text("Let me think.").and_call("forks", "{}").and_call("echo", "{}"),
        Reply::text("done"),
    ])
    .with(echo());
    let (model, agent) = like(
        &stage.agent,
        "twin",
        [Reply::text("I am.").with_usage(usage(7, 7)), Reply::text("still")],
    );
    let stage = stage.with(tool("forks", move |_, cx: ToolContext| {
        let child = Child { beginning: Beginning::Fork, ..child(&agent) };
        async move {
            let child = cx.children.create(child).await.unwrap();
            let first = child.prompt("You are the copy.").await.unwrap();
            assert_eq!(first.spent.usage, usage(7, 7));
            let second = child.prompt("Still?").await.unwrap();
            Ok(format!("{} {}", first.text(), second.text()).into())
        }
    }));
    let handle = stage.start();
    hear(handle.prompt("hi")).await;
    let told = hear(handle.prompt("go")).await;
    assert_eq!(told.result("call_1"), "I am. still");
    let asked = crate::support::lines_of(model.requests()[0].messages.iter());
    let skipped = "skipped: this conversation was forked while the call w…";
    assert_eq!(
        asked[..4],
        [
            "user \"hi\"",
            "assistant \"Hello.\"",
            "user \"go\"",
            "assistant \"Let me think.\" call_1=forks call_2=echo"
        ]
    );
    assert!(
        asked[4].starts_with("results call_1!=\"skipped: this conversation was forked"),
        "{skipped} {}",
        asked[4]
    );
    assert_eq!(asked[5], "user \"You are the copy.\"");
    let announced = lines(&told.events, |body| {
        matches!(body, EventBody::AgentStart { .. } | EventBody::AgentEnd { .. })
    });
    assert_eq!(announced, ["twin-1: agent_start(call_1)", "twin-1: agent_end(done)"]);
    let spent = told.events.iter().find_map(|event| match &event.body {
        EventBody::AgentEnd { usage, .. } => Some(*usage),
        _ => None,
    });
    // Copies were paid for where they come from.
    assert_eq!(spent, Some(usage(7, 7)));
    assert_eq!(handle.token_usage(), usage(12, 12));
    let log = log_of(handle.session_id()).await;
    let late = project(handle.session_id(), &log);
    assert_eq!(
        late.iter().filter(|event| matches!(event.body, EventBody::AgentStart { .. })).count(),
        1
    );
}

// A fork that is only told something first has no run of its parent's.
#[tokio::test]
async fn a_fork_takes_no_run_over() {
    let stage = stage([Reply::call("forks", "{}"), Reply::text("done")]);
    let (model, agent) = like(&stage.agent, "twin", [Reply::text("yes")]);
    let stage = stage.with(tool("forks", move |_, cx: ToolContext| {
        let child = Child { beginning: Beginning::Fork, ..child(&agent) };
        async move {
            let child = cx.children.create(child).await.unwrap();
            child.add_user_turn("Know this.").await.unwrap();
            assert_eq!(child.state().run, None);
            assert_eq!(child.state().pending_calls, []);
            Ok(child.prompt("Well?").await.unwrap().text().into())
        }
    }));
    let told = stage.play().await;
    assert_eq!(told.result("call_1"), "yes");
    assert_eq!(model.requests().len(), 1);
}
