//! What the tests of this crate share: a place to work, and a way to call tools.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bowline_agent::id::SystemSource;
use bowline_agent::tool::{DynTool, ToolContext, ToolError, ToolOutput};
use bowline_llm::{Part, text_of};
use bowline_tools::process::{Helper, Processes};
use bowline_tools::{Environment, Workspace};
use rustix::process::Pid;
use serde_json::Value;

/// A folder to work in, a folder for what tools keep, and a way to call tools.
pub(crate) struct Desk {
    pub(crate) root: tempfile::TempDir,
    pub(crate) workspace: Workspace,
    pub(crate) cx: ToolContext,
}

impl Desk {
    pub(crate) fn new() -> Self {
        Self::with(helper())
    }

    pub(crate) fn with(helper: Helper) -> Self {
        let root = tempfile::tempdir().unwrap();
        let cwd = root.path().canonicalize().unwrap().join("work");
        std::fs::create_dir(&cwd).unwrap();
        let mut environment = Environment::default();
        environment.set("PATH", "/usr/local/bin:/usr/bin:/bin");
        let workspace = Workspace {
            cwd,
            environment,
            processes: Arc::new(Processes::new(helper)),
            scratch: root.path().join("scratch"),
            guard: Arc::new(bowline_tools::guard::Open),
        };
        let kept = Some(root.path().join("session"));
        let cx = ToolContext::standalone(Arc::new(SystemSource), kept);
        Self { root, workspace, cx }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.workspace.cwd.join(name)
    }

    pub(crate) fn put(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        path
    }

    pub(crate) fn get(&self, name: &str) -> String {
        String::from_utf8(std::fs::read(self.path(name)).unwrap()).unwrap()
    }

    /// Calls a tool as the loop does, and returns its text.
    pub(crate) async fn call(
        &self,
        tool: impl DynTool,
        arguments: Value,
    ) -> Result<String, ToolError> {
        self.call_again(&Arc::new(tool), arguments).await
    }

    /// As [`Desk::call`], of a tool that keeps something between its calls.
    pub(crate) async fn call_again(
        &self,
        tool: &Arc<impl DynTool>,
        arguments: Value,
    ) -> Result<String, ToolError> {
        self.parts(tool, arguments).await.map(|parts| text_of(&parts))
    }

    pub(crate) async fn parts(
        &self,
        tool: &Arc<impl DynTool>,
        arguments: Value,
    ) -> Result<Vec<Part>, ToolError> {
        let prepared = Arc::clone(tool).prepare(&arguments.to_string())?;
        match (prepared.run)(self.cx.clone()).await? {
            ToolOutput::Content(parts) | ToolOutput::Concluded { content: parts, .. } => Ok(parts),
            ToolOutput::Waiting(wake) => panic!("the tool waits for {wake:?}"),
        }
    }
}

/// Returns the helper process of this crate.
pub(crate) fn helper() -> Helper {
    Helper::Program(env!("CARGO_BIN_EXE_bowline-helper").into())
}

/// Longer than anything takes here, however slow the machine is.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until something holds.
pub(crate) async fn until(what: &str, holds: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "never: {what}");
        tokio::time::sleep(Duration::from_millis(3)).await;
    }
}

/// Makes a call for which time stands still until something holds, and then passes at once. What the call
/// waits for comes before its time is up, however slow the machine is.
pub(crate) async fn with_time_held<T>(
    call: impl Future<Output = T>,
    what: &str,
    holds: impl Fn() -> bool,
    passes: Duration,
) -> T {
    tokio::time::pause();
    let is_held = std::cell::Cell::new(true);
    let clock = async {
        let deadline = Instant::now() + PATIENCE;
        // As long as there is something to do, time does not go on by itself.
        while !holds() {
            assert!(Instant::now() < deadline, "never: {what}");
            tokio::task::yield_now().await;
        }
        tokio::time::advance(passes).await;
        tokio::time::resume();
        is_held.set(false);
        std::future::pending::<std::convert::Infallible>().await
    };
    let result = tokio::select! {
        result = call => result,
        never = clock => match never {},
    };
    if is_held.get() {
        tokio::time::resume();
    }
    result
}

/// Waits until commands have written their process ids to files, and returns them.
pub(crate) async fn pids<const N: usize>(folder: &Path, names: [&str; N]) -> [Pid; N] {
    let read = |name: &str| -> Option<Pid> {
        let text = std::fs::read_to_string(folder.join(name)).ok()?;
        text.strip_suffix('\n').and_then(|pid| Pid::from_raw(pid.trim().parse().ok()?))
    };
    until("all pid files are there", || names.iter().all(|name| read(name).is_some())).await;
    names.map(|name| read(name).unwrap())
}

/// Tells whether a process exists, other than as a zombie.
pub(crate) fn is_alive(pid: Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
    stat.is_ok_and(|stat| !stat.rsplit(')').next().unwrap().starts_with(" Z"))
}

/// Returns the text of a failure that the model is told.
pub(crate) fn failure(result: Result<String, ToolError>) -> String {
    match result {
        Err(ToolError::Failed(text)) => text,
        Ok(text) => panic!("it did not fail: {text}"),
        Err(ToolError::TimedOut(text)) => panic!("it timed out: {text}"),
        Err(ToolError::Fatal(error)) => panic!("it was fatal: {error}"),
    }
}
