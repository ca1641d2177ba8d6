//! shelly's callbacks, driven by the projection that makes its lines.

use std::sync::{Arc, Mutex};

use bowline_server::dialect::shelly::{Callbacks, Notice};
use pretty_assertions::assert_eq;

use crate::scenes;

#[test]
fn callbacks_are_called_as_shellys_loop_calls_them() {
    let work = scenes::all().remove(0);
    let told = Arc::new(Mutex::new(Vec::new()));
    let (loop_events, agents) = (Arc::clone(&told), Arc::clone(&told));
    let mut callbacks = Callbacks::new(
        move |notice| {
            let line = match notice {
                Notice::ToolCall(kind, data) => {
                    format!("{kind} {} {}", data.tool_name, data.call_id)
                }
                Notice::MessageAdded(data) => format!("message_added {}", data.role),
                Notice::Error(data) => format!("error {}", data.error),
                Notice::Question(data) => format!("ask_user {}", data.text),
                Notice::Compaction => "compaction".to_owned(),
                Notice::Agent(..) => panic!("the life of agents is told by the notifier"),
            };
            loop_events.lock().unwrap().push(line);
        },
        move |kind, agent, data| {
            agents.lock().unwrap().push(format!("{kind} {agent} of {:?}", data.parent));
        },
    );
    work.events.iter().for_each(|event| callbacks.event(event));
    let told = told.lock().unwrap();
    let calls = |kind: &str| told.iter().filter(|line| line.starts_with(kind)).count();
    assert_eq!(calls("tool_call_start"), calls("tool_call_end"));
    let lives: Vec<_> = told.iter().filter(|line| line.starts_with("agent_")).collect();
    assert_eq!(
        lives,
        [
            r#"agent_start root of """#,
            r#"agent_start scout-1 of "root""#,
            r#"agent_end scout-1 of "root""#,
            r#"agent_end root of """#,
        ]
    );
    // The denied call too.
    assert!(told.iter().any(|line| line == "tool_call_start fetch web"));
    // Of what users said only what came while the agent worked.
    assert_eq!(calls("message_added user"), 1);
}
