//! What somebody wants summarised, and what else must not come of that.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bowline_agent::effect::{Compact, Step};
use bowline_agent::entry::{Ending, RunErrorKind};
use bowline_agent::event::EventBody;
use bowline_agent::middleware::OutputGuardrail;
use bowline_agent::on_stop::on_stop_fn;
use bowline_agent::op::OpKind;
use bowline_llm::scripted::{Gate, Reply};
use bowline_llm::{ErrorKind, Model as _, ModelError, ModelInfo, ScriptedModel};
use pretty_assertions::assert_eq;

use crate::narrow::{compactions, is_side_question, length, side_questions, texts, within};
use crate::support::{Stage, conversation, hear, lines, op};

fn stage() -> Stage {
    let speak = |_: usize, _: &_| Reply::text("an answer ".repeat(400));
    within(100_000, Compact::default(), |_| Reply::text("notes"), speak)
}

fn turns(stage: &Stage) -> usize {
    stage.model.requests().iter().filter(|request| !is_side_question(request)).count()
}

fn is_warning(body: &EventBody) -> bool {
    matches!(body, EventBody::Warning { .. })
}

/// There is no answer that somebody could judge or ask more of.
#[tokio::test]
async fn nobody_is_sent_back_to_work_by_a_summary() {
    let asked = Arc::new(AtomicUsize::new(0));
    let (stops, judges) = (Arc::clone(&asked), Arc::clone(&asked));
    let wants_more = move |_: &str, _: &Step| {
        (stops.fetch_add(1, Ordering::SeqCst) > 1).then(|| "and more?".into())
    };
    let is_good = move |_: &str| match judges.fetch_add(1, Ordering::SeqCst) {
        0 | 1 => Ok(()),
        _ => Err("seen before".to_owned()),
    };
    let stage = stage().change(|agent| {
        agent.on_stop = Some(Arc::new(on_stop_fn(wants_more)));
        agent.middleware = vec![Arc::new(OutputGuardrail::new(is_good))];
    });
    let handle = stage.start();
    hear(handle.prompt("question")).await;
    let told = hear(handle.compact(None)).await;
    assert_eq!((told.ending(), told.text()), (Ending::Done, String::new()));
    assert_eq!((asked.load(Ordering::SeqCst), turns(&stage)), (2, 1));
    assert_eq!(side_questions(&stage).len(), 1);
}

/// What the model has not seen waits for the next prompt.
#[tokio::test]
async fn a_summary_answers_nothing_that_was_said_at_rest() {
    let stage = stage();
    let handle = stage.start();
    hear(handle.prompt("question")).await;
    handle.pin("the port is 80").await.unwrap();
    handle.add_user_turn("by the way").await.unwrap();
    let told = hear(handle.compact(None)).await;
    assert_eq!((told.ending(), turns(&stage)), (Ending::Done, 1));
    let now = conversation(&handle).concat();
    assert!(now.contains("the port is 80") && now.contains("by the way"), "{now}");
    hear(handle.prompt("more")).await;
    assert_eq!(turns(&stage), 2);
}

/// There is no next request that could be too long.
#[tokio::test]
async fn an_answer_that_fills_the_window_is_an_answer_without_a_summary_too() {
    let gate = Gate::default();
    let answer = Reply::text("an answer ".repeat(800)).held_by(&gate);
    let no = || Reply::error(ModelError::new(ErrorKind::InvalidRequest, "no"));
    let stage = stage();
    let info = ModelInfo { context_window: Some(1_000), ..stage.model.info().clone() };
    let model = ScriptedModel::new([answer, no(), no()]).with_info(info);
    let stage = Stage { model: model.clone(), ..stage };
    let stage = stage.change(|agent| agent.model = Arc::new(model));
    let handle = stage.start();
    let run = handle.prompt("question");
    gate.reached().await;
    handle.post(op(OpKind::Compact { focus: None })).await.unwrap();
    gate.open();
    let told = hear(run).await;
    assert_eq!((told.ending(), side_questions(&stage).len()), (Ending::Done, 1));
    let told = hear(handle.compact(None)).await;
    assert_eq!((told.ending(), side_questions(&stage).len()), (Ending::Done, 2));
}

/// An answer that is there is returned, whatever limit is reached with it.
#[tokio::test]
async fn a_summary_takes_no_answer_from_a_run() {
    let whole = |stage: Stage| async move {
        let gate = Gate::default();
        let answer = Reply::text("an answer ".repeat(400)).held_by(&gate);
        let answer = answer.with_usage(crate::support::usage(100, 10));
        let notes = Reply::text("notes").with_usage(crate::support::usage(100, 10));
        let model = ScriptedModel::new([answer, notes]);
        let agent = bowline_agent::Agent { model: Arc::new(model.clone()), ..stage.agent };
        let handle = agent.start();
        let run = handle.prompt("question");
        gate.reached().await;
        handle.post(op(OpKind::Compact { focus: None })).await.unwrap();
        gate.open();
        (hear(run).await, model.requests().len())
    };
    let (told, requests) = whole(stage().change(|agent| agent.limits.model_turns = 1)).await;
    assert_eq!((told.ending(), requests), (Ending::Done, 2));
    assert!(told.text().starts_with("an answer"));
    assert_eq!(lines(&told.events, is_warning), Vec::<String>::new());
    let (told, requests) = whole(stage().change(|agent| agent.limits.total_tokens = 50)).await;
    assert_eq!((told.ending(), requests), (Ending::Done, 1));
    assert!(told.text().starts_with("an answer"));
    let warnings = lines(&told.events, is_warning);
    assert_eq!(warnings, [r#"warning("not asked: the limit total_tokens is reached")"#]);
    assert_eq!(compactions(&told).len(), 4, "{:#?}", compactions(&told));
}

/// Nothing is asked in such a run, so that nothing can be too long for it: whoever wants a summary
/// is told.
#[tokio::test]
async fn a_summary_at_rest_never_exhausts_the_window() {
    let huge = || "x".repeat(40_000);
    for is_pinned in [true, false] {
        let compact = Compact { context_window: 4_000, ..Compact::default() };
        let speak = |_: usize, _: &_| Reply::text("an answer ".repeat(100));
        let stage = within(100_000, compact, |_| Reply::text("notes"), speak);
        let handle = stage.start();
        hear(handle.prompt("question")).await;
        if is_pinned {
            handle.pin(huge()).await.unwrap();
        } else {
            handle.add_user_turn(huge()).await.unwrap();
        }
        for attempt in 0..2 {
            let told = hear(handle.compact(None)).await;
            assert_eq!(told.ending(), Ending::Done, "{attempt}");
            let warnings = lines(&told.events, is_warning);
            let is_told = |line: &String| line.contains("the next request would take about");
            assert!(warnings.iter().any(is_told), "{attempt}: {warnings:#?}");
        }
        assert!(conversation(&handle).concat().contains("xxxx"));
        // The session is not lost.
        let told = hear(handle.prompt("go on")).await;
        assert_eq!(told.ending(), Ending::Done);
        let request = stage.model.requests().pop().unwrap();
        assert!(length(&request) / 4 < 4_000, "{}", length(&request));
        let told_of = lines(&told.events, is_warning).concat();
        assert_eq!(
            told_of.contains("what is pinned is too long to be kept"),
            is_pinned,
            "{told_of}"
        );
    }
}

/// Whoever says too much at once has not lost the session with it.
#[tokio::test]
async fn a_prompt_that_is_too_long_does_not_stand_in_the_way_of_the_next() {
    let speak = |_: usize, _: &_| Reply::text("an answer ".repeat(100));
    let stage = within(4_000, Compact::default(), |_| Reply::text("notes"), speak);
    let handle = stage.start();
    assert_eq!(hear(handle.prompt("question")).await.ending(), Ending::Done);
    let told = hear(handle.prompt("x".repeat(80_000))).await;
    let Ending::Failed(error) = told.ending() else { panic!("{:?}", told.ending()) };
    assert_eq!(error.kind, RunErrorKind::ContextExhausted);
    assert_eq!(hear(handle.prompt("shorter")).await.ending(), Ending::Done);
    assert_eq!(texts(&stage, stage.model.requests().len() - 1).last().unwrap(), "user \"shorter\"");
}

/// A demand that a run ends before, and one that comes while no run is open, are met with the next
/// run: once, and nothing of them is ever said.
#[tokio::test]
async fn what_was_not_summarised_in_a_run_is_with_the_next() {
    let stage = stage();
    let gate = Gate::default();
    let answers = [
        Reply::text("an answer ".repeat(400)),
        Reply::text("late").held_by(&gate),
        Reply::text("notes"),
        Reply::text("another answer ".repeat(400)),
        Reply::text("more notes"),
        Reply::text("done"),
        Reply::text("done again"),
    ];
    let model = ScriptedModel::new(answers).with_info(stage.model.info().clone());
    let stage = Stage { model: model.clone(), ..stage };
    let stage = stage.change(|agent| agent.model = Arc::new(model));
    let handle = stage.start();
    hear(handle.prompt("question")).await;
    let run = handle.prompt("more");
    gate.reached().await;
    let focus = Some("the port".to_owned());
    let demand = op(OpKind::Compact { focus });
    handle.post(demand.clone()).await.unwrap();
    handle.cancel();
    let told = hear(run).await;
    let end = told.outcome.unwrap();
    assert_eq!(end.undelivered, [demand.id], "it is said that it was not done");
    let told = hear(handle.prompt("go on")).await;
    let summarised = ["effect(compact rewrite)", "compaction_end(compact true)"];
    assert_eq!(compactions(&told)[2..4], summarised, "{:#?}", compactions(&told));
    let [question] = &side_questions(&stage)[..] else { panic!("asked too often or never") };
    let asked = question.messages.iter().map(|message| format!("{message:?}"));
    assert!(asked.collect::<String>().contains("the port"));
    assert!(handle.state().drafts.is_empty());
    let id = handle.session_id();
    handle.close().await;
    drop(handle);
    // Another process asks for one while nobody has the session.
    let at_rest = op(OpKind::Compact { focus: None });
    stage.agent.store.inbox(id).post(at_rest).await.unwrap();
    let handle = stage.agent.resume(id).await.unwrap();
    hear(handle.prompt("and on")).await;
    assert_eq!(side_questions(&stage).len(), 2);
    assert!(handle.state().drafts.is_empty());
    hear(handle.prompt("and on")).await;
    assert_eq!(side_questions(&stage).len(), 2);
}
