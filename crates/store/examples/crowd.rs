//! Measures a crowd: a thousand sub-agents of one call, each of which makes twenty model calls and
//! has a tool called in all but the last. The model takes 50 ms for an answer and costs nothing.
//!
//! ```text
//! cargo run --release -p bowline-store --example crowd [-- AGENTS TURNS]
//! ```
//!
//! Each row is a process of its own, so that none has the memory of another. It fails if usage does
//! not add up, or if a task or a descriptor is left.

#![allow(clippy::print_stdout, reason = "an example talks to its reader")]

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bowline_agent::children::Child;
use bowline_agent::crew::{Card, Member, Registry, Spawn};
use bowline_agent::journal::Store;
use bowline_agent::limits::Limits;
use bowline_agent::tool::{Access, DynTool, ToolContext, ToolError, Toolbox, tool_fn};
use bowline_agent::{Agent, AgentError, Memory};
use bowline_llm::scripted::{Reply, ScriptedModel};
use bowline_llm::{
    AssistantMessage, AssistantPart, Message, MessageRef, Model, ModelInfo, ModelStream, Request,
    Response, Spent, StopReason, StreamEvent, ToolCall, Usage,
};
use bowline_store::{Durability, Files};
use futures::stream;
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};

type Result<T = ()> = std::result::Result<T, Box<dyn Error>>;

const LATENCY: Duration = Duration::from_millis(50);

/// What every answer of the model costs.
const EACH: Usage =
    Usage { input: 101, output: 13, cache_read: Some(7), cache_write: None, reasoning: Some(3) };

/// What is measured.
#[derive(Clone, Copy)]
struct Crowd {
    agents: usize,
    turns: usize,
}

fn main() -> Result {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, default| arguments.get(at).map_or(Ok(default), |text| text.parse());
    let crowd = Crowd { agents: number(0, 1_000)?, turns: number(1, 20)? };
    if let [_, _, store, through] = arguments.as_slice() {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        return runtime.block_on(crowd.measure(store, through));
    }
    println!("{} agents, {} turns each", crowd.agents, crowd.turns);
    for store in ["memory", "files"] {
        for through in ["delegate", "create"] {
            let mut row = std::process::Command::new(std::env::current_exe()?);
            row.args([&crowd.agents.to_string(), &crowd.turns.to_string()]).args([store, through]);
            if !row.status()?.success() {
                return Err(format!("{store}, {through}: failed").into());
            }
        }
    }
    Ok(())
}

impl Crowd {
    async fn measure(self, store: &str, through: &str) -> Result {
        let folder = tempfile::tempdir()?;
        let lead = Agent { store: kept(store, &folder)?, ..self.lead(through)? };
        // What a process has once, such as what watches the inboxes, is not the crowd's.
        let one = Self { agents: 1, turns: 1 }.lead(through)?;
        Agent { store: Arc::clone(&lead.store), ..one }.prompt("go").await?;
        let metrics = tokio::runtime::Handle::current().metrics();
        let most = Arc::new(AtomicUsize::new(0));
        let watch = tokio::spawn(watch_descriptors(Arc::clone(&most)));
        tokio::task::yield_now().await;
        let (tasks, open, memory) =
            (metrics.num_alive_tasks(), descriptors()?, resident("VmRSS:")?);
        let (began, cpu_before) = (Instant::now(), cpu());
        let handle = lead.start();
        let outcome = handle.prompt("go").await?;
        let (wall, cpu) = (began.elapsed(), cpu() - cpu_before);
        let peak = resident("VmHWM:")?;

        let calls = (self.agents * self.turns) as u64;
        let spent = Usage {
            input: EACH.input * calls,
            output: EACH.output * calls,
            cache_read: EACH.cache_read.map(|tokens| tokens * calls),
            cache_write: None,
            reasoning: EACH.reasoning.map(|tokens| tokens * calls),
        };
        require(outcome.text() == "done", "the lead did not end as it should")?;
        require(outcome.spent.usage == spent, "the usage of the run does not add up")?;
        require(handle.token_usage() == spent, "the usage of the session does not add up")?;
        handle.close().await;
        drop(handle);
        settled(|| Ok(metrics.num_alive_tasks() <= tasks), "a task is left").await?;
        settled(|| Ok(descriptors()? <= open), "a descriptor is left").await?;
        watch.abort();

        let cores = std::thread::available_parallelism()?.get();
        let bound = (LATENCY * self.turns as u32).max(cpu / cores as u32);
        println!(
            "{store}, {through}: {:.2} s, × {:.2} of what it cannot be under; CPU {:.2} s, {:.0} µs a \
             turn; {} kB an agent; at most {} descriptors more",
            wall.as_secs_f64(),
            wall.as_secs_f64() / bound.as_secs_f64(),
            cpu.as_secs_f64(),
            cpu.as_secs_f64() * 1e6 / calls as f64,
            (peak - memory) / self.agents as u64 / 1000,
            most.load(Ordering::Relaxed).saturating_sub(open),
        );
        Ok(())
    }

    /// Makes the agent that has all others, in one call.
    fn lead(self, through: &str) -> Result<Agent> {
        let (tool, arguments, tools) = match through {
            "delegate" => {
                let tasks = (0..self.agents)
                    .map(|n| json!({ "agent": "worker", "task": format!("count to {n}") }));
                let tasks = json!({ "tasks": tasks.collect::<Vec<Value>>() });
                ("delegate", tasks.to_string(), self.delegating())
            }
            _ => ("gather", "{}".to_owned(), Toolbox::default().with(self.gathering()?)?),
        };
        let script = [Reply::call(tool, arguments), Reply::text("done")];
        let free = script.map(|reply| reply.with_usage(Usage::default()));
        let model = Arc::new(ScriptedModel::new(free));
        Ok(Agent { name: "lead".to_owned(), tools, limits: Limits::none(), ..Agent::new(model) })
    }

    fn delegating(self) -> Toolbox {
        let registry = Arc::new(Registry::default());
        registry.register(Card::new("worker", "Counts."), move |spawn| {
            let worker = self.worker().map_err(|error| AgentError::NotMade(error.to_string()))?;
            let tools = Toolbox::layered([&worker.tools, &spawn.member().tools(spawn)]);
            Ok(Agent { tools, ..worker })
        });
        Member::new("lead", registry).tools(&Spawn::root("lead"))
    }

    fn gathering(self) -> Result<impl DynTool + 'static> {
        let worker = self.worker()?;
        Ok(tool_fn("gather", "Has everybody count.", move |_: Value, cx: ToolContext| {
            let worker = worker.clone();
            async move {
                let failed = |error: &dyn Error| ToolError::failed(error.to_string());
                let mut runs = Vec::new();
                for n in 0..self.agents {
                    let child = Child { key: Some(n.to_string()), ..Child::new(worker.clone()) };
                    let handle = cx.children.create(child).await.map_err(|error| failed(&error))?;
                    runs.push(handle.prompt("count").text());
                }
                for answer in futures::future::join_all(runs).await {
                    answer.map_err(|error| failed(&error))?;
                }
                Ok("counted".into())
            }
        }))
    }

    fn worker(self) -> Result<Agent> {
        let count = tool_fn("count", "Counts.", async |_: Value, _: ToolContext| Ok("1".into()));
        Ok(Agent {
            name: "worker".to_owned(),
            instructions: "Count.".into(),
            tools: Toolbox::default().with(count.with_access(Access::none()))?,
            limits: Limits::none(),
            ..Agent::new(Arc::new(Slow { info: ModelInfo::default(), turns: self.turns }))
        })
    }
}

/// A model that takes its time, calls a tool in all turns but the last, and keeps nothing.
struct Slow {
    info: ModelInfo,
    turns: usize,
}

impl Model for Slow {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn stream(&self, request: Request) -> ModelStream {
        let said = |message: &&MessageRef| matches!(&***message, Message::Assistant(_));
        let turn = request.messages.iter().filter(said).count();
        let (content, stop) = match turn + 1 < self.turns {
            true => {
                let (id, name, arguments) = (format!("call_{turn}"), "count", "{}".to_owned());
                let call = ToolCall { id: id.into(), name: name.to_owned(), arguments };
                (AssistantPart::ToolCall(call), StopReason::ToolUse)
            }
            false => (AssistantPart::Text("I have counted.".to_owned()), StopReason::EndTurn),
        };
        let response = Response {
            message: AssistantMessage { content: vec![content] },
            stop,
            usage: Some(EACH),
            wasted: Spent::default(),
            model: None,
            by: None,
        };
        Box::pin(stream::once(async move {
            tokio::time::sleep(LATENCY).await;
            Ok(StreamEvent::Done(Box::new(response)))
        }))
    }
}

fn kept(store: &str, folder: &tempfile::TempDir) -> Result<Arc<dyn Store>> {
    Ok(match store {
        "files" => Arc::new(Files::new(folder.path(), Durability::Process)),
        _ => Arc::new(Memory::default()),
    })
}

fn require(is_so: bool, else_what: &str) -> Result {
    if is_so { Ok(()) } else { Err(else_what.into()) }
}

/// Waits until something is so, a second at most.
async fn settled(is_so: impl Fn() -> Result<bool>, else_what: &str) -> Result {
    for _ in 0..100 {
        if is_so()? {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Err(else_what.into())
}

/// Notes how many descriptors were open at most.
async fn watch_descriptors(most: Arc<AtomicUsize>) {
    loop {
        tokio::time::sleep(Duration::from_millis(20)).await;
        most.fetch_max(descriptors().unwrap_or_default(), Ordering::Relaxed);
    }
}

fn descriptors() -> Result<usize> {
    Ok(std::fs::read_dir("/proc/self/fd")?.count())
}

/// Returns a line of what is known of the memory of this process, in bytes.
fn resident(name: &str) -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix(name)).ok_or("no such line")?;
    let kib: u64 = line.trim().trim_end_matches(" kB").parse()?;
    Ok(kib * 1024)
}

fn cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}
