//! What the tests of the command share: a provider that answers by script, and a place to work.
#![allow(
    dead_code,
    unreachable_pub,
    reason = "every test file is a program of its own and uses a part of this"
)]
#![allow(clippy::unwrap_used, reason = "a failure here is a failure of the test")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

/// What the provider answers.
pub enum Reply {
    /// A text that ends the turn.
    Text(String),
    /// Calls: id, tool, arguments.
    Calls(Vec<(String, &'static str, Value)>),
    /// An HTTP status with a body.
    Status(u16, String),
    /// A stream that stops in the middle of a text.
    Cut(String),
    /// Bytes of whatever wire.
    Raw(Raw),
}

/// An answer byte for byte.
#[derive(Clone)]
pub struct Raw {
    pub status: u16,
    pub content_type: String,
    pub body: String,
    /// Whether the connection is closed before all of it has come.
    pub is_cut: bool,
}

type Script = dyn Fn(&Value) -> Reply + Send + Sync;

/// A provider on loopback that speaks Chat Completions. It ends with the test.
pub struct Provider {
    address: std::net::SocketAddr,
    ends: Arc<AtomicBool>,
    requests: Arc<Mutex<Vec<Value>>>,
    heads: Arc<Mutex<Vec<String>>>,
    pub connections: Arc<AtomicUsize>,
}

impl Provider {
    pub fn answering(script: impl Fn(&Value) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let ends = Arc::new(AtomicBool::new(false));
        let requests = Arc::new(Mutex::new(Vec::new()));
        let heads = Arc::new(Mutex::new(Vec::new()));
        let connections = Arc::new(AtomicUsize::new(0));
        let script: Arc<Script> = Arc::new(script);
        let (has_ended, count) = (Arc::clone(&ends), Arc::clone(&connections));
        let seen = Seen { heads: Arc::clone(&heads), requests: Arc::clone(&requests) };
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if has_ended.load(Ordering::Relaxed) {
                    break;
                }
                let (script, seen) = (Arc::clone(&script), seen.clone());
                count.fetch_add(1, Ordering::Relaxed);
                std::thread::spawn(move || {
                    // A client that was killed in the middle is what these tests are about.
                    let _ = serve(stream.unwrap(), &*script, &seen);
                });
            }
        });
        Self { address, ends, requests, heads, connections }
    }

    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Returns the address without a path.
    pub fn origin(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the first line and the headers of each request, in lower case.
    pub fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }

    pub fn requests(&self) -> Vec<Value> {
        self.requests.lock().unwrap().clone()
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        // Wakes the listener, which sees that it is over.
        let _ = TcpStream::connect(self.address);
    }
}

#[derive(Clone)]
struct Seen {
    heads: Arc<Mutex<Vec<String>>>,
    requests: Arc<Mutex<Vec<Value>>>,
}

fn serve(stream: TcpStream, script: &Script, seen: &Seen) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut out = stream.try_clone()?;
    let mut reader = BufReader::new(stream);
    loop {
        let mut length = 0;
        let mut line = String::new();
        let mut head = String::new();
        loop {
            line.clear();
            if reader.read_line(&mut line)? == 0 {
                return Ok(());
            }
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            if line == "\r\n" {
                break;
            }
            head.push_str(&line.to_ascii_lowercase());
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        let request: Value = serde_json::from_slice(&body).unwrap();
        seen.heads.lock().unwrap().push(head);
        seen.requests.lock().unwrap().push(request.clone());
        match script(&request) {
            Reply::Status(status, body) => write!(
                out,
                "HTTP/1.1 {status} x\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            )?,
            Reply::Cut(text) => {
                let chunk = chunk(&json!({ "content": text }), &Value::Null);
                write!(out, "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n{chunk}")?;
                return Ok(());
            }
            Reply::Raw(Raw { status, content_type, body, is_cut }) => {
                let length = body.len() + usize::from(is_cut);
                write!(
                    out,
                    "HTTP/1.1 {status} x\r\ncontent-type: {content_type}\r\ncontent-length: {length}\r\n\r\n{body}"
                )?;
                if is_cut {
                    return Ok(());
                }
            }
            Reply::Text(text) => {
                stream_of(&mut out, &[json!({ "content": text })], "stop")?;
            }
            Reply::Calls(calls) => {
                let calls: Vec<_> = calls
                    .into_iter()
                    .enumerate()
                    .map(|(index, (id, name, arguments))| {
                        json!({ "tool_calls": [{ "index": index, "id": id, "type": "function",
                            "function": { "name": name, "arguments": arguments.to_string() } }] })
                    })
                    .collect();
                stream_of(&mut out, &calls, "tool_calls")?;
            }
        }
    }
}

fn stream_of(out: &mut TcpStream, deltas: &[Value], finish: &str) -> std::io::Result<()> {
    let mut body: String = deltas.iter().map(|delta| chunk(delta, &Value::Null)).collect();
    body.push_str(&chunk(&json!({}), &json!(finish)));
    let usage =
        json!({ "choices": [], "usage": { "prompt_tokens": 100, "completion_tokens": 10 } });
    body.push_str(&format!("data: {usage}\n\ndata: [DONE]\n\n"));
    write!(
        out,
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

fn chunk(delta: &Value, finish: &Value) -> String {
    let chunk =
        json!({ "id": "x", "choices": [{ "index": 0, "delta": delta, "finish_reason": finish }] });
    format!("data: {chunk}\n\n")
}

/// Returns how many tool results a request holds.
pub fn results(request: &Value) -> usize {
    messages(request).iter().filter(|message| message["role"] == "tool").count()
}

/// Returns the messages of a request.
pub fn messages(request: &Value) -> &Vec<Value> {
    request["messages"].as_array().unwrap()
}

/// A model that does what it is told: `sh COMMAND` in a shell, `put PATH` with the tool `write`.
pub fn obedient() -> Provider {
    Provider::answering(|request| {
        let last = messages(request).last().unwrap();
        let text = said(last);
        let id = format!("call_{}", messages(request).len());
        match text.split_once(' ') {
            Some(("sh", command)) if last["role"] == "user" => {
                Reply::Calls(vec![(id, "bash", json!({ "command": command }))])
            }
            Some(("put", path)) if last["role"] == "user" => {
                let arguments = json!({ "path": path, "content": "put\n" });
                Reply::Calls(vec![(id, "write", arguments)])
            }
            _ => Reply::Text("done".to_owned()),
        }
    })
}

/// Returns what a message says: its last line, which is behind what the model is told of the place.
pub fn said(message: &Value) -> String {
    text(message).lines().last().unwrap_or_default().to_owned()
}

/// Returns all that a message says.
pub fn text(message: &Value) -> String {
    match message["content"].as_array() {
        Some(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect(),
        None => message["content"].as_str().unwrap_or_default().to_owned(),
    }
}

/// A small generator of numbers: the same sweep every time, as far as the machine allows.
pub struct Dice(pub u64);

impl Dice {
    /// Returns a number below `sides`.
    pub fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}

/// A user's folders and a directory to work in.
pub struct Home {
    folder: TempDir,
}

impl Home {
    /// Makes folders with a configuration that knows the provider as `test`.
    pub fn new(provider: &Provider) -> Self {
        Self::with(provider, "")
    }

    /// As [`Home::new`], with more configuration.
    pub fn with(provider: &Provider, config: &str) -> Self {
        let url = provider.base_url();
        Self::configured(&format!(
            "model = \"test/model\"\n{config}\n[providers.test]\nbase_url = \"{url}\"\nmax_retries = 0\n"
        ))
    }

    /// Makes folders with a configuration and nothing else.
    pub fn configured(config: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let home = Self { folder };
        std::fs::create_dir_all(home.path("home/config")).unwrap();
        std::fs::create_dir(home.work()).unwrap();
        std::fs::write(home.path("home/config/config.toml"), config).unwrap();
        home
    }

    pub fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    pub fn work(&self) -> PathBuf {
        self.path("work")
    }

    /// Returns the command, with nothing of the tester's own environment.
    pub fn bowline(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_bowline"));
        command
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("BOWLINE_HOME", self.path("home"))
            .env("HOME", self.folder.path())
            .current_dir(self.work());
        command
    }

    /// Runs the command to its end: exit code, stdout, stderr.
    pub fn run(&self, arguments: &[&str]) -> (i32, String, String) {
        let output = self.bowline().args(arguments).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        (output.status.code().unwrap_or(-1), text(&output.stdout), text(&output.stderr))
    }

    /// Returns the ids of all sessions, newest first.
    pub fn sessions(&self) -> Vec<String> {
        let (_, out, _) = self.run(&["sessions", "list", "--json"]);
        out.lines()
            .map(|line| {
                serde_json::from_str::<Value>(line).unwrap()["id"].as_str().unwrap().to_owned()
            })
            .collect()
    }

    /// Returns the entries of a session in order.
    pub fn entries(&self, session: &str) -> Vec<Value> {
        let text = std::fs::read_to_string(self.log(session)).unwrap();
        let commits = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        commits.flat_map(|commit| commit["entries"].as_array().unwrap().clone()).collect()
    }

    /// Returns the file that holds a session's log.
    pub fn log(&self, session: &str) -> PathBuf {
        let days = std::fs::read_dir(self.path("home/data/sessions")).unwrap();
        let mut logs = days.map(|day| day.unwrap().path().join(format!("{session}.jsonl")));
        logs.find(|log| log.exists()).unwrap()
    }

    /// Returns the processes that work in this home's directory, and their command lines.
    pub fn processes(&self) -> Vec<String> {
        let work = self.work();
        let all = std::fs::read_dir("/proc").unwrap().filter_map(|entry| Some(entry.ok()?.path()));
        all.filter(|process| works_in(process, &work))
            .map(|process| {
                let command = std::fs::read(process.join("cmdline")).unwrap_or_default();
                let command = String::from_utf8_lossy(&command).replace('\0', " ");
                format!("{}: {command}", process.display())
            })
            .collect()
    }

    /// Waits until nothing works in this home's directory any more, which must be soon.
    #[track_caller]
    pub fn wait_until_gone(&self) {
        soon_gone(|| self.processes());
    }
}

/// How soon nothing may be left of what was ended.
pub const SOON: Duration = Duration::from_secs(2);

/// Waits until nothing is left, and says what is left if that is not soon. How long the looking itself
/// takes does not count: what is seen was there when the look began.
#[track_caller]
pub fn soon_gone(look: impl Fn() -> Vec<String>) {
    let deadline = Instant::now() + SOON;
    loop {
        let began = Instant::now();
        let left = look();
        if left.is_empty() {
            return;
        }
        assert!(began < deadline, "left after {SOON:?}: {left:#?}");
        std::thread::yield_now();
    }
}

/// Waits until something holds. How long that takes does not matter, as long as it comes.
#[track_caller]
pub fn until(what: &str, holds: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "never: {what}");
        std::thread::yield_now();
    }
}

/// Longer than anything takes here, however slow the machine is.
pub const PATIENCE: Duration = Duration::from_secs(60);

fn works_in(process: &Path, folder: &Path) -> bool {
    std::fs::read_link(process.join("cwd")).is_ok_and(|cwd| cwd.starts_with(folder))
}
