//! A last look at an answer.

use std::fmt;

use async_trait::async_trait;

use super::Middleware;

/// A middleware that refuses answers: a run whose answer is refused fails, and has none.
///
/// It is asked when a run would end with an answer, and not about a run that ends otherwise. Those who
/// watch have seen the answer by then, and it stays in the conversation; what is kept back is the
/// outcome.
///
/// ```
/// use bowline_agent::middleware::OutputGuardrail;
///
/// let polite = OutputGuardrail::new(|answer: &str| match answer.contains("damn") {
///     true => Err("the answer is not polite".to_owned()),
///     false => Ok(()),
/// });
/// ```
#[derive(Clone)]
pub struct OutputGuardrail<F>(F);

impl<F: Fn(&str) -> Result<(), String> + Send + Sync> OutputGuardrail<F> {
    /// Makes a guardrail of a function that says why an answer is refused.
    pub fn new(check: F) -> Self {
        Self(check)
    }
}

#[async_trait]
impl<F: Fn(&str) -> Result<(), String> + Send + Sync> Middleware for OutputGuardrail<F> {
    async fn judge(&self, answer: &str) -> Result<(), String> {
        (self.0)(answer)
    }
}

impl<F> fmt::Debug for OutputGuardrail<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutputGuardrail").finish_non_exhaustive()
    }
}
