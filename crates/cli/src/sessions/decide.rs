//! `bowline sessions decide`: deciding about calls that wait, and answering them.

use std::collections::BTreeMap;
use std::io::{self, Write};

use bowline_agent::conversation::{CallState, Conversation, Waiting};
use bowline_agent::entry::{Entry, EntryKind, Wake};
use bowline_agent::id::{AgentId, OpId, SessionId, Source as _, SystemSource};
use bowline_agent::journal::{Pos, Store as _};
use bowline_agent::op::{Decision, Op, OpKind, Scope};
use bowline_agent::visible;
use bowline_llm::CallId;
use bowline_store::Files;

use crate::args::{self, Decide, HowLong};
use crate::exit::Failure;
use crate::screen;
use bowline_runtime::permission::Rule;
use bowline_runtime::plain;

/// A call that waits for a person.
struct Open {
    agent: AgentId,
    name: String,
    call: CallId,
    tool: String,
    waiting: Waiting,
}

/// Decides, or lists what could be decided.
pub(super) async fn run(store: &Files, args: Decide) -> Result<io::Result<()>, Failure> {
    let id = args::resolve(store, &args.id)?;
    let open = open_calls(store, id)?;
    let Some(call) = &args.call else { return Ok(list(&open)) };
    let named = |open: &&Open| args.agent.as_ref().is_none_or(|agent| open.name == *agent);
    let mut meant = open.iter().filter(|open| open.call.as_str() == call).filter(named);
    let Some(one) = meant.next() else {
        return Err(Failure::Usage(format!(
            "no call {call} of the session waits for a person; see bowline sessions decide {id}"
        )));
    };
    if let Some(other) = meant.next() {
        let (one, other) = (&one.name, &other.name);
        let choice = format!("say which by --agent {one} or --agent {other}");
        return Err(Failure::Usage(format!("calls {call} of two agents wait; {choice}")));
    }
    let kind = kind(one, &args)?;
    let op = Op { id: OpId::new(&SystemSource), to: Some(one.agent), at: SystemSource.now(), kind };
    let posted = op.id;
    store.inbox(id).post(op).await?;
    Ok(writeln!(screen::out(), "posted {posted}"))
}

/// Says what the operation is that does as asked.
fn kind(open: &Open, args: &Decide) -> Result<OpKind, Failure> {
    let (call, waiting) = (open.call.clone(), Some(open.waiting.entry));
    let is_question = !matches!(open.waiting.wake, Wake::Decision { .. });
    let decision = match (&args.what.answer, &args.what.deny, is_question) {
        (Some(text), _, true) => {
            return Ok(OpKind::Answer { call, text: text.clone(), waiting });
        }
        (Some(_), ..) => {
            return Err(Failure::Usage(format!("{call} waits for permission: --allow or --deny")));
        }
        (None, _, true) => return Err(Failure::Usage(format!("{call} asks something: --answer"))),
        (None, Some(reason), false) => Decision::Deny { reason: reason.clone() },
        (None, None, false) => Decision::Allow { scope: scope(open, args)? },
    };
    Ok(OpKind::Decide { call, decision, waiting })
}

fn scope(open: &Open, args: &Decide) -> Result<Scope, Failure> {
    let Some(how_long) = args.how_long else { return Ok(Scope::Once) };
    let offered = match &open.waiting.wake {
        Wake::Decision { rule, .. } => rule.clone(),
        _ => None,
    };
    let said = args.rule.as_deref().map(useful).transpose()?;
    let Some(rule) = said.or(offered) else {
        let why = "nothing is offered for longer than once; say what by --rule";
        return Err(Failure::Usage(why.to_owned()));
    };
    Ok(match how_long {
        HowLong::Session => Scope::Session { rule },
        HowLong::Always => Scope::Always { rule },
    })
}

/// Checks a rule that a person says: one that cannot be read, or allows nearly everything, would be heard by
/// nobody.
fn useful(rule: &str) -> Result<String, Failure> {
    let rule = Rule::parse(rule).map_err(Failure::Usage)?;
    match rule.useless() {
        Some(why) => Err(Failure::Usage(why)),
        None => Ok(rule.to_string()),
    }
}

fn list(open: &[Open]) -> io::Result<()> {
    let mut out = screen::out();
    for Open { name, call, tool, waiting, .. } in open {
        let (asked, rule) = match &waiting.wake {
            Wake::Decision { question, rule, .. } => (question, rule.as_deref()),
            Wake::Answer { question, .. } | Wake::Parent { question } => (question, None),
            Wake::Agent { .. } | Wake::Job(_) | Wake::At(_) => continue,
        };
        write!(
            out,
            "{}  {}  {}: {}",
            plain::line(call.as_str()),
            name,
            plain::line(tool),
            shown(asked)
        )?;
        match rule {
            Some(rule) => writeln!(out, "  (for longer: {})", visible::on_one_line(rule))?,
            None => writeln!(out)?,
        }
    }
    if open.is_empty() { writeln!(out, "nothing waits for a person") } else { Ok(()) }
}

/// Returns all of a question: who is to decide must see everything. Its lines are set off, so that none is
/// taken for another call.
fn shown(question: &str) -> String {
    visible::in_lines(question.trim_end()).replace('\n', "\n    ")
}

/// Finds the calls that wait for a person, of all agents of a session.
fn open_calls(store: &Files, id: SessionId) -> Result<Vec<Open>, Failure> {
    let mut logs: BTreeMap<AgentId, Vec<Entry>> = BTreeMap::new();
    for commit in store.read(id, Pos(0))? {
        for entry in commit?.entries {
            logs.entry(entry.agent).or_default().push(entry);
        }
    }
    let mut open = Vec::new();
    for (agent, log) in logs {
        let name = log.iter().find_map(|entry| match &entry.kind {
            EntryKind::Created(created) => Some(created.name.clone()),
            _ => None,
        });
        let conversation = Conversation::replay(&log);
        for call in conversation.open_calls() {
            let CallState::Waiting(waiting) = &call.state else { continue };
            // What the agent above answers is its own affair.
            if matches!(waiting.wake, Wake::Decision { .. } | Wake::Answer { .. }) {
                open.push(Open {
                    agent,
                    name: name.clone().unwrap_or_default(),
                    call: call.id().clone(),
                    tool: waiting.passed_to.as_ref().unwrap_or(&call.call.name).clone(),
                    waiting: waiting.clone(),
                });
            }
        }
    }
    Ok(open)
}
