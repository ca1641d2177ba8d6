//! The fold along the path to the head.

mod acts;
pub(super) mod planning;

use std::collections::HashSet;
use std::sync::Arc;

use bowline_llm::{
    AssistantMessage, AssistantPart, CallId, Message, MessageRef, StopReason, ToolBlock, ToolCall,
    ToolResult, UserMessage, text_of,
};

use crate::entry::{
    AssistantSaid, BackgroundEnded, Broken, CallEnded, CallStarted, CallStatus, CallWaiting,
    Created, Custom, Ending, Entry, EntryKind, LimitHit, RunError, RunErrorKind, RunStarted,
    UserSaid, Via, Wake,
};
use crate::id::EntryId;
use crate::orchestrator::Purpose;
use crate::tool::{Records, Waked};

use planning::Planning;

use super::hash::{hash_text, hash_tools};
use super::put_away::PutAway;
use super::stop::Stop;
use super::view::{View, Whose};
use super::{Background, Call, CallState, Last, OpenRun, Repair, Waiting};

#[derive(Debug, Default)]
pub(super) struct Context {
    pub(super) created: Option<Created>,
    pub(super) view: View,
    pub(super) system: Arc<str>,
    pub(super) system_hash: String,
    pub(super) tools: ToolBlock,
    pub(super) tools_hash: String,
    pub(super) run: Option<OpenRun>,
    pub(super) batch: Vec<Call>,
    pub(super) last: Last,
    pub(super) records: Records,
    pub(super) put_away: PutAway,
    // Whether the latest reply is whole, and nothing but effects has come of it yet.
    pub(super) is_fresh: bool,
    // What was said while calls were open: it comes after their results.
    deferred: Vec<(MessageRef, Whose)>,
    // Why the latest reply ended.
    stop: Option<Stop>,
    // The latest replies that make up one answer: more than one if it was cut and went on.
    answer: Vec<Arc<AssistantMessage>>,
    goes_on: bool,
    calls: HashSet<CallId>,
    // Whether the model was told where it is.
    pub(super) is_placed: bool,
    // What a prompt is said together with.
    preface: Option<Arc<UserMessage>>,
}

impl Context {
    pub(super) fn apply(&mut self, entry: &Entry) {
        if let (Some(run), Some(ms)) = (&mut self.run, entry.active_ms) {
            run.active_ms += ms;
        }
        // No call waits yet, so that what wakes one is too late or too early for these.
        self.is_fresh &= matches!(
            entry.kind,
            EntryKind::Effect(_)
                | EntryKind::Custom(_)
                | EntryKind::Posted(_)
                | EntryKind::Decided(_)
                | EntryKind::Answered(_)
                | EntryKind::Woken(_)
        );
        match &entry.kind {
            EntryKind::Created(created) => self.created = Some(created.clone()),
            EntryKind::RunStarted(started) => self.start_run(started),
            EntryKind::User(said) => self.hear(said),
            EntryKind::Posted(op) => {
                if let Some(run) = &mut self.run {
                    run.pending.push(op.clone());
                }
            }
            EntryKind::Assistant(said) => self.reply(said),
            EntryKind::CallStarted(started) => self.start_call(started),
            EntryKind::CallWaiting(waiting) => self.suspend_call(entry.id, waiting),
            EntryKind::Decided(decided) => {
                self.deliver(decided.op);
                let waked = Waked::Decided(decided.decision.clone());
                self.wake(&decided.call, decided.waiting, waked);
            }
            EntryKind::Answered(answered) => {
                self.deliver(answered.op);
                let waked = Waked::Answered(answered.text.clone());
                self.wake(&answered.call, answered.waiting, waked);
            }
            EntryKind::Woken(woken) => {
                self.deliver(woken.op);
                self.wake(&woken.call, woken.waiting, Waked::Happened);
            }
            EntryKind::CallEnded(ended) => self.end_call(ended),
            EntryKind::BackgroundEnded(ended) => self.end_background(ended),
            EntryKind::LimitHit(hit) => self.hit(hit),
            EntryKind::Canceled(canceled) => {
                self.deliver(canceled.op);
                if let Some(run) = &mut self.run {
                    run.canceled.get_or_insert(canceled.reason);
                }
            }
            EntryKind::SystemChanged(changed) => {
                self.system_hash = hash_text(&changed.text);
                self.system = Arc::clone(&changed.text);
                self.view.set_system(&self.system);
            }
            EntryKind::ToolsChanged(changed) => {
                self.tools_hash = hash_tools(&changed.tools.0);
                self.tools = changed.tools.0.clone();
                self.view.set_tools(&self.tools);
            }
            EntryKind::Effect(acted) => self.act(acted),
            EntryKind::Custom(custom) => self.record(entry, custom),
            EntryKind::Planned(plan) => self.adopt(plan),
            EntryKind::StepTaken(taken) => self.take_step(taken),
            // The run is taken by whoever folds its end into the totals; money is folded there too.
            EntryKind::RunEnded(_)
            | EntryKind::ExternalUsage(_)
            | EntryKind::Head(_)
            | EntryKind::Unknown { .. } => {}
        }
    }

    pub(super) fn take_run(&mut self) -> Option<OpenRun> {
        self.run.take()
    }

    /// Ends the calls that are open where something else begins: a rewind went back to before they
    /// ended.
    pub(super) fn skip_open_calls(&mut self) {
        let open = self.batch.iter().filter(|call| call.is_open()).map(|call| call.id().clone());
        for call in open.collect::<Vec<_>>() {
            let why = "skipped: the conversation went back to before this call ended";
            self.end_call(&CallEnded::unheard(call, CallStatus::Skipped, why));
        }
    }

    pub(super) fn take_calls(&mut self) -> HashSet<CallId> {
        std::mem::take(&mut self.calls)
    }

    pub(super) fn add_calls(&mut self, calls: HashSet<CallId>) {
        self.calls.extend(calls);
    }

    pub(super) fn answer(&self) -> Vec<Arc<AssistantMessage>> {
        match self.last {
            Last::Answer | Last::Cut | Last::Broken => self.answer.clone(),
            Last::Nothing | Last::Said | Last::Results => Vec::new(),
        }
    }

    /// Tells whether the model goes on when it is sent what it has said.
    pub(super) fn is_paused(&self) -> bool {
        self.batch.is_empty() && self.stop.as_ref().is_some_and(Stop::is_paused)
    }

    pub(super) fn was_out_of_time(&self) -> bool {
        self.stop.as_ref().is_some_and(Stop::is_out_of_time)
    }

    /// Tells whether the latest reply is none that counts: its calls are not to be run.
    pub(super) fn is_void(&self) -> bool {
        self.stop.as_ref().is_some_and(Stop::is_void)
    }

    /// Tells whether the latest reply broke off because the request was too long for the model.
    pub(super) fn is_overflown(&self) -> bool {
        self.last == Last::Broken && self.stop.as_ref().is_some_and(Stop::is_overflow)
    }

    /// Returns how a run ends that settles now.
    pub(super) fn ending(&self) -> Ending {
        self.stop.as_ref().map_or(Ending::Done, Stop::ending)
    }

    pub(super) fn unique_ids(&self, message: &mut AssistantMessage) {
        let mut seen = HashSet::new();
        for part in &mut message.content {
            let AssistantPart::ToolCall(call) = part else { continue };
            call.id = self.unique_id(call.id.clone(), &seen);
            seen.insert(call.id.clone());
        }
    }

    pub(super) fn unique_id(&self, wanted: CallId, others: &HashSet<CallId>) -> CallId {
        let is_free = |id: &CallId| {
            !id.as_str().is_empty() && !self.calls.contains(id) && !others.contains(id)
        };
        if is_free(&wanted) {
            return wanted;
        }
        let stem = if wanted.as_str().is_empty() { "call" } else { wanted.as_str() };
        let mut n = 2;
        loop {
            let id = CallId::from(format!("{stem}_{n}"));
            if is_free(&id) {
                return id;
            }
            n += 1;
        }
    }

    fn start_run(&mut self, started: &RunStarted) {
        self.skip_open_calls();
        if let Some(system) = &started.system.value {
            self.system = Arc::clone(system);
            self.view.set_system(&self.system);
        }
        self.system_hash.clone_from(&started.system.hash);
        if let Some(tools) = &started.tools.value {
            self.tools = tools.0.clone();
            self.view.set_tools(&self.tools);
        }
        self.tools_hash.clone_from(&started.tools.hash);
        self.stop = None;
        self.run = Some(OpenRun {
            id: started.run,
            model: started.model.clone(),
            effort: started.effort,
            limits: started.limits.clone(),
            model_turns: 0,
            tool_calls: 0,
            active_ms: 0,
            limit: None,
            wrapped_up: false,
            canceled: None,
            fatal: None,
            completion: None,
            handoff: None,
            background: Vec::new(),
            pending: Vec::new(),
            denials: Vec::new(),
            continued: 0,
            acted: Vec::new(),
            asked: Vec::new(),
            asides: 0,
            is_prompted: false,
            overflows: 0,
            sent_back: 0,
            shape: started.shape.clone(),
            repair: Repair::Unasked,
            orchestrator: started.orchestrator.clone(),
            planning: Planning::default(),
            told: None,
            prompt: None,
        });
    }

    /// Takes in what was said to the model, however it came.
    fn hear(&mut self, said: &UserSaid) {
        self.deliver(said.op);
        if let (Some(run), false) =
            (&mut self.run, matches!(said.via, Via::Context | Via::Briefing | Via::Pin))
        {
            run.is_prompted = true;
        }
        match said.via {
            Via::Context => {
                self.preface = Some(Arc::clone(&said.message));
                self.is_placed = true;
            }
            Via::Continue => self.go_on(&said.message),
            Via::Prompt | Via::Turn => {
                if let (Some(run), Via::Prompt) = (&mut self.run, said.via)
                    && run.prompt.is_none()
                {
                    run.prompt = said.op;
                }
                if self.run.is_none() {
                    self.skip_open_calls();
                }
                self.say(Arc::clone(&said.message), Whose::User);
            }
            Via::Steer | Via::Queue | Via::FollowUp => {
                self.say(Arc::clone(&said.message), Whose::User);
            }
            Via::Briefing => self.say(Arc::clone(&said.message), Whose::User),
            Via::Pin => self.say(Arc::clone(&said.message), Whose::Pinned),
            Via::WrapUp => self.say(Arc::clone(&said.message), Whose::Loop),
            Via::OnStop => {
                if let Some(run) = &mut self.run {
                    run.sent_back += 1;
                }
                self.say(Arc::clone(&said.message), Whose::Loop);
            }
            Via::Repair => {
                if let Some(run) = &mut self.run {
                    run.repair = Repair::Asked;
                }
                self.say(Arc::clone(&said.message), Whose::Loop);
            }
        }
    }

    fn say(&mut self, message: Arc<UserMessage>, whose: Whose) {
        self.answer.clear();
        self.goes_on = false;
        self.stop = None;
        if let Some(run) = &mut self.run {
            run.continued = 0;
            // There is something to answer again.
            (run.completion, run.handoff) = (None, None);
            if matches!(whose, Whose::User | Whose::Pinned) {
                run.planning.overtake();
            }
        }
        self.append_user(message, whose);
    }

    /// Asks the model to go on: the answer so far stays part of the answer.
    fn go_on(&mut self, message: &Arc<UserMessage>) {
        self.goes_on = true;
        if let Some(run) = &mut self.run {
            run.continued += 1;
        }
        self.append_user(Arc::clone(message), Whose::Loop);
    }

    fn append_user(&mut self, message: Arc<UserMessage>, whose: Whose) {
        let message = match self.preface.take() {
            Some(preface) => {
                let parts = preface.content.iter().chain(&message.content).cloned();
                Arc::new(UserMessage { content: parts.collect() })
            }
            None => message,
        };
        let message = MessageRef::from(Message::User(message));
        if self.batch.iter().any(Call::is_open) {
            self.deferred.push((message, whose));
        } else {
            self.view.push(message, whose);
            self.last = Last::Said;
        }
    }

    fn reply(&mut self, said: &AssistantSaid) {
        match said.purpose {
            // What these say is about the conversation, not a part of it.
            Purpose::Compact => return self.answer_effect(said),
            Purpose::Plan => return self.propose(said),
            Purpose::Turn | Purpose::WrapUp | Purpose::Continue | Purpose::Repair => {}
        }
        self.count(said);
        if let Some(usage) = said.usage {
            // What failed attempts sent is no part of the conversation.
            self.view.measure(usage.input.saturating_sub(said.wasted.input));
        }
        self.stop = Some(Stop::of(said));
        if !std::mem::take(&mut self.goes_on) {
            self.answer.clear();
        }
        if said.broken.is_some() {
            self.break_off(said);
            return;
        }
        self.is_fresh = true;
        self.answer.push(Arc::clone(&said.message));
        if !said.message.content.is_empty() {
            let message = Message::Assistant(Arc::clone(&said.message));
            self.view.push(message.into(), Whose::Model);
        }
        self.batch = said.message.tool_calls().map(Call::from).collect();
        self.calls.extend(said.message.tool_calls().map(|call| call.id.clone()));
        let cut = said.stop == StopReason::MaxTokens;
        if let (true, Some(last)) = (cut, self.batch.last_mut()) {
            let arguments = serde_json::from_str::<serde::de::IgnoredAny>(&last.call.arguments);
            last.is_cut = arguments.is_err();
        }
        if let (false, Some(run)) = (cut, &mut self.run) {
            run.continued = 0;
        }
        // After a pause what comes next belongs to the same answer, without another word.
        self.goes_on = self.is_paused();
        let may_go_on = self.run.as_ref().is_some_and(|run| run.continued == 0);
        let goes_on = self.goes_on || (cut && may_go_on);
        self.last = if goes_on && self.batch.is_empty() { Last::Cut } else { Last::Answer };
    }

    /// Counts a reply.
    fn count(&mut self, said: &AssistantSaid) {
        let Some(run) = &mut self.run else { return };
        if said.purpose == Purpose::WrapUp {
            run.wrapped_up = true;
        } else {
            run.model_turns += 1;
        }
        if said.purpose.is_said() {
            run.planning.answer();
        }
        run.acted.clear();
        run.asides = 0;
        let overflows = Stop::of(said).is_overflow();
        run.overflows = if overflows { run.overflows + 1 } else { 0 };
        if run.repair == Repair::Asked {
            run.repair = Repair::Made;
        }
    }

    /// Keeps the text of a reply that broke off, and says so to the model.
    fn break_off(&mut self, said: &AssistantSaid) {
        self.last = Last::Broken;
        self.batch.clear();
        let text = said.message.to_text();
        if text.is_empty() {
            return;
        }
        let why = match &said.broken {
            Some(Broken::Failed { .. }) => "the connection to the model failed here",
            Some(Broken::OutOfTime) => "stopped here because the time was up",
            Some(Broken::Stopped) | None => "stopped here by the user",
        };
        let kept = AssistantMessage::text(format!("{text}\n\n[{why}]"));
        self.view.push(Message::Assistant(Arc::new(kept)).into(), Whose::Model);
        self.answer.push(Arc::clone(&said.message));
    }

    fn start_call(&mut self, started: &CallStarted) {
        // A call that was woken starts again, and is still one call.
        let again = self.call_mut(&started.call).is_some_and(|call| {
            if let (true, CallState::Woken(waked)) = (call.started, &call.state) {
                call.waked = Some(waked.clone());
            }
            std::mem::replace(&mut call.started, true)
        });
        if self.set_state(&started.call, CallState::Started)
            && let Some(call) = self.call_mut(&started.call)
        {
            call.rewritten.clone_from(&started.arguments);
        }
        if let (false, Some(run)) = (again, &mut self.run) {
            run.tool_calls += 1;
        }
    }

    /// Lets a call wait, unless what it waits for has happened before it could say so.
    fn suspend_call(&mut self, entry: EntryId, waiting: &CallWaiting) {
        let (wake, passed_to) = (waiting.wake.clone(), waiting.passed_to.clone());
        let happens = matches!(wake, Wake::Agent { .. } | Wake::Job(_) | Wake::At(_));
        self.set_state(&waiting.call, CallState::Waiting(Waiting { entry, wake, passed_to }));
        let Some(call) = self.call_mut(&waiting.call) else { return };
        call.waked = None;
        if call.early && happens && call.is_open() {
            call.early = false;
            call.state = CallState::Woken(Waked::Happened);
        }
    }

    fn end_background(&mut self, ended: &BackgroundEnded) {
        if let Some(run) = &mut self.run {
            run.background.retain(|background| background.call.id != ended.call);
        }
        if let Some(message) = &ended.message {
            self.say(Arc::clone(message), Whose::Loop);
        }
    }

    fn end_call(&mut self, ended: &CallEnded) {
        let behind = ended.behind.zip(self.call_mut(&ended.call));
        let behind = behind.map(|(behind, call)| {
            let arguments = call.arguments().to_owned();
            Background { call: ToolCall { arguments, ..call.call.clone() }, behind }
        });
        if let Some(run) = &mut self.run {
            run.background.extend(behind);
        }
        self.put_away.end(ended);
        if let Some(run) = &mut self.run {
            run.planning.end(ended);
            if ended.status == CallStatus::Denied {
                run.denials.push(ended.call.clone());
            }
            if let Some(conclusion) = &ended.conclusion {
                run.conclude(conclusion);
            }
            if ended.fatal {
                let message = format!("a tool ended the run: {}", text_of(&ended.content));
                run.fatal.get_or_insert(RunError { kind: RunErrorKind::Tool, message });
            }
        }
        if !self.set_state(&ended.call, CallState::Ended(ended.clone()))
            || self.batch.iter().any(Call::is_open)
        {
            return;
        }
        let results = self.batch.drain(..).filter_map(|call| match call.state {
            CallState::Ended(ended) => Some(ToolResult {
                call: call.call.id,
                name: call.call.name,
                content: ended.content,
                is_error: ended.status.is_error(),
            }),
            CallState::New | CallState::Started | CallState::Waiting(_) | CallState::Woken(_) => {
                None
            }
        });
        let results = Message::Results(results.collect());
        self.view.push(results.into(), Whose::Tools);
        if self.is_void() {
            // The results only close the calls; the reply still is what ends the run.
            self.last = Last::Answer;
        } else {
            self.last = Last::Results;
            self.stop = None;
        }
        for (message, whose) in std::mem::take(&mut self.deferred) {
            self.view.push(message, whose);
            self.last = Last::Said;
        }
    }

    fn hit(&mut self, hit: &LimitHit) {
        if let Some(run) = &mut self.run {
            run.limit = Some(hit.clone());
            // What shortens the conversation is asked once more, for the last word.
            run.acted.clear();
        }
        if let Some(message) = &hit.wrap_up {
            self.say(Arc::clone(message), Whose::Loop);
        }
    }

    fn record(&mut self, entry: &Entry, custom: &Custom) {
        if let Some(run) = &mut self.run {
            run.note(custom);
        }
        let is_open = self.batch.iter().any(Call::is_open);
        // Nothing stands between calls and their results, nor before what was said meanwhile.
        let ahead = if is_open { 1 + self.deferred.len() } else { 0 };
        self.view.note(entry, ahead);
        let data = custom.data.clone();
        if let Some(of_name) = self.records.get_mut(custom.name.as_str()) {
            of_name.push_back_mut(data);
        } else {
            let first = std::iter::once(data).collect();
            self.records.insert_mut(custom.name.as_str().into(), first);
        }
    }

    /// The first wake counts; a later one finds the call no longer waiting.
    fn wake(&mut self, call: &CallId, waiting: Option<EntryId>, waked: Waked) {
        let waits = self.call_mut(call).is_some_and(|call| match &call.state {
            CallState::Waiting(now) => now.is_meant_by(waiting) && now.is_ended_by(&waked, waiting),
            CallState::New | CallState::Started | CallState::Woken(_) | CallState::Ended(_) => {
                false
            }
        });
        if waits {
            self.set_state(call, CallState::Woken(waked));
        } else if let (Waked::Happened, None, Some(call)) = (&waked, waiting, self.call_mut(call)) {
            // What has happened may be what it will wait for, unless it is what it did wait for. One
            // that was just woken looks itself.
            call.early |= matches!(call.state, CallState::New | CallState::Started);
        }
    }

    fn deliver(&mut self, op: Option<crate::id::OpId>) {
        if let (Some(run), Some(op)) = (&mut self.run, op) {
            run.pending.retain(|pending| pending.id != op);
        }
    }

    fn call_mut(&mut self, id: &CallId) -> Option<&mut Call> {
        self.batch.iter_mut().find(|call| call.id() == id)
    }

    /// Moves an open call on; returns whether there is one.
    fn set_state(&mut self, id: &CallId, state: CallState) -> bool {
        match self.call_mut(id) {
            Some(call) if call.is_open() => {
                call.state = state;
                true
            }
            Some(_) | None => false,
        }
    }
}

impl From<&bowline_llm::ToolCall> for Call {
    fn from(call: &bowline_llm::ToolCall) -> Self {
        Self {
            call: call.clone(),
            state: CallState::New,
            started: false,
            rewritten: None,
            is_cut: false,
            waked: None,
            early: false,
        }
    }
}
