//! The tree in words, one line for each thing that happened.

use std::fmt::Display;
use std::io::{self, Write};

use bowline_agent::entry::{Completion, Handoff};
use bowline_llm::Spent;
use serde_json::Value;

use bowline_runtime::plain::line;

use super::{Agent, Call, Exchange, Step, Stretch, Tree, Used};

/// What of the arguments of a call tells what it is about; the first that is there counts.
const ABOUT: [&str; 16] = [
    "command",
    "path",
    "pattern",
    "url",
    "question",
    "target_agent",
    "to",
    "status",
    "task",
    "title",
    "task_id",
    "key",
    "id",
    "name",
    "agent",
    "text",
];

/// Writes a session.
pub(super) fn write(out: &mut impl Write, tree: &Tree) -> io::Result<()> {
    let mut page = Page { out, depth: 0 };
    page.line(format_args!("session {}", tree.session))?;
    tree.agents.iter().try_for_each(|agent| page.agent(agent))
}

/// Lines, each as deep as what it belongs to.
struct Page<'a, W> {
    out: &'a mut W,
    depth: usize,
}

impl<W: Write> Page<'_, W> {
    fn line(&mut self, text: impl Display) -> io::Result<()> {
        writeln!(self.out, "{}{text}", "  ".repeat(self.depth))
    }

    fn below(&mut self, write: impl FnOnce(&mut Self) -> io::Result<()>) -> io::Result<()> {
        self.depth += 1;
        let written = write(self);
        self.depth -= 1;
        written
    }

    fn agent(&mut self, agent: &Agent) -> io::Result<()> {
        let (name, config) = (line(&agent.meta.name), line(&agent.meta.config));
        let who = if name == config { name } else { format!("{name} ({config})") };
        let label = agent.meta.label.as_deref().map(|label| format!(" \"{}\"", line(label)));
        let outcome = agent.outcome.unwrap_or("no run");
        let mut about =
            format!("{who}{}: {outcome}, {}", label.unwrap_or_default(), used(&agent.used));
        if agent.with_agents != agent.used.spent {
            about.push_str(&format!("; with its agents {}", spent(&agent.with_agents)));
        }
        self.line(about)?;
        self.below(|page| {
            if let Some(session) = agent.fork_of {
                page.line(format_args!("fork of {session}, which tells what was before"))?;
            }
            agent.stretches.iter().try_for_each(|stretch| page.stretch(stretch))
        })
    }

    fn stretch(&mut self, stretch: &Stretch) -> io::Result<()> {
        let Some(run) = &stretch.run else {
            return stretch.steps.iter().try_for_each(|step| self.step(step));
        };
        let why = run.why.as_deref().map(|why| format!(" ({})", line(why))).unwrap_or_default();
        let (outcome, model) = (run.outcome, line(&run.model));
        self.line(format_args!("run {outcome}{why}, {}, {model}", used(&run.used)))?;
        self.below(|page| {
            stretch.steps.iter().try_for_each(|step| page.step(step))?;
            run.handoff.iter().try_for_each(|handoff| page.handoff(handoff))?;
            run.completion.iter().try_for_each(|completion| page.completion(completion))
        })
    }

    fn step(&mut self, step: &Step) -> io::Result<()> {
        match step {
            Step::Said { via, text } => self.line(format_args!("{via}: {}", line(text))),
            Step::Text { text } => self.line(format_args!("says: {}", line(text))),
            Step::Call(call) => self.call(call),
            Step::Broken { why } => self.line(format_args!("reply broke off: {}", line(why))),
            Step::Plan { tools } => self.line(format_args!("plan: {}", line(&tools.join(", ")))),
            Step::Limit { limit } => self.line(format_args!("limit {limit} reached")),
            Step::Canceled { reason } => self.line(format_args!("canceled: {reason}")),
            Step::Effect { effect, act, text } => {
                let text = text.as_deref().map(|text| format!(": {}", line(text)));
                self.line(format_args!("effect {} {act}{}", line(effect), text.unwrap_or_default()))
            }
            Step::Shared { value, change, .. } => self.line(shared(value, change)),
            Step::Posted { text } => self.line(format_args!("posted: {}", line(text))),
            Step::Background { tool, text, .. } => {
                let text = if text.is_empty() { text.clone() } else { format!(": {}", line(text)) };
                self.line(format_args!("{} is over in the background{text}", line(tool)))
            }
            Step::Rewound {} => self.line("goes on from an earlier point"),
        }
    }

    fn call(&mut self, call: &Call) -> io::Result<()> {
        let about = about(&call.arguments).map(|about| format!(" {}", line(&about)));
        let time = call.ms.map(|ms| format!(", {}", time(ms))).unwrap_or_default();
        let failure = match (call.status, &call.result) {
            ("ok", _) | (_, None) => String::new(),
            (_, Some(result)) => format!(": {}", line(result)),
        };
        let (tool, about, status) = (line(&call.tool), about.unwrap_or_default(), call.status);
        self.line(format_args!("> {tool}{about} [{status}{time}]{failure}"))?;
        self.below(|page| {
            call.asked.iter().try_for_each(|exchange| page.exchange(exchange))?;
            call.agents.iter().try_for_each(|agent| page.agent(agent))
        })
    }

    fn exchange(&mut self, exchange: &Exchange) -> io::Result<()> {
        match exchange {
            Exchange::Question { text } => self.line(format_args!("asks: {}", line(text))),
            Exchange::Answer { text } => self.line(format_args!("is answered: {}", line(text))),
            Exchange::Permission { text } => {
                self.line(format_args!("needs permission: {}", line(text)))
            }
            Exchange::Allowed {} => self.line("is allowed"),
            Exchange::Denied { reason } => self.line(format_args!("is denied: {}", line(reason))),
        }
    }

    fn completion(&mut self, completion: &Completion) -> io::Result<()> {
        let status = completion.status.as_str();
        self.line(format_args!("{status}: {}", line(&completion.summary)))?;
        let lists = [("files", &completion.files_modified), ("tests", &completion.tests_run)];
        self.below(|page| {
            for (what, list) in lists.into_iter().filter(|(_, list)| !list.is_empty()) {
                page.line(format_args!("{what}: {}", line(&list.join(", "))))?;
            }
            let mut caveats = completion.caveats.iter();
            caveats.try_for_each(|caveats| page.line(format_args!("caveats: {}", line(caveats))))
        })
    }

    fn handoff(&mut self, handoff: &Handoff) -> io::Result<()> {
        let (target, reason) = (line(&handoff.target), line(&handoff.reason));
        self.line(format_args!("hands on to {target}: {reason}"))
    }
}

/// Says what a call is about, if its arguments tell it.
fn about(arguments: &str) -> Option<String> {
    let arguments: Value = serde_json::from_str(arguments).ok()?;
    if let Some(tasks) = arguments["tasks"].as_array() {
        let asked = |task: &Value| task["agent"].as_str().unwrap_or("ad-hoc").to_owned();
        return Some(tasks.iter().map(asked).collect::<Vec<_>>().join(", "));
    }
    let told = ABOUT.iter().find_map(|key| arguments[*key].as_str());
    told.map(str::to_owned)
}

/// Says what became of something that agents share: a task of the board, a key of the state, or
/// whatever a program of its own shares.
fn shared(value: &str, change: &Value) -> String {
    let text = |value: &Value| value.as_str().map(line).unwrap_or_default();
    if value == "tasks" {
        let created = &change["created"];
        if created.is_object() {
            return format!("board: {} is made: {}", text(&created["id"]), text(&created["title"]));
        }
        let updated = &change["updated"];
        if updated.is_object() {
            let who = updated["assignee"].as_str().map(|who| format!(", {}", line(who)));
            let (id, status) = (text(&updated["id"]), text(&updated["status"]));
            return format!("board: {id} is {status}{}", who.unwrap_or_default());
        }
    }
    if let ("state", Some(key)) = (value, change["key"].as_str()) {
        return format!("state: {} = {}", line(key), line(&change["value"].to_string()));
    }
    format!("{}: {}", line(value), line(&change.to_string()))
}

fn used(used: &Used) -> String {
    let turns = if used.turns == 1 { "turn" } else { "turns" };
    format!("{} {turns}, {}, {}", used.turns, spent(&used.spent), time(used.active_ms))
}

fn spent(spent: &Spent) -> String {
    let cost = spent.cost().filter(|cost| *cost > 0.0).map(|cost| format!(", ${cost:.4}"));
    let (input, output) = (spent.usage.input, spent.usage.output);
    format!("{input} tokens in, {output} out{}", cost.unwrap_or_default())
}

fn time(ms: u64) -> String {
    match ms {
        0..1_000 => format!("{ms} ms"),
        1_000..60_000 => format!("{}.{} s", ms / 1_000, ms % 1_000 / 100),
        _ => format!("{} min {} s", ms / 60_000, ms % 60_000 / 1_000),
    }
}
