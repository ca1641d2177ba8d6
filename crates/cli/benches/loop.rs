//! What the loop itself costs: no network, no model, no disk but where the log is the point.
//!
//! `cargo bench -p bowline --bench loop`
#![expect(clippy::unwrap_used, reason = "a measurement, not a program")]

use std::hint::black_box;
use std::sync::Arc;

use bowline::agent::id::{EntryId, SessionId};
use bowline::agent::limits::Limits;
use bowline::agent::schemars;
use bowline::agent::tool::{ToolContext, Toolbox, tool_fn};
use bowline::agent::{Agent, SessionHandle};
use bowline::llm::chat::{Codec, Dialect};
use bowline::llm::wire::Codec as _;
use bowline::llm::{
    AssistantMessage, AssistantPart, Message, Model, ModelInfo, ModelStream, Request, Response,
    Spent, StopReason, StreamEvent, ToolCall, Usage,
};
use bowline::store::{Durability, Files};
use divan::Bencher;
use divan::counter::ItemsCount;
use futures::StreamExt;
use tokio::runtime::Runtime;

fn main() {
    divan::main();
}

/// Calls a tool `calls` times, then answers. Every request is written as the wire would.
struct Calling {
    info: ModelInfo,
    codec: Codec,
    calls: usize,
}

impl Calling {
    fn times(calls: usize) -> Arc<Self> {
        let info = ModelInfo::default();
        let codec = Codec::new(&info, Dialect::of(""), true);
        Arc::new(Self { info, codec, calls })
    }

    /// Returns how many results stand at the end of a conversation, after its last prompt.
    fn made(request: &Request) -> usize {
        let turns = request.messages.iter().rev();
        turns
            .take_while(|message| !matches!(&***message, Message::User(_)))
            .filter(|message| matches!(&***message, Message::Results(_)))
            .count()
    }
}

impl Model for Calling {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn stream(&self, request: Request) -> ModelStream {
        black_box(self.codec.body(&request));
        let made = Self::made(&request);
        let (part, stop) = if made < self.calls {
            let id = format!("call_{}", request.messages.len());
            let call =
                ToolCall { id: id.into(), name: "nod".to_owned(), arguments: "{}".to_owned() };
            (AssistantPart::ToolCall(call), StopReason::ToolUse)
        } else {
            (AssistantPart::Text("Done.".to_owned()), StopReason::EndTurn)
        };
        let response = Response {
            message: AssistantMessage { content: vec![part] },
            stop,
            usage: Some(Usage { input: 100, output: 10, ..Usage::default() }),
            wasted: Spent::default(),
            model: None,
            by: None,
        };
        Box::pin(futures::stream::iter([Ok(StreamEvent::Done(Box::new(response)))]))
    }
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

fn agent(calls: usize) -> Agent {
    let nod =
        tool_fn("nod", "Does nothing.", async |_: Nothing, _: ToolContext| Ok("nodded".into()));
    Agent {
        tools: Toolbox::default().with(nod).unwrap(),
        limits: Limits::none(),
        ..Agent::new(Calling::times(calls))
    }
}

fn tokio() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// Brings a conversation to a length.
async fn with_history(agent: &Agent, messages: usize) -> (SessionHandle, Option<EntryId>) {
    let handle = agent.start();
    for n in 0..messages {
        let text = format!("Message {n}: {}", "this is what somebody said. ".repeat(20));
        handle.add_user_turn(text).await.unwrap();
    }
    let head = handle.state().head;
    (handle, head)
}

/// A run of two model calls and one tool call between them; items are model calls.
#[divan::bench(args = [10, 100, 1_000], sample_count = 200, sample_size = 1)]
fn turn_at_history(bencher: Bencher<'_, '_>, messages: usize) {
    let tokio = tokio();
    let agent = agent(1);
    let (handle, head) = tokio.block_on(with_history(&agent, messages));
    let codec = Codec::new(&ModelInfo::default(), Dialect::of(""), true);
    bencher
        .with_inputs(|| {
            tokio.block_on(handle.rewind(head)).unwrap();
            // A live conversation has been written before; a rewound one is read anew.
            let request = Request { messages: handle.messages(), ..Request::default() };
            assert_eq!(request.messages.len(), messages);
            black_box(codec.body(&request));
        })
        .counter(ItemsCount::new(2_u32))
        .bench_local_values(|()| {
            let outcome = tokio.block_on(async { handle.prompt("Nod.").await }).unwrap();
            assert!(outcome.is_done());
        });
}

/// A run of a hundred tool calls, every event read; items are events.
#[divan::bench(sample_count = 20, sample_size = 1)]
fn events_through_a_run(bencher: Bencher<'_, '_>) {
    let tokio = tokio();
    let agent = agent(100);
    let run = || tokio.block_on(async { agent.prompt("Nod.").count().await });
    let events = run();
    bencher.counter(ItemsCount::new(events)).bench_local(run);
}

/// The same, with every event printed as a line of JSON.
#[divan::bench(sample_count = 20, sample_size = 1)]
fn events_as_json(bencher: Bencher<'_, '_>) {
    let tokio = tokio();
    let agent = agent(100);
    let run = || {
        tokio.block_on(async {
            let mut run = agent.prompt("Nod.");
            let mut seq = 0_u64;
            while let Some(event) = run.next().await {
                black_box(serde_json::to_string(&event.printed(seq)).unwrap());
                seq += 1;
            }
            seq
        })
    };
    let events = run();
    bencher.counter(ItemsCount::new(events)).bench_local(run);
}

/// Opening a session of 10 000 entries in a file; items are entries.
#[divan::bench(sample_count = 20, sample_size = 1)]
fn resume_of_10_000_entries(bencher: Bencher<'_, '_>) {
    let tokio = tokio();
    let folder = tempfile::tempdir().unwrap();
    let store = Files::new(folder.path(), Durability::Process);
    // Three entries a call: the reply, its start, its end.
    let agent = Agent { store: Arc::new(store.clone()), ..agent(3_332) };
    let id: SessionId = tokio.block_on(async {
        let handle = agent.start();
        assert!(handle.prompt("Nod.").await.unwrap().is_done());
        handle.close().await;
        handle.session_id()
    });
    let entries = store.verify(id).unwrap().entries;
    assert!(entries >= 10_000, "{entries}");
    bencher.counter(ItemsCount::new(entries)).bench_local(|| {
        tokio.block_on(async {
            let handle = agent.resume(id).await.unwrap();
            assert!(handle.messages().len() > 6_000);
            handle.close().await;
        });
    });
}
