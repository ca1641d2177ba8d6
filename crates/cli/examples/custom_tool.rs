//! A tool of one's own: typed arguments, what it touches, what a crash means for it, progress, and
//! state that lives in the session's log.
//!
//! `cargo run --example custom_tool [-- provider/model]`
#![expect(clippy::print_stdout, reason = "an example shows something")]

mod support;

use std::path::PathBuf;

use bowline::agent::Agent;
use bowline::agent::event::EventBody;
use bowline::agent::schemars;
use bowline::agent::tool::{Access, Recovery, Tool, ToolContext, ToolError, ToolOutput, Toolbox};
use bowline::llm::scripted::Reply;
use bowline::llm::text_of;
use futures::StreamExt;

/// The tool `count_words`; it belongs to a folder.
struct CountWords {
    folder: PathBuf,
}

/// Counts the words of a text file, and says how many it has counted so far.
#[derive(serde::Deserialize, schemars::JsonSchema)]
struct CountWordsInput {
    /// The file, relative to the folder.
    path: String,
}

impl Tool for CountWords {
    const NAME: &'static str = "count_words";
    type Input = CountWordsInput;

    // Two calls that only read may run at the same time. Without this a call is alone.
    fn access(&self, input: &CountWordsInput) -> Access {
        Access::read(self.folder.join(&input.path))
    }

    // It changes nothing, so a call that a crash cut off simply runs again.
    fn recovery(&self, _: &CountWordsInput) -> Recovery {
        Recovery::Rerun
    }

    async fn run(&self, input: CountWordsInput, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let path = self.folder.join(&input.path);
        // For a person who watches; the model never sees it.
        cx.output(format!("counting {}", input.path));
        // A failure is told to the model, which may try something else.
        let text = std::fs::read_to_string(&path)
            .map_err(|error| ToolError::failed(format!("cannot read {}: {error}", input.path)))?;
        let words = text.split_whitespace().count();
        // What is recorded is committed with the result and comes back after a restart.
        let mut total = words;
        for before in cx.recorded("words") {
            total += before.read::<usize>().map_err(|error| ToolError::Fatal(error.into()))?;
        }
        cx.record("words", &words)?;
        Ok(format!("{words} words; {total} in all files so far").into())
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> support::Result {
    let folder = tempfile::tempdir()?;
    std::fs::write(folder.path().join("one.txt"), "the agent loop that holds")?;
    std::fs::write(folder.path().join("two.txt"), "under any load")?;
    let model = support::model([
        Reply::call("count_words", r#"{"path":"one.txt"}"#),
        Reply::call("count_words", r#"{"path":"too.txt"}"#),
        Reply::call("count_words", r#"{"path":"two.txt"}"#),
        Reply::text("one.txt has 5 words and two.txt has 3: 8 together."),
    ])?;
    let tools = Toolbox::default().with(CountWords { folder: folder.path().to_owned() })?;
    let agent = Agent { tools, ..Agent::new(model) };

    let mut run = agent.prompt("How many words are in one.txt and two.txt together?");
    while let Some(event) = run.next().await {
        match &event.body {
            EventBody::ToolCall { name, arguments } => println!("call    {name} {arguments}"),
            EventBody::ToolOutput { text, .. } => println!("output  {text}"),
            EventBody::ToolEnd { status, content, .. } => {
                println!("{:<8}{}", status.as_str(), text_of(content));
            }
            EventBody::Text { text, .. } => println!("text    {text}"),
            _ => {}
        }
    }
    Ok(())
}
