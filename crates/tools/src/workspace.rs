//! Where tools work.

use std::borrow::Cow;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use bowline_agent::event::AgentMeta;
use bowline_agent::id::{AgentId, SessionId};
use bowline_agent::on_end::OnEnd;
use bowline_agent::tool::{ToolContext, ToolError};
use bowline_agent::visible::name;

use crate::bash::GRACE;
use crate::confined;
use crate::environment::Environment;
use crate::guard::Guard;
use crate::process::Processes;

/// Where tools work: a folder, an environment, and a way to run commands.
#[derive(Debug, Clone)]
pub struct Workspace {
    /// The absolute path of the folder from which relative paths start and in which commands run.
    pub cwd: PathBuf,
    /// What commands see of the environment.
    pub environment: Environment,
    /// What starts commands; agents of one session share it.
    pub processes: Arc<Processes>,
    /// A folder for output of sessions that have none of their own; it is made when needed, and
    /// whoever chose it removes it.
    pub scratch: PathBuf,
    /// What says what calls may touch when they touch it.
    pub guard: Arc<dyn Guard>,
}

impl Workspace {
    /// Ends all commands of a session, also what they have left in the background; returns when
    /// nothing is left of them. They are asked to end and after `grace` are killed.
    pub async fn end_session(&self, session: SessionId, grace: Duration) {
        self.processes.end_owner(&session.to_string(), grace).await;
        confined::remove_temporary(&self.scratch, &session.to_string());
    }

    /// Ends all commands of one agent, as [`Workspace::end_session`] does.
    pub async fn end_agent(&self, session: SessionId, agent: AgentId, grace: Duration) {
        self.processes.end_owner(&owner(session, agent), grace).await;
        confined::remove_temporary(&self.scratch, &owner(session, agent));
    }

    /// Returns an absolute path without `.` and `..`, which are resolved by name alone. What is shown in
    /// quotes is taken in quotes.
    pub(crate) fn resolve(&self, path: &str) -> PathBuf {
        if let Some(path) = name::read(path) {
            return normalize(&self.cwd.join(path));
        }
        let path = match (path.strip_prefix("~/"), self.environment.get("HOME")) {
            (Some(rest), Some(home)) => Path::new(home).join(rest),
            (Some(_), None) | (None, _) => self.cwd.join(path),
        };
        normalize(&path)
    }

    /// Returns a path as the model should see it: relative if it is in the working folder, and in quotes
    /// if it would not be seen as it is.
    pub(crate) fn shown<'a>(&self, path: &'a Path) -> Cow<'a, str> {
        name::shown(self.relative(path))
    }

    /// Returns a path relative to the working folder, if it is in there.
    pub(crate) fn relative<'a>(&self, path: &'a Path) -> &'a Path {
        let relative = path.strip_prefix(&self.cwd).ok();
        relative.filter(|path| !path.as_os_str().is_empty()).unwrap_or(path)
    }

    /// Returns the folder for what tools keep of a session; it may not exist yet.
    pub(crate) fn folder(&self, cx: &ToolContext) -> PathBuf {
        cx.folder().map_or_else(|| self.scratch.join(cx.session.to_string()), Path::to_path_buf)
    }
}

/// Ends the commands of an agent that is down, and with the first agent of a session those of all.
#[async_trait]
impl OnEnd for Workspace {
    async fn on_end(&self, session: SessionId, agent: &AgentMeta) {
        match agent.parent {
            None => self.end_session(session, GRACE).await,
            Some(_) => self.end_agent(session, agent.id, GRACE).await,
        }
    }
}

/// Returns the owner of an agent's commands.
pub(crate) fn owner(session: SessionId, agent: AgentId) -> String {
    format!("{session}/{agent}")
}

/// A file larger than this is not read on a thread that serves others too.
///
/// Reading and hashing this much takes a fraction of a millisecond, not much more than handing the
/// work over.
const LARGE: u64 = 256 * 1024;

/// Does work on a file, on a thread of its own if the file is large.
pub(crate) async fn off_thread_if_large<T: Send + 'static>(
    path: PathBuf,
    work: impl FnOnce() -> Result<T, ToolError> + Send + 'static,
) -> Result<T, ToolError> {
    if path.metadata().is_ok_and(|meta| meta.len() > LARGE) {
        let done = tokio::task::spawn_blocking(work).await;
        done.unwrap_or_else(|error| Err(ToolError::Fatal(error.into())))
    } else {
        work()
    }
}

/// Removes `.` and `..` from an absolute path by name alone.
fn normalize(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => drop(normal.pop()),
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => {
                normal.push(component);
            }
        }
    }
    normal
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_resolved_by_name() {
        let mut environment = Environment::default();
        environment.set("HOME", "/home/me");
        let workspace = Workspace {
            cwd: "/project/here".into(),
            environment,
            processes: Arc::default(),
            scratch: "/tmp/x".into(),
            guard: Arc::new(crate::guard::Open),
        };
        assert_eq!(workspace.resolve("a/./b/../c"), Path::new("/project/here/a/c"));
        assert_eq!(workspace.resolve("../../../../etc"), Path::new("/etc"));
        assert_eq!(workspace.resolve("~/x"), Path::new("/home/me/x"));
        assert_eq!(workspace.resolve(""), Path::new("/project/here"));
        assert_eq!(workspace.resolve(r#""a\nb/../c""#), Path::new("/project/here/c\""));
        assert_eq!(workspace.resolve(r#""a\nb""#), Path::new("/project/here/a\nb"));
        assert_eq!(workspace.shown(Path::new("/project/here/a\nb")), r#""a\nb""#);
        assert_eq!(workspace.shown(Path::new("/project/here/a")), "a");
        assert_eq!(workspace.shown(Path::new("/project/here")), "/project/here");
    }
}
