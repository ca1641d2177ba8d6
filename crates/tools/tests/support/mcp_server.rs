//! An MCP server of the tests: in this process, reached over HTTP on loopback, or over the standard
//! input and output of a small program that passes everything on.
#![allow(dead_code, unreachable_pub, reason = "not every test uses all of it")]

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};

use serde_json::{Value, json};

/// A server; it ends with the test.
pub struct McpServer {
    lines: SocketAddr,
    http: SocketAddr,
    state: Arc<State>,
}

/// How a server behaves.
#[derive(Default)]
pub struct Manners {
    /// Never answers.
    pub hangs: bool,
    /// Says things that are no messages, between messages.
    pub babbles: bool,
    /// Has so many more tools.
    pub more_tools: usize,
    /// Has something to read.
    pub has_resources: bool,
    /// Has so many more things to read, one a page.
    pub more_resources: usize,
    /// Lists these too, as they are.
    pub odd_tools: Vec<Value>,
    /// Does not list its tools any more once one has been added.
    pub falls_silent: bool,
    /// Says that its tools have changed each time that it lists them.
    pub changes_always: bool,
    /// Answers calls over HTTP with this and nothing else.
    pub answers_calls: Option<&'static str>,
    /// Leaves calls over HTTP to be asked for again, without any pause.
    pub hurries: bool,
}

#[derive(Default)]
struct State {
    manners: Manners,
    seen: Mutex<Vec<Value>>,
    heads: Mutex<Vec<String>>,
    has_grown: AtomicBool,
    ends: AtomicBool,
    connections: AtomicUsize,
    sessions: Mutex<Vec<String>>,
    /// What was asked of the client, with the call in whose course it was.
    asked: Mutex<HashMap<String, (Value, mpsc::Sender<Value>)>>,
}

impl McpServer {
    pub fn start(manners: Manners) -> Self {
        let (lines, http) = (listen(), listen());
        let state = Arc::new(State { manners, ..State::default() });
        let server = Self {
            lines: lines.local_addr().unwrap(),
            http: http.local_addr().unwrap(),
            state: Arc::clone(&state),
        };
        accept(lines, Arc::clone(&state), serve_lines);
        accept(http, state, serve_http);
        server
    }

    /// Returns the arguments of bash that make it a program that is this server.
    pub fn program(&self) -> [String; 2] {
        let port = self.lines.port();
        let script = format!(
            "echo \"relay $$ starts\" >&2; exec 4<&0 3<>/dev/tcp/127.0.0.1/{port}; \
             cat <&4 >&3 & cat <&3; kill $!; exit 7"
        );
        ["-c".to_owned(), script]
    }

    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.http)
    }

    /// Returns all messages that came, in order.
    pub fn seen(&self) -> Vec<Value> {
        self.state.seen.lock().unwrap().clone()
    }

    /// Returns the messages of a method.
    pub fn seen_of(&self, method: &str) -> Vec<Value> {
        self.seen().into_iter().filter(|message| message["method"] == method).collect()
    }

    /// Returns the heads of HTTP requests, in lower case.
    pub fn heads(&self) -> Vec<String> {
        self.state.heads.lock().unwrap().clone()
    }

    /// Returns how often somebody has connected to it as a program.
    pub fn starts(&self) -> usize {
        self.state.connections.load(Ordering::Relaxed)
    }

    /// Knows no session any more.
    pub fn forget(&self) {
        self.state.sessions.lock().unwrap().clear();
    }
}

impl Drop for McpServer {
    fn drop(&mut self) {
        self.state.ends.store(true, Ordering::Relaxed);
        for address in [self.lines, self.http] {
            let _ = TcpStream::connect(address);
        }
    }
}

fn listen() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").unwrap()
}

type Serve = fn(&TcpStream, &State) -> std::io::Result<()>;

fn accept(listener: TcpListener, state: Arc<State>, serve: Serve) {
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            if state.ends.load(Ordering::Relaxed) {
                break;
            }
            let state = Arc::clone(&state);
            // A client that goes in the middle is what these tests are about.
            std::thread::spawn(move || serve(&stream.unwrap(), &state));
        }
    });
}

fn serve_lines(stream: &TcpStream, state: &State) -> std::io::Result<()> {
    state.connections.fetch_add(1, Ordering::Relaxed);
    let mut out = stream.try_clone()?;
    let (say, said) = mpsc::channel::<Value>();
    let babbles = state.manners.babbles;
    std::thread::spawn(move || {
        for message in said {
            let noise = if babbles { "Server is up!\n\u{fffd}{]\n\n" } else { "" };
            if writeln!(out, "{noise}{message}").is_err() {
                break;
            }
        }
    });
    for line in BufReader::new(stream.try_clone()?).lines() {
        let message: Value = serde_json::from_str(&line?).unwrap();
        if handle(state, &message, &say) == Handled::Crash {
            stream.shutdown(std::net::Shutdown::Both)?;
        }
    }
    Ok(())
}

fn serve_http(stream: &TcpStream, state: &State) -> std::io::Result<()> {
    let mut out = stream.try_clone()?;
    let mut reader = BufReader::new(stream.try_clone()?);
    loop {
        let Some((head, body)) = read_request(&mut reader)? else { return Ok(()) };
        state.heads.lock().unwrap().push(head.clone());
        let empty = |status: &str| format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n");
        let again = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n\
                     id: 1\nretry: 0\ndata:\n\n";
        if state.manners.hurries && head.starts_with("get") && head.contains("last-event-id") {
            return out.write_all(again.as_bytes());
        }
        if !head.starts_with("post") {
            let status = if head.starts_with("delete") { "200 OK" } else { "405 No" };
            out.write_all(empty(status).as_bytes())?;
            continue;
        }
        let message: Value = serde_json::from_slice(&body).unwrap();
        let session = head.lines().find_map(|line| line.strip_prefix("mcp-session-id: "));
        let mut header = String::new();
        if message["method"] == "initialize" {
            let mut sessions = state.sessions.lock().unwrap();
            sessions.push(format!("s{}", state.heads.lock().unwrap().len()));
            header = format!("mcp-session-id: {}\r\n", sessions.last().unwrap());
        } else if !state.sessions.lock().unwrap().iter().any(|known| session == Some(known)) {
            out.write_all(empty("404 Not Found").as_bytes())?;
            continue;
        }
        if message["method"] == "tools/call" {
            let answer = state.manners.answers_calls.or(state.manners.hurries.then_some(again));
            if let Some(answer) = answer {
                state.seen.lock().unwrap().push(message);
                return out.write_all(answer.as_bytes());
            }
        }
        let (say, said) = mpsc::channel();
        let id = message["id"].clone();
        let is_request = message["method"].is_string() && !id.is_null();
        if handle(state, &message, &say) == Handled::Crash {
            return Ok(());
        }
        drop(say);
        if !is_request {
            out.write_all(empty("202 Accepted").as_bytes())?;
            continue;
        }
        write!(
            out,
            "HTTP/1.1 200 OK\r\n{header}content-type: text/event-stream\r\nconnection: close\r\n\r\n"
        )?;
        for message in said {
            write!(out, "data: {message}\n\n")?;
            if message["id"] == id && message["method"].is_null() {
                break;
            }
        }
        return Ok(());
    }
}

/// Reads the head, in lower case, and the body of a request; `None` if there is none any more.
fn read_request(reader: &mut impl BufRead) -> std::io::Result<Option<(String, Vec<u8>)>> {
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        if line == "\r\n" {
            break;
        }
        line.make_ascii_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        head.push_str(&line);
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    Ok(Some((head, body)))
}

#[derive(PartialEq)]
enum Handled {
    Fine,
    Crash,
}

fn handle(state: &State, message: &Value, say: &mpsc::Sender<Value>) -> Handled {
    state.seen.lock().unwrap().push(message.clone());
    if state.manners.hangs {
        // What is kept open says nothing, but does not end either.
        std::mem::forget(say.clone());
        return Handled::Fine;
    }
    let id = message["id"].clone();
    let reply = |result: Value| {
        let _ = say.send(json!({ "jsonrpc": "2.0", "id": id, "result": result }));
    };
    match message["method"].as_str() {
        None => {
            let asked = state.asked.lock().unwrap().remove(id.as_str().unwrap_or_default());
            if let Some((call, say)) = asked {
                let text = message["result"].to_string();
                let result = json!({ "content": [{ "type": "text", "text": text }] });
                let _ = say.send(json!({ "jsonrpc": "2.0", "id": call, "result": result }));
            }
        }
        Some("initialize") => reply(json!({
            "protocolVersion": message["params"]["protocolVersion"],
            "capabilities": capabilities(state),
            "serverInfo": { "name": "test server", "version": "1" },
        })),
        Some("tools/list")
            if state.manners.falls_silent && state.has_grown.load(Ordering::Relaxed) =>
        {
            std::mem::forget(say.clone());
        }
        Some("tools/list") => {
            if state.manners.changes_always && state.has_grown.load(Ordering::Relaxed) {
                let method = "notifications/tools/list_changed";
                let _ = say.send(json!({ "jsonrpc": "2.0", "method": method }));
            }
            reply(page(state, &message["params"]));
        }
        Some("resources/list") => reply(resources(state, &message["params"])),
        Some("resources/templates/list") => reply(json!({ "resourceTemplates": [] })),
        Some("resources/read") => reply(json!({ "contents": [
            { "uri": message["params"]["uri"], "text": "what is in it" },
        ] })),
        Some("tools/call") => return call(state, message, say),
        Some(_) => {}
    }
    Handled::Fine
}

fn resources(state: &State, params: &Value) -> Value {
    let at: usize = params["cursor"].as_str().map_or(0, |cursor| cursor.parse().unwrap());
    if at > 0 {
        let mut page = json!({ "resources": [{ "uri": format!("test://{at}"), "name": "more" }] });
        if at < state.manners.more_resources {
            page["nextCursor"] = json!((at + 1).to_string());
        }
        return page;
    }
    let one = json!({ "uri": "test://one", "name": "one", "description": "The first.\nMore." });
    match state.manners.more_resources {
        0 => json!({ "resources": [one] }),
        _ => json!({ "resources": [one], "nextCursor": "1" }),
    }
}

fn capabilities(state: &State) -> Value {
    let mut capabilities = json!({ "tools": { "listChanged": true } });
    if state.manners.has_resources {
        capabilities["resources"] = json!({});
    }
    capabilities
}

/// Three tools a page, or a few pages of many.
fn page(state: &State, params: &Value) -> Value {
    let from: usize = params["cursor"].as_str().map_or(0, |cursor| cursor.parse().unwrap());
    let tools = tools(state);
    let count = (tools.len() / 10).max(3);
    let mut page = json!({ "tools": tools.iter().skip(from).take(count).collect::<Vec<_>>() });
    if from + count < tools.len() {
        page["nextCursor"] = json!((from + count).to_string());
    }
    page
}

fn tools(state: &State) -> Vec<Value> {
    let tool = |name: &str, annotations: Value| {
        json!({ "name": name, "description": format!("Does {name}."), "annotations": annotations,
            "inputSchema": { "type": "object", "properties": { "text": { "type": "string" } } } })
    };
    let mut tools = vec![tool("echo", json!({ "readOnlyHint": true, "openWorldHint": false }))];
    for name in ["image", "fail", "slow", "crash", "grow", "ask", "huge", "roots", "env"] {
        tools.push(tool(name, json!({})));
    }
    if state.has_grown.load(Ordering::Relaxed) {
        tools.push(tool("grown", json!({})));
    }
    tools.extend(state.manners.odd_tools.iter().cloned());
    for number in 0..state.manners.more_tools {
        let mut more = tool(&format!("thing_{number}"), json!({}));
        more["description"] =
            json!(format!("Polishes the gadget of kind {number} until it shines."));
        more["inputSchema"] = json!({ "type": "object", "required": ["times"],
            "properties": { "times": { "type": "integer" } } });
        tools.push(more);
    }
    tools
}

fn dot() -> Value {
    json!({ "content": [
        { "type": "text", "text": "a dot:" },
        { "type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png" },
    ] })
}

fn call(state: &State, message: &Value, say: &mpsc::Sender<Value>) -> Handled {
    let (id, params) = (message["id"].clone(), &message["params"]);
    let text = |text: &str| json!({ "content": [{ "type": "text", "text": text }] });
    let tell = |method: &str, params: Value| {
        let _ = say.send(json!({ "jsonrpc": "2.0", "method": method, "params": params }));
    };
    let ask = |method: &str, params: Value| {
        let name = format!("ask-{id}");
        state.asked.lock().unwrap().insert(name.clone(), (id.clone(), say.clone()));
        let _ =
            say.send(json!({ "jsonrpc": "2.0", "id": name, "method": method, "params": params }));
    };
    let name = params["name"].as_str().unwrap();
    let result = match name {
        "image" => dot(),
        "fail" => {
            json!({ "isError": true, "content": [{ "type": "text", "text": "no such thing" }] })
        }
        "slow" => {
            let token = &params["_meta"]["progressToken"];
            let progress =
                json!({ "progressToken": token, "progress": 1, "total": 2, "message": "half" });
            tell("notifications/progress", progress);
            // What is kept open says nothing, but does not end either.
            std::mem::forget(say.clone());
            return Handled::Fine;
        }
        "crash" => return Handled::Crash,
        "grow" => {
            state.has_grown.store(true, Ordering::Relaxed);
            tell("notifications/tools/list_changed", json!({}));
            text("grown")
        }
        "ask" => {
            ask(
                "elicitation/create",
                json!({ "mode": "form", "message": "Which one?",
                "requestedSchema": { "type": "object", "required": ["count"],
                    "properties": { "count": { "type": "integer", "title": "How many" } } } }),
            );
            return Handled::Fine;
        }
        "huge" => text(&"0123456789\n".repeat(100_000)),
        "too_long" => text(&"0123456789ABCDEF".repeat(1024 * 1024 + 1)),
        "roots" => {
            ask("roots/list", json!({}));
            return Handled::Fine;
        }
        name if name == "echo" || name == "grown" || name.starts_with("thing_") => {
            text(&params["arguments"].to_string())
        }
        name => {
            let error = json!({ "code": -32602, "message": format!("no tool {name}") });
            let _ = say.send(json!({ "jsonrpc": "2.0", "id": id, "error": error }));
            return Handled::Fine;
        }
    };
    let _ = say.send(json!({ "jsonrpc": "2.0", "id": id, "result": result }));
    Handled::Fine
}
