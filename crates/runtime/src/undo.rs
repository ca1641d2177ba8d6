//! What agents change in files is recorded, so that it can be taken back.
//!
//! Around every tool that may write lies one that records the state of the project before the call and
//! after it: see [`bowline_tools::undo`]. The loop knows nothing of it.

use std::collections::{BTreeSet, HashMap};
use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bowline_agent::id::{AgentId, SessionId};
use bowline_agent::tool::{
    Access, DynTool, Prepared, ToolError, ToolSource, Toolbox, ToolboxError, changed,
};
use bowline_llm::{CallId, ToolSpec};
use bowline_tools::undo::{Limits, Place, Undo, UndoError};

use crate::environment::Folders;
use crate::project;
use crate::runtime::Runtime;

impl Runtime {
    /// Returns where files are recorded; `None` if that is switched off.
    ///
    /// # Errors
    /// Why they cannot be recorded here, for a person.
    pub fn undo(&self) -> Result<Option<Place>, String> {
        if !self.config.undo.enabled {
            return Ok(None);
        }
        let git = self.git().ok_or("git is not installed")?;
        let root = self.undo_root()?;
        let Folders { data, cache, .. } = &self.folders;
        let left_out = vec![real(data), real(cache)];
        let variables = self.workspace().environment.variables().to_vec();
        Ok(Some(Place { root, left_out, git, variables, limits: Limits::default() }))
    }

    /// Returns the program `git`, if it is installed.
    pub fn git(&self) -> Option<PathBuf> {
        self.workspace().environment.program("git")
    }

    /// Returns the folder for what is recorded of a session.
    pub fn undo_of(&self, session: SessionId) -> PathBuf {
        self.folders.undo().join(session.to_string())
    }

    /// Removes what is recorded of a session.
    ///
    /// # Errors
    /// If it cannot be removed. It can be removed again.
    pub fn forget_undo(&self, session: SessionId) -> std::io::Result<()> {
        match fs::remove_dir_all(self.undo_of(session)) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }

    /// Returns what a person should know of it before an agent writes.
    pub fn undo_note(&self) -> Option<String> {
        let why = self.undo().err()?;
        Some(unable(&why))
    }

    /// Returns what a person should know of it after agents have written: why not all of it is recorded.
    pub fn undo_complaints(&self) -> Vec<String> {
        let complaints = std::mem::take(&mut *lock(&self.recorder.complaints));
        complaints.iter().map(|why| unable(why)).collect()
    }

    /// Returns the root of the project: that of its repository, unless that is somebody's whole home.
    fn undo_root(&self) -> Result<PathBuf, String> {
        let cwd = real(&self.environment.cwd);
        let home = self.environment.get("HOME").map(|home| real(Path::new(home)));
        let is_all = |folder: &Path| folder.parent().is_none() || home.as_deref() == Some(folder);
        if is_all(&cwd) {
            return Err(format!("{} is no project", cwd.display()));
        }
        let root = project::git_root(&cwd).filter(|root| !is_all(root));
        Ok(root.unwrap_or(&cwd).to_path_buf())
    }

    /// Puts around the tools what records what they do to files.
    pub(crate) fn recorded(&self, tools: &Toolbox) -> Result<Toolbox, ToolboxError> {
        match self.undo() {
            Ok(Some(place)) => self.recorder.around(&self.records(place), tools),
            Ok(None) | Err(_) => Ok(tools.clone()),
        }
    }

    /// As [`Runtime::recorded`], of tools that come and go.
    pub(crate) fn recorded_source(&self, tools: Arc<dyn ToolSource>) -> Arc<dyn ToolSource> {
        match self.undo() {
            Ok(Some(place)) => {
                let (recorder, records) = (Arc::clone(&self.recorder), self.records(place));
                // Two tools of one name would not have been in a toolbox.
                changed(tools, move |tools| recorder.around(&records, &tools).unwrap_or(tools))
            }
            Ok(None) | Err(_) => tools,
        }
    }

    fn records(&self, place: Place) -> Arc<Records> {
        Arc::new(Records { folder: self.folders.undo(), place })
    }
}

/// Where is recorded, and what.
struct Records {
    /// Holds a folder for each session.
    folder: PathBuf,
    place: Place,
}

fn unable(why: &str) -> String {
    format!("what agents change here cannot be undone by bowline: {why}")
}

/// Returns where a folder really is.
fn real(folder: &Path) -> PathBuf {
    folder.canonicalize().unwrap_or_else(|_| folder.to_path_buf())
}

/// What this process records.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    sessions: Mutex<HashMap<SessionId, Arc<Session>>>,
    /// What has not been said yet: why not all is recorded.
    complaints: Mutex<BTreeSet<String>>,
}

impl Recorder {
    fn around(
        self: &Arc<Self>,
        records: &Arc<Records>,
        tools: &Toolbox,
    ) -> Result<Toolbox, ToolboxError> {
        let mut all = Toolbox::default();
        for tool in tools.names().filter_map(|name| tools.get(name)) {
            let (recorder, records) = (Arc::clone(self), Arc::clone(records));
            all.add(Arc::new(Recorded { tool, recorder, records }))?;
        }
        Ok(all)
    }

    fn session(&self, id: SessionId) -> Arc<Session> {
        Arc::clone(lock(&self.sessions).entry(id).or_default())
    }

    /// Does something on a thread where one may wait. That it fails keeps nobody from work.
    async fn aside(&self, work: impl FnOnce() -> Result<(), UndoError> + Send + 'static) {
        let why = match tokio::task::spawn_blocking(work).await {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error.to_string(),
            Err(error) => error.to_string(),
        };
        lock(&self.complaints).insert(why);
    }
}

/// What is recorded of a session.
#[derive(Debug, Default)]
struct Session {
    store: Mutex<Store>,
    /// How many calls of an agent run that may write.
    running: Mutex<HashMap<AgentId, usize>>,
}

/// The state of the recording. Whoever holds it runs git, on a thread where one may wait.
#[derive(Debug, Default)]
enum Store {
    #[default]
    Unopened,
    Open(Box<Undo>),
    /// It cannot be recorded, and that has been said.
    Unable,
}

/// A call that may write and runs.
struct Running {
    session: Arc<Session>,
    agent: AgentId,
    is_first: bool,
}

impl Running {
    fn new(session: Arc<Session>, agent: AgentId) -> Self {
        let mut running = lock(&session.running);
        let count = running.entry(agent).or_default();
        *count += 1;
        let is_first = *count == 1;
        drop(running);
        Self { session, agent, is_first }
    }

    /// Takes note that the call is over; tells whether no other one of its agent runs.
    fn finish(self) -> bool {
        let session = Arc::clone(&self.session);
        let agent = self.agent;
        drop(self);
        !lock(&session.running).contains_key(&agent)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let mut running = lock(&self.session.running);
        let count = running.entry(self.agent).or_default();
        *count = count.saturating_sub(1);
        if *count == 0 {
            running.remove(&self.agent);
        }
    }
}

impl Session {
    /// Records the state before a call.
    fn before(&self, records: &Records, call: &Starting) -> Result<(), UndoError> {
        let mut store = lock(&self.store);
        if matches!(*store, Store::Unopened) {
            let folder = records.folder.join(call.session.to_string());
            // It is nobody else's business.
            let made = DirBuilder::new().recursive(true).mode(0o700).create(&folder);
            let made = made.map_err(|source| UndoError::File { path: folder.clone(), source });
            *store = match made.and_then(|()| Undo::open(&folder, &records.place)) {
                Ok(undo) => Store::Open(Box::new(undo)),
                Err(error) => {
                    *store = Store::Unable;
                    return Err(error);
                }
            };
        }
        let Store::Open(undo) = &mut *store else { return Ok(()) };
        match call.is_first {
            true => undo.before(call.agent, &call.call, &call.writes),
            // It was made with one that may have written by now.
            false => undo.beside(call.agent, &call.call, &call.writes),
        }
    }

    /// Does what is done at once, if it is; tells whether it was.
    fn at_once(&self, record: impl FnOnce(&mut Undo) -> Result<bool, UndoError>) -> bool {
        match self.store.try_lock().as_deref_mut() {
            // What fails is tried again where one may wait, and said there.
            Ok(Store::Open(undo)) => record(undo).unwrap_or(false),
            Ok(Store::Unable) => true,
            Ok(Store::Unopened) | Err(_) => false,
        }
    }

    /// Records the state before a call, if that takes next to no time; tells whether it has.
    fn before_at_once(&self, call: &Starting) -> bool {
        call.is_first
            && self.at_once(|undo| undo.before_at_once(call.agent, &call.call, &call.writes))
    }

    /// Records the state after the calls of an agent, if that takes next to no time; tells whether it has.
    fn after_at_once(&self, agent: AgentId) -> bool {
        self.at_once(|undo| match self.is_at_work(agent) {
            true => Ok(true),
            false => undo.after_at_once(agent),
        })
    }

    /// Tells whether another call of an agent has begun: what is recorded before that one is the state after
    /// those that have ended. Whoever asks has the store, so that it is recorded either before this or later.
    fn is_at_work(&self, agent: AgentId) -> bool {
        lock(&self.running).contains_key(&agent)
    }

    /// Records the state after the calls of an agent.
    fn after(&self, agent: AgentId) -> Result<(), UndoError> {
        let mut store = lock(&self.store);
        if self.is_at_work(agent) {
            return Ok(());
        }
        match &mut *store {
            Store::Open(undo) => undo.after(agent),
            Store::Unopened | Store::Unable => Ok(()),
        }
    }
}

/// A call that is about to run.
struct Starting {
    session: SessionId,
    agent: AgentId,
    call: CallId,
    writes: Vec<PathBuf>,
    is_first: bool,
}

/// A tool, and around it what records what it does to files.
struct Recorded {
    tool: Arc<dyn DynTool>,
    recorder: Arc<Recorder>,
    records: Arc<Records>,
}

impl DynTool for Recorded {
    fn spec(&self) -> ToolSpec {
        self.tool.spec()
    }

    fn puts_secrets_back(&self) -> bool {
        self.tool.puts_secrets_back()
    }

    fn passes_on(&self) -> bool {
        self.tool.passes_on()
    }

    fn prepare(self: Arc<Self>, arguments: &str) -> Result<Prepared, ToolError> {
        let mut prepared = Arc::clone(&self.tool).prepare(arguments)?;
        if !may_write(&prepared.access) {
            return Ok(prepared);
        }
        let (writes, run) = (prepared.access.writes.paths().to_vec(), prepared.run);
        prepared.run = Box::new(move |cx| {
            Box::pin(async move {
                // What is kept nowhere cannot be gone back to.
                if cx.folder().is_none() {
                    return run(cx).await;
                }
                let session = self.recorder.session(cx.session);
                let running = Running::new(Arc::clone(&session), cx.agent.id);
                let starting = Starting {
                    session: cx.session,
                    agent: cx.agent.id,
                    call: cx.call.clone(),
                    writes,
                    is_first: running.is_first,
                };
                if !session.before_at_once(&starting) {
                    let (own, records) = (Arc::clone(&session), Arc::clone(&self.records));
                    self.recorder.aside(move || own.before(&records, &starting)).await;
                }
                let agent = cx.agent.id;
                let result = run(cx).await;
                if running.finish() && !session.after_at_once(agent) {
                    self.recorder.aside(move || session.after(agent)).await;
                }
                result
            })
        });
        Ok(prepared)
    }
}

/// Tells whether a call may change files. What says nothing of itself may.
fn may_write(access: &Access) -> bool {
    !access.writes.is_empty() || access.execute.is_some() || access.exclusive
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
