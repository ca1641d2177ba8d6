//! Anthropic's Messages.

use bowline_llm::ErrorKind;
use bowline_llm::anthropic::{Client, Config};
use bowline_llm::http::Transport;
use pretty_assertions::assert_eq;

use super::outcome;
use crate::loopback::{Answer, End, Server};

const TEXT: &str = concat!(
    "event: message_start\n",
    "data: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"usage\":{\"input_tokens\":3}}}\n\n",
    "data: {\"type\":\"content_block_start\",\"index\":0,",
    "\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n",
    "data: {\"type\":\"content_block_delta\",\"index\":0,",
    "\"delta\":{\"type\":\"text_delta\",\"text\":\"Hello\"}}\n\n",
    "data: {\"type\":\"content_block_stop\",\"index\":0}\n\n",
);
const STOP: &str = concat!(
    "data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},",
    "\"usage\":{\"output_tokens\":2}}\n\n",
);
const END: &str = "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n";

fn client(base_url: &str) -> Client {
    let config =
        Config { api_key: Some("sk-secret".into()), ..Config::new(base_url, "claude-sonnet-4-6") };
    Client::new(config, &Transport::default()).unwrap()
}

#[tokio::test]
async fn the_path_and_the_headers_are_what_the_wire_demands() {
    let server = Server::start(vec![Answer::sse(&[TEXT, STOP, END].concat())]).await;
    let versioned = server.url();
    let bare = versioned.trim_end_matches("/v1");
    for base_url in [bare, &format!("{bare}/"), &versioned, &format!("{versioned}/")] {
        let model = client(base_url);
        assert!(!format!("{model:?}").contains("secret"));
        let response = outcome(&model).await.unwrap();
        assert_eq!(response.message.to_text(), "Hello");
        assert_eq!(response.usage.unwrap().total(), 5);
    }
    for request in server.requests() {
        assert!(!request.head.contains("anthropic-beta"), "{}", request.head);
        assert!(request.head.starts_with("post /v1/messages http/1.1\r\n"), "{}", request.head);
        for line in ["x-api-key: sk-secret", "anthropic-version: 2023-06-01"] {
            assert!(request.head.contains(line), "{}", request.head);
        }
    }
}

#[tokio::test]
async fn a_model_that_binds_its_thinking_is_told_so_beside_what_else_is_asked_for() {
    let server = Server::start(vec![Answer::sse(&[TEXT, STOP, END].concat())]).await;
    let mut config = Config::new(server.url(), "claude-opus-5-5");
    for headers in [Vec::new(), vec![("Anthropic-Beta".to_owned(), "other-2026".to_owned())]] {
        config.headers = headers;
        outcome(&Client::new(config.clone(), &Transport::default()).unwrap()).await.unwrap();
    }
    let requests = server.requests();
    let asked = |n: usize| {
        let line = requests[n].head.lines().find_map(|line| line.strip_prefix("anthropic-beta: "));
        line.unwrap().to_owned()
    };
    assert_eq!(asked(0), "thinking-binding-controls-2026-08-01");
    assert_eq!(asked(1), "other-2026,thinking-binding-controls-2026-08-01");
}

#[tokio::test]
async fn a_stream_without_its_end_is_no_answer_and_tells_what_was_billed() {
    for end in [End::Cut, End::Chunked(20)] {
        let server = Server::start(vec![Answer::sse(&[TEXT, STOP].concat()).ending(end)]).await;
        let error = outcome(&client(&server.url())).await.unwrap_err();
        assert_eq!((error.kind, error.usage.total()), (ErrorKind::Incomplete, 5), "{error}");
    }
}

// Synthetic: the shapes are the vendor's documentation's, no recording has them.
#[tokio::test]
async fn an_overloaded_server_is_one_before_and_within_an_answer() {
    let error = r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#;
    let event = format!("event: error\ndata: {error}\n\n");
    let answers = [Answer::json(error).status(529), Answer::sse(&[TEXT, &event].concat())];
    for answer in answers {
        let server = Server::start(vec![answer]).await;
        let error = outcome(&client(&server.url())).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Overloaded);
        assert_eq!(error.code.as_deref(), Some("overloaded_error"));
    }
}
