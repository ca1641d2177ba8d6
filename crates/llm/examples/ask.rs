//! Asks a Chat Completions server one question and prints the answer as it comes.
//!
//! `cargo run -p bowline-llm --example ask -- http://127.0.0.1:8080/v1 MODEL "Why is the sky blue?"`
//!
//! Without arguments it asks a scripted model, so that it runs anywhere.
#![expect(clippy::print_stdout, reason = "printing is what the example is for")]

use std::io::{Write, stdout};
use std::sync::Arc;

use bowline_llm::http::Transport;
use bowline_llm::retry::Policy;
use bowline_llm::scripted::Reply;
use bowline_llm::{Message, Model, ModelInfo, Request, Retry, ScriptedModel, StreamEvent, chat};
use futures::StreamExt;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (model, question): (Arc<dyn Model>, &str) = match arguments.as_slice() {
        [base_url, model, question] => {
            let mut config = chat::Config::new(base_url);
            config.info = ModelInfo {
                provider: "example".to_owned(),
                model: model.clone(),
                ..ModelInfo::default()
            };
            (Arc::new(chat::Client::new(config, &Transport::default())?), question)
        }
        _ => (Arc::new(ScriptedModel::new([Reply::text("Because it is.")])), "Why?"),
    };
    let request = Request {
        messages: [Message::user(question).into()].into_iter().collect(),
        ..Request::default()
    };
    let mut stream = Retry::new(model, Policy::default()).stream(request);
    let mut is_streamed = false;
    while let Some(event) = stream.next().await {
        match event? {
            StreamEvent::TextDelta(text) => {
                is_streamed = true;
                print!("{text}");
                stdout().flush()?;
            }
            StreamEvent::Restarted { error, .. } => println!("\n[starting over: {error}]"),
            StreamEvent::Done(response) => {
                if !is_streamed {
                    print!("{}", response.message.to_text());
                }
                println!("\n[{:?}]", response.usage);
            }
            StreamEvent::ReasoningDelta(_)
            | StreamEvent::ToolCallDelta { .. }
            | StreamEvent::Waiting { .. } => {}
        }
    }
    Ok(())
}
