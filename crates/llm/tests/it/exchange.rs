//! A client and a server: what arrives, what fails and how.

use std::time::Duration;

use bowline_llm::chat::{Client, Config};
use bowline_llm::http::{self, Proxy, Transport};
use bowline_llm::{
    AssistantMessage, ErrorKind, Message, Model, ModelError, ModelInfo, Request, Response,
    StopReason, StreamEvent,
};
use futures::StreamExt;
use pretty_assertions::assert_eq;

use crate::loopback::{Answer, End, Server};

mod anthropic;
mod responses;

const TEXT: &str = concat!(
    "data: {\"choices\":[{\"delta\":{\"content\":\"He\"}}]}\n\n",
    "data: {\"choices\":[{\"delta\":{\"content\":\"llo\"}}]}\n\n",
);
const STOP: &str = "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
const USAGE: &str =
    "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":2}}\n\n";
const DONE: &str = "data: [DONE]\n\n";

fn hello() -> String {
    [TEXT, STOP, USAGE, DONE].concat()
}

fn config(server: &Server) -> Config {
    let mut config = Config::new(server.url());
    config.info =
        ModelInfo { provider: "mine".to_owned(), model: "m".to_owned(), ..ModelInfo::default() };
    config
}

fn client(server: &Server) -> Client {
    Client::new(config(server), &Transport::default()).unwrap()
}

fn request() -> Request {
    Request { messages: [Message::user("Hi").into()].into_iter().collect(), ..Request::default() }
}

async fn events(model: &dyn Model) -> Vec<Result<StreamEvent, ModelError>> {
    model.stream(request()).collect().await
}

/// Returns how the stream ended.
pub(crate) async fn outcome(model: &dyn Model) -> Result<Response, ModelError> {
    match events(model).await.pop().expect("a stream ends in something") {
        Ok(StreamEvent::Done(response)) => Ok(*response),
        Ok(other) => panic!("unexpected {other:?}"),
        Err(error) => Err(error),
    }
}

async fn failure(answer: Answer) -> ModelError {
    let server = Server::start(vec![answer]).await;
    outcome(&client(&server)).await.unwrap_err()
}

#[tokio::test]
async fn a_stream_yields_its_deltas_and_then_the_answer() {
    let server = Server::start(vec![Answer::sse(&hello())]).await;
    let mut got = events(&client(&server)).await;
    let Some(Ok(StreamEvent::Done(response))) = got.pop() else { panic!("no answer") };
    assert_eq!(
        got,
        [Ok(StreamEvent::TextDelta("He".to_owned())), Ok(StreamEvent::TextDelta("llo".to_owned())),]
    );
    assert_eq!(response.message, AssistantMessage::text("Hello"));
    assert_eq!(response.stop, StopReason::EndTurn);
    assert_eq!(response.usage.unwrap().total(), 5);
}

#[tokio::test]
async fn a_document_is_taken_asked_for_or_not() {
    let document = r#"{"choices":[{"message":{"content":"Hello"},"finish_reason":"stop"}]}"#;
    let server = Server::start(vec![Answer::json(document)]).await;
    for stream in [true, false] {
        let config = Config { stream, ..config(&server) };
        let model = Client::new(config, &Transport::default()).unwrap();
        let got = events(&model).await;
        assert_eq!(got.len(), 1);
        assert!(
            matches!(&got[0], Ok(StreamEvent::Done(response)) if response.message.to_text() == "Hello")
        );
    }
    let sent = |n: usize| String::from_utf8(server.requests()[n].body.clone()).unwrap();
    assert!(sent(0).contains("\"stream\":true") && !sent(1).contains("stream"));
}

#[tokio::test]
async fn bad_news_in_place_of_a_stream_is_told_as_it_is() {
    let error = failure(Answer::sse(r#"{"error":{"message":"no GPU","code":503}}"#)).await;
    assert_eq!((error.kind, error.message.as_str()), (ErrorKind::Overloaded, "no GPU"));
    for content_type in ["text/html", "text/event-stream", "application/json"] {
        let error = failure(Answer::new(content_type, "<p>Welcome!</p>")).await;
        assert_eq!(error.kind, ErrorKind::Decode, "asking again changes nothing");
        assert_eq!(error.message, "no answer of a model: Welcome!");
    }
}

#[tokio::test]
async fn the_key_and_the_headers_are_sent_and_never_shown() {
    let server = Server::start(vec![Answer::sse(&hello())]).await;
    let config = Config {
        api_key: Some("sk-secret".into()),
        headers: vec![("X-Team".to_owned(), "blue-secret".to_owned())],
        ..config(&server)
    };
    assert!(!format!("{:?}", config.api_key).contains("sk-secret"));
    let model = Client::new(config, &Transport::default()).unwrap();
    assert!(!format!("{model:?}").contains("secret"));
    outcome(&model).await.unwrap();
    let head = &server.requests()[0].head;
    assert!(head.starts_with("post /v1/chat/completions http/1.1\r\n"), "{head}");
    for line in
        ["authorization: bearer sk-secret", "x-team: blue-secret", "content-type: application/json"]
    {
        assert!(head.contains(line), "{head}");
    }
}

#[tokio::test]
async fn what_cannot_be_sent_is_refused_when_the_client_is_made() {
    let refused = |change: fn(&mut Config)| {
        let mut config = Config::new("http://127.0.0.1:1/v1");
        change(&mut config);
        Client::new(config, &Transport::default()).unwrap_err()
    };
    let errors = [
        refused(|config| config.base_url = "localhost:8080".to_owned()),
        refused(|config| config.api_key = Some("line\nbreak".into())),
        refused(|config| config.headers.push(("no name".to_owned(), String::new()))),
    ];
    for error in errors {
        assert_eq!(error.kind, ErrorKind::InvalidRequest);
        assert!(!error.message.contains("break"));
    }
}

#[tokio::test]
async fn nothing_is_sent_before_the_stream_is_polled() {
    let server = Server::start(vec![Answer::sse(&hello())]).await;
    let model = client(&server);
    drop(model.stream(request()));
    outcome(&model).await.unwrap();
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn all_requests_share_one_connection() {
    let document = r#"{"choices":[{"message":{"content":"a"},"finish_reason":"stop"}]}"#;
    let server = Server::start(vec![
        Answer::sse(&hello()),
        Answer::sse(&hello()).ending(End::Chunked(5)),
        Answer::new("text/event-stream", hello()),
        Answer::json(document),
        Answer::json("{}").status(500),
        Answer::sse(&hello()),
    ])
    .await;
    let transport = Transport::default();
    for _ in 0..8 {
        let model = Client::new(config(&server), &transport).unwrap();
        let mut stream = model.stream(request());
        // A reader may stop at the answer and never poll for the end.
        while let Some(Ok(event)) = stream.next().await {
            if matches!(event, StreamEvent::Done(_)) {
                break;
            }
        }
    }
    assert_eq!((server.requests().len(), server.connections()), (8, 1));
}

#[tokio::test]
async fn a_request_lost_with_a_kept_connection_is_sent_again_on_a_new_one() {
    // As llama-server does it: the connection is said to be kept, and closed right after a stream.
    let hung_up = Answer::sse("").ending(End::Closed);
    let server =
        Server::start(vec![Answer::sse(&hello()), hung_up.clone(), Answer::sse(&hello()), hung_up])
            .await;
    let model = client(&server);
    outcome(&model).await.unwrap();
    outcome(&model).await.unwrap();
    assert_eq!((server.requests().len(), server.connections()), (3, 2));
    // Who hangs up again is not asked a third time.
    assert_eq!(outcome(&model).await.unwrap_err().kind, ErrorKind::Transport);
    assert_eq!(server.requests().len(), 5);
}

#[tokio::test]
async fn a_server_that_hangs_up_on_a_new_connection_is_not_asked_again() {
    let server = Server::start(vec![Answer::sse("").ending(End::Closed)]).await;
    assert_eq!(outcome(&client(&server)).await.unwrap_err().kind, ErrorKind::Transport);
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn dropping_the_stream_ends_the_request() {
    let server = Server::start(vec![Answer::sse(TEXT).ending(End::Never)]).await;
    let model = client(&server);
    let mut stream = model.stream(request());
    assert!(matches!(stream.next().await, Some(Ok(StreamEvent::TextDelta(_)))));
    drop(stream);
    server.closed().await;
}

#[tokio::test]
async fn statuses_become_kinds() {
    for (status, kind) in [
        (400, ErrorKind::InvalidRequest),
        (401, ErrorKind::Auth),
        (402, ErrorKind::Quota),
        (404, ErrorKind::NotFound),
        (429, ErrorKind::RateLimited),
        (500, ErrorKind::Overloaded),
        (529, ErrorKind::Overloaded),
    ] {
        let answer = Answer::json(r#"{"error":{"message":"no","type":"t"}}"#).status(status);
        let error = failure(answer.header("retry-after", "7")).await;
        assert_eq!((error.kind, error.status), (kind, Some(status)));
        assert_eq!((error.code.as_deref(), &*error.message), (Some("t"), "no"));
        assert_eq!(error.retry_after, Some(Duration::from_secs(7)));
    }
}

#[tokio::test]
async fn an_overflow_is_its_own_kind() {
    let body = r#"{"error":{"message":"the prompt is too long","code":"context_length_exceeded"}}"#;
    let error = failure(Answer::json(body).status(400)).await;
    assert_eq!(error.kind, ErrorKind::ContextOverflow);
    assert_eq!(
        error.to_string(),
        "request exceeds the context window (400): the prompt is too long"
    );
}

#[tokio::test]
async fn a_huge_error_page_is_read_in_part() {
    let page = format!("<html><b>Bad   gateway</b>{}", "x".repeat(4 << 20));
    let error = failure(Answer::new("text/html", page).status(502)).await;
    assert_eq!(error.kind, ErrorKind::Overloaded);
    assert!(error.message.starts_with("Bad gateway xxx"), "{}", error.message);
    assert!(error.message.len() < 400);
}

#[tokio::test]
async fn an_error_page_that_breaks_off_still_counts() {
    let error = failure(Answer::json("").status(401).ending(End::Cut)).await;
    assert_eq!((error.kind, error.status), (ErrorKind::Auth, Some(401)));
    assert_eq!(error.message, "Unauthorized");
}

#[tokio::test]
async fn a_redirect_to_another_host_is_not_followed() {
    let thief = Server::start(vec![Answer::sse(&hello())]).await;
    let moved = Answer::json("").status(307).header("location", &thief.url());
    let error = failure(moved).await;
    assert_eq!(error.kind, ErrorKind::NotFound);
    assert!(error.message.contains(&thief.url()), "{error}");
    assert!(thief.requests().is_empty());
}

#[tokio::test]
async fn a_redirect_on_the_same_host_is_followed() {
    let moved = Answer::json("").status(307).header("location", "/v2/chat");
    let server = Server::start(vec![moved, Answer::sse(&hello())]).await;
    outcome(&client(&server)).await.unwrap();
    assert!(server.requests()[1].head.starts_with("post /v2/chat http"));
    assert_eq!(server.requests()[0].body, server.requests()[1].body);
}

#[tokio::test]
async fn a_cut_stream_is_no_answer() {
    for end in [End::Cut, End::Chunked(20)] {
        let error = failure(Answer::sse(TEXT).ending(end)).await;
        assert_eq!(error.kind, ErrorKind::Incomplete, "{error}");
    }
    let error = failure(Answer::sse(&[TEXT, DONE].concat())).await;
    assert_eq!(error.kind, ErrorKind::Incomplete, "the end marker alone is no reason");
    let error = failure(Answer::json("{\"choices\":[").ending(End::Cut)).await;
    assert_eq!(error.kind, ErrorKind::Incomplete);
}

#[tokio::test]
async fn a_reply_that_was_finished_stands_whatever_follows() {
    for end in [End::Cut, End::Chunked(20)] {
        let server = Server::start(vec![Answer::sse(&[TEXT, STOP].concat()).ending(end)]).await;
        let response = outcome(&client(&server)).await.unwrap();
        assert_eq!((response.message.to_text().as_str(), response.usage), ("Hello", None));
    }
}

#[tokio::test(start_paused = true)]
async fn a_finished_reply_does_not_wait_for_ever() {
    for body in [[TEXT, STOP].concat(), hello()] {
        let server = Server::start(vec![Answer::sse(&body).ending(End::Never)]).await;
        let start = tokio::time::Instant::now();
        outcome(&client(&server)).await.unwrap();
        assert!(start.elapsed() < Duration::from_secs(6));
    }
}

#[tokio::test(start_paused = true)]
async fn silence_is_a_timeout() {
    for end in [End::Mute, End::Never] {
        let server = Server::start(vec![Answer::sse(TEXT).ending(end)]).await;
        let config = Config { idle_timeout: Duration::from_secs(90), ..config(&server) };
        let model = Client::new(config, &Transport::default()).unwrap();
        let start = tokio::time::Instant::now();
        let error = outcome(&model).await.unwrap_err();
        assert_eq!((error.kind, &*error.message), (ErrorKind::Timeout, "nothing came for 90s"));
        assert_eq!(start.elapsed().as_secs(), 90);
    }
}

#[tokio::test]
async fn an_error_in_the_stream_is_an_error() {
    let body = [TEXT, "data: {\"error\":{\"code\":503,\"message\":\"gone\"}}\n\n"].concat();
    let error = failure(Answer::sse(&body)).await;
    assert_eq!((error.kind, error.status), (ErrorKind::Overloaded, Some(503)));
}

#[tokio::test]
async fn a_refused_connection_is_a_transport_error() {
    // Nobody listens there: the port is for those with more rights.
    let config = Config::new("http://127.0.0.1:1/v1");
    let model = Client::new(config, &Transport::default()).unwrap();
    let error = outcome(&model).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Transport);
    assert!(error.message.contains("refused"), "{error}");
}

#[tokio::test]
async fn loopback_never_goes_through_a_proxy() {
    let proxy = Server::start(vec![Answer::json("{}").status(500)]).await;
    let proxy_url = proxy.url();
    let transport = Transport::new(http::Config {
        proxy: Proxy { http: Some(proxy_url.as_str().into()), ..Proxy::default() },
        ..http::Config::default()
    })
    .unwrap();
    let server = Server::start(vec![Answer::sse(&hello())]).await;
    let local = Client::new(config(&server), &transport).unwrap();
    outcome(&local).await.unwrap();
    assert!(proxy.requests().is_empty());

    let remote = Config { base_url: "http://model.test/v1".to_owned(), ..config(&server) };
    outcome(&Client::new(remote, &transport).unwrap()).await.unwrap_err();
    assert!(proxy.requests()[0].head.starts_with("post http://model.test/v1/chat/completions"));
}
