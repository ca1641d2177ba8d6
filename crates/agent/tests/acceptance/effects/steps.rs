//! When effects are asked, and what becomes of what they do.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use bowline_agent::conversation::Last;
use bowline_agent::effect::{
    Act, Class, DynEffect, Effect, EffectError, Inject, Step, ToolScope, effect_fn,
};
use bowline_agent::entry::{Ending, Phase, RunError, RunErrorKind};
use bowline_agent::event::EventBody;
use bowline_agent::id::SessionId;
use bowline_agent::journal::Store as _;
use bowline_agent::limits::LimitKind;
use bowline_agent::op::{Decision, OpKind};
use bowline_llm::scripted::Reply;
use bowline_llm::{
    Model, ModelError, ModelInfo, ModelStream, Request, ScriptedModel, StopReason, StreamEvent,
};
use futures::{FutureExt as _, StreamExt as _};
use pretty_assertions::assert_eq;

use super::{acts, call, done, said, then_done, with, with_all};
use crate::support::{Shelf, conversation, hear, lines, op};

fn once(phase: Phase, act: Act) -> impl bowline_agent::effect::Effect {
    effect_fn("once", move |step: &Step| {
        let is_due = step.phase == phase && step.turn == 1;
        Ok(if is_due { vec![act.clone()] } else { Vec::new() })
    })
}

#[tokio::test]
async fn effects_are_asked_in_order_and_told_where_the_run_is() {
    let asked: Arc<Mutex<Vec<String>>> = Arc::default();
    let spy = |name: &'static str| {
        let asked = Arc::clone(&asked);
        let effect = effect_fn(name, move |step: &Step| {
            let Step { agent, phase, turn, view, .. } = step;
            let messages = view.messages().len();
            let line = format!("{name} of {}: {phase:?} {turn}, {messages} messages", agent.name);
            asked.lock().unwrap().push(line);
            Ok(Vec::new())
        });
        Arc::new(effect) as Arc<dyn DynEffect>
    };
    let stage = with_all([spy("one"), spy("two")], then_done([call("echo", "1")]));
    stage.play().await;
    assert_eq!(
        *asked.lock().unwrap(),
        [
            "one of root: Before 0, 1 messages",
            "two of root: Before 0, 1 messages",
            "one of root: After 1, 2 messages",
            "two of root: After 1, 2 messages",
            "one of root: Before 1, 3 messages",
            "two of root: Before 1, 3 messages",
            "one of root: After 2, 4 messages",
            "two of root: After 2, 4 messages",
        ]
    );
}

#[tokio::test]
async fn the_first_error_ends_the_run_and_nobody_else_is_asked() {
    let whole = [
        "user \"go\"",
        "assistant call_1=echo",
        "results call_1!=\"canceled: the run has failed\"",
    ];
    for (phase, requests, said) in [(Phase::Before, 0, 1), (Phase::After, 1, 3)] {
        let broken = effect_fn("broken", move |step: &Step| match step.phase == phase {
            true => Err("no".into()),
            false => Ok(Vec::new()),
        });
        let heard = Arc::new(AtomicBool::new(false));
        let hears = Arc::clone(&heard);
        let other = effect_fn("other", move |step: &Step| {
            hears.fetch_or(step.phase == phase, Ordering::SeqCst);
            Ok(Vec::new())
        });
        let stage = with_all([Arc::new(broken) as _, Arc::new(other) as _], [call("echo", "1")]);
        let handle = stage.start();
        let told = hear(handle.prompt("go")).await;
        let message = "the effect broken failed: no".to_owned();
        let error = RunError { kind: RunErrorKind::Effect, message };
        assert_eq!(told.ending(), Ending::Failed(error));
        assert!(!heard.load(Ordering::SeqCst));
        assert_eq!(stage.model.requests().len(), requests);
        assert_eq!(conversation(&handle), whole[..said]);
    }
}

// B3: a reply with calls is no final answer.
#[tokio::test]
async fn what_is_said_about_a_reply_with_calls_is_said_behind_their_results() {
    let effect = once(Phase::After, Act::say("Well done."));
    let stage = with(effect, then_done([call("echo", "1").and_call("echo", "{}")]));
    let told = stage.play().await;
    assert_eq!(
        stage.asked()[1],
        [
            "user \"go\"",
            "assistant call_1=echo call_2=echo",
            "results call_1=\"1\" call_2=\"\"",
            "user \"Well done.\"",
        ]
    );
    assert_eq!(acts(&told), ["effect(once say)", "run_end(done)"]);
}

#[tokio::test]
async fn a_stop_about_a_reply_with_calls_skips_them() {
    let effect = once(Phase::After, Act::Stop { limit: LimitKind::Stall });
    let stage = with(effect, then_done([call("echo", "1")]));
    let told = stage.play().await;
    assert_eq!(told.ending(), Ending::Limit(LimitKind::Stall));
    assert_eq!(told.ends(), ["tool_end(call_1, skipped)"]);
}

// B2: the calls that it was about have results, so that the session goes on.
#[tokio::test]
async fn an_effect_that_fails_about_a_reply_leaves_no_call_open() {
    let broken = effect_fn("broken", |step: &Step| match (step.phase, step.turn) {
        (Phase::After, 1) if step.last == Last::Answer && !step.is_final() => Err("no".into()),
        _ => Ok(Vec::new()),
    });
    let stage = with(broken, [call("echo", "1").and_call("fail", "{}"), Reply::text("fine")]);
    let handle = stage.start();
    let told = hear(handle.prompt("go")).await;
    assert!(matches!(told.ending(), Ending::Failed(_)), "{:?}", told.ending());
    assert_eq!(told.ends(), ["tool_end(call_1, canceled)", "tool_end(call_2, canceled)"]);
    assert_eq!(hear(handle.prompt("again")).await.text(), "fine");
    assert!(stage.asked()[1][2].starts_with("results call_1!="), "{:?}", stage.asked()[1]);
}

/// A run has one end: an effect that stops it and fails in one go has failed.
#[tokio::test]
async fn a_failure_beside_a_stop_hits_no_limit() {
    let error = RunError { kind: RunErrorKind::Effect, message: "no".to_owned() };
    let (stop, fail) = (Act::Stop { limit: LimitKind::Stall }, Act::Fail(error.clone()));
    for acts_at_once in [[stop.clone(), fail.clone()], [fail, stop]] {
        for phase in [Phase::Before, Phase::After] {
            let acts_at_once = acts_at_once.clone();
            let both = effect_fn("both", move |step: &Step| {
                let is_due = step.phase == phase && step.turn == 1;
                Ok(if is_due { acts_at_once.to_vec() } else { Vec::new() })
            });
            let stage = with(both, then_done([call("echo", "1"), call("echo", "2")]));
            let told = stage.play().await;
            assert_eq!(told.ending(), Ending::Failed(error.clone()));
            let hits = |body: &EventBody| matches!(body, EventBody::LimitHit { .. });
            assert_eq!(lines(&told.events, hits), Vec::<String>::new());
            assert_eq!(stage.model.requests().len(), 1);
        }
    }
}

#[tokio::test]
async fn nothing_is_said_between_the_parts_of_an_answer() {
    let effect = effect_fn("eager", |step: &Step| {
        Ok(if step.phase == Phase::After { vec![Act::say("And?")] } else { Vec::new() })
    });
    let cut = Reply::text("one, ").with_stop(StopReason::MaxTokens);
    let stage = with(effect, [cut, Reply::text("two")]);
    let told = stage.play().await;
    assert_eq!(told.text(), "one, two");
    assert_eq!(
        acts(&told),
        [
            "effect(eager warn)",
            "warning(\"not said, because the answer is final: And?\")",
            "run_end(done)",
        ]
    );
}

/// What shortens the conversation is asked there too, and says no more than others.
#[tokio::test]
async fn what_shortens_says_nothing_between_the_parts_of_an_answer_either() {
    let cut = Reply::text("one, ").with_stop(StopReason::MaxTokens);
    let stage = with(Talkative, [cut, Reply::text("two")]);
    let told = stage.play().await;
    assert_eq!(told.text(), "one, two");
    assert_eq!(
        acts(&told),
        [
            "effect(talkative warn)",
            "warning(\"not said, because the reply is not whole: And?\")",
            "run_end(done)",
        ]
    );
}

/// Says something before the second request.
#[derive(Debug)]
struct Talkative;

impl Effect for Talkative {
    type State = ();

    fn kind(&self) -> &str {
        "talkative"
    }

    fn class(&self) -> Class {
        Class::Context
    }

    async fn before(&self, step: &Step, (): &()) -> Result<Vec<Act>, EffectError> {
        Ok(if step.turn == 1 { vec![Act::say("And?")] } else { Vec::new() })
    }
}

#[tokio::test]
async fn a_reply_that_does_not_count_ends_its_run_whatever_effects_say() {
    let effect = once(Phase::After, Act::Stop { limit: LimitKind::Stall });
    let refused = call("echo", "1").with_stop(StopReason::Refused);
    let told = with(effect, [refused]).play().await;
    assert_eq!(acts(&told)[2], "run_end(error: the model refused to answer)");
}

#[tokio::test]
async fn effects_of_one_kind_do_not_take_each_others_acts_for_their_own() {
    let inject = |text: &str, at| Inject { text: text.into(), at: vec![at], every: 0 };
    let effects = [
        Arc::new(inject("one", 2)) as _,
        Arc::new(inject("two", 1)) as _,
        Arc::new(inject("six", 1)) as _,
    ];
    let stage = with_all(effects, then_done([call("echo", "1"), call("echo", "2")]));
    let told = stage.play().await;
    let expected = [(1, "two"), (1, "six"), (2, "one")].map(|(at, text)| (at, text.to_owned()));
    assert_eq!(said(&stage), expected);
    assert_eq!(
        acts(&told),
        ["effect(inject-2 say)", "effect(inject-3 say)", "effect(inject say)", "run_end(done)"]
    );
}

#[tokio::test]
async fn a_step_has_the_tools_that_can_be_called() {
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let kept = Arc::clone(&seen);
    let spy = effect_fn("spy", move |step: &Step| {
        *kept.lock().unwrap() = step.tools.names().map(str::to_owned).collect();
        Ok(Vec::new())
    });
    let scope = ToolScope { exclude: vec!["fail".into()], hide: false };
    with_all([Arc::new(spy) as _, Arc::new(scope) as _], [done()]).play().await;
    assert_eq!(*seen.lock().unwrap(), ["echo", "count"]);
}

/// What a late answer to a question says is news to nobody.
#[tokio::test]
async fn what_comes_in_with_a_reply_keeps_no_effect_from_hearing_of_it() {
    let store = Arc::new(Shelf::default());
    let model = ScriptedModel::new(then_done([call("echo", "1")]));
    let session = Arc::new(OnceLock::new());
    let chatty = Chatty { model, store: Arc::clone(&store), session: Arc::clone(&session) };
    let said = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&said);
    let listens = effect_fn("listens", move |step: &Step| {
        if step.phase == Phase::After {
            heard.lock().unwrap().push(step.turn);
        }
        Ok(Vec::new())
    });
    let stage = with(listens, []).change(|agent| {
        agent.store = store;
        agent.model = Arc::new(chatty);
    });
    let handle = stage.start();
    session.set(handle.session_id()).unwrap();
    hear(handle.prompt("go")).await;
    assert_eq!(*said.lock().unwrap(), [1, 2]);
}

/// A stop is the end of the step: who would be asked next may take for ever.
#[tokio::test(start_paused = true)]
async fn after_a_stop_no_other_effect_is_asked_about_the_reply() {
    let stops = once(Phase::After, Act::Stop { limit: LimitKind::Stall });
    let effects: [Arc<dyn DynEffect>; 2] = [Arc::new(stops), Arc::new(Endless)];
    let stage = with_all(effects, then_done([call("echo", "1")]));
    let told = tokio::time::timeout(Duration::from_secs(600), stage.play()).await.unwrap();
    assert_eq!(told.ending(), Ending::Limit(LimitKind::Stall));
}

/// Never comes to a decision.
#[derive(Debug)]
struct Endless;

impl Effect for Endless {
    type State = ();

    fn kind(&self) -> &str {
        "endless"
    }

    async fn after(&self, _: &Step, (): &()) -> Result<Vec<Act>, EffectError> {
        std::future::pending().await
    }
}

/// A model at whose last word somebody posts a decision that nothing waits for.
#[derive(Debug)]
struct Chatty {
    model: ScriptedModel,
    store: Arc<Shelf>,
    session: Arc<OnceLock<SessionId>>,
}

impl Model for Chatty {
    fn info(&self) -> &ModelInfo {
        self.model.info()
    }

    fn stream(&self, request: Request) -> ModelStream {
        let inbox = self.store.inbox(*self.session.get().unwrap());
        let posts = move |event: &Result<StreamEvent, ModelError>| {
            if matches!(event, Ok(StreamEvent::Done(_))) {
                let (call, decision) = ("nobody".into(), Decision::ONCE);
                let late = op(OpKind::Decide { call, decision, waiting: None });
                inbox.post(late).now_or_never().unwrap().unwrap();
            }
        };
        Box::pin(self.model.stream(request).inspect(posts))
    }
}
