//! Which calls may start: decided apart from the loop, which must hear of a cancel, of mail and of
//! calls that land while a gate thinks.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use futures::FutureExt;

use bowline_llm::{CallId, ToolBlock, ToolCall};

use crate::conversation::{Call, CallState};
use crate::driver::panic_text;
use crate::effect::Bounds;
use crate::entry::{CallStarted, CallStatus, CallWaiting, EntryKind, Wake};
use crate::event::AgentMeta;
use crate::gate::{Gate, Review, Verdict};
use crate::op::Decision;
use crate::tool::{Access, PassedOn, Prepared, Recovery, Toolbox, Waked, parse_arguments};

use super::batch::Room;
use super::result;
use super::tool_calls::ended;

/// How often a gate may rewrite the arguments of one call.
const REWRITES: usize = 8;

/// What is to become of a call that could start.
enum Admission {
    Starts(CallStarted, Prepared),
    /// It goes on without starting again.
    GoesOn(Prepared),
    Ends(CallStatus, String),
    Waits(Wake),
}

/// A call that is about to start.
pub(super) struct Ready {
    pub(super) call: CallId,
    pub(super) prepared: Prepared,
    pub(super) wake: Option<Waked>,
}

/// A call that cannot start yet, with what its start will say if the gate has let it pass.
pub(super) type Kept = (Prepared, Option<CallStarted>);

/// What was decided about calls.
#[derive(Default)]
pub(super) struct Admitted {
    pub(super) kinds: Vec<EntryKind>,
    pub(super) ready: Vec<Ready>,
    pub(super) kept: HashMap<CallId, Kept>,
}

/// One look at the calls that are not in flight. It owns all it needs, so it may be dropped at any
/// time: then nothing was decided.
pub(super) struct Round {
    pub(super) reviewer: Reviewer,
    pub(super) room: Room,
    /// How many calls may still start; `None` for any number.
    pub(super) left: Option<u32>,
    pub(super) calls: Vec<(Call, Option<Kept>)>,
}

/// Finds tools, and reads arguments for them.
pub(super) struct Desk {
    pub(super) bounds: Bounds,
    pub(super) offered: ToolBlock,
    pub(super) tools: Toolbox,
}

/// Who is asked about calls.
pub(super) struct Reviewer {
    pub(super) gate: Arc<dyn Gate>,
    pub(super) meta: Arc<AgentMeta>,
    pub(super) desk: Desk,
    /// What was allowed for the session.
    pub(super) granted: Arc<[String]>,
}

impl Round {
    /// Decides about the calls, in order.
    pub(super) async fn decide(mut self) -> Admitted {
        let mut admitted = Admitted::default();
        let mut ahead: Vec<Access> = Vec::new();
        for (call, kept) in std::mem::take(&mut self.calls) {
            let id = call.id().clone();
            let (prepared, passed) = match self.known(&call, kept) {
                Ok(known) => known,
                Err((status, why)) => {
                    admitted.kinds.push(ended(id, status, &why));
                    continue;
                }
            };
            let is_over_limit = !call.started && self.left == Some(0);
            if is_over_limit || !self.fits(&prepared.access, &admitted.ready, &ahead) {
                ahead.push(prepared.access.clone());
                admitted.kept.insert(id, (prepared, passed));
                continue;
            }
            let admission = match passed {
                Some(started) => Admission::Starts(started, prepared),
                None => self.reviewer.review(&call, prepared).await,
            };
            match admission {
                // The gate gave it other arguments, with which it must wait for its turn.
                Admission::Starts(started, prepared)
                    if !self.fits(&prepared.access, &admitted.ready, &ahead) =>
                {
                    ahead.push(prepared.access.clone());
                    admitted.kept.insert(id, (prepared, Some(started)));
                }
                Admission::Starts(started, prepared) => {
                    if !call.started {
                        self.left = self.left.map(|left| left.saturating_sub(1));
                    }
                    admitted.kinds.push(EntryKind::CallStarted(started));
                    admitted.ready.push(Ready { call: id, prepared, wake: wake(&call) });
                }
                Admission::GoesOn(prepared) => {
                    admitted.ready.push(Ready { call: id, prepared, wake: wake(&call) });
                }
                Admission::Ends(status, why) => admitted.kinds.push(ended(id, status, &why)),
                Admission::Waits(wake) => {
                    let passed_to = self.reviewer.desk.passed_to(&call);
                    let waiting = CallWaiting { call: id, wake, passed_to };
                    admitted.kinds.push(EntryKind::CallWaiting(waiting));
                }
            }
        }
        admitted
    }

    /// Returns a call as it was prepared, before or now, or how it ends because it cannot be.
    fn known(&self, call: &Call, kept: Option<Kept>) -> Result<Kept, (CallStatus, String)> {
        if call.is_cut {
            return Err((CallStatus::Error, result::CUT.to_owned()));
        }
        if let Some(kept) = kept {
            return Ok(kept);
        }
        let prepared = self.reviewer.desk.prepare(&call.call.name, call.arguments())?;
        Ok((prepared, None))
    }

    fn fits(&self, access: &Access, ready: &[Ready], ahead: &[Access]) -> bool {
        let starts = ready.iter().map(|ready| &ready.prepared.access);
        self.room.fits(access, ready.len(), starts.chain(ahead))
    }
}

/// Returns what the tool of a call is told of its wake: the decision that let it start is the
/// gate's, and no wake.
fn wake(call: &Call) -> Option<Waked> {
    match &call.state {
        CallState::Woken(waked) => Some(waked.clone()),
        CallState::Started => call.waked.clone(),
        CallState::New | CallState::Waiting(_) | CallState::Ended(_) => None,
    }
    .filter(|_| call.started)
}

impl Desk {
    /// Finds the tool and reads the arguments.
    fn prepare(&self, name: &str, arguments: &str) -> Result<Prepared, (CallStatus, String)> {
        self.check_scope(name)?;
        let is_offered = self.offered.specs().iter().any(|spec| spec.name == name);
        let Some(tool) = self.tools.get(name).filter(|_| is_offered) else {
            let names = self.offered.specs().iter().map(|spec| spec.name.as_str());
            return Err((CallStatus::Error, result::unknown_tool(name, names)));
        };
        if tool.passes_on() {
            let passed = parse_arguments::<PassedOn>(arguments);
            let passed = passed.map_err(|error| (CallStatus::Error, error.to_string()))?;
            self.check_scope(&passed.name)?;
        }
        let prepared = catch_unwind(AssertUnwindSafe(|| tool.prepare(arguments)));
        match prepared {
            Ok(prepared) => prepared.map_err(|error| (CallStatus::Error, error.to_string())),
            Err(panic) => {
                let text = panic_text(&*panic);
                Err((CallStatus::Error, format!("the tool panicked: {text}")))
            }
        }
    }

    fn check_scope(&self, name: &str) -> Result<(), (CallStatus, String)> {
        let Some(effect) = self.bounds.forbids(name) else { return Ok(()) };
        let why = format!("denied: the tool {name} is out of scope here ({effect})");
        Err((CallStatus::Denied, why))
    }

    /// Returns the call that a tool is to pass on, if it only does that.
    fn passed_on(&self, name: &str, arguments: &str) -> Option<PassedOn> {
        self.tools.get(name).filter(|tool| tool.passes_on())?;
        parse_arguments(arguments).ok()
    }

    /// Returns the tool that is really called, if the one of a call only passes it on.
    pub(super) fn passed_to(&self, call: &Call) -> Option<String> {
        self.passed_on(&call.call.name, call.arguments()).map(|passed| passed.name)
    }

    /// Tells whether it makes no difference if a call that was cut off had run.
    pub(super) fn may_repeat(&self, call: &Call) -> bool {
        let prepared = self.prepare(&call.call.name, call.arguments());
        prepared.is_ok_and(|prepared| prepared.recovery == Recovery::Rerun)
    }
}

impl Reviewer {
    /// Asks the gate about a call that has not started, and recovers one that had.
    async fn review(&self, call: &Call, prepared: Prepared) -> Admission {
        let decision = match &call.state {
            CallState::Woken(_) if call.started => {
                // It is said again that it starts: if it is cut off now, it may have run twice.
                let again = CallStarted {
                    call: call.id().clone(),
                    arguments: call.rewritten.clone(),
                    passed_to: self.desk.passed_to(call),
                    rule: None,
                };
                return Admission::Starts(again, prepared);
            }
            _ if call.started => {
                return match prepared.recovery {
                    Recovery::Unknown => {
                        Admission::Ends(CallStatus::Interrupted, result::INTERRUPTED.to_owned())
                    }
                    Recovery::Rerun | Recovery::Reattach => Admission::GoesOn(prepared),
                };
            }
            CallState::Woken(Waked::Decided(decision)) => Some(decision),
            CallState::Woken(_)
            | CallState::New
            | CallState::Started
            | CallState::Waiting(_)
            | CallState::Ended(_) => None,
        };
        if let Some(Decision::Deny { reason }) = decision {
            return Admission::Ends(CallStatus::Denied, format!("denied: {reason}"));
        }
        self.ask(call, decision, prepared).await
    }

    /// Tells whether a call would start now that waits for a decision.
    pub(super) async fn lets_pass(&self, call: &Call) -> bool {
        let Ok(prepared) = self.desk.prepare(&call.call.name, call.arguments()) else {
            return false;
        };
        matches!(self.ask(call, None, prepared).await, Admission::Starts(..))
    }

    async fn ask(
        &self,
        call: &Call,
        decision: Option<&Decision>,
        mut prepared: Prepared,
    ) -> Admission {
        let mut asked = ToolCall { arguments: call.arguments().to_owned(), ..call.call.clone() };
        for _ in 0..=REWRITES {
            let access = prepared.access.clone();
            let passed = self.desk.passed_on(&asked.name, &asked.arguments);
            let meant = match &passed {
                Some(passed) => ToolCall {
                    id: asked.id.clone(),
                    name: passed.name.clone(),
                    arguments: passed.arguments().to_owned(),
                },
                None => asked.clone(),
            };
            let (agent, granted) = (&self.meta, &*self.granted);
            let review = Review { call: &meant, access: &access, agent, decision, granted };
            // A gate that cannot say does not let anything pass.
            let verdict = AssertUnwindSafe(self.gate.review(&review)).catch_unwind().await;
            let verdict = verdict.unwrap_or_else(|panic| Verdict::Deny {
                reason: format!("the gate panicked: {}", panic_text(&*panic)),
            });
            match verdict {
                Verdict::Allow { rule } => {
                    let is_rewritten = asked.arguments != call.call.arguments;
                    let arguments = is_rewritten.then(|| asked.arguments.clone());
                    let (call, passed_to) = (call.id().clone(), passed.map(|passed| passed.name));
                    let started = CallStarted { call, arguments, passed_to, rule };
                    return Admission::Starts(started, prepared);
                }
                Verdict::Deny { reason } => {
                    return Admission::Ends(CallStatus::Denied, format!("denied: {reason}"));
                }
                Verdict::Wait { question, rule } => {
                    return Admission::Waits(Wake::Decision { question, rule, twin: None });
                }
                Verdict::Rewrite { arguments } => {
                    (asked.arguments, prepared) = match self.rewritten(&asked, passed, arguments) {
                        Ok(rewritten) => rewritten,
                        Err((status, why)) => return Admission::Ends(status, why),
                    };
                }
            }
        }
        let why = "denied: the arguments were rewritten without end".to_owned();
        Admission::Ends(CallStatus::Denied, why)
    }

    /// Prepares a call with other arguments; if it is passed on, they are those of the tool that is
    /// really called.
    fn rewritten(
        &self,
        asked: &ToolCall,
        passed: Option<PassedOn>,
        arguments: String,
    ) -> Result<(String, Prepared), (CallStatus, String)> {
        let arguments = match passed {
            Some(passed) => passed.with(&arguments),
            None => Ok(arguments),
        };
        let arguments = arguments.map_err(|error| (CallStatus::Error, error.to_string()))?;
        let prepared = self.desk.prepare(&asked.name, &arguments)?;
        Ok((arguments, prepared))
    }
}
