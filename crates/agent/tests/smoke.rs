use bowline_agent::tool::*;
use bowline_agent::*;
use bowline_llm::{ScriptedModel, scripted::Reply};
use futures::StreamExt;
use std::sync::Arc;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Echo {
    text: String,
}

#[tokio::test]
async fn a_tool_round_trip() {
    let model = ScriptedModel::new([
        Reply::text("thinking").and_call("echo", r#"{"text":"hi"}"#),
        Reply::text("done"),
    ]);
    let tools = Toolbox::default()
        .with(tool_fn("echo", "Echoes.", |i: Echo, cx: ToolContext| async move {
            cx.output("x");
            Ok(i.text.into())
        }))
        .unwrap();
    let agent = Agent { tools, ..Agent::new(Arc::new(model.clone())) };
    let handle = agent.start();
    let mut run = handle.prompt("go");
    let mut n = 0;
    while let Some(event) = run.next().await {
        println!("{}", serde_json::to_string(&event.printed(n)).unwrap());
        n += 1;
    }
    let outcome = run.await.unwrap();
    assert_eq!(outcome.text(), "done");
    assert_eq!(model.requests().len(), 2);
    println!("{:?}", handle.messages().iter().collect::<Vec<_>>());
    handle.close().await;
}
