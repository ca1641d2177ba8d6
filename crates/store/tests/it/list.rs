//! What a list of sessions shows.

use std::fs::File;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bowline_agent::Spent;
use bowline_agent::entry::{
    AssistantSaid, Created, Ending, Entry, EntryKind, Recorded, RunEnded, RunStarted, Tools,
    UserSaid, Via,
};
use bowline_agent::id::{AgentId, RunId, SessionId, SystemSource};
use bowline_agent::journal::{JournalError, Store as _};
use bowline_agent::limits::Limits;
use bowline_agent::orchestrator::Purpose;
use bowline_llm::{AssistantMessage, CallId, Part, StopReason, ToolBlock, Usage, UserMessage};
use bowline_store::conformance::{entry, session};
use bowline_store::files::RunState;
use pretty_assertions::assert_eq;

use crate::fixture::{Fixture, append};

fn entry_of(agent: AgentId, kind: EntryKind) -> Entry {
    Entry { kind, ..entry(agent, "") }
}

fn created(id: SessionId, cwd: &str) -> Entry {
    let created = Created {
        session: id,
        name: "coder-1".into(),
        config: "coder".into(),
        label: None,
        depth: 0,
        parent: None,
        from: None,
        cwd: Some(cwd.into()),
    };
    entry_of(id.root(), EntryKind::Created(created))
}

fn said(agent: AgentId, via: Via, content: Vec<Part>) -> Entry {
    let message = Arc::new(UserMessage { content });
    entry_of(agent, EntryKind::User(UserSaid { message, via, op: None }))
}

fn run() -> RunId {
    RunId::new(&SystemSource)
}

fn started(agent: AgentId, run: RunId, model: &str) -> Entry {
    let started = RunStarted {
        run,
        model: model.into(),
        effort: None,
        system: Recorded { hash: String::new(), value: None },
        tools: Recorded { hash: String::new(), value: Some(Tools(ToolBlock::default())) },
        limits: Limits::default(),
        context_window: None,
        orchestrator: None,
        shape: None,
    };
    entry_of(agent, EntryKind::RunStarted(started))
}

fn answered(agent: AgentId, model: &str) -> Entry {
    let said = AssistantSaid {
        message: Arc::new(AssistantMessage::text("answer")),
        stop: StopReason::EndTurn,
        purpose: Purpose::Turn,
        model: model.into(),
        usage: None,
        wasted: Usage::default(),
        cost_usd: None,
        unpriced: 0,
        price: None,
        broken: None,
    };
    entry_of(agent, EntryKind::Assistant(said))
}

fn ended(agent: AgentId, run: RunId, outcome: Ending) -> Entry {
    let ended = RunEnded {
        run,
        outcome,
        spent: Spent::default(),
        undelivered: Vec::new(),
        denials: Vec::new(),
        completion: None,
        handoff: None,
    };
    entry_of(agent, EntryKind::RunEnded(ended))
}

#[tokio::test]
async fn a_summary_tells_the_beginning_and_the_end() {
    let fixture = Fixture::new();
    let (id, root) = (fixture.id, fixture.id.root());
    let child = root.child(&CallId::from("call"), "1");
    let log = fixture.files.create(id);
    let (first, second) = (run(), run());
    let commits = [
        vec![created(id, "/work"), said(root, Via::Turn, vec![Part::Text("be kind".into())])],
        vec![
            started(root, first, "a/one"),
            said(
                root,
                Via::Prompt,
                vec![Part::Text("facts".into()), Part::Text("mend  the\n knot".into())],
            ),
        ],
        vec![answered(root, "a/one")],
        vec![ended(root, first, Ending::Done)],
        vec![said(root, Via::Prompt, vec![Part::Text("again".into())])],
        vec![started(root, second, "b/two")],
        vec![ended(root, second, Ending::NeedsApproval)],
    ];
    let mut all = 0;
    let mut summaries = Vec::new();
    for commit in &commits {
        append(&*log, id, all, commit).await.unwrap();
        all += commit.len();
        summaries.push(fixture.files.summary(id).unwrap());
    }
    let runs: Vec<_> = summaries.iter().map(|summary| summary.run.clone()).collect();
    let (open, done) = (RunState::Open, RunState::Ended(Ending::Done));
    assert_eq!(
        runs,
        [
            RunState::None,
            open.clone(),
            open.clone(),
            done.clone(),
            done,
            open,
            RunState::Ended(Ending::NeedsApproval)
        ]
    );
    let previews: Vec<_> = summaries.iter().map(|summary| summary.preview.as_deref()).collect();
    assert_eq!(previews[..2], [Some("be kind"), Some("mend the knot")]);
    let start = fixture.files.latest_start(id).unwrap().unwrap();
    assert_eq!((start.run, start.model.as_str()), (second, "b/two"));
    let models: Vec<_> = summaries.iter().map(|summary| summary.model.as_deref()).collect();
    let (one, two) = (Some("a/one"), Some("b/two"));
    assert_eq!(models, [None, one, one, one, one, two, two]);
    // Whatever a child does, and however much is written in a run, the root's run is told.
    let child_run = run();
    let journal = log.journal(child);
    let inner = [started(child, child_run, "c/three"), ended(child, child_run, Ending::Done)];
    journal.append(bowline_agent::journal::Seq(0), &inner).await.unwrap();
    let large = entry(root, &"\"kind\":\"run_ended\" ".repeat(20_000));
    append(&*log, id, all, &[started(root, run(), "d/four"), large]).await.unwrap();
    let summary = fixture.files.summary(id).unwrap();
    assert_eq!(summary.run, RunState::Open);
    assert_eq!(summary.model.as_deref(), Some("d/four"));
    assert_eq!(summary.entries, all as u64 + 4);
    assert_eq!(summary.bytes, fixture.log().metadata().unwrap().len());
    assert_eq!((summary.cwd.as_deref(), summary.config.as_deref()), (Some("/work"), Some("coder")));
    assert_eq!(summary.name.as_deref(), Some("coder-1"));
    assert_eq!(summary.created, commits[0][0].at);
    assert!(summary.updated >= commits[6][0].at);
}

#[tokio::test]
async fn a_preview_is_cut_between_characters() {
    for letter in ["a", "\u{e4}", "\u{1f9f5}"] {
        let fixture = Fixture::new();
        let (id, root) = (fixture.id, fixture.id.root());
        let text = format!("x{}", letter.repeat(500));
        let first = [created(id, "/"), said(root, Via::Prompt, vec![Part::Text(text.clone())])];
        append(&*fixture.files.create(id), id, 0, &first).await.unwrap();
        let preview = fixture.files.summary(id).unwrap().preview.unwrap();
        assert!(text.starts_with(&preview));
        assert!((197..=200).contains(&preview.len()), "{}", preview.len());
    }
}

#[tokio::test]
async fn the_session_written_to_last_comes_first() {
    let fixture = Fixture::new();
    let cwds = ["/one", "/two", "/one", "/three"];
    let mut ids = Vec::new();
    for (n, cwd) in cwds.iter().enumerate() {
        let id = session();
        append(&*fixture.files.create(id), id, 0, &[created(id, cwd)]).await.unwrap();
        let log = fixture.day().join(format!("{id}.jsonl"));
        // The clock of a file system is too coarse to tell them apart.
        let written = SystemTime::UNIX_EPOCH + Duration::from_secs([3, 1, 4, 2][n]);
        File::options().append(true).open(log).unwrap().set_modified(written).unwrap();
        ids.push(id);
    }
    let list = |cwd| -> Vec<SessionId> {
        fixture.files.list(cwd).unwrap().map(|(id, summary)| summary.map(|_| id).unwrap()).collect()
    };
    assert_eq!(list(None), [ids[2], ids[0], ids[3], ids[1]]);
    assert_eq!(list(Some("/one")), [ids[2], ids[0]]);
    let newest = |cwd| fixture.files.newest(cwd).unwrap().map(|summary| summary.id);
    assert_eq!(newest("/one"), Some(ids[2]));
    assert_eq!(newest("/two"), Some(ids[1]));
    assert_eq!(newest("/four"), None);
    assert_eq!(newest("/on"), None);
}

#[tokio::test]
async fn a_folder_that_is_not_there_holds_no_sessions() {
    let fixture = Fixture::new();
    assert_eq!(fixture.files.list(None).unwrap().count(), 0);
    assert_eq!(fixture.files.newest("/").unwrap(), None);
    assert_eq!(fixture.files.verify_all().unwrap().count(), 0);
}

#[tokio::test]
async fn a_session_that_cannot_be_read_is_listed_with_the_reason() {
    let (fixture, _) = Fixture::with(&[1, 1]).await;
    let other = session();
    append(&*fixture.files.create(other), other, 0, &[created(other, "/")]).await.unwrap();
    let whole = std::fs::read_to_string(fixture.log()).unwrap();
    for damaged in [whole.replacen("hash", "bash", 1), whole.clone() + "nonsense\n"] {
        std::fs::write(fixture.log(), damaged).unwrap();
        let list: Vec<_> = fixture.files.list(None).unwrap().collect();
        assert_eq!(list.len(), 2);
        for (id, summary) in list {
            let is_corrupt = matches!(summary, Err(JournalError::Corrupt { .. }));
            assert_eq!(is_corrupt, id == fixture.id, "{summary:?}");
        }
        assert_eq!(fixture.files.newest("/").unwrap().unwrap().id, other);
    }
}
