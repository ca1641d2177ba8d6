//! A folder to work in, and a way to call tools.

use std::collections::BTreeMap;
use std::fs;
use std::net::IpAddr;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use bowline_agent::id::SystemSource;
use bowline_agent::tool::{DynTool, ToolContext, ToolError, ToolOutput};
use bowline_llm::{CallId, text_of};
use bowline_tools::guard::{Confinement, Guard, Reach, Want};
use bowline_tools::process::{Helper, Processes};
use bowline_tools::{Environment, Workspace};
use tempfile::TempDir;

pub(crate) struct Desk {
    root: TempDir,
    pub(crate) workspace: Workspace,
}

/// Refuses what is outside of a folder: a text may name any file of the machine.
#[derive(Debug)]
struct Within(PathBuf);

impl Guard for Within {
    fn check(&self, _: &CallId, path: &Path, _: Want) -> Result<(), String> {
        path.starts_with(&self.0).then_some(()).ok_or_else(|| "outside".to_owned())
    }

    fn check_host(&self, _: &CallId, _: &str) -> Result<Reach, String> {
        Err("outside".to_owned())
    }

    fn names(&self, _: IpAddr) -> bool {
        false
    }

    fn confinement(&self, _: &CallId, _: &str) -> Result<Option<Confinement>, String> {
        Err("outside".to_owned())
    }
}

impl Desk {
    /// Makes a desk with these files in its folder.
    pub(crate) fn with(files: &[(&str, &str)]) -> Self {
        let root = in_memory();
        let real = root.path().canonicalize().unwrap();
        let cwd = real.join("all/work");
        for (name, text) in files {
            let path = cwd.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let workspace = Workspace {
            cwd,
            environment: Environment::default(),
            processes: Arc::new(Processes::new(Helper::Own)),
            scratch: real.join("scratch"),
            guard: Arc::new(Within(real.join("all"))),
        };
        Self { root, workspace }
    }

    /// Calls a tool as the loop does.
    pub(crate) fn call(
        &self,
        tool: impl DynTool,
        arguments: &serde_json::Value,
    ) -> Result<String, String> {
        let kept = Some(self.root.path().join("session"));
        let cx = ToolContext::standalone(Arc::new(SystemSource), kept);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let outcome = Arc::new(tool)
            .prepare(&arguments.to_string())
            .map(|prepared| runtime.block_on((prepared.run)(cx)));
        match outcome.unwrap_or_else(Err) {
            Ok(ToolOutput::Content(parts) | ToolOutput::Concluded { content: parts, .. }) => {
                Ok(text_of(&parts))
            }
            Ok(ToolOutput::Waiting(wake)) => panic!("it waits for {wake:?}"),
            Err(ToolError::Failed(text) | ToolError::TimedOut(text)) => Err(text),
            Err(ToolError::Fatal(error)) => panic!("it is fatal: {error}"),
        }
    }

    /// Reads all that a tool may have touched, by paths that are seen from the folder.
    pub(crate) fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut files = BTreeMap::new();
        let mut folders = vec![self.root.path().join("all")];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    files.insert(path.clone(), fs::read(path).unwrap());
                }
            }
        }
        files
    }

    /// Returns where a path leads that is seen from the folder. There are no links.
    pub(crate) fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        let mut real = PathBuf::new();
        for part in self.workspace.cwd.join(path).components() {
            match part {
                Component::ParentDir => _ = real.pop(),
                Component::CurDir => {}
                part => real.push(part),
            }
        }
        real
    }
}

/// Makes a folder that is no burden to any disk, where there is memory for that.
pub(crate) fn in_memory() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}
