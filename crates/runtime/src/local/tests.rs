use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::sync::{Arc, Mutex};

use pretty_assertions::assert_eq;

use super::*;

type Requests = Arc<Mutex<Vec<String>>>;

/// A server that answers by path, and what it was asked. It ends with the test's process.
fn server(answers: &[(&str, Value)]) -> (SocketAddr, Requests) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let answers: Vec<_> =
        answers.iter().map(|(path, answer)| ((*path).to_owned(), answer.to_string())).collect();
    let requests = Requests::default();
    let seen = Arc::clone(&requests);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") {
                if reader.read_line(&mut head).unwrap_or_default() == 0 {
                    break;
                }
            }
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
            reader.read_exact(&mut body).unwrap();
            let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
            if !head.is_empty() {
                seen.lock().unwrap().push(head + &String::from_utf8(body).unwrap());
            }
            let answer = answers.iter().find(|(known, _)| *known == path);
            let _ = match answer {
                Some((_, answer)) => write!(stream, "HTTP/1.0 200 OK\r\n\r\n{answer}"),
                None => write!(stream, "HTTP/1.0 404 Not Found\r\n\r\n"),
            };
        }
    });
    (address, requests)
}

fn ollama() -> (SocketAddr, Requests) {
    server(&[
        ("/api/version", json!({ "version": "0.12.3" })),
        ("/api/tags", json!({ "models": [{ "name": "nomic-embed-text" }, { "name": "q:7b" }] })),
        ("/api/ps", json!({ "models": [] })),
        ("/api/show", json!({ "parameters": "num_ctx 8192" })),
    ])
}

/// An address at which nobody listens: the port is for those with more rights.
const NOBODY: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 1);

/// Looks while time stands still: who answers does so in time, however slow the machine is.
fn run<T>(look: impl Future<Output = T>) -> T {
    run_until(|| false, look)
}

/// As [`run`], until something holds; from then on time goes on.
fn run_until<T>(holds: impl Fn() -> bool, look: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let clock = async {
            // As long as there is something to do, time does not go on by itself.
            while !holds() {
                tokio::task::yield_now().await;
            }
            tokio::time::resume();
            std::future::pending::<std::convert::Infallible>().await
        };
        tokio::select! {
            found = look => found,
            never = clock => match never {},
        }
    })
}

#[test]
fn a_server_is_found_wherever_it_listens() {
    let (stranger, _) = server(&[("/", json!("hello"))]);
    let (ollama, requests) = ollama();
    let found = run(find(&[NOBODY, stranger, ollama]));
    assert_eq!(
        found,
        Some(Found {
            kind: Kind::Ollama,
            base_url: format!("http://{ollama}/v1"),
            model: "q:7b".to_owned(),
            context_window: Some(8192),
        })
    );
    let requests = requests.lock().unwrap();
    let is_harmless = |request: &&String| request.starts_with("GET ");
    let others: Vec<_> = requests.iter().filter(|request| !is_harmless(request)).collect();
    assert_eq!(others.len(), 1, "{others:?}");
    assert!(others[0].starts_with("POST /api/show ") && others[0].ends_with(r#"{"model":"q:7b"}"#));
    assert!(requests.iter().all(|request| !request.to_lowercase().contains("authorization")));
}

#[test]
fn a_stranger_at_a_known_port_is_not_taken() {
    let models = json!({ "data": [{ "id": "gpt", "owned_by": "somebody" }] });
    let (stranger, requests) = server(&[("/v1/models", models)]);
    assert_eq!(run(find(&[stranger])), None);
    assert!(requests.lock().unwrap().iter().all(|request| request.starts_with("GET ")));
}

#[test]
fn a_server_without_a_model_that_talks_is_passed_over() {
    let (empty, _) = server(&[
        ("/api/version", json!({ "version": "0.12.3" })),
        ("/api/tags", json!({ "models": [] })),
    ]);
    let (ollama, _) = ollama();
    assert_eq!(run(servers(&[empty, ollama])).len(), 2);
    let found = run(find(&[empty, ollama])).unwrap();
    assert_eq!(found.base_url, format!("http://{ollama}/v1"));
}

#[test]
fn one_that_never_answers_hides_nobody() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let (ollama, requests) = ollama();
    let is_asked = || requests.lock().unwrap().len() == recognise::PATHS.len();
    let found = run_until(is_asked, servers(&[silent.local_addr().unwrap(), ollama]));
    assert_eq!(found.len(), 1);
}

fn with_ollama_host(host: &str) -> Environment {
    let vars = [("OLLAMA_HOST".to_owned(), host.to_owned())].into();
    Environment { vars, ..Environment::default() }
}

#[test]
fn ollama_host_is_read_as_ollama_reads_it() {
    let read = |host| ollama_host(&with_ollama_host(host)).unwrap_or_default();
    assert_eq!(read("0.0.0.0"), "127.0.0.1:11434");
    assert_eq!(read(":8000"), "127.0.0.1:8000");
    assert_eq!(read("gpu.lan:9000"), "gpu.lan:9000");
    assert_eq!(read("http://gpu.lan:9000/"), "gpu.lan:9000");
    assert_eq!(read("http://gpu.lan"), "gpu.lan:80");
    assert_eq!(read("[::]"), "[::1]:11434");
}

#[test]
fn only_this_machine_is_looked_at() {
    let config = |addresses: &[&str]| Config {
        local_servers: Some(addresses.iter().map(|&address| address.to_owned()).collect()),
        ..Config::default()
    };
    let near = with_ollama_host("127.0.0.1:9999");
    let addresses = |text: &[&str], environment| addresses(&config(text), environment);
    let parse = |text: &str| text.parse::<SocketAddr>().unwrap();
    assert_eq!(
        addresses(&["localhost:1", "127.0.0.1:1", "http://127.0.0.1:2/"], &near),
        [parse("127.0.0.1:9999"), parse("127.0.0.1:1"), parse("127.0.0.1:2")]
    );
    // One that is far away is used when its model is named, not when none is.
    let far = with_ollama_host("gpu.lan:9000");
    assert_eq!(addresses(&[], &far), []);
    assert_eq!(loopback("10.0.0.1:80"), None);
    assert_eq!(loopback("127.0.0.1"), None);
}
