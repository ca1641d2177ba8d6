//! What a hundred answers cost that come at the same time: processor time and memory.
//!
//! `cargo bench -p bowline-llm --bench streams`
#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a measurement, not a program")]

use std::net::SocketAddr;
use std::time::{Duration, Instant};
use std::{fs, thread};

use bowline_llm::chat::{Client, Config};
use bowline_llm::http::Transport;
use bowline_llm::{Message, Model, Request, StreamEvent};
use futures::StreamExt;
use futures::future::join_all;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

const STREAMS: usize = 100;

/// How many pieces an answer has.
const PIECES: usize = 500;

/// What comes in each piece: eight tokens or so.
const EVENT: &str = "data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1,\
    \"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"eight tokens of an answer, or \
    so\"},\"finish_reason\":null}]}\n\n";
const END: &str =
    "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for (name, pause) in [
        ("100 pieces a second each", Some(Duration::from_millis(10))),
        ("as fast as they come", None),
    ] {
        let address = serve(pause);
        let model = client(address);
        runtime.block_on(listen(&model, 1));
        let (memory, cpu, clock) = (resident(), cpu_time(), Instant::now());
        let peak = runtime.block_on(listen(&model, STREAMS));
        let (cpu, clock) = (cpu_time() - cpu, clock.elapsed());
        let bytes = STREAMS * PIECES * EVENT.len();
        println!(
            "{STREAMS} streams, {name}: {cpu:?} of processor in {clock:?} ({:.1} % of one), \
             {:.1} µs an event, {:.0} MB/s of processor time, {} kB of memory a stream",
            100.0 * cpu.as_secs_f64() / clock.as_secs_f64(),
            cpu.as_secs_f64() * 1e6 / (STREAMS * PIECES) as f64,
            bytes as f64 / cpu.as_secs_f64() / 1e6,
            peak.saturating_sub(memory) / STREAMS,
        );
    }
}

fn client(address: SocketAddr) -> Client {
    let mut config = Config::new(format!("http://{address}/v1"));
    config.info.model = "m".to_owned();
    Client::new(config, &Transport::default()).unwrap()
}

/// Listens to so many answers at once; returns how much memory the process had half way.
async fn listen(model: &Client, streams: usize) -> usize {
    let answers = join_all((0..streams).map(async |place| {
        let request = Request {
            messages: [Message::user("Go on.").into()].into_iter().collect(),
            ..Request::default()
        };
        let (mut stream, mut pieces, mut peak) = (model.stream(request), 0, 0);
        while let Some(event) = stream.next().await {
            match event.unwrap() {
                StreamEvent::TextDelta(_) => pieces += 1,
                StreamEvent::Done(_) => assert_eq!(pieces, PIECES),
                StreamEvent::Waiting { .. }
                | StreamEvent::Restarted { .. }
                | StreamEvent::ReasoningDelta(_)
                | StreamEvent::ToolCallDelta { .. } => unreachable!("the server sends text only"),
            }
            if place == 0 && pieces % 50 == 0 {
                peak = peak.max(resident());
            }
        }
        peak
    }));
    answers.await.into_iter().max().unwrap()
}

/// Returns how many kB of memory the process has, the server's side included.
fn resident() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

/// Returns how long this thread has run on a processor: all of the client does.
fn cpu_time() -> Duration {
    let stat = fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(stat.split(' ').next().unwrap().parse().unwrap())
}

/// Starts a server in its own thread; it ends with the process.
fn serve(pause: Option<Duration>) -> SocketAddr {
    let (tell, told) = oneshot::channel();
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            tell.send(listener.local_addr().unwrap()).unwrap();
            loop {
                let (connection, _) = listener.accept().await.unwrap();
                tokio::spawn(answer(connection, pause));
            }
        });
    });
    told.blocking_recv().unwrap()
}

async fn answer(mut connection: TcpStream, pause: Option<Duration>) {
    connection.set_nodelay(true).unwrap();
    let mut request = [0; 16 << 10];
    // A request is short enough to come at once.
    while connection.read(&mut request).await.is_ok_and(|n| n > 0) {
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {}\r\n\r\n",
            PIECES * EVENT.len() + END.len()
        );
        connection.write_all(head.as_bytes()).await.unwrap();
        for _ in 0..PIECES {
            connection.write_all(EVENT.as_bytes()).await.unwrap();
            if let Some(pause) = pause {
                tokio::time::sleep(pause).await;
            }
        }
        connection.write_all(END.as_bytes()).await.unwrap();
    }
}
