//! `bowline exec --dump-prompt`: what a model would be told first, and how much of it there is.

use std::io::{self, Write};
use std::process::ExitCode;

use bowline_runtime::prompt::{Dump, Size};
use bowline_runtime::provider::ModelName;
use bowline_runtime::{Choice, Runtime};
use serde_json::json;

use crate::args::Exec;
use crate::exec;
use crate::exit::Failure;
use crate::print;
use crate::screen;
use crate::sessions::printed;

/// Prints what the first request would say; nobody is asked anything.
pub(crate) fn run(args: &Exec) -> Result<ExitCode, Failure> {
    let said = args.said();
    let runtime = Runtime::new(exec::environment(args)?, &said)?;
    let agent = runtime.agent_config(args.agent.as_deref().unwrap_or(runtime.entry_agent()))?;
    let skills = runtime.skills();
    let mut notes = runtime.loaded.notes.clone();
    notes.extend(skills.notes());
    notes.extend(skills.missing(&agent.name, agent.skills.as_deref()));
    let model = runtime.named_for(&agent, args.model.as_deref())?.unwrap_or_else(|| {
        notes.push("no model is named; most are told this".to_owned());
        ModelName { provider: String::new(), model: String::new(), effort: None }.into()
    });
    let instructions = match args.no_context_files {
        true => String::new(),
        false => {
            let instructions = runtime.instructions(&agent)?;
            notes.extend(instructions.notes);
            instructions.text
        }
    };
    let servers = runtime.servers_of(&agent);
    if !servers.is_empty() {
        notes.push(format!(
            "without the tools of MCP servers ({}): what they are is known when they are started; see \
             `bowline mcp check`",
            servers.join(", ")
        ));
    }
    let choice = Choice {
        model,
        limits: runtime.config.limits.headless_of(&agent),
        agent: agent.name.clone(),
        ephemeral: true,
        attended: false,
        instructions,
        skills,
        output_schema: None,
    };
    let told = runtime.factory(choice).told(&agent.name)?;
    let prompt = match args.prompt.as_deref() {
        Some("-") => Some(exec::stdin()?),
        prompt => prompt.map(str::to_owned),
    };
    let first_message = std::iter::once(told.context).chain(prompt).collect();
    let dump = Dump::new(&told.sections, &told.tools.block(), first_message);
    for note in notes {
        print::note(&note);
    }
    let mut out = screen::out();
    printed(match args.json {
        true => writeln!(out, "{}", json!(dump)),
        false => lines(&dump, &mut out),
    })
}

fn lines(dump: &Dump, out: &mut impl Write) -> io::Result<()> {
    let size = |part: &str| dump.sizes.get(part).copied().unwrap_or_default();
    writeln!(out, "{}\n", dump.system)?;
    heading("system text", size("system"), out)?;
    for section in &dump.sections {
        row(section.tag, section.size, out)?;
    }
    writeln!(out)?;
    heading("tools", size("tools"), out)?;
    for tool in &dump.tools {
        row(&tool.name, tool.size, out)?;
    }
    writeln!(out)?;
    heading("first message", size("first_message"), out)?;
    for part in &dump.first_message {
        writeln!(out, "\n{}", part.trim_end())?;
    }
    writeln!(out)?;
    heading("all together", size("total"), out)
}

fn heading(what: &str, size: Size, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "{what:<34}{:>7} bytes {:>7} tokens, roughly", size.bytes, size.tokens)
}

fn row(what: &str, size: Size, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "  {what:<32}{:>7} bytes {:>7} tokens", size.bytes, size.tokens)
}
