//! What the examples share: a model named on the command line, or else a script.
#![allow(dead_code, reason = "every example is a program of its own and uses a part of this")]

use std::error::Error;
use std::sync::Arc;

use bowline::llm::scripted::{Reply, ScriptedModel};
use bowline::llm::{Model, Usage};
use bowline::runtime::Runtime;
use bowline::runtime::config::Said;
use bowline::runtime::environment::Environment;

pub(crate) type Result<T = (), E = Box<dyn Error + Send + Sync>> = std::result::Result<T, E>;

/// Returns the model named in the first argument, as `provider/model`; without one a model that
/// plays the script, so that every example runs anywhere.
pub(crate) fn model(script: impl IntoIterator<Item = Reply>) -> Result<Arc<dyn Model>> {
    match std::env::args().nth(1) {
        None => Ok(Arc::new(ScriptedModel::new(script))),
        Some(name) => {
            let runtime = Runtime::new(Environment::read()?, &Said::default())?;
            Ok(runtime.model(&name)?)
        }
    }
}

/// Makes a count of tokens.
pub(crate) fn tokens(input: u64, output: u64) -> Usage {
    Usage { input, output, ..Usage::default() }
}
