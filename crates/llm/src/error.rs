//! What can go wrong with a model call: the raw facts, classified once.

use std::time::Duration;

use crate::usage::{Price, Spent, Usage};

mod classify;
mod wait;

/// A failed model call.
#[derive(Debug, Clone, PartialEq, thiserror::Error, serde::Serialize, serde::Deserialize)]
#[error("{}", self.describe())]
pub struct ModelError {
    /// What the failure means for the caller.
    pub kind: ErrorKind,
    /// The HTTP status, if an answer came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The provider's own code or type of the error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// What the provider or the transport said.
    pub message: String,
    /// How long the provider asks to wait at least.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<Duration>,
    /// Tokens that were billed although the call failed, where the provider said so. A retrying
    /// wrapper counts those of all its attempts here.
    #[serde(default)]
    pub usage: Usage,
    /// The part of `usage` that attempts before this failure were billed, each at the price of the
    /// model that was asked.
    #[serde(default)]
    pub wasted: Box<Spent>,
}

/// What a failure means for the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// The key is missing, wrong or not allowed to do this (401, 403, 407).
    Auth,
    /// The account has no credit left.
    Quota,
    /// Too many requests or tokens for now (429).
    RateLimited,
    /// The provider cannot serve the request for now (5xx, 529).
    Overloaded,
    /// The request is longer than the model's context window.
    ContextOverflow,
    /// The provider does not accept the request.
    InvalidRequest,
    /// The provider refuses to answer this.
    Refused,
    /// There is no such model or address.
    NotFound,
    /// Nothing came for too long.
    Timeout,
    /// The connection could not be made or broke.
    Transport,
    /// The answer does not make sense.
    Decode,
    /// The answer stopped before its end.
    Incomplete,
}

impl ModelError {
    /// Makes an error that comes from no provider.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            status: None,
            code: None,
            message: message.into(),
            retry_after: None,
            usage: Usage::default(),
            wasted: Box::default(),
        }
    }

    /// Returns what the failed attempt itself was billed by a model of this price, without those
    /// before it.
    pub fn bill(&self, price: Option<&Price>) -> Spent {
        Spent::at(price, self.usage - self.wasted.usage)
    }

    /// Adds what attempts before it cost.
    pub(crate) fn charged(self, added: Spent) -> Self {
        let wasted = *self.wasted + added;
        Self { usage: self.usage + added.usage, wasted: Box::new(wasted), ..self }
    }

    /// Takes away what it cost, which is told elsewhere.
    pub(crate) fn without_bill(self) -> Self {
        Self { usage: Usage::default(), wasted: Box::default(), ..self }
    }

    fn describe(&self) -> String {
        let what = match self.kind {
            ErrorKind::Auth => "authentication failed",
            ErrorKind::Quota => "no credit left",
            ErrorKind::RateLimited => "rate limited",
            ErrorKind::Overloaded => "provider unavailable",
            ErrorKind::ContextOverflow => "request exceeds the context window",
            ErrorKind::InvalidRequest => "request not accepted",
            ErrorKind::Refused => "request refused",
            ErrorKind::NotFound => "not found",
            ErrorKind::Timeout => "timed out",
            ErrorKind::Transport => "connection failed",
            ErrorKind::Decode => "answer not understood",
            ErrorKind::Incomplete => "answer broke off",
        };
        let status = self.status.map(|status| format!(" ({status})")).unwrap_or_default();
        if self.message.is_empty() {
            format!("{what}{status}")
        } else {
            format!("{what}{status}: {}", self.message)
        }
    }
}

impl ErrorKind {
    /// Tells whether the same request may succeed later.
    pub fn is_transient(self) -> bool {
        match self {
            Self::RateLimited
            | Self::Overloaded
            | Self::Timeout
            | Self::Transport
            | Self::Incomplete => true,
            Self::Auth
            | Self::Quota
            | Self::ContextOverflow
            | Self::InvalidRequest
            | Self::Refused
            | Self::NotFound
            | Self::Decode => false,
        }
    }
}
