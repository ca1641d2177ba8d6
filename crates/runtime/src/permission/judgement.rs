//! What is decided about a call, and why.

use std::fmt;

use serde::Serialize;

use super::layers::Kind;
use crate::config::Mode;

/// What is decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// It may be.
    Allow,
    /// A person must say.
    Ask,
    /// It may not be.
    Deny,
}

impl Decision {
    /// Returns it as it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny => "deny",
        }
    }
}

/// What is decided about a call: the strictest of what is decided about its parts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Judgement {
    /// What is decided.
    pub decision: Decision,
    /// What is decided about each thing that it touches.
    pub segments: Vec<Segment>,
}

/// What is decided about one thing that a call touches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Segment {
    /// What it is, such as `bash(git push)` or `write(/etc/hosts)`.
    pub what: String,
    /// Programs that run it and were seen through, the outermost first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub through: Vec<String>,
    /// What is decided.
    pub decision: Decision,
    /// Why.
    pub why: Why,
    /// The rule that would allow exactly this, if one can.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed_by: Option<String>,
    /// Whether it stays within the sandbox: in the mode `auto` nobody would be asked.
    #[serde(skip)]
    pub(crate) stays_inside: bool,
}

/// Why something is decided as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "by", rename_all = "snake_case")]
pub enum Why {
    /// A rule says so.
    Rule {
        /// The rule.
        rule: String,
        /// The layer that it stands in.
        layer: Kind,
        /// Where it stands.
        #[serde(skip_serializing_if = "Option::is_none")]
        place: Option<String>,
        /// Why there is such a rule.
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// Whether it is only known when the command runs that the rule is about it.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        perhaps: bool,
        /// Whether the rule asks.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        asks: bool,
    },
    /// No rule says anything, and the mode does.
    Mode {
        /// The mode.
        mode: &'static str,
        /// What is so about the thing that the mode decides so.
        because: String,
    },
}

impl Judgement {
    /// Puts together what is decided about the parts of a call; of nothing everything is allowed.
    pub(super) fn of(segments: Vec<Segment>) -> Self {
        let decision = segments.iter().map(|segment| segment.decision).max();
        Self { decision: decision.unwrap_or(Decision::Allow), segments }
    }

    /// Adds what another one decides about the same call.
    pub(super) fn and(self, other: Self) -> Self {
        let mut segments = self.segments;
        for segment in other.segments {
            match segments.iter_mut().find(|own| own.what == segment.what) {
                Some(own) => own.add(segment),
                None => segments.push(segment),
            }
        }
        Self::of(segments)
    }

    /// Returns the part that decides.
    pub fn decisive(&self) -> Option<&Segment> {
        self.segments.iter().find(|segment| segment.decision == self.decision)
    }

    /// Returns the rule that decides, if a rule does.
    pub fn rule(&self) -> Option<&str> {
        match &self.decisive()?.why {
            Why::Rule { rule, .. } => Some(rule),
            Why::Mode { .. } => None,
        }
    }

    /// Tells whether a person is asked only because the mode asks: no rule wants that, and nothing that is
    /// touched is protected or lies outside of the sandbox.
    pub(crate) fn is_asked_by_mode_alone(&self) -> bool {
        let mut asks = self.segments.iter().filter(|segment| segment.decision == Decision::Ask);
        self.decision == Decision::Ask
            && asks.all(|segment| matches!(segment.why, Why::Mode { .. }) && segment.stays_inside)
    }

    /// Says in one line what is not allowed, why, and how it can be allowed.
    pub fn reason(&self) -> String {
        let stopped = self.segments.iter().filter(|segment| segment.decision == self.decision);
        let mut said: Vec<String> = Vec::new();
        for segment in stopped {
            let line = segment.to_string();
            if !said.contains(&line) {
                said.push(line);
            }
        }
        // One that is told of three knows what to do about the others.
        let rest = said.len().saturating_sub(3);
        said.truncate(3);
        match rest {
            0 => said.join("; "),
            rest => format!("{}; and {rest} more", said.join("; ")),
        }
    }
}

impl Segment {
    /// Adds what another one decides about the same thing: the stricter counts, and of two that stop it a
    /// rule before a mode.
    fn add(&mut self, other: Self) {
        let stays_inside = self.stays_inside && other.stays_inside;
        if other.weight() > self.weight() {
            *self = other;
        }
        self.stays_inside = stays_inside;
    }

    fn weight(&self) -> (Decision, bool) {
        let is_by_rule = matches!(self.why, Why::Rule { .. });
        (self.decision, self.decision > Decision::Allow && is_by_rule)
    }
}

impl fmt::Display for Segment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.why)?;
        match &self.allowed_by {
            Some(rule) => write!(f, "; the user can allow it with --allow '{rule}'"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rule { rule, layer, place, reason, perhaps, asks } => {
                let is = if *perhaps { "may fall under" } else { "falls under" };
                write!(f, "it {is} the rule `{rule}` ({}", layer.as_str())?;
                if let Some(place) = place {
                    write!(f, ", {place}")?;
                }
                f.write_str(if *asks { "), which asks" } else { ")" })?;
                match reason {
                    Some(reason) => write!(f, ": {reason}"),
                    None => Ok(()),
                }
            }
            Self::Mode { mode, because } => write!(f, "{because} (permission mode {mode})"),
        }
    }
}

impl From<Mode> for &'static str {
    fn from(mode: Mode) -> Self {
        mode.as_str()
    }
}
