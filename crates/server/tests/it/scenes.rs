//! Sessions that are lived by script: the same ids, times and events whenever they are.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use bowline_agent::children::Child;
use bowline_agent::effect::{Compact, DynEffect};
use bowline_agent::entry::{Entry, Wake};
use bowline_agent::event::{Event, EventBody};
use bowline_agent::gate::{Gate, Review, Verdict};
use bowline_agent::id::Source;
use bowline_agent::journal::{Pos, Store as _};
use bowline_agent::limits::Limits;
use bowline_agent::op::Decision;
use bowline_agent::orchestrator::{Orchestrator, PlanExecute, React};
use bowline_agent::tool::{Access, ToolContext, ToolError, ToolOutput, Toolbox, Waked, tool_fn};
use bowline_agent::{Agent, Memory, OutputSchema, Run, SessionHandle};
use bowline_llm::retry::Policy;
use bowline_llm::scripted::{Reply, ScriptedModel};
use bowline_llm::{
    AssistantPart, CallId, ErrorKind, ModelError, ModelInfo, Price, Retry, StopReason, StreamEvent,
    Usage,
};
use futures::{FutureExt as _, StreamExt as _};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::Notify;

/// A session as it was lived, and its log.
pub(crate) struct Lived {
    pub(crate) name: &'static str,
    pub(crate) events: Vec<Arc<Event>>,
    pub(crate) log: Vec<(Pos, Entry)>,
}

/// Lives all sessions.
pub(crate) fn all() -> Vec<Lived> {
    vec![
        live("work", Stage::new(work()), async |play| play.run("Tidy up.").await),
        live("messages", Stage::new(messages()), async |play| play.run("Tell me.").await),
        live("two runs", Stage::new(two_runs()), async |play| {
            play.run("First.").await;
            play.run("Second.").await;
        }),
        live("follow up", Stage::new(follow_up()), async |play| play.run("First this.").await),
        live("decision", Stage { attended: true, ..Stage::new(decision()) }, async |play| {
            play.run("May you?").await;
        }),
        live("approval", Stage::new(decision()), async |play| play.run("May you?").await),
        live("question", Stage { attended: true, ..Stage::new(question()) }, async |play| {
            play.run("Ask me.").await;
        }),
        live("unanswered", Stage::new(question()), async |play| play.run("Ask me.").await),
        live("limit", Stage { model_turns: 1, ..Stage::new(limit()) }, async |play| {
            play.run("On and on.").await;
        }),
        live("cancel", Stage::new(cancel()), async |play| play.run("Wait.").await),
        live("sub-agents", Stage { inner: broken(), ..Stage::new(two_children()) }, async |play| {
            play.run("Share it.").await;
        }),
        live("compaction", Stage { window: 10_000, ..Stage::new(compaction()) }, async |play| {
            play.run("First.").await;
            play.run("Second.").await;
            let run = play.handle.compact(None);
            play.listen(run).await;
            play.run("Third.").await;
        }),
        live("shape", Stage { schema: Some(SCHEMA), ..Stage::new(shape()) }, async |play| {
            play.run("A number.").await;
            play.run("Another.").await;
        }),
        live("plan", Stage { plans: true, ..Stage::new(plan()) }, async |play| {
            play.run("Look twice.").await;
        }),
        live("error", Stage::new(error()), async |play| play.run("Hello?").await),
    ]
}

fn call(id: &str, name: &str, arguments: &Value) -> AssistantPart {
    let arguments = arguments.to_string();
    AssistantPart::ToolCall(bowline_llm::ToolCall {
        id: id.into(),
        name: name.to_owned(),
        arguments,
    })
}

fn usage(input: u64, output: u64) -> Usage {
    let (cache_read, cache_write) = (Some(input / 2), Some(input / 10));
    Usage { input, output, cache_read, cache_write, reasoning: Some(output / 2) }
}

/// Text, reasoning, calls side by side (one fails, one is denied), plans, a sub-agent, a retry and a
/// steer.
fn work() -> Vec<Reply> {
    let plan = |status: &str| json!({ "steps": [{ "step": "Tidy up", "status": status }] });
    vec![
        Reply::error(ModelError::new(ErrorKind::Overloaded, "try later"))
            .with_deltas([StreamEvent::TextDelta("I sh".to_owned())]),
        Reply::reasoning("Look first.")
            .and_text("I shall look.")
            .and(call("ls", "bash", &json!({ "command": "ls" })))
            .and(call("make", "bash", &json!({ "command": "make" })))
            .and(call("new", "write", &json!({ "path": "new.txt", "content": "x" })))
            .and(call("web", "fetch", &json!({ "url": "https://example.org" })))
            .with_usage(usage(100, 20)),
        Reply::message(bowline_llm::AssistantMessage::default())
            .and(call("plan1", "update_plan", &plan("in_progress")))
            .and(call("edit", "edit", &json!({ "path": "a.txt", "old_string": "a" })))
            .and(call("bad", "nothing", &json!([1])))
            .with_usage(usage(200, 20)),
        Reply::message(bowline_llm::AssistantMessage::default())
            .and(call("ask", "delegate", &json!({ "task": "Find it." })))
            .with_usage(usage(300, 20)),
        Reply::message(bowline_llm::AssistantMessage::default())
            .and(call("slow", "held", &json!({})))
            .and(call("late", "bash", &json!({ "command": "ls" })))
            .with_usage(usage(400, 20)),
        Reply::message(bowline_llm::AssistantMessage::default())
            .and(call("plan2", "update_plan", &plan("completed")))
            .with_usage(usage(500, 20)),
        Reply::text("All done.").with_usage(usage(600, 20)),
    ]
}

fn messages() -> Vec<Reply> {
    vec![
        Reply::text("Nobody reads this.")
            .and(call("said", "message", &json!({ "text": "Hello, Ada." })))
            .with_usage(usage(100, 10)),
        Reply::text("An aside.").with_usage(usage(110, 10)),
    ]
}

fn two_runs() -> Vec<Reply> {
    vec![
        Reply::text("One and a").with_stop(StopReason::MaxTokens).with_usage(usage(100, 10)),
        Reply::text(" half.").with_usage(usage(110, 10)),
        Reply::text("Two.").with_usage(usage(120, 10)),
    ]
}

/// A plan whose second step fails, and the plan after it.
fn plan() -> Vec<Reply> {
    let step = |tool: &str| json!({ "tool": tool, "args": { "path": "a.txt" } });
    let plan = |steps: &[Value]| {
        Reply::text(json!({ "steps": steps }).to_string()).with_usage(usage(100, 10))
    };
    vec![
        plan(&[step("read"), step("peek"), step("read")]),
        plan(&[step("read")]),
        Reply::text("Seen twice.").with_usage(usage(120, 10)),
    ]
}

fn follow_up() -> Vec<Reply> {
    vec![
        Reply::message(bowline_llm::AssistantMessage::default())
            .and(call("then", "held", &json!({})))
            .with_usage(usage(100, 10)),
        Reply::text("This.").with_usage(usage(110, 10)),
        Reply::text("That.").with_usage(usage(120, 10)),
    ]
}

fn decision() -> Vec<Reply> {
    vec![
        Reply::call("bash", r#"{"command":"ask first"}"#).with_usage(usage(100, 10)),
        Reply::text("Thank you.").with_usage(usage(110, 10)),
    ]
}

/// A question that is answered, and a command that a person forbids.
fn question() -> Vec<Reply> {
    let asks = json!({ "question": "Which one?", "options": ["this", "that"] });
    vec![
        Reply::message(bowline_llm::AssistantMessage::default())
            .and(call("which", "ask_user", &asks))
            .with_usage(usage(100, 10)),
        Reply::message(bowline_llm::AssistantMessage::default())
            .and(call("forbidden", "bash", &json!({ "command": "ask first" })))
            .with_usage(usage(110, 10)),
        Reply::text("That it is.").with_usage(usage(120, 10)),
    ]
}

fn limit() -> Vec<Reply> {
    vec![
        Reply::call("bash", r#"{"command":"ls"}"#).with_usage(usage(100, 10)),
        Reply::text("This is how far I got.").with_usage(usage(110, 10)),
    ]
}

fn cancel() -> Vec<Reply> {
    vec![Reply::text("I wait.").and(call("stop", "held", &json!({}))).with_usage(usage(100, 10))]
}

fn error() -> Vec<Reply> {
    vec![Reply::error(ModelError::new(ErrorKind::Auth, "the key is wrong"))]
}

/// Long answers, whose beginning a summary stands for, and which is no answer.
fn compaction() -> Vec<Reply> {
    let long = || Reply::text("A long answer. ".repeat(40)).with_usage(usage(100, 10));
    vec![long(), long(), Reply::text("## Done").with_usage(usage(50, 5)), Reply::text("Short.")]
}

const SCHEMA: &str = r#"{"type":"integer"}"#;

/// One answer is mended, one is not.
fn shape() -> Vec<Reply> {
    let says = |text: &str| Reply::text(text).with_usage(usage(100, 10));
    vec![says("seven"), says("7"), says("eight"), says("ate")]
}

fn two_children() -> Vec<Reply> {
    let ask = |id: &str| {
        Reply::message(bowline_llm::AssistantMessage::default())
            .and(call(id, "delegate", &json!({ "task": "Do it." })))
            .with_usage(usage(100, 10))
    };
    vec![ask("first"), ask("second")]
}

/// One sub-agent fails, and one is at work when the run is canceled.
fn broken() -> Vec<Reply> {
    let held = Reply::message(bowline_llm::AssistantMessage::default())
        .and(call("stop", "held", &json!({})))
        .with_usage(usage(50, 5));
    vec![Reply::error(ModelError::new(ErrorKind::Refused, "not this")), held]
}

/// What a sub-agent says.
fn child() -> Vec<Reply> {
    vec![
        Reply::text("I look.")
            .and(call("read", "read", &json!({ "path": "a.txt" })))
            .with_usage(usage(50, 5)),
        Reply::reasoning("There.").and_text("It is in a.txt.").with_usage(usage(60, 5)),
    ]
}

/// What there is to live in.
struct Stage {
    replies: Vec<Reply>,
    inner: Vec<Reply>,
    attended: bool,
    model_turns: u32,
    window: u64,
    schema: Option<&'static str>,
    plans: bool,
}

impl Stage {
    fn new(replies: Vec<Reply>) -> Self {
        Self {
            replies,
            inner: child(),
            attended: false,
            model_turns: 0,
            window: 0,
            schema: None,
            plans: false,
        }
    }
}

/// A session that is being lived.
struct Play {
    handle: SessionHandle,
    events: Vec<Arc<Event>>,
    latch: Arc<Notify>,
    is_attended: bool,
}

impl Play {
    async fn run(&mut self, prompt: &str) {
        self.listen(self.handle.prompt(prompt)).await;
    }

    async fn listen(&mut self, mut run: Run) {
        while let Some(event) = run.next().await {
            self.hear(&event).await;
            self.events.push(event);
        }
    }

    /// Does what happens from outside, always after the same event.
    async fn hear(&self, event: &Event) {
        let call = event.call_id.as_ref().map(CallId::as_str);
        match (&event.body, call) {
            (EventBody::ToolStart { .. }, Some("slow")) => {
                self.handle.steer("Leave the rest.").await.unwrap();
                self.latch.notify_one();
            }
            (EventBody::ToolStart { .. }, Some("then")) => {
                self.handle.follow_up("Then that.").await.unwrap();
                self.latch.notify_one();
            }
            (EventBody::ToolStart { .. }, Some("stop")) => self.handle.cancel(),
            (EventBody::Question { .. }, Some(call)) if self.is_attended => {
                self.handle.answer(call.into(), "that".to_owned()).await.unwrap();
            }
            (EventBody::PermissionRequest { .. }, Some("forbidden")) if self.is_attended => {
                let reason = "not today".to_owned();
                self.handle.decide("forbidden".into(), Decision::Deny { reason }).await.unwrap();
            }
            (EventBody::PermissionRequest { .. }, Some(call)) if self.is_attended => {
                self.handle.decide(call.into(), Decision::ONCE).await.unwrap();
            }
            _ => {}
        }
    }
}

fn live(name: &'static str, stage: Stage, script: impl AsyncFnOnce(&mut Play)) -> Lived {
    let process = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    process.block_on(async {
        let (memory, latch) = (Memory::default(), Arc::new(Notify::new()));
        let attended = stage.attended;
        let agent = agent(stage, &memory, &latch);
        let handle = agent.start();
        let id = handle.session_id();
        let mut play = Play { handle, events: Vec::new(), latch, is_attended: attended };
        script(&mut play).await;
        let Play { handle, events, .. } = play;
        handle.close().await;
        drop((handle, agent));
        let log = memory.open(id).await.unwrap().read(Pos(0)).await.unwrap();
        Lived { name, events, log }
    })
}

fn model(replies: Vec<Reply>) -> Retry<ScriptedModel> {
    let price = Price { input: 1.0, output: 10.0, cache_read: None, cache_write: None, long: None };
    let info = ModelInfo {
        provider: "acme".to_owned(),
        model: "one".to_owned(),
        price: Some(price),
        ..ModelInfo::default()
    };
    Retry::with_random(ScriptedModel::new(replies).with_info(info), Policy::default(), || 0)
}

fn agent(stage: Stage, memory: &Memory, latch: &Arc<Notify>) -> Agent {
    let inner = Agent {
        name: "scout".to_owned(),
        tools: Toolbox::default().with(read()).unwrap().with(held(latch)).unwrap(),
        ..Agent::new(Arc::new(model(stage.inner)))
    };
    let limits = Limits { model_turns: stage.model_turns, ..Limits::default() };
    let compact = Compact {
        context_window: stage.window,
        keep_turns: 1,
        keep_recent_tokens: 0,
        ..Compact::default()
    };
    let effects: Vec<Arc<dyn DynEffect>> =
        if stage.window > 0 { vec![Arc::new(compact)] } else { Vec::new() };
    let orchestrator: Arc<dyn Orchestrator> = match stage.plans {
        true => Arc::new(PlanExecute::default()),
        false => Arc::new(React),
    };
    Agent {
        name: "root".to_owned(),
        orchestrator,
        effects,
        output_schema: stage.schema.map(|schema| OutputSchema::parse(schema).unwrap()),
        cwd: Some("/work".to_owned()),
        tools: tools(inner, latch),
        gate: Arc::new(Law),
        attended: stage.attended,
        store: Arc::new(memory.clone()),
        source: Arc::new(Clock(AtomicU64::new(0))),
        limits,
        ..Agent::new(Arc::new(model(stage.replies)))
    }
}

/// Denies what would leave the machine, and asks about commands that say so.
struct Law;

#[async_trait]
impl Gate for Law {
    async fn review(&self, review: &Review<'_>) -> Verdict {
        if review.call.name == "fetch" {
            return Verdict::Deny { reason: "not allowed here".to_owned() };
        }
        match (review.call.arguments.contains("ask first"), review.decision) {
            (true, None) => Verdict::Wait { question: "Run it?".to_owned(), rule: None },
            (true, Some(Decision::Allow { .. })) | (false, _) => Verdict::Allow { rule: None },
            (true, Some(Decision::Deny { reason })) => Verdict::Deny { reason: reason.clone() },
        }
    }
}

/// Ids and times that are the same in every life.
struct Clock(AtomicU64);

impl Source for Clock {
    fn id(&self) -> uuid::Uuid {
        uuid::Uuid::from_u128((1 << 120) + u128::from(self.0.fetch_add(1, Ordering::SeqCst)))
    }

    fn now(&self) -> Timestamp {
        let ms = i64::try_from(self.0.load(Ordering::SeqCst)).unwrap();
        Timestamp::from_millisecond(1_800_000_000_000 + ms).unwrap()
    }
}

#[derive(serde::Deserialize, bowline_agent::schemars::JsonSchema)]
#[schemars(crate = "bowline_agent::schemars")]
struct Input {
    #[serde(default)]
    command: String,
    #[serde(default)]
    task: String,
    #[serde(default)]
    text: String,
    #[serde(default)]
    question: String,
    #[serde(default)]
    options: Vec<String>,
    #[serde(default)]
    steps: Value,
}

fn read() -> impl bowline_agent::tool::DynTool + 'static {
    tool_fn("read", "Reads.", async |_: Input, _: ToolContext| Ok("a\nb".into()))
        .with_access(Access::none())
}

fn held(latch: &Arc<Notify>) -> impl bowline_agent::tool::DynTool + 'static {
    let latch = Arc::clone(latch);
    tool_fn("held", "Waits.", move |_: Input, _: ToolContext| {
        let latch = Arc::clone(&latch);
        async move {
            latch.notified().await;
            Ok("waited".into())
        }
    })
}

fn tools(inner: Agent, latch: &Arc<Notify>) -> Toolbox {
    let bash = tool_fn("bash", "Runs.", async |input: Input, cx: ToolContext| {
        cx.output("at work\n");
        match input.command.as_str() {
            "make" => Ok("no rule\n[exit code 2]\n[took 31 s]".into()),
            _ => Ok("a.txt\n".into()),
        }
    });
    let write = tool_fn("write", "Writes.", async |_: Input, _: ToolContext| {
        Err(ToolError::failed("the disk is full"))
    });
    let edit =
        tool_fn("edit", "Edits.", async |_: Input, _: ToolContext| Ok("edited a.txt".into()));
    let fetch = tool_fn("fetch", "Fetches.", async |_: Input, _: ToolContext| Ok("".into()));
    let plan = tool_fn("update_plan", "Plans.", async |input: Input, cx: ToolContext| {
        cx.record("plan", &json!({ "steps": input.steps }))?;
        Ok("noted".into())
    });
    let message = tool_fn("message", "Says.", async |input: Input, cx: ToolContext| {
        cx.record("message", &json!({ "text": input.text }))?;
        cx.output(input.text);
        Ok("message sent".into())
    });
    let delegate = tool_fn("delegate", "Delegates.", move |input: Input, cx: ToolContext| {
        let child = Child { label: Some("🔎".to_owned()), ..Child::new(inner.clone()) };
        async move {
            let failed = |error: bowline_agent::AgentError| ToolError::failed(error.to_string());
            let child = cx.children.create(child).await.map_err(failed)?;
            Ok(child.prompt(input.task).await.map_err(failed)?.text().into())
        }
        .boxed()
    });
    let ask = tool_fn("ask_user", "Asks.", async |input: Input, cx: ToolContext| match cx.wake {
        Some(Waked::Answered(answer)) => Ok(answer.into()),
        _ => Ok(ToolOutput::Waiting(Wake::Answer {
            question: input.question,
            options: input.options,
        })),
    });
    let all = Toolbox::default().with(bash).unwrap().with(write).unwrap().with(edit).unwrap();
    let all = all.with(fetch).unwrap().with(plan).unwrap().with(message).unwrap();
    all.with(held(latch)).unwrap().with(delegate).unwrap().with(read()).unwrap().with(ask).unwrap()
}
