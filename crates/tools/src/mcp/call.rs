//! Calls that are under way: their progress, what the server asks meanwhile, and their end.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CallToolResult, CancelledNotification,
    CancelledNotificationParam, ClientRequest, ElicitResult, ElicitationAction, Extensions,
    JsonObject, ProgressNotificationParam, ProgressToken, RequestId, ServerResult,
};
use rmcp::service::{
    InboundStreamOrigin, Peer, PeerRequestOptions, RequestHandle, RoleClient, ServiceError,
};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until};

use bowline_agent::entry::Wake;
use bowline_agent::tool::{ToolContext, ToolError, ToolOutput};

use super::connection::{Connection, refusal, told};
use super::content;
use super::http::Refusal;
use super::question::{Interview, Next};

/// How much may wait to be heard of a call; of progress the rest is dropped.
const UNHEARD: usize = 64;

/// The calls that are under way on a connection, in the order in which they began.
#[derive(Debug, Default)]
pub(super) struct Calls {
    open: Mutex<Vec<Open>>,
}

#[derive(Debug)]
struct Open {
    number: u64,
    /// By what the server knows it; `None` until it has been sent.
    known: Option<(RequestId, ProgressToken)>,
    heard: mpsc::Sender<Heard>,
}

/// What is heard of a call before its end.
#[derive(Debug)]
enum Heard {
    Progress(String),
    Question(Interview, oneshot::Sender<ElicitResult>),
}

impl Calls {
    /// Passes on what a server tells of how far it is.
    pub(super) fn progress(&self, progress: &ProgressNotificationParam) {
        let open = self.lock();
        let is_it = |call: &&Open| match &call.known {
            Some((_, token)) => *token == progress.progress_token,
            // What is said so early is said of the call that is just being made.
            None => true,
        };
        if let Some(call) = open.iter().find(is_it) {
            let _ = call.heard.try_send(Heard::Progress(line_of(progress)));
        }
    }

    /// Has a question answered that a server asks in the course of a call.
    pub(super) fn ask(
        &self,
        message: String,
        schema: &Value,
        order: &[String],
        extensions: &Extensions,
    ) -> impl Future<Output = ElicitResult> + Send + use<> {
        let origin = extensions.get::<InboundStreamOrigin>();
        let heard = {
            let open = self.lock();
            let is_it = |call: &&Open| match (&call.known, origin) {
                (Some((id, _)), Some(InboundStreamOrigin::OutboundRequest(origin))) => id == origin,
                _ => false,
            };
            // Over pipes nothing says which call it belongs to: the latest is the likeliest.
            open.iter().find(is_it).or(open.last()).map(|call| call.heard.clone())
        };
        let interview = Interview::new(message, schema, order);
        async move {
            let (answer, answered) = oneshot::channel();
            if let Some(heard) = heard
                && heard.send(Heard::Question(interview, answer)).await.is_ok()
                && let Ok(answer) = answered.await
            {
                return answer;
            }
            // Nobody is left whom it could be asked for.
            ElicitResult::new(ElicitationAction::Cancel)
        }
    }

    fn enter(self: &Arc<Self>) -> (Entered, mpsc::Receiver<Heard>) {
        let (heard, hears) = mpsc::channel(UNHEARD);
        let mut open = self.lock();
        let number = open.last().map_or(0, |call| call.number + 1);
        open.push(Open { number, known: None, heard });
        (Entered { calls: Arc::clone(self), number }, hears)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call's place among those under way; dropping it leaves it.
#[derive(Debug)]
struct Entered {
    calls: Arc<Calls>,
    number: u64,
}

impl Entered {
    fn is_known_by(&self, id: RequestId, token: ProgressToken) {
        let mut open = self.calls.lock();
        if let Some(call) = open.iter_mut().find(|call| call.number == self.number) {
            call.known = Some((id, token));
        }
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        self.calls.lock().retain(|call| call.number != self.number);
    }
}

/// A call that is under way. Dropping it tells the server that nobody waits for it any more.
pub(super) struct Flight {
    handle: RequestHandle<RoleClient>,
    hears: mpsc::Receiver<Heard>,
    question: Option<(Interview, oneshot::Sender<ElicitResult>)>,
    /// How long it may still take; the time in which a person thinks does not count.
    time_left: Option<Duration>,
    is_over: bool,
    connection: Arc<Connection>,
    _entered: Entered,
}

/// Why a call came to nothing.
#[derive(Debug)]
pub(super) enum Failure {
    /// For the model, as it is.
    Told(ToolError),
    /// The server did not take the call, so that it did not run.
    Refused(Refusal),
    /// The server took the call and gave no answer to it, and nobody knows what the call did.
    Unanswered(String),
    /// The connection broke, and nobody knows what the call did.
    Broken(String),
}

impl Flight {
    /// Makes a call.
    pub(super) async fn start(
        connection: Arc<Connection>,
        name: &str,
        arguments: JsonObject,
        time: Option<Duration>,
    ) -> Result<Self, Failure> {
        let (entered, hears) = connection.calls().enter();
        let params = CallToolRequestParams::new(name.to_owned()).with_arguments(arguments);
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        let sent =
            connection.peer().send_cancellable_request(request, PeerRequestOptions::no_options());
        let handle = sent.await.map_err(|error| failure(&error))?;
        entered.is_known_by(handle.id.clone(), handle.progress_token.clone());
        Ok(Self {
            handle,
            hears,
            question: None,
            time_left: time,
            is_over: false,
            connection,
            _entered: entered,
        })
    }

    /// Returns the connection that it goes over.
    pub(super) fn connection(&self) -> &Arc<Connection> {
        &self.connection
    }

    /// Takes what a person answered to the question that the call waits for.
    pub(super) fn answer(&mut self, text: &str) {
        let Some((mut interview, answer)) = self.question.take() else { return };
        match interview.answer(text) {
            Next::Ask => self.question = Some((interview, answer)),
            // A server that has given up does not listen.
            Next::Done(result) => drop(answer.send(result)),
        }
    }

    /// Returns what it waits for, if that is a person.
    pub(super) fn asks(&self, server: &str) -> Option<Wake> {
        let (interview, _) = self.question.as_ref()?;
        Some(interview.wake(server))
    }

    /// Follows the call to its end, or until a person must be asked: see [`Flight::asks`].
    pub(super) async fn follow(
        &mut self,
        cx: &ToolContext,
    ) -> Result<Option<CallToolResult>, Failure> {
        let began = Instant::now();
        let deadline = self.time_left.map(|left| began + left);
        let late = async move {
            match deadline {
                Some(deadline) => sleep_until(deadline).await,
                None => std::future::pending().await,
            }
        };
        tokio::pin!(late);
        let why = loop {
            tokio::select! {
                biased;
                // What was said before the end is heard before it.
                Some(heard) = self.hears.recv() => match heard {
                    Heard::Progress(text) => cx.output(text),
                    Heard::Question(interview, answer) => {
                        self.question = Some((interview, answer));
                        self.time_left = deadline.map(|deadline| deadline - Instant::now());
                        return Ok(None);
                    }
                },
                result = &mut self.handle.rx => {
                    self.is_over = true;
                    return self.ended(result.unwrap_or(Err(ServiceError::TransportClosed))).map(Some);
                }
                () = cx.cancel.cancelled() => break ToolError::failed("canceled; the server was told so"),
                () = &mut late => break ToolError::TimedOut(format!(
                    "timed out after {:.1} s; the server was told to stop",
                    began.elapsed().as_secs_f64(),
                )),
            }
        };
        self.abandon();
        Err(Failure::Told(why))
    }

    fn ended(&self, result: Result<ServerResult, ServiceError>) -> Result<CallToolResult, Failure> {
        let failed = |text: String| Err(Failure::Told(ToolError::Failed(text)));
        match result {
            Ok(ServerResult::CallToolResult(result)) => Ok(result),
            Ok(_) => failed("the server answered with something that is no result".to_owned()),
            Err(ServiceError::McpError(error)) => failed(content::protocol_error(&error)),
            Err(error) => Err(failure(&error)),
        }
    }

    /// Tells the server that nobody waits any more.
    fn abandon(&mut self) {
        self.is_over = true;
        // Where there is no runtime there is no connection either.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let (peer, id) = (self.handle.peer.clone(), self.handle.id.clone());
            runtime.spawn(async move { cancel(&peer, id).await });
        }
    }
}

fn failure(error: &ServiceError) -> Failure {
    match refusal(error) {
        Some(refusal) if refusal.did_not_run => Failure::Refused(refusal),
        Some(refusal) => Failure::Unanswered(refusal.why),
        None => Failure::Broken(told(error)),
    }
}

async fn cancel(peer: &Peer<RoleClient>, id: RequestId) {
    let why = "canceled by the user or out of time".to_owned();
    let params = CancelledNotificationParam::new(Some(id), Some(why));
    // A server that is gone needs not be told.
    let _ = peer.send_notification(CancelledNotification::new(params).into()).await;
}

impl Drop for Flight {
    fn drop(&mut self) {
        if !self.is_over {
            self.abandon();
        }
    }
}

impl fmt::Debug for Flight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Flight").field("id", &self.handle.id).finish_non_exhaustive()
    }
}

/// Returns how far a call is, as a line.
fn line_of(progress: &ProgressNotificationParam) -> String {
    let of = progress.total.map_or_else(String::new, |total| format!("/{total}"));
    let message = progress.message.as_deref().map_or_else(String::new, |text| format!(" {text}"));
    format!("[{}{of}]{message}\n", progress.progress)
}

/// Returns what a tool says that has been waiting, or has ended.
pub(super) fn output(result: CallToolResult) -> Result<ToolOutput, ToolError> {
    let is_error = result.is_error == Some(true);
    let parts = content::parts(result);
    match is_error {
        false => Ok(ToolOutput::Content(parts)),
        true => Err(ToolError::Failed(content::as_text(&parts))),
    }
}
