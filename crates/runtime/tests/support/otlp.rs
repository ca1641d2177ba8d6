//! A receiver of OTLP over HTTP on loopback, for the tests of what is told to one.
#![allow(dead_code, unreachable_pub, reason = "every test file uses a part of this")]
#![allow(clippy::unwrap_used, reason = "a failure here is a failure of the test")]

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc;

use serde_json::Value;

/// That everything was taken.
pub const TAKEN: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}";

/// What a receiver was sent: the path, the headers in lower case, the body.
#[derive(Debug)]
pub struct Received {
    pub path: String,
    pub head: String,
    pub body: Vec<u8>,
}

impl Received {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

/// Listens on loopback and answers every request alike; what it is sent comes out of the channel.
pub fn receiver(answer: &'static str) -> (SocketAddr, mpsc::Receiver<Received>) {
    receiver_of(answer, answer)
}

/// As [`receiver`], with an answer of its own to the first request of a connection.
pub fn receiver_of(
    first: &'static str,
    then: &'static str,
) -> (SocketAddr, mpsc::Receiver<Received>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (tx, rx) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let tx = tx.clone();
            // A client that is gone has got what it wanted.
            std::thread::spawn(move || serve(stream.unwrap(), [first, then], &tx));
        }
    });
    (address, rx)
}

fn serve(
    mut stream: TcpStream,
    [first, then]: [&str; 2],
    tx: &mpsc::Sender<Received>,
) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut answers = std::iter::once(first).chain(std::iter::repeat(then));
    loop {
        let (mut head, mut line) = (String::new(), String::new());
        while line != "\r\n" {
            line.clear();
            if reader.read_line(&mut line)? == 0 {
                return Ok(());
            }
            head.push_str(&line.to_ascii_lowercase());
        }
        let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
        let mut body = vec![0; length.unwrap().trim().parse().unwrap()];
        reader.read_exact(&mut body)?;
        let path = head.split(' ').nth(1).unwrap().to_owned();
        let _ = tx.send(Received { path, head, body });
        stream.write_all(answers.next().unwrap().as_bytes())?;
    }
}

/// Returns the spans of all messages that have come, with their attributes by name.
pub fn spans(received: &[Received]) -> Vec<(Value, HashMap<String, Value>)> {
    let messages = received.iter().filter(|it| it.path == "/v1/traces").map(Received::json);
    let spans: Vec<Value> = messages
        .flat_map(|it| it["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap().clone())
        .collect();
    spans.into_iter().map(|span| (span.clone(), attributes(&span))).collect()
}

pub fn attributes(of: &Value) -> HashMap<String, Value> {
    let all = of["attributes"].as_array().unwrap().iter();
    let plain = |value: &Value| value.as_object().unwrap().values().next().unwrap().clone();
    all.map(|it| (it["key"].as_str().unwrap().to_owned(), plain(&it["value"]))).collect()
}
