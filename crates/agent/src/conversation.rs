//! The conversation: what the log of one agent comes to.

mod context;
mod customs;
mod hash;
mod put_away;
mod stop;
mod totals;
mod view;

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde::Deserialize;

use bowline_llm::{AssistantMessage, CallId, Effort, Messages, StopReason, ToolBlock, ToolCall};

use crate::entry::{
    Behind, Broken, CallEnded, Completion, Conclusion, Created, Custom, Ending, Entry, EntryKind,
    Handoff, LimitHit, Phase, RunError, Wake,
};
use crate::id::{EntryId, OpId, RunId};
use crate::journal::Seq;
use crate::limits::Limits;
use crate::op::{CancelReason, Op, OpKind};
use crate::output::Shape;
use crate::tool::{Records, Waked};

use context::Context;
pub use context::planning::{Course, Planning};
pub(crate) use hash::{hash_text, hash_tools};
pub(crate) use put_away::Results;
pub use totals::Totals;
pub(crate) use view::size_of_parts;
pub use view::{Place, Places, View, Whose, estimate_tokens};

/// The fold of one agent's log: the view that a model gets, what is open, and what it has cost.
#[derive(Debug, Default)]
pub struct Conversation {
    context: Context,
    totals: Totals,
    head: Option<EntryId>,
    seq: Seq,
}

/// What a model would be asked with: immutable, and cheap to hold on to.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Snapshot {
    /// The system text.
    pub system: Arc<str>,
    /// The messages.
    pub messages: Messages,
    /// The tools.
    pub tools: ToolBlock,
}

/// The run that is open.
#[derive(Debug, Clone)]
pub struct OpenRun {
    /// Names the run.
    pub id: RunId,
    /// The model it asks, as `provider/model`.
    pub model: String,
    /// How hard that is asked to think.
    pub effort: Option<Effort>,
    /// Its limits.
    pub limits: Limits,
    /// Model calls so far, a wrap-up call not counted.
    pub model_turns: u32,
    /// Calls started so far.
    pub tool_calls: u32,
    /// Milliseconds of work so far.
    pub active_ms: u64,
    /// The limit it has hit.
    pub limit: Option<LimitHit>,
    /// Whether the wrap-up call has been made.
    pub wrapped_up: bool,
    /// Why it is to end.
    pub canceled: Option<CancelReason>,
    /// What a tool said that declared that it cannot go on.
    pub fatal: Option<RunError>,
    /// That its task is over, as the agent says.
    pub completion: Option<Arc<Completion>>,
    /// Who is to go on with its task, as the agent says.
    pub handoff: Option<Arc<Handoff>>,
    /// What calls have left to go on behind them.
    pub background: Vec<Background>,
    /// Operations that wait to be delivered, in order.
    pub pending: Vec<Op>,
    /// Calls that were denied.
    pub denials: Vec<CallId>,
    /// How often in a row the model was asked to go on with a cut answer.
    pub continued: u32,
    /// What effects have acted since the latest reply, and on which side of it.
    pub acted: Vec<(String, Phase)>,
    /// The effects that ask a model on the side, one after the other.
    pub asked: Vec<Asked>,
    /// How many questions on the side were answered since the latest reply.
    pub asides: u32,
    /// Whether anything is to be answered in it. If not, it only changes the conversation.
    pub is_prompted: bool,
    /// How many requests in a row were too long for the model.
    pub overflows: u32,
    /// How often it was sent back to work when it would have ended.
    pub sent_back: u32,
    /// What the answer must be like.
    pub shape: Option<Shape>,
    /// Whether the model was asked to mend its answer.
    pub repair: Repair,
    /// The orchestrator that began it.
    pub orchestrator: Option<String>,
    /// How far it is with planning.
    pub planning: Planning,
    /// What the agent told the user last with the tool that the shape names.
    pub(crate) told: Option<Arc<str>>,
    /// The operation that started it.
    pub(crate) prompt: Option<OpId>,
}

impl OpenRun {
    /// Tells whether nothing is left but to end: it was canceled, hit a limit, or a tool ended it.
    pub fn is_ending(&self) -> bool {
        self.is_ending_at_once() || self.limit.is_some()
    }

    /// Tells whether it ends without a last word.
    pub(crate) fn is_ending_at_once(&self) -> bool {
        self.canceled.is_some() || self.fatal.is_some()
    }

    /// Tells whether the agent has said that its part is over, and nobody has said anything since.
    pub fn is_concluded(&self) -> bool {
        self.completion.is_some() || self.handoff.is_some()
    }

    /// Takes note of what a call concludes: the first conclusion of a kind counts.
    fn conclude(&mut self, conclusion: &Conclusion) {
        match conclusion {
            Conclusion::Completed(completion) => {
                self.completion.get_or_insert_with(|| Arc::new(completion.clone()));
            }
            Conclusion::HandedOff(handoff) => {
                self.handoff.get_or_insert_with(|| Arc::new(handoff.clone()));
            }
        }
    }

    /// Returns what counts as the answer of the run, which ends with these replies.
    pub(crate) fn answer(&self, replies: &[Arc<AssistantMessage>]) -> Cow<'_, str> {
        match (&self.told, &self.completion) {
            (Some(told), _) => Cow::Borrowed(told),
            (None, Some(completion)) => Cow::Borrowed(&completion.summary),
            (None, None) => replies.iter().map(|message| message.to_text()).collect(),
        }
    }

    /// Takes note of what a tool recorded, if it is what the agent tells the user.
    fn note(&mut self, custom: &Custom) {
        #[derive(Deserialize)]
        struct Told {
            text: String,
        }
        let told_with = self.shape.as_ref().and_then(|shape| shape.told_with.as_ref());
        if told_with.is_some_and(|name| *name == custom.name)
            && let Ok(Told { text }) = custom.data.read()
        {
            self.told = Some(text.into());
        }
    }

    /// Tells whether something was steered in that has not been said yet.
    pub fn is_steered(&self) -> bool {
        self.pending.iter().any(|op| matches!(op.kind, OpKind::Steer(_)))
    }
}

/// The work that goes on behind a call that is over.
#[derive(Debug, Clone, PartialEq)]
pub struct Background {
    /// The call, with the arguments it ran with.
    pub call: ToolCall,
    /// What becomes of it when the run would end.
    pub behind: Behind,
}

/// How far a run is with the one repair of its answer that it may ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Repair {
    /// The model was not asked.
    #[default]
    Unasked,
    /// It was asked and has not replied.
    Asked,
    /// It has replied.
    Made,
}

/// An effect that asks a model on the side.
#[derive(Debug, Clone, PartialEq)]
pub struct Asked {
    /// The effect.
    pub effect: String,
    /// What it was told; `None` while the model has not been asked.
    pub said: Option<Said>,
}

/// What a model said on the side.
#[derive(Debug, Clone, PartialEq)]
pub struct Said {
    /// What it said.
    pub message: Arc<AssistantMessage>,
    /// Why it stopped.
    pub stop: StopReason,
    /// Why the message is not whole; `None` if it is.
    pub broken: Option<Broken>,
}

/// A call that has no result yet, or whose batch has calls that have none.
#[derive(Debug, Clone)]
pub struct Call {
    /// The call as the model wrote it.
    pub call: ToolCall,
    /// How far it is.
    pub state: CallState,
    /// Whether it has really started.
    pub started: bool,
    /// The arguments it runs with, if the gate rewrote them.
    pub rewritten: Option<String>,
    /// Whether the reply was cut at its greatest length before the arguments were complete.
    pub is_cut: bool,
    /// What woke it last, while it is in flight again: after a crash its tool gets that anew.
    pub waked: Option<Waked>,
    /// Whether what it may come to wait for has happened already.
    pub(crate) early: bool,
}

impl Call {
    /// Returns the call's id.
    pub fn id(&self) -> &CallId {
        &self.call.id
    }

    /// Returns the arguments it runs with.
    pub fn arguments(&self) -> &str {
        self.rewritten.as_deref().unwrap_or(&self.call.arguments)
    }

    /// Tells whether it has no result yet.
    pub fn is_open(&self) -> bool {
        !matches!(self.state, CallState::Ended(_))
    }
}

/// How far a call is.
#[derive(Debug, Clone)]
pub enum CallState {
    /// Nothing has happened.
    New,
    /// It is in flight.
    Started,
    /// It waits.
    Waiting(Waiting),
    /// It waited, and has been woken.
    Woken(Waked),
    /// It is over.
    Ended(CallEnded),
}

/// The wait of a call: one call may wait several times, one after the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    /// The entry that says that it waits; who answers may name it, so that what comes late is not
    /// taken for an answer to a later wait.
    pub entry: EntryId,
    /// What it waits for.
    pub wake: Wake,
    /// The tool that is really called, where the one that the model called only passes calls on.
    pub passed_to: Option<String>,
}

impl Waiting {
    /// Tells whether whoever answers means this wait: one that names none means any.
    pub(crate) fn is_meant_by(&self, named: Option<EntryId>) -> bool {
        named.is_none_or(|named| named == self.entry)
    }

    /// Tells whether this is what the call waits for. A decision is not waited for any longer, too, when
    /// this very wait is said to be over: then the gate is asked again.
    fn is_ended_by(&self, waked: &Waked, waiting: Option<EntryId>) -> bool {
        let is_named = waiting == Some(self.entry);
        matches!(
            (&self.wake, waked),
            (Wake::Decision { .. }, Waked::Happened) if is_named
        ) || matches!(
            (&self.wake, waked),
            (Wake::Decision { .. }, Waked::Decided(_))
                | (Wake::Answer { .. } | Wake::Parent { .. }, Waked::Answered(_))
                | (Wake::Agent { .. } | Wake::Job(_) | Wake::At(_), Waked::Happened)
        )
    }
}

/// What the conversation ends with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Last {
    /// Nothing has been said.
    #[default]
    Nothing,
    /// A user message that the model has not seen.
    Said,
    /// Results that the model has not seen.
    Results,
    /// A reply without calls that was cut at its greatest length, or in which its provider paused.
    Cut,
    /// A reply without calls.
    Answer,
    /// A model call that broke off.
    Broken,
}

/// Returns the entries of the path to an entry, or to the head, from the first on.
///
/// # Errors
/// The entry that is not there.
pub(crate) fn path<'a>(
    entries: impl IntoIterator<Item = &'a Entry>,
    at: Option<EntryId>,
) -> Result<Vec<&'a Entry>, EntryId> {
    let mut by_id = HashMap::new();
    let mut head = None;
    for entry in entries {
        by_id.insert(entry.id, entry);
        head = match &entry.kind {
            EntryKind::Head(to) => to.to,
            _ => Some(entry.id),
        };
    }
    let mut path = Vec::new();
    let mut next = at.or(head);
    while let Some(id) = next {
        let entry = *by_id.get(&id).ok_or(id)?;
        path.push(entry);
        next = entry.parent;
    }
    path.reverse();
    Ok(path)
}

impl Conversation {
    /// Folds a log from its beginning.
    pub fn replay<'a>(entries: impl IntoIterator<Item = &'a Entry>) -> Self {
        let entries: Vec<&Entry> = entries.into_iter().collect();
        let mut conversation = Self::default();
        for (index, entry) in entries.iter().enumerate() {
            if let EntryKind::Head(head) = &entry.kind {
                conversation.rewind(&entries[..index], entry, head.to);
            } else {
                conversation.apply(entry);
            }
        }
        conversation
    }

    /// Adds one entry that follows the ones before it. A rewind cannot be added this way, because
    /// it needs the log: it is replayed.
    pub(crate) fn apply(&mut self, entry: &Entry) {
        let copied = self.totals.copies > 0;
        self.totals.apply(entry);
        self.context.apply(entry);
        if let EntryKind::RunEnded(ended) = &entry.kind {
            let is_refused = ended.outcome.is_refused();
            // What was answered before is no answer of a run that was asked nothing.
            let is_silent = self.context.run.as_ref().is_some_and(|run| !run.is_prompted);
            let answer = if is_refused || is_silent { Vec::new() } else { self.context.answer() };
            self.totals.finish(ended, self.context.take_run(), answer);
        }
        if copied && self.totals.copies == 0 {
            // A run that was open where the copies come from goes on there.
            self.context.take_run();
        }
        self.head = Some(entry.id);
        self.seq.0 += 1;
    }

    fn rewind(&mut self, before: &[&Entry], entry: &Entry, to: Option<EntryId>) {
        self.totals.apply(entry);
        self.seq.0 += 1;
        self.head = to;
        // Sub-agents are found by the ids of their calls, those of other branches too.
        let calls = self.context.take_calls();
        self.context = Context::default();
        // An entry that is not there has no path; a rewind to one is refused before it is written.
        let path = to.map(|to| path(before.iter().copied(), Some(to)));
        for entry in path.and_then(Result::ok).unwrap_or_default() {
            self.context.apply(entry);
            if matches!(entry.kind, EntryKind::RunEnded(_)) {
                self.context.take_run();
            }
        }
        // What was under way there is not under way any more.
        self.context.take_run();
        self.context.skip_open_calls();
        self.context.add_calls(calls);
    }

    /// Returns what a model would be asked with now.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot {
            system: Arc::clone(&self.context.system),
            messages: self.context.view.messages().clone(),
            tools: self.context.tools.clone(),
        }
    }

    /// Returns the messages a model would see now.
    pub fn messages(&self) -> &Messages {
        self.context.view.messages()
    }

    /// Returns the messages with what is known of each of them.
    pub fn view(&self) -> &View {
        &self.context.view
    }

    /// Returns what the conversation ends with.
    pub fn last(&self) -> Last {
        self.context.last
    }

    /// Returns the calls of the latest reply that are not over, in order.
    pub fn open_calls(&self) -> Vec<&Call> {
        self.context.batch.iter().filter(|call| call.is_open()).collect()
    }

    /// Returns an open call.
    pub fn open_call(&self, id: &CallId) -> Option<&Call> {
        self.context.batch.iter().find(|call| call.id() == id && call.is_open())
    }

    /// Tells whether a call is open.
    pub fn has_open_calls(&self) -> bool {
        self.context.batch.iter().any(Call::is_open)
    }

    /// Returns the run that is open.
    pub fn run(&self) -> Option<&OpenRun> {
        self.context.run.as_ref()
    }

    /// Returns how the agent was made; `None` while its log is empty.
    pub fn created(&self) -> Option<&Created> {
        self.context.created.as_ref()
    }

    /// Returns what folds over all entries, whatever the head.
    pub fn totals(&self) -> &Totals {
        &self.totals
    }

    /// Returns the last entry of the conversation.
    pub fn head(&self) -> Option<EntryId> {
        self.head
    }

    /// Returns how many entries the log holds.
    pub fn seq(&self) -> Seq {
        self.seq
    }

    /// Returns the tokens of the latest request as its provider counted them.
    pub fn context_tokens(&self) -> u64 {
        self.context.view.counted()
    }

    /// Returns the answer that the conversation ends with: the text of the last reply, with what it
    /// went on from if it had been cut. `None` if it does not end with a reply.
    pub fn answer(&self) -> Option<String> {
        let answer = self.context.answer();
        (!answer.is_empty()).then(|| answer.iter().map(|message| message.to_text()).collect())
    }

    /// Returns what counts as the answer of the open run, were it to end now.
    pub(crate) fn final_answer(&self) -> String {
        let replies = self.context.answer();
        self.run().map(|run| run.answer(&replies).into_owned()).unwrap_or_default()
    }

    /// Returns what is wrong with the shape of the answer that the open run would end with.
    pub(crate) fn complaints(&self) -> Vec<String> {
        let Some((run, shape)) = self.run().and_then(|run| Some((run, run.shape.as_ref()?))) else {
            return Vec::new();
        };
        shape.complaints(&run.answer(&self.context.answer()))
    }

    /// Tells whether the model goes on when it is sent what it has said.
    pub(crate) fn is_paused(&self) -> bool {
        self.context.is_paused()
    }

    /// Tells whether the last reply was stopped before it was whole.
    pub(crate) fn was_out_of_time(&self) -> bool {
        self.context.was_out_of_time()
    }

    /// Returns why the last reply is no answer, if it is none.
    pub(crate) fn ending(&self) -> Ending {
        self.context.ending()
    }

    /// Tells whether the latest reply is none that counts: its calls are not to be run.
    pub(crate) fn is_void(&self) -> bool {
        self.context.is_void()
    }

    /// Tells whether the model was told where it is.
    pub(crate) fn is_placed(&self) -> bool {
        self.context.is_placed
    }

    pub(crate) fn system(&self) -> (&Arc<str>, &str) {
        (&self.context.system, &self.context.system_hash)
    }

    pub(crate) fn tools(&self) -> (&ToolBlock, &str) {
        (&self.context.tools, &self.context.tools_hash)
    }

    /// Returns the results that were put away and are at hand.
    pub(crate) fn put_away(&self) -> &Results {
        &self.context.put_away.results
    }

    pub(crate) fn records(&self) -> &Records {
        &self.context.records
    }

    /// Makes the ids of a reply's calls unique in this conversation.
    pub(crate) fn unique_ids(&self, message: &mut bowline_llm::AssistantMessage) {
        self.context.unique_ids(message);
    }

    /// Returns the id for a call that is to have this one, unique in this conversation.
    pub(crate) fn unique_id(&self, id: CallId) -> CallId {
        self.context.unique_id(id, &HashSet::new())
    }

    /// Returns the places of messages that have parts which are kept elsewhere, in order.
    pub(crate) fn stored(&self) -> &[usize] {
        self.context.view.stored()
    }

    /// Tells whether the latest reply is whole, and nothing but effects has come of it yet.
    pub(crate) fn is_fresh(&self) -> bool {
        self.context.is_fresh
    }

    /// Tells whether the latest reply broke off because the request was too long for the model.
    pub(crate) fn is_overflown(&self) -> bool {
        self.context.is_overflown()
    }

    /// Tells whether an operation is in the log, delivered or pending.
    pub fn knows(&self, op: OpId) -> bool {
        self.totals.knows(op)
    }
}
