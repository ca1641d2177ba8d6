//! What a turn costs in this crate: processor time over a socket, assembly, decoding.
//!
//! `cargo bench -p bowline-llm --bench turns`
#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a measurement, not a program")]

use std::fs;
use std::hint::black_box;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use bowline_llm::chat::{Client, Config};
use bowline_llm::http::Transport;
use bowline_llm::wire::{Codec, Decode as _};
use bowline_llm::{
    AssistantMessage, AssistantPart, Message, MessageRef, Model, ModelInfo, Part, Request,
    StreamEvent, ToolBlock, ToolCall, ToolResult, anthropic, chat, gemini, responses, sse,
};
use futures::StreamExt;

const TURNS: usize = 100;

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for (name, stream) in [("streamed", true), ("document", false)] {
        let address = serve(stream);
        let mut config = Config::new(format!("http://{address}/v1"));
        config.info.model = "m".to_owned();
        config.stream = stream;
        let model = Client::new(config, &Transport::default()).unwrap();
        // The first request builds the client and connects.
        runtime.block_on(turns(&model, 1));
        let (cpu, clock) = (cpu_time(), Instant::now());
        runtime.block_on(turns(&model, TURNS));
        let per_turn = |time: Duration| time / u32::try_from(TURNS).unwrap();
        println!(
            "{name}: {:?} of processor and {:?} of time for each of {TURNS} turns",
            per_turn(cpu_time() - cpu),
            per_turn(clock.elapsed())
        );
    }
    let info = ModelInfo::default();
    let chat = chat::Codec::new(&info, chat::Dialect::of(""), true);
    let anthropic = anthropic::Codec::new(&info, anthropic::Dialect::of(""), true);
    let responses = responses::Codec::new(&info, responses::Dialect::of(""), true);
    let gemini = gemini::Codec::new(&info, gemini::Dialect::of(""), true);
    assembly("chat", &chat);
    assembly("anthropic", &anthropic);
    assembly("responses", &responses);
    assembly("gemini", &gemini);
    decoding("chat/chat-sse-cache-33", &chat);
    decoding("anthropic/anthropic-sse-think-17", &anthropic);
    decoding("responses/responses-sse-cache-55", &responses);
    decoding("gemini/gemini-sse-parallel-44", &gemini);
}

fn assembly(name: &str, codec: &impl Codec) {
    for messages in [10, 100, 1_000] {
        let request = history(messages);
        let body = codec.body(&request);
        let start = Instant::now();
        for _ in 0..200 {
            black_box(codec.body(black_box(&request)));
        }
        let assembly = start.elapsed() / 200;
        let start = Instant::now();
        for _ in 0..200 {
            black_box(black_box(&body).clone());
        }
        let copy = start.elapsed() / 200;
        println!(
            "{name}, {messages} messages, {} bytes: {assembly:?}, a copy {copy:?}",
            body.len()
        );
    }
}

/// Runs a loop of tool calls, as an agent does.
async fn turns(model: &Client, turns: usize) {
    let mut request = history(1);
    for _ in 0..turns {
        let mut stream = model.stream(request.clone());
        while let Some(event) = stream.next().await {
            if let StreamEvent::Done(response) = event.unwrap() {
                let results = results(&response.message);
                let message = Message::Assistant(response.message.into());
                request.messages.push_back_mut(message.into());
                request.messages.push_back_mut(results.into());
            }
        }
    }
    assert_eq!(request.messages.len(), 1 + 2 * turns);
}

fn results(message: &AssistantMessage) -> Message {
    let result = |call: &ToolCall| ToolResult {
        call: call.id.clone(),
        name: call.name.clone(),
        content: [Part::Text("ok, this is what the file says\n".repeat(20))].into(),
        is_error: false,
    };
    Message::Results(message.tool_calls().map(result).collect())
}

fn history(messages: usize) -> Request {
    let message = |n: usize| -> MessageRef {
        if n.is_multiple_of(2) {
            return Message::user("Look at this \"file\" and say what you see.\n".repeat(20))
                .into();
        }
        let call = ToolCall {
            id: format!("call_{n}").into(),
            name: "read".to_owned(),
            arguments: r#"{"path":"src/lib.rs"}"#.to_owned(),
        };
        let content = vec![AssistantPart::ToolCall(call)];
        Message::Assistant(AssistantMessage { content }.into()).into()
    };
    Request {
        system: "You are careful.".into(),
        tools: ToolBlock::default(),
        messages: (0..messages).map(message).collect(),
        ..Request::default()
    }
}

fn decoding(name: &str, codec: &impl Codec) {
    let path = format!("{}/fixtures/{name}.json", env!("CARGO_MANIFEST_DIR"));
    let case: serde_json::Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    let body = case["response"]["body"].as_str().unwrap().as_bytes();
    let rounds = 2_000;
    let start = Instant::now();
    for salt in 0..rounds {
        let mut lines = sse::Decoder::default();
        let mut decoder = codec.decoder(salt);
        for piece in body.chunks(4096) {
            lines.push(piece);
            while let Some(event) = lines.next_event().unwrap() {
                decoder.push(&event, &mut |event| drop(black_box(event))).unwrap();
            }
        }
        black_box(decoder.finish().unwrap());
    }
    let bytes = body.len() as f64 * rounds as f64;
    println!("decoding {name}: {:.0} MB/s", bytes / start.elapsed().as_secs_f64() / 1e6);
}

/// Returns how long this thread has run on a processor.
fn cpu_time() -> Duration {
    let stat = fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(stat.split(' ').next().unwrap().parse().unwrap())
}

/// Starts a server in its own thread; it ends with the process.
fn serve(stream: bool) -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for connection in listener.incoming() {
            answer(connection.unwrap(), stream);
        }
    });
    address
}

fn answer(mut connection: TcpStream, stream: bool) {
    connection.set_nodelay(true).unwrap();
    let call = |id: usize| {
        format!(
            r#""tool_calls":[{{"index":0,"id":"c{id}","type":"function","function":{{"name":"read","arguments":"{{\"path\":\"a\"}}"}}}}]"#
        )
    };
    let mut reader = BufReader::new(connection.try_clone().unwrap());
    for id in 0.. {
        let mut length = 0;
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            if line == "\r\n" {
                break;
            }
        }
        reader.read_exact(&mut vec![0; length]).unwrap();
        let usage = r#""usage":{"prompt_tokens":10,"completion_tokens":5}"#;
        let (kind, body) = if stream {
            let delta = format!("data: {{\"choices\":[{{\"delta\":{{{}}}}}]}}\n\n", call(id));
            let end = "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"tool_calls\"}]}\n\n";
            let usage = format!("data: {{\"choices\":[],{usage}}}\n\ndata: [DONE]\n\n");
            ("text/event-stream", [&delta, end, &usage].concat())
        } else {
            let message = format!(r#"{{"message":{{{}}},"finish_reason":"tool_calls"}}"#, call(id));
            ("application/json", format!(r#"{{"choices":[{message}],{usage}}}"#))
        };
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        connection.write_all(format!("{head}{body}").as_bytes()).unwrap();
    }
}
