//! What tools return and show: how much of it the model gets, and how much is told.

use std::sync::Arc;

use bowline_agent::entry::EntryKind;
use bowline_agent::event::EventBody;
use bowline_agent::limits::Limits;
use bowline_agent::tool::{ToolContext, ToolError};
use bowline_agent::{Agent, Redaction};
use bowline_llm::scripted::Reply;
use bowline_llm::{Message, Part};
use pretty_assertions::assert_eq;

use crate::support::{Told, conversation, hear, hear_with, log_of, stage, tool, usage};

// A tool that never stops talking can be stopped.
#[tokio::test]
async fn a_tool_that_floods_its_output_times_out() {
    let floods = tool("floods", |_, cx: ToolContext| async move {
        while !cx.cancel.is_cancelled() {
            for _ in 0..1000 {
                cx.output("x");
            }
            tokio::task::yield_now().await;
        }
        Err(ToolError::failed("stopped"))
    });
    let stage = stage([Reply::call("floods", "{}"), Reply::text("done")])
        .with(floods)
        .change(|agent| agent.limits.tool_time_ms = 20);
    let outcome = stage.agent.prompt("go").await.unwrap();
    assert_eq!(outcome.text(), "done");
    assert_eq!(stage.asked()[1][2], "results call_1!=\"stopped\"");
}

// F105: the head and the tail stay, the whole is kept beside the log.
#[tokio::test]
async fn a_long_output_is_cut_to_the_limit() {
    let text = format!("{}{}", "a".repeat(1500), "é".repeat(750));
    let long = text.clone();
    let stage = stage([Reply::call("long", "{}"), Reply::text("done")])
        .with(tool("long", move |_, _| {
            let long = long.clone();
            async move { Ok(long.into()) }
        }))
        .change(|agent| agent.limits.output_bytes = 1024);
    let handle = stage.start();
    let told = hear(handle.prompt("go")).await;
    let wanted = format!("{}\n[… 1976 bytes left out …]\n{}", "a".repeat(256), "é".repeat(384));
    assert_eq!(told.result("call_1"), wanted);
    let truncated = told
        .events
        .iter()
        .any(|event| matches!(event.body, EventBody::ToolEnd { truncated, .. } if truncated));
    assert!(truncated);
    assert_eq!(whole_output(&stage.agent, &handle).await, text);
}

async fn whole_output(agent: &Agent, handle: &bowline_agent::SessionHandle) -> String {
    let log = log_of(handle.session_id()).await;
    let full = log.iter().find_map(|(_, entry)| match &entry.kind {
        EntryKind::CallEnded(ended) => ended.full.clone(),
        _ => None,
    });
    let full = full.expect("the whole output was kept");
    let body = agent.store.blobs(handle.session_id()).get(&full.hash).await.unwrap();
    assert_eq!(full.bytes, body.len() as u64);
    String::from_utf8(body).unwrap()
}

#[tokio::test]
async fn two_hundred_megabytes_of_output_are_cut() {
    let stage = stage([Reply::call("huge", "{}"), Reply::text("done")])
        .with(tool("huge", |_, _| async { Ok("0123456789".repeat(20_000_000).into()) }));
    let handle = stage.start();
    let told = hear(handle.prompt("go")).await;
    let seen = told.result("call_1");
    assert!(seen.len() < 65_536 + 64, "{}", seen.len());
    assert!(seen.contains("[… 199934464 bytes left out …]"));
    assert_eq!(whole_output(&stage.agent, &handle).await.len(), 200_000_000);
    assert_eq!(told.text(), "done");
}

#[tokio::test]
async fn large_bodies_leave_the_log_and_reach_the_model_whole() {
    let (said, shown) = ("s".repeat(300_000), "t".repeat(400_000));
    let output = shown.clone();
    let stage = stage([Reply::call("long", "{}"), Reply::text("a"), Reply::text("b")])
        .with(tool("long", move |_, _| {
            let output = output.clone();
            async move { Ok(output.into()) }
        }))
        .change(|agent| agent.limits = Limits { output_bytes: 0, ..Limits::default() });
    let handle = stage.start();
    hear(handle.prompt(said.clone())).await;
    let log = log_of(handle.session_id()).await;
    let written: usize =
        log.iter().map(|(_, entry)| serde_json::to_string(entry).unwrap().len()).sum();
    assert!(written < 20_000, "{written}");
    hear(handle.prompt("more")).await;
    for request in &stage.model.requests()[1..] {
        let texts: Vec<&str> = request
            .messages
            .iter()
            .flat_map(|message| match &**message {
                Message::User(said) => said.content.iter().filter_map(Part::as_text).collect(),
                Message::Assistant(_) => Vec::new(),
                Message::Results(results) => results
                    .iter()
                    .flat_map(|r| r.content.iter())
                    .filter_map(Part::as_text)
                    .collect::<Vec<_>>(),
            })
            .collect();
        assert!(texts[0] == said && texts[1] == shown, "the bodies came back whole");
    }
    // Whoever resumes the session gives the model the same.
    let id = handle.session_id();
    handle.close().await;
    drop(handle);
    stage.model.push(Reply::text("c"));
    let handle = stage.agent.resume(id).await.unwrap();
    hear(handle.prompt("third")).await;
    let before: Vec<_> = stage.model.requests()[2].messages.iter().cloned().collect();
    let after: Vec<_> = stage.model.requests()[3].messages.iter().cloned().collect();
    assert!(before[..] == after[..before.len()], "the same prefix");
}

// F032
#[tokio::test]
async fn tool_output_is_shown_and_never_enters_the_history() {
    let chatty = tool("chatty", |_, cx: ToolContext| async move {
        cx.output("working");
        tokio::task::yield_now().await;
        cx.output("still");
        Ok("result".into())
    });
    let stage = stage([Reply::call("chatty", "{}"), Reply::text("done")]).with(chatty);
    let handle = stage.start();
    let told = hear(handle.prompt("go")).await;
    assert_eq!(
        told.call_lines(),
        [
            "tool_call(call_1, chatty)",
            "tool_start(call_1)",
            "tool_output(call_1, \"working\")",
            "tool_output(call_1, \"still\")",
            "tool_end(call_1, ok)",
        ]
    );
    assert_eq!(conversation(&handle)[2], "results call_1=\"result\"");
}

// A tool that says many little things at once is heard in pieces, and nothing it says is lost.
#[tokio::test]
async fn what_a_talkative_tool_says_is_joined_and_not_lost() {
    let stage = stage([Reply::call("talks", "{}"), Reply::text("done")]);
    let stage = stage.with(tool("talks", |_, cx: ToolContext| async move {
        for _ in 0..10_000 {
            cx.output("x");
        }
        Ok("said".into())
    }));
    let told = stage.play().await;
    let said: Vec<&str> = told
        .events
        .iter()
        .filter_map(|event| match &event.body {
            EventBody::ToolOutput { text, .. } => Some(text.as_str()),
            _ => None,
        })
        .collect();
    assert!(said.len() < 1_000, "{} pieces", said.len());
    assert_eq!(said.concat().len(), 10_000);
}

/// Returns what a run told of what tools showed, piece by piece, and how much was left out before
/// each.
fn shown(told: &Told) -> Vec<(&str, u64)> {
    let shown = told.events.iter().filter_map(|event| match &event.body {
        EventBody::ToolOutput { text, omitted } => Some((text.as_str(), *omitted)),
        _ => None,
    });
    shown.collect()
}

// What nobody can listen to as fast as it is said does not fill the memory: the newest part is told,
// and how much is missing before it.
#[tokio::test]
async fn of_a_flood_of_output_the_newest_part_is_told() {
    // Two bytes each, so that no cut falls between them by chance.
    let line = format!("x{}\n", "é".repeat(500));
    let said = line.repeat(10_000);
    for pieces in [10_000, 10, 1] {
        let whole = Arc::new(said.clone());
        let talks = tool("talks", move |_, cx: ToolContext| {
            let whole = Arc::clone(&whole);
            async move {
                let lines: Vec<&str> = whole.split_inclusive('\n').collect();
                for piece in lines.chunks(10_000 / pieces) {
                    cx.output(piece.concat());
                    // What a tool spends is heard however much it says.
                    cx.report_usage(usage(1, 0), None);
                }
                cx.output("the end");
                Ok("said".into())
            }
        });
        let stage = stage([Reply::call("talks", "{}"), Reply::text("done")]).with(talks);
        let told = hear_with(stage.agent.prompt("go"), usage(pieces as u64, 0)).await;
        let shown = shown(&told);
        let kept: usize = shown.iter().map(|(text, _)| text.len()).sum();
        let omitted: u64 = shown.iter().map(|(_, omitted)| omitted).sum();
        assert!(shown.iter().all(|(text, _)| text.len() <= 65_536), "of {pieces} pieces");
        assert!(kept <= 4 * 65_536, "{kept} bytes of {pieces} pieces");
        assert_eq!(kept as u64 + omitted, (said.len() + "the end".len()) as u64);
        let mut told = shown.iter().rev().map(|(text, _)| *text);
        let mut end = told.next().unwrap().to_owned();
        if end == "the end" {
            end.insert_str(0, told.next().unwrap());
        }
        assert!(format!("{said}the end").ends_with(&end), "of {pieces} pieces");
    }
}

// A cut through a secret would leave a part of it that nobody recognises.
#[tokio::test]
async fn a_flood_of_secrets_shows_no_part_of_one() {
    let secret = "very-secret-value";
    let talks = tool("talks", move |_, cx: ToolContext| async move {
        for _ in 0..1_000 {
            cx.output(secret.repeat(100));
        }
        cx.output(secret.repeat(100_000));
        Ok("said".into())
    });
    let stage = stage([Reply::call("talks", "{}"), Reply::text("done")])
        .with(talks)
        .change(|agent| agent.redaction = Redaction::new([("KEY".to_owned(), secret.into())]));
    let told = stage.play().await;
    assert!(shown(&told).iter().any(|(_, omitted)| *omitted > 0));
    assert!(shown(&told).iter().all(|(text, _)| !text.contains("value")));
}
