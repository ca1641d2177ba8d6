//! Agents that are told of by a middleware, to a receiver on loopback.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failure here is a failure of the test")]

#[path = "support/otlp.rs"]
mod otlp;

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bowline_agent::children::Child;
use bowline_agent::middleware::{Middleware, Timeout};
use bowline_agent::tool::{Access, ToolContext, ToolError, Toolbox, tool_fn};
use bowline_agent::{Agent, Redaction};
use bowline_llm::http::Proxy;
use bowline_llm::scripted::{Reply, ScriptedModel};
use bowline_runtime::config::TraceConfig;
use bowline_runtime::environment::Environment;
use bowline_runtime::telemetry::{Settings, Telemetry, Trace};
use otlp::{Received, TAKEN, receiver, spans};
use pretty_assertions::assert_eq;
use serde_json::Value;

fn trace(address: SocketAddr) -> Arc<Trace> {
    let vars = [("OTEL_EXPORTER_OTLP_PROTOCOL".to_owned(), "http/json".to_owned())];
    let environment = Environment { vars: vars.into_iter().collect(), ..Environment::default() };
    let config =
        TraceConfig { endpoint: Some(format!("http://{address}")), ..TraceConfig::default() };
    let settings = Settings::read(&environment, &config).unwrap().unwrap();
    let (redaction, proxy) = (Redaction::default(), Proxy::default());
    Arc::new(Trace::new(Telemetry::start(settings, &config, redaction, &proxy).unwrap()))
}

fn agent(replies: Vec<Reply>, trace: &Arc<Trace>) -> Agent {
    let middleware: Vec<Arc<dyn Middleware>> =
        vec![Arc::new(Timeout(Duration::from_secs(60))), Arc::<Trace>::clone(trace)];
    Agent { middleware, ..Agent::new(Arc::new(ScriptedModel::new(replies))) }
}

/// Makes a tool that has a sub-agent work that is all its parent is, the middleware too.
fn delegate() -> Toolbox {
    let delegate = tool_fn("delegate", "A tool.", |_: Value, cx: ToolContext| async move {
        let gone = || ToolError::failed("there is no parent");
        let parent = cx.children.parent().ok_or_else(gone)?.clone();
        let agent = Agent { name: "helper".to_owned(), ..parent };
        let child = cx.children.create(Child::new(agent)).await;
        let child = child.map_err(|error| ToolError::failed(error.to_string()))?;
        Ok(child.prompt("work").await.unwrap().text().into())
    });
    Toolbox::default().with(delegate.with_access(Access::none())).unwrap()
}

/// Returns spans as `name < name of the span above`, by their traces.
fn told(received: &[Received]) -> Vec<Vec<String>> {
    let spans: Vec<Value> = spans(received).into_iter().map(|(span, _)| span).collect();
    let names: HashMap<_, _> =
        spans.iter().map(|span| (span["spanId"].clone(), span["name"].clone())).collect();
    let mut traces: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let word = |value: &Value| value.as_str().unwrap_or("nothing").to_owned();
    for span in &spans {
        let above = names.get(&span["parentSpanId"]).map_or("nothing".to_owned(), word);
        let line = format!("{} < {above}", word(&span["name"]));
        traces.entry(word(&span["traceId"])).or_default().push(line);
    }
    // Traces are named like runs, and these by their time.
    traces.into_values().collect()
}

#[tokio::test]
async fn a_run_with_all_that_is_below_it_is_one_trace() {
    let (address, rx) = receiver(TAKEN);
    let trace = trace(address);
    let replies = vec![
        Reply::call("delegate", "{}"),
        Reply::text("worked"),
        Reply::text("done"),
        Reply::text("again"),
    ];
    let agent = Agent { tools: delegate(), ..agent(replies, &trace) };
    let handle = agent.start();
    assert_eq!(handle.prompt("a").await.unwrap().text(), "done");
    assert_eq!(handle.prompt("b").await.unwrap().text(), "again");
    assert_eq!(trace.close().await, None);
    let first = [
        "chat script < invoke_agent default",
        "chat script < invoke_agent helper",
        "invoke_agent helper < execute_tool delegate",
        "execute_tool delegate < invoke_agent default",
        "chat script < invoke_agent default",
        "invoke_agent default < nothing",
    ];
    let second = ["chat script < invoke_agent default", "invoke_agent default < nothing"];
    let received: Vec<_> = rx.try_iter().collect();
    assert_eq!(told(&received), [first.to_vec(), second.to_vec()]);
    assert!(received.iter().any(|it| it.path == "/v1/metrics"));
}

#[tokio::test]
async fn what_has_happened_is_told_although_a_run_goes_on() {
    let (address, rx) = receiver(TAKEN);
    let trace = trace(address);
    let waits = tool_fn("wait", "A tool.", |_: Value, cx: ToolContext| async move {
        cx.cancel.cancelled().await;
        Ok("never".into())
    });
    let tools = Toolbox::default().with(waits).unwrap();
    let agent = Agent { tools, ..agent(vec![Reply::call("wait", "{}")], &trace) };
    let handle = agent.start();
    let _run = handle.prompt("a");
    handle.wait_for(|state| !state.pending_calls.is_empty()).await.unwrap();
    assert_eq!(trace.close().await, None);
    let received: Vec<_> = rx.try_iter().collect();
    assert_eq!(told(&received), [["chat script < nothing"]]);
    // Nobody is told of what comes after that, and nothing fails.
    handle.close().await;
    assert_eq!(rx.try_iter().count(), 0);
    assert_eq!(trace.close().await, None);
}

#[tokio::test]
async fn a_receiver_that_is_not_there_harms_no_run() {
    let trace = trace("127.0.0.1:1".parse().unwrap());
    let handle = agent(vec![Reply::text("done")], &trace).start();
    assert_eq!(handle.prompt("a").await.unwrap().text(), "done");
    let told = trace.close().await.unwrap();
    assert!(told.starts_with("traces did not reach http://127.0.0.1:1/v1/traces: "), "{told}");
    assert_eq!(
        Trace::to("ftp://a").unwrap_err(),
        "\"ftp://a/v1/traces\" is no http or https address"
    );
}
