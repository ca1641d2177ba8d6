//! Measures what the file store costs, in a folder that is removed afterwards.
//!
//! ```text
//! cargo run --release -p bowline-store --example measure
//! ```

#![allow(clippy::print_stdout, reason = "an example talks to its reader")]

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bowline_agent::Spent;
use bowline_agent::entry::{Ending, Entry, EntryKind, RunEnded, UserSaid, Via};
use bowline_agent::id::{RunId, SessionId, SystemSource};
use bowline_agent::journal::{Pos, Seq, Store as _};
use bowline_llm::UserMessage;
use bowline_store::{Durability, Files, conformance};
use rustix::time::{ClockId, clock_gettime};

const ENTRIES: u64 = 10_000;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let files = Files::new(folder.path(), Durability::Process);
    let id = conformance::session();
    let mut commits = vec![prompt(id)];
    commits.extend((2..ENTRIES).map(|_| entry(id, 800)));
    commits.push(run_ended(id));
    let length = serde_json::to_string(&entry(id, 800))?.len();

    let log = files.create(id);
    let journal = log.journal(id.root());
    let watch = Watch::start();
    for (after, one) in (0..).map(Seq).zip(&commits) {
        journal.append(after, std::slice::from_ref(one)).await?;
    }
    watch.tell(&format!("a commit of one entry of {length} bytes"), ENTRIES);
    drop((journal, log));

    let watch = Watch::start();
    let log = files.open(id).await?;
    watch.tell(&format!("opening a log of {ENTRIES} entries"), 1);
    let watch = Watch::start();
    let read = log.journal(id.root()).read().await?.len();
    watch.tell(&format!("reading its {read} entries after opening"), 1);
    let watch = Watch::start();
    let read = log.read(Pos(0)).await?.len();
    watch.tell(&format!("reading its {read} entries once more"), 1);
    let watch = Watch::start();
    log.read(Pos(ENTRIES - 10)).await?;
    watch.tell("reading its last ten entries", 1);
    let watch = Watch::start();
    for _ in 0..1000 {
        log.inbox().take().await?;
    }
    watch.tell("a look into an empty inbox", 1000);
    drop(log);
    let watch = Watch::start();
    files.verify(id)?;
    watch.tell("verifying it", 1);
    let watch = Watch::start();
    for _ in 0..100 {
        files.summary(id)?;
    }
    watch.tell("its line in a list", 100);

    power(folder.path().join("power")).await
}

/// Commits of eight agents at once that each outlive a loss of power.
async fn power(root: std::path::PathBuf) -> Result<(), Box<dyn Error>> {
    let id = conformance::session();
    let log = Files::new(root, Durability::Power).create(id);
    let watch = Watch::start();
    for after in 0..100 {
        log.journal(id.root()).append(Seq(after), &[entry(id, 800)]).await?;
    }
    watch.tell("a commit with durability = \"power\", one agent", 100);
    let watch = Watch::start();
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..8_u32 {
        let agent = id.root().child(&"call".into(), &n.to_string());
        let journal = log.journal(agent);
        tasks.spawn(async move {
            for after in 0..50 {
                let one = conformance::entry(agent, &"x".repeat(800));
                journal.append(Seq(after), &[one]).await?;
            }
            Ok::<_, bowline_agent::journal::JournalError>(())
        });
    }
    for result in tasks.join_all().await {
        result?;
    }
    watch.tell("a commit with durability = \"power\", eight agents at once", 400);
    Ok(())
}

fn entry(id: SessionId, length: usize) -> Entry {
    conformance::entry(id.root(), &"some words \"quoted\" \n".repeat(length / 20))
}

fn prompt(id: SessionId) -> Entry {
    let message = Arc::new(UserMessage::text("measure"));
    let kind = EntryKind::User(UserSaid { message, via: Via::Prompt, op: None });
    Entry { kind, ..entry(id, 0) }
}

fn run_ended(id: SessionId) -> Entry {
    let ended = RunEnded {
        run: RunId::new(&SystemSource),
        outcome: Ending::Done,
        spent: Spent::default(),
        undelivered: Vec::new(),
        denials: Vec::new(),
        completion: None,
        handoff: None,
    };
    Entry { kind: EntryKind::RunEnded(ended), ..entry(id, 0) }
}

/// Wall and processor time.
struct Watch(Instant, Duration);

impl Watch {
    fn start() -> Self {
        Self(Instant::now(), cpu())
    }

    fn tell(self, what: &str, times: u64) {
        let each = |time: Duration| time.as_secs_f64() * 1e6 / times as f64;
        let (wall, cpu) = (each(self.0.elapsed()), each(cpu() - self.1));
        println!("{what}: {wall:.1} µs, CPU {cpu:.1} µs");
    }
}

fn cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}
