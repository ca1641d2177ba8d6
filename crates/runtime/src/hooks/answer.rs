//! What hooks say.

use serde::Deserialize;
use serde_json::Value;

use bowline_agent::Redaction;

use super::command::{Ended, Printed};
use super::found::{Hook, Speech};
use crate::permission::Kind;
use crate::plain;

/// How much of what hooks say the model gets to see.
const TOLD: usize = 10_000;

/// What is said where a hook does not say why.
const NO_REASON: &str = "no reason is given";

/// What one hook says, or all of one moment together.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Answer {
    pub(super) verdict: Verdict,
    /// Other arguments for the call, and how they are written.
    pub(super) updated: Option<(Speech, Value)>,
    /// What the model is to know.
    pub(super) context: Vec<String>,
    /// Why the run is to end.
    pub(super) stop: Option<String>,
    /// What a person should know.
    pub(super) warnings: Vec<String>,
}

/// What hooks say of what is about to happen, or has: the strictest counts.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Verdict {
    /// Nothing.
    #[default]
    Silent,
    /// It may be.
    Allow,
    /// A person must say; why.
    Ask(String),
    /// It may not be, or is not well; why.
    Block(String),
}

/// What a hook prints, if it is JSON.
#[derive(Debug, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Said {
    r#continue: bool,
    stop_reason: Option<String>,
    system_message: Option<String>,
    decision: Option<String>,
    reason: Option<String>,
    hook_specific_output: Specific,
}

impl Default for Said {
    fn default() -> Self {
        Self {
            r#continue: true,
            stop_reason: None,
            system_message: None,
            decision: None,
            reason: None,
            hook_specific_output: Specific::default(),
        }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Specific {
    permission_decision: Option<String>,
    permission_decision_reason: Option<String>,
    updated_input: Option<Value>,
    additional_context: Option<String>,
    /// Of a [`Event::PermissionRequest`].
    decision: Option<Permission>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Permission {
    behavior: String,
    message: Option<String>,
    updated_input: Option<Value>,
}

impl Answer {
    /// Reads what a hook says. Nothing that is secret is in it, and nothing that a terminal would act
    /// upon.
    pub(super) fn of(hook: &Hook, ended: Ended, redaction: &Redaction) -> Self {
        let clean = |text: &str| redaction.apply(&plain::text(text.trim())).into_owned();
        let printed = match ended {
            Ended::Exit(printed) => printed,
            Ended::Late(time) => {
                let seconds = time.as_secs_f64();
                return Self::failed(hook, &format!("was ended after {seconds} s"));
            }
            Ended::Lost(why) => {
                return Self::failed(hook, &format!("did not run: {}", clean(&why)));
            }
        };
        let Printed { code, stdout, stderr } = printed;
        let stderr = clean(&stderr);
        match code {
            Some(0) => Self::said(hook, &stdout, clean),
            Some(2) if hook.event.can_be_blocked() => {
                let reason = if stderr.is_empty() { NO_REASON } else { &stderr };
                Self { verdict: Verdict::Block(bounded(reason)), ..Self::default() }
            }
            Some(code) => Self::failed(hook, &with(format!("failed with code {code}"), &stderr)),
            None => Self::failed(hook, &with("was killed".to_owned(), &stderr)),
        }
    }

    /// What comes of a hook that says nothing that could be understood. Who looks after this machine
    /// wants to be asked: without an answer nothing may be.
    fn failed(hook: &Hook, how: &str) -> Self {
        let what = format!("the {} hook {:?} {how}", hook.event, shortened(&hook.command));
        if hook.layer == Kind::Managed && hook.event.is_gate() {
            return Self { verdict: Verdict::Block(what), ..Self::default() };
        }
        Self { warnings: vec![what], ..Self::default() }
    }

    fn said(hook: &Hook, stdout: &str, clean: impl Fn(&str) -> String) -> Self {
        let text = stdout.trim();
        if !text.starts_with('{') {
            let is_context = hook.event.hears_plain_text() && !text.is_empty();
            let context = is_context.then(|| clean(text)).into_iter().collect();
            return Self { context, ..Self::default() };
        }
        let read = serde_json::from_str(text).map_err(|error| error.to_string());
        let read = read.and_then(|said: Said| Ok((said.verdict(&clean)?, said)));
        let (verdict, said) = match read {
            Ok(read) => read,
            Err(what) => {
                return Self::failed(hook, &format!("printed JSON that is not read: {what}"));
            }
        };
        let Specific { additional_context, decision: permission, .. } = &said.hook_specific_output;
        let updated = said.hook_specific_output.updated_input.clone();
        let of_permission = permission.as_ref().and_then(|it| it.updated_input.clone());
        let updated = updated.or(of_permission).filter(Value::is_object);
        Self {
            verdict,
            updated: updated.map(|arguments| (hook.speech, arguments)),
            context: additional_context.iter().map(|text| clean(text)).collect(),
            stop: (!said.r#continue).then(|| {
                let reason = said.stop_reason.as_deref().or(said.reason.as_deref());
                reason.map_or_else(|| NO_REASON.to_owned(), &clean)
            }),
            warnings: said.system_message.iter().map(|text| clean(text)).collect(),
        }
    }

    /// Adds what the next hook of the same moment says.
    pub(super) fn and(mut self, next: Self) -> Self {
        self.verdict = match (self.verdict, next.verdict) {
            (Verdict::Block(one), Verdict::Block(other)) => {
                Verdict::Block(bounded(&format!("{one}\n{other}")))
            }
            (Verdict::Ask(one), Verdict::Ask(other)) => Verdict::Ask(format!("{one}; {other}")),
            (one, other) => one.max(other),
        };
        self.updated = next.updated.or(self.updated);
        self.context.extend(next.context);
        self.stop = self.stop.or(next.stop);
        self.warnings.extend(next.warnings);
        self
    }

    /// Returns what the model is to know, as much as it may be.
    pub(super) fn told(&self) -> Option<String> {
        (!self.context.is_empty()).then(|| bounded(&self.context.join("\n")))
    }
}

impl Said {
    /// Returns what is decided in any of the ways in which that is said.
    ///
    /// # Errors
    /// Which decision is not known, if nothing else forbids or asks.
    fn verdict(&self, clean: &impl Fn(&str) -> String) -> Result<Verdict, String> {
        let Specific { permission_decision, permission_decision_reason, decision, .. } =
            &self.hook_specific_output;
        let behavior = decision.as_ref().map(|it| (it.behavior.as_str(), &it.message));
        let asked = permission_decision.as_deref().map(|it| (it, permission_decision_reason));
        let old = self.decision.as_deref().map(|it| (it, &self.reason));
        let mut unknown = None;
        let mut strictest = Verdict::Silent;
        for (key, known, said) in [
            ("decision.behavior", "allow and deny", behavior),
            ("permissionDecision", "allow, ask and deny", asked),
            ("decision", "approve and block", old),
        ] {
            let Some((decision, why)) = said else { continue };
            let reason = || {
                let reason = why.as_deref().or(self.reason.as_deref());
                bounded(&reason.map_or_else(|| NO_REASON.to_owned(), clean))
            };
            let verdict = match decision {
                "deny" | "block" => Verdict::Block(reason()),
                "ask" => Verdict::Ask(reason()),
                "allow" | "approve" => Verdict::Allow,
                other => {
                    let other = clean(&shortened(other));
                    unknown = Some(format!("the {key} {other:?} is none of {known}"));
                    continue;
                }
            };
            strictest = strictest.max(verdict);
        }
        match unknown {
            Some(what) if strictest <= Verdict::Allow => Err(what),
            Some(_) | None => Ok(strictest),
        }
    }
}

/// Adds the first line of what was said.
fn with(what: String, stderr: &str) -> String {
    match stderr.lines().next() {
        Some(line) => format!("{what}: {}", shortened(line)),
        None => what,
    }
}

/// Returns the beginning of a text that is long.
fn shortened(text: &str) -> String {
    match text.char_indices().nth(200) {
        Some((end, _)) => format!("{} …", &text[..end]),
        None => text.to_owned(),
    }
}

/// Returns as much of a text as a model gets to see.
pub(super) fn bounded(text: &str) -> String {
    if text.len() <= TOLD {
        return text.to_owned();
    }
    let beginning = &text[..text.floor_char_boundary(TOLD)];
    format!("{beginning}\n[cut: the hook said {} bytes]", text.len())
}
