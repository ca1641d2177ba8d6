//! Recorded answers mean what the vendor's SDK says they mean, however their bytes arrive.
//!
//! A wire says in its own file below how it is made and what `expect` means there; everything else
//! is the same for all.

use std::fs;
use std::path::Path;

use bowline_llm::wire::{Client, Codec, Decode};
use bowline_llm::{AssistantPart, ErrorKind, ModelError, Response, StreamEvent, sse};
use pretty_assertions::assert_eq;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use serde_json::Value;

use crate::exchange::outcome;
use crate::loopback::{Answer, End, Server};

pub(crate) mod anthropic;
pub(crate) mod chat;
pub(crate) mod gemini;
pub(crate) mod responses;

/// A wire whose recorded exchanges are run.
pub(crate) trait Wire {
    type Codec: Codec;

    /// The folder below `fixtures`.
    const FOLDER: &'static str;
    /// How many exchanges it holds.
    const CASES: usize;
    /// The streamed exchanges that are cut at every byte.
    const CUT: &'static [&'static str];

    fn codec() -> Self::Codec;

    /// Makes a client for a server at `base_url`, which ends in `/v1`.
    fn client(base_url: &str, stream: bool) -> Client<Self::Codec>;

    /// Compares a response with what was expected.
    fn check(case: &Case, response: &Response);
}

/// One recorded exchange.
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) request: Value,
    pub(crate) status: u16,
    pub(crate) content_type: String,
    pub(crate) body: String,
    pub(crate) expect: Value,
}

impl Case {
    pub(crate) fn is_stream(&self) -> bool {
        self.content_type.starts_with("text/event-stream")
    }

    pub(crate) fn is_error(&self) -> bool {
        self.status >= 400
    }

    /// Returns the kind that stands for the SDK's error class.
    fn kind(&self) -> ErrorKind {
        match (self.expect["error"].as_str().unwrap(), self.status) {
            ("PermissionDeniedError" | "AuthenticationError", _) | (_, 401) => ErrorKind::Auth,
            ("NotFoundError", _) | ("ClientError", 404) => ErrorKind::NotFound,
            ("BadRequestError", _) | ("ClientError", 400) => ErrorKind::InvalidRequest,
            other => panic!("unexpected {other:?}"),
        }
    }
}

/// Makes the tests of a wire.
macro_rules! recorded_tests {
    ($wire:ty) => {
        #[test]
        fn streams_mean_the_same_at_every_chunking() {
            $crate::recorded::check_streams::<$wire>();
        }

        #[test]
        fn documents_are_read() {
            $crate::recorded::check_documents::<$wire>();
        }

        #[test]
        fn deltas_add_up_to_the_message() {
            $crate::recorded::check_deltas::<$wire>();
        }

        #[test]
        fn a_cut_anywhere_gives_an_error_or_the_complete_answer() {
            $crate::recorded::check_cuts::<$wire>();
        }

        #[test]
        fn damaged_answers_do_no_harm_and_mean_the_same_at_every_chunking() {
            $crate::recorded::check_damaged::<$wire>();
        }

        #[tokio::test]
        async fn exchanges_work_over_a_socket() {
            $crate::recorded::check_exchanges::<$wire>().await;
        }

        #[tokio::test]
        async fn answers_are_known_by_their_bytes() {
            $crate::recorded::check_types::<$wire>().await;
        }
    };
}
pub(crate) use recorded_tests;

/// Returns all recorded exchanges of a wire.
pub(crate) fn cases<W: Wire>() -> Vec<Case> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(W::FOLDER);
    let mut paths: Vec<_> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let cases: Vec<_> = paths.iter().map(|path| read(path)).collect();
    assert_eq!(cases.len(), W::CASES);
    cases
}

fn read(path: &Path) -> Case {
    let mut case: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    let response = &case["response"];
    // One recording lost the headers of a stream.
    let content_type = response["headers"]["content-type"].as_str().unwrap_or("text/event-stream");
    Case {
        name: path.file_stem().unwrap().to_string_lossy().into_owned(),
        status: u16::try_from(response["status"].as_u64().unwrap()).unwrap(),
        content_type: content_type.to_owned(),
        body: response["body"].as_str().unwrap().to_owned(),
        request: case["request"]["body"].take(),
        expect: case["expect"].take(),
    }
}

/// Returns the one exchange whose name begins so.
pub(crate) fn named<W: Wire>(name: &str) -> Case {
    cases::<W>().into_iter().find(|case| case.name.starts_with(name)).unwrap()
}

/// Decodes a stream that comes in pieces of this size.
pub(crate) fn decode(
    codec: &impl Codec,
    body: &[u8],
    size: usize,
) -> (Vec<StreamEvent>, Result<Response, ModelError>) {
    let mut lines = sse::Decoder::default();
    let mut decoder = codec.decoder(1);
    let mut events = Vec::new();
    for piece in body.chunks(size) {
        lines.push(piece);
        while let Some(event) = lines.next_event().unwrap() {
            if let Err(error) = decoder.push(&event, &mut |event| events.push(event)) {
                return (events, Err(error));
            }
        }
    }
    (events, decoder.finish())
}

/// Reads the answer of a case that is no error, as a stream or as a document.
pub(crate) fn answer(codec: &impl Codec, case: &Case) -> Response {
    let body = case.body.as_bytes();
    if case.is_stream() {
        decode(codec, body, usize::MAX).1.unwrap()
    } else {
        codec.decoder(1).document(body).unwrap()
    }
}

fn streams<W: Wire>() -> impl Iterator<Item = Case> {
    cases::<W>().into_iter().filter(|case| case.is_stream() && !case.is_error())
}

pub(crate) fn check_streams<W: Wire>() {
    for case in streams::<W>() {
        let (events, whole) = decode(&W::codec(), case.body.as_bytes(), usize::MAX);
        let whole = whole.unwrap();
        W::check(&case, &whole);
        for size in [1, 7, 64] {
            let (pieces, response) = decode(&W::codec(), case.body.as_bytes(), size);
            assert_eq!((&pieces, &response.unwrap()), (&events, &whole), "{}", case.name);
        }
    }
}

pub(crate) fn check_documents<W: Wire>() {
    for case in cases::<W>().iter().filter(|case| !case.is_stream() && !case.is_error()) {
        W::check(case, &answer(&W::codec(), case));
    }
}

pub(crate) fn check_deltas<W: Wire>() {
    for case in streams::<W>() {
        let (events, response) = decode(&W::codec(), case.body.as_bytes(), usize::MAX);
        let message = response.unwrap().message;
        let mut text = String::new();
        let mut reasoning = String::new();
        let mut calls: Vec<(String, String)> = Vec::new();
        for event in events {
            match event {
                StreamEvent::TextDelta(delta) => text.push_str(&delta),
                StreamEvent::ReasoningDelta(delta) => reasoning.push_str(&delta),
                StreamEvent::ToolCallDelta { index, name, arguments } => {
                    if let Some(name) = name {
                        assert_eq!(index, calls.len());
                        calls.push((name, String::new()));
                    }
                    calls[index].1.push_str(&arguments);
                }
                other => panic!("unexpected {other:?}"),
            }
        }
        assert_eq!(text, message.to_text());
        let said: Vec<_> =
            message.tool_calls().map(|call| (call.name.clone(), call.arguments.clone())).collect();
        assert_eq!(calls, said);
        let thought: String = message
            .content
            .iter()
            .filter_map(|part| match part {
                AssistantPart::Reasoning(reasoning) => Some(reasoning.text.as_str()),
                _ => None,
            })
            .collect();
        assert_eq!(reasoning, thought);
    }
}

pub(crate) fn check_cuts<W: Wire>() {
    for name in W::CUT {
        let case = named::<W>(name);
        let body = case.body.as_bytes();
        let whole = decode(&W::codec(), body, usize::MAX).1.unwrap();
        let mut complete = 0;
        for cut in 0..=body.len() {
            match decode(&W::codec(), &body[..cut], usize::MAX).1 {
                Ok(response) => {
                    complete += 1;
                    assert_eq!(response.message, whole.message, "cut at {cut}");
                    assert_eq!(response.stop, whole.stop, "cut at {cut}");
                }
                Err(error) => assert_eq!(error.kind, ErrorKind::Incomplete, "cut at {cut}"),
            }
        }
        assert!(complete > 0 && complete < body.len() / 2, "{complete}");
    }
}

/// Overwrites bytes of answers, within and beside their JSON.
pub(crate) fn check_damaged<W: Wire>() {
    let cases: Vec<_> = cases::<W>().into_iter().filter(|case| !case.is_error()).collect();
    let spot = (any::<prop::sample::Index>(), prop::sample::select(b"0\"{}[],:n -9\n".to_vec()));
    let damage = (any::<prop::sample::Index>(), prop::collection::vec(spot, 1..4));
    let mut runner = TestRunner::deterministic();
    let tested = runner.run(&damage, |(at, spots)| {
        let mut body = at.get(&cases).body.clone().into_bytes();
        for (at, byte) in spots {
            *at.get_mut(&mut body) = byte;
        }
        let whole = decode(&W::codec(), &body, usize::MAX);
        prop_assert_eq!(decode(&W::codec(), &body, 7), whole);
        let _ = W::codec().decoder(1).whole(&body);
        Ok(())
    });
    tested.unwrap();
}

pub(crate) async fn check_exchanges<W: Wire>() {
    for case in cases::<W>() {
        let answer = Answer::new(&case.content_type, case.body.clone()).status(case.status);
        let end = if case.is_stream() { End::Chunked(33) } else { End::Whole };
        let server = Server::start(vec![answer.ending(end)]).await;
        match outcome(&W::client(&server.url(), case.is_stream())).await {
            Ok(response) => W::check(&case, &response),
            Err(error) => {
                assert!(case.is_error(), "{}: {error}", case.name);
                assert_eq!((error.kind, error.status), (case.kind(), Some(case.status)));
            }
        }
    }
}

/// Checks that neither what was asked for nor the type of an answer decides how it is read.
pub(crate) async fn check_types<W: Wire>() {
    for case in cases::<W>().iter().filter(|case| !case.is_error()) {
        for content_type in ["application/json", "text/event-stream", "text/plain"] {
            for stream in [true, false] {
                let answer = Answer::new(content_type, case.body.clone());
                let server = Server::start(vec![answer.ending(End::Chunked(1_000))]).await;
                let response = outcome(&W::client(&server.url(), stream)).await;
                W::check(case, &response.unwrap_or_else(|error| panic!("{}: {error}", case.name)));
            }
        }
    }
}
