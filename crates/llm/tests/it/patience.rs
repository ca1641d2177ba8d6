//! What is tried again and what is not, for every wire, over sockets.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bowline_llm::http::{self, Proxy, Transport};
use bowline_llm::retry::Policy;
use bowline_llm::{
    ErrorKind, Message, Model, ModelError, ModelInfo, Request, Response, Retry, StreamEvent, Usage,
    anthropic, chat, gemini, responses,
};
use futures::StreamExt;
use pretty_assertions::assert_eq;
use serde_json::json;

use crate::loopback::{Answer, End, Server};

const IDLE: Duration = Duration::from_secs(90);

/// A wire, with what its servers say.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Wire {
    Anthropic,
    Chat,
    Gemini,
    Responses,
}

const WIRES: [Wire; 4] = [Wire::Anthropic, Wire::Chat, Wire::Gemini, Wire::Responses];

impl Wire {
    fn client(self, base_url: &str, transport: &Transport) -> Arc<dyn Model> {
        let info = |provider: &str| ModelInfo {
            provider: provider.to_owned(),
            model: "m".to_owned(),
            ..ModelInfo::default()
        };
        match self {
            Self::Anthropic => {
                let mut config = anthropic::Config::new(base_url, "claude-sonnet-4-6");
                config.idle_timeout = IDLE;
                Arc::new(anthropic::Client::new(config, transport).unwrap())
            }
            Self::Chat => {
                let mut config = chat::Config::new(base_url);
                (config.info, config.idle_timeout) = (info("openai"), IDLE);
                Arc::new(chat::Client::new(config, transport).unwrap())
            }
            Self::Gemini => {
                let mut config = gemini::Config::new(base_url);
                (config.info, config.idle_timeout) = (info("gemini"), IDLE);
                Arc::new(gemini::Client::new(config, transport).unwrap())
            }
            Self::Responses => {
                let mut config = responses::Config::new(base_url);
                (config.info, config.idle_timeout) = (info("openai"), IDLE);
                Arc::new(responses::Client::new(config, transport).unwrap())
            }
        }
    }

    /// The body of an error as the vendor documents it for the status.
    fn error_body(self, status: u16) -> String {
        let message = "no";
        let body = match self {
            Self::Anthropic => {
                let kind = match status {
                    400 | 422 => "invalid_request_error",
                    401 => "authentication_error",
                    403 => "permission_error",
                    404 => "not_found_error",
                    413 => "request_too_large",
                    429 => "rate_limit_error",
                    504 => "timeout_error",
                    529 => "overloaded_error",
                    _ => "api_error",
                };
                json!({"type": "error", "error": {"type": kind, "message": message}})
            }
            Self::Chat | Self::Responses => {
                let (kind, code) = match status {
                    401 => ("invalid_request_error", json!("invalid_api_key")),
                    403 => ("request_forbidden", json!("unsupported_country_region_territory")),
                    404 => ("invalid_request_error", json!("model_not_found")),
                    429 => ("requests", json!("rate_limit_exceeded")),
                    400..=499 => ("invalid_request_error", json!(null)),
                    503 => ("service_unavailable_error", json!(null)),
                    _ => ("server_error", json!(null)),
                };
                json!({"error": {"message": message, "type": kind, "param": null, "code": code}})
            }
            Self::Gemini => {
                let name = match status {
                    401 => "UNAUTHENTICATED",
                    403 => "PERMISSION_DENIED",
                    404 => "NOT_FOUND",
                    409 => "ABORTED",
                    400..=499 if status != 429 => "INVALID_ARGUMENT",
                    429 => "RESOURCE_EXHAUSTED",
                    503 => "UNAVAILABLE",
                    504 => "DEADLINE_EXCEEDED",
                    _ => "INTERNAL",
                };
                json!({"error": {"code": status, "message": message, "status": name}})
            }
        };
        body.to_string()
    }

    /// Events that begin a reply with a text and a call of a tool, billed with 7 tokens where the
    /// wire says so at the beginning.
    fn beginning(self) -> String {
        let events: &[&str] = match self {
            Self::Anthropic => &[
                r#"{"type":"message_start","message":{"id":"m","usage":{"input_tokens":7}}}"#,
                r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#,
                r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"half"}}"#,
                r#"{"type":"content_block_stop","index":0}"#,
                r#"{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"lost","name":"delete","input":{}}}"#,
                r#"{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"path\":\"a\"}"}}"#,
                r#"{"type":"content_block_stop","index":1}"#,
            ],
            Self::Chat => &[
                r#"{"choices":[{"delta":{"content":"half"}}]}"#,
                r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"lost","function":{"name":"delete","arguments":"{\"path\":\"a\"}"}}]}}],"usage":{"prompt_tokens":7,"completion_tokens":0}}"#,
            ],
            Self::Gemini => &[
                r#"{"candidates":[{"content":{"parts":[{"text":"half"}],"role":"model"}}]}"#,
                r#"{"candidates":[{"content":{"parts":[{"functionCall":{"name":"delete","args":{"path":"a"}}}],"role":"model"}}],"usageMetadata":{"promptTokenCount":7}}"#,
            ],
            Self::Responses => &[
                r#"{"type":"response.created","response":{"id":"r"}}"#,
                r#"{"type":"response.output_text.delta","output_index":0,"delta":"half"}"#,
                r#"{"type":"response.output_item.done","output_index":1,"item":{"type":"function_call","id":"fc","call_id":"lost","name":"delete","arguments":"{\"path\":\"a\"}"}}"#,
            ],
        };
        sse(events)
    }

    /// A whole reply that says `whole`, billed with 3 and 2 tokens.
    fn whole(self) -> String {
        let events: &[&str] = match self {
            Self::Anthropic => &[
                r#"{"type":"message_start","message":{"id":"m","usage":{"input_tokens":3}}}"#,
                r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#,
                r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"whole"}}"#,
                r#"{"type":"content_block_stop","index":0}"#,
                r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":2}}"#,
                r#"{"type":"message_stop"}"#,
            ],
            Self::Chat => &[
                r#"{"choices":[{"delta":{"content":"whole"},"finish_reason":"stop"}]}"#,
                r#"{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2}}"#,
                "[DONE]",
            ],
            Self::Gemini => &[
                r#"{"candidates":[{"content":{"parts":[{"text":"whole"}],"role":"model"},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":3,"candidatesTokenCount":2}}"#,
            ],
            Self::Responses => &[
                r#"{"type":"response.completed","response":{"status":"completed","output":[{"type":"message","content":[{"type":"output_text","text":"whole"}]}],"usage":{"input_tokens":3,"output_tokens":2}}}"#,
            ],
        };
        sse(events)
    }

    /// An event that reports a failure within a reply.
    fn failure(self) -> String {
        sse(&[match self {
            Self::Anthropic => {
                r#"{"type":"error","error":{"type":"overloaded_error","message":"no"}}"#
            }
            Self::Chat => r#"{"error":{"code":502,"message":"no"}}"#,
            Self::Gemini => r#"{"error":{"code":503,"message":"no","status":"UNAVAILABLE"}}"#,
            Self::Responses => {
                r#"{"type":"response.failed","response":{"status":"failed","error":{"code":"server_error","message":"no"},"usage":{"input_tokens":7,"output_tokens":0}}}"#
            }
        }])
    }
}

fn sse(events: &[&str]) -> String {
    events.iter().map(|event| format!("data: {event}\n\n")).collect()
}

fn request() -> Request {
    Request { messages: [Message::user("Hi").into()].into_iter().collect(), ..Request::default() }
}

/// Tries again at once, unless the provider asks for time.
fn at_once() -> Policy {
    Policy { base_delay: Duration::ZERO, ..Policy::default() }
}

/// What follows the first failure.
#[derive(PartialEq)]
enum Then {
    Waits { reason: String, delay: Duration },
    GivesUp(ErrorKind),
}

impl fmt::Debug for Then {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Waits { reason, delay } => write!(f, "waits {delay:?}: {reason}"),
            Self::GivesUp(kind) => write!(f, "gives up: {kind:?}"),
        }
    }
}

async fn after(wire: Wire, answer: Answer) -> Then {
    let server = Server::start(vec![answer]).await;
    let client = wire.client(&server.url(), &Transport::default());
    let mut stream = Retry::with_random(client, at_once(), || u64::MAX).stream(request());
    loop {
        match stream.next().await.expect("a failure") {
            Ok(StreamEvent::Waiting { reason, delay, .. }) => {
                return Then::Waits { reason, delay };
            }
            Ok(_) => {}
            Err(error) => return Then::GivesUp(error.kind),
        }
    }
}

/// Asks until the end; the answer, and what came before it.
async fn play(
    wire: Wire,
    answers: Vec<Answer>,
) -> (Vec<StreamEvent>, Result<Response, ModelError>) {
    let server = Server::start(answers).await;
    let client = wire.client(&server.url(), &Transport::default());
    let mut stream = Retry::with_random(client, at_once(), || 0).stream(request());
    let mut events = Vec::new();
    loop {
        match stream.next().await.expect("an end") {
            Ok(StreamEvent::Done(response)) => return (events, Ok(*response)),
            Ok(event) => events.push(event),
            Err(error) => return (events, Err(error)),
        }
    }
}

// M17
#[tokio::test]
async fn every_wire_tries_the_same_statuses_again() {
    for wire in WIRES {
        for status in [408, 409, 425, 429, 500, 502, 503, 504, 529] {
            for body in [wire.error_body(status), "<html>no</html>".to_owned(), String::new()] {
                let then = after(wire, Answer::json(&body).status(status)).await;
                let Then::Waits { reason, delay: Duration::ZERO } = then else {
                    panic!("{wire:?} {status} {body}: {then:?}");
                };
                assert!(reason.contains(&format!("({status})")), "{reason}");
            }
        }
    }
}

#[tokio::test]
async fn every_wire_gives_up_on_the_same_statuses() {
    for wire in WIRES {
        for (status, kind) in [
            (400, ErrorKind::InvalidRequest),
            (401, ErrorKind::Auth),
            (402, ErrorKind::Quota),
            (403, ErrorKind::Auth),
            (404, ErrorKind::NotFound),
            (413, ErrorKind::InvalidRequest),
            (422, ErrorKind::InvalidRequest),
        ] {
            for body in [wire.error_body(status), "<html>no</html>".to_owned(), String::new()] {
                let answer = Answer::json(&body).status(status).header("retry-after", "1");
                assert_eq!(after(wire, answer).await, Then::GivesUp(kind), "{wire:?} {body}");
            }
        }
    }
}

#[tokio::test]
async fn no_code_makes_a_fault_of_the_request_pass_by_itself() {
    let bodies = [
        r#"{"type":"error","error":{"type":"overloaded_error","message":"no"}}"#,
        r#"{"error":{"message":"no","type":"tokens","code":"rate_limit_exceeded"}}"#,
        r#"{"error":{"message":"no","status":"UNAVAILABLE"}}"#,
        r#"{"error":{"message":"no","type":"timeout_error"}}"#,
    ];
    for status in [400, 401, 403, 404, 413, 422] {
        for body in bodies {
            let then = after(Wire::Chat, Answer::json(body).status(status)).await;
            assert!(matches!(then, Then::GivesUp(_)), "{status} {body}: {then:?}");
        }
    }
}

#[tokio::test]
async fn an_empty_account_is_not_asked_again() {
    let day = json!({"error": {
        "code": 429, "status": "RESOURCE_EXHAUSTED", "message": "no",
        "details": [{
            "@type": "type.googleapis.com/google.rpc.QuotaFailure",
            "violations": [{"quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier"}],
        }],
    }});
    let openai = json!({"error": {
        "message": "You exceeded your current quota", "type": "insufficient_quota",
        "param": null, "code": "insufficient_quota",
    }});
    let credit = "Your credit balance is too low to access the Anthropic API.";
    let anthropic = json!({
        "type": "error", "error": {"type": "invalid_request_error", "message": credit},
    });
    let billing = json!({"type": "error", "error": {"type": "billing_error", "message": "no"}});
    for (wire, status, body) in [
        (Wire::Anthropic, 400, &anthropic),
        (Wire::Anthropic, 402, &billing),
        (Wire::Chat, 429, &openai),
        (Wire::Responses, 429, &openai),
        (Wire::Gemini, 429, &day),
    ] {
        let answer = Answer::json(&body.to_string()).status(status).header("retry-after", "1");
        assert_eq!(after(wire, answer).await, Then::GivesUp(ErrorKind::Quota), "{wire:?}");
    }
}

#[tokio::test]
async fn what_can_never_fit_into_a_minute_is_too_long() {
    let message = "Request too large for model `m` on tokens per minute (TPM): Limit 6000, \
        Requested 8000, please reduce your message size and try again.";
    let body = json!({"error": {
        "message": message, "type": "tokens", "code": "rate_limit_exceeded",
    }});
    for status in [413, 429] {
        let then = after(Wire::Chat, Answer::json(&body.to_string()).status(status)).await;
        assert_eq!(then, Then::GivesUp(ErrorKind::ContextOverflow), "{status}");
    }
}

#[tokio::test]
async fn every_wire_starts_over_when_a_connection_breaks() {
    for wire in WIRES {
        let beginning = Answer::sse(&wire.beginning());
        let broken = [
            Answer::sse("").ending(End::Closed),
            Answer::sse("").ending(End::Reset),
            Answer::sse("").ending(End::Cut),
            beginning.clone().ending(End::Cut),
            beginning.clone().ending(End::Reset),
            beginning.clone().ending(End::Chunked(20)),
            Answer::sse(&(wire.beginning() + &wire.failure())),
            Answer::json("{\"half\":").ending(End::Cut),
        ];
        for (n, broken) in broken.into_iter().enumerate() {
            let then = after(wire, broken).await;
            assert!(matches!(then, Then::Waits { .. }), "{wire:?} {n}: {then:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn every_wire_starts_over_after_silence() {
    for wire in WIRES {
        for end in [End::Mute, End::Never] {
            let then = after(wire, Answer::sse(&wire.beginning()).ending(end)).await;
            let reason = "timed out: nothing came for 90s".to_owned();
            assert_eq!(then, Then::Waits { reason, delay: Duration::ZERO }, "{wire:?} {end:?}");
        }
    }
}

#[tokio::test]
async fn nothing_of_a_failed_attempt_is_kept_but_its_bill() {
    for wire in WIRES {
        let cut = Answer::sse(&wire.beginning()).ending(End::Cut);
        let failed = Answer::sse(&(wire.beginning() + &wire.failure()));
        let answers = vec![cut, failed, Answer::sse(&wire.whole()), Answer::json("{}").status(500)];
        let (events, response) = play(wire, answers).await;
        let response = response.unwrap();
        assert_eq!(response.message.to_text(), "whole", "{wire:?}");
        assert_eq!(response.message.tool_calls().count(), 0);
        // Responses tells the bill at the end of a reply only, so a cut one tells none.
        let wasted = if wire == Wire::Responses { 7 } else { 14 };
        let billed = response.wasted.usage;
        assert_eq!(billed, Usage { input: wasted, ..billed }, "{wire:?}");
        assert_eq!(response.usage.unwrap().total(), wasted + 5);
        let told: Vec<_> = events.iter().filter_map(told).collect();
        assert_eq!(told, ["waits for 2", "starts 2", "waits for 3", "starts 3"], "{wire:?}");
    }
}

fn told(event: &StreamEvent) -> Option<String> {
    match event {
        StreamEvent::Waiting { attempt, .. } => Some(format!("waits for {attempt}")),
        StreamEvent::Restarted { attempt, .. } => Some(format!("starts {attempt}")),
        StreamEvent::TextDelta(_)
        | StreamEvent::ReasoningDelta(_)
        | StreamEvent::ToolCallDelta { .. }
        | StreamEvent::Done(_) => None,
    }
}

// B14
#[tokio::test]
async fn the_time_a_provider_asks_for_is_the_least_on_every_wire() {
    let date = "Sun, 06 Nov 1994 08:49:07 GMT";
    for wire in WIRES {
        for status in [429, 503] {
            let answer = Answer::json(&wire.error_body(status)).status(status);
            let dated = answer.clone().header("date", date);
            let cases = [
                (answer.clone().header("retry-after", "7"), 7_000),
                (answer.clone().header("retry-after-ms", "1250"), 1_250),
                (answer.header("retry-after", "9").header("retry-after-ms", "1250"), 1_250),
                (dated.clone().header("retry-after", "Sun, 06 Nov 1994 08:49:37 GMT"), 30_000),
                (dated.header("retry-after", "Sun, 06 Nov 1994 08:48:00 GMT"), 0),
            ];
            for (answer, millis) in cases {
                let Then::Waits { delay, .. } = after(wire, answer).await else {
                    panic!("{wire:?} gives up on {status}");
                };
                assert_eq!(delay, Duration::from_millis(millis), "{wire:?} {status}");
            }
        }
    }
}

#[tokio::test]
async fn who_asks_for_more_time_than_there_is_ends_it() {
    for wire in WIRES {
        let answer = Answer::json(&wire.error_body(429)).status(429);
        let then = after(wire, answer.clone().header("retry-after", "60")).await;
        assert!(matches!(then, Then::Waits { .. }), "{then:?}");
        let then = after(wire, answer.header("retry-after", "61")).await;
        assert_eq!(then, Then::GivesUp(ErrorKind::RateLimited));
    }
}

#[tokio::test]
async fn twenty_requests_take_one_socket() {
    for is_proxied in [false, true] {
        for wire in WIRES {
            let failed = Answer::json(&wire.error_body(503)).status(503);
            let mut answers = vec![failed];
            answers.extend([
                Answer::sse(&wire.whole()),
                Answer::new("text/event-stream", wire.whole()),
            ]);
            let server = Server::start(answers).await;
            let url = server.url();
            let (base_url, proxy) = match is_proxied {
                true => ("http://model.test/v1", Some(url.as_str().into())),
                false => (&*url, None),
            };
            let proxy = Proxy { http: proxy, ..Proxy::default() };
            let transport =
                Transport::new(http::Config { proxy, ..http::Config::default() }).unwrap();
            for _ in 0..20 {
                // Each turn makes its client anew, as after a change of the model.
                let model = Retry::new(wire.client(base_url, &transport), at_once());
                let last = model.stream(request()).map(Result::unwrap).collect::<Vec<_>>().await;
                assert!(matches!(last.last(), Some(StreamEvent::Done(_))));
            }
            assert_eq!((server.requests().len(), server.connections()), (21, 1), "{wire:?}");
        }
    }
}
