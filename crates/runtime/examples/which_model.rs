//! Reads the configuration as the command line does and says which model would run.
//!
//! `cargo run -p bowline-runtime --example which_model -- model=ollama/qwen3`
#![expect(clippy::print_stdout, reason = "an example shows something")]

use std::error::Error;

use bowline_runtime::Runtime;
use bowline_runtime::environment::Environment;
use bowline_runtime::provider::{self, ModelName};

fn main() -> Result<(), Box<dyn Error>> {
    let assignments: Vec<String> = std::env::args().skip(1).collect();
    let runtime = Runtime::new(Environment::read()?, &assignments)?;
    println!("sessions: {}", runtime.sessions().root().display());
    println!("permission mode without a person: {:?}", runtime.mode(false));
    let file = runtime.folders.config.join("config.toml");
    let named = provider::default_model(&runtime.config, &runtime.environment, &file);
    match named.and_then(|name| ModelName::parse(&name)) {
        Ok(name) => println!("model: {} of {}", name.model, name.provider),
        Err(error) => println!("no model: {error}"),
    }
    Ok(())
}
