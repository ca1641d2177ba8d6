//! What changes only what the model gets to see: transforms, and messages of custom entries.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use bowline_agent::conversation::Snapshot;
use bowline_agent::effect::{Effect, EffectError, Question, Step};
use bowline_agent::entry::{Act, Ending, Entry, EntryKind, Rewrite, RunErrorKind, Summary};
use bowline_agent::limits::{LimitKind, Limits};
use bowline_agent::op::CancelReason;
use bowline_agent::transform::{
    At, Transform, TransformError, filter, inject, keep_first_and_recent, keep_recent, transform_fn,
};
use bowline_llm::scripted::Reply;
use bowline_llm::{
    AssistantMessage, AssistantPart, CallId, Message, MessageRef, Messages, RawJson, Reasoning,
    ScriptedModel, ToolCall, ToolResult, UserMessage, WireId,
};
use pretty_assertions::assert_eq;
use proptest::prelude::*;

use crate::invariants::check_request;
use crate::support::{
    Latch, Stage, conversation, echo, hear, held, lines_of, log_of, stage, stage_for, tool,
};

fn with(stage: Stage, transforms: Vec<Arc<dyn Transform>>) -> Stage {
    stage.change(|agent| agent.transforms = transforms)
}

/// A hundred messages, half of the user and half of the model.
fn hundred() -> Snapshot {
    let message = |n: usize| match n % 2 {
        0 => Message::user(format!("m{n}")),
        _ => Message::Assistant(Arc::new(AssistantMessage::text(format!("m{n}")))),
    };
    Snapshot { messages: (0..100).map(|n| message(n).into()).collect(), ..Snapshot::default() }
}

async fn applied(transforms: &[&dyn Transform], mut snapshot: Snapshot) -> Vec<String> {
    for transform in transforms {
        snapshot = transform.apply(snapshot).await.unwrap();
    }
    lines_of(snapshot.messages.iter())
}

// F090
#[tokio::test]
async fn what_is_kept_is_the_first_and_the_last_messages() {
    let recent = applied(&[&keep_recent(10)], hundred()).await;
    assert_eq!(recent.len(), 10);
    assert_eq!(recent[0], "user \"m90\"");
    let both = applied(&[&keep_first_and_recent(10)], hundred()).await;
    assert_eq!(both.len(), 11);
    assert_eq!(both[..2], ["user \"m0\"", "user \"m90\""]);
    let chain = [keep_first_and_recent(50), keep_first_and_recent(10)];
    assert_eq!(applied(&[&chain[0], &chain[1]], hundred()).await, both);
    let all = lines_of(hundred().messages.iter());
    assert_eq!(applied(&[&keep_recent(100)], hundred()).await, all);
    assert_eq!(applied(&[&keep_recent(5)], Snapshot::default()).await, [""; 0]);
}

#[tokio::test]
async fn messages_are_added_where_they_are_wanted() {
    let two = || {
        let messages = hundred().messages.iter().take(2).cloned().collect();
        Snapshot { messages, ..Snapshot::default() }
    };
    let note = |at| inject([Message::user("a"), Message::user("b")], at);
    let (m0, m1, a, b) = ("user \"m0\"", "assistant \"m1\"", "user \"a\"", "user \"b\"");
    assert_eq!(applied(&[&note(At::Start)], two()).await, [a, b, m0, m1]);
    assert_eq!(applied(&[&note(At::BeforeLastUser)], two()).await, [a, b, m0, m1]);
    assert_eq!(applied(&[&note(At::End)], two()).await, [m0, m1, a, b]);
    assert_eq!(applied(&[&note(At::BeforeLastUser)], Snapshot::default()).await, [a, b]);
    let last = applied(&[&note(At::BeforeLastUser)], hundred()).await;
    assert_eq!(last[97..], ["assistant \"m97\"", a, b, "user \"m98\"", "assistant \"m99\""]);
}

#[tokio::test]
async fn the_conversation_stays_as_it_is() {
    let transforms: Vec<Arc<dyn Transform>> = vec![
        Arc::new(filter(|message| !matches!(message, Message::Assistant(_)))),
        Arc::new(inject([Message::user("in French")], At::End)),
        Arc::new(transform_fn(|snapshot| Ok(Snapshot { system: "Obey.".into(), ..snapshot }))),
    ];
    let stage = with(stage([Reply::text("one"), Reply::text("two")]), transforms);
    let handle = stage.start();
    hear(handle.prompt("a")).await;
    hear(handle.prompt("b")).await;
    assert_eq!(
        stage.asked(),
        [
            vec!["user \"a\"", "user \"in French\""],
            vec!["user \"a\"", "user \"b\"", "user \"in French\""],
        ]
    );
    let systems: Vec<_> = stage.model.requests().into_iter().map(|r| r.system).collect();
    assert_eq!(systems, ["Obey.".into(), "Obey.".into()]);
    assert_eq!(
        conversation(&handle),
        ["user \"a\"", "assistant \"one\"", "user \"b\"", "assistant \"two\""]
    );
}

/// A wire of the tests' own.
const WIRE: WireId = WireId { wire: "test", variant: 0 };

#[tokio::test]
async fn what_is_handed_on_as_it_came_keeps_its_bytes() {
    let transforms: Vec<Arc<dyn Transform>> = vec![
        Arc::new(inject([Message::user("at the start")], At::Start)),
        Arc::new(filter(|message| *message != Message::user("secret"))),
    ];
    let call = || Reply::call("echo", r#"{"text":"r"}"#);
    let replies = [call(), call(), Reply::text("one"), Reply::text("two")];
    let stage = with(stage(replies), transforms).with(echo()).change(|agent| {
        agent.convert = Some(Arc::new(|entry: &Entry| spoken(entry)));
    });
    let handle = stage.start();
    handle.record("note", RawJson::of(&"n").unwrap()).await.unwrap();
    hear(handle.prompt("a")).await;
    handle.add_user_turn("secret").await.unwrap();
    hear(handle.prompt("b")).await;
    let mut sent: Vec<String> = Vec::new();
    for request in stage.model.requests() {
        let mut encodings = 0;
        for (at, message) in request.messages.iter().enumerate() {
            message.encoded(WIRE, |message| {
                encodings += 1;
                assert!(at >= sent.len(), "what was sent before is encoded again: {message:?}");
                Vec::new().into()
            });
        }
        let lines = lines_of(request.messages.iter());
        assert_eq!(lines[..sent.len()], sent[..], "the prefix has changed");
        assert_eq!(encodings, lines.len() - sent.len());
        sent = lines;
    }
    assert_eq!(sent[..3], ["user \"at the start\"", "user \"note: \\\"n\\\"\"", "user \"a\""]);
    assert_eq!(sent.last().unwrap(), "user \"b\"");
}

#[tokio::test]
async fn a_result_whose_call_is_not_shown_is_not_shown_either() {
    let call = |text: &str| Reply::call("echo", format!(r#"{{"text":"{text}"}}"#));
    let replies = [call("1"), call("2"), Reply::text("done")];
    let stage = with(stage(replies), vec![Arc::new(keep_recent(3))]).with(echo());
    stage.play().await;
    assert_eq!(
        stage.asked()[2],
        // The reply before the first of these results was not kept.
        ["assistant call_2=echo", "results call_2=\"2\""]
    );
}

#[tokio::test]
async fn an_error_of_a_transform_ends_the_run_and_is_no_prose() {
    let failing: Vec<(&str, Arc<dyn Transform>)> = vec![
        ("a transform failed: no", Arc::new(transform_fn(|_| Err("no".into())))),
        ("a transform panicked: oh", Arc::new(transform_fn(|_| panic!("oh")))),
        ("the transforms have left no message to send", Arc::new(keep_recent(0))),
    ];
    for (message, transform) in failing {
        let stage = with(stage([Reply::text("unheard")]), vec![transform]);
        let handle = stage.start();
        let told = hear(handle.prompt("go")).await;
        let Ending::Failed(error) = told.ending() else { panic!("{:?}", told.ending()) };
        assert_eq!((error.kind, error.message.as_str()), (RunErrorKind::Transform, message));
        assert_eq!(stage.model.requests().len(), 0);
        assert_eq!(conversation(&handle), ["user \"go\""]);
        assert_eq!(told.text(), "");
    }
}

/// A transform that waits at a latch.
struct Hangs(Latch);

#[async_trait]
impl Transform for Hangs {
    async fn apply(&self, snapshot: Snapshot) -> Result<Snapshot, TransformError> {
        self.0.pass().await;
        Ok(snapshot)
    }
}

#[tokio::test]
async fn a_run_is_canceled_while_a_transform_hangs() {
    let latch = Latch::default();
    let stage = with(stage([]), vec![Arc::new(Hangs(latch.clone()))]);
    let handle = stage.start();
    let run = handle.prompt("go");
    latch.reached().await;
    handle.cancel();
    assert_eq!(hear(run).await.ending(), Ending::Canceled(CancelReason::User));
}

#[tokio::test]
async fn what_comes_in_while_a_transform_works_is_in_the_request() {
    let latch = Latch::default();
    let stage = with(stage([Reply::text("done")]), vec![Arc::new(Hangs(latch.clone()))]);
    let handle = stage.start();
    let run = handle.prompt("go");
    latch.reached().await;
    handle.queue("more").await.unwrap();
    latch.open();
    hear(run).await;
    assert_eq!(stage.asked(), [["user \"go\"", "user \"more\""]]);
}

#[tokio::test(start_paused = true)]
async fn a_transform_that_hangs_takes_no_more_time_than_the_run_has() {
    let stage = with(stage([]), vec![Arc::new(Hangs(Latch::default()))]).change(|agent| {
        agent.limits = Limits { run_time_ms: 5_000, ..Limits::default() };
    });
    let told = stage.play().await;
    assert_eq!(told.ending(), Ending::Limit(LimitKind::RunTime));
}

/// Asks a model on the side once, and shortens the view.
struct Asks;

impl Effect for Asks {
    type State = bool;

    fn kind(&self) -> &str {
        "asks"
    }

    fn fold(&self, asked: &mut bool, entry: &Entry) {
        *asked |= matches!(&entry.kind, EntryKind::Effect(acted) if acted.effect == "asks");
    }

    async fn before(&self, _: &Step, asked: &bool) -> Result<Vec<Act>, EffectError> {
        Ok(if *asked { Vec::new() } else { vec![Act::Ask { tokens: 0 }] })
    }

    fn question(&self, _: &Step, _: &bool) -> Option<Question> {
        let prompt = Arc::new(UserMessage::text("what is this?"));
        Some(Question { system: "".into(), prompt, model: None, max_output_tokens: None })
    }
}

#[tokio::test]
async fn what_an_effect_asks_on_the_side_is_not_transformed() {
    let transform = inject([Message::user("extra")], At::End);
    let stage = with(stage([Reply::text("side"), Reply::text("done")]), vec![Arc::new(transform)])
        .change(|agent| agent.effects = vec![Arc::new(Asks)]);
    stage.play().await;
    assert_eq!(
        stage.asked(),
        [vec!["user \"what is this?\""], vec!["user \"go\"", "user \"extra\""]]
    );
}

fn spoken(entry: &Entry) -> Option<UserMessage> {
    let EntryKind::Custom(custom) = &entry.kind else { return None };
    let said = format!("{}: {}", custom.name, custom.data.as_str());
    (custom.name == "note").then(|| UserMessage::text(said))
}

fn note(text: &str) -> RawJson {
    RawJson::of(&text).unwrap()
}

// F091
#[tokio::test]
async fn a_custom_entry_is_not_said_unless_somebody_makes_a_message_of_it() {
    for converts in [false, true] {
        let stage = stage([Reply::text("one"), Reply::text("two")]).change(|agent| {
            if converts {
                agent.convert = Some(Arc::new(spoken));
            }
        });
        let handle = stage.start();
        hear(handle.prompt("a")).await;
        handle.record("note", note("x")).await.unwrap();
        handle.record("other", note("y")).await.unwrap();
        hear(handle.prompt("b")).await;
        let mut expected = vec!["user \"a\"", "assistant \"one\"", "user \"b\""];
        if converts {
            expected.insert(2, "user \"note: \\\"x\\\"\"");
        }
        assert_eq!(stage.asked()[1], expected);
        // The conversation itself has no such message.
        assert_eq!(conversation(&handle).len(), 4);
    }
}

#[tokio::test]
async fn what_a_tool_records_is_said_behind_the_results_of_its_batch() {
    let latch = Latch::default();
    let notes = tool("notes", |_, cx| async move {
        cx.record("note", &"first")?;
        Ok("noted".into())
    });
    let reply = Reply::call("notes", "{}").and_call("held", r#"{"text":"h"}"#);
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let stage = stage([reply, Reply::call("notes", "{}"), Reply::text("done")])
        .with(notes)
        .with(held("held", &latch))
        .change(|agent| {
            agent.convert = Some(Arc::new(move |entry: &Entry| {
                count.fetch_add(1, Ordering::SeqCst);
                spoken(entry)
            }));
        });
    let handle = stage.start();
    let run = handle.prompt("go");
    latch.reached().await;
    handle.queue("more").await.unwrap();
    handle.record("note", note("second")).await.unwrap();
    latch.open();
    hear(run).await;
    let requests = stage.asked();
    let (first, second) = ("user \"note: \\\"first\\\"\"", "user \"note: \\\"second\\\"\"");
    let results = "results call_1=\"noted\" call_2=\"h\"";
    let calls = "assistant call_1=notes call_2=held";
    assert_eq!(requests[1], ["user \"go\"", calls, results, first, second, "user \"more\""]);
    assert_eq!(requests[2][6..], ["assistant call_3=notes", "results call_3=\"noted\"", first]);
    // Each entry is asked about once, in however many requests it is.
    assert_eq!(asked.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn what_a_custom_entry_says_survives_a_restart_and_a_rewind_takes_it_back() {
    let stage = stage([Reply::text("one"), Reply::text("two"), Reply::text("three")])
        .change(|agent| agent.convert = Some(Arc::new(spoken)));
    let handle = stage.start();
    hear(handle.prompt("a")).await;
    let before = handle.state().head;
    handle.record("note", note("x")).await.unwrap();
    let session = handle.session_id();
    handle.close().await;
    drop(handle);
    let log = log_of(session).await;
    assert!(matches!(log.last().unwrap().1.kind, EntryKind::Custom(_)));
    let handle = stage.agent.resume(session).await.unwrap();
    hear(handle.prompt("b")).await;
    handle.rewind(before).await.unwrap();
    hear(handle.prompt("c")).await;
    let said = "user \"note: \\\"x\\\"\"";
    assert_eq!(stage.asked()[1], ["user \"a\"", "assistant \"one\"", said, "user \"b\""]);
    assert_eq!(stage.asked()[2], ["user \"a\"", "assistant \"one\"", "user \"c\""]);
}

/// Summarises everything up to a place, once, before the third request.
struct Summarises {
    up_to: usize,
}

impl Effect for Summarises {
    type State = bool;

    fn kind(&self) -> &str {
        "summarises"
    }

    fn outlives_runs(&self) -> bool {
        true
    }

    fn fold(&self, done: &mut bool, entry: &Entry) {
        *done |= matches!(&entry.kind, EntryKind::Effect(_));
    }

    async fn before(&self, step: &Step, done: &bool) -> Result<Vec<Act>, EffectError> {
        if *done || step.view.messages().len() < 5 {
            return Ok(Vec::new());
        }
        let message = Arc::new(UserMessage::text("summary"));
        let summary = Summary {
            message,
            text: "summary".to_owned(),
            up_to: self.up_to,
            kept: vec![0],
            read: Vec::new(),
            modified: Vec::new(),
        };
        Ok(vec![Act::Rewrite(Rewrite { summary: Some(summary), ..Rewrite::default() })])
    }
}

#[tokio::test]
async fn a_summary_takes_the_place_of_what_a_custom_entry_said_there() {
    // Notes stand before "b" and before "c"; the second one is at the cut if that is before "c".
    for (up_to, expected) in [
        (2, vec!["user \"a\"", "user \"summary\"", "1", "user \"b\"", "assistant \"two\"", "2"]),
        (3, vec!["user \"a\"", "user \"summary\"", "assistant \"two\"", "2"]),
        (4, vec!["user \"a\"", "user \"summary\"", "2"]),
        (5, vec!["user \"a\"", "user \"summary\""]),
    ] {
        let replies = ["one", "two", "three"].map(Reply::text);
        let stage = stage(replies).change(|agent| {
            agent.convert = Some(Arc::new(spoken));
            agent.effects = vec![Arc::new(Summarises { up_to })];
        });
        let handle = stage.start();
        hear(handle.prompt("a")).await;
        handle.record("note", note("1")).await.unwrap();
        hear(handle.prompt("b")).await;
        handle.record("note", note("2")).await.unwrap();
        hear(handle.prompt("c")).await;
        let mut expected: Vec<String> = expected
            .into_iter()
            .map(|line| match line {
                "1" | "2" => format!("user \"note: \\\"{line}\\\"\""),
                line => line.to_owned(),
            })
            .collect();
        if up_to < 5 {
            expected.push("user \"c\"".to_owned());
        }
        assert_eq!(stage.asked()[2], expected, "up to {up_to}");
    }
}

#[tokio::test]
async fn a_converter_that_panics_ends_the_run() {
    let stage = stage([]).change(|agent| {
        agent.convert = Some(Arc::new(|_: &Entry| -> Option<UserMessage> { panic!("oh") }));
    });
    let handle = stage.start();
    handle.record("note", note("x")).await.unwrap();
    let told = hear(handle.prompt("go")).await;
    let Ending::Failed(error) = told.ending() else { panic!("{:?}", told.ending()) };
    assert_eq!(error.kind, RunErrorKind::Transform);
    assert_eq!(error.message, "the converter panicked: oh");
}

fn reasoning(text: &str) -> AssistantPart {
    AssistantPart::Reasoning(Reasoning { text: text.to_owned(), payload: None })
}

fn calling(id: &str) -> AssistantPart {
    let arguments = "{}".to_owned();
    AssistantPart::ToolCall(ToolCall { id: id.into(), name: "t".to_owned(), arguments })
}

fn reply(content: Vec<AssistantPart>) -> MessageRef {
    Message::Assistant(Arc::new(AssistantMessage { content })).into()
}

fn results(ids: &[&str]) -> MessageRef {
    let result = |id: &&str| ToolResult {
        call: CallId::from(*id),
        name: "t".to_owned(),
        content: Arc::new([]),
        is_error: false,
    };
    Message::Results(ids.iter().map(result).collect()).into()
}

fn user(text: &str) -> MessageRef {
    Message::user(text).into()
}

/// Returns what is sent if a transform leaves these messages.
async fn sent(messages: Vec<MessageRef>) -> Vec<String> {
    let left: Messages = messages.into_iter().collect();
    let leaves = transform_fn(move |snapshot| Ok(Snapshot { messages: left.clone(), ..snapshot }));
    let stage = with(stage([Reply::text("done")]), vec![Arc::new(leaves)]);
    stage.play().await;
    stage.asked().remove(0)
}

#[tokio::test]
async fn pairs_are_mended_by_rule() {
    let text = |text: &str| AssistantPart::Text(text.to_owned());
    // A result further behind moves to its call; what stood between stands behind.
    let moved = [reply(vec![calling("a")]), user("x"), results(&["a"])];
    assert_eq!(sent(moved.into()).await, ["assistant a=t", "results a=\"\"", "user \"x\""]);
    // Results come in the order of the calls, and those of nothing go.
    let mixed = [reply(vec![calling("a"), calling("b")]), results(&["b", "c", "a", "a"])];
    assert_eq!(sent(mixed.into()).await, ["assistant a=t b=t", "results a=\"\" b=\"\""]);
    // A result before its call is none.
    let before = [user("x"), results(&["a"]), reply(vec![text("hm"), calling("a")])];
    assert_eq!(sent(before.into()).await, ["user \"x\"", "assistant \"hm\""]);
    // A call goes with the reasoning that led to it alone.
    let thoughts = vec![
        reasoning("1"),
        calling("a"),
        reasoning("2"),
        calling("b"),
        calling("c"),
        reasoning("3"),
        text("so"),
    ];
    assert_eq!(
        sent(vec![reply(thoughts), results(&["c"])]).await,
        ["assistant <2> c=t <3> \"so\"", "results c=\"\""]
    );
    // A reply that only thinks is none.
    let only = [user("x"), reply(vec![reasoning("1"), calling("a"), reasoning("2")])];
    assert_eq!(sent(only.into()).await, ["user \"x\""]);
    // Of two calls with one id the first counts.
    let twice = || [reply(vec![calling("a")]), results(&["a"])];
    assert_eq!(sent([twice(), twice()].concat()).await, ["assistant a=t", "results a=\"\""]);
}

/// Drops, reorders, doubles and cuts messages as it was told.
struct Shuffles(Vec<usize>);

#[async_trait]
impl Transform for Shuffles {
    async fn apply(&self, snapshot: Snapshot) -> Result<Snapshot, TransformError> {
        let all = &snapshot.messages;
        let chosen = self.0.iter().filter_map(|at| all.get(at % all.len()).cloned());
        // Something to say is always left.
        let messages = std::iter::once(user("go")).chain(chosen).collect();
        Ok(Snapshot { messages, ..snapshot })
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn whatever_transforms_leave_a_provider_takes(
        batches in proptest::collection::vec(0..4_usize, 1..5),
        chosen in proptest::collection::vec(0..64_usize, 0..24),
    ) {
        let mut n = 0;
        let mut replies: Vec<Reply> = batches
            .into_iter()
            .map(|calls| {
                let mut reply = Reply::call("echo", "{}");
                for _ in 0..calls {
                    reply = reply.and_call("echo", r#"{"text":"x"}"#);
                }
                n += 1;
                reply
            })
            .collect();
        replies.push(Reply::text("done"));
        // The stage's model holds every request against the law.
        let stage = with(stage_for(ScriptedModel::new(replies)), vec![Arc::new(Shuffles(chosen))]);
        let stage = stage.with(echo());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let told = runtime.block_on(stage.play());
        prop_assert_eq!(told.ending(), Ending::Done);
        let requests = stage.model.requests();
        prop_assert_eq!(requests.len(), n + 1);
        for request in &requests {
            check_request(request);
            let mut ids: Vec<_> = request.messages.iter().flat_map(|message| match &**message {
                Message::Assistant(said) => said.tool_calls().map(|c| c.id.clone()).collect(),
                Message::User(_) | Message::Results(_) => Vec::new(),
            }).collect();
            let all = ids.len();
            ids.sort();
            ids.dedup();
            prop_assert_eq!(ids.len(), all, "no id twice");
        }
    }
}
