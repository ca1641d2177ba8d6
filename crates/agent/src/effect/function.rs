//! Effects that are functions.

use crate::entry::Act;

use super::{Effect, EffectError, Step};

/// An effect that is a function; [`effect_fn`] makes one.
#[derive(Clone)]
pub struct FunctionEffect<F> {
    kind: String,
    run: F,
}

/// Makes an effect of a function that looks at a step and says what to do. It is asked before every
/// request and after every reply; what it must remember it finds in the step, or it is an
/// [`Effect`] of its own.
pub fn effect_fn<F>(kind: impl Into<String>, run: F) -> FunctionEffect<F>
where
    F: Fn(&Step) -> Result<Vec<Act>, EffectError> + Send + Sync + 'static,
{
    FunctionEffect { kind: kind.into(), run }
}

impl<F> Effect for FunctionEffect<F>
where
    F: Fn(&Step) -> Result<Vec<Act>, EffectError> + Send + Sync + 'static,
{
    type State = ();

    fn kind(&self) -> &str {
        &self.kind
    }

    async fn before(&self, step: &Step, (): &()) -> Result<Vec<Act>, EffectError> {
        (self.run)(step)
    }

    async fn after(&self, step: &Step, (): &()) -> Result<Vec<Act>, EffectError> {
        (self.run)(step)
    }
}

impl<F> std::fmt::Debug for FunctionEffect<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FunctionEffect").field("kind", &self.kind).finish_non_exhaustive()
    }
}
