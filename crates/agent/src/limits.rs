//! How much a run may use.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The limits of one run. A zero is no limit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Limits {
    /// Model calls, a wrap-up call not counted.
    pub model_turns: u32,
    /// Tool calls started.
    pub tool_calls: u32,
    /// Time at work, waiting for people not counted, in milliseconds.
    pub run_time_ms: u64,
    /// Time for one tool call, in milliseconds. Commands become jobs instead of being stopped.
    pub tool_time_ms: u64,
    /// Bytes of one tool result that the model gets to see.
    pub output_bytes: u64,
    /// Tokens, in and out, those of sub-agents and tools included.
    pub total_tokens: u64,
    /// US dollars, those of sub-agents and tools included.
    pub cost_usd: f64,
    /// Whether the model gets one last call to sum up when a limit is reached.
    pub wrap_up: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            model_turns: 200,
            tool_calls: 0,
            run_time_ms: 0,
            tool_time_ms: 120_000,
            output_bytes: 65_536,
            total_tokens: 0,
            cost_usd: 0.0,
            wrap_up: true,
        }
    }
}

impl Limits {
    /// Returns the limits with everything unlimited and no wrap-up call.
    pub fn none() -> Self {
        Self {
            model_turns: 0,
            tool_calls: 0,
            run_time_ms: 0,
            tool_time_ms: 0,
            output_bytes: 0,
            total_tokens: 0,
            cost_usd: 0.0,
            wrap_up: false,
        }
    }

    /// Returns the limits with an amount of money that can be written down: what is no number, or not
    /// more than nothing, is no limit.
    pub(crate) fn sane(&self) -> Self {
        let is_amount = self.cost_usd.is_finite() && self.cost_usd > 0.0;
        Self { cost_usd: if is_amount { self.cost_usd } else { 0.0 }, ..self.clone() }
    }

    /// Returns the time for a run; `None` for no limit.
    pub fn run_time(&self) -> Option<Duration> {
        (self.run_time_ms > 0).then(|| Duration::from_millis(self.run_time_ms))
    }

    /// Returns the time for a tool call; `None` for no limit.
    pub fn tool_time(&self) -> Option<Duration> {
        (self.tool_time_ms > 0).then(|| Duration::from_millis(self.tool_time_ms))
    }
}

/// Which limit was reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitKind {
    /// [`Limits::model_turns`].
    ModelTurns,
    /// [`Limits::tool_calls`].
    ToolCalls,
    /// [`Limits::run_time_ms`].
    RunTime,
    /// [`Limits::total_tokens`].
    TotalTokens,
    /// [`Limits::cost_usd`].
    CostUsd,
    /// That of the effect `token_budget`.
    TokenBudget,
    /// That of the effect `time_budget`.
    TimeBudget,
    /// That of the effect `cost_budget`.
    CostBudget,
    /// The effect `stall_detect` or `loop_detect` saw no progress.
    Stall,
}

impl LimitKind {
    /// Returns the limit's name as it is written in configuration, logs and events.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ModelTurns => "model_turns",
            Self::ToolCalls => "tool_calls",
            Self::RunTime => "run_time",
            Self::TotalTokens => "total_tokens",
            Self::CostUsd => "cost_usd",
            Self::TokenBudget => "token_budget",
            Self::TimeBudget => "time_budget",
            Self::CostBudget => "cost_budget",
            Self::Stall => "stall",
        }
    }
}
