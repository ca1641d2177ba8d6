//! Effects that ask a model on the side.

use std::sync::Arc;

use bowline_agent::conversation::Said;
use bowline_agent::effect::{Act, DynEffect, Effect, EffectError, Question, Step};
use bowline_agent::event::EventBody;
use bowline_llm::scripted::Reply;
use bowline_llm::{ScriptedModel, UserMessage};
use pretty_assertions::assert_eq;

use super::{call, done, said, with_all};
use crate::support::{lines, stage_for};

/// Asks a model on the side about the first reply, and tells what it said.
#[derive(Debug)]
struct Curious(&'static str);

impl Effect for Curious {
    type State = ();

    fn kind(&self) -> &str {
        self.0
    }

    async fn after(&self, step: &Step, (): &()) -> Result<Vec<Act>, EffectError> {
        Ok(if step.turn == 1 { vec![Act::Ask { tokens: 0 }] } else { Vec::new() })
    }

    fn question(&self, _: &Step, (): &()) -> Option<Question> {
        Some(Question {
            system: "side".into(),
            prompt: Arc::new(UserMessage::text(self.0)),
            model: None,
            max_output_tokens: None,
        })
    }

    async fn answered(&self, _: &Step, (): &(), said: &Said) -> Result<Vec<Act>, EffectError> {
        Ok(vec![Act::say(format!("{} heard {}", self.0, said.message.to_text()))])
    }
}

#[tokio::test]
async fn two_effects_that_ask_about_one_reply_are_both_answered() {
    let effects = [Curious("one"), Curious("two")].map(|one| Arc::new(one) as Arc<dyn DynEffect>);
    let replies = [call("echo", "x"), Reply::text("first"), Reply::text("second"), done()];
    let stage = with_all(effects, replies);
    let told = stage.play().await;
    assert_eq!(told.text(), "done");
    let both = [(1, "one heard first".to_owned()), (1, "two heard second".to_owned())];
    assert_eq!(said(&stage), both);
    let marks = lines(&told.events, |body| {
        matches!(body, EventBody::CompactionStart { .. } | EventBody::CompactionEnd { .. })
    });
    assert_eq!(marks.len(), 4, "{marks:#?}");
}

/// Asks for ever.
#[derive(Debug)]
struct Insatiable;

impl Effect for Insatiable {
    type State = ();

    fn kind(&self) -> &str {
        "insatiable"
    }

    async fn before(&self, _: &Step, (): &()) -> Result<Vec<Act>, EffectError> {
        Ok(vec![Act::Ask { tokens: 0 }])
    }

    fn question(&self, step: &Step, (): &()) -> Option<Question> {
        Effect::question(&Curious("more"), step, &())
    }

    async fn answered(&self, _: &Step, (): &(), _: &Said) -> Result<Vec<Act>, EffectError> {
        Ok(vec![Act::Ask { tokens: 0 }])
    }
}

/// A question on the side is no model call of the run, so that no limit of these ends it.
#[tokio::test]
async fn an_effect_cannot_ask_for_ever() {
    let model = ScriptedModel::answering(|request| match &*request.system {
        "side" => Reply::text("still hungry?"),
        _ => done(),
    });
    let stage = stage_for(model).change(|agent| agent.effects = vec![Arc::new(Insatiable)]);
    let told = stage.play().await;
    assert_eq!(told.text(), "done");
    let asked = stage.model.requests().iter().filter(|one| &*one.system == "side").count();
    assert_eq!(asked, 10);
    let warnings = lines(&told.events, |body| matches!(body, EventBody::Warning { .. }));
    assert_eq!(warnings, ["warning(\"not asked: models were asked 10 times for this step\")"]);
}
