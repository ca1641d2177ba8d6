//! The tools of an agent, in order.

use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;

use bowline_llm::{ToolBlock, ToolSpec};

use super::DynTool;

/// Tools in the order in which the model is told of them.
#[derive(Clone, Default)]
pub struct Toolbox {
    // Shared, so that a clone costs nothing.
    tools: Arc<Vec<(ToolSpec, Arc<dyn DynTool>)>>,
}

/// Which tools of a toolbox to take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope<'a> {
    /// All of them.
    All,
    /// Those with these names, in the order of the names; none if there are no names.
    Names(&'a [&'a str]),
}

/// Where tools come from that come and go, such as those of servers.
pub trait ToolSource: Send + Sync {
    /// Returns the tools that are there now.
    fn tools(&self) -> Toolbox;

    /// Waits until it is known which tools there are, where that takes a while, such as the start of a
    /// server; by default it is known.
    fn settled(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// Makes a source whose tools are those of another, as `change` returns them.
pub fn changed(
    from: Arc<dyn ToolSource>,
    change: impl Fn(Toolbox) -> Toolbox + Send + Sync + 'static,
) -> Arc<dyn ToolSource> {
    Arc::new(Changed { from, change })
}

struct Changed<F> {
    from: Arc<dyn ToolSource>,
    change: F,
}

impl<F: Fn(Toolbox) -> Toolbox + Send + Sync> ToolSource for Changed<F> {
    fn tools(&self) -> Toolbox {
        (self.change)(self.from.tools())
    }

    fn settled(&self) -> BoxFuture<'_, ()> {
        self.from.settled()
    }
}

/// A toolbox that cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ToolboxError {
    /// Two different tools have one name.
    #[error("two tools are named {0:?}")]
    Duplicate(String),
    /// There is no such tool.
    #[error("there is no tool {name:?}; there are {known}")]
    Unknown {
        /// The name asked for.
        name: String,
        /// The names there are.
        known: String,
    },
}

impl Toolbox {
    /// Adds a tool. Adding the very same tool again changes nothing.
    ///
    /// # Errors
    /// [`ToolboxError::Duplicate`] if another tool has the name.
    pub fn add(&mut self, tool: Arc<dyn DynTool>) -> Result<(), ToolboxError> {
        let spec = tool.spec();
        match self.find(&spec.name) {
            Some((_, present)) if is_same(present, &tool) => Ok(()),
            Some(_) => Err(ToolboxError::Duplicate(spec.name)),
            None => {
                Arc::make_mut(&mut self.tools).push((spec, tool));
                Ok(())
            }
        }
    }

    /// Adds a tool and returns the toolbox.
    ///
    /// # Errors
    /// As [`Toolbox::add`].
    pub fn with(mut self, tool: impl DynTool + 'static) -> Result<Self, ToolboxError> {
        self.add(Arc::new(tool))?;
        Ok(self)
    }

    /// Adds all tools of another toolbox; tools that both have are added once.
    ///
    /// # Errors
    /// [`ToolboxError::Duplicate`] if different tools have one name. Nothing is added then.
    pub fn add_all(&mut self, other: &Self) -> Result<(), ToolboxError> {
        let mut all = self.clone();
        for (_, tool) in other.tools.iter() {
            all.add(Arc::clone(tool))?;
        }
        *self = all;
        Ok(())
    }

    /// Lays toolboxes over each other: of tools with one name the first wins.
    pub fn layered<'a>(boxes: impl IntoIterator<Item = &'a Self>) -> Self {
        let mut all = Self::default();
        for (spec, tool) in boxes.into_iter().flat_map(|toolbox| &*toolbox.tools) {
            if all.find(&spec.name).is_none() {
                Arc::make_mut(&mut all.tools).push((spec.clone(), Arc::clone(tool)));
            }
        }
        all
    }

    /// Returns a toolbox of some of these tools; the tools themselves are shared.
    ///
    /// # Errors
    /// [`ToolboxError::Unknown`] if there is no tool of a name.
    pub fn scope(&self, scope: Scope<'_>) -> Result<Self, ToolboxError> {
        let names = match scope {
            Scope::All => return Ok(self.clone()),
            Scope::Names(names) => names,
        };
        let mut scoped = Self::default();
        for name in names {
            let (spec, tool) = self.find(name).ok_or_else(|| ToolboxError::Unknown {
                name: (*name).to_owned(),
                known: self.names().collect::<Vec<_>>().join(", "),
            })?;
            if scoped.find(name).is_none() {
                Arc::make_mut(&mut scoped.tools).push((spec.clone(), Arc::clone(tool)));
            }
        }
        Ok(scoped)
    }

    /// Returns a toolbox of the tools whose names are wanted; the tools themselves are shared.
    pub(crate) fn filter(&self, is_wanted: impl Fn(&str) -> bool) -> Self {
        if self.names().all(&is_wanted) {
            return self.clone();
        }
        let tools = self.tools.iter().filter(|(spec, _)| is_wanted(&spec.name)).cloned();
        Self { tools: Arc::new(tools.collect()) }
    }

    /// Returns the tool of a name.
    pub fn get(&self, name: &str) -> Option<Arc<dyn DynTool>> {
        self.find(name).map(|(_, tool)| Arc::clone(tool))
    }

    /// Iterates over the names in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tools.iter().map(|(spec, _)| spec.name.as_str())
    }

    /// Returns how many tools there are.
    pub fn len(&self) -> usize {
        self.tools.len()
    }

    /// Tells whether there is no tool.
    pub fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }

    /// Returns what a model is told of the tools.
    pub fn block(&self) -> ToolBlock {
        ToolBlock::new(self.tools.iter().map(|(spec, _)| spec.clone()).collect())
    }

    fn find(&self, name: &str) -> Option<&(ToolSpec, Arc<dyn DynTool>)> {
        self.tools.iter().find(|(spec, _)| spec.name == name)
    }
}

fn is_same(a: &Arc<dyn DynTool>, b: &Arc<dyn DynTool>) -> bool {
    std::ptr::addr_eq(Arc::as_ptr(a), Arc::as_ptr(b))
}

impl fmt::Debug for Toolbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}
