//! Telling OpenTelemetry what the agent of a command does.

use std::sync::Arc;

use bowline_agent::Agent;
use bowline_runtime::Runtime;
use bowline_runtime::telemetry::Trace;

use crate::print;

/// What tells of the agent, until it is ended. Dropping it leaves untold what was not sent yet.
pub(crate) type Traced = Arc<Trace>;

/// Has OpenTelemetry told of an agent, if anybody wants to know. What is wrong with the settings is
/// said, and keeps nobody from working.
pub(crate) fn begin(runtime: &Runtime, agent: &mut Agent) -> Option<Traced> {
    let telemetry = runtime.telemetry(agent).unwrap_or_else(|what| {
        print::note(&format!("no traces: {what}"));
        None
    });
    let traced = Arc::new(Trace::new(telemetry?));
    agent.middleware.push(Arc::<Trace>::clone(&traced));
    Some(traced)
}

/// Sends what is left, and says if something did not arrive.
pub(crate) async fn end(traced: Option<Traced>) {
    if let Some(traced) = traced
        && let Some(what) = traced.close().await
    {
        print::note(&what);
    }
}
