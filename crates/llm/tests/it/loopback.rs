//! A small HTTP server on loopback that answers from a script.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// A running server. It ends when it is dropped.
pub(crate) struct Server {
    address: SocketAddr,
    seen: Arc<Mutex<Seen>>,
    closed: watch::Receiver<usize>,
    _tasks: JoinSet<()>,
}

#[derive(Default)]
struct Seen {
    connections: usize,
    requests: Vec<Received>,
}

/// What a client sent.
#[derive(Debug, Clone)]
pub(crate) struct Received {
    /// The request line and the headers, in lower case.
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

/// What the server answers.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    pub(crate) end: End,
}

/// How an answer ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// With all the bytes that were announced.
    Whole,
    /// With all the bytes, and then with the connection closed, of which nothing was said before.
    Last,
    /// With the body properly closed, sent in chunks of this size.
    Chunked(usize),
    /// With the connection closed before the announced end.
    Cut,
    /// Not at all: the connection stays open.
    Never,
    /// Without even a first byte.
    Mute,
    /// With the connection closed before the first byte.
    Closed,
    /// With a reset of the connection before the announced end.
    Reset,
}

impl Answer {
    pub(crate) fn new(content_type: &str, body: impl Into<Vec<u8>>) -> Self {
        let headers = vec![("content-type".to_owned(), content_type.to_owned())];
        Self { status: 200, headers, body: body.into(), end: End::Whole }
    }

    pub(crate) fn json(body: &str) -> Self {
        Self::new("application/json", body)
    }

    pub(crate) fn sse(body: &str) -> Self {
        Self { end: End::Chunked(usize::MAX), ..Self::new("text/event-stream", body) }
    }

    pub(crate) fn status(self, status: u16) -> Self {
        Self { status, ..self }
    }

    pub(crate) fn ending(self, end: End) -> Self {
        Self { end, ..self }
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }
}

impl Server {
    /// Starts a server that gives the n-th request the n-th answer, and the last one again after
    /// that.
    pub(crate) async fn start(answers: Vec<Answer>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Mutex::new(Seen::default()));
        let (closed_tx, closed) = watch::channel(0);
        let mut tasks = JoinSet::new();
        let state = Arc::clone(&seen);
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                stream.set_nodelay(true).unwrap();
                state.lock().unwrap().connections += 1;
                let (state, answers) = (Arc::clone(&state), answers.clone());
                let closed = closed_tx.clone();
                connections.spawn(async move {
                    serve(stream, &state, &answers).await;
                    closed.send_modify(|n| *n += 1);
                });
            }
        });
        Self { address, seen, closed, _tasks: tasks }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    pub(crate) fn connections(&self) -> usize {
        self.seen.lock().unwrap().connections
    }

    pub(crate) fn requests(&self) -> Vec<Received> {
        self.seen.lock().unwrap().requests.clone()
    }

    /// Waits until a client has closed a connection.
    pub(crate) async fn closed(&self) {
        self.closed.clone().wait_for(|n| *n > 0).await.unwrap();
    }
}

/// Serves one connection until its end.
async fn serve(mut stream: TcpStream, seen: &Mutex<Seen>, answers: &[Answer]) {
    let mut buffer = Vec::new();
    while let Some(received) = read_request(&mut stream, &mut buffer).await {
        let n = {
            let mut seen = seen.lock().unwrap();
            seen.requests.push(received);
            seen.requests.len() - 1
        };
        let answer = &answers[n.min(answers.len() - 1)];
        if write_answer(&mut stream, answer).await.is_err()
            || matches!(answer.end, End::Last | End::Cut | End::Closed)
        {
            return;
        }
        if answer.end == End::Reset {
            // What was sent must not be lost with the connection.
            tokio::task::yield_now().await;
            stream.set_zero_linger().unwrap();
            return;
        }
        if matches!(answer.end, End::Never | End::Mute) {
            // Reading ends when the client goes away.
            while stream.read(&mut [0; 64]).await.is_ok_and(|n| n > 0) {}
            return;
        }
    }
}

async fn write_answer(stream: &mut TcpStream, answer: &Answer) -> std::io::Result<()> {
    if matches!(answer.end, End::Mute | End::Closed) {
        return Ok(());
    }
    let mut head = format!("HTTP/1.1 {} Said\r\n", answer.status);
    for (name, value) in &answer.headers {
        head += &format!("{name}: {value}\r\n");
    }
    let length = answer.body.len();
    head += &match answer.end {
        End::Whole | End::Last => format!("content-length: {length}\r\n\r\n"),
        End::Cut | End::Never | End::Reset => format!("content-length: {}\r\n\r\n", length + 1),
        End::Chunked(_) | End::Mute | End::Closed => {
            "transfer-encoding: chunked\r\n\r\n".to_owned()
        }
    };
    stream.write_all(head.as_bytes()).await?;
    let End::Chunked(size) = answer.end else {
        stream.write_all(&answer.body).await?;
        return stream.flush().await;
    };
    for piece in answer.body.chunks(size) {
        stream.write_all(format!("{:x}\r\n", piece.len()).as_bytes()).await?;
        stream.write_all(piece).await?;
        stream.write_all(b"\r\n").await?;
    }
    stream.write_all(b"0\r\n\r\n").await?;
    stream.flush().await
}

async fn read_request(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<Received> {
    let end = loop {
        if let Some(end) = buffer.windows(4).position(|window| window == b"\r\n\r\n") {
            break end + 4;
        }
        if stream.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8_lossy(&buffer[..end]).to_lowercase();
    let length: usize = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length:"))
        .map_or(0, |length| length.trim().parse().unwrap());
    while buffer.len() < end + length {
        if stream.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    }
    let body = buffer[end..end + length].to_vec();
    buffer.drain(..end + length);
    Some(Received { head, body })
}
