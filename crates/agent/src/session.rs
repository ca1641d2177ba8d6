//! A live session: what its agents share.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::sync::{mpsc, watch};

use crate::agent::Agent;
use crate::children::Work;
use crate::crew::board::Watches;
use crate::crew::slots::Desks;
use crate::driver;
use crate::entry::{Created, Entry, EntryKind};
use crate::error::AgentError;
use crate::event::AgentMeta;
use crate::fork::Copied;
use crate::handle::{SessionHandle, State};
use crate::hub::Hub;
use crate::id::{AgentId, RunId, SessionId, Source};
use crate::journal::{Inbox, Pos, SessionLog};
use crate::mailbox::{Command, Mailbox};
use crate::middleware::Watched;
use crate::op::Input;
use crate::projection::Projection;
use crate::questions::Questions;
use crate::shared::Values;
use crate::turn::{self, Turn};

/// What the agents of a session share.
pub(crate) struct Session {
    pub(crate) id: SessionId,
    // Agents hold it while they live; a handle does not keep the session from being opened again.
    log: Weak<dyn SessionLog>,
    inbox: Arc<dyn Inbox>,
    pub(crate) hub: Hub,
    pub(crate) shared: Arc<Values>,
    pub(crate) questions: Questions,
    pub(crate) desks: Arc<Desks>,
    pub(crate) watches: Arc<Watches>,
    pub(crate) source: Arc<dyn Source>,
    agents: Mutex<HashMap<AgentId, Live>>,
    names: Mutex<Names>,
}

/// The names given in this process.
#[derive(Default)]
struct Names {
    given: HashMap<AgentId, String>,
    taken: HashSet<String>,
    // By configuration, the last number given: no lower one is free.
    last: HashMap<String, u64>,
}

/// A live agent as its relatives see it. It does not keep the agent alive.
#[derive(Clone)]
struct Live {
    commands: mpsc::WeakUnboundedSender<Command>,
    state: watch::Receiver<Arc<State>>,
}

/// What is needed to bring an agent to life.
pub(crate) struct Birth {
    pub(crate) agent: Agent,
    pub(crate) created: Created,
    pub(crate) meta: Arc<AgentMeta>,
    /// What is in its log already.
    pub(crate) log: Vec<(Pos, Entry)>,
    /// The logs of its session.
    pub(crate) store: Arc<dyn SessionLog>,
    /// The entries with which its log begins if it is empty.
    pub(crate) copy: Option<Copied>,
    /// What it is told before its first prompt.
    pub(crate) briefing: Vec<Input>,
    /// Where a sub-agent notes when it is at work.
    pub(crate) work: Option<Arc<Work>>,
}

impl Session {
    pub(crate) fn inbox(&self) -> Arc<dyn Inbox> {
        Arc::clone(&self.inbox)
    }

    /// Returns the logs of the session, unless its agents are down.
    pub(crate) fn log(&self) -> Option<Arc<dyn SessionLog>> {
        self.log.upgrade()
    }

    /// Hands a command to a live agent; returns whether there is one.
    pub(crate) fn tell(&self, agent: AgentId, command: Command) -> bool {
        let live = self.agents().get(&agent).and_then(|live| live.commands.upgrade());
        live.is_some_and(|commands| commands.send(command).is_ok())
    }

    /// Returns what can be seen of a live agent, as it changes.
    pub(crate) fn watch(&self, agent: AgentId) -> Option<watch::Receiver<Arc<State>>> {
        self.agents().get(&agent).map(|live| live.state.clone())
    }

    /// Returns what is told of a run, which has begun: what was told before, and what will be.
    pub(crate) async fn watch_run(&self, of: AgentId, run: RunId) -> Result<Watched, AgentError> {
        let (here, events) = self.hub.listen(of, run);
        let log = self.log().ok_or(AgentError::Closed)?.read(Pos(0)).await?;
        let mut projection = Projection::new(self.id);
        let mut before = Vec::new();
        let mut has_begun = false;
        for (pos, entry) in log.iter().filter(|(pos, _)| *pos < here) {
            has_begun |= matches!(&entry.kind, EntryKind::RunStarted(it) if it.run == run);
            match has_begun {
                true => before.extend(projection.apply(*pos, entry)),
                false => projection.pass(entry),
            }
        }
        before.retain(|event| event.agent.id == of || event.agent.ancestors.contains(&of));
        Ok(Watched { before, events })
    }

    /// Brings an agent to life: spawns the task that owns it.
    pub(crate) fn spawn(
        self: &Arc<Self>,
        birth: Birth,
    ) -> (SessionHandle, tokio::task::JoinHandle<()>) {
        let (commands, received) = mpsc::unbounded_channel();
        let meta = Arc::clone(&birth.meta);
        let busy = birth.agent.busy;
        let inbox = meta.parent.is_none().then(|| self.inbox());
        let (turn, state) = Turn::new(Arc::clone(self), birth, Mailbox::new(received, inbox));
        let live = Live { commands: commands.downgrade(), state: state.clone() };
        self.agents().insert(meta.id, live);
        let (session, id) = (Arc::clone(self), meta.id);
        let task = tokio::spawn(async move {
            driver::drive(turn).await;
            session.agents().remove(&id);
            for next in session.questions.leave(id) {
                session.tell(next.agent, Command::Reconsider { call: next.call });
            }
        });
        (SessionHandle::new(Arc::clone(self), meta, commands, state, busy), task)
    }

    /// Returns the name of a new agent of a configuration, with a word for its task. It ends with the
    /// first number that no other agent of the configuration has: in the log, or given in this
    /// process and perhaps not written yet.
    pub(crate) fn name(&self, agent: AgentId, config: &str, slug: Option<&str>) -> String {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(name) = names.given.get(&agent) {
            return name.clone();
        }
        let Names { given, taken, last } = &mut *names;
        let last = last.entry(config.to_owned()).or_default();
        let stem = slug.map_or_else(|| config.to_owned(), |slug| format!("{config}-{slug}"));
        let name = loop {
            *last += 1;
            let name = format!("{stem}-{last}");
            // One of another configuration may look the same.
            let is_taken = self.hub.has_number(config, *last)
                || self.hub.has_name(&name)
                || taken.contains(&name);
            if !is_taken {
                break name;
            }
        };
        given.insert(agent, name.clone());
        taken.insert(name.clone());
        name
    }

    fn agents(&self) -> MutexGuard<'_, HashMap<AgentId, Live>> {
        self.agents.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Starts a new session.
pub(crate) fn start(agent: &Agent) -> SessionHandle {
    let id = SessionId::new(&*agent.source);
    let store = agent.store.create(id);
    let session = open(agent, id, &store, &[]);
    session.spawn(birth(agent, id, Vec::new(), store, None)).0
}

/// Starts a new session that begins with copied entries.
pub(crate) async fn start_with(
    agent: &Agent,
    id: SessionId,
    copy: Copied,
) -> Result<SessionHandle, AgentError> {
    let store = agent.store.create(id);
    let session = open(agent, id, &store, &[]);
    for hash in &copy.bodies {
        let body = copy.source.get(hash).await?;
        store.blobs().put(&body).await?;
    }
    Ok(session.spawn(birth(agent, id, Vec::new(), store, Some(copy))).0)
}

/// Opens a session again.
pub(crate) async fn resume(agent: &Agent, id: SessionId) -> Result<SessionHandle, AgentError> {
    let store = agent.store.open(id).await?;
    let entries = store.read(Pos(0)).await?;
    let session = open(agent, id, &store, &entries);
    let root = id.root();
    let own = entries.into_iter().filter(|(_, entry)| entry.agent == root).collect();
    Ok(session.spawn(birth(agent, id, own, store, None)).0)
}

fn open(
    agent: &Agent,
    id: SessionId,
    store: &Arc<dyn SessionLog>,
    entries: &[(Pos, Entry)],
) -> Arc<Session> {
    Arc::new(Session {
        id,
        log: Arc::downgrade(store),
        inbox: store.inbox(),
        hub: Hub::new(id, entries, store.tip().0),
        shared: Arc::new(Values::new(entries)),
        questions: Questions::new(entries),
        desks: Arc::default(),
        watches: Arc::default(),
        source: Arc::clone(&agent.source),
        agents: Mutex::default(),
        names: Mutex::default(),
    })
}

fn birth(
    agent: &Agent,
    id: SessionId,
    log: Vec<(Pos, Entry)>,
    store: Arc<dyn SessionLog>,
    copy: Option<Copied>,
) -> Birth {
    let created = turn::created(&log).unwrap_or_else(|| Created {
        session: id,
        name: agent.name.clone(),
        config: agent.name.clone(),
        label: None,
        depth: 0,
        parent: None,
        from: copy.as_ref().map(|copy| copy.origin.clone()),
        cwd: agent.cwd.clone(),
    });
    let meta = AgentMeta {
        id: id.root(),
        name: created.name.clone(),
        config: created.config.clone(),
        depth: 0,
        parent: None,
        label: None,
        ancestors: Arc::new([]),
    };
    Birth {
        agent: Agent { redaction: agent.redaction.of_session(id), ..agent.clone() },
        created,
        meta: Arc::new(meta),
        log,
        store,
        copy,
        briefing: Vec::new(),
        work: None,
    }
}
