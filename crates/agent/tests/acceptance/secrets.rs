//! Secrets that tools say: nobody hears them, and they can be written to files all the same.

use std::sync::{Arc, Mutex};

use bowline_agent::event::EventBody;
use bowline_agent::tool::{Access, ToolContext, tool_fn};
use bowline_llm::scripted::Reply;
use bowline_llm::text_of;
use pretty_assertions::assert_eq;

use crate::support::{Stage, Text, Told, hear, log_of, stage, tool};

/// What no test may find anywhere. It does not stand here as a whole: whoever looks for tokens in
/// repositories would find it.
fn secret() -> String {
    format!("ghp_{}", "aB3dE6gH9jK2mN5pQ8rS1tU4vW7xY0zA1b2C")
}

/// A stage with a tool that says the secret, and one that writes what it is given.
fn with_tools(stage: Stage) -> (Stage, Arc<Mutex<Vec<String>>>) {
    let written = Arc::new(Mutex::new(Vec::new()));
    let file = Arc::clone(&written);
    let write = tool_fn("write", "Writes.", move |input: Text, _| {
        file.lock().unwrap().push(input.text);
        async { Ok("written".into()) }
    });
    let say = tool("say", |_, _| async { Ok(format!("TOKEN={}\n", secret()).into()) });
    let run = tool_fn("run", "Runs.", |_: Text, _| async { Ok("ran".into()) });
    let stage = stage
        .with(say)
        .with(write.with_access(Access::write("/file")).with_secrets_put_back())
        .with(run.with_access(Access::execute("x")));
    (stage, written)
}

/// Returns the placeholder that the model was told.
fn placeholder(told: &str) -> String {
    told.trim().strip_prefix("TOKEN=").unwrap().to_owned()
}

/// Returns what calls ended with.
fn ends(told: &Told) -> Vec<String> {
    let end = |body: &EventBody| match body {
        EventBody::ToolEnd { content, .. } => Some(text_of(content)),
        _ => None,
    };
    told.events.iter().filter_map(|event| end(&event.body)).collect()
}

fn text(text: &str) -> String {
    serde_json::json!({ "text": text }).to_string()
}

#[tokio::test]
async fn a_secret_in_two_pieces_of_output_is_heard_by_nobody() {
    let says = tool("says", |_, cx: ToolContext| async move {
        let secret = secret();
        let (one, other) = secret.split_at(17);
        cx.output(format!("TOKEN={one}"));
        tokio::task::yield_now().await;
        cx.output(format!("{other}\nmore "));
        tokio::task::yield_now().await;
        cx.output(secret[..6].to_owned());
        Ok("said".into())
    });
    let told = stage([Reply::call("says", "{}"), Reply::text("done")]).with(says).play().await;
    let shown = told.events.iter().filter_map(|event| match &event.body {
        EventBody::ToolOutput { text, .. } => Some(text.as_str()),
        _ => None,
    });
    let shown: String = shown.collect();
    assert!(shown.starts_with("TOKEN=[secret github-token-"), "{shown}");
    assert!(shown.ends_with("]\nmore ghp_aB"), "what is cut off is told at the end: {shown}");
}

#[tokio::test]
async fn a_secret_is_put_back_into_a_file_and_nowhere_else() {
    let (stage, written) = with_tools(stage([Reply::call("say", "{}"), Reply::text("seen")]));
    let handle = stage.start();
    let told = hear(handle.prompt("go")).await;
    let placeholder = placeholder(&told.result("call_1"));
    let line = format!("export TOKEN={placeholder}");
    for name in ["write", "run", "echo"] {
        stage.model.push(Reply::call(name, text(&line)));
        stage.model.push(Reply::text("done"));
    }
    hear(handle.prompt("write")).await;
    assert_eq!(*written.lock().unwrap(), [format!("export TOKEN={}", secret())]);
    let told = hear(handle.prompt("run")).await;
    let refused = "a command cannot use [secret github-token-";
    assert!(ends(&told).iter().any(|end| end.contains(refused)), "{:?}", ends(&told));
    let log = serde_json::to_string(&log_of(handle.session_id()).await).unwrap();
    assert!(log.contains(&line) && !log.contains(&secret()));
    assert!(stage.asked().iter().flatten().all(|line| !line.contains(&secret())));
}

#[tokio::test]
async fn a_placeholder_that_stands_for_nothing_is_never_written() {
    let invented = "TOKEN=[secret github-token-0a1b2c]";
    let replies = [Reply::call("write", text(invented)), Reply::text("done")];
    let (stage, written) = with_tools(stage(replies));
    let told = stage.play().await;
    assert!(told.result("call_1").contains("nothing was written: [secret github-token-0a1b2c]"));
    assert!(written.lock().unwrap().is_empty());
}

#[tokio::test]
async fn after_a_restart_a_secret_must_be_seen_again() {
    let (stage, written) = with_tools(stage([Reply::call("say", "{}"), Reply::text("seen")]));
    let handle = stage.start();
    let told = hear(handle.prompt("go")).await;
    let placeholder = placeholder(&told.result("call_1"));
    let id = handle.session_id();
    handle.close().await;
    drop(handle);
    let handle = stage.agent.resume(id).await.unwrap();
    stage.model.push(Reply::call("write", text(&placeholder)));
    stage.model.push(Reply::text("no"));
    let told = hear(handle.prompt("write")).await;
    assert!(written.lock().unwrap().is_empty());
    assert!(ends(&told).iter().any(|end| end.contains("no longer known")), "{:?}", ends(&told));
    stage.model.push(Reply::call("say", "{}"));
    stage.model.push(Reply::call("write", text(&placeholder)));
    stage.model.push(Reply::text("done"));
    hear(handle.prompt("look again")).await;
    assert_eq!(*written.lock().unwrap(), [secret()]);
}
