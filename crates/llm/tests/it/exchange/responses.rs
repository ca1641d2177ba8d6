//! OpenAI's Responses.

use bowline_llm::http::Transport;
use bowline_llm::responses::{Client, Config};
use bowline_llm::{ErrorKind, StopReason, StreamEvent};
use pretty_assertions::assert_eq;

use super::{events, outcome};
use crate::loopback::{Answer, End, Server};

// Synthetic: the shapes are those of the vendor's documentation.
const START: &str = concat!(
    "event: response.created\n",
    "data: {\"type\":\"response.created\",\"response\":{\"id\":\"r\",\"model\":\"m-1\"}}\n\n",
    "event: response.output_text.delta\n",
    "data: {\"type\":\"response.output_text.delta\",\"output_index\":0,\"delta\":\"Hello\"}\n\n",
);
const END: &str = concat!(
    "event: response.completed\n",
    "data: {\"type\":\"response.completed\",\"response\":{\"status\":\"completed\",",
    "\"output\":[{\"type\":\"message\",\"content\":[{\"type\":\"output_text\",\"text\":\"Hello\"}]}],",
    "\"usage\":{\"input_tokens\":3,\"output_tokens\":2}}}\n\n",
);
const FAILURE: &str = concat!(
    "event: response.failed\n",
    "data: {\"type\":\"response.failed\",\"response\":{\"status\":\"failed\",",
    "\"error\":{\"code\":\"server_error\",\"message\":\"sorry\"},",
    "\"usage\":{\"input_tokens\":3,\"output_tokens\":1}}}\n\n",
);

fn client(server: &Server) -> Client {
    let config = Config { api_key: Some("sk-secret".into()), ..Config::new(server.url()) };
    Client::new(config, &Transport::default()).unwrap()
}

#[tokio::test]
async fn the_request_goes_below_the_address_with_the_key() {
    let server = Server::start(vec![Answer::sse(&[START, END].concat())]).await;
    let model = client(&server);
    assert!(!format!("{model:?}").contains("secret"));
    let response = outcome(&model).await.unwrap();
    assert_eq!((response.message.to_text(), response.stop), ("Hello".into(), StopReason::EndTurn));
    assert_eq!(response.model.as_deref(), Some("m-1"));
    let head = &server.requests()[0].head;
    assert!(head.starts_with("post /v1/responses http/1.1"), "{head}");
    assert!(head.contains("authorization: bearer sk-secret"), "{head}");
}

#[tokio::test]
async fn a_stream_that_ends_early_is_no_answer() {
    for (body, end) in [(START.to_owned(), End::Whole), ([START, END].concat(), End::Cut)] {
        let body = body.trim_end_matches('\n').to_owned();
        let server = Server::start(vec![Answer::sse(&body).ending(end)]).await;
        assert_eq!(outcome(&client(&server)).await.unwrap_err().kind, ErrorKind::Incomplete);
    }
}

#[tokio::test]
async fn a_line_that_stays_open_does_not_hold_back_the_answer() {
    let answer = Answer::sse(&[START, END].concat()).ending(End::Never);
    let server = Server::start(vec![answer]).await;
    assert_eq!(outcome(&client(&server)).await.unwrap().message.to_text(), "Hello");
}

#[tokio::test]
async fn a_failure_in_the_stream_voids_what_came_and_is_paid_for() {
    let server = Server::start(vec![Answer::sse(&[START, FAILURE].concat())]).await;
    let mut events = events(&client(&server)).await;
    let error = events.pop().unwrap().unwrap_err();
    assert_eq!((error.kind, &*error.message), (ErrorKind::Overloaded, "sorry"));
    assert_eq!(error.usage.total(), 4);
    let is_delta = |event: &_| matches!(event, Ok(StreamEvent::TextDelta(_)));
    assert!(events.iter().all(is_delta));
}
