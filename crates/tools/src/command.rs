//! Tools that are commands, as a configuration describes them.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};

use bowline_agent::tool::{
    Access, Deadline, DynTool, Prepared, Recovery, ToolContext, ToolError, ToolOutput,
};
use bowline_llm::ToolSpec;

use crate::configured::Described;
use crate::run::{Program, run};
use crate::template::{Template, plain};
use crate::workspace::Workspace;

/// What a configured tool runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommandLine {
    /// A program and its arguments, without a shell. What stands in braces in an argument, but not
    /// in the program, is an argument of the call.
    Program(Vec<String>),
    /// A script for bash. It finds the arguments of the call in variables: `$ARG_name`, and all of
    /// them as JSON in `$ARGUMENTS`. Nothing is put into its text.
    Script(String),
}

/// How a configured tool runs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandConfig {
    /// What is run.
    pub line: CommandLine,
    /// More variables for it.
    pub env: Vec<(String, String)>,
    /// The folder it runs in, from the working directory; `None` is that.
    pub cwd: Option<String>,
    /// How long it may take, if that is less than any tool may.
    pub timeout: Option<Duration>,
}

/// A tool that is a command.
#[derive(Debug)]
pub struct CommandTool {
    described: Described,
    config: CommandConfig,
    // Of a program: what it is called with.
    arguments: Vec<Template>,
    workspace: Workspace,
}

/// What one call runs.
struct Line {
    program: PathBuf,
    arguments: Vec<String>,
    variables: Vec<(String, String)>,
}

impl CommandTool {
    /// Makes the tool for a workspace.
    ///
    /// # Errors
    /// What is wrong with it, in words for a person.
    pub fn new(
        described: Described,
        config: CommandConfig,
        workspace: Workspace,
    ) -> Result<Self, String> {
        let names = described.names();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let arguments = match &config.line {
            CommandLine::Script(script) if script.trim().is_empty() => {
                return Err("the script is empty".to_owned());
            }
            CommandLine::Script(_) => Vec::new(),
            CommandLine::Program(line) => {
                let (program, arguments) = line.split_first().ok_or("the command is empty")?;
                if program.is_empty() || Template::parse(program, &names)?.names().next().is_some()
                {
                    return Err(format!("{program:?} is no program; no argument can name it"));
                }
                let templates = arguments.iter().map(|text| Template::parse(text, &names));
                templates.collect::<Result<_, String>>()?
            }
        };
        Ok(Self { described, config, arguments, workspace })
    }

    fn line(&self, arguments: &Map<String, Value>) -> Result<Line, ToolError> {
        match &self.config.line {
            CommandLine::Program(line) => {
                let program = line.first().map(String::as_str).unwrap_or_default();
                let arguments = self.filled(arguments)?;
                Ok(Line { program: self.program(program)?, arguments, variables: Vec::new() })
            }
            CommandLine::Script(script) => {
                let all = ("ARGUMENTS".to_owned(), Value::Object(arguments.clone()).to_string());
                let each =
                    arguments.iter().map(|(name, value)| (format!("ARG_{name}"), plain(value)));
                let variables: Vec<_> = each.chain([all]).collect();
                if variables.iter().any(|(_, value)| value.contains('\0')) {
                    return Err(ToolError::failed("an argument has a zero byte in it"));
                }
                let program = self.workspace.environment.shell();
                let arguments = vec!["-c".to_owned(), script.clone()];
                Ok(Line { program, arguments, variables })
            }
        }
    }

    /// Returns the arguments of the program. What a model writes is never taken for an option, but
    /// behind `--`.
    fn filled(&self, arguments: &Map<String, Value>) -> Result<Vec<String>, ToolError> {
        let mut filled: Vec<String> = Vec::with_capacity(self.arguments.len());
        let mut is_behind = false;
        for template in &self.arguments {
            let text = template.fill(arguments, plain);
            let first = template.first().and_then(|name| arguments.get(name));
            let is_text = !first.is_some_and(Value::is_number);
            if !is_behind && template.first().is_some() && is_text && text.starts_with('-') {
                return Err(ToolError::Failed(format!("{text:?} may not begin with -")));
            }
            if text.contains('\0') {
                return Err(ToolError::failed("an argument has a zero byte in it"));
            }
            is_behind |= text == "--";
            filled.push(text);
        }
        Ok(filled)
    }

    fn program(&self, name: &str) -> Result<PathBuf, ToolError> {
        if name.contains('/') {
            return Ok(self.workspace.resolve(name));
        }
        let found = self.workspace.environment.program(name);
        found.ok_or_else(|| ToolError::Failed(format!("{name} is not installed")))
    }

    async fn run(&self, line: Line, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let mut environment = self.workspace.environment.clone();
        // What a model writes comes last: no variable of its own takes its place.
        for (name, value) in self.config.env.iter().chain(&line.variables) {
            environment.set(name, value);
        }
        let program = Program {
            path: line.program,
            arguments: line.arguments,
            environment: environment.variables().to_vec(),
            cwd: self.workspace.resolve(self.config.cwd.as_deref().unwrap_or_default()),
            time: self.config.timeout,
        };
        Ok(run(&self.workspace, program, cx).await?.into())
    }
}

impl DynTool for CommandTool {
    fn spec(&self) -> ToolSpec {
        self.described.spec()
    }

    fn prepare(self: Arc<Self>, arguments: &str) -> Result<Prepared, ToolError> {
        let arguments = self.described.read(arguments)?;
        let line = self.line(&arguments)?;
        let shown = match &self.config.line {
            CommandLine::Program(program) => {
                let name = program.first().into_iter().chain(&line.arguments);
                name.map(|part| quoted(part)).collect::<Vec<_>>().join(" ")
            }
            CommandLine::Script(_) => {
                format!("{} {}", self.described.name, Value::Object(arguments))
            }
        };
        Ok(Prepared {
            access: Access::execute(shown),
            recovery: Recovery::Unknown,
            deadline: Deadline::Own,
            run: Box::new(move |cx| Box::pin(async move { self.run(line, &cx).await })),
        })
    }
}

/// Writes a part of a command for a person.
fn quoted(part: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
    if !part.is_empty() && part.chars().all(is_plain) {
        part.to_owned()
    } else {
        format!("{part:?}")
    }
}
