//! What agents share: the tools of the task board and of the shared state.

use std::sync::Arc;

use bowline_agent::event::AgentMeta;
use bowline_agent::tool::tool_fn;
use bowline_agent::tool::{DynTool, Recovery, ToolContext, ToolError, ToolOutput};
use bowline_agent::{Agent, Child, Memory};
use bowline_llm::scripted::{Reply, ScriptedModel};
use bowline_llm::{Message, text_of};
use bowline_tools::{
    GetState, ListState, NotesPlace, SetState, StatePlace, WatchTask, listed_toolbox,
};
use futures::FutureExt as _;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::desk::{Desk, failure};

/// The tools of the board as an agent of the session has them.
struct Worker {
    desk: Desk,
    cx: ToolContext,
}

impl Worker {
    fn new() -> Self {
        let desk = Desk::new();
        let cx = desk.cx.clone();
        Self { desk, cx }
    }

    fn is(&mut self, name: &str, depth: u32) {
        self.cx.agent =
            Arc::new(AgentMeta { name: name.to_owned(), depth, ..(*self.desk.cx.agent).clone() });
    }

    async fn call(&self, tool: &str, arguments: Value) -> Result<Value, ToolError> {
        let notes = NotesPlace::Session(self.desk.workspace.clone());
        let tools = listed_toolbox(&self.desk.workspace, &notes, &StatePlace::Session).unwrap();
        let tool = tools.get(&format!("shared_tasks_{tool}")).unwrap();
        let prepared = tool.prepare(&arguments.to_string())?;
        let mut cx = self.cx.clone();
        cx.call = bowline_llm::CallId::from(arguments.to_string().as_str());
        match (prepared.run)(cx).await? {
            ToolOutput::Content(parts) | ToolOutput::Concluded { content: parts, .. } => {
                Ok(serde_json::from_str(&text_of(&parts)).unwrap())
            }
            ToolOutput::Waiting(wake) => panic!("it waits for {wake:?}"),
        }
    }

    async fn refused(&self, tool: &str, arguments: Value) -> String {
        failure(self.call(tool, arguments).await.map(|value| value.to_string()))
    }
}

#[tokio::test]
async fn a_board_is_kept_with_tools() {
    let mut worker = Worker::new();
    assert_eq!(worker.call("list", json!({})).await.unwrap(), json!([]));
    let mut made = worker.call("create", json!({ "title": "dig" })).await.unwrap();
    assert!(made["created_at"].take().is_string());
    let plain = json!({ "id": "task-1", "title": "dig", "status": "pending", "blocked_by": [],
        "created_by": "standalone", "created_at": null });
    assert_eq!(made, plain);
    let more = json!({ "title": "build", "description": "a house", "blocked_by": ["task-1"],
        "metadata": { "floors": 2 } });
    let made = worker.call("create", more).await.unwrap();
    assert_eq!(
        (&made["blocked"], &made["metadata"]["floors"]),
        (&json!("blocked by task-1"), &json!(2))
    );
    worker.is("coder-1", 1);
    let claimed = worker.call("claim", json!({ "id": "task-1" })).await.unwrap();
    assert_eq!(
        (&claimed["assignee"], &claimed["status"]),
        (&json!("coder-1"), &json!("in_progress"))
    );
    let own = worker.refused("watch", json!({ "id": "task-1" })).await;
    assert_eq!(own, "task-1 is your own; do it instead of waiting");
    worker.is("coder-2", 1);
    let taken = "task-1 belongs to coder-1";
    assert_eq!(worker.refused("claim", json!({ "id": "task-1" })).await, taken);
    let completed = json!({ "id": "task-1", "status": "completed" });
    assert_eq!(worker.refused("update", completed.clone()).await, taken);
    worker.is("coder-1", 1);
    worker.call("update", json!({ "id": "task-1", "status": "failed" })).await.unwrap();
    let doomed = worker.call("watch", json!({ "id": "task-2" })).await.unwrap();
    assert_eq!(doomed["blocked"], "blocked by failed task task-1");
    let again = json!({ "id": "task-1", "reopen": true, "description": "deeper" });
    let again = worker.call("update", again).await.unwrap();
    assert_eq!((&again["status"], &again["description"]), (&json!("pending"), &json!("deeper")));
    worker.call("cancel", json!({ "id": "task-2" })).await.unwrap();
    let canceled = worker.call("list", json!({ "status": "canceled" })).await.unwrap();
    assert_eq!(canceled.as_array().unwrap().len(), 1);
    let none =
        worker.call("list", json!({ "assignee": "coder-9", "blocked": false })).await.unwrap();
    assert_eq!(none, json!([]));
}

// 108
#[tokio::test]
async fn a_task_cannot_be_made_done_or_given_away() {
    let worker = Worker::new();
    for more in
        [json!({ "title": "x", "status": "completed" }), json!({ "title": "x", "assignee": "me" })]
    {
        let why = worker.refused("create", more).await;
        assert!(why.contains("unknown field"), "{why}");
    }
    let why = worker.refused("create", json!({ "title": "x", "blocked_by": ["task-4"] })).await;
    assert_eq!(why, "there is no task \"task-4\"; there are none yet");
}

#[tokio::test(start_paused = true)]
async fn a_watch_obeys_its_time_and_a_cancel() {
    let worker = Worker::new();
    worker.call("create", json!({ "title": "dig" })).await.unwrap();
    let seen = worker.call("watch", json!({ "id": "task-1", "timeout": 5 })).await.unwrap();
    assert_eq!(seen["status"], "pending");
    let nobody = worker.refused("watch", json!({ "id": "task-1" })).await;
    assert_eq!(nobody, "task-1 has no assignee: nobody took it for 15 s");
    let mut watch = Box::pin(worker.refused("watch", json!({ "id": "task-1" })));
    assert_eq!((&mut watch).now_or_never(), None);
    worker.cx.cancel.cancel();
    assert_eq!(watch.await, "canceled");
    // So that it goes on after a restart.
    let prepared = Arc::new(WatchTask).prepare(r#"{"id":"task-1"}"#).unwrap();
    assert_eq!(prepared.recovery, Recovery::Rerun);
}

/// Two agents and their sub-agent's work, told by models, over the end of a process.
#[tokio::test]
async fn agents_of_a_session_work_on_one_board_and_state() {
    let desk = Desk::new();
    let notes = NotesPlace::Session(desk.workspace.clone());
    let tools = listed_toolbox(&desk.workspace, &notes, &StatePlace::Session).unwrap();
    let call = |name: &str, arguments: Value| Reply::call(name, arguments.to_string());
    let worker = ScriptedModel::new([
        call("shared_tasks_claim", json!({ "id": "task-1" })),
        call("shared_state_set", json!({ "key": "depth", "value": { "m": [1, 2] } })),
        call("shared_tasks_update", json!({ "id": "task-1", "status": "completed" })),
        Reply::text("dug"),
    ]);
    let root = ScriptedModel::new([
        call("shared_tasks_create", json!({ "title": "dig" })),
        call("work", json!({})).and_call("shared_tasks_watch", r#"{"id":"task-1"}"#),
        Reply::text("done"),
        call("shared_state_get", json!({ "key": "depth" }))
            .and_call("shared_tasks_list", "{}")
            .and_call("shared_tasks_create", r#"{"title":"fill"}"#),
        Reply::text("seen"),
    ]);
    let agent = Agent {
        tools: tools.clone(),
        store: Arc::new(Memory::default()),
        ..Agent::new(Arc::new(root.clone()))
    };
    let child = Agent { name: "digger".to_owned(), tools, ..Agent::new(Arc::new(worker)) };
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Nothing {}
    let work = tool_fn("work", "Has it done.", move |_: Nothing, cx: ToolContext| {
        let agent = child.clone();
        async move {
            let child = cx.children.create(Child::new(agent)).await?;
            Ok(child.prompt("dig").await?.text().into())
        }
    });
    let work = work.with_access(bowline_agent::tool::Access::none());
    let agent = Agent { tools: agent.tools.clone().with(work).unwrap(), ..agent };
    let handle = agent.start();
    handle.prompt("go").await.unwrap();
    let session = handle.session_id();
    handle.close().await;
    drop(handle);
    let again = agent.resume(session).await.unwrap();
    again.prompt("what is there?").await.unwrap();
    let results = |nth: usize| {
        let request = root.requests().swap_remove(nth);
        let results = request.messages.iter().rev().find_map(|message| match &**message {
            Message::Results(results) => {
                Some(results.iter().map(|r| text_of(&r.content)).collect::<Vec<_>>())
            }
            Message::User(_) | Message::Assistant(_) => None,
        });
        results.unwrap()
    };
    let seen = results(2);
    assert_eq!(seen[0], "dug");
    assert!(seen[1].contains(r#""status":"completed","assignee":"digger-1""#), "{seen:?}");
    let seen = results(4);
    assert_eq!(seen[0], r#"{"m":[1,2]}"#);
    assert!(seen[1].contains("digger-1"), "{seen:?}");
    assert!(seen[2].contains("task-2"), "{seen:?}");
}

#[tokio::test]
async fn a_state_in_a_file_is_there_for_other_sessions() {
    let desk = Desk::new();
    let file = desk.path("shared/state.json");
    let place = || StatePlace::File(file.clone());
    let list = || desk.call(ListState(place()), json!({}));
    assert_eq!(list().await.unwrap(), "[]");
    let set = |key: &str, value: Value| {
        desk.call(SetState(place()), json!({ "key": key, "value": value }))
    };
    assert_eq!(set("port", json!(8080)).await.unwrap(), "\"port\" is set");
    set("a", Value::Null).await.unwrap();
    let other = Desk::new();
    assert_eq!(other.call(ListState(place()), json!({})).await.unwrap(), r#"["a","port"]"#);
    let get = |key: &str| other.call(GetState(place()), json!({ "key": key }));
    assert_eq!(
        (get("port").await.unwrap(), get("a").await.unwrap()),
        ("8080".into(), "null".into())
    );
    assert_eq!(failure(get("prot").await), "nothing is set for \"prot\"; did you mean \"port\"?");
    assert_eq!(failure(get("elsewhere").await), "nothing is set for \"elsewhere\"");
    assert!(failure(set("", json!(1)).await).contains("needs a key"));
    assert!(failure(set("big", json!("x".repeat(70_000))).await).contains("write it to a file"));
    assert!(failure(desk.call(SetState(place()), json!({ "key": "x" })).await).contains("value"));
    std::fs::write(&file, "no json").unwrap();
    assert!(failure(set("port", json!(1)).await).starts_with("cannot read the shared state"));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "no json");
}

#[test]
fn of_many_who_set_a_value_in_a_file_each_is_heard() {
    let desk = Desk::new();
    let file = desk.path("state.json");
    std::thread::scope(|scope| {
        for n in 0..8 {
            let (file, cx) = (file.clone(), desk.cx.clone());
            scope.spawn(move || {
                let tool = Arc::new(SetState(StatePlace::File(file)));
                let arguments = json!({ "key": format!("k{n}"), "value": n }).to_string();
                let prepared = tool.prepare(&arguments).unwrap();
                (prepared.run)(cx).now_or_never().unwrap().unwrap();
            });
        }
    });
    let state: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    assert_eq!(state.as_object().unwrap().len(), 8);
}
