//! Sessions: opened again, gone back in, forked.

use std::sync::Arc;

use bowline_agent::children::Child;
use bowline_agent::entry::{Ending, EntryKind, Wake};
use bowline_agent::event::EventBody;
use bowline_agent::id::SessionId;
use bowline_agent::id::SystemSource;
use bowline_agent::journal::JournalError;
use bowline_agent::op::OpKind;
use bowline_agent::tool::{ToolContext, ToolOutput, Toolbox};
use bowline_agent::{AgentError, ForkPoint, SessionHandle};
use bowline_llm::scripted::{Gate, Reply};
use bowline_llm::{ErrorKind, Message, ModelError, RawJson, text_of};
use pretty_assertions::assert_eq;

use crate::support::{
    Latch, conversation, echo, hear, held, kinds, like, lines, lines_of, log_of, stage, tool, usage,
};

async fn fork_of(handle: &SessionHandle) -> ForkPoint {
    let session = handle.session_id();
    ForkPoint { session, entries: log_of(session).await, hash: None, at: None }
}

#[tokio::test]
async fn a_session_opened_again_is_the_same_conversation() {
    let stage = stage([
        Reply::text("Looking").and_call("echo", r#"{"text":"hi"}"#).with_usage(usage(10, 1)),
        Reply::text("Done").with_usage(usage(20, 2)),
        Reply::text("More").with_usage(usage(30, 3)),
    ])
    .with(echo());
    let handle = stage.start();
    hear(handle.prompt("go")).await;
    let (id, before) = (handle.session_id(), handle.state());
    handle.close().await;
    drop(handle);
    let handle = stage.agent.resume(id).await.unwrap();
    let after = handle.state();
    assert_eq!(after.snapshot, before.snapshot);
    assert_eq!((after.head, &after.latest), (before.head, &before.latest));
    assert_eq!(handle.token_usage(), usage(30, 3));
    assert_eq!(handle.context_usage().0, 20);
    let told = hear(handle.prompt("more")).await;
    assert_eq!(told.text(), "More");
    assert_eq!(handle.token_usage(), usage(60, 6));
    let requests = stage.model.requests();
    assert_eq!(
        lines_of(requests[2].messages.iter())[..4],
        lines_of(before.snapshot.messages.iter())
    );
    assert_eq!(requests[2].cache_key, requests[0].cache_key);
    assert!(handle.continue_run().await.unwrap().is_none());
}

// F113
#[tokio::test]
async fn a_session_has_one_writer_at_a_time() {
    let stage = stage([Reply::text("a"), Reply::text("b")]);
    let handle = stage.start();
    hear(handle.prompt("go")).await;
    let id = handle.session_id();
    let second = stage.agent.resume(id).await;
    assert!(
        matches!(second, Err(AgentError::Journal(JournalError::Busy { session, .. })) if session == id),
        "{second:?}"
    );
    // Closing lets go of the log, whoever still holds a handle.
    handle.close().await;
    let second = stage.agent.resume(id).await.unwrap();
    assert_eq!(hear(second.prompt("more")).await.text(), "b");
    assert!(matches!(handle.prompt("late").await, Err(AgentError::Closed)));
    assert_eq!(conversation(&handle), ["user \"go\"", "assistant \"a\""]);
}

// What nobody holds any more is let go of.
#[tokio::test]
async fn dropping_the_last_handle_lets_go_of_the_session() {
    let stage = stage([Reply::text("a"), Reply::text("b")]);
    let handle = stage.start();
    let mut events = handle.subscribe(100);
    hear(handle.prompt("go")).await;
    let id = handle.session_id();
    drop(handle);
    while events.recv().await.is_some() {}
    let again = stage.agent.resume(id).await.unwrap();
    assert_eq!(hear(again.prompt("more")).await.text(), "b");
}

#[tokio::test]
async fn a_session_that_is_not_there_cannot_be_opened() {
    let stage = stage([]);
    let id = SessionId::new(&SystemSource);
    let missing = stage.agent.resume(id).await;
    assert!(matches!(missing, Err(AgentError::Journal(JournalError::NotFound(_)))), "{missing:?}");
    // One that was never prompted has left nothing.
    let handle = stage.start();
    let id = handle.session_id();
    handle.close().await;
    let missing = stage.agent.resume(id).await;
    assert!(matches!(missing, Err(AgentError::Journal(JournalError::NotFound(_)))), "{missing:?}");
}

// F116
#[tokio::test]
async fn what_was_said_is_in_the_log_before_the_model_is_asked() {
    let gate = Gate::default();
    let error = ModelError::new(ErrorKind::Overloaded, "down");
    let stage = stage([Reply::error(error).held_by(&gate)]);
    let handle = stage.start();
    let run = handle.prompt("go");
    gate.reached().await;
    let log = log_of(handle.session_id()).await;
    assert_eq!(kinds(&log), ["created", "run_started", "user"]);
    gate.open();
    hear(run).await;
    let log = log_of(handle.session_id()).await;
    assert_eq!(kinds(&log), ["created", "run_started", "user", "assistant", "run_ended"]);
}

#[tokio::test]
async fn a_rewind_goes_back_and_refunds_nothing() {
    let stage = stage([
        Reply::text("a").with_usage(usage(1, 1)),
        Reply::text("b").with_usage(usage(2, 2)),
        Reply::text("c").with_usage(usage(4, 4)),
    ]);
    let handle = stage.start();
    hear(handle.prompt("one")).await;
    let back = handle.state().head;
    hear(handle.prompt("two")).await;
    handle.rewind(back).await.unwrap();
    assert_eq!(conversation(&handle), ["user \"one\"", "assistant \"a\""]);
    assert_eq!(handle.state().head, back);
    assert_eq!(handle.token_usage(), usage(3, 3));
    hear(handle.prompt("three")).await;
    let wanted = ["user \"one\"", "assistant \"a\"", "user \"three\"", "assistant \"c\""];
    assert_eq!(conversation(&handle), wanted);
    assert_eq!(handle.token_usage(), usage(7, 7));
    let id = handle.session_id();
    handle.close().await;
    drop(handle);
    let handle = stage.agent.resume(id).await.unwrap();
    assert_eq!(conversation(&handle), wanted);
    assert_eq!(handle.token_usage(), usage(7, 7));
    // To the very beginning, too.
    handle.rewind(None).await.unwrap();
    assert_eq!(conversation(&handle), Vec::<String>::new());
    stage.model.push(Reply::text("d"));
    hear(handle.prompt("four")).await;
    assert_eq!(conversation(&handle), ["user \"four\"", "assistant \"d\""]);
    let request = stage.model.requests().pop().unwrap();
    assert_eq!(&*request.system, "Be brief.");
}

#[tokio::test]
async fn a_rewind_needs_an_entry_and_no_run() {
    let gate = Gate::default();
    let stage = stage([Reply::text("a").held_by(&gate)]);
    let handle = stage.start();
    let run = handle.prompt("go");
    gate.reached().await;
    assert!(matches!(handle.rewind(None).await, Err(AgentError::AlreadyRunning)));
    gate.open();
    hear(run).await;
    let other = stage.start();
    stage.model.push(Reply::text("x"));
    hear(other.prompt("go")).await;
    let theirs = other.state().head;
    assert!(matches!(handle.rewind(theirs).await, Err(AgentError::NotFound(_))));
}

// Going back into the middle of a run opens neither the run nor its calls again.
#[tokio::test]
async fn a_rewind_into_a_run_leaves_nothing_open() {
    let stage = stage([
        Reply::call("echo", "{}").and_call("echo", "{}"),
        Reply::text("a"),
        Reply::text("b"),
    ])
    .with(echo());
    let handle = stage.start();
    hear(handle.prompt("go")).await;
    let log = log_of(handle.session_id()).await;
    let reply = log.iter().find(|(_, entry)| matches!(entry.kind, EntryKind::Assistant(_)));
    handle.rewind(reply.map(|(_, entry)| entry.id)).await.unwrap();
    let state = handle.state();
    assert_eq!((state.run, &state.pending_calls), (None, &Vec::new()));
    assert!(handle.continue_run().await.unwrap().is_none());
    let told = hear(handle.prompt("instead")).await;
    assert_eq!(told.ending(), Ending::Done);
    assert_eq!(told.text(), "b");
    let lines = conversation(&handle);
    assert_eq!(lines[1], "assistant call_1=echo call_2=echo");
    assert!(lines[2].starts_with("results call_1!=\"skipped: "), "{lines:?}");
    assert_eq!(lines[3..], ["user \"instead\"", "assistant \"b\""]);
}

// A provider that counts its call ids anew in each branch does not get old sub-agents back.
#[tokio::test]
async fn a_call_after_a_rewind_does_not_find_the_sub_agents_of_the_branch_left() {
    let call = || Reply::text("x").and_call_with_id("same", "ask", "{}");
    let stage = stage([call(), Reply::text("a"), call(), Reply::text("b")]);
    let (model, agent) = like(&stage.agent, "child", [Reply::text("first"), Reply::text("second")]);
    let stage = stage.with(tool("ask", move |_, cx: ToolContext| {
        let child = Child::new(agent.clone());
        async move {
            let child = cx.children.create(child).await.unwrap();
            Ok(child.prompt("say").await.unwrap().text().into())
        }
    }));
    let handle = stage.start();
    hear(handle.prompt("go")).await;
    handle.rewind(None).await.unwrap();
    hear(handle.prompt("go")).await;
    assert_eq!(model.requests().len(), 2);
    assert_eq!(conversation(&handle)[2], "results same_2=\"second\"");
}

#[tokio::test]
async fn a_forked_session_begins_with_a_copy_and_its_own_books() {
    let latch = Latch::default();
    let stage = stage([
        Reply::text("a").with_usage(usage(10, 1)),
        Reply::call("held", "{}").with_usage(usage(20, 2)),
        Reply::text("fork's").with_usage(usage(40, 4)),
        Reply::text("root's").with_usage(usage(80, 8)),
    ])
    .with(held("held", &latch));
    let handle = stage.start();
    hear(handle.prompt("one")).await;
    let run = handle.prompt("two");
    latch.reached().await;
    let origin = fork_of(&handle).await;
    let copied = origin.entries.clone();
    let fork = stage.agent.fork(origin).await.unwrap();
    assert_ne!(fork.session_id(), handle.session_id());
    let told = hear(fork.prompt("three")).await;
    assert_eq!(told.text(), "fork's");
    assert_eq!(told.usage(), usage(40, 4));
    assert_eq!(fork.token_usage(), usage(40, 4));
    let lines = conversation(&fork);
    assert_eq!(
        lines[..4],
        ["user \"one\"", "assistant \"a\"", "user \"two\"", "assistant call_1=held"]
    );
    assert!(lines[4].starts_with("results call_1!=\"skipped: this conversation was forked"));
    assert_eq!(lines[5..], ["user \"three\"", "assistant \"fork's\""]);
    // The origin goes on as if nothing had happened.
    latch.open();
    assert_eq!(hear(run).await.text(), "root's");
    assert_eq!(handle.token_usage(), usage(110, 11));

    let log = log_of(fork.session_id()).await;
    let EntryKind::Created(created) = &log[0].1.kind else { panic!("the first entry") };
    let from = created.from.as_ref().unwrap();
    assert_eq!((from.session, from.agent), (handle.session_id(), handle.agent_id()));
    let (last_pos, last) = copied.last().unwrap();
    assert_eq!((from.entry, from.pos), (last.id, *last_pos));
    // All but `created`, and the end of the open call.
    assert_eq!(from.entries as usize, copied.len() - 1 + 1);
    let copies = &log[1..=from.entries as usize];
    for ((_, copy), (_, original)) in copies.iter().zip(&copied[1..]) {
        assert_eq!(copy.kind, original.kind);
        assert_ne!(copy.id, original.id);
        assert_eq!(copy.agent, fork.agent_id());
    }
    // It is a session like any other.
    let id = fork.session_id();
    fork.close().await;
    drop(fork);
    let again = stage.agent.resume(id).await.unwrap();
    assert_eq!(conversation(&again), lines);
    assert_eq!(again.token_usage(), usage(40, 4));
}

#[tokio::test]
async fn a_fork_shows_its_conversation_before_its_first_prompt() {
    let stage = stage([Reply::text("a"), Reply::text("b")]);
    let handle = stage.start();
    hear(handle.prompt("one")).await;
    let fork = stage.agent.fork(fork_of(&handle).await).await.unwrap();
    assert_eq!(conversation(&fork), ["user \"one\"", "assistant \"a\""]);
    // To say something without asking starts nothing.
    fork.add_user_turn("know this").await.unwrap();
    assert_eq!(fork.state().run, None);
    hear(fork.prompt("two")).await;
    assert_eq!(
        conversation(&fork),
        [
            "user \"one\"",
            "assistant \"a\"",
            "user \"know this\"",
            "user \"two\"",
            "assistant \"b\""
        ]
    );
}

#[tokio::test]
async fn a_fork_may_begin_at_an_earlier_entry() {
    let stage = stage([Reply::text("a"), Reply::text("b"), Reply::text("c")]);
    let handle = stage.start();
    hear(handle.prompt("one")).await;
    let at = handle.state().head;
    hear(handle.prompt("two")).await;
    let origin = ForkPoint { at, ..fork_of(&handle).await };
    let fork = stage.agent.fork(origin.clone()).await.unwrap();
    hear(fork.prompt("three")).await;
    assert_eq!(
        conversation(&fork),
        ["user \"one\"", "assistant \"a\"", "user \"three\"", "assistant \"c\""]
    );
    let nowhere = Some(bowline_agent::id::EntryId::new(&SystemSource));
    let missing = stage.agent.fork(ForkPoint { at: nowhere, ..origin }).await;
    assert!(matches!(missing, Err(AgentError::NotFound(_))));
}

// The entries of a fork have ids of their own: what names one of them names its copy.
#[tokio::test]
async fn what_was_decided_is_about_the_same_wait_in_a_fork() {
    let stage = stage([Reply::call("asks", "{}"), Reply::text("a"), Reply::text("b")]).with(tool(
        "asks",
        |_, cx: ToolContext| async move {
            Ok(match cx.wake {
                None => ToolOutput::Waiting(Wake::Job("1".to_owned())),
                Some(_) => "woken".into(),
            })
        },
    ));
    let handle = stage.start();
    let run = handle.prompt("one");
    let state = handle.wait_for(|state| !state.waiting_calls.is_empty()).await.unwrap();
    let waiting = Some(state.waiting_calls[0].1.entry);
    handle.submit(OpKind::Wake { call: "call_1".into(), waiting }).await.unwrap();
    hear(run).await;
    let fork = stage.agent.fork(fork_of(&handle).await).await.unwrap();
    hear(fork.prompt("two")).await;
    let forked = log_of(fork.session_id()).await;
    let find = |name| forked.iter().find(|(_, entry)| entry.kind.name() == name).unwrap();
    let EntryKind::Woken(woken) = &find("woken").1.kind else { panic!() };
    assert_eq!(woken.waiting, Some(find("call_waiting").1.id));
}

#[tokio::test]
async fn large_bodies_go_with_a_fork() {
    let stage = stage([Reply::text("a"), Reply::text("b")]);
    let handle = stage.start();
    let long = "x".repeat(300_000);
    hear(handle.prompt(long.clone())).await;
    let fork = stage.agent.fork(fork_of(&handle).await).await.unwrap();
    handle.close().await;
    hear(fork.prompt("more")).await;
    let sent = stage.model.requests().pop().unwrap();
    let bowline_llm::Message::User(first) = &**sent.messages.first().unwrap() else { panic!() };
    assert!(bowline_llm::text_of(&first.content) == long);
}

// What was put aside is sent whole, and the conversation is still what its log comes to.
#[tokio::test]
async fn large_bodies_stay_beside_the_conversation() {
    let long = tool("long", |_, _| async move { Ok("y".repeat(300_000).into()) });
    let stage = stage([Reply::call("long", "{}"), Reply::text("a"), Reply::text("b")])
        .with(long)
        .change(|agent| agent.limits.output_bytes = 0);
    let handle = stage.start();
    // `hear` compares with the log.
    hear(handle.prompt("x".repeat(300_000))).await;
    hear(handle.prompt("more")).await;
    let requests = stage.model.requests();
    let (before, after) = (&requests[1].messages, &requests[2].messages);
    let Message::User(said) = &*before[0] else { panic!("{before:?}") };
    let Message::Results(results) = &*before[2] else { panic!("{before:?}") };
    assert_eq!(text_of(&said.content).len(), 300_000);
    assert_eq!(text_of(&results[0].content).len(), 300_000);
    // The same messages in memory: they are fetched and encoded once.
    assert!((0..3).all(|index| before[index].is(&after[index])));
}

#[tokio::test]
async fn entries_of_the_embedding_program_are_kept() {
    let stage = stage([Reply::text("a"), Reply::call("looks", "{}"), Reply::text("b")]).with(tool(
        "looks",
        |_, cx: ToolContext| async move {
            Ok(cx
                .recorded("note")
                .iter()
                .map(|data| data.as_str().to_owned())
                .collect::<String>()
                .into())
        },
    ));
    let handle = stage.start();
    hear(handle.prompt("go")).await;
    let data = RawJson::parse(r#"{ "b" : 1,"a":[2] }"#).unwrap();
    let id = handle.record("note", data.clone()).await.unwrap();
    assert_eq!(handle.state().head, Some(id));
    // It is no message, and byte for byte what was given.
    assert_eq!(conversation(&handle).len(), 2);
    let told = hear(handle.prompt("on")).await;
    assert_eq!(told.result("call_1"), data.as_str());
    let session = handle.session_id();
    handle.close().await;
    drop(handle);
    let handle = stage.agent.resume(session).await.unwrap();
    let log = log_of(session).await;
    let kept = log.iter().find(|(_, entry)| entry.id == id).unwrap();
    let EntryKind::Custom(custom) = &kept.1.kind else { panic!("{kept:?}") };
    assert_eq!((custom.name.as_str(), &custom.data, &custom.call), ("note", &data, &None));
    assert_eq!(conversation(&handle).len(), 6);
}

#[tokio::test]
async fn a_changed_system_text_or_tools_break_the_cache() {
    let stage = stage([Reply::text("a"), Reply::text("b"), Reply::text("c"), Reply::text("d")])
        .with(echo());
    let handle = stage.start();
    let breaks = |told: &crate::support::Told| {
        lines(&told.events, |body| matches!(body, EventBody::CacheBreak { .. }))
    };
    hear(handle.prompt("go")).await;
    let told = hear(handle.prompt("go")).await;
    assert_eq!(breaks(&told), Vec::<String>::new());
    let id = handle.session_id();
    handle.close().await;
    drop(handle);

    let mut changed = stage.agent.clone();
    changed.instructions = "Be long.".into();
    changed.tools = Toolbox::default();
    let handle = changed.resume(id).await.unwrap();
    // What is recorded counts until a run begins.
    assert_eq!(&*handle.state().snapshot.system, "Be brief.");
    let mut seen = handle.subscribe(100);
    hear(handle.prompt("go")).await;
    let mut told = Vec::new();
    while let Ok(event) = seen.try_recv() {
        told.push(event);
    }
    let told = lines(&told, |body| {
        matches!(body, EventBody::CacheBreak { .. } | EventBody::RunStart { .. })
    });
    assert_eq!(told, ["cache_break(system changed)", "cache_break(tools changed)", "run_start"]);
    let request = stage.model.requests().pop().unwrap();
    assert_eq!((&*request.system, request.tools.specs().len()), ("Be long.", 0));
    assert_eq!(&*handle.state().snapshot.system, "Be long.");
    let names: Vec<_> =
        log_of(id).await.iter().map(|(_, entry)| entry.kind.name().to_owned()).collect();
    assert_eq!(names.iter().filter(|name| name.ends_with("_changed")).count(), 2);
    let told = hear(handle.prompt("go")).await;
    assert_eq!(breaks(&told), Vec::<String>::new());
}

#[tokio::test]
async fn everything_may_be_called_while_it_runs() {
    let gate = Gate::default();
    let stage = stage([Reply::text("a").held_by(&gate)]);
    let handle = stage.start();
    let run = handle.prompt("go");
    gate.reached().await;
    assert_eq!(conversation(&handle), ["user \"go\""]);
    assert_eq!(handle.token_usage(), usage(0, 0));
    assert_eq!(handle.context_usage_percent(), 0);
    assert_eq!(handle.session_id().root(), handle.agent_id());
    handle.record("note", RawJson::parse("1").unwrap()).await.unwrap();
    let same = handle.clone();
    assert_eq!(same.state().run, handle.state().run);
    gate.open();
    assert_eq!(hear(run).await.text(), "a");
    let _ = Arc::new(same);
}
