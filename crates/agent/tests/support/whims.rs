//! Effects that do at a step whatever comes to their mind, in jobs where much goes wrong.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bowline_agent::conversation::{Conversation, Said};
use bowline_agent::effect::{Act, Class, DynEffect, Effect, EffectError, Question, Step};
use bowline_agent::entry::{
    Acted, Entry, EntryKind, Rewrite, RunError, RunErrorKind, Shown, Summary,
};
use bowline_agent::event::{Event, EventBody};
use bowline_agent::id::{AgentId, OpId, SessionId};
use bowline_agent::journal::Pos;
use bowline_agent::limits::{LimitKind, Limits};
use bowline_agent::op::{CancelReason, OpKind};
use bowline_agent::orchestrator::{Orchestrator, PlanExecute, React, Replan};
use bowline_agent::tool::{Access, Recovery};
use bowline_agent::{Agent, ForkPoint, Projection};
use bowline_llm::scripted::{Reply, ScriptedModel};
use bowline_llm::{
    CallId, ErrorKind, Message, Model, ModelError, ModelInfo, ModelStream, Part, RawJson, Request,
    StopReason, UserMessage, text_of,
};
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;

use super::crashing::{Clock, Cut, World};
use super::jobs::{calls, says, tool, tools};
use super::scenario::{End, Scenario, check_events};

/// A job made at random.
#[derive(Debug, Clone)]
pub(crate) struct Moody {
    effects: Vec<Whims>,
    // What the model says, request after request, and then "over".
    said: Vec<Spoken>,
    // What it says on the side, in turn.
    noted: Vec<Spoken>,
    deeds: Vec<Deed>,
    limits: Limits,
    // How it plans, if it does.
    plans: Option<Replan>,
}

/// What is done from outside.
#[derive(Debug, Clone, Copy)]
enum Deed {
    Prompt,
    Compact,
    Pin,
    // To one of the entries there are, or to before the first.
    Rewind(usize),
}

#[derive(Debug, Clone)]
enum Spoken {
    Text(StopReason),
    Calls(Vec<(&'static str, &'static str)>),
    Fails(ErrorKind),
}

/// An effect that does one thing after the other, whatever it is asked.
#[derive(Debug, Clone)]
struct Whims {
    class: Class,
    is_advisory: bool,
    outlives_runs: bool,
    before: Vec<Vec<Whim>>,
    after: Vec<Vec<Whim>>,
    answers: Vec<Vec<Whim>>,
    has_question: bool,
}

#[derive(Debug, Clone)]
enum Whim {
    Say,
    Rewrite(Change),
    Ask,
    Note,
    Warn,
    Stop,
    Fail,
    Error,
    Panic,
    Tarry,
}

#[derive(Debug, Clone)]
struct Change {
    up_to: Option<usize>,
    kept: Vec<usize>,
    results: Vec<usize>,
}

fn whim() -> impl Strategy<Value = Whim> {
    let results = proptest::collection::vec(0..8_usize, 0..3);
    let change = (proptest::option::of(0..12_usize), proptest::collection::vec(0..12_usize, 0..5));
    let change =
        (change, results).prop_map(|((up_to, kept), results)| Change { up_to, kept, results });
    prop_oneof![
        6 => Just(Whim::Say),
        8 => change.prop_map(Whim::Rewrite),
        6 => Just(Whim::Ask),
        2 => Just(Whim::Note),
        2 => Just(Whim::Warn),
        1 => Just(Whim::Stop),
        1 => Just(Whim::Fail),
        1 => Just(Whim::Error),
        1 => Just(Whim::Panic),
        2 => Just(Whim::Tarry),
    ]
}

fn whims() -> impl Strategy<Value = Whims> {
    let some = || proptest::collection::vec(proptest::collection::vec(whim(), 0..3), 0..6);
    let nature = (any::<bool>(), any::<bool>(), any::<bool>(), proptest::bool::weighted(0.9));
    (some(), some(), some(), nature).prop_map(|(before, after, answers, nature)| Whims {
        class: if nature.0 { Class::Context } else { Class::Nudge },
        is_advisory: nature.1,
        outlives_runs: nature.2,
        has_question: nature.3,
        before,
        after,
        answers,
    })
}

const CALLS: [(&str, &str); 14] = [
    ("read", "1"),
    ("read", "2"),
    ("slow", ""),
    ("shell", "x"),
    ("fail", ""),
    ("boom", ""),
    ("note", "a"),
    ("do", "steer"),
    ("do", "queue"),
    ("do", "follow"),
    ("do", "cancel"),
    ("do", "pin"),
    ("do", "compact"),
    ("fatal", ""),
];

fn spoken() -> impl Strategy<Value = Spoken> {
    let stop = prop_oneof![
        4 => Just(StopReason::EndTurn),
        2 => Just(StopReason::MaxTokens),
        1 => Just(StopReason::Refused),
    ];
    let call = (0..CALLS.len()).prop_map(|at| CALLS[at]);
    prop_oneof![
        2 => stop.prop_map(Spoken::Text),
        6 => proptest::collection::vec(call, 1..4).prop_map(Spoken::Calls),
        2 => Just(Spoken::Fails(ErrorKind::ContextOverflow)),
        1 => Just(Spoken::Fails(ErrorKind::Auth)),
    ]
}

pub(crate) fn moody() -> impl Strategy<Value = Moody> {
    let deed = prop_oneof![
        6 => Just(Deed::Prompt),
        2 => Just(Deed::Compact),
        2 => Just(Deed::Pin),
        3 => (0..1_000_usize).prop_map(Deed::Rewind),
    ];
    let plans = prop_oneof![
        2 => Just(None),
        1 => Just(Some(Replan::OnFailure)),
        1 => Just(Some(Replan::Off)),
    ];
    let limits = (0..6_u32, 0..4_u64, any::<bool>()).prop_map(|(turns, tokens, wrap_up)| Limits {
        model_turns: if turns == 0 { 0 } else { turns + 1 },
        total_tokens: tokens * 60,
        run_time_ms: if turns == 1 { 12_000 } else { 0 },
        wrap_up,
        ..Limits::default()
    });
    (
        proptest::collection::vec(whims(), 1..4),
        proptest::collection::vec(spoken(), 1..8),
        proptest::collection::vec(spoken(), 1..4),
        proptest::collection::vec(deed, 1..5),
        (limits, plans),
    )
        .prop_map(|(effects, said, noted, deeds, (limits, plans))| Moody {
            effects,
            said,
            noted,
            deeds,
            limits,
            plans,
        })
}

impl Moody {
    /// Lives once, and holds what is seen at every moment against the log.
    pub(crate) fn live(&self, world: &Arc<World>, cut: Option<Cut>) -> End {
        self.live_behind(world, cut, None)
    }

    /// Lives once in a copy of the conversation of another world, up to one of its entries.
    pub(crate) fn live_in_a_fork(
        &self,
        world: &Arc<World>,
        cut: Option<Cut>,
        of: &World,
        at: usize,
    ) -> End {
        self.live_behind(world, cut, fork_point(of, at))
    }

    fn live_behind(&self, world: &Arc<World>, cut: Option<Cut>, fork: Option<ForkPoint>) -> End {
        let job = Scenario { prompts: &[], scripts: Vec::new(), build: |_, agent| agent };
        let is_whole = cut.is_none() && world.log().is_empty();
        job.live_for(world, cut, async |agent| {
            let agent = self.agent(world, agent.clone());
            self.work(&agent, world, is_whole, fork).await;
        })
    }

    fn agent(&self, world: &Arc<World>, agent: Agent) -> Agent {
        let model = Mouth {
            info: agent.model.info().clone(),
            world: Arc::clone(world),
            moody: self.clone(),
            asked: Mutex::default(),
        };
        let mut all = tools(world);
        let access = (Access::none(), Recovery::Rerun);
        tool(&mut all, world, ("do", access.0, access.1), |args, cx, world| async move {
            let input = format!("please {}", args.text);
            let kind = match args.text.as_str() {
                "steer" => OpKind::Steer(input.into()),
                "queue" => OpKind::Queue(input.into()),
                "follow" => OpKind::FollowUp(input.into()),
                "pin" => OpKind::Pin(input.into()),
                "compact" => OpKind::Compact { focus: None },
                _ => OpKind::Cancel { reason: CancelReason::User, run: None },
            };
            world.post(&format!("{} {}", args.text, cx.call), None, kind);
            tokio::task::yield_now().await;
            Ok("done".into())
        });
        let effects = self.effects.iter().cloned();
        let orchestrator: Arc<dyn Orchestrator> = match self.plans {
            Some(replan) => Arc::new(PlanExecute { replan }),
            None => Arc::new(React),
        };
        Agent {
            orchestrator,
            model: Arc::new(model),
            tools: all,
            effects: effects.map(|one| Arc::new(one) as Arc<dyn DynEffect>).collect(),
            limits: self.limits.clone(),
            ..agent
        }
    }

    async fn work(
        &self,
        agent: &Agent,
        world: &Arc<World>,
        is_whole: bool,
        fork: Option<ForkPoint>,
    ) {
        let is_new = world.log().is_empty();
        let handle = match fork {
            Some(fork) if is_new => agent.fork(fork).await.unwrap(),
            None if is_new => agent.start(),
            Some(_) | None => agent.resume(World::session()).await.unwrap(),
        };
        assert_eq!(handle.session_id(), World::session());
        let mut seen = handle.subscribe(100_000);
        let root = handle.agent_id();
        let look = async {
            loop {
                let state = handle.state();
                let log = world.log_of(root);
                if log.is_empty() {
                    // Of a copy there is more to be seen than is in the log.
                    let _ = handle.wait_for(|now| now.head != state.head).await;
                    continue;
                }
                let replayed = Conversation::replay(&log);
                assert_eq!(state.head, replayed.head());
                assert_eq!(state.snapshot, replayed.snapshot());
                assert_eq!(state.run, replayed.run().map(|run| run.id));
                assert_eq!(state.drafts, replayed.totals().drafts);
                assert_eq!(state.latest, replayed.totals().latest);
                let _ = handle.wait_for(|now| now.head != state.head).await;
            }
        };
        let act = async {
            if handle.state().run.is_some()
                && let Some(run) = handle.continue_run().await.unwrap()
            {
                run.await.unwrap();
            }
            let mut begun = 0;
            let mut rewound = 0;
            for entry in own_entries(&world.log_of(root)) {
                begun += usize::from(matches!(entry.kind, EntryKind::RunStarted(_)));
                rewound += usize::from(matches!(entry.kind, EntryKind::Head(_)));
            }
            for deed in &self.deeds {
                match deed {
                    Deed::Pin => {
                        handle.pin("keep this").await.unwrap();
                    }
                    // It was done in an earlier life.
                    Deed::Prompt | Deed::Compact if begun > 0 => begun -= 1,
                    Deed::Rewind(_) if rewound > 0 => rewound -= 1,
                    Deed::Rewind(at) => {
                        let log = world.log_of(root);
                        let to = log.get(at % (log.len() + 1)).map(|entry| entry.id);
                        handle.rewind(to).await.unwrap();
                    }
                    Deed::Prompt => drop(handle.prompt("go").await.unwrap()),
                    Deed::Compact => drop(handle.compact(None).await.unwrap()),
                }
            }
        };
        tokio::select! {
            () = act => {}
            () = look => {}
        }
        handle.close().await;
        if is_whole {
            let events: Vec<Arc<Event>> = std::iter::from_fn(|| seen.try_recv().ok()).collect();
            check_events(&events, world);
        }
    }

    /// Checks that such jobs hold what they are to try out.
    pub(crate) fn is_worth_its_name() {
        let mut runner = TestRunner::deterministic();
        let mut seen: BTreeMap<String, usize> = BTreeMap::new();
        for _ in 0..60 {
            let one = moody().new_tree(&mut runner).unwrap().current();
            let world = Arc::new(World::default());
            one.live(&world, None);
            for entry in world.log() {
                let what = match &entry.kind {
                    EntryKind::Effect(acted) => acted.act.as_str().to_owned(),
                    EntryKind::RunEnded(ended) => ended.outcome.as_str().to_owned(),
                    kind => kind.name().to_owned(),
                };
                *seen.entry(what).or_default() += 1;
            }
        }
        let all = [
            "say",
            "rewrite",
            "ask",
            "note",
            "warn",
            "stop",
            "fail",
            "done",
            "error",
            "canceled",
            "limit",
            "call_ended",
            "posted",
            "head",
            "planned",
            "step_taken",
        ];
        let rare: Vec<_> = all.iter().filter(|what| !seen.contains_key(**what)).collect();
        assert!(rare.is_empty(), "{rare:?} never happened among {seen:#?}");
    }
}

/// Returns the entries of a log that are no copies.
fn own_entries(log: &[Entry]) -> &[Entry] {
    let copied = log.first().map_or(0, |entry| match &entry.kind {
        EntryKind::Created(created) => created.from.as_ref().map_or(0, |from| from.entries),
        _ => 0,
    });
    &log[usize::try_from(copied).unwrap()..]
}

/// Makes of a world's log the place where a fork begins, under the name of another session: in all
/// worlds it is the same. There is none where all that was said is taken back.
fn fork_point(of: &World, at: usize) -> Option<ForkPoint> {
    let (here, there) = (World::session(), SessionId::new(&Clock::new(900)));
    let rename = |entry: &Entry| {
        let text = serde_json::to_string(entry).unwrap();
        serde_json::from_str(&text.replace(&here.to_string(), &there.to_string())).unwrap()
    };
    let log = of.log();
    let own: Vec<_> = log.iter().filter(|entry| entry.agent == here.root()).collect();
    let at = own.get(at % (own.len() + 1)).map(|entry| entry.id);
    at.or(Conversation::replay(own.iter().copied()).head())?;
    let entries = (0..).map(Pos).zip(log.iter().map(rename)).collect();
    Some(ForkPoint { session: there, entries, hash: None, at })
}

fn plan(calls: &[(&str, &str)]) -> String {
    let step =
        |(tool, text): &(&str, &str)| serde_json::json!({ "tool": tool, "args": { "text": text } });
    serde_json::json!({ "steps": calls.iter().map(step).collect::<Vec<_>>() }).to_string()
}

/// A model that says one thing after the other.
struct Mouth {
    info: ModelInfo,
    world: Arc<World>,
    moody: Moody,
    asked: Mutex<usize>,
}

impl Model for Mouth {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn stream(&self, request: Request) -> ModelStream {
        self.world.requests.lock().unwrap().push((self.world.life(), request.clone()));
        for message in &request.messages {
            if let Message::User(said) = &**message {
                assert!(!said.content.is_empty(), "nothing is said");
            }
        }
        let nth = self.world.requests.lock().unwrap().len() - 1;
        let said = if &*request.system == "side" {
            let mut asked = self.asked.lock().unwrap();
            *asked += 1;
            assert!(*asked < 200, "a model is asked for ever");
            Some(&self.moody.noted[*asked % self.moody.noted.len()])
        } else {
            self.moody.said.get(nth)
        };
        let is_plan = request.messages.last().is_some_and(|last| match &**last {
            Message::User(said) => text_of(&said.content).contains("Do not call tools now"),
            Message::Assistant(_) | Message::Results(_) => false,
        });
        let reply = match said {
            Some(Spoken::Calls(list)) if is_plan => says(&plan(list)),
            Some(Spoken::Text(stop)) => says("text").with_stop(stop.clone()),
            Some(Spoken::Calls(list)) => {
                let ids: Vec<String> = (0..list.len()).map(|n| format!("c{nth}.{n}")).collect();
                let list = ids.iter().zip(list);
                let list = list.map(|(id, (name, text))| (id.as_str(), *name, *text));
                calls(&list.collect::<Vec<_>>())
            }
            Some(Spoken::Fails(kind)) => Reply::error(ModelError::new(*kind, "no")),
            None => says("over"),
        };
        ScriptedModel::new([reply]).stream(request)
    }
}

/// How often an effect has acted.
#[derive(Debug, Clone, Default)]
pub(crate) struct Moods(usize);

impl Whims {
    async fn follow(
        &self,
        list: &[Vec<Whim>],
        at: usize,
        step: &Step,
    ) -> Result<Vec<Act>, EffectError> {
        let mut acts = Vec::new();
        for whim in list.get(at).into_iter().flatten() {
            acts.push(match whim {
                Whim::Say => Act::say("by the way"),
                Whim::Rewrite(change) => Act::Rewrite(change.of(step)),
                Whim::Ask => Act::Ask { tokens: step.tokens() },
                Whim::Note => Act::Note(RawJson::of(&at).unwrap()),
                Whim::Warn => Act::warn("beware"),
                Whim::Stop => Act::Stop { limit: LimitKind::Stall },
                Whim::Fail => {
                    Act::Fail(RunError { kind: RunErrorKind::Effect, message: "no".into() })
                }
                Whim::Error => return Err("an error".into()),
                Whim::Panic => panic!("a whim"),
                Whim::Tarry => {
                    tokio::time::sleep(Duration::from_secs(5)).await;
                    continue;
                }
            });
        }
        Ok(acts)
    }
}

impl Change {
    fn of(&self, step: &Step) -> Rewrite {
        let mut known: Vec<CallId> = vec!["unknown".into()];
        for message in step.view.messages() {
            if let Message::Assistant(said) = &**message {
                known.extend(said.tool_calls().map(|call| call.id.clone()));
            }
        }
        let shown = |at: &usize| Shown {
            call: known[at % known.len()].clone(),
            content: [Part::Text("short".to_owned())].into(),
        };
        let summary = self.up_to.map(|up_to| Summary {
            up_to,
            kept: self.kept.clone(),
            message: Arc::new(UserMessage::text("notes")),
            text: "notes".to_owned(),
            ..Summary::default()
        });
        let results = self.results.iter().map(shown).collect();
        Rewrite { summary, results, ..Rewrite::default() }
    }
}

impl Effect for Whims {
    type State = Moods;

    fn kind(&self) -> &str {
        "whims"
    }

    fn class(&self) -> Class {
        self.class
    }

    fn is_advisory(&self) -> bool {
        self.is_advisory
    }

    fn outlives_runs(&self) -> bool {
        self.outlives_runs
    }

    fn acted(&self, moods: &mut Moods, _: &Acted) {
        moods.0 += 1;
    }

    async fn before(&self, step: &Step, moods: &Moods) -> Result<Vec<Act>, EffectError> {
        self.follow(&self.before, moods.0 + step.turn as usize, step).await
    }

    async fn after(&self, step: &Step, moods: &Moods) -> Result<Vec<Act>, EffectError> {
        self.follow(&self.after, moods.0 + step.turn as usize, step).await
    }

    fn question(&self, _: &Step, _: &Moods) -> Option<Question> {
        let question = Question {
            system: "side".into(),
            prompt: Arc::new(UserMessage::text("what was it about?")),
            model: None,
            max_output_tokens: None,
        };
        self.has_question.then_some(question)
    }

    async fn answered(
        &self,
        step: &Step,
        moods: &Moods,
        _: &Said,
    ) -> Result<Vec<Act>, EffectError> {
        self.follow(&self.answers, moods.0, step).await
    }
}

/// Checks what a log tells: each run ends once, what is queued is delivered once or named at the end,
/// and each summary that begins comes to an end before anything else is asked.
pub(crate) fn check_story(world: &World) {
    let mut projection = Projection::new(World::session());
    let log = world.log();
    let entries = (0..).map(Pos).zip(&log);
    let events: Vec<Event> =
        entries.flat_map(|(pos, entry)| projection.apply(pos, entry)).collect();
    let mut open: HashSet<AgentId> = HashSet::new();
    let mut asking: Vec<String> = Vec::new();
    let mut queued: HashMap<OpId, usize> = HashMap::new();
    for event in &events {
        let agent = event.agent.id;
        match &event.body {
            EventBody::RunStart { .. } => assert!(open.insert(agent), "two runs at once"),
            EventBody::RunEnd(end) => {
                assert!(open.remove(&agent), "an end too many");
                assert!(asking.is_empty(), "a summary that does not end: {asking:?}");
                for (op, delivered) in &queued {
                    let is_left = end.undelivered.contains(op);
                    assert!((*delivered == 1) != is_left, "{op} {delivered} times");
                }
                queued.clear();
            }
            EventBody::CompactionStart { effect, .. } => {
                assert!(!asking.contains(effect), "{effect} asks twice");
                asking.push(effect.clone());
            }
            EventBody::CompactionEnd { effect, .. } => {
                let at = asking.iter().position(|by| by == effect);
                asking.remove(at.unwrap_or_else(|| panic!("{effect} ends what did not begin")));
            }
            EventBody::Queued { id, .. } if event.run.is_some() => {
                queued.insert(*id, 0);
            }
            EventBody::Delivered { id } => {
                if let Some(delivered) = queued.get_mut(id) {
                    *delivered += 1;
                }
            }
            _ => {}
        }
    }
    assert!(open.is_empty(), "a run without an end");
}
