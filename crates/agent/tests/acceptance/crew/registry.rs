//! Who there is, and what each may do at its place.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bowline_agent::crew::{Card, Cost, Extra, Interaction, Member, Registry, Spawn};
use bowline_agent::prompt;
use bowline_agent::{Agent, AgentError};
use bowline_llm::ScriptedModel;
use bowline_llm::scripted::Reply;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::Crew;

fn agent() -> Agent {
    Agent::new(Arc::new(ScriptedModel::new([])))
}

fn names(registry: &Registry) -> Vec<String> {
    registry.list().into_iter().map(|card| card.name).collect()
}

// 59
#[test]
fn a_registry_makes_fresh_agents_by_name() {
    let registry = Registry::default();
    let made = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&made);
    registry.register(Card::new("writer", "first"), |_| Ok(agent()));
    registry.register(Card::new("coder", "Codes."), move |_| {
        count.fetch_add(1, Ordering::SeqCst);
        Ok(Agent { name: "whatever".to_owned(), ..agent() })
    });
    registry.register(Card::new("writer", "second"), |_| Ok(agent()));
    assert_eq!(names(&registry), ["coder", "writer"]);
    assert_eq!(registry.card("writer").unwrap().description, "second");
    assert!(registry.get("coder").is_some() && registry.get("Coder").is_none());
    for _ in 0..2 {
        let coder = registry.spawn(&Spawn::root("coder")).unwrap().unwrap();
        assert_eq!(coder.name, "coder");
    }
    assert_eq!(made.load(Ordering::SeqCst), 2);
    assert!(registry.spawn(&Spawn::root("nobody")).is_none());
    registry.register(Card::new("broken", ""), |_| {
        Err(AgentError::NotMade("there is no key".to_owned()))
    });
    assert!(registry.spawn(&Spawn::root("broken")).unwrap().is_err());
}

#[test]
fn a_registry_is_shared_by_threads() {
    let registry = Registry::default();
    std::thread::scope(|scope| {
        for n in 0..8 {
            let registry = &registry;
            scope.spawn(move || {
                registry.register(Card::new(format!("agent-{n}"), ""), |_| Ok(agent()));
                registry.list();
            });
        }
    });
    assert_eq!(names(&registry).len(), 8);
}

// 61
#[tokio::test]
async fn the_list_leaves_out_oneself_and_what_is_not_said() {
    let crew = Crew::new([Reply::call("list_agents", "{}"), Reply::text("done")]);
    crew.hire("ROOT", []);
    let card = Card {
        tags: vec!["rust".to_owned()],
        estimated_cost: Some(Cost::Cheap),
        max_concurrency: 2,
        ..Card::new("coder", "Codes.")
    };
    crew.registry.register(card, |_| Ok(agent()));
    crew.registry.register(Card::new("plain", ""), |_| Ok(agent()));
    let told = crew.play().await;
    let listed: Value = serde_json::from_str(&told.result("call_1")).unwrap();
    let coder = json!({
        "name": "coder",
        "description": "Codes.",
        "tags": ["rust"],
        "estimated_cost": "cheap",
        "max_concurrency": 2,
    });
    assert_eq!(listed, json!([coder, { "name": "plain" }]));
}

fn offered(member: &Member, spawn: &Spawn) -> Vec<String> {
    member.tools(spawn).names().map(str::to_owned).collect()
}

/// Returns the tags of what is explained because of the crew.
fn explained(member: &Member, spawn: &Spawn) -> Vec<&'static str> {
    let sections = prompt::sections(&member.prompt(spawn));
    let tags = sections.iter().map(|section| section.tag);
    tags.filter(|tag| !["identity", "behavioral_constraints"].contains(tag)).collect()
}

/// A registry with a coder and a tester.
fn registry() -> Arc<Registry> {
    let registry = Registry::default();
    registry.register(Card::new("coder", "Codes."), |_| Ok(agent()));
    registry.register(Card::new("tester", "Tests."), |_| Ok(agent()));
    Arc::new(registry)
}

fn at(depth: u32) -> Spawn {
    Spawn { depth, max_handoffs: 3, ..Spawn::root("coder") }
}

// 91, 94: what is offered is what the system text explains, and what works.
#[test]
fn a_member_gets_the_tools_it_can_use_at_its_place() {
    let registry = registry();
    let member = Member { max_depth: 2, ..Member::new("coder", Arc::clone(&registry)) };
    let delegation = ["list_agents", "delegate", "delegation_result"];
    assert_eq!(offered(&member, &at(0)), delegation);
    let child = offered(&member, &at(1));
    assert_eq!(child[..3], delegation);
    assert!(child.contains(&"task_complete".to_owned()), "{child:?}");
    assert!(!child.contains(&"handoff".to_owned()), "{child:?}");
    let deepest = offered(&member, &at(2));
    assert!(!deepest.contains(&"delegate".to_owned()), "{deepest:?}");
    assert_eq!(explained(&member, &at(0)), ["available_agents"]);
    let child = ["completion_protocol", "interaction_protocol", "available_agents"];
    assert_eq!(explained(&member, &at(1)), child);
    assert_eq!(explained(&member, &at(2)), child[..2]);
    let cards = member.prompt(&at(0)).agents;
    assert_eq!(cards.iter().map(|card| &*card.name).collect::<Vec<_>>(), ["tester"]);
    let asked = Member { interaction: Interaction::Interactive, ..member.clone() };
    assert!(offered(&asked, &at(0)).contains(&"answer_delegation_questions".to_owned()));
    let root = ["interactive_delegation_protocol", "available_agents"];
    assert_eq!(explained(&asked, &at(0)), root);
    assert_eq!(explained(&asked, &at(2)), child[..2]);
    let never = Member { max_depth: 0, ..member.clone() };
    assert_eq!(offered(&never, &at(0)), [""; 0]);
    let alone = Member::new("coder", Arc::default());
    assert_eq!(offered(&alone, &at(0)), [""; 0]);
    let maker = Member { ad_hoc: true, ..alone };
    assert_eq!(offered(&maker, &at(0)), delegation);
    let nobody = Member { delegates: Some(Vec::new()), ..member.clone() };
    assert_eq!(offered(&nobody, &at(0)), [""; 0]);
    let again = Member { allow_self: true, ..member.clone() };
    assert_eq!(again.prompt(&at(0)).agents.len(), 2);
    let headless = Member { completes: true, max_depth: 0, ..member };
    assert_eq!(offered(&headless, &at(0)), ["task_complete"]);
}

// 94, B21: a handoff is offered where the parent would follow it.
#[test]
fn a_handoff_is_offered_where_it_would_be_followed() {
    let member = Member { max_handoffs: 2, ..Member::new("coder", registry()) };
    let has = |member: &Member, spawn: &Spawn| {
        let is_offered = offered(member, spawn).contains(&"handoff".to_owned());
        let is_explained = explained(member, spawn).contains(&"handoff_protocol");
        assert_eq!(is_explained, is_offered);
        is_offered
    };
    assert!(has(&member, &at(1)));
    assert!(!has(&member, &at(0)), "a root has nobody to follow it");
    assert!(!has(&member, &Spawn { max_handoffs: 0, ..at(1) }));
    assert!(!has(&Member { max_handoffs: 0, ..member }, &at(1)));
}

#[test]
fn what_is_asked_for_by_name_is_offered_by_name() {
    let extras = ["delegate_to_agent", "spawn_agents", "send_message"];
    let extras: Vec<Extra> = extras.iter().map(|word| word.parse().unwrap()).collect();
    let member = Member { extras, ..Member::new("coder", registry()) };
    let all = offered(&member, &at(0));
    assert_eq!(all[3..], ["delegate_to_agent", "spawn_agents", "send_message"]);
    let error = "spawn_agent".parse::<Extra>().unwrap_err().to_string();
    assert!(error.contains("spawn_agents"), "{error}");
    for word in ["auto", "blocking"] {
        assert_eq!(word.parse(), Ok(Interaction::Auto));
    }
    assert_eq!("interactive".parse(), Ok(Interaction::Interactive));
    assert!("Auto".parse::<Interaction>().is_err());
}

// B21
#[test]
fn no_agent_is_deeper_than_its_parent_allows() {
    let member = Member { max_depth: 9, ..Member::new("coder", registry()) };
    let within = Spawn { max_depth: 2, ..at(2) };
    assert!(!offered(&member, &within).contains(&"delegate".to_owned()));
    assert!(offered(&member, &at(2)).contains(&"delegate".to_owned()));
}
