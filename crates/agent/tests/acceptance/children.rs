//! Sub-agents: made inside a tool call, and gone with it.

use std::sync::{Arc, Mutex};

use bowline_agent::children::{AgentCreator, Child};
use bowline_agent::entry::Ending;
use bowline_agent::event::{EventBody, Phase};
use bowline_agent::tool::{FunctionTool, ToolContext, ToolError, ToolOutput, Toolbox};
use bowline_agent::{Agent, AgentError};
use bowline_llm::ScriptedModel;
use bowline_llm::scripted::{Gate, Reply};
use futures::StreamExt;
use futures::future::BoxFuture;
use pretty_assertions::assert_eq;

use crate::support::{
    Checked, Latch, Stage, Text, Told, conversation, echo, hear, hear_with, held, like, lines,
    log_of, stage, tool, usage,
};

mod effects;
mod ending;
mod forks;

type Boxed = BoxFuture<'static, Result<ToolOutput, ToolError>>;

fn child(agent: &Agent) -> Child {
    Child::new(agent.clone())
}

/// Makes a tool that makes one sub-agent of `agent`, asks it its text, and gives back the answer.
fn asks(
    name: &str,
    agent: Agent,
) -> FunctionTool<Text, impl Fn(Text, ToolContext) -> Boxed + Send + Sync + 'static> {
    tool(name, move |input: Text, cx: ToolContext| {
        let child = child(&agent);
        Box::pin(async move {
            let child = cx.children.create(child).await.unwrap();
            Ok(child.prompt(input.text).await.unwrap().text().into())
        }) as Boxed
    })
}

/// A root whose first reply calls `ask`, which asks a sub-agent with this script.
fn family(script: impl IntoIterator<Item = Reply>) -> (Stage, ScriptedModel) {
    let call = Reply::call("ask", r#"{"text":"say"}"#).with_usage(usage(1, 1));
    let stage = stage([call, Reply::text("done").with_usage(usage(2, 2))]);
    let (model, agent) = like(&stage.agent, "child", script);
    (stage.with(asks("ask", agent)), model)
}

/// Lines without the messages.
fn brief(told: &Told) -> Vec<String> {
    lines(&told.events, |body| {
        !matches!(
            body,
            EventBody::MessageAdded { .. }
                | EventBody::Status { .. }
                | EventBody::TextDelta { .. }
                | EventBody::ToolCallDelta { .. }
        )
    })
}

// F036, F038, F039
#[tokio::test]
async fn a_sub_agents_events_stand_between_start_and_end_of_its_call() {
    let (stage, _) = family([Reply::text("hi").with_usage(usage(10, 20))]);
    let handle = stage.start();
    let told = hear(handle.prompt("go")).await;
    assert_eq!(
        brief(&told),
        [
            "run_start",
            "turn_start",
            "tool_call(call_1, ask)",
            "turn_end(tool_use)",
            "tool_start(call_1)",
            "child-1: agent_start(call_1)",
            "child-1: run_start",
            "child-1: turn_start",
            "child-1: text(\"hi\", final)",
            "child-1: turn_end(end_turn)",
            "child-1: run_end(done)",
            "child-1: agent_end(done)",
            "tool_end(call_1, ok)",
            "turn_start",
            "text(\"done\", final)",
            "turn_end(end_turn)",
            "run_end(done)",
        ]
    );
    let of_child: Vec<_> = told.events.iter().filter(|event| event.agent.depth == 1).collect();
    for event in &of_child {
        assert_eq!(event.agent.parent, Some(handle.agent_id()));
        assert_eq!(event.agent.config, "child");
        assert_eq!(event.session, handle.session_id());
        assert_ne!(event.agent.id, handle.agent_id());
    }
    let EventBody::AgentEnd { outcome, usage: spent } = &of_child.last().unwrap().body else {
        panic!("agent_end is its last event")
    };
    assert_eq!((outcome, *spent), (&Some(Ending::Done), usage(10, 20)));
    assert_eq!(told.usage(), usage(13, 23));
    assert_eq!(handle.token_usage(), usage(13, 23));
    // F033: what a sub-agent is asked with is no part of the root's context.
    assert_eq!(handle.context_usage().0, 2);
}

// F036: a second prompt of one sub-agent, F037: what is only made is not announced.
#[tokio::test]
async fn a_sub_agent_is_announced_once_with_its_first_run() {
    let stage = stage([Reply::call("asks", "{}"), Reply::text("done")]);
    let (model, agent) = like(&stage.agent, "child", [Reply::text("a"), Reply::text("b")]);
    let stage = stage.with(tool("asks", move |_, cx: ToolContext| {
        let asked = Child { label: Some("worker".to_owned()), ..child(&agent) };
        let silent = child(&agent);
        async move {
            let silent = cx.children.create(silent).await.unwrap();
            silent.add_user_turn("just so you know").await.unwrap();
            let child = cx.children.create(asked).await.unwrap();
            assert_eq!(child.status(), Phase::Idle);
            let first = child.prompt("one").await.unwrap().text();
            let second = child.prompt("two").await.unwrap().text();
            assert_eq!(conversation(&child).len(), 4);
            Ok(format!("{first}{second}").into())
        }
    }));
    let told = stage.play().await;
    assert_eq!(told.result("call_1"), "ab");
    assert_eq!(model.requests()[1].messages.len(), 3);
    let announced = lines(&told.events, |body| {
        matches!(
            body,
            EventBody::AgentStart { .. } | EventBody::AgentEnd { .. } | EventBody::RunEnd(_)
        )
    });
    assert_eq!(
        announced,
        [
            "child-2: agent_start(call_1)",
            "child-2: run_end(done)",
            "child-2: run_end(done)",
            "child-2: agent_end(done)",
            "run_end(done)",
        ]
    );
    let labels: Vec<_> = told
        .events
        .iter()
        .filter(|event| event.agent.depth == 1 && event.run.is_some())
        .map(|event| &event.agent.label)
        .collect();
    assert!(labels.iter().all(|label| label.as_deref() == Some("worker")), "{labels:?}");
}

// F034, F038, F039: three generations.
#[tokio::test]
async fn usage_and_events_of_three_generations_add_up() {
    let call = || Reply::call("ask", "{}").with_usage(usage(10, 1));
    let stage = stage([call(), Reply::text("root's").with_usage(usage(10, 1))]);
    let (_, grandchild) = like(
        &stage.agent,
        "grandchild",
        [Reply::text("grandchild's").with_usage(usage(1000, 100))],
    );
    let script =
        [call().with_usage(usage(100, 10)), Reply::text("child's").with_usage(usage(100, 10))];
    let (_, mut middle) = like(&stage.agent, "child", script);
    let depths: Arc<Mutex<Vec<u32>>> = Arc::default();
    let seen = Arc::clone(&depths);
    let streamed = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&streamed);
    middle
        .tools
        .add(Arc::new(tool("ask", move |_, cx: ToolContext| {
            seen.lock().unwrap().push(cx.agent.depth);
            let child = child(&grandchild);
            async move {
                cx.report_usage(usage(10_000, 0), None);
                let child = cx.children.create(child).await.unwrap();
                Ok(child.prompt("say").await.unwrap().text().into())
            }
        })))
        .unwrap();
    let seen = Arc::clone(&depths);
    let stage = stage.with(tool("ask", move |_, cx: ToolContext| {
        seen.lock().unwrap().push(cx.agent.depth);
        let child = child(&middle);
        let heard = Arc::clone(&heard);
        async move {
            let child = cx.children.create(child).await.unwrap();
            let mut run = child.prompt("say");
            while let Some(event) = run.next().await {
                heard.lock().unwrap().push(event);
            }
            assert_eq!(child.token_usage(), usage(11_200, 120));
            Ok("".into())
        }
    }));
    let handle = stage.start();
    let told = hear_with(handle.prompt("go"), usage(10_000, 0)).await;
    assert_eq!(told.usage(), usage(11_220, 122));
    assert_eq!(handle.token_usage(), usage(11_220, 122));
    assert_eq!(*depths.lock().unwrap(), [0, 1]);
    // The child's stream holds its own events and its child's, once each, as the root's does.
    let of_child: Vec<_> = streamed.lock().unwrap().clone();
    let in_root: Vec<_> =
        told.events.iter().filter(|event| event.agent.depth > 0).cloned().collect();
    assert_eq!(of_child[..], in_root[..in_root.len() - 1], "all but its agent_end");
    let deepest = told.events.iter().map(|event| event.agent.depth).max();
    assert_eq!(deepest, Some(2));
}

#[tokio::test]
async fn several_sub_agents_work_side_by_side() {
    let latch = Latch::default();
    let stage = stage([Reply::call("asks", "{}"), Reply::text("done")]);
    let agents: Vec<Agent> = (0..3)
        .map(|n| {
            let script =
                [Reply::call("held", format!(r#"{{"text":"{n}"}}"#)), Reply::text(n.to_string())];
            let (_, mut agent) = like(&stage.agent, "worker", script);
            agent.tools.add(Arc::new(held("held", &latch))).unwrap();
            agent
        })
        .collect();
    let stage = stage.with(tool("asks", move |_, cx: ToolContext| {
        let agents = agents.clone();
        async move {
            let mut runs = Vec::new();
            for (n, agent) in agents.iter().enumerate() {
                let child = Child { key: Some(format!("w{n}")), ..child(agent) };
                runs.push(cx.children.create(child).await.unwrap().prompt("work"));
            }
            let done = futures::future::join_all(
                runs.into_iter().map(std::future::IntoFuture::into_future),
            )
            .await;
            Ok(done
                .into_iter()
                .map(|outcome| outcome.unwrap().text())
                .collect::<Vec<_>>()
                .join(",")
                .into())
        }
    }));
    let run = stage.start().prompt("go");
    let (told, ()) = tokio::join!(hear(run), async {
        latch.reached_by(3).await;
        latch.open();
    });
    assert_eq!(told.result("call_1"), "0,1,2");
    let mut names: Vec<_> =
        lines(&told.events, |body| matches!(body, EventBody::AgentStart { .. }));
    names.sort();
    assert_eq!(names, [1, 2, 3].map(|n| format!("worker-{n}: agent_start(call_1)")));
}

// Names count per configuration over the whole session.
#[tokio::test]
async fn names_count_on_in_later_calls_and_after_resume() {
    let call = || Reply::call("ask", "{}");
    let stage = stage([call().and_call("ask", "{}"), Reply::text("a"), call(), Reply::text("b")]);
    let (model, agent) = like(&stage.agent, "coder", []);
    for _ in 0..3 {
        model.push(Reply::text("x"));
    }
    let stage = stage.with(asks("ask", agent));
    let handle = stage.start();
    let names = |told: &Told| {
        let mut names = lines(&told.events, |body| matches!(body, EventBody::AgentStart { .. }));
        names.sort();
        names
    };
    let told = hear(handle.prompt("go")).await;
    assert_eq!(names(&told), ["coder-1: agent_start(call_1)", "coder-2: agent_start(call_2)"]);
    let id = handle.session_id();
    handle.close().await;
    drop(handle);
    let handle = stage.agent.resume(id).await.unwrap();
    let told = hear(handle.prompt("go")).await;
    assert_eq!(names(&told), ["coder-3: agent_start(call_3)"]);
}

// F035
#[tokio::test]
async fn a_sub_agent_is_made_like_its_parent_but_has_only_the_tools_it_is_given() {
    let stage = stage([Reply::call("asks", "{}"), Reply::text("unused"), Reply::text("done")]);
    // The child without a model of its own takes the second reply of the parent's.
    let stage = stage.with(echo()).with(tool("asks", |_, cx: ToolContext| async move {
        let parent = cx.children.parent().unwrap().clone();
        let names: Vec<_> = parent.tools.names().map(str::to_owned).collect();
        let child =
            cx.children.new_with_default_model("You are small.", Toolbox::default()).await.unwrap();
        assert_eq!(child.session_id(), cx.session);
        assert_eq!(child.meta().parent, Some(cx.agent.id));
        assert_eq!(child.prompt("say").await.unwrap().text(), "unused");
        Ok(names.join(",").into())
    }));
    let told = stage.play().await;
    assert_eq!(told.result("call_1"), "echo,asks");
    let requests = stage.model.requests();
    assert_eq!(&*requests[1].system, "You are small.");
    assert_eq!((requests[1].tools.specs().len(), requests[2].tools.specs().len()), (0, 2));
}

// F022: a model of its own wins; the same function makes roots and sub-agents.
#[tokio::test]
async fn one_function_works_as_a_root_and_as_a_sub_agent() {
    async fn shout(agents: &dyn AgentCreator, model: &ScriptedModel) -> String {
        let model = Arc::new(Checked(model.clone()));
        let agent = agents.new(model, "SHOUT", Toolbox::default()).await.unwrap();
        agent.prompt("hi").await.unwrap().text()
    }
    let model = ScriptedModel::new([Reply::text("ROOT"), Reply::text("CHILD")]);
    let stage = stage([Reply::call("asks", "{}"), Reply::text("done")]);
    assert_eq!(shout(&stage.agent, &model).await, "ROOT");
    let of_child = model.clone();
    let stage = stage.with(tool("asks", move |_, cx: ToolContext| {
        let model = of_child.clone();
        async move { Ok(shout(&cx.children, &model).await.into()) }
    }));
    assert_eq!(stage.play().await.result("call_1"), "CHILD");
    let systems: Vec<_> = model.requests().iter().map(|sent| sent.system.clone()).collect();
    assert_eq!(systems, ["SHOUT".into(), "SHOUT".into()]);
}

// F034: outside of any call there is nobody to make one.
#[tokio::test]
async fn no_sub_agent_is_made_outside_of_an_agent() {
    let cx = ToolContext::standalone(Arc::new(bowline_agent::id::SystemSource), None);
    let made = cx.children.new_with_default_model("x", Toolbox::default()).await;
    assert!(matches!(made, Err(AgentError::ScopeClosed)));
}

#[tokio::test]
async fn an_operation_for_a_sub_agent_reaches_it_through_the_sessions_inbox() {
    use bowline_agent::id::{OpId, Source, SystemSource};
    use bowline_agent::op::{Op, OpKind};
    let gate = Gate::default();
    let (stage, model) = family([Reply::text("a").held_by(&gate), Reply::text("b")]);
    let handle = stage.start();
    let run = handle.prompt("go");
    gate.reached().await;
    let log = log_of(handle.session_id()).await;
    let child = log.iter().map(|(_, entry)| entry.agent).find(|id| *id != handle.agent_id());
    let op = Op {
        id: OpId::new(&SystemSource),
        to: child,
        at: SystemSource.now(),
        kind: OpKind::Queue("psst".into()),
    };
    let inbox = stage.agent.store.inbox(handle.session_id());
    inbox.post(op.clone()).await.unwrap();
    while !log_of(handle.session_id()).await.iter().any(|(_, entry)| entry.kind.name() == "posted")
    {
        tokio::task::yield_now().await;
    }
    inbox.post(op).await.unwrap();
    gate.open();
    let told = hear(run).await;
    assert_eq!(told.result("call_1"), "b");
    assert_eq!(model.requests().len(), 2);
    assert_eq!(conversation(&handle).len(), 4);
    assert_eq!(inbox.take().await.unwrap(), []);
}

// Events keep their order when agents really run at the same time.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_invariants_hold_with_many_agents_on_many_threads() {
    for _ in 0..20 {
        let call = |n: usize| format!(r#"{{"text":"{n}"}}"#);
        let spends = Reply::text("x").with_usage(usage(3, 1));
        let reply = (0..8).fold(spends, |reply, n| reply.and_call("ask", call(n)));
        let stage = stage([reply.clone(), reply, Reply::text("done").with_usage(usage(3, 1))]);
        let base = stage.agent.clone();
        let stage = stage.with(tool("ask", move |input: Text, cx: ToolContext| {
            let steps = (0..3).map(|_| Reply::call("echo", "{}").and_call("echo", "{}"));
            let script = steps.chain([Reply::text(input.text)]);
            let (_, mut agent) = like(&base, "child", script.map(|r| r.with_usage(usage(5, 2))));
            agent.tools.add(Arc::new(echo())).unwrap();
            async move {
                cx.output("asking");
                let child = cx.children.create(child(&agent)).await.unwrap();
                let answer = child.prompt("say").await.unwrap().text();
                cx.output("asked");
                Ok(answer.into())
            }
        }));
        let told = stage.play().await;
        assert_eq!(told.text(), "done");
        assert_eq!(told.usage(), usage(9 + 16 * 20, 3 + 16 * 8));
        for n in 0..16 {
            assert_eq!(told.result(&format!("call_{}", n + 1)), (n % 8).to_string());
        }
    }
}
