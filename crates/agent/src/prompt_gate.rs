//! The gate of prompts: who decides whether an agent is asked something.

use std::sync::Arc;

use async_trait::async_trait;

use crate::event::AgentMeta;
use crate::id::SessionId;
use crate::op::Input;

/// Decides about prompts before anything of them is written down.
///
/// It is asked while no run is driven, about what would begin a run or go on with one that was found
/// open. A crash before the prompt is in the log has it asked again when somebody says it again; once it
/// is there nobody is asked. What is steered or queued into a run goes past it. Who cancels does not
/// wait for it.
#[async_trait]
pub trait PromptGate: Send + Sync {
    /// Reviews a prompt. A panic refuses it.
    async fn review(&self, prompt: &PromptReview<'_>) -> Admission;
}

/// A prompt under review.
#[derive(Debug)]
pub struct PromptReview<'a> {
    /// What is said.
    pub input: &'a Input,
    /// The session.
    pub session: SessionId,
    /// Who is asked.
    pub agent: &'a Arc<AgentMeta>,
    /// Whether it would begin the agent's first run.
    pub is_first: bool,
}

/// What becomes of a prompt.
#[derive(Debug, Clone, PartialEq)]
pub enum Admission {
    /// It is said.
    Admit {
        /// What the model is told before it, each as a message of its own.
        before: Vec<Input>,
        /// What a person should know, one text each.
        warnings: Vec<String>,
    },
    /// It is not: nothing of it is kept.
    Refuse {
        /// Why, for whoever said it.
        reason: String,
    },
}

impl Default for Admission {
    fn default() -> Self {
        Self::Admit { before: Vec::new(), warnings: Vec::new() }
    }
}
