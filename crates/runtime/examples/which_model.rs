//! Reads the configuration as the command line does and says which model would run.
//!
//! `cargo run -p bowline-runtime --example which_model -- model=ollama/qwen3`
#![expect(clippy::print_stdout, reason = "an example shows something")]

use std::error::Error;

use bowline_runtime::Runtime;
use bowline_runtime::config::Said;
use bowline_runtime::environment::Environment;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let said = Said { assignments: std::env::args().skip(1).collect(), ..Said::default() };
    let runtime = Runtime::new(Environment::read()?, &said)?;
    println!("sessions: {}", runtime.sessions().root().display());
    println!("permission mode without a person: {:?}", runtime.mode(false));
    match runtime.pick(None).await {
        Ok(picked) => println!("model: {} of {}", picked.name.model, picked.name.provider),
        Err(error) => println!("no model: {error}"),
    }
    Ok(())
}
