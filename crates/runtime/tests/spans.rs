//! What spans say of sessions that are lived by script, those of the dialects' tests.
//! `cargo test -p bowline-runtime --test spans -- --ignored` writes the golden files anew: read the
//! difference before you keep it.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failure here is a failure of the test")]

#[path = "../../server/tests/it/scenes.rs"]
mod scenes;

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::path::PathBuf;

use bowline_agent::event::{Event, EventBody};
use bowline_agent::{Projection, Redaction};
use bowline_llm::Secret;
use bowline_runtime::config::{TraceCompat, TraceContent};
use bowline_runtime::telemetry::{Operation, Parent, Span, SpanId, Spans, TraceId, Value};
use pretty_assertions::assert_eq;

use scenes::Lived;

fn spans(content: TraceContent, compat: Option<TraceCompat>) -> Spans {
    Spans::new(content, compat, None, Redaction::default())
}

fn of<'a>(mut spans: Spans, events: impl IntoIterator<Item = &'a Event>) -> Vec<Span> {
    events.into_iter().filter_map(|event| spans.event(event)).collect()
}

fn lived(lived: &Lived, content: TraceContent, compat: Option<TraceCompat>) -> Vec<Span> {
    of(spans(content, compat), lived.events.iter().map(AsRef::as_ref))
}

fn scene(name: &str) -> Lived {
    scenes::all().into_iter().find(|lived| lived.name == name).unwrap()
}

fn file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/{name}.txt"))
}

/// Writes spans as trees, in the order in which they began.
fn trees(name: &str, spans: &[Span]) -> String {
    let mut text = format!("# {name}\n");
    let mut sorted: Vec<_> = spans.iter().collect();
    sorted.sort_by_key(|span| span.start);
    branch(None, 0, &sorted, &mut text);
    text
}

fn branch(parent: Option<SpanId>, depth: usize, spans: &[&Span], text: &mut String) {
    for span in spans.iter().filter(|span| span.parent == parent) {
        let ms = span.end.duration_since(span.start).as_millis();
        writeln!(text, "{}{} {ms} ms", "  ".repeat(depth), span.name).unwrap();
        let indent = "  ".repeat(depth + 2);
        for (name, value) in span.attributes.iter() {
            writeln!(text, "{indent}{name} = {}", shown(value)).unwrap();
        }
        for event in &span.events {
            writeln!(text, "{indent}! {}", event.name).unwrap();
        }
        if let Some(error) = &span.error {
            writeln!(text, "{indent}error: {error}").unwrap();
        }
        branch(Some(span.id), depth + 1, spans, text);
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::Text(text) => text.clone(),
        Value::Texts(texts) => format!("{texts:?}"),
        Value::Int(number) => number.to_string(),
        Value::Double(number) => number.to_string(),
    }
}

fn golden() -> [(&'static str, String); 2] {
    let all = scenes::all();
    let full = all.iter().map(|it| trees(it.name, &lived(it, TraceContent::Full, None)));
    let work = scene("work");
    let pingu = lived(&work, TraceContent::Full, Some(TraceCompat::Pingu));
    [("spans", full.collect()), ("spans-pingu", trees(work.name, &pingu))]
}

#[test]
fn spans_say_what_they_said() {
    for (name, trees) in golden() {
        assert_eq!(trees, std::fs::read_to_string(file(name)).unwrap(), "{name}");
    }
}

#[test]
#[ignore = "it writes the golden files"]
fn write_golden_files() {
    for (name, trees) in golden() {
        std::fs::write(file(name), trees).unwrap();
    }
}

#[test]
fn every_run_model_call_and_tool_call_is_exactly_one_span() {
    for session in scenes::all() {
        let spans = lived(&session, TraceContent::Off, None);
        let count = |operation| spans.iter().filter(|it| it.operation == operation).count();
        let told = |is: fn(&EventBody) -> bool| {
            session.events.iter().filter(|event| is(&event.body)).count()
        };
        let runs = told(|body| matches!(body, EventBody::RunEnd(_) | EventBody::RunLost { .. }));
        assert_eq!(count(Operation::InvokeAgent), runs, "{}", session.name);
        let turns = told(|body| matches!(body, EventBody::TurnEnd { .. }));
        assert_eq!(count(Operation::Chat), turns, "{}", session.name);
        let calls = told(|body| matches!(body, EventBody::ToolEnd { .. }));
        assert_eq!(count(Operation::ExecuteTool), calls, "{}", session.name);
        let ids: HashSet<_> = spans.iter().map(|span| (span.trace, span.id)).collect();
        assert_eq!(ids.len(), spans.len(), "{}: ids are unique", session.name);
    }
}

#[test]
fn all_of_a_run_is_one_trace_with_one_root_that_holds_the_rest() {
    for session in scenes::all() {
        let mut traces: HashMap<TraceId, Vec<Span>> = HashMap::new();
        for span in lived(&session, TraceContent::Off, None) {
            traces.entry(span.trace).or_default().push(span);
        }
        let starts = session.events.iter().filter(|event| {
            event.agent.depth == 0 && matches!(event.body, EventBody::RunStart { .. })
        });
        let named = |event: &std::sync::Arc<Event>| uuid::Uuid::from(event.run.unwrap());
        let runs: HashSet<_> = starts.map(|event| TraceId(named(event).into_bytes())).collect();
        assert_eq!(traces.keys().copied().collect::<HashSet<_>>(), runs, "{}", session.name);
        for spans in traces.values() {
            let by_id: HashMap<_, _> = spans.iter().map(|span| (span.id, span)).collect();
            let roots = spans.iter().filter(|span| span.parent.is_none());
            assert_eq!(roots.count(), 1, "{}", session.name);
            for span in spans {
                let Some(parent) = span.parent.map(|parent| by_id[&parent]) else { continue };
                assert!(parent.start <= span.start && span.end <= parent.end, "{span:?}");
            }
        }
    }
}

#[test]
fn a_sub_agent_is_below_the_call_that_made_it() {
    let spans = lived(&scene("sub-agents"), TraceContent::Off, None);
    let by_id: HashMap<_, _> = spans.iter().map(|span| (span.id, span)).collect();
    let children: Vec<_> = spans
        .iter()
        .filter(|span| span.operation == Operation::InvokeAgent && span.parent.is_some())
        .collect();
    assert!(children.len() >= 2);
    for child in children {
        let call = by_id[&child.parent.unwrap()];
        let (session, agent) = ("gen_ai.conversation.id", "gen_ai.agent.id");
        assert_eq!(call.operation, Operation::ExecuteTool);
        assert_eq!(call.attributes.get(session), child.attributes.get(session));
        assert_ne!(call.attributes.get(agent), child.attributes.get(agent));
    }
}

#[test]
fn the_log_gives_the_same_spans() {
    for session in scenes::all() {
        let mut projection = Projection::new(session.events[0].session);
        let log = session.log.iter();
        let events: Vec<_> = log.flat_map(|(pos, entry)| projection.apply(*pos, entry)).collect();
        let sorted = |mut spans: Vec<Span>| {
            spans.sort_by_key(|span| span.id.0);
            spans
        };
        let late = sorted(of(spans(TraceContent::Full, None), &events));
        let live = sorted(lived(&session, TraceContent::Full, None));
        assert_eq!(live.len(), late.len(), "{}", session.name);
        for (mut live, mut late) in live.into_iter().zip(late) {
            // Only those who were there know of retries, and what a scripted clock says is not how
            // long a call really took.
            live.events.clear();
            late.start = live.start;
            assert_eq!(live, late, "{}", session.name);
        }
    }
}

#[test]
fn a_run_that_goes_on_in_another_process_is_told_as_if_it_had_never_stopped() {
    let session = scene("work");
    let whole = lived(&session, TraceContent::Full, None);
    for cut in 0..session.events.len() {
        let (before, after) = session.events.split_at(cut);
        let mut told = of(spans(TraceContent::Full, None), before.iter().map(AsRef::as_ref));
        let mut again = spans(TraceContent::Full, None);
        for event in before {
            let _ = again.event(event);
        }
        told.extend(of(again, after.iter().map(AsRef::as_ref)));
        assert_eq!(told, whole, "cut before event {cut}");
    }
}

#[test]
fn the_span_that_started_the_process_is_the_parent_of_all() {
    let session = scene("two runs");
    let parent = Parent::parse("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01").unwrap();
    let spans = Spans::new(TraceContent::Off, None, Some(parent), Redaction::default());
    let spans = of(spans, session.events.iter().map(AsRef::as_ref));
    assert!(spans.iter().all(|span| span.trace == parent.trace));
    let runs = spans.iter().filter(|span| span.operation == Operation::InvokeAgent);
    let parents: Vec<_> = runs.map(|span| span.parent).collect();
    assert_eq!(parents, [Some(parent.span); 2]);
}

#[test]
fn what_is_said_is_recorded_only_if_it_is_wanted() {
    const CONTENT: [&str; 7] = [
        "gen_ai.input.messages",
        "gen_ai.output.messages",
        "gen_ai.tool.call.arguments",
        "gen_ai.tool.call.result",
        "gen_ai.tool.input",
        "gen_ai.tool.output",
        "user.message",
    ];
    for session in scenes::all() {
        for compat in [None, Some(TraceCompat::Pingu)] {
            let said = |content| {
                let spans = lived(&session, content, compat);
                let has = |name: &&str| spans.iter().any(|it| it.attributes.get(name).is_some());
                CONTENT.iter().filter(|name| has(name)).count()
            };
            assert_eq!(said(TraceContent::Off), 0, "{}", session.name);
            assert!(said(TraceContent::Trimmed) > 0, "{}", session.name);
        }
    }
    let off = format!("{:?}", lived(&scene("work"), TraceContent::Off, None));
    for said in ["Tidy up", "I shall look", "Look first", "example.org", "All done"] {
        assert!(!off.contains(said), "{said}");
    }
}

#[test]
fn secrets_are_masked_wherever_they_are_said() {
    let session = scene("work");
    // In the prompt, a text, arguments, the answer, and the reason of a retry.
    let words = ["Tidy up.", "shall look", "example.org", "All done", "try later"];
    for compat in [None, Some(TraceCompat::Pingu)] {
        let secrets = words.map(|word| ("KEY".to_owned(), Secret::from(word)));
        let spans = Spans::new(TraceContent::Full, compat, None, Redaction::new(secrets));
        let told = format!("{:?}", of(spans, session.events.iter().map(AsRef::as_ref)));
        words.iter().for_each(|word| assert!(!told.contains(word), "{word}"));
        assert!(told.contains("[secret KEY]"));
    }
}
