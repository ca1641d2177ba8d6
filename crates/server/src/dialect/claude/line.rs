//! The lines themselves, as the published types of Claude Code's SDK have them.

use std::collections::BTreeMap;

use bowline_agent::entry::{Ending, RunError, RunErrorKind};
use bowline_agent::id::{AgentId, SessionId};
use bowline_agent::limits::LimitKind;
use bowline_llm::{StopReason, Usage, Usd};
use serde::Serialize;

use super::super::calls::{Arguments, Call};

#[derive(Debug, Serialize)]
pub(super) struct Line<'a> {
    #[serde(flatten)]
    pub(super) what: What<'a>,
    pub(super) session_id: SessionId,
    pub(super) uuid: String,
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum What<'a> {
    System(System<'a>),
    Assistant { message: AssistantMessage<'a>, parent_tool_use_id: Option<String> },
    User { message: UserMessage<'a>, parent_tool_use_id: Option<String> },
    Result(Box<RunResult>),
}

#[derive(Debug, Serialize)]
#[serde(tag = "subtype", rename_all = "snake_case")]
pub(super) enum System<'a> {
    Init {
        cwd: Option<&'a str>,
        tools: &'a [String],
        mcp_servers: [(); 0],
        model: &'a str,
        slash_commands: [(); 0],
        skills: [(); 0],
        plugins: [(); 0],
    },
    ApiRetry {
        attempt: u32,
        retry_delay_ms: u64,
        error_status: Option<u16>,
        error: &'a str,
    },
    PermissionDenied {
        tool_name: &'a str,
        tool_use_id: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        agent_id: Option<AgentId>,
        message: &'a str,
    },
    CompactBoundary {
        compact_metadata: CompactMetadata,
    },
    TaskStarted {
        task_id: AgentId,
        tool_use_id: &'a str,
        description: &'a str,
    },
    TaskNotification {
        task_id: AgentId,
        tool_use_id: Option<String>,
        status: &'a str,
        output_file: &'a str,
        summary: &'a str,
        usage: TaskUsage,
    },
}

#[derive(Debug, Serialize)]
pub(super) struct CompactMetadata {
    pub(super) trigger: &'static str,
    pub(super) pre_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) post_tokens: Option<u64>,
}

#[derive(Debug, Serialize)]
pub(super) struct TaskUsage {
    pub(super) total_tokens: u64,
    pub(super) tool_uses: u64,
    pub(super) duration_ms: u64,
}

#[derive(Debug, Serialize)]
pub(super) struct AssistantMessage<'a> {
    pub(super) id: String,
    pub(super) r#type: &'static str,
    pub(super) role: &'static str,
    pub(super) model: &'a str,
    pub(super) content: [&'a Block; 1],
    pub(super) stop_reason: Option<&'a str>,
    pub(super) stop_sequence: Option<&'a str>,
    pub(super) usage: Option<TokenUsage>,
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Block {
    Thinking { thinking: String, signature: &'static str },
    Text { text: String },
    ToolUse { id: String, name: String, input: Arguments },
}

#[derive(Debug, Serialize)]
pub(super) struct UserMessage<'a> {
    pub(super) role: &'static str,
    pub(super) content: [ToolResult<'a>; 1],
}

#[derive(Debug, Serialize)]
pub(super) struct ToolResult<'a> {
    pub(super) r#type: &'static str,
    pub(super) tool_use_id: &'a str,
    pub(super) content: String,
    pub(super) is_error: bool,
}

/// `input_tokens` are those that no cache was involved in.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct TokenUsage {
    pub(super) input_tokens: u64,
    pub(super) cache_creation_input_tokens: u64,
    pub(super) cache_read_input_tokens: u64,
    pub(super) output_tokens: u64,
}

#[derive(Debug, Serialize)]
pub(super) struct RunResult {
    pub(super) subtype: &'static str,
    pub(super) is_error: bool,
    pub(super) duration_ms: u64,
    pub(super) duration_api_ms: u64,
    pub(super) num_turns: u32,
    pub(super) stop_reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) result: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) errors: Vec<String>,
    pub(super) total_cost_usd: Option<f64>,
    pub(super) usage: TokenUsage,
    #[serde(rename = "modelUsage")]
    pub(super) model_usage: BTreeMap<String, ModelUsage>,
    pub(super) permission_denials: Vec<Denial>,
}

#[derive(Debug, Serialize)]
pub(super) struct Denial {
    pub(super) tool_name: String,
    pub(super) tool_use_id: String,
    pub(super) tool_input: Arguments,
}

/// What one model was asked for, by all agents. `input_tokens` are those of [`TokenUsage`].
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ModelUsage {
    input_tokens: u64,
    output_tokens: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_tokens: Option<u64>,
    cache_read_input_tokens: u64,
    cache_creation_input_tokens: u64,
    web_search_requests: u64,
    #[serde(rename = "costUSD", serialize_with = "dollars")]
    cost: Option<Usd>,
    // No event tells of them.
    context_window: u64,
    max_output_tokens: u64,
}

impl ModelUsage {
    /// Makes the usage of a model that was not asked yet.
    pub(super) fn none() -> Self {
        Self { cost: Some(Usd::default()), ..Self::default() }
    }

    /// Counts a model call. What it all costs is known if it is of each.
    pub(super) fn add(&mut self, usage: Usage, cost: Option<Usd>) {
        let tokens = TokenUsage::from(usage);
        let sum = |sum: &mut u64, more: u64| *sum = sum.saturating_add(more);
        sum(&mut self.input_tokens, tokens.input_tokens);
        sum(&mut self.output_tokens, tokens.output_tokens);
        sum(&mut self.cache_read_input_tokens, tokens.cache_read_input_tokens);
        sum(&mut self.cache_creation_input_tokens, tokens.cache_creation_input_tokens);
        if let Some(reasoning) = usage.reasoning {
            sum(self.thinking_tokens.get_or_insert_default(), reasoning);
        }
        self.cost = self.cost.zip(cost).map(|(sum, more)| sum + more);
    }
}

#[expect(clippy::ref_option, reason = "serde hands over the field as it is")]
fn dollars<S: serde::Serializer>(cost: &Option<Usd>, serializer: S) -> Result<S::Ok, S::Error> {
    cost.map(Usd::to_dollars).serialize(serializer)
}

/// Says why a model stopped, if it says so there.
pub(super) fn stop_reason(stop: &StopReason) -> Option<String> {
    let word = match stop {
        StopReason::EndTurn => "end_turn",
        StopReason::ToolUse => "tool_use",
        StopReason::MaxTokens => "max_tokens",
        StopReason::Paused => "pause_turn",
        StopReason::Refused => "refusal",
        StopReason::Other(other) => other,
        StopReason::Canceled | StopReason::Error => return None,
    };
    Some(word.to_owned())
}

/// What is the matter with a run that reached none of the limits that have a name of their own.
pub(super) const DURING_EXECUTION: &str = "error_during_execution";

pub(super) fn subtype(ending: &Ending) -> &'static str {
    match ending {
        Ending::Done => "success",
        Ending::Limit(LimitKind::ModelTurns) => "error_max_turns",
        Ending::Limit(LimitKind::CostUsd | LimitKind::CostBudget) => "error_max_budget_usd",
        Ending::Failed(RunError { kind: RunErrorKind::OutputInvalid, .. }) => {
            "error_max_structured_output_retries"
        }
        Ending::Limit(
            LimitKind::ToolCalls
            | LimitKind::RunTime
            | LimitKind::TotalTokens
            | LimitKind::TokenBudget
            | LimitKind::TimeBudget
            | LimitKind::Stall,
        )
        | Ending::Failed(_)
        | Ending::Canceled(_)
        | Ending::NeedsApproval => DURING_EXECUTION,
    }
}

impl From<Call> for Denial {
    fn from(call: Call) -> Self {
        Self {
            tool_name: call.name,
            tool_use_id: call.id,
            tool_input: call.arguments.as_str().into(),
        }
    }
}

impl From<Usage> for TokenUsage {
    fn from(usage: Usage) -> Self {
        let (read, write) = (usage.cache_read.unwrap_or(0), usage.cache_write.unwrap_or(0));
        Self {
            input_tokens: usage.input.saturating_sub(read.saturating_add(write)),
            cache_creation_input_tokens: write,
            cache_read_input_tokens: read,
            output_tokens: usage.output,
        }
    }
}

impl<'a> System<'a> {
    pub(super) fn retry(attempt: u32, retry_delay_ms: u64, error: &'a str) -> Self {
        // They count retries, we the attempts.
        let attempt = attempt.saturating_sub(1);
        Self::ApiRetry { attempt, retry_delay_ms, error_status: None, error }
    }
}
