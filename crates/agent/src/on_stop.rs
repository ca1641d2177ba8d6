//! What decides whether a run may end.

use std::fmt;

use async_trait::async_trait;

use crate::effect::Step;
use crate::op::Input;

/// Is asked when a run would end with an answer, and may send the agent back to work.
///
/// It is asked in view of the answer when nothing waits to be said. What it says is committed like
/// anything said to the model, so a crash does not lose it; a crash before that has it asked again,
/// and so has a message that comes in while it thinks. The limits of the run count on: one that is
/// reached by then ends the run.
#[async_trait]
pub trait OnStop: Send + Sync {
    /// Returns what is still to do; `None` lets the run end. A panic is a warning, and lets it end.
    async fn on_stop(&self, answer: &str, step: &Step) -> Option<Input>;
}

/// What decides whether a run may end, as a function; [`on_stop_fn`] makes one.
#[derive(Clone)]
pub struct FunctionOnStop<F>(F);

/// Makes of a function what decides whether a run may end.
///
/// ```
/// use bowline_agent::on_stop::on_stop_fn;
///
/// let wants_tests = on_stop_fn(|answer, _| {
///     (!answer.contains("tests pass")).then(|| "Do the tests pass? Run them.".into())
/// });
/// ```
pub fn on_stop_fn<F>(decide: F) -> FunctionOnStop<F>
where
    F: Fn(&str, &Step) -> Option<Input> + Send + Sync,
{
    FunctionOnStop(decide)
}

#[async_trait]
impl<F> OnStop for FunctionOnStop<F>
where
    F: Fn(&str, &Step) -> Option<Input> + Send + Sync,
{
    async fn on_stop(&self, answer: &str, step: &Step) -> Option<Input> {
        (self.0)(answer, step)
    }
}

impl<F> fmt::Debug for FunctionOnStop<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FunctionOnStop").finish_non_exhaustive()
    }
}
