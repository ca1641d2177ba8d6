//! Sub-agents: they exist only inside a tool call, and end with it.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use tokio::time::Instant;

use bowline_llm::{CallId, Model};

use crate::agent::Agent;
use crate::entry::{Created, Parent};
use crate::error::AgentError;
use crate::event::AgentMeta;
use crate::feed;
use crate::fork;
use crate::gate;
use crate::handle::SessionHandle;
use crate::id::AgentId;
use crate::journal::JournalError;
use crate::mailbox::Command;
use crate::op::{CancelReason, Input};
use crate::session::{Birth, Session};
use crate::tool::Toolbox;
use crate::turn;

/// Makes agents: the same function can work as a root agent or as a sub-agent.
#[expect(
    clippy::new_ret_no_self,
    clippy::wrong_self_convention,
    reason = "the name is seed 003's, and the trait stands for the constructor"
)]
#[async_trait::async_trait]
pub trait AgentCreator: Send + Sync {
    /// Makes an agent with a model, a system text and tools.
    ///
    /// # Errors
    /// [`AgentError::ScopeClosed`] for a sub-agent whose tool call has ended.
    async fn new(
        &self,
        model: Arc<dyn Model>,
        system: &str,
        tools: Toolbox,
    ) -> Result<SessionHandle, AgentError>;

    /// Makes an agent with the default model: a sub-agent's is its parent's.
    ///
    /// # Errors
    /// As [`AgentCreator::new`].
    async fn new_with_default_model(
        &self,
        system: &str,
        tools: Toolbox,
    ) -> Result<SessionHandle, AgentError>;
}

/// Makes root agents, each in a session of its own, like the agent it is.
#[async_trait::async_trait]
impl AgentCreator for Agent {
    async fn new(
        &self,
        model: Arc<dyn Model>,
        system: &str,
        tools: Toolbox,
    ) -> Result<SessionHandle, AgentError> {
        let agent = Self { model, instructions: system.into(), tools, ..self.clone() };
        Ok(agent.start())
    }

    async fn new_with_default_model(
        &self,
        system: &str,
        tools: Toolbox,
    ) -> Result<SessionHandle, AgentError> {
        AgentCreator::new(self, Arc::clone(&self.model), system, tools).await
    }
}

/// The sub-agents of one tool call. Clones are the same.
#[derive(Clone)]
pub struct Children {
    scope: Option<Arc<Scope>>,
}

/// What a sub-agent is to be.
#[derive(Debug, Clone)]
pub struct Child {
    /// What it is made of. Store, source of ids, secrets and whether it is attended are the
    /// parent's, whatever stands here, and the parent's gate is asked before its own. It does not
    /// take what a feed of its parent has for that. Its effects are those that stand here and none
    /// besides; one that its parent has too keeps a mind of its own for it.
    pub agent: Agent,
    /// Tells the children of one call apart, so that a call that runs again finds each of them.
    /// `None` counts them in order of creation: then they must not be made concurrently.
    pub key: Option<String>,
    /// What to call it in events.
    pub label: Option<String>,
    /// A word for its task, as a part of its name: `coder-refactor-1` is a `coder` that refactors.
    pub slug: Option<String>,
    /// What it is told before its first prompt, each as a message of its own.
    pub briefing: Vec<Input>,
    /// How its conversation begins.
    pub beginning: Beginning,
}

impl Child {
    /// Makes a sub-agent that is the only one of its call, with an empty conversation.
    pub fn new(agent: Agent) -> Self {
        let briefing = Vec::new();
        Self { agent, key: None, label: None, slug: None, briefing, beginning: Beginning::Fresh }
    }
}

/// How a sub-agent's conversation begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Beginning {
    /// Empty.
    #[default]
    Fresh,
    /// With a copy of its parent's, open calls skipped.
    Fork,
}

struct Scope {
    session: Arc<Session>,
    // The parent, from which a sub-agent takes what it does not bring.
    agent: Agent,
    meta: Arc<AgentMeta>,
    call: CallId,
    open: Mutex<Open>,
    work: Arc<Work>,
}

/// How long sub-agents of a call have been at work, one of them or more.
#[derive(Debug, Default)]
pub(crate) struct Work {
    inner: Mutex<WorkInner>,
}

#[derive(Debug, Default)]
struct WorkInner {
    at_work: HashSet<AgentId>,
    since: Option<Instant>,
    before: Duration,
}

impl Work {
    /// Notes whether a sub-agent is at work now.
    pub(crate) fn note(&self, agent: AgentId, works: bool) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        if works {
            inner.at_work.insert(agent);
            inner.since.get_or_insert_with(Instant::now);
        } else if inner.at_work.remove(&agent)
            && inner.at_work.is_empty()
            && let Some(since) = inner.since.take()
        {
            inner.before += since.elapsed();
        }
    }

    fn time(&self) -> (bool, Duration) {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let now = inner.since.map(|since| since.elapsed()).unwrap_or_default();
        (inner.since.is_some(), inner.before + now)
    }
}

#[derive(Default)]
struct Open {
    // Set when the call ends: no more sub-agents can be made or found.
    is_closed: bool,
    ordinal: u32,
    live: HashMap<AgentId, (SessionHandle, Down)>,
}

/// Comes when a sub-agent is down, to whoever waits for it: the tool's task may be dropped while it
/// waits, and the loop must still not go on before.
type Down = Shared<BoxFuture<'static, ()>>;

impl Children {
    /// Makes a scope in which no sub-agent can be made.
    pub(crate) fn none() -> Self {
        Self { scope: None }
    }

    pub(crate) fn new(
        session: Arc<Session>,
        agent: Agent,
        meta: Arc<AgentMeta>,
        call: CallId,
    ) -> Self {
        let open = Mutex::default();
        let work = Arc::default();
        Self { scope: Some(Arc::new(Scope { session, agent, meta, call, open, work })) }
    }

    /// Makes a sub-agent, or finds the one that this call made before under the same key: then
    /// `child.agent` says what its new runs are made of.
    ///
    /// # Errors
    /// [`AgentError::ScopeClosed`] if the call has ended, [`AgentError::Journal`] if the log of one
    /// made before cannot be read.
    pub async fn create(&self, child: Child) -> Result<SessionHandle, AgentError> {
        let scope = self.scope.as_deref().ok_or(AgentError::ScopeClosed)?;
        let key = scope.key(child.key.as_deref())?;
        let id = scope.meta.id.child(&scope.call, &key);
        if let Some(handle) = scope.find(id)? {
            return Ok(handle);
        }
        let store = scope.session.log().ok_or(AgentError::ScopeClosed)?;
        let log = store.journal(id).read().await?;
        let copy = match child.beginning {
            Beginning::Fork if log.is_empty() => {
                Some(fork::copy_agent(&scope.session, &*store, scope.meta.id).await?)
            }
            Beginning::Fork | Beginning::Fresh => None,
        };
        let created = turn::created(&log).unwrap_or_else(|| Created {
            session: scope.session.id,
            name: scope.session.name(id, &child.agent.name, child.slug.as_deref()),
            config: child.agent.name.clone(),
            label: child.label,
            depth: scope.meta.depth + 1,
            parent: Some(Parent { agent: scope.meta.id, call: scope.call.clone(), key }),
            from: copy.as_ref().map(|copy| copy.origin.clone()),
            cwd: None,
        });
        let meta = scope.child_meta(id, &created);
        let agent = Agent {
            gate: gate::both(&scope.agent.gate, &child.agent.gate),
            store: Arc::clone(&scope.agent.store),
            source: Arc::clone(&scope.agent.source),
            redaction: scope.agent.redaction.clone(),
            attended: scope.agent.attended,
            steering: feed::own(scope.agent.steering.as_ref(), child.agent.steering),
            follow_ups: feed::own(scope.agent.follow_ups.as_ref(), child.agent.follow_ups),
            ..child.agent
        };
        let work = Some(Arc::clone(&scope.work));
        // What has a log was told.
        let briefing = if log.is_empty() { child.briefing } else { Vec::new() };
        scope.bear(Birth { agent, created, meta, log, store, copy, briefing, work })
    }

    /// Returns what the parent is made of, to make children like it.
    pub fn parent(&self) -> Option<&Agent> {
        self.scope.as_deref().map(|scope| &scope.agent)
    }

    /// Tells whether a sub-agent is at work, and for how long in all there was one that was.
    pub(crate) fn worked(&self) -> (bool, Duration) {
        self.scope.as_ref().map(|scope| scope.work.time()).unwrap_or_default()
    }

    /// Begins to count anew, because the tool of a call that waited runs again: what it makes first
    /// is what it had made first, and what it asks first is what it had asked first.
    pub(crate) fn run_again(&self) {
        let Some(scope) = &self.scope else { return };
        let mut open = scope.lock();
        open.ordinal = 0;
        for (handle, _) in open.live.values() {
            handle.count_prompts_anew();
        }
    }

    /// Tells all sub-agents that the call is being stopped, without waiting for them.
    pub(crate) fn stop(&self) {
        let Some(scope) = &self.scope else { return };
        for id in scope.lock().live.keys() {
            scope.session.tell(*id, Command::Close { reason: CancelReason::Parent });
        }
    }

    /// Ends the scope: cancels all sub-agents, waits until they are down, and makes no more. Any
    /// number may ask for it and wait.
    pub(crate) async fn close(&self) {
        let Some(scope) = &self.scope else { return };
        let downs: Vec<Down> = {
            let mut open = scope.lock();
            open.is_closed = true;
            open.live.values().map(|(_, down)| down.clone()).collect()
        };
        self.stop();
        futures::future::join_all(downs).await;
    }

    /// Ends the scope because the parent's log failed: its run stays open, and so do theirs. They
    /// write nothing more; [`Children::close`] waits until they are down.
    pub(crate) fn let_go(&self, error: &JournalError) {
        let Some(scope) = &self.scope else { return };
        let mut open = scope.lock();
        open.is_closed = true;
        for id in open.live.keys() {
            scope.session.tell(*id, Command::LetGo { error: error.clone() });
        }
    }
}

impl Scope {
    fn key(&self, given: Option<&str>) -> Result<String, AgentError> {
        let mut open = self.open()?;
        if let Some(key) = given {
            return Ok(key.to_owned());
        }
        open.ordinal += 1;
        Ok((open.ordinal - 1).to_string())
    }

    fn find(&self, id: AgentId) -> Result<Option<SessionHandle>, AgentError> {
        let open = self.open()?;
        Ok(open.live.get(&id).map(|(handle, _)| handle.clone()))
    }

    /// Brings a sub-agent to life, unless the call has ended in the meantime.
    fn bear(&self, birth: Birth) -> Result<SessionHandle, AgentError> {
        let mut open = self.open()?;
        let id = birth.meta.id;
        if let Some((handle, _)) = open.live.get(&id) {
            return Ok(handle.clone());
        }
        let (handle, task) = self.session.spawn(birth);
        // A task that panicked is down too.
        let down = task.map(|_| ()).boxed().shared();
        open.live.insert(id, (handle.clone(), down));
        Ok(handle)
    }

    fn child_meta(&self, id: AgentId, created: &Created) -> Arc<AgentMeta> {
        let ancestors = std::iter::once(self.meta.id).chain(self.meta.ancestors.iter().copied());
        Arc::new(AgentMeta {
            id,
            name: created.name.clone(),
            config: created.config.clone(),
            depth: created.depth,
            parent: Some(self.meta.id),
            label: created.label.clone(),
            ancestors: ancestors.collect(),
        })
    }

    /// Returns the scope, unless the call has ended.
    fn open(&self) -> Result<MutexGuard<'_, Open>, AgentError> {
        let open = self.lock();
        if open.is_closed { Err(AgentError::ScopeClosed) } else { Ok(open) }
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes sub-agents of the call, like its agent: they have its effects, each with a mind of its own,
/// its gate, transforms and limits, but neither its middleware nor what keeps its runs going.
#[async_trait::async_trait]
impl AgentCreator for Children {
    async fn new(
        &self,
        model: Arc<dyn Model>,
        system: &str,
        tools: Toolbox,
    ) -> Result<SessionHandle, AgentError> {
        let parent = self.parent().ok_or(AgentError::ScopeClosed)?;
        let agent = Agent {
            model,
            instructions: system.into(),
            tools,
            // What is around the parent's runs, and who keeps them going, is there for those.
            middleware: Vec::new(),
            on_stop: None,
            prompt_gate: None,
            ..parent.clone()
        };
        self.create(Child::new(agent)).await
    }

    async fn new_with_default_model(
        &self,
        system: &str,
        tools: Toolbox,
    ) -> Result<SessionHandle, AgentError> {
        let parent = self.parent().ok_or(AgentError::ScopeClosed)?;
        let model = Arc::clone(&parent.model);
        AgentCreator::new(self, model, system, tools).await
    }
}

impl fmt::Debug for Children {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Children").finish_non_exhaustive()
    }
}
