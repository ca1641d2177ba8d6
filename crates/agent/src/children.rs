//! Sub-agents: they exist only inside a tool call, and end with it.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::task::JoinHandle;

use bowline_llm::{CallId, Model};

use crate::agent::Agent;
use crate::entry::{Created, Parent};
use crate::error::AgentError;
use crate::event::{AgentMeta, Phase};
use crate::fork;
use crate::handle::SessionHandle;
use crate::id::AgentId;
use crate::mailbox::Command;
use crate::op::CancelReason;
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
    /// What it is made of. Store, source of ids and whether it is attended are the parent's,
    /// whatever stands here.
    pub agent: Agent,
    /// Tells the children of one call apart, so that a call that runs again finds each of them.
    /// `None` counts them in order of creation: then they must not be made concurrently.
    pub key: Option<String>,
    /// What to call it in events.
    pub label: Option<String>,
    /// How its conversation begins.
    pub from: From,
}

/// How a sub-agent's conversation begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum From {
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
    open: Mutex<Option<Open>>,
}

#[derive(Default)]
struct Open {
    ordinal: u32,
    live: HashMap<AgentId, (SessionHandle, JoinHandle<()>)>,
}

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
        let open = Mutex::new(Some(Open::default()));
        Self { scope: Some(Arc::new(Scope { session, agent, meta, call, open })) }
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
        let log = scope.session.log.journal(id).read().await?;
        let copy = match child.from {
            From::Fork if log.is_empty() => {
                let parent = scope.session.log.journal(scope.meta.id).read().await?;
                let blobs = scope.session.log.blobs();
                let (session, agent) = (scope.session.id, scope.meta.id);
                Some(fork::copy_agent(session, agent, &parent, blobs)?)
            }
            From::Fork | From::Fresh => None,
        };
        let created = turn::created(&log).unwrap_or_else(|| Created {
            session: scope.session.id,
            name: scope.session.name(id, &child.agent.name),
            config: child.agent.name.clone(),
            label: child.label,
            depth: scope.meta.depth + 1,
            parent: Some(Parent { agent: scope.meta.id, call: scope.call.clone(), key }),
            from: copy.as_ref().map(|copy| copy.origin.clone()),
            cwd: None,
        });
        let meta = scope.child_meta(id, &created);
        let agent = Agent {
            store: Arc::clone(&scope.agent.store),
            source: Arc::clone(&scope.agent.source),
            attended: scope.agent.attended,
            ..child.agent
        };
        scope.bear(Birth { agent, created, meta, log, copy })
    }

    /// Returns what the parent is made of, to make children like it.
    pub fn parent(&self) -> Option<&Agent> {
        self.scope.as_deref().map(|scope| &scope.agent)
    }

    /// Prepares for a tool that runs again: it makes the same sub-agents and gives them the same
    /// prompts, so both are counted from the beginning.
    pub(crate) fn again(&self) {
        let Some(scope) = &self.scope else { return };
        if let Some(open) = scope.lock().as_mut() {
            open.ordinal = 0;
            for (handle, _) in open.live.values_mut() {
                *handle = handle.again();
            }
        }
    }

    /// Tells whether a sub-agent is at work.
    pub(crate) fn is_busy(&self) -> bool {
        let Some(scope) = &self.scope else { return false };
        let open = scope.lock();
        open.iter()
            .flat_map(|open| open.live.values())
            .any(|(child, _)| child.status() != Phase::Idle)
    }

    /// Ends the scope: cancels all sub-agents, waits until they are down, and makes no more.
    pub(crate) async fn close(&self) {
        let Some(scope) = &self.scope else { return };
        let Some(open) = scope.lock().take() else { return };
        for id in open.live.keys() {
            scope.session.tell(*id, Command::Close { reason: CancelReason::Parent });
        }
        for (_, task) in open.live.into_values() {
            // A task that panicked is down too.
            let _ = task.await;
        }
    }
}

impl Scope {
    fn key(&self, given: Option<&str>) -> Result<String, AgentError> {
        let mut open = self.lock();
        let open = open.as_mut().ok_or(AgentError::ScopeClosed)?;
        if let Some(key) = given {
            return Ok(key.to_owned());
        }
        open.ordinal += 1;
        Ok((open.ordinal - 1).to_string())
    }

    fn find(&self, id: AgentId) -> Result<Option<SessionHandle>, AgentError> {
        let open = self.lock();
        let open = open.as_ref().ok_or(AgentError::ScopeClosed)?;
        Ok(open.live.get(&id).map(|(handle, _)| handle.clone()))
    }

    /// Brings a sub-agent to life, unless the call has ended in the meantime.
    fn bear(&self, birth: Birth) -> Result<SessionHandle, AgentError> {
        let mut open = self.lock();
        let open = open.as_mut().ok_or(AgentError::ScopeClosed)?;
        let id = birth.meta.id;
        if let Some((handle, _)) = open.live.get(&id) {
            return Ok(handle.clone());
        }
        let (handle, task) = self.session.spawn(birth);
        open.live.insert(id, (handle.clone(), task));
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

    fn lock(&self) -> MutexGuard<'_, Option<Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes sub-agents of the call.
#[async_trait::async_trait]
impl AgentCreator for Children {
    async fn new(
        &self,
        model: Arc<dyn Model>,
        system: &str,
        tools: Toolbox,
    ) -> Result<SessionHandle, AgentError> {
        let parent = self.parent().ok_or(AgentError::ScopeClosed)?;
        let agent = Agent { model, instructions: system.into(), tools, ..parent.clone() };
        self.create(Child { agent, key: None, label: None, from: From::Fresh }).await
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
