//! F119: a dialect says of the log what it said live, but for what is only live.

use bowline_agent::Projection;
use bowline_agent::event::EventBody;
use bowline_server::dialect::Dialect;
use pretty_assertions::assert_eq;
use serde_json::Value;

use crate::scenes::{self, Lived};
use crate::{say, translator};

/// What a dialect tells only live, by the name of its lines; `docs/dialects.md` says the same.
fn only_live(dialect: Dialect) -> &'static [&'static str] {
    match dialect {
        Dialect::Bowline => &[
            "turn_start",
            "text_delta",
            "text_reset",
            "reasoning_delta",
            "tool_call_delta",
            "tool_output",
            "retry",
            "status",
            "warning",
        ],
        Dialect::Codalotl | Dialect::CodalotlHeadless => &["tool_output", "retry", "warning"],
        Dialect::Codex => &["error", "item.completed"],
        Dialect::Claude => &["system"],
        Dialect::Shelly | Dialect::Pingu | Dialect::AgentCore | Dialect::ClaudeResult => &[],
    }
}

/// Of lines of our own the number counts what was only live too, and a turn begins live or not.
fn comparable(dialect: Dialect, line: String) -> Option<String> {
    if dialect != Dialect::Bowline {
        return Some(line);
    }
    let mut line: Value = serde_json::from_str(&line).unwrap();
    line.as_object_mut().unwrap().remove("seq");
    (line["type"] != "turn_start").then(|| line.to_string())
}

/// Returns the lines that followed from the log while it was written, and the others.
fn lived(dialect: Dialect, lived: &Lived) -> (Vec<String>, Vec<Value>) {
    let mut translator = translator(dialect);
    let (mut committed, mut live) = (Vec::new(), Vec::new());
    for event in &lived.events {
        let lines = say(&mut *translator, event).into_iter();
        match event.pos {
            Some(_) => committed.extend(lines.filter_map(|line| comparable(dialect, line))),
            None => live.extend(lines.map(|line| serde_json::from_str(&line).unwrap())),
        }
    }
    (committed, live)
}

fn read(dialect: Dialect, lived: &Lived) -> Vec<String> {
    let mut translator = translator(dialect);
    let session = lived.events.first().unwrap().session;
    let mut projection = Projection::new(session);
    let events = lived.log.iter().flat_map(|(pos, entry)| projection.apply(*pos, entry));
    events
        .flat_map(|event| say(&mut *translator, &event))
        .filter_map(|line| comparable(dialect, line))
        .collect()
}

#[test]
fn the_log_is_told_as_it_was_lived() {
    for session in scenes::all() {
        for dialect in Dialect::ALL {
            let (committed, _) = lived(dialect, &session);
            assert!(!committed.is_empty());
            assert_eq!(committed, read(dialect, &session), "{dialect}, {}", session.name);
        }
    }
}

#[test]
fn what_is_only_live_is_what_the_book_says() {
    let sessions = scenes::all();
    for dialect in Dialect::ALL {
        let lines = sessions.iter().flat_map(|session| lived(dialect, session).1);
        let key = if dialect == Dialect::Codalotl { "Type" } else { "type" };
        let mut names: Vec<String> =
            lines.map(|line| line[key].as_str().unwrap().to_owned()).collect();
        names.sort();
        names.dedup();
        let mut told = only_live(dialect).to_vec();
        told.sort_unstable();
        assert_eq!(names, told, "{dialect}");
    }
}

#[test]
fn the_scene_is_learned_from_the_log() {
    let session = scenes::all().remove(0);
    let id = session.events.first().unwrap().session;
    let mut scene = bowline_server::dialect::Scene::default();
    let learned = session.log.iter().filter(|(_, entry)| scene.learn(id, entry)).count();
    assert_eq!(learned, 2);
    assert_eq!(scene.cwd.as_deref(), Some("/work"));
    assert_eq!(scene.tools.first().map(String::as_str), Some("bash"));
    let of_child = session.log.iter().filter(|(_, entry)| entry.agent != id.root()).count();
    assert!(of_child > 0, "a sub-agent's tools are not the session's");
    assert!(scene.tools.iter().any(|tool| tool == "delegate"));
}

#[test]
fn text_that_was_void_is_told_by_nobody() {
    let mut sessions = scenes::all();
    let work = sessions.remove(0);
    let retried = |body: &EventBody| matches!(body, EventBody::Retry { .. });
    assert!(work.events.iter().any(|event| retried(&event.body)));
    for dialect in Dialect::ALL.into_iter().filter(|dialect| *dialect != Dialect::Bowline) {
        let mut translator = translator(dialect);
        let deltas = work.events.iter().filter(|event| {
            matches!(
                event.body,
                EventBody::TextDelta { .. }
                    | EventBody::TextReset {}
                    | EventBody::ReasoningDelta { .. }
                    | EventBody::ToolCallDelta { .. }
            )
        });
        let lines: Vec<_> = deltas.flat_map(|event| say(&mut *translator, event)).collect();
        assert_eq!(lines, Vec::<String>::new(), "{dialect}");
    }
}
