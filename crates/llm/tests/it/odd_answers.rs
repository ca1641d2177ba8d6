//! Answers that no model gives: of proxies, gateways, wrong addresses and servers that misbehave.

use std::time::Duration;

use bowline_llm::chat::{Client, Config};
use bowline_llm::http::Transport;
use bowline_llm::{ErrorKind, ModelError, Response};
use pretty_assertions::assert_eq;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::time::Instant;

use crate::exchange::outcome;
use crate::loopback::{Answer, End, Server};

const DOCUMENT: &str = r#"{"choices":[{"message":{"content":"Hello"},"finish_reason":"stop"}]}"#;
const KEY: &str = "sk-a-long-key-of-mine";

fn client(base_url: &str) -> Client {
    let config = Config { api_key: Some(KEY.into()), ..Config::new(base_url) };
    Client::new(config, &Transport::default()).unwrap()
}

async fn ask(answer: Answer) -> Result<Response, ModelError> {
    let server = Server::start(vec![answer]).await;
    outcome(&client(&server.url())).await
}

async fn failure(answer: Answer) -> ModelError {
    ask(answer).await.unwrap_err()
}

#[tokio::test]
async fn a_page_in_place_of_an_answer_is_not_asked_for_again() {
    let page = "<html><title>Sign in</title></html>";
    let error = failure(Answer::new("text/html; charset=utf-8", page)).await;
    assert_eq!(error.kind, ErrorKind::Decode);
    assert_eq!(error.message, "no answer of a model: Sign in");
}

#[tokio::test]
async fn a_document_that_does_not_say_what_it_is_is_taken_for_one() {
    for kind in ["text/plain", "", "application/octet-stream"] {
        let response = ask(Answer::new(kind, format!("\n {DOCUMENT}"))).await.unwrap();
        assert_eq!(response.message.to_text(), "Hello", "{kind}");
        let refused = r#"{"error":{"message":"no","type":"invalid_request_error"}}"#;
        let error = failure(Answer::new(kind, refused)).await;
        assert_eq!((error.kind, &*error.message), (ErrorKind::InvalidRequest, "no"), "{kind}");
    }
}

#[tokio::test]
async fn an_error_with_the_status_of_a_success_is_an_error() {
    for (body, kind) in [
        (r#"{"error":{"message":"no","code":"insufficient_quota"}}"#, ErrorKind::Quota),
        (r#"{"error":{"message":"no","code":429}}"#, ErrorKind::RateLimited),
        (r#"{"error":"the input length exceeds the context length"}"#, ErrorKind::ContextOverflow),
    ] {
        for answer in [Answer::json(body), Answer::sse(&format!("data: {body}\n\n"))] {
            assert_eq!(failure(answer).await.kind, kind, "{body}");
        }
    }
}

#[tokio::test]
async fn what_is_compressed_is_neither_asked_for_nor_guessed_at() {
    let packed = |answer: Answer| answer.header("content-encoding", "gzip");
    let error = failure(packed(Answer::sse("\u{1f}packed"))).await;
    assert_eq!(error.kind, ErrorKind::Decode);
    assert!(error.message.contains("gzip"), "{error}");
    let error = failure(packed(Answer::json("\u{1f}packed").status(503))).await;
    assert_eq!((error.kind, &*error.message), (ErrorKind::Overloaded, "Service Unavailable"));

    let server = Server::start(vec![Answer::json(DOCUMENT)]).await;
    outcome(&client(&server.url())).await.unwrap();
    let head = server.requests()[0].head.clone();
    assert!(head.contains("accept-encoding: identity"), "{head}");
}

#[tokio::test(start_paused = true)]
async fn an_error_page_without_end_is_not_waited_for() {
    let server = Server::start(vec![Answer::json("{}").status(503).ending(End::Never)]).await;
    let start = Instant::now();
    let error = outcome(&client(&server.url())).await.unwrap_err();
    assert_eq!((error.kind, error.status), (ErrorKind::Overloaded, Some(503)));
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
}

#[tokio::test]
async fn a_server_that_repeats_the_key_does_not_give_it_away() {
    let body = format!(r#"{{"error":{{"message":"Incorrect API key provided: {KEY}"}}}}"#);
    let error = failure(Answer::json(&body).status(401)).await;
    assert_eq!(error.message, "Incorrect API key provided: [secret]");
    let moved = format!("http://other.test/v1?key={KEY}");
    let error = failure(Answer::json("").status(302).header("location", &moved)).await;
    assert!(error.message.contains("http://other.test/v1"), "{error}");
    assert!(!error.message.contains("key"), "{error}");
}

#[tokio::test]
async fn a_connection_that_was_closed_between_turns_is_made_anew_without_a_word() {
    let server = Server::start(vec![Answer::json(DOCUMENT).ending(End::Last)]).await;
    let model = client(&server.url());
    for turn in 1..=10 {
        outcome(&model).await.unwrap();
        assert_eq!((server.requests().len(), server.connections()), (turn, turn));
    }
}

#[tokio::test]
async fn a_server_without_tls_at_an_https_address_is_not_asked_again() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serve = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        assert!(stream.read(&mut [0; 64]).await.unwrap() > 0);
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
        stream
    };
    let base_url = format!("https://{address}/v1");
    let model = client(&base_url);
    let (error, _stream) = tokio::join!(outcome(&model), serve);
    assert_eq!(error.unwrap_err().kind, ErrorKind::InvalidRequest);
}
