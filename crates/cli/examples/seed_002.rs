//! What seed 002 does, with today's bowline: a session named by its id, an `emit` callback, a
//! `message` tool through which alone the model speaks, and tools scoped for sub-agents.
#![expect(clippy::print_stdout, reason = "an example shows something")]

mod support;

use std::sync::{Arc, Mutex, PoisonError};

use bowline::agent::id::SessionId;
use bowline::agent::schemars;
use bowline::agent::tool::{Access, Scope, ToolContext, ToolError, Toolbox, tool_fn};
use bowline::agent::{Agent, AgentCreator as _, SessionHandle};
use bowline::llm::scripted::{Reply, ScriptedModel};
use bowline::server::dialect::{Dialect, Lines};

/// What the model says to the user.
#[derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
struct Said {
    text: String,
}

/// What a sub-agent is to do.
#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Task {
    task: String,
}

/// `Runner.Run(ctx, sessionID, message, emit)`: opens the conversation, or begins it. What is emitted
/// is a projection of our events.
async fn run(
    agent: &Agent,
    session: Option<SessionId>,
    message: &str,
    mut emit: impl FnMut(String),
) -> support::Result<SessionId> {
    let handle: SessionHandle = match session {
        Some(id) => agent.resume(id).await?,
        None => agent.start(),
    };
    let (mut pingu, mut lines) = (Dialect::Pingu.translator(), Lines::default());
    handle
        .prompt(message)
        .run_with_callback(|event| {
            pingu.event(event, &mut lines);
            lines.drain().for_each(&mut emit);
        })
        .await?;
    handle.close().await;
    Ok(handle.session_id())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> support::Result {
    // What tools learn of the run they are in: the session, the depth.
    let told = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&told);
    // What is recorded as `message` is what the user sees; a sub-agent's is for who asked it.
    let message =
        tool_fn("message", "Tells the user something.", move |said: Said, cx: ToolContext| {
            let depth = cx.agent.depth;
            noted.lock().unwrap_or_else(PoisonError::into_inner).push((cx.session, depth));
            let recorded = cx.record("message", &said);
            async { recorded.map(|()| "sent".into()) }
        })
        .with_access(Access::none());
    let delegate = tool_fn("delegate", "Delegates.", async |task: Task, cx: ToolContext| {
        let parent = cx.children.parent().ok_or_else(|| ToolError::failed("no parent"))?;
        // `registry.Scope`: the child gets the very same tools, but only these.
        let scoped = parent.tools.scope(Scope::Names(&["message"]));
        let scoped = scoped.map_err(|error| ToolError::failed(error.to_string()))?;
        let child = cx.children.new_with_default_model("You look after the system.", scoped).await;
        let child = child.map_err(|error| ToolError::failed(error.to_string()))?;
        let outcome = child.prompt(task.task).await;
        outcome.map_err(|error| ToolError::failed(error.to_string()))?;
        Ok("delegated".into())
    });
    let registry = Toolbox::default().with(message)?.with(delegate)?;
    assert_eq!(registry.scope(Scope::All)?.len(), 2);
    // An empty list means none here, never all: what is not named is not given.
    assert!(registry.scope(Scope::Names(&[]))?.is_empty());

    let model = ScriptedModel::new([
        Reply::call("message", r#"{"text":"Hello, Ada."}"#),
        Reply::text(""),
        Reply::call("delegate", r#"{"task":"How full is the disk?"}"#),
        Reply::call("message", r#"{"text":"Half full."}"#),
        Reply::text(""),
        Reply::text("ok"),
    ]);
    let agent = Agent {
        instructions: "Speak to the user only through the tool message; nobody reads plain text."
            .into(),
        tools: registry,
        ..Agent::new(Arc::new(model.clone()))
    };

    let mut events = Vec::new();
    let session = run(&agent, None, "I am Ada.", |event| events.push(event)).await?;
    let first = [
        r#"{"type":"tool_call","data":{"name":"message","arguments":"{\"text\":\"Hello, Ada.\"}"}}"#,
        r#"{"type":"token","data":"Hello, Ada."}"#,
        r#"{"type":"tool_result","data":{"name":"message","content":"sent"}}"#,
        r#"{"type":"done"}"#,
    ];
    assert_eq!(events, first);

    // The conversation is loaded by its id: the second request knows the first prompt.
    events.clear();
    let same = run(&agent, Some(session), "How is the disk?", |event| events.push(event)).await?;
    assert_eq!(same, session);
    let second = [
        r#"{"type":"tool_call","data":{"name":"delegate","arguments":"{\"task\":\"How full is the disk?\"}"}}"#,
        r#"{"type":"tool_result","data":{"name":"delegate","content":"delegated"}}"#,
        r#"{"type":"token","data":"ok"}"#,
        r#"{"type":"done"}"#,
    ];
    assert_eq!(events, second);
    let told = told.lock().unwrap_or_else(PoisonError::into_inner);
    assert_eq!(*told, [(session, 0), (session, 1)]);

    let requests = model.requests();
    // Prompt, call, result, the end of the first run, prompt.
    let (resumed, child) = (&requests[2], &requests[3]);
    assert!(resumed.messages.len() >= 4, "{}", resumed.messages.len());
    assert_eq!(child.messages.len(), 1);
    let given: Vec<_> = child.tools.specs().iter().map(|spec| spec.name.as_str()).collect();
    assert_eq!(given, ["message"]);
    println!("seed 002: all of it holds");
    Ok(())
}
