//! Recording what was said and playing it back.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use bowline_llm::recorded::{Matching, Recorded, RecordingError, Replayed};
use bowline_llm::retry::Policy;
use bowline_llm::scripted::{Gate, Reply, ScriptedModel};
use bowline_llm::{
    AssistantMessage, AssistantPart, Effort, ErrorKind, Media, Message, Model, ModelError,
    ModelInfo, Opaque, Part, Price, RawJson, Reasoning, Request, Retry, StreamEvent, ToolBlock,
    ToolResult, ToolSpec, Usage, UserMessage,
};
use futures::StreamExt;
use pretty_assertions::assert_eq;

type Events = Vec<Result<StreamEvent, ModelError>>;

/// A file that is gone with the test.
struct Tape(PathBuf);

impl Tape {
    fn new(name: &str) -> Self {
        let name = format!("bowline-llm-replay-{}-{name}.jsonl", std::process::id());
        Self(std::env::temp_dir().join(name))
    }

    fn text(&self) -> String {
        fs::read_to_string(&self.0).unwrap()
    }

    fn record<M: Model>(&self, model: M) -> Recorded<M> {
        Recorded::create(model, &self.0, &[]).unwrap()
    }

    fn replay(&self, matching: Matching) -> Replayed {
        Replayed::open(&self.0, matching).unwrap()
    }
}

impl Drop for Tape {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn asking(text: &str) -> Request {
    Request { messages: [Message::user(text).into()].into_iter().collect(), ..Request::default() }
}

async fn ask(model: &impl Model, request: Request) -> Events {
    model.stream(request).collect().await
}

fn failure(events: &Events) -> String {
    events.last().unwrap().as_ref().unwrap_err().to_string()
}

/// A request with everything there is.
fn full() -> Request {
    let image = Media { media_type: "image/png".into(), data: "aGk=".into(), name: None };
    let said = UserMessage { content: vec![Part::Text("look".into()), Part::Image(image)] };
    let item = RawJson::parse(r#"{"b":1.0,"a":"ü"}"#).unwrap();
    let opaque = Opaque { provider: "p".to_owned(), item: item.clone() };
    let thought = Reasoning { text: "hm".to_owned(), payload: Some(opaque.clone()) };
    let content = vec![AssistantPart::Reasoning(thought), AssistantPart::Opaque(opaque)];
    let reply = Message::Assistant(AssistantMessage { content }.into());
    let result = ToolResult {
        call: "c".into(),
        name: "read".to_owned(),
        content: [Part::Text("ok".to_owned())].into(),
        is_error: true,
    };
    let tool = ToolSpec { name: "read".into(), description: "Reads.".into(), schema: item };
    Request {
        system: "Be brief.".into(),
        tools: ToolBlock::new(vec![tool]),
        messages: [Message::User(said.into()), reply, Message::Results(vec![result])]
            .into_iter()
            .map(Into::into)
            .collect(),
        effort: Some(Effort::Low),
        max_output_tokens: Some(10),
        output_schema: Some(RawJson::parse(r#"{"type":"object"}"#).unwrap()),
        cache_key: Some("session-1".into()),
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_played_back_is_what_was_said() {
    let item = RawJson::parse(r#"{"b":1.0,"a":"ü"}"#).unwrap();
    let opaque = Opaque { provider: "p".to_owned(), item };
    let usage = Usage { input: 10, output: 2, cache_read: Some(3), ..Usage::default() };
    let failed = ModelError {
        status: Some(529),
        code: Some("overloaded_error".to_owned()),
        retry_after: Some(Duration::from_millis(1500)),
        usage,
        ..ModelError::new(ErrorKind::Overloaded, "busy")
    };
    let thought = Reasoning { text: "hm".to_owned(), payload: Some(opaque.clone()) };
    let model = ScriptedModel::new([
        Reply::error(failed.clone()).with_deltas([StreamEvent::TextDelta("half".to_owned())]),
        Reply::message(AssistantMessage::default())
            .and(AssistantPart::Reasoning(thought))
            .and(AssistantPart::Opaque(opaque))
            .and_text("line\nbreak \"quoted\"")
            .and_call("read", r#"{"path":"a"}"#)
            .with_usage(usage),
        Reply::error(ModelError::new(ErrorKind::Refused, "never")),
    ]);
    let info = ModelInfo {
        provider: "p".to_owned(),
        model: "m".to_owned(),
        context_window: Some(1000),
        max_output_tokens: None,
        price: Some(Price {
            input: 1.0,
            output: 2.0,
            cache_read: None,
            cache_write: None,
            long: None,
        }),
    };
    let tape = Tape::new("whole");
    let policy = Policy { base_delay: Duration::ZERO, ..Policy::default() };
    let real = tape.record(Retry::new(model.with_info(info), policy));
    let told = [ask(&real, full()).await, ask(&real, asking("more")).await];
    assert!(told[0].contains(&Ok(StreamEvent::Restarted {
        attempt: 2,
        error: ModelError { usage: Usage::default(), ..failed }
    })));
    for matching in [Matching::Strict, Matching::Order] {
        let replayed = tape.replay(matching);
        assert_eq!((replayed.info(), replayed.remaining()), (real.info(), 2));
        // Another session has another key for its cache.
        let request = Request { cache_key: Some("session-2".into()), ..full() };
        assert_eq!(ask(&replayed, request).await, told[0]);
        assert_eq!(ask(&replayed, asking("more")).await, told[1]);
        assert_eq!(replayed.remaining(), 0);
    }
}

#[tokio::test]
async fn another_request_is_an_error_that_shows_the_first_difference() {
    let tape = Tape::new("difference");
    ask(&tape.record(ScriptedModel::new([Reply::text("a")])), full()).await;
    let long = "x".repeat(500);
    let changed = |change: &dyn Fn(&mut Request)| {
        let mut request = full();
        change(&mut request);
        request
    };
    let asked = [
        (
            changed(&|request| request.system = "Be long.".into()),
            r#"request.system: recorded "Be brief.", asked "Be long.""#.to_owned(),
        ),
        (
            changed(&|request| request.effort = None),
            r#"request.effort: recorded "low", asked nothing"#.to_owned(),
        ),
        (
            changed(&|request| {
                let said = Message::user(format!("{long}!"));
                request.messages.push_back_mut(said.into());
            }),
            format!(
                "request.messages[3]: recorded nothing, asked {{\"user\":{{\"content\":[{{\"text\":\"{}…",
                "x".repeat(31)
            ),
        ),
    ];
    let replayed = tape.replay(Matching::Strict);
    for (request, difference) in asked {
        let told = failure(&ask(&replayed, request).await);
        let start = format!("request not accepted: {}: this was not recorded", tape.0.display());
        assert!(told.starts_with(&start), "{told}");
        assert_eq!(told.split_once("next is request 1: ").unwrap().1, difference);
    }
    assert_eq!(replayed.remaining(), 1, "what was not found takes nothing");
    assert!(ask(&replayed, full()).await.last().unwrap().is_ok());
    let told = failure(&ask(&replayed, full()).await);
    assert!(told.ends_with("all 1 recorded answers were given already"), "{told}");
}

#[tokio::test]
async fn the_place_of_a_difference_in_a_long_text_is_shown() {
    let tape = Tape::new("long");
    let text = |end: &str| asking(&format!("{}{end}", "é".repeat(500)));
    ask(&tape.record(ScriptedModel::new([Reply::text("a")])), text("one")).await;
    let told = failure(&ask(&tape.replay(Matching::Strict), text("two")).await);
    let near = "é".repeat(10);
    let place = "request.messages[0].user.content[0].text";
    let difference = format!("{place}: recorded \"…{near}one\", asked \"…{near}two\"");
    assert!(told.ends_with(&difference), "{told}");
}

#[tokio::test]
async fn by_order_the_request_does_not_matter() {
    let tape = Tape::new("order");
    let real = tape.record(ScriptedModel::new([Reply::text("a"), Reply::text("b")]));
    let told = [ask(&real, asking("1")).await, ask(&real, asking("2")).await];
    let replayed = tape.replay(Matching::Order);
    assert_eq!(ask(&replayed, asking("x")).await, told[0]);
    assert_eq!(ask(&replayed, asking("y")).await, told[1]);
    assert!(failure(&ask(&replayed, asking("z")).await).contains("all 2 recorded answers"));
}

#[tokio::test]
async fn those_who_talk_at_the_same_time_find_their_own() {
    let tape = Tape::new("both");
    let gate = Gate::default();
    let real = tape.record(ScriptedModel::new([Reply::text("a").held_by(&gate), Reply::text("b")]));
    let (a, b) = tokio::join!(ask(&real, asking("1")), async {
        gate.reached().await;
        let b = ask(&real, asking("2")).await;
        gate.open();
        b
    });
    let replayed = tape.replay(Matching::Strict);
    assert_eq!(ask(&replayed, asking("2")).await, b);
    assert_eq!(ask(&replayed, asking("1")).await, a);
    let replayed = tape.replay(Matching::Order);
    assert_eq!(ask(&replayed, asking("")).await, a, "it was asked first, and answered last");
}

#[tokio::test]
async fn no_secret_gets_into_the_file() {
    let secrets = ["sk-\"quoted\"\\1", "sk-plain", "sk-plain-longer"];
    let tape = Tape::new("secret");
    let [quoted, plain, longer] = secrets;
    let pieces = |text: &str| -> Vec<_> {
        text.chars().map(|c| StreamEvent::TextDelta(c.to_string())).collect()
    };
    let arguments = serde_json::json!({ "key": quoted }).to_string();
    let said = format!("It is {plain}, or {longer}.");
    let error = ModelError::new(ErrorKind::Auth, format!("{plain} is wrong"));
    let model = ScriptedModel::new([
        Reply::text(&said).and_call("print", &arguments).with_deltas(pieces(&said)),
        Reply::error(error),
    ]);
    let hidden = secrets.map(Into::into);
    let real = Recorded::create(model, &tape.0, &hidden).unwrap();
    ask(&real, asking(&format!("My keys: {quoted} {longer}"))).await;
    ask(&real, asking("again")).await;
    let text = tape.text();
    for piece in ["sk-", "quoted", "plain", "longer", "\"k\""] {
        assert!(!text.contains(piece), "{piece}: {text}");
    }
    let replayed = tape.replay(Matching::Order);
    let events = ask(&replayed, asking("")).await;
    assert_eq!(events[0], Ok(StreamEvent::TextDelta("It is [secret], or [secret].".to_owned())));
    let Some(Ok(StreamEvent::Done(response))) = events.last() else { panic!("{events:?}") };
    let call = response.message.tool_calls().next().unwrap();
    assert_eq!(call.arguments, r#"{"key":"[secret]"}"#);
    assert_eq!(
        failure(&ask(&replayed, asking("")).await),
        "authentication failed: [secret] is wrong"
    );
}

#[tokio::test]
async fn what_was_dropped_is_recorded_as_far_as_it_came() {
    let tape = Tape::new("dropped");
    let gate = Gate::default();
    let delta = StreamEvent::TextDelta("half".to_owned());
    let reply = Reply::text("whole").with_deltas([delta.clone()]).held_at_the_end_by(&gate);
    let real = tape.record(ScriptedModel::new([reply]));
    drop(real.stream(asking("never sent")));
    let mut stream = real.stream(asking("sent"));
    assert_eq!(stream.next().await, Some(Ok(delta.clone())));
    drop(stream);
    let replayed = tape.replay(Matching::Strict);
    assert_eq!(replayed.remaining(), 1);
    let events = ask(&replayed, asking("sent")).await;
    assert_eq!(events[0], Ok(delta));
    assert_eq!(failure(&events), "answer broke off: the recording was dropped here");
}

#[test]
fn what_is_no_recording_is_told() {
    let tape = Tape::new("bad");
    let open = || Replayed::open(&tape.0, Matching::Order).unwrap_err();
    assert!(matches!(open(), RecordingError::Read { .. }));
    fs::write(&tape.0, "").unwrap();
    assert!(matches!(open(), RecordingError::Version { .. }));
    let header = r#"{"bowline_recording":1,"info":{"provider":"p","model":"m"}}"#;
    fs::write(&tape.0, header.replace('1', "2")).unwrap();
    assert!(matches!(open(), RecordingError::Version { .. }));
    fs::write(&tape.0, format!("{header}\n{{}}\n")).unwrap();
    assert!(open().to_string().ends_with(":2: no line of a recording"));
    assert!(Recorded::create(ScriptedModel::new([]), &tape.0.join("below"), &[]).is_err());
}
