//! Runs that are lived once as they are and then cut at their commits.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bowline_agent::entry::{CallStatus, Ending, Entry, EntryKind};
use bowline_agent::event::{Event, EventBody};
use bowline_agent::id::{AgentId, OpId};
use bowline_agent::journal::{Pos, Store as _};
use bowline_agent::tool::Recovery;
use bowline_agent::{Agent, Projection, Spent};
use bowline_llm::chat::{Codec, Dialect, Shapes};
use bowline_llm::scripted::{Reply, ScriptedModel};
use bowline_llm::wire::Codec as _;
use bowline_llm::{
    AssistantPart, CallId, Message, MessageRef, Model, ModelInfo, ModelStream, Part, Request,
    ToolResult,
};
use futures::FutureExt;

use super::crashing::{Clock, Crashing, Cut, Side, World};

/// A job that is the same in every life.
pub(crate) struct Scenario {
    pub(crate) prompts: &'static [&'static str],
    /// What the agents say, by their system text: each reply follows so many replies before it.
    pub(crate) scripts: Vec<(&'static str, Vec<Reply>)>,
    /// Adds tools, limits and a gate to the agent.
    pub(crate) build: fn(&Arc<World>, Agent) -> Agent,
}

/// How a life ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Finished,
    Crashed,
}

impl Scenario {
    /// Makes the model of a life: what it says depends on the request alone.
    pub(crate) fn model(&self, world: &Arc<World>) -> Speaker {
        let info = ModelInfo { provider: "p".into(), model: "m".into(), ..ModelInfo::default() };
        let scripts = self.scripts.iter().cloned().collect();
        Speaker { info, world: Arc::clone(world), scripts }
    }

    pub(crate) fn agent(&self, world: &Arc<World>, store: &Crashing) -> Agent {
        let model: Arc<dyn Model> = Arc::new(self.model(world));
        // If nothing was written yet, the next life is a new beginning with the same ids.
        let life = if world.log().is_empty() { 0 } else { world.life() };
        let agent = Agent {
            instructions: "root".into(),
            store: Arc::new(store.clone()),
            source: Arc::new(Clock::new(life as u64)),
            ..Agent::new(model)
        };
        (self.build)(world, agent)
    }

    /// Lives once, up to the end of the job or to the cut.
    pub(crate) fn live(&self, world: &Arc<World>, cut: Option<Cut>) -> End {
        self.live_for(world, cut, async |agent| work(agent, world, self.prompts).await)
    }

    /// Lives once, up to the end of some work or to the cut.
    pub(crate) fn live_for(
        &self,
        world: &Arc<World>,
        cut: Option<Cut>,
        work: impl AsyncFnOnce(&Agent),
    ) -> End {
        self.live_with(world, &Crashing::new(world, cut), work)
    }

    /// Lives once with a store.
    pub(crate) fn live_with(
        &self,
        world: &Arc<World>,
        store: &Crashing,
        work: impl AsyncFnOnce(&Agent),
    ) -> End {
        let agent = self.agent(world, store);
        let process = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        let end = process.block_on(async {
            tokio::select! {
                biased;
                () = store.death() => End::Crashed,
                () = work(&agent) => End::Finished,
                () = tokio::time::sleep(Duration::from_secs(10_000)) => {
                    panic!("it hangs after {:#?}", names(&world.log()))
                }
            }
        });
        drop((agent, process));
        world.life.fetch_add(1, Ordering::SeqCst);
        if !world.log().is_empty() {
            let opened = world.memory.open(World::session()).now_or_never().unwrap();
            assert!(opened.is_ok(), "the dead process still holds the session");
        }
        end
    }

    /// Lives once without a cut.
    pub(crate) fn uncut(&self) -> Arc<World> {
        let world = Arc::new(World::default());
        assert_eq!(self.live(&world, None), End::Finished);
        world
    }

    /// Lives with these cuts, one in each life, and then to the end; `None` if a life ended before
    /// its cut.
    pub(crate) fn cut(&self, cuts: &[Cut]) -> Option<Arc<World>> {
        let world = Arc::new(World::default());
        for cut in cuts {
            if self.live(&world, Some(*cut)) == End::Finished {
                return None;
            }
        }
        assert_eq!(self.live(&world, None), End::Finished);
        Some(world)
    }

    /// Cuts at every commit, before and after, and compares; returns the number of cuts.
    pub(crate) fn cut_everywhere(&self) -> usize {
        let uncut = self.uncut();
        let mut cuts = 0;
        for cut in every() {
            let Some(world) = self.cut(&[cut]) else { break };
            compare(&uncut, &world, &[cut]);
            cuts += 1;
        }
        assert!(cuts >= uncut.commits.lock().unwrap().len(), "only {cuts} cuts");
        cuts
    }

    /// Cuts at every `stride`th place, and each recovery at every commit; returns the number of
    /// pairs.
    pub(crate) fn cut_twice(&self, stride: usize) -> usize {
        let uncut = self.uncut();
        let mut cuts = 0;
        for first in every().step_by(stride) {
            let before = cuts;
            for second in every() {
                let Some(world) = self.cut(&[first, second]) else { break };
                compare(&uncut, &world, &[first, second]);
                cuts += 1;
            }
            if cuts == before {
                break;
            }
        }
        cuts
    }
}

/// A model that says what stands in a script after so many replies as there are in the request.
pub(crate) struct Speaker {
    info: ModelInfo,
    world: Arc<World>,
    scripts: HashMap<&'static str, Vec<Reply>>,
}

impl Model for Speaker {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn stream(&self, request: Request) -> ModelStream {
        self.world.requests.lock().unwrap().push((self.world.life(), request.clone()));
        let is_reply = |message: &&MessageRef| matches!(***message, Message::Assistant(_));
        let said = request.messages.iter().filter(is_reply).count();
        let reply = self.scripts[&*request.system].get(said);
        let reply = reply.unwrap_or_else(|| panic!("{} has no reply {said}", request.system));
        ScriptedModel::new([reply.clone()]).stream(request)
    }
}

/// Returns all places to cut, in order.
pub(crate) fn every() -> impl Iterator<Item = Cut> {
    (0..).flat_map(|commit| [Side::Before, Side::After].map(|side| Cut { commit, side }))
}

/// Goes on with what is there until all prompts are answered.
pub(crate) async fn work(agent: &Agent, world: &World, prompts: &[&str]) {
    let handle = if world.log().is_empty() {
        let missing = world.memory.open(World::session()).await;
        assert!(missing.is_err(), "a session without a commit");
        agent.start()
    } else {
        world.attend();
        agent.resume(World::session()).await.unwrap()
    };
    assert_eq!(handle.session_id(), World::session());
    loop {
        if handle.state().run.is_some() {
            let run = handle.continue_run().await.unwrap();
            run.unwrap().await.unwrap();
        }
        let root = handle.agent_id();
        let started = |entry: &&Entry| matches!(entry.kind, EntryKind::RunStarted(_));
        let runs = world.log_of(root).iter().filter(started).count();
        let Some(prompt) = prompts.get(runs) else { return };
        handle.prompt(*prompt).await.unwrap();
    }
}

/// Checks that a life in pieces came to the same as a life in one.
pub(crate) fn compare(uncut: &World, cut: &World, cuts: &[Cut]) {
    let compared = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        requests_are_equal(uncut, cut);
        entries_are_equal(uncut, cut);
        calls_ran_as_declared(cut);
        operations_are_delivered_once(cut);
        nothing_is_open(cut);
    }));
    if let Err(panic) = compared {
        let crashes = cut.crashes.lock().unwrap().clone();
        eprintln!("cut at {cuts:?}, with {crashes:?} entries in the log:");
        for (index, entry) in cut.log().iter().enumerate() {
            if crashes.contains(&index) {
                eprintln!("---- crash");
            }
            eprintln!("{}", serde_json::to_string(entry).unwrap());
        }
        std::panic::resume_unwind(panic);
    }
}

/// The requests of each agent as its wire encodes them, those repeated at a seam folded.
fn requests_are_equal(uncut: &World, cut: &World) {
    let masked = interrupted(&cut.log());
    let (expected, all) = (requests(uncut, &masked), requests(cut, &masked));
    assert_eq!(expected.keys().collect::<Vec<_>>(), all.keys().collect::<Vec<_>>(), "agents");
    let crashes = cut.crashes.lock().unwrap().len();
    for (agent, expected) in expected {
        let sent = &all[&agent];
        let folded: Vec<&String> = fold(sent);
        let expected_folded = fold(&expected);
        assert_eq!(expected_folded, folded, "requests of {agent}");
        let repeated = sent.len() - folded.len() - (expected.len() - expected_folded.len());
        // A model that is tried again is tried again in the next life, too.
        let attempts = if expected.len() > expected_folded.len() { 2 } else { 1 };
        assert!(repeated <= crashes * attempts, "{repeated} repeated requests of {agent}");
    }
}

fn fold(bodies: &[String]) -> Vec<&String> {
    let mut folded: Vec<&String> = bodies.iter().collect();
    folded.dedup();
    folded
}

/// Returns the bodies of each agent's requests, the results of some calls masked.
fn requests(world: &World, masked: &HashSet<CallId>) -> BTreeMap<String, Vec<String>> {
    let info = ModelInfo { provider: "p".into(), model: "m".into(), ..ModelInfo::default() };
    let dialect = Dialect { shapes: Shapes::Any, ..Dialect::of("http://127.0.0.1") };
    let codec = Codec::new(&info, dialect, true);
    let mut bodies: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (_, request) in world.requests.lock().unwrap().iter() {
        check_view(request);
        let messages = request.messages.iter().map(|message| mask(message, masked)).collect();
        let request = Request { messages, ..request.clone() };
        let body = String::from_utf8(codec.body(&request)).unwrap();
        let agent = request.cache_key.as_deref().unwrap_or_default().to_owned();
        bodies.entry(agent).or_default().push(body);
    }
    bodies
}

fn mask(message: &MessageRef, masked: &HashSet<CallId>) -> MessageRef {
    let Message::Results(results) = &**message else { return message.clone() };
    let mask = |result: &ToolResult| match masked.contains(&result.call) {
        true => ToolResult {
            content: Arc::new([Part::Text("masked".to_owned())]),
            is_error: true,
            ..result.clone()
        },
        false => result.clone(),
    };
    Message::Results(results.iter().map(mask).collect()).into()
}

/// Checks that every call has exactly one result, in call order, with nothing between them.
pub(crate) fn check_view(request: &Request) {
    let mut due: Option<Vec<CallId>> = None;
    let mut seen = HashSet::new();
    for message in &request.messages {
        match &**message {
            Message::Assistant(said) => {
                assert_eq!(due, None, "a reply before the results");
                assert!(!said.content.is_empty(), "an empty reply");
                let calls: Vec<CallId> = said.tool_calls().map(|call| call.id.clone()).collect();
                assert!(calls.iter().all(|call| seen.insert(call.clone())), "an id twice");
                due = (!calls.is_empty()).then_some(calls);
            }
            Message::Results(results) => {
                let calls = results.iter().map(|result| result.call.clone()).collect();
                assert_eq!(due.take(), Some(calls), "results that do not fit their calls");
                let mut parts = results.iter().flat_map(|result| result.content.iter());
                assert!(!parts.any(|part| matches!(part, Part::Stored(_))), "a body not fetched");
            }
            Message::User(said) => {
                assert_eq!(due, None, "a user message before the results");
                let mut parts = said.content.iter();
                assert!(!parts.any(|part| matches!(part, Part::Stored(_))), "a body not fetched");
            }
        }
    }
    assert_eq!(due, None, "calls without results");
    let last = request.messages.last().map(|message| &**message);
    assert!(!matches!(last, Some(Message::Assistant(_))), "a reply that nothing was said to");
}

/// Whether a call may have come to nothing because of a crash: it was unknown what became of it, or
/// it was running when the run was cancelled.
fn is_cut_off(status: CallStatus) -> bool {
    matches!(status, CallStatus::Interrupted | CallStatus::Canceled)
}

fn interrupted(log: &[Entry]) -> HashSet<CallId> {
    let ended = log.iter().filter_map(|entry| match &entry.kind {
        EntryKind::CallEnded(ended) if is_cut_off(ended.status) => Some(ended.call.clone()),
        _ => None,
    });
    ended.collect()
}

/// The same kinds of entries, the same ends, the same costs, for each agent.
fn entries_are_equal(uncut: &World, cut: &World) {
    let masked = interrupted(&cut.log());
    let crashed = cut.crashes.lock().unwrap().clone();
    assert_eq!(summary(&uncut.log(), &masked, &[]), summary(&cut.log(), &masked, &crashed));
}

/// What must not depend on where a life was cut.
#[derive(Debug, PartialEq, Default)]
struct Summary {
    name: String,
    kinds: BTreeMap<String, usize>,
    ends: Vec<(Ending, Spent)>,
    results: BTreeMap<CallId, String>,
}

fn summary(
    log: &[Entry],
    masked: &HashSet<CallId>,
    crashes: &[usize],
) -> BTreeMap<AgentId, Summary> {
    let mut summaries: BTreeMap<AgentId, Summary> = BTreeMap::new();
    // What a tool that runs again reports again is really spent again.
    let mut external: HashSet<CallId> = HashSet::new();
    let mut again: HashMap<AgentId, u64> = HashMap::new();
    let mut waits: HashMap<(AgentId, CallId), usize> = HashMap::new();
    for (index, entry) in log.iter().enumerate() {
        let summary = summaries.entry(entry.agent).or_default();
        let mut counts = true;
        match &entry.kind {
            EntryKind::Created(created) => summary.name.clone_from(&created.name),
            EntryKind::ExternalUsage(usage) => {
                counts = external.insert(usage.call.clone());
                if !counts {
                    assert!(crashes.iter().any(|crash| *crash <= index), "counted twice");
                    *again.entry(entry.agent).or_default() += usage.usage.input;
                }
            }
            EntryKind::RunEnded(ended) => {
                let mut spent = ended.spent;
                let more = again.remove(&entry.agent).unwrap_or_default();
                spent.usage.input -= more;
                spent.unpriced -= more;
                summary.ends.push((ended.outcome.clone(), spent));
            }
            EntryKind::CallEnded(ended) => {
                let text = match masked.contains(&ended.call) {
                    true => "masked".to_owned(),
                    false => format!("{} {:?}", ended.status.as_str(), ended.content),
                };
                let before = summary.results.insert(ended.call.clone(), text);
                assert_eq!(before, None, "{} ended twice", ended.call);
            }
            // Which of the calls that had seen a shared change wrote it, is nothing to anybody.
            EntryKind::Custom(custom) if custom.name == "shared" => counts = false,
            EntryKind::Custom(custom) => {
                counts = custom.call.as_ref().is_none_or(|call| !masked.contains(call));
            }
            // A call that waits for an agent waits again in the next life.
            EntryKind::CallWaiting(waiting) => {
                let nth = waits.entry((entry.agent, waiting.call.clone())).or_default();
                *nth += 1;
                counts = *nth == 1;
            }
            EntryKind::Woken(woken) => {
                let nth = waits.get(&(entry.agent, woken.call.clone()));
                counts = nth.is_some_and(|nth| *nth == 1);
            }
            // And is woken again, and starts again.
            EntryKind::CallStarted(started) => {
                let nth = waits.get(&(entry.agent, started.call.clone()));
                counts = nth.is_none_or(|nth| *nth == 1);
            }
            _ => {}
        }
        if counts {
            *summary.kinds.entry(entry.kind.name().to_owned()).or_default() += 1;
        }
    }
    // A call that was cut off has no records.
    if !masked.is_empty() {
        for summary in summaries.values_mut() {
            summary.kinds.remove("custom");
        }
    }
    summaries
}

/// Calls that had ended never run again, calls in flight are handled as their tools declare, and
/// calls that had not started had done nothing.
fn calls_ran_as_declared(cut: &World) {
    let log = cut.log();
    let runs = cut.runs.lock().unwrap();
    let recovery = cut.recovery.lock().unwrap();
    let statuses = log.iter().filter_map(|entry| match &entry.kind {
        EntryKind::CallEnded(ended) => Some(((entry.agent, ended.call.clone()), ended.status)),
        _ => None,
    });
    let statuses: HashMap<_, _> = statuses.collect();
    let mut expect_interrupted = HashSet::new();
    for (life, crash) in cut.crashes.lock().unwrap().iter().enumerate() {
        let (mut tools, mut states) = (HashMap::new(), HashMap::new());
        for entry in &log[..*crash] {
            let call = match &entry.kind {
                EntryKind::Assistant(said) => {
                    for call in said.message.tool_calls() {
                        tools.insert((entry.agent, call.id.clone()), call.name.clone());
                    }
                    continue;
                }
                EntryKind::StepTaken(taken) => {
                    let call = (entry.agent, taken.call.id.clone());
                    tools.insert(call, taken.call.name.clone());
                    continue;
                }
                EntryKind::CallStarted(started) => &started.call,
                EntryKind::CallWaiting(waiting) => &waiting.call,
                EntryKind::Decided(decided) => &decided.call,
                EntryKind::Answered(answered) => &answered.call,
                EntryKind::Woken(woken) => &woken.call,
                // Its tool runs again as long as its work goes on.
                EntryKind::CallEnded(ended) if ended.behind.is_some() => continue,
                EntryKind::CallEnded(ended) => &ended.call,
                EntryKind::BackgroundEnded(ended) => {
                    states.insert((entry.agent, ended.call.clone()), "call_ended");
                    continue;
                }
                _ => continue,
            };
            states.insert((entry.agent, call.clone()), entry.kind.name());
        }
        for ran in runs.iter() {
            let call = (ran.agent, ran.call.clone());
            match states.get(&call) {
                Some(&"call_ended") => {
                    assert!(ran.life <= life, "{} had ended and ran again", ran.call);
                }
                None => assert!(ran.life > life, "{} had not started but ran", ran.call),
                Some(_) => {}
            }
        }
        for (call, state) in states {
            if state == "call_started" && recovery.get(&tools[&call]) == Some(&Recovery::Unknown) {
                expect_interrupted.insert(call);
            }
        }
    }
    for (call, status) in &statuses {
        let is = status.as_str() == "interrupted";
        assert_eq!(is, expect_interrupted.contains(call), "{call:?} ended {status:?}");
    }
}

fn operations_are_delivered_once(cut: &World) {
    let mut delivered: HashMap<OpId, usize> = HashMap::new();
    for entry in without_copies(cut.log()) {
        let op = match &entry.kind {
            EntryKind::User(said) => said.op,
            EntryKind::Decided(decided) => decided.op,
            EntryKind::Answered(answered) => answered.op,
            EntryKind::Woken(woken) => woken.op,
            EntryKind::Canceled(canceled) => canceled.op,
            EntryKind::Posted(op) => {
                delivered.entry(op.id).or_default();
                None
            }
            _ => None,
        };
        if let Some(op) = op {
            *delivered.entry(op).or_default() += 1;
        }
    }
    assert!(delivered.values().all(|times| *times == 1), "{delivered:?}");
    let inbox = cut.memory.inbox(World::session()).take().now_or_never().unwrap().unwrap();
    assert_eq!(inbox, [], "left in the inbox");
}

/// Returns the entries that tell of what happened where they are.
fn without_copies(mut log: Vec<Entry>) -> Vec<Entry> {
    let mut copies: HashMap<AgentId, u64> = HashMap::new();
    log.retain(|entry| {
        let copied = copies.entry(entry.agent).or_default();
        if let EntryKind::Created(created) = &entry.kind {
            *copied = created.from.as_ref().map_or(0, |from| from.entries);
            return true;
        }
        let is_own = *copied == 0;
        *copied = copied.saturating_sub(1);
        is_own
    });
    log
}

fn nothing_is_open(cut: &World) {
    let mut open = HashSet::new();
    for entry in without_copies(cut.log()) {
        match &entry.kind {
            EntryKind::RunStarted(_) => assert!(open.insert(entry.agent), "two runs at once"),
            EntryKind::RunEnded(_) => assert!(open.remove(&entry.agent), "an end too many"),
            _ => {}
        }
    }
    assert_eq!(open, HashSet::new(), "runs left open");
}

/// Checks that the committed events of a session are those that its log tells.
pub(crate) fn check_events(events: &[Arc<Event>], world: &World) {
    let mut projection = Projection::new(World::session());
    let log = world.log();
    let entries = (0..).map(Pos).zip(&log);
    let expected = entries.flat_map(|(pos, entry)| projection.apply(pos, entry));
    // A turn begins before its entry is there.
    let is_live = |event: &Event| matches!(event.body, EventBody::TurnStart {});
    let expected: Vec<Event> = expected.filter(|event| !is_live(event)).collect();
    let committed = events.iter().filter(|event| event.pos.is_some());
    let committed: Vec<Event> = committed.map(|event| Event::clone(event)).collect();
    assert_eq!(committed, expected);
}

/// Returns what a log says, in short, to look at.
pub(crate) fn names(log: &[Entry]) -> Vec<String> {
    let name = |entry: &Entry| {
        let detail = match &entry.kind {
            EntryKind::Assistant(said) => {
                let calls = said.message.content.iter().filter_map(|part| match part {
                    AssistantPart::ToolCall(call) => Some(call.name.clone()),
                    _ => None,
                });
                calls.collect::<Vec<_>>().join(",")
            }
            EntryKind::CallEnded(ended) => format!("{} {}", ended.call, ended.status.as_str()),
            _ => String::new(),
        };
        format!("{} {} {detail}", entry.agent, entry.kind.name())
    };
    log.iter().map(name).collect()
}
