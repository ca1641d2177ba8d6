//! Which effects a sub-agent has, and that it keeps nothing in mind together with its parent.

use std::sync::Arc;

use bowline_agent::children::AgentCreator as _;
use bowline_agent::effect::{Act, DynEffect, Effect, EffectError, Step};
use bowline_agent::entry::{Entry, EntryKind};
use bowline_agent::tool::{ToolContext, Toolbox};
use bowline_llm::scripted::Reply;
use bowline_llm::{Message, Request, text_of};
use pretty_assertions::assert_eq;

use super::child;
use crate::support::{like, stage, tool};

/// Says before each request how many replies it has counted.
struct Tally(&'static str);

impl Effect for Tally {
    type State = u32;

    fn kind(&self) -> &str {
        self.0
    }

    fn fold(&self, replies: &mut u32, entry: &Entry) {
        *replies += u32::from(matches!(entry.kind, EntryKind::Assistant(_)));
    }

    async fn before(&self, _: &Step, replies: &u32) -> Result<Vec<Act>, EffectError> {
        Ok(vec![Act::say(format!("{} {replies}", self.0))])
    }
}

fn tally(name: &'static str) -> Vec<Arc<dyn DynEffect>> {
    vec![Arc::new(Tally(name))]
}

/// Returns what effects have said in a request.
fn counted(request: &Request) -> Vec<String> {
    let said = request.messages.iter().filter_map(|message| match &**message {
        Message::User(said) => Some(text_of(&said.content)),
        Message::Assistant(_) | Message::Results(_) => None,
    });
    said.filter(|text| text.contains("tally")).collect()
}

#[tokio::test]
async fn a_sub_agent_has_the_effects_it_is_made_with_and_none_of_its_parent() {
    let parents = stage([Reply::call("asks", "{}"), Reply::text("done")]);
    let parents = parents.change(|agent| agent.effects = tally("parent's tally"));
    let (model, mut own) = like(&parents.agent, "own", [Reply::text("a")]);
    own.effects = tally("own tally");
    let (silent, mut none) = like(&parents.agent, "none", [Reply::text("b")]);
    none.effects = Vec::new();
    let parents = parents.with(tool("asks", move |_, cx: ToolContext| {
        let both = [child(&own), child(&none)];
        async move {
            for child in both {
                let child = cx.children.create(child).await.unwrap();
                child.prompt("say").await.unwrap();
            }
            Ok("asked".into())
        }
    }));
    parents.play().await;
    assert_eq!(counted(&model.requests()[0]), ["own tally 0"]);
    assert_eq!(counted(&silent.requests()[0]), Vec::<String>::new());
    assert_eq!(counted(&parents.model.requests()[1]), ["parent's tally 0", "parent's tally 1"]);
}

/// A sub-agent like its parent counts for itself, from the beginning, and anew in each run; what it
/// does is nothing to its parent's count, nor to that of the next one.
#[tokio::test]
async fn a_sub_agent_like_its_parent_has_its_effects_and_a_mind_of_its_own() {
    let replies = ["a", "b", "c", "d"].map(Reply::text);
    let calls = [Reply::call("asks", "{}"), Reply::call("asks", "{}")];
    let [first, second] = calls;
    let [a, b, c, d] = replies;
    let stage = stage([first, a, b, second, c, d, Reply::text("done")]);
    let stage = stage.change(|agent| agent.effects = tally("tally"));
    let stage = stage.with(tool("asks", |_, cx: ToolContext| async move {
        let made = cx.children.new_with_default_model("Small.", Toolbox::default()).await;
        let child = made.unwrap();
        child.prompt("one").await.unwrap();
        child.prompt("two").await.unwrap();
        Ok("asked".into())
    }));
    assert_eq!(stage.play().await.text(), "done");
    let requests = stage.model.requests();
    let of = |system: &str| -> Vec<_> {
        requests.iter().filter(|sent| &*sent.system == system).map(counted).collect()
    };
    let one = ["tally 0".to_owned()].to_vec();
    let two = ["tally 0".to_owned(), "tally 0".to_owned()].to_vec();
    assert_eq!(of("Small."), [one.clone(), two.clone(), one, two]);
    assert_eq!(of("Be brief.").last().unwrap(), &["tally 0", "tally 1", "tally 2"]);
}
