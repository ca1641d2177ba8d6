//! The last word of a run that has hit a limit: it must fit the window, and nothing else comes of it.

use std::sync::Arc;

use bowline_agent::effect::{Act, Class, Compact, Effect, EffectError, SlidingWindow, Step};
use bowline_agent::entry::{Ending, RunError, RunErrorKind};
use bowline_agent::event::EventBody;
use bowline_agent::limits::{LimitKind, Limits};
use bowline_llm::scripted::Reply;
use bowline_llm::{ErrorKind, ModelError, Request};
use pretty_assertions::assert_eq;

use crate::narrow::{compactions, length, read, reads, within};
use crate::support::{Stage, Told, echo, lines, stage};

/// Plays a run whose every reply reads so many bytes, until its limit; behind that it has a last word.
async fn play(effect: impl Effect, sizes: &'static [usize]) -> (Stage, Told) {
    let speak = move |turn: usize, _: &Request| {
        sizes.get(turn).map_or_else(|| Reply::text("that was done"), |size| reads(*size))
    };
    let stage = within(4_000, effect, |_| panic!("asked"), speak).with(read());
    let model_turns = u32::try_from(sizes.len()).unwrap();
    let stage = stage.change(|agent| {
        agent.limits = Limits { model_turns, wrap_up: true, ..Limits::none() };
    });
    let told = stage.play().await;
    assert_eq!(told.ending(), Ending::Limit(LimitKind::ModelTurns));
    assert_eq!(told.text(), "that was done");
    assert_eq!(stage.model.requests().len(), sizes.len() + 1);
    (stage, told)
}

/// The last word must fit the window as any other request: results are shortened for it, and no model
/// is asked, for it is the last call that the run may make.
#[tokio::test]
async fn what_is_too_long_for_the_last_word_is_shortened_without_a_model() {
    let (stage, told) = play(Compact::default(), &[16_000]).await;
    let last = stage.model.requests().pop().unwrap();
    assert!(length(&last) / 4 < 4_000, "{}", length(&last));
    assert_eq!(compactions(&told), ["effect(compact rewrite)", "cache_break(compact)"]);
    let sizes = &[800, 800, 800, 800, 800, 800, 800, 800, 800, 800, 800, 800, 2_500];
    let (stage, told) = play(SlidingWindow::default(), sizes).await;
    assert_eq!(
        compactions(&told),
        ["effect(sliding_window rewrite)", "cache_break(sliding_window)"]
    );
    let [.., before, last] = &stage.model.requests()[..] else { panic!("asked less") };
    assert!(length(last) < length(before));
}

/// What cannot be shortened is tried all the same, and the run ends at its limit.
#[tokio::test]
async fn a_last_word_that_cannot_fit_is_a_limit_still() {
    let no = || Reply::error(ModelError::new(ErrorKind::ContextOverflow, "too long"));
    let speak = move |turn: usize, _: &Request| match turn {
        0 => Reply::text("y".repeat(40_000)).and_call("read", r#"{"text":"file.1"}"#),
        _ => no(),
    };
    let stage = within(4_000, Compact::default(), |_| panic!("asked"), speak).with(read());
    let stage = stage.change(|agent| {
        agent.limits = Limits { model_turns: 1, wrap_up: true, ..Limits::none() };
    });
    let told = stage.play().await;
    assert_eq!(told.ending(), Ending::Limit(LimitKind::ModelTurns));
    assert_eq!(stage.model.requests().len(), 2);
    let warnings = lines(&told.events, |body| matches!(body, EventBody::Warning { .. }));
    assert!(warnings.concat().contains("nothing more of the conversation can be shortened"));
}

/// Only what shortens is asked, and what it says besides counts for nothing.
#[tokio::test(start_paused = true)]
async fn before_the_last_word_nothing_is_said_asked_or_stopped() {
    let error = RunError { kind: RunErrorKind::Effect, message: "no".to_owned() };
    let all = vec![
        Act::say("one more thing"),
        Act::Ask { tokens: 1 },
        Act::Stop { limit: LimitKind::Stall },
        Act::Fail(error),
    ];
    let stage = stage([Reply::call("echo", "{}"), Reply::text("done")]).with(echo());
    let stage = stage.change(|agent| {
        agent.effects = vec![Arc::new(AtTheEnd(all)), Arc::new(Sleeper)];
        agent.limits = Limits { model_turns: 1, wrap_up: true, ..Limits::none() };
    });
    let told = stage.play().await;
    assert_eq!((told.ending(), told.text()), (Ending::Limit(LimitKind::ModelTurns), "done".into()));
    let warnings = lines(&told.events, |body| matches!(body, EventBody::Warning { .. }));
    assert_eq!(
        warnings,
        [
            r#"warning("not said, because a limit is reached: one more thing")"#,
            r#"warning("not asked, because a limit is reached")"#,
            r#"warning("the limit stall is reached too")"#,
            r#"warning("no")"#,
            r#"warning("the effect sleeper is not heard: the time of the run is up")"#,
        ]
    );
    let hits = lines(&told.events, |body| matches!(body, EventBody::LimitHit { .. }));
    assert_eq!(hits, ["limit_hit(model_turns)"]);
}

/// Acts before the last word only.
struct AtTheEnd(Vec<Act>);

impl Effect for AtTheEnd {
    type State = ();

    fn kind(&self) -> &str {
        "at_the_end"
    }

    fn class(&self) -> Class {
        Class::Context
    }

    async fn before(&self, step: &Step, (): &()) -> Result<Vec<Act>, EffectError> {
        Ok(if step.is_last_word { self.0.clone() } else { Vec::new() })
    }
}

/// Never comes to an end before the last word.
struct Sleeper;

impl Effect for Sleeper {
    type State = ();

    fn kind(&self) -> &str {
        "sleeper"
    }

    fn class(&self) -> Class {
        Class::Context
    }

    async fn before(&self, step: &Step, (): &()) -> Result<Vec<Act>, EffectError> {
        if step.is_last_word {
            std::future::pending::<()>().await;
        }
        Ok(Vec::new())
    }
}
