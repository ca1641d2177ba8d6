//! Fetching from a server in the test.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bowline_agent::tool::{Access, DynTool, Recovery, ToolError};
use bowline_llm::Secret;
use bowline_llm::http::Proxy;
use bowline_tools::{Fetch, FetchConfig};
use pretty_assertions::assert_eq;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::task::AbortOnDropHandle;

use crate::desk::{Desk, failure, until};

/// A server that answers each request by its path; it ends with the test.
struct Server {
    port: u16,
    heads: Arc<Mutex<Vec<String>>>,
    _task: AbortOnDropHandle<()>,
}

impl Server {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let heads = Arc::<Mutex<Vec<String>>>::default();
        let seen = Arc::clone(&heads);
        let task = tokio::spawn(async move {
            let mut answers = JoinSet::new();
            // No test asks for more.
            for _ in 0..50 {
                let (stream, _) = listener.accept().await.unwrap();
                answers.spawn(answer(stream, port, Arc::clone(&seen)));
            }
        });
        Self { port, heads, _task: AbortOnDropHandle::new(task) }
    }

    fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }
}

async fn answer(mut stream: TcpStream, port: u16, seen: Arc<Mutex<Vec<String>>>) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    let head = String::from_utf8(head).unwrap();
    let path = head.split(' ').nth(1).unwrap().to_owned();
    seen.lock().unwrap().push(head);
    let typed = |media_type: &str, body: &[u8]| {
        let head =
            format!("200 OK\r\nContent-Type: {media_type}\r\nContent-Length: {}", body.len());
        [head.as_bytes(), b"\r\n\r\n", body].concat()
    };
    let to = |location: &str| format!("302 Found\r\nLocation: {location}\r\n\r\n").into_bytes();
    let response = match path.as_str() {
        "/html" => typed("text/html; charset=utf-8", "<h1>Hé</h1><p><a href=/x>x</a>".as_bytes()),
        "/latin" => typed("text/html", b"<meta charset='iso-8859-1'><p>H\xe9</p>"),
        "/json" => typed("Application/JSON", b"{ \"a\": [1] }\n"),
        "/png" => typed("image/png", b"\x89PNG\r\n\x1a\n"),
        "/bytes" => typed("application/octet-stream", &[0, 1, 2, 3, 0xfe, 0, 5, 0]),
        "/script" => typed("application/octet-stream", b"echo hi\n"),
        "/gzip" => {
            b"200 OK\r\nContent-Type: text/plain\r\nContent-Encoding: gzip\r\n\r\nabc".to_vec()
        }
        "/empty" => b"200 OK\r\nContent-Length: 0\r\n\r\n".to_vec(),
        "/moved" => b"302 Found\r\nSet-Cookie: a=b\r\nLocation: /json#part\r\n\r\n".to_vec(),
        "/loop" => to("/loop"),
        "/inner" => to(&format!("http://127.0.0.2:{port}/json")),
        "/mapped" => to(&format!("http://[::ffff:127.0.0.1]:{port}/json")),
        "/named" => to(&format!("http://localhost:{port}/json")),
        "/file" => to("file:///etc/passwd"),
        "/login" => to(&format!("http://me:secret@127.0.0.1:{port}/json")),
        "/never" => std::future::pending().await,
        "/long" => {
            [b"200 OK\r\nContent-Type: text/plain\r\n\r\n".to_vec(), vec![b'x'; 3 << 20]].concat()
        }
        _ => b"404 Not Found\r\nContent-Type: text/html\r\n\r\n<p>no such <b>page</b></p>".to_vec(),
    };
    let response = [b"HTTP/1.1 ".to_vec(), response].concat();
    // The client need not take all of it.
    if stream.write_all(&response).await.is_ok() {
        stream.shutdown().await.ok();
    }
}

/// A tool that may reach the server.
fn fetch() -> Fetch {
    Fetch::new(FetchConfig { allowed: vec!["127.0.0.1".to_owned()], ..FetchConfig::default() })
}

async fn get(server: &Server, path: &str) -> Result<String, ToolError> {
    Desk::new().call(fetch(), json!({ "url": server.url(path) })).await
}

#[tokio::test]
async fn pages_are_shown_by_their_type() {
    let server = Server::start().await;
    let link = server.url("/x");
    let html = format!("[200 OK, text/html]\n# Hé\n\n[x]({link})");
    assert_eq!(get(&server, "/html").await.unwrap(), html);
    assert_eq!(get(&server, "/latin").await.unwrap(), "[200 OK, text/html]\nHé");
    let json = "[200 OK, application/json]\n{ \"a\": [1] }\n";
    assert_eq!(get(&server, "/json").await.unwrap(), json);
    let script = "[200 OK, application/octet-stream]\necho hi\n";
    assert_eq!(get(&server, "/script").await.unwrap(), script);
    assert_eq!(get(&server, "/empty").await.unwrap(), "[200 OK]\n(empty)");
    let raw = json!({ "url": server.url("/html"), "as": "raw" });
    let raw = Desk::new().call(fetch(), raw).await.unwrap();
    assert_eq!(raw, "[200 OK, text/html]\n<h1>Hé</h1><p><a href=/x>x</a>");
}

#[tokio::test]
async fn what_is_no_text_is_refused() {
    let server = Server::start().await;
    let refused = [
        ("/png", "image/png of 8 bytes"),
        ("/bytes", "application/octet-stream of 8 bytes"),
        ("/gzip", "a compressed file of 3 bytes"),
    ];
    for (path, what) in refused {
        let why =
            format!("{} is no text but {what}; load it with bash (curl -o FILE)", server.url(path));
        assert_eq!(failure(get(&server, path).await), why);
    }
}

#[tokio::test]
async fn an_error_shows_what_the_server_said() {
    let server = Server::start().await;
    let why = format!("404 Not Found, text/html from {}\nno such page", server.url("/nothing"));
    assert_eq!(failure(get(&server, "/nothing").await), why);
}

#[tokio::test]
async fn a_long_body_is_cut() {
    let server = Server::start().await;
    let mut desk = Desk::new();
    desk.cx.output_bytes = 0;
    let text = desk.call(fetch(), json!({ "url": server.url("/long") })).await.unwrap();
    let cut = "\n[only the first 1024 KiB were loaded]";
    assert_eq!(text, format!("[200 OK, text/plain]\n{}{cut}", "x".repeat(1 << 20)));
    let short = json!({ "url": server.url("/html"), "max_bytes": 4 });
    let text = desk.call(fetch(), short).await.unwrap();
    let whole = format!("# Hé\n\n[x]({})", server.url("/x")).len();
    assert_eq!(text, format!("[200 OK, text/html]\n# H\n[cut: the first 3 of {whole} bytes]"));
    desk.cx.output_bytes = 1000;
    let text = desk.call(fetch(), json!({ "url": server.url("/long") })).await.unwrap();
    assert!(text.len() <= 1000 && text.contains("[cut: the first "), "{text}");
}

#[tokio::test]
async fn redirects_are_followed_and_nothing_is_kept() {
    let server = Server::start().await;
    let to = server.url("/json");
    let text = format!("[200 OK, application/json, redirected to {to}]\n{{ \"a\": [1] }}\n");
    assert_eq!(get(&server, "/moved").await.unwrap(), text);
    for head in server.heads() {
        let head = head.to_ascii_lowercase();
        let agent = format!("user-agent: bowline/{}\r\n", env!("CARGO_PKG_VERSION"));
        assert!(head.contains(&agent), "{head}");
        let private = ["cookie", "authorization", "referer"];
        assert!(private.iter().all(|name| !head.contains(name)), "{head}");
    }
    let why = format!("more than 5 redirects; the last is to {}", server.url("/loop"));
    assert_eq!(failure(get(&server, "/loop").await), why);
    assert_eq!(server.heads().len(), 2 + 6);
}

#[tokio::test]
async fn redirects_lead_nowhere_else_than_a_call_may() {
    let server = Server::start().await;
    let refused = [
        ("/inner", "127.0.0.2 is not a public address"),
        ("/mapped", "::ffff:127.0.0.1 is not a public address"),
        ("/named", "is not a public address"),
        ("/file", "only http and https"),
        ("/login", "user or password"),
    ];
    for (at, (path, why)) in refused.iter().enumerate() {
        let text = failure(get(&server, path).await);
        assert!(text.contains(why), "{path}: {text}");
        assert_eq!(server.heads().len(), at + 1);
    }
}

#[tokio::test]
async fn only_public_addresses_are_reached() {
    let server = Server::start().await;
    let port = server.port;
    let private = [
        format!("http://127.0.0.1:{port}/json"),
        format!("http://localhost:{port}/json"),
        format!("http://2130706433:{port}/json"),
        format!("http://0x7f.1:{port}/json"),
        format!("http://[::1]:{port}/json"),
        "http://169.254.169.254/latest/meta-data/".to_owned(),
        "https://10.0.0.1/".to_owned(),
    ];
    for url in private {
        let text = failure(Desk::new().call(Fetch::default(), json!({ "url": url })).await);
        assert!(text.contains("is not a public address"), "{url}: {text}");
    }
    for url in ["file:///etc/passwd", "ftp://a.example/", "data:text/plain,x", "a.example", ""] {
        let text = failure(Desk::new().call(Fetch::default(), json!({ "url": url })).await);
        assert!(text.contains("only http and https") || text.contains("no address"), "{text}");
    }
    assert_eq!(server.heads(), [""; 0]);
}

#[tokio::test]
async fn a_proxy_is_used_but_not_to_reach_private_addresses() {
    let server = Server::start().await;
    let proxy = Proxy { http: Some(Secret::from(server.url("/"))), ..Proxy::default() };
    let fetch = || Fetch::new(FetchConfig { proxy: proxy.clone(), ..FetchConfig::default() });
    let public = json!({ "url": "http://192.0.1.1/x" });
    let text = failure(Desk::new().call(fetch(), public).await);
    assert!(text.starts_with("404 Not Found"), "{text}");
    assert!(server.heads()[0].starts_with("GET http://192.0.1.1/x "), "{:?}", server.heads());
    for url in ["http://10.0.0.1/", "http://localhost/", &server.url("/json")] {
        let text = failure(Desk::new().call(fetch(), json!({ "url": url })).await);
        assert!(text.contains("is not a public address"), "{url}: {text}");
    }
    assert_eq!(server.heads().len(), 1);
}

#[tokio::test]
async fn a_silent_server_is_left_in_time() {
    let server = Server::start().await;
    let mut desk = Desk::new();
    let url = server.url("/never");
    desk.cx.tool_time = Some(Duration::from_millis(50));
    let late = desk.call(fetch(), json!({ "url": url })).await;
    let Err(ToolError::TimedOut(why)) = late else { panic!("{late:?}") };
    assert_eq!(why, format!("{url} did not answer within 0.05 s"));
    desk.cx.tool_time = None;
    let (canceled, ()) = tokio::join!(desk.call(fetch(), json!({ "url": url })), async {
        until("the request is there", || server.heads().len() == 2).await;
        desk.cx.cancel.cancel();
    });
    assert_eq!(failure(canceled), "canceled");
}

#[test]
fn a_call_declares_its_host() {
    let prepare = |url: &str| {
        let prepared = Arc::new(Fetch::default()).prepare(&json!({ "url": url }).to_string());
        let prepared = prepared.unwrap();
        (prepared.access, prepared.recovery)
    };
    let network = vec!["a.example".to_owned()];
    let access = Access { network, ..Access::none() };
    assert_eq!(prepare("https://A.example:8443/x"), (access, Recovery::Rerun));
    assert_eq!(prepare("nothing").0, Access::none());
}
