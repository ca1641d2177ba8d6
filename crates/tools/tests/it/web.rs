//! Fetching from a server in the test.

use std::net::IpAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bowline_agent::tool::{Access, DynTool, Recovery, ToolError};
use bowline_llm::http::Proxy;
use bowline_llm::{CallId, Secret};
use bowline_tools::guard::{Confinement, Guard, Reach, Want};
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
        "/never" | "/never/ever" => std::future::pending().await,
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

/// Rules that let every host be talked to, and name some.
#[derive(Debug)]
struct Naming(&'static [&'static str]);

impl Guard for Naming {
    fn check(&self, _: &CallId, _: &Path, _: Want) -> Result<(), String> {
        Err("no files".to_owned())
    }

    fn check_host(&self, _: &CallId, host: &str) -> Result<Reach, String> {
        Ok(if self.0.contains(&host) { Reach::Named } else { Reach::Public })
    }

    fn names(&self, ip: IpAddr) -> bool {
        self.0.contains(&ip.to_string().as_str())
    }

    fn confinement(&self, _: &CallId, _: &str) -> Result<Option<Confinement>, String> {
        Err("no commands".to_owned())
    }
}

#[tokio::test]
async fn what_a_rule_names_is_reached_and_nothing_beside_it() {
    let server = Server::start().await;
    let port = server.port;
    let get = async |named: &'static [&'static str], url: String| {
        let fetch = Fetch::guarded(FetchConfig::default(), Arc::new(Naming(named)));
        Desk::new().call(fetch, json!({ "url": url })).await
    };
    let address = server.url("/json");
    let localhost = format!("http://localhost:{port}/json");
    assert!(get(&["127.0.0.1"], address.clone()).await.unwrap().contains("{ \"a\": [1] }"));
    // Nobody but this machine has the name.
    assert!(get(&["localhost"], localhost.clone()).await.unwrap().contains("{ \"a\": [1] }"));
    assert_eq!(server.heads().len(), 2);
    let refused = [
        (&["localhost"][..], address.clone()),
        (&["127.0.0.1"], localhost),
        (&["127.0.0.2"], address.clone()),
        (&["127.0.0.1"], server.url("/inner")),
    ];
    for (named, url) in refused {
        let text = failure(get(named, url.clone()).await);
        assert!(text.contains("is not a public address"), "{url}: {text}");
    }
    // The redirect was asked for, and not followed.
    assert_eq!(server.heads().len(), 3);
    let why = failure(get(&[], address).await);
    assert!(why.ends_with("a rule that names it allows it: --allow 'net(127.0.0.1)'"), "{why}");
}

#[tokio::test]
async fn no_spelling_of_a_private_address_is_reached() {
    let server = Server::start().await;
    let hosts = [
        "127.1",
        "127.0.1",
        "0177.0.0.1",
        "0x7f000001",
        "0x7F.0x0.0x0.0x1",
        "017700000001",
        "127.0.0.1.",
        "0",
        "0.0.0.0",
        "%31%32%37.0.0.1",
        "127%2e0%2e0%2e1",
        "１２７.０.０.１",
        "①②⑦.⓪.⓪.①",
        "127。0。0。1",
        "127．0．0．1",
        "127｡0｡0｡1",
        "LOCALHOST",
        "localhost.",
        "ⓛⓞⓒⓐⓛⓗⓞⓢⓣ",
        "loc\u{ad}alhost",
        "[::1]",
        "[::]",
        "[0:0:0:0:0:0:0:1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[::127.0.0.1]",
        "[64:ff9b::127.0.0.1]",
        "[64:ff9b:1::7f00:1]",
        "[2002:7f00:1::]",
        "[2001:0:4136:e378:8000:63bf:80ff:fffe]",
        "[fe80::1]",
        "[fe80::1%25eth0]",
        "[fec0::1]",
        "[fd00:ec2::254]",
        "[5f00::1]",
        "100.100.100.200",
        "169.254.169.254",
        "2852039166",
        "0xA9FEA9FE",
        "192.0.0.192",
        "168.63.129.16",
        "255.255.255.255",
        "example.com@127.0.0.1",
        "example.com:80@127.0.0.1",
        "example.com%40127.0.0.1",
        "\\127.0.0.1",
        "127.0.0.1\\@example.com",
        "127.0.0.1%00.example.com",
    ];
    for host in hosts {
        // Behind an address that has a port of its own none stands.
        for url in [format!("http://{host}:{}/json", server.port), format!("HTTP:{host}")] {
            let text = failure(Desk::new().call(Fetch::default(), json!({ "url": url })).await);
            let why = ["is not a public address", "is no address", "user or password"];
            assert!(why.iter().any(|why| text.contains(why)), "{url}: {text}");
        }
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
    // The first one may have been too late to ask at all.
    let url = server.url("/never/ever");
    let (canceled, ()) = tokio::join!(desk.call(fetch(), json!({ "url": url })), async {
        let is_it = |head: &String| head.starts_with("GET /never/ever ");
        until("the request is there", || server.heads().iter().any(is_it)).await;
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
