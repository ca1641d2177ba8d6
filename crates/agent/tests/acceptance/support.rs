//! What the acceptance tests share: a stage to play a script on, event streams as short lines, and
//! the invariants that every run keeps.

use std::sync::{Arc, Mutex, Weak};

use async_trait::async_trait;
use bowline_agent::entry::{Ending, Entry};
use bowline_agent::event::{Event, EventBody, Phase};
use bowline_agent::id::{AgentId, EntryId, OpId, SessionId, Source as _, SystemSource};
use bowline_agent::journal::{Blobs, Inbox, JournalError, Pos, Seq, SessionLog, Store};
use bowline_agent::op::{Decision, Op, OpKind};
use bowline_agent::tool::{
    Access, DynTool, FunctionTool, ToolContext, ToolError, ToolOutput, Toolbox, tool_fn,
};
use bowline_agent::{Agent, AgentError, Memory, Outcome, Projection, Run, SessionHandle};
use bowline_llm::scripted::{Gate, Reply};
use bowline_llm::{
    AssistantPart, Message, MessageRef, Model, ModelInfo, ModelStream, Part, Request,
    ScriptedModel, Usage, text_of,
};
use futures::StreamExt;
use tokio::sync::watch;

use crate::invariants;

/// The arguments of most tools here.
#[derive(Debug, serde::Deserialize, schemars::JsonSchema)]
pub(crate) struct Text {
    #[serde(default)]
    pub(crate) text: String,
}

/// Makes a tool that touches nothing, so that it may overlap with everything.
pub(crate) fn tool<F, R>(name: &str, run: F) -> FunctionTool<Text, F>
where
    F: Fn(Text, ToolContext) -> R + Send + Sync + 'static,
    R: Future<Output = Result<ToolOutput, ToolError>> + Send + 'static,
{
    tool_fn(name, "A tool.", run).with_access(Access::none())
}

/// Makes a tool that gives back its text.
pub(crate) fn echo() -> impl DynTool + 'static {
    tool("echo", |input, _| async move { Ok(input.text.into()) })
}

/// A model that holds every request against the law: each call has exactly one result, right after
/// the reply that made it.
#[derive(Debug)]
pub(crate) struct Checked(pub(crate) ScriptedModel);

impl Model for Checked {
    fn info(&self) -> &ModelInfo {
        self.0.info()
    }

    fn stream(&self, request: Request) -> ModelStream {
        invariants::check_request(&request);
        self.0.stream(request)
    }
}

/// An agent with the script that its model plays.
#[derive(Debug, Clone)]
pub(crate) struct Stage {
    pub(crate) model: ScriptedModel,
    pub(crate) agent: Agent,
}

pub(crate) fn stage(replies: impl IntoIterator<Item = Reply>) -> Stage {
    stage_for(ScriptedModel::new(replies))
}

pub(crate) fn stage_for(model: ScriptedModel) -> Stage {
    let agent = Agent {
        name: "root".to_owned(),
        instructions: "Be brief.".into(),
        store: Arc::new(Shelf::default()),
        ..Agent::new(Arc::new(Checked(model.clone())))
    };
    Stage { model, agent }
}

impl Stage {
    pub(crate) fn with(mut self, tool: impl DynTool + 'static) -> Self {
        self.agent.tools.add(Arc::new(tool)).unwrap();
        self
    }

    pub(crate) fn change(mut self, change: impl FnOnce(&mut Agent)) -> Self {
        change(&mut self.agent);
        self
    }

    pub(crate) fn start(&self) -> SessionHandle {
        self.agent.start()
    }

    /// Plays the script in a session of its own, for the prompt "go".
    pub(crate) async fn play(&self) -> Told {
        hear(self.agent.prompt("go")).await
    }

    /// Returns what the model was asked with, request by request.
    pub(crate) fn asked(&self) -> Vec<Vec<String>> {
        let requests = self.model.requests();
        requests.iter().map(|request| lines_of(request.messages.iter())).collect()
    }
}

/// Makes an agent like another one, with a script of its own.
pub(crate) fn like(
    agent: &Agent,
    name: &str,
    replies: impl IntoIterator<Item = Reply>,
) -> (ScriptedModel, Agent) {
    let model = ScriptedModel::new(replies);
    let agent = Agent {
        name: name.to_owned(),
        model: Arc::new(Checked(model.clone())),
        tools: Toolbox::default(),
        ..agent.clone()
    };
    (model, agent)
}

/// What a run told, from its first event to its last.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) events: Vec<Arc<Event>>,
    pub(crate) outcome: Result<Outcome, AgentError>,
}

/// Listens to a run to its end and holds what it hears against the invariants.
pub(crate) async fn hear(run: Run) -> Told {
    hear_with(run, Usage::default()).await
}

/// As [`hear`], for a run whose tools report usage of their own.
pub(crate) async fn hear_with(mut run: Run, external: Usage) -> Told {
    let handle = run.handle().clone();
    let mut events = Vec::new();
    while let Some(event) = run.next().await {
        events.push(event);
    }
    let outcome = run.await;
    invariants::check(&events, external);
    if outcome.is_ok() {
        invariants::check_log(&events, &handle).await;
    }
    Told { events, outcome }
}

impl Told {
    /// Returns all events but deltas and phases.
    pub(crate) fn lines(&self) -> Vec<String> {
        lines(&self.events, |body| !is_delta(body) && !matches!(body, EventBody::Status { .. }))
    }

    /// Returns the events of tool calls, results included.
    pub(crate) fn call_lines(&self) -> Vec<String> {
        lines(&self.events, |body| {
            matches!(
                body,
                EventBody::ToolCall { .. }
                    | EventBody::ToolStart { .. }
                    | EventBody::ToolOutput { .. }
                    | EventBody::ToolEnd { .. }
            )
        })
    }

    /// Returns how the calls of the root ended, in the order in which they did.
    pub(crate) fn ends(&self) -> Vec<String> {
        lines(&self.events, |body| matches!(body, EventBody::ToolEnd { .. }))
    }

    pub(crate) fn ending(&self) -> Ending {
        self.outcome.as_ref().unwrap().ending.clone()
    }

    pub(crate) fn text(&self) -> String {
        self.outcome.as_ref().unwrap().text()
    }

    pub(crate) fn usage(&self) -> Usage {
        self.outcome.as_ref().unwrap().spent.usage
    }

    /// Returns the content of the ends of calls, by call.
    pub(crate) fn result(&self, call: &str) -> String {
        let root = self.events[0].agent.id;
        let ended = self.events.iter().find_map(|event| match &event.body {
            EventBody::ToolEnd { content, .. }
                if event.agent.id == root
                    && event.call_id.as_ref().is_some_and(|id| id.as_str() == call) =>
            {
                Some(text_of(content))
            }
            _ => None,
        });
        ended.unwrap_or_else(|| panic!("{call} has not ended"))
    }
}

pub(crate) fn is_delta(body: &EventBody) -> bool {
    matches!(
        body,
        EventBody::TextDelta { .. }
            | EventBody::ReasoningDelta { .. }
            | EventBody::ToolCallDelta { .. }
    )
}

/// Writes events as short lines, those of sub-agents under their names, operations numbered.
pub(crate) fn lines(events: &[Arc<Event>], wanted: impl Fn(&EventBody) -> bool) -> Vec<String> {
    let root = events.first().map(|event| event.agent.id);
    let mut ops = Vec::new();
    let events = events.iter().filter(|event| wanted(&event.body));
    events.map(|event| line(event, root, &mut ops)).collect()
}

fn line(event: &Event, root: Option<AgentId>, ops: &mut Vec<OpId>) -> String {
    let mut number = |op: OpId| match ops.iter().position(|known| *known == op) {
        Some(index) => index + 1,
        None => {
            ops.push(op);
            ops.len()
        }
    };
    let call = event.call_id.as_ref().map(|id| id.to_string()).unwrap_or_default();
    let said = match &event.body {
        EventBody::AgentStart { call } => format!("agent_start({call})"),
        EventBody::AgentEnd { outcome, .. } => {
            format!("agent_end({})", outcome.as_ref().map_or("none", Ending::as_str))
        }
        EventBody::RunStart { .. } => "run_start".to_owned(),
        EventBody::TurnStart {} => "turn_start".to_owned(),
        EventBody::TextDelta { text } => format!("text_delta({text:?})"),
        EventBody::TextReset {} => "text_reset".to_owned(),
        EventBody::Text { text, finalizing: true } => format!("text({text:?}, final)"),
        EventBody::Text { text, finalizing: false } => format!("text({text:?})"),
        EventBody::ReasoningDelta { text } => format!("reasoning_delta({text:?})"),
        EventBody::Reasoning { text } => format!("reasoning({text:?})"),
        EventBody::ToolCallDelta { index, .. } => format!("tool_call_delta({index})"),
        EventBody::ToolCall { name, .. } => format!("tool_call({call}, {name})"),
        EventBody::ToolStart { arguments: None, .. } => format!("tool_start({call})"),
        EventBody::ToolStart { arguments: Some(arguments), .. } => {
            format!("tool_start({call}, {arguments})")
        }
        EventBody::ToolOutput { text, .. } => format!("tool_output({call}, {text:?})"),
        EventBody::ToolEnd { status, .. } => format!("tool_end({call}, {})", status.as_str()),
        EventBody::MessageAdded { message } => format!("added({})", message_line(message)),
        EventBody::TurnEnd { finish, .. } => format!("turn_end({})", word(finish)),
        EventBody::Queued { kind, id } => format!("queued({kind}, {})", number(*id)),
        EventBody::Delivered { id } => format!("delivered({})", number(*id)),
        EventBody::PlanCreated { steps, .. } => {
            let steps = steps.iter().map(|step| format!(" {}", step.tool)).collect::<String>();
            format!("plan_created({})", steps.trim_start())
        }
        EventBody::PlanStepStart { index, count, tool, args } => {
            format!("plan_step_start({call}, {index} of {count}, {tool} {})", args.as_str())
        }
        EventBody::PlanStepEnd { index, count, tool, status } => {
            format!("plan_step_end({call}, {index} of {count}, {tool}, {})", status.as_str())
        }
        EventBody::PermissionRequest { question, .. } => {
            format!("permission_request({call}, {question:?})")
        }
        EventBody::PermissionDecision { decision, .. } => match decision {
            Decision::Allow { .. } => format!("permission_decision({call}, allow)"),
            Decision::Deny { reason } => format!("permission_decision({call}, deny {reason:?})"),
        },
        EventBody::Question { question, .. } => format!("question({call}, {question:?})"),
        EventBody::Answer { text, .. } => format!("answer({call}, {text:?})"),
        EventBody::LimitHit { limit } => format!("limit_hit({})", limit.as_str()),
        EventBody::Retry { attempt, reason, .. } => format!("retry({attempt}, {reason:?})"),
        EventBody::Status { phase } => format!("status({})", word(phase)),
        EventBody::Warning { message } => format!("warning({message:?})"),
        EventBody::Effect { effect, act } => format!("effect({effect} {act})"),
        EventBody::CompactionStart { effect, .. } => format!("compaction_start({effect})"),
        EventBody::CompactionEnd { effect, done, .. } => format!("compaction_end({effect} {done})"),
        EventBody::CacheBreak { reason, .. } => format!("cache_break({reason})"),
        EventBody::Custom { name, data } => format!("custom({name}, {data:?})"),
        EventBody::Gap { missed, .. } => format!("gap({missed})"),
        EventBody::RunEnd(end) => match &end.outcome {
            Ending::Done => "run_end(done)".to_owned(),
            Ending::Failed(error) => format!("run_end(error: {error})"),
            Ending::Canceled(reason) => format!("run_end(canceled by {})", word(reason)),
            Ending::Limit(limit) => format!("run_end(limit {})", limit.as_str()),
            Ending::NeedsApproval => "run_end(needs approval)".to_owned(),
        },
        EventBody::Rejected { error } => format!("rejected({error})"),
        EventBody::RunLost { error } => format!("run_lost({error})"),
    };
    if Some(event.agent.id) == root { said } else { format!("{}: {said}", event.agent.name) }
}

fn word(value: &impl serde::Serialize) -> String {
    match serde_json::to_value(value).unwrap() {
        serde_json::Value::String(word) => word,
        other => other.to_string(),
    }
}

/// Writes messages as short lines.
pub(crate) fn lines_of<'a>(messages: impl IntoIterator<Item = &'a MessageRef>) -> Vec<String> {
    messages.into_iter().map(|message| message_line(message)).collect()
}

/// Returns what a model would see now, as short lines.
pub(crate) fn conversation(handle: &SessionHandle) -> Vec<String> {
    lines_of(handle.messages().iter())
}

fn message_line(message: &Message) -> String {
    match message {
        Message::User(said) => format!("user {:?}", short(&said.content)),
        Message::Assistant(said) => {
            let parts = said.content.iter().map(|part| match part {
                AssistantPart::Text(text) => format!(" {text:?}"),
                AssistantPart::Reasoning(reasoning) => format!(" <{}>", reasoning.text),
                AssistantPart::ToolCall(call) => format!(" {}={}", call.id, call.name),
                AssistantPart::Opaque(_) => " opaque".to_owned(),
            });
            format!("assistant{}", parts.collect::<String>())
        }
        Message::Results(results) => {
            let results = results.iter().map(|result| {
                let mark = if result.is_error { "!" } else { "" };
                format!(" {}{mark}={:?}", result.call, short(&result.content))
            });
            format!("results{}", results.collect::<String>())
        }
    }
}

fn short(parts: &[Part]) -> String {
    let text = text_of(parts);
    match text.char_indices().nth(60) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

pub(crate) fn usage(input: u64, output: u64) -> Usage {
    Usage { input, output, ..Usage::default() }
}

/// Holds a tool until a test lets it go on.
#[derive(Debug, Clone)]
pub(crate) struct Latch(Arc<watch::Sender<(usize, bool)>>);

impl Default for Latch {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new((0, false))))
    }
}

impl Latch {
    /// Waits until somebody stands at the latch.
    pub(crate) async fn reached(&self) {
        self.reached_by(1).await;
    }

    /// Waits until so many have come to the latch.
    pub(crate) async fn reached_by(&self, wanted: usize) {
        self.0.subscribe().wait_for(|(reached, _)| *reached >= wanted).await.unwrap();
    }

    pub(crate) fn open(&self) {
        self.0.send_modify(|(_, is_open)| *is_open = true);
    }

    pub(crate) async fn pass(&self) {
        self.0.send_modify(|(reached, _)| *reached += 1);
        self.0.subscribe().wait_for(|(_, is_open)| *is_open).await.unwrap();
    }
}

/// Makes a tool that says its text when its latch is opened.
pub(crate) fn held(
    name: &str,
    latch: &Latch,
) -> FunctionTool<
    Text,
    impl Fn(Text, ToolContext) -> futures::future::BoxFuture<'static, Result<ToolOutput, ToolError>>
    + Send
    + Sync
    + 'static,
> {
    let latch = latch.clone();
    tool(name, move |input, _| {
        let latch = latch.clone();
        Box::pin(async move {
            latch.pass().await;
            Ok(input.text.into())
        }) as futures::future::BoxFuture<'static, _>
    })
}

type Known = (SessionId, Memory, Weak<dyn SessionLog>);

static LOGS: Mutex<Vec<Known>> = Mutex::new(Vec::new());

/// A memory whose logs a test may read while they are in use.
#[derive(Debug, Default)]
pub(crate) struct Shelf(Memory);

/// Reads the log of a session that lives on a [`Shelf`].
pub(crate) async fn log_of(session: SessionId) -> Vec<(Pos, Entry)> {
    let (memory, log) = {
        let logs = LOGS.lock().unwrap();
        let known = logs.iter().rev().find(|(id, ..)| *id == session);
        let (_, memory, log) = known.expect("the session is on a shelf");
        (memory.clone(), log.upgrade())
    };
    let log = match log {
        Some(log) => log,
        None => memory.open(session).await.unwrap(),
    };
    log.read(Pos(0)).await.unwrap()
}

fn keep(id: SessionId, memory: &Memory, log: &Arc<dyn SessionLog>) {
    LOGS.lock().unwrap().push((id, memory.clone(), Arc::downgrade(log)));
}

#[async_trait]
impl Store for Shelf {
    fn create(&self, id: SessionId) -> Arc<dyn SessionLog> {
        let log = self.0.create(id);
        keep(id, &self.0, &log);
        log
    }

    async fn open(&self, id: SessionId) -> Result<Arc<dyn SessionLog>, JournalError> {
        let log = self.0.open(id).await?;
        keep(id, &self.0, &log);
        Ok(log)
    }

    fn inbox(&self, id: SessionId) -> Arc<dyn Inbox> {
        self.0.inbox(id)
    }

    fn blobs(&self, id: SessionId) -> Arc<dyn Blobs> {
        self.0.blobs(id)
    }
}

/// Makes an agent whose store has the log of a session as it was after the first entry that is
/// wanted, as if its process had died there.
pub(crate) async fn crashed(
    agent: &Agent,
    session: SessionId,
    mut last: impl FnMut(&Entry) -> bool,
) -> Agent {
    let log = log_of(session).await;
    let end = log.iter().position(|(_, entry)| last(entry)).expect("it is in the log");
    let shelf = Shelf::default();
    let cut = shelf.create(session);
    let mut seqs = std::collections::HashMap::new();
    for (_, entry) in &log[..=end] {
        let seq: &mut Seq = seqs.entry(entry.agent).or_default();
        cut.journal(entry.agent).append(*seq, std::slice::from_ref(entry)).await.unwrap();
        seq.0 += 1;
    }
    drop(cut);
    Agent { store: Arc::new(shelf), ..agent.clone() }
}

/// Returns the kinds of a log's entries.
pub(crate) fn kinds(log: &[(Pos, Entry)]) -> Vec<&str> {
    log.iter().map(|(_, entry)| entry.kind.name()).collect()
}

/// Projects a log as a late reader does.
pub(crate) fn project(session: SessionId, log: &[(Pos, Entry)]) -> Vec<Event> {
    let mut projection = Projection::new(session);
    log.iter().flat_map(|(pos, entry)| projection.apply(*pos, entry)).collect()
}

/// Makes an operation, to be posted.
pub(crate) fn op(kind: OpKind) -> Op {
    Op { id: OpId::new(&SystemSource), to: None, at: SystemSource.now(), kind }
}

/// A stage whose first reply stands at the gate.
pub(crate) fn at_gate(first: Reply, rest: impl IntoIterator<Item = Reply>) -> (Stage, Gate) {
    let gate = Gate::default();
    let replies = std::iter::once(first.held_by(&gate)).chain(rest);
    (stage(replies.collect::<Vec<_>>()), gate)
}

/// Returns what was asked, decided and answered, and which calls started and ended.
pub(crate) fn waits(told: &Told) -> Vec<String> {
    lines(&told.events, |body| {
        matches!(
            body,
            EventBody::PermissionRequest { .. }
                | EventBody::PermissionDecision { .. }
                | EventBody::Question { .. }
                | EventBody::Answer { .. }
                | EventBody::ToolStart { .. }
                | EventBody::ToolEnd { .. }
        )
    })
}

/// Returns the entry of the wait that is open.
pub(crate) fn waiting(handle: &SessionHandle) -> EntryId {
    handle.state().waiting_calls[0].1.entry
}

/// Waits until nothing goes on without somebody else.
pub(crate) async fn until_waiting(handle: &SessionHandle) {
    handle.wait_for(|state| state.phase == Phase::Waiting).await.unwrap();
}
