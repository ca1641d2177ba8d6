//! The rules through their doors: the engine of a configured agent, and what it says of calls.

mod commands;
mod confining;
mod deciding;
mod keeping;

use std::path::PathBuf;
use std::sync::Arc;

use tempfile::TempDir;

use bowline_agent::event::AgentMeta;
use bowline_agent::gate::{Gate as _, Review, Verdict};
use bowline_agent::op;
use bowline_agent::tool::{Access, PathSet};
use bowline_llm::ToolCall;

use crate::Runtime;
use crate::config::{self, Flags, Mode, Said, Trust};
use crate::environment::{Environment, Folders};
use crate::permission::{Decision, Engine, Judgement, Rule};
use crate::test_machine::folder_with;

/// A machine with files: `etc`, `config` and `home` of the user, `work` for the project.
pub(super) struct Machine(TempDir);

impl Machine {
    pub(super) fn new(files: &[(&str, &str)]) -> Self {
        let folders = ["etc", "config", "home", "work/src", "work/.git"];
        Self(folder_with(&folders, files))
    }

    pub(super) fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    fn put(&self, path: &str) {
        std::fs::write(self.path(path), "").unwrap();
    }

    fn link(&self, link: &str, target: &str) {
        let link = self.path(link);
        let _ = std::fs::remove_file(&link);
        std::os::unix::fs::symlink(self.path(target), link).unwrap();
    }

    fn load(&self, flags: Flags) -> Result<Runtime, String> {
        let folders = Folders {
            system: self.path("etc"),
            config: self.path("config"),
            data: self.path("data"),
            cache: self.path("cache"),
        };
        let home = self.path("home").display().to_string();
        let environment =
            Environment { vars: [("HOME".to_owned(), home)].into(), cwd: self.path("work") };
        let said = Said { flags, ..Said::default() };
        let (loaded, faults) = config::read_all(&folders, &environment, &said, Trust::Project);
        match faults.first() {
            Some(fault) => {
                Err(fault.to_string().replace(&format!("{}/", self.0.path().display()), ""))
            }
            None => Ok(Runtime::with(environment, folders, loaded).taken_as_confined()),
        }
    }

    fn runtime(&self) -> Runtime {
        self.load(Flags::default()).unwrap()
    }

    fn engine(&self, flags: Flags) -> Engine {
        let runtime = self.load(flags).unwrap();
        runtime.engine(&runtime.agent_config("default").unwrap(), &[], false).unwrap()
    }

    fn in_mode(&self, mode: Mode) -> Engine {
        self.engine(Flags { mode: Some(mode), ..Flags::default() })
    }

    fn read(&self, path: &str) -> Call {
        Call::new("read", Access::read(self.path(path)))
    }

    fn write(&self, path: &str) -> Call {
        Call::new("write", Access::write(self.path(path)))
    }
}

/// Makes an engine in `ask` mode of what a user's configuration says of permissions.
fn asking(permissions: &str) -> (Machine, Engine) {
    let machine = Machine::new(&[("config/config.toml", &format!("[permissions]\n{permissions}"))]);
    let engine = machine.in_mode(Mode::Ask);
    (machine, engine)
}

/// A call that a model makes.
pub(super) struct Call {
    call: ToolCall,
    access: Access,
}

impl Call {
    fn new(tool: &str, access: Access) -> Self {
        Self::with(tool, "{}", access)
    }

    fn with(tool: &str, arguments: &str, access: Access) -> Self {
        let call =
            ToolCall { id: "call".into(), name: tool.to_owned(), arguments: arguments.to_owned() };
        Self { call, access }
    }

    fn host(host: &str) -> Self {
        Self::new("fetch", Access { network: vec![host.to_owned()], ..Access::none() })
    }

    fn delegate(agent: &str) -> Self {
        let arguments = format!(r#"{{"tasks":[{{"agent":"{agent}","task":"x"}}]}}"#);
        Self::with("delegate", &arguments, Access::none())
    }

    fn judged(&self, engine: &Engine) -> Judgement {
        let meta = meta();
        engine.judge(&self.review(&meta, None))
    }

    fn decided(&self, engine: &Engine) -> Decision {
        self.judged(engine).decision
    }

    async fn gated(&self, engine: &Engine, decision: Option<&op::Decision>) -> Verdict {
        engine.review(&self.review(&meta(), decision)).await
    }

    fn review<'a>(
        &'a self,
        agent: &'a Arc<AgentMeta>,
        decision: Option<&'a op::Decision>,
    ) -> Review<'a> {
        Review { call: &self.call, access: &self.access, agent, decision, granted: &[] }
    }

    fn suggested(&self) -> Option<String> {
        Rule::suggested(&self.review(&meta(), None)).map(|rule| rule.to_string())
    }
}

fn bash(command: &str) -> Call {
    Call::new("bash", Access::execute(command))
}

fn writes(paths: impl IntoIterator<Item = PathBuf>) -> Access {
    Access { writes: paths.into_iter().collect::<PathSet>(), ..Access::none() }
}

fn meta() -> Arc<AgentMeta> {
    Arc::new(AgentMeta {
        id: bowline_agent::id::SessionId::from(uuid::Uuid::nil()).root(),
        name: "default".to_owned(),
        config: "default".to_owned(),
        depth: 0,
        parent: None,
        label: None,
        ancestors: Arc::default(),
    })
}
