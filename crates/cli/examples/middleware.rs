//! What wraps a run: a deadline, a line at its start and its end, a last look at the answer, and one of
//! your own. `docs/middleware.md` has this file word for word.
#![expect(clippy::print_stdout, reason = "an example shows something")]

use std::sync::Arc;
use std::time::Duration;

use bowline::agent::entry::{Ending, RunErrorKind};
use bowline::agent::middleware::{Activation, Logger, Middleware, Next, OutputGuardrail, Timeout};
use bowline::agent::on_stop::on_stop_fn;
use bowline::agent::{Agent, AgentError, Outcome, async_trait};
use bowline::llm::scripted::{Reply, ScriptedModel};
use tokio::sync::Semaphore;

/// Lets only so many runs happen at a time, of all agents that have it.
struct AtOnce(Semaphore);

#[async_trait]
impl Middleware for AtOnce {
    async fn run(&self, _: &Activation, next: Next<'_>) -> Result<Outcome, AgentError> {
        let _permit =
            self.0.acquire().await.map_err(|error| AgentError::Middleware(error.to_string()))?;
        next.run().await
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let no_secrets = OutputGuardrail::new(|answer: &str| match answer.contains("sesame") {
        true => Err("the answer has the password".to_owned()),
        false => Ok(()),
    });
    let wants_reasons =
        on_stop_fn(|answer, _| (!answer.contains("because")).then(|| "Say why.".into()));
    let model = ScriptedModel::new([
        Reply::text("It is open."),
        Reply::text("It is open because you asked."),
        Reply::text("The password is sesame, because you asked."),
    ]);
    let agent = Agent {
        middleware: vec![
            Arc::new(Logger::new(|logged| println!("{logged}"))),
            Arc::new(Timeout(Duration::from_secs(600))),
            Arc::new(AtOnce(Semaphore::new(4))),
            Arc::new(no_secrets),
        ],
        on_stop: Some(Arc::new(wants_reasons)),
        ..Agent::new(Arc::new(model))
    };
    let handle = agent.start();
    // The agent was sent back to work once.
    assert_eq!(handle.prompt("Is it open?").await?.text(), "It is open because you asked.");
    let refused = handle.prompt("How does it open?").await?;
    let Ending::Failed(error) = &refused.ending else { return Err("it was not refused".into()) };
    assert_eq!(error.kind, RunErrorKind::Guardrail);
    assert_eq!(refused.text(), "");
    Ok(())
}
