//! A model that says what a test wants it to say.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::stream;
use tokio::sync::watch;

use crate::{
    AssistantMessage, AssistantPart, CallId, ErrorKind, Model, ModelError, ModelInfo, ModelStream,
    Reasoning, Request, Response, Spent, StopReason, StreamEvent, ToolCall, Usage,
};

/// A model that plays back a script, one reply for each request, and keeps the requests.
///
/// Clones share the script and the requests, so a test keeps one and gives the other away.
///
/// ```
/// use bowline_llm::scripted::{Reply, ScriptedModel};
///
/// let model = ScriptedModel::new([
///     Reply::call("read", r#"{"path":"notes.md"}"#),
///     Reply::text("There are three notes."),
/// ]);
/// // ... run an agent with `model.clone()`, then look at what it sent:
/// assert_eq!(model.requests().len(), 0);
/// ```
#[derive(Debug, Clone)]
pub struct ScriptedModel {
    info: Arc<ModelInfo>,
    script: Arc<Mutex<Script>>,
}

#[derive(Debug, Default)]
struct Script {
    replies: VecDeque<Reply>,
    requests: Vec<Request>,
    /// How many calls have been given an id.
    calls: u64,
}

impl ScriptedModel {
    /// Makes a model that gives these replies, in order.
    ///
    /// A request beyond the last one fails with [`ErrorKind::InvalidRequest`].
    pub fn new(replies: impl IntoIterator<Item = Reply>) -> Self {
        let info = ModelInfo {
            provider: "scripted".to_owned(),
            model: "script".to_owned(),
            ..ModelInfo::default()
        };
        let script = Script { replies: replies.into_iter().collect(), ..Script::default() };
        Self { info: Arc::new(info), script: Arc::new(Mutex::new(script)) }
    }

    /// Answers every request with what `reply` makes of it; the script never ends.
    pub fn answering(reply: impl FnMut(&Request) -> Reply + Send + 'static) -> Self {
        let reply = Reply::from_fn(reply);
        Self::new([Reply { repeats: true, ..reply }])
    }

    /// Replaces what is known of the model, such as its context window.
    #[must_use]
    pub fn with_info(self, info: ModelInfo) -> Self {
        Self { info: Arc::new(info), ..self }
    }

    /// Adds a reply at the end of the script.
    pub fn push(&self, reply: Reply) {
        self.script().replies.push_back(reply);
    }

    /// Returns all requests so far, in the order in which they were sent.
    pub fn requests(&self) -> Vec<Request> {
        self.script().requests.clone()
    }

    /// Returns how many replies were not asked for yet.
    pub fn remaining(&self) -> usize {
        self.script().replies.len()
    }

    fn script(&self) -> MutexGuard<'_, Script> {
        self.script.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the request and returns the performance of the next reply.
    fn perform(&self, request: &Request) -> Performance {
        let mut script = self.script();
        script.requests.push(request.clone());
        let Some(mut reply) = script.replies.pop_front() else {
            let given = script.requests.len() - 1;
            let message = format!("script exhausted after {given} replies");
            return Performance::failing(ModelError::new(ErrorKind::InvalidRequest, message));
        };
        if reply.repeats {
            script.replies.push_front(reply.clone());
        }
        // A function may look at the model it belongs to, so the script must not stay locked.
        drop(script);
        while let Body::Made(make) = &reply.body {
            let make = Arc::clone(make);
            let mut make = make.lock().unwrap_or_else(PoisonError::into_inner);
            let made = make(request);
            reply = Reply { gate: reply.gate, last_gate: reply.last_gate, ..made };
        }
        let mut script = self.script();
        Performance::of(reply, || {
            script.calls += 1;
            format!("call_{}", script.calls).into()
        })
    }
}

impl Model for ScriptedModel {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn stream(&self, request: Request) -> ModelStream {
        let start = (self.clone(), Stage::Unsent(request));
        Box::pin(stream::unfold(start, async |(model, stage)| {
            let mut performance = match stage {
                Stage::Unsent(request) => model.perform(&request),
                Stage::Speaking(performance) => performance,
            };
            let event = performance.next().await?;
            Some((event, (model, Stage::Speaking(performance))))
        }))
    }
}

enum Stage {
    Unsent(Request),
    Speaking(Performance),
}

/// One reply of a script.
///
/// It begins as text, calls, an error or a function and is refined from there:
///
/// ```
/// use bowline_llm::Usage;
/// use bowline_llm::scripted::Reply;
///
/// let reply = Reply::text("I will look.")
///     .and_call("read", r#"{"path":"a"}"#)
///     .and_call("read", r#"{"path":"b"}"#)
///     .with_usage(Usage { input: 120, output: 30, ..Usage::default() });
/// ```
#[derive(Debug, Clone)]
pub struct Reply {
    body: Body,
    deltas: Option<Vec<StreamEvent>>,
    gate: Option<Gate>,
    last_gate: Option<Gate>,
    repeats: bool,
}

#[derive(Clone)]
enum Body {
    Says(Box<Response>),
    Fails(ModelError),
    BreaksOff,
    Made(Maker),
}

type Maker = Arc<Mutex<dyn FnMut(&Request) -> Reply + Send>>;

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Says(response) => fmt::Debug::fmt(response, f),
            Self::Fails(error) => fmt::Debug::fmt(error, f),
            Self::BreaksOff => f.write_str("BreaksOff"),
            Self::Made(_) => f.write_str("Made"),
        }
    }
}

impl Reply {
    /// Says a text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::message(AssistantMessage::text(text))
    }

    /// Calls a tool. Arguments are JSON, or bad JSON on purpose; the id is `call_1`, `call_2` and
    /// so on, counted over all replies of the model.
    pub fn call(name: impl Into<String>, arguments: impl Into<String>) -> Self {
        Self::message(AssistantMessage::default()).and_call(name, arguments)
    }

    /// Thinks before it says or does anything else.
    pub fn reasoning(text: impl Into<String>) -> Self {
        let reasoning = Reasoning { text: text.into(), payload: None };
        Self::message(AssistantMessage { content: vec![AssistantPart::Reasoning(reasoning)] })
    }

    /// Says a message made by hand. Calls with an empty id are given one.
    pub fn message(message: AssistantMessage) -> Self {
        let has_calls = message.tool_calls().next().is_some();
        let stop = if has_calls { StopReason::ToolUse } else { StopReason::EndTurn };
        Self::of(Body::Says(Box::new(Response {
            message,
            stop,
            usage: None,
            wasted: Spent::default(),
            model: None,
            by: None,
        })))
    }

    /// Fails.
    pub fn error(error: ModelError) -> Self {
        Self::of(Body::Fails(error))
    }

    /// Ends with neither an answer nor an error, as no model should; combine it with
    /// [`with_deltas`](Self::with_deltas) to break off in the middle.
    pub fn breaks_off() -> Self {
        Self::of(Body::BreaksOff)
    }

    /// Decides when the request is there.
    pub fn from_fn(reply: impl FnMut(&Request) -> Self + Send + 'static) -> Self {
        Self::of(Body::Made(Arc::new(Mutex::new(reply))))
    }

    fn of(body: Body) -> Self {
        Self { body, deltas: None, gate: None, last_gate: None, repeats: false }
    }

    /// Adds a text.
    #[must_use]
    pub fn and_text(self, text: impl Into<String>) -> Self {
        self.and(AssistantPart::Text(text.into()))
    }

    /// Adds a call with an id of the model's own; see [`call`](Self::call).
    #[must_use]
    pub fn and_call(self, name: impl Into<String>, arguments: impl Into<String>) -> Self {
        self.and_call_with_id("", name, arguments)
    }

    /// Adds a call with a given id.
    #[must_use]
    pub fn and_call_with_id(
        self,
        id: &str,
        name: impl Into<String>,
        arguments: impl Into<String>,
    ) -> Self {
        let call = ToolCall { id: id.into(), name: name.into(), arguments: arguments.into() };
        self.and(AssistantPart::ToolCall(call))
    }

    /// Adds a part of any kind. Replies that say nothing stay as they are.
    #[must_use]
    pub fn and(self, part: AssistantPart) -> Self {
        self.changed(|response| {
            if matches!(part, AssistantPart::ToolCall(_)) {
                response.stop = StopReason::ToolUse;
            }
            response.message.content.push(part);
        })
    }

    /// Says what it cost; nothing is said without this. For a failure it is what was billed.
    #[must_use]
    pub fn with_usage(mut self, usage: Usage) -> Self {
        if let Body::Fails(error) = &mut self.body {
            error.usage = usage;
        }
        self.changed(|response| response.usage = Some(usage))
    }

    /// Says why it stopped, in place of what its parts suggest.
    #[must_use]
    pub fn with_stop(self, stop: StopReason) -> Self {
        self.changed(|response| response.stop = stop)
    }

    /// Streams these events before the end, in place of one delta for each part.
    #[must_use]
    pub fn with_deltas(self, deltas: impl IntoIterator<Item = StreamEvent>) -> Self {
        Self { deltas: Some(deltas.into_iter().collect()), ..self }
    }

    /// Waits at the gate before it says anything.
    #[must_use]
    pub fn held_by(self, gate: &Gate) -> Self {
        Self { gate: Some(gate.clone()), ..self }
    }

    /// Waits at the gate after its deltas, before its end.
    #[must_use]
    pub fn held_at_the_end_by(self, gate: &Gate) -> Self {
        Self { last_gate: Some(gate.clone()), ..self }
    }

    fn changed(mut self, change: impl FnOnce(&mut Response)) -> Self {
        match &mut self.body {
            Body::Says(response) => change(response),
            Body::Fails(_) | Body::BreaksOff | Body::Made(_) => {}
        }
        self
    }
}

/// Holds a reply until a test lets it go on.
///
/// ```
/// use bowline_llm::scripted::{Gate, Reply, ScriptedModel};
/// use bowline_llm::{Model, Request};
/// use futures::StreamExt;
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let gate = Gate::default();
/// let model = ScriptedModel::new([Reply::text("late").held_by(&gate)]);
/// let mut stream = model.stream(Request::default());
/// let reader = async { stream.next().await };
/// let test = async {
///     gate.reached().await; // The request is there and nothing was said yet.
///     gate.open();
/// };
/// let (event, ()) = tokio::join!(reader, test);
/// assert!(event.unwrap().is_ok());
/// # });
/// ```
#[derive(Debug, Clone)]
pub struct Gate(Arc<watch::Sender<GateState>>);

#[derive(Debug, Clone, Copy, Default)]
struct GateState {
    is_reached: bool,
    is_open: bool,
}

impl Default for Gate {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(GateState::default())))
    }
}

impl Gate {
    /// Waits until a reply stands at the gate.
    pub async fn reached(&self) {
        self.wait(|state| state.is_reached).await;
    }

    /// Lets all replies pass, now and later.
    pub fn open(&self) {
        self.0.send_modify(|state| state.is_open = true);
    }

    async fn pass(&self) {
        self.0.send_modify(|state| state.is_reached = true);
        self.wait(|state| state.is_open).await;
    }

    async fn wait(&self, is_so: impl FnMut(&GateState) -> bool) {
        // It fails only without a sender, and `self` is one.
        let _ = self.0.subscribe().wait_for(is_so).await;
    }
}

/// A reply being given.
struct Performance {
    gate: Option<Gate>,
    deltas: VecDeque<StreamEvent>,
    last_gate: Option<Gate>,
    end: Option<Result<StreamEvent, ModelError>>,
}

impl Performance {
    fn of(reply: Reply, mut next_id: impl FnMut() -> CallId) -> Self {
        let end = match reply.body {
            Body::Says(mut response) => {
                for part in &mut response.message.content {
                    if let AssistantPart::ToolCall(call) = part
                        && call.id.as_str().is_empty()
                    {
                        call.id = next_id();
                    }
                }
                Some(Ok(StreamEvent::Done(response)))
            }
            Body::Fails(error) => Some(Err(error)),
            Body::BreaksOff | Body::Made(_) => None,
        };
        let deltas = reply.deltas.unwrap_or_else(|| match &end {
            Some(Ok(StreamEvent::Done(response))) => deltas_of(&response.message),
            _ => Vec::new(),
        });
        Self { gate: reply.gate, deltas: deltas.into(), last_gate: reply.last_gate, end }
    }

    fn failing(error: ModelError) -> Self {
        Self { gate: None, deltas: VecDeque::new(), last_gate: None, end: Some(Err(error)) }
    }

    async fn next(&mut self) -> Option<Result<StreamEvent, ModelError>> {
        if let Some(gate) = self.gate.take() {
            gate.pass().await;
        }
        if let Some(delta) = self.deltas.pop_front() {
            return Some(Ok(delta));
        }
        if let Some(gate) = self.last_gate.take() {
            gate.pass().await;
        }
        self.end.take()
    }
}

/// Makes one delta for each part.
fn deltas_of(message: &AssistantMessage) -> Vec<StreamEvent> {
    let mut calls = 0;
    let delta = |part: &AssistantPart| {
        Some(match part {
            AssistantPart::Text(text) => StreamEvent::TextDelta(text.clone()),
            AssistantPart::Reasoning(reasoning) => {
                StreamEvent::ReasoningDelta(reasoning.text.clone())
            }
            AssistantPart::ToolCall(call) => {
                calls += 1;
                StreamEvent::ToolCallDelta {
                    index: calls - 1,
                    name: Some(call.name.clone()),
                    arguments: call.arguments.clone(),
                }
            }
            AssistantPart::Opaque(_) => return None,
        })
    };
    message.content.iter().filter_map(delta).collect()
}
