//! The tools that an agent made for a task gets, and those that it may not have.

use std::fmt;
use std::sync::Arc;

use futures::future::{BoxFuture, join};

use crate::agent::Agent;
use crate::tool::{Scope, ToolSource, Toolbox, ToolboxError, changed};

/// Which tools an agent may have, and all agents below it, whatever their configurations say.
#[derive(Clone, Default)]
pub struct Allowed(Vec<Arc<Rule>>);

/// Tells whether the tool of a name is allowed.
type Rule = dyn Fn(&str) -> bool + Send + Sync;

impl Allowed {
    /// Allows the tools of these names; what one allows is asked for by name each time, so tools that
    /// come later count too.
    pub fn only(is_allowed: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        Self(vec![Arc::new(is_allowed)])
    }

    /// Tells whether a tool is allowed.
    pub fn allows(&self, tool: &str) -> bool {
        self.0.iter().all(|is_allowed| is_allowed(tool))
    }

    /// Allows what both allow.
    #[must_use]
    pub fn and(mut self, other: &Self) -> Self {
        self.0.extend(other.0.iter().cloned());
        self
    }
}

impl fmt::Debug for Allowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Allowed(by {})", self.0.len())
    }
}

/// Tools, and where more come from.
#[derive(Clone, Default)]
pub(super) struct Kit {
    pub(super) tools: Toolbox,
    pub(super) more: Option<Arc<dyn ToolSource>>,
}

impl Kit {
    pub(super) fn of(agent: &Agent) -> Self {
        Self { tools: agent.tools.clone(), more: agent.more_tools.clone() }
    }

    /// Returns all that are there now.
    pub(super) fn now(&self) -> Toolbox {
        match &self.more {
            Some(more) => Toolbox::layered([&self.tools, &more.tools()]),
            None => self.tools.clone(),
        }
    }

    /// Lays it over another one: of tools with one name its own win.
    pub(super) fn over(self, other: &Self) -> Self {
        let more = match (self.more, &other.more) {
            (Some(own), Some(others)) => {
                Some(Arc::new(Both(own, Arc::clone(others))) as Arc<dyn ToolSource>)
            }
            (own, others) => own.or_else(|| others.clone()),
        };
        Self { tools: Toolbox::layered([&self.tools, &other.tools]), more }
    }

    /// Takes the tools of these names, which must be there; `*` is all of them. For one that is not, what
    /// takes a while to say what it has is waited for.
    ///
    /// # Errors
    /// [`ToolboxError::Unknown`] if one is not there.
    pub(super) async fn named(&self, names: &[String]) -> Result<Self, ToolboxError> {
        match (self.named_now(names), &self.more) {
            (Err(ToolboxError::Unknown { .. }), Some(more)) => {
                more.settled().await;
                self.named_now(names)
            }
            (named, _) => named,
        }
    }

    fn named_now(&self, names: &[String]) -> Result<Self, ToolboxError> {
        if names.iter().any(|name| name == ALL) {
            return Ok(self.clone());
        }
        let wanted: Vec<&str> = names.iter().map(String::as_str).collect();
        self.now().scope(Scope::Names(&wanted))?;
        let own: Vec<&str> =
            wanted.into_iter().filter(|name| self.tools.get(name).is_some()).collect();
        let tools = self.tools.scope(Scope::Names(&own))?;
        let kit = Self { tools, more: self.more.clone() };
        Ok(kit.only(&by_name(names)))
    }

    /// Leaves out what is not allowed.
    pub(super) fn only(self, allowed: &Allowed) -> Self {
        let more = self.more.map(|more| {
            let allowed = allowed.clone();
            changed(more, move |tools| tools.filter(|name| allowed.allows(name)))
        });
        Self { tools: self.tools.filter(|name| allowed.allows(name)), more }
    }
}

/// Stands for all names.
const ALL: &str = "*";

/// Allows tools by their names; `*` is all of them.
pub(super) fn by_name(names: &[String]) -> Allowed {
    let names = names.to_owned();
    Allowed::only(move |tool| names.iter().any(|name| name == tool || name == ALL))
}

/// The tools of two sources; of one name those of the first.
struct Both(Arc<dyn ToolSource>, Arc<dyn ToolSource>);

impl ToolSource for Both {
    fn tools(&self) -> Toolbox {
        Toolbox::layered([&self.0.tools(), &self.1.tools()])
    }

    fn settled(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            join(self.0.settled(), self.1.settled()).await;
        })
    }
}
