//! What the command tells an OTLP receiver: over HTTP, over gRPC, and if the receiver is not well.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failure here is a failure of the test")]

#[path = "../../runtime/tests/support/otlp.rs"]
mod otlp;
mod support;

use bytes::Bytes;
use otlp::{TAKEN, attributes, receiver, receiver_of, spans};
use serde_json::{Value, json};
use std::net::{SocketAddr, TcpListener};
use std::process::Command;
use std::sync::mpsc;
use support::{Home, PATIENCE, Provider, Reply, results};

/// An address at which nobody listens: the port is for those with more rights.
const NOBODY: &str = "127.0.0.1:1";

/// A provider whose model calls a tool once and is done.
fn provider() -> Provider {
    Provider::answering(|request| match results(request) {
        0 => {
            let command = json!({ "command": "echo from-the-tool" });
            Reply::Calls(vec![("call_1".to_owned(), "bash", command)])
        }
        _ => Reply::Text("All done.".to_owned()),
    })
}

/// Returns the command with a receiver of JSON, which is told all at the end, however long that takes.
fn told(home: &Home, address: SocketAddr) -> Command {
    let mut command = home.bowline();
    command
        .env("OTEL_BSP_SCHEDULE_DELAY", "3600000")
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{address}"))
        .env("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json");
    command
}

fn run(command: &mut Command) -> (i32, String, String) {
    let output = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap_or(-1), text(output.stdout), text(output.stderr))
}

#[test]
fn a_run_is_told_as_one_trace_and_as_metrics() {
    let (address, rx) = receiver(TAKEN);
    let provider = provider();
    let home = Home::new(&provider);
    let (code, out, err) = run(told(&home, address)
        .env("OTEL_EXPORTER_OTLP_HEADERS", "x-team=blue%20one")
        .env("OTEL_SERVICE_NAME", "mine")
        .args(["exec", "Do it, secretly."]));
    assert_eq!((code, out.trim()), (0, "All done."), "{err}");
    assert!(!err.contains("traces"), "{err}");
    let received: Vec<_> = rx.try_iter().collect();
    for request in &received {
        assert!(request.head.contains("x-team: blue one"), "{}", request.head);
        assert!(request.head.contains("content-type: application/json"), "{}", request.head);
        assert!(!String::from_utf8_lossy(&request.body).contains("secretly"));
        assert!(!String::from_utf8_lossy(&request.body).contains("from-the-tool"));
    }
    let resource = attributes(&received[0].json()["resourceSpans"][0]["resource"]);
    assert_eq!(resource["service.name"], "mine");
    let spans = spans(&received);
    let names: Vec<_> = spans.iter().map(|(span, _)| span["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["chat model", "execute_tool bash", "chat model", "invoke_agent default"]);
    let (root, about) = spans.last().unwrap();
    assert_eq!(root["parentSpanId"], Value::Null);
    for (span, _) in &spans[..3] {
        assert_eq!(span["parentSpanId"], root["spanId"]);
        assert_eq!(span["traceId"], root["traceId"]);
    }
    assert_eq!(root["traceId"], about["bowline.run.id"]);
    assert_eq!(about["gen_ai.usage.input_tokens"], "200");
    assert_eq!(about["gen_ai.conversation.id"], home.sessions()[0]);
    let (call, about) = &spans[1];
    assert_eq!(
        (about["gen_ai.tool.call.id"].as_str(), call["kind"].as_i64()),
        (Some("call_1"), Some(1))
    );
    assert_eq!(
        spans[0].1["gen_ai.response.finish_reasons"]["values"][0]["stringValue"],
        "tool_call"
    );

    let metrics = received.iter().find(|it| it.path == "/v1/metrics").unwrap().json();
    let metrics = metrics["resourceMetrics"][0]["scopeMetrics"][0]["metrics"].clone();
    let points = |name: &str| {
        let metric = metrics.as_array().unwrap().iter().find(|it| it["name"] == name).unwrap();
        metric["histogram"]["dataPoints"].as_array().unwrap().clone()
    };
    let tokens = points("gen_ai.client.token.usage");
    let input = tokens.iter().find(|it| attributes(it)["gen_ai.token.type"] == "input").unwrap();
    assert_eq!((input["count"].as_str(), input["sum"].as_f64()), (Some("2"), Some(200.0)));
    // 100 tokens twice, above the bound 64.
    assert_eq!(input["bucketCounts"][4], "2");
    assert_eq!(points("gen_ai.client.operation.duration")[0]["count"], "2");
    assert_eq!(points("gen_ai.execute_tool.duration")[0]["count"], "1");
}

#[test]
fn no_secret_is_told_however_much_of_what_is_said_is() {
    // It does not stand here as a whole: whoever looks for tokens in repositories would find it.
    let rest = "aB3dE6gH9jK2mN5pQ8rS1tU4vW7xY0zA1b2C";
    let token = format!("ghp_{rest}");
    let said = format!("The token is {token}.");
    let provider = Provider::answering(move |request| match results(request) {
        0 => {
            let command = json!({ "command": format!("echo found: $(printf 'ghp_%s' {rest})") });
            Reply::Calls(vec![("call_1".to_owned(), "bash", command)])
        }
        _ => Reply::Text(said.clone()),
    });
    let (address, rx) = receiver(TAKEN);
    let home = Home::new(&provider);
    let prompt = format!("Is {token} valid?");
    let (code, _, err) =
        run(told(&home, address).args(["exec", "-c", "trace.content=full", &prompt]));
    assert_eq!(code, 0, "{err}");
    let received: Vec<_> = rx.try_iter().collect();
    let bodies: Vec<_> =
        received.iter().map(|request| String::from_utf8_lossy(&request.body)).collect();
    assert!(bodies.iter().any(|body| body.contains("found: [secret")), "{bodies:?}");
    assert!(!bodies.iter().any(|body| body.contains(&token)), "{bodies:?}");
}

#[test]
fn a_demonstration_is_told_too() {
    let (address, rx) = receiver(TAKEN);
    let home = Home::new(&provider());
    let (code, _, err) = run(told(&home, address).env("TMPDIR", home.path("home")).arg("demo"));
    assert_eq!((code, err.as_str()), (0, ""));
    let received: Vec<_> = rx.try_iter().collect();
    let spans = spans(&received);
    let names: Vec<_> = spans.iter().map(|(span, _)| span["name"].as_str().unwrap()).collect();
    assert_eq!(names.last(), Some(&"invoke_agent default"));
    assert_eq!(names.iter().filter(|name| **name == "execute_tool bash").count(), 2, "{names:?}");
    let traces: std::collections::HashSet<_> =
        spans.iter().map(|(span, _)| span["traceId"].as_str().unwrap()).collect();
    assert_eq!(traces.len(), 1);
    let (code, out, err) = run(told(&home, NOBODY.parse().unwrap())
        .env("TMPDIR", home.path("home"))
        .env("OTEL_EXPORTER_OTLP_PROTOCOL", "thrift")
        .arg("demo"));
    assert_eq!(code, 0, "{out}");
    assert_eq!(err.matches("bowline: no traces: ").count(), 1, "{err}");
}

#[test]
fn nobody_is_told_who_was_not_named() {
    let (address, rx) = receiver(TAKEN);
    let provider = provider();
    let home = Home::new(&provider);
    let (code, ..) = run(told(&home, address).env("OTEL_SDK_DISABLED", "true").args(["exec", "x"]));
    assert_eq!(code, 0);
    let (code, ..) = run(home.bowline().args(["exec", "x"]));
    assert_eq!(code, 0);
    assert_eq!(rx.try_iter().count(), 0);
}

#[test]
fn the_configuration_says_where_and_how_much_and_whose_names() {
    let (address, rx) = receiver(TAKEN);
    let config = format!(
        "[trace]\nendpoint = \"http://{address}\"\nprotocol = \"http/json\"\ncompat = \"pingu\"\n"
    );
    let provider = provider();
    let home = Home::with(&provider, &config);
    let secret = "sk-known-secret-1";
    let (code, _, err) = run(home
        .bowline()
        .env("GROQ_API_KEY", secret)
        .args(["exec", &format!("Do not tell {secret}.")]));
    assert_eq!(code, 0, "{err}");
    assert!(!err.contains("no effect"), "{err}");
    let spans = spans(&rx.try_iter().collect::<Vec<_>>());
    let names: Vec<_> = spans.iter().map(|(span, _)| span["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["llm.chat", "bash", "llm.chat", "agent.run"]);
    assert_eq!(spans[3].1["user.message"], "Do not tell [secret GROQ_API_KEY].");
    assert_eq!(spans[1].1["gen_ai.tool.input"], r#"{"command":"echo from-the-tool"}"#);
    assert!(spans[1].1["gen_ai.tool.output"].as_str().unwrap().contains("from-the-tool"));
}

#[test]
fn what_is_wrong_with_the_settings_keeps_nobody_from_working() {
    let provider = provider();
    let home = Home::new(&provider);
    for (name, value) in [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "ftp://a"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "thrift"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "a b=c"),
        ("OTEL_TRACES_EXPORTER", "console"),
        ("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip"),
    ] {
        let (code, out, err) =
            run(told(&home, NOBODY.parse().unwrap()).env(name, value).args(["exec", "x"]));
        assert_eq!((code, out.trim()), (0, "All done."), "{err}");
        assert_eq!(err.matches("bowline: no traces: ").count(), 1, "{err}");
    }
}

#[test]
fn a_receiver_that_does_not_take_anything_costs_one_line() {
    let gone = NOBODY.parse().unwrap();
    let refusal = "HTTP/1.1 400 Bad\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n\"no room\"";
    let (refusing, _rx) = receiver(refusal);
    // It takes connections and never says a word.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let provider = provider();
    let home = Home::new(&provider);
    for (address, milliseconds, what) in [
        (gone, "60000", "Connection refused"),
        (refusing, "60000", "400 Bad Request \"no room\""),
        (silent.local_addr().unwrap(), "300", "no answer within 300ms"),
    ] {
        let (code, out, err) = run(told(&home, address)
            .env("OTEL_EXPORTER_OTLP_TIMEOUT", milliseconds)
            .args(["exec", "x"]));
        assert_eq!((code, out.trim()), (0, "All done."), "{err}");
        let lines: Vec<_> = err.lines().filter(|line| line.contains("traces")).collect();
        assert_eq!(lines.len(), 1, "{err}");
        let address = format!("bowline: traces did not reach http://{address}/v1/traces: ");
        assert!(lines[0].starts_with(&address) && lines[0].contains(what), "{err}");
        assert!(lines[0].ends_with(", 4 span(s) lost"), "{err}");
    }
}

#[test]
fn a_receiver_that_is_busy_is_asked_again() {
    let busy = "HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n";
    let (address, rx) = receiver_of(busy, TAKEN);
    let provider = provider();
    let home = Home::new(&provider);
    let (code, _, err) =
        run(told(&home, address).env("OTEL_METRICS_EXPORTER", "none").args(["exec", "x"]));
    assert_eq!((code, err.contains("traces")), (0, false), "{err}");
    let bodies: Vec<_> = rx.try_iter().map(|received| received.body).collect();
    assert_eq!(bodies.len(), 2);
    assert_eq!(bodies[0], bodies[1]);
}

#[test]
fn a_run_that_was_killed_goes_on_in_the_same_trace() {
    let (address, rx) = receiver(TAKEN);
    let (asked_tx, asked) = mpsc::channel();
    let (go_tx, go) = mpsc::channel::<()>();
    let (asked_tx, go) = (std::sync::Mutex::new(asked_tx), std::sync::Mutex::new(go));
    let provider = Provider::answering(move |request| {
        if results(request) == 0 {
            let command = json!({ "command": "true" });
            return Reply::Calls(vec![("call_1".to_owned(), "bash", command)]);
        }
        asked_tx.lock().unwrap().send(()).unwrap();
        let _ = go.lock().unwrap().recv_timeout(PATIENCE);
        Reply::Text("All done.".to_owned())
    });
    let home = Home::new(&provider);
    let mut first = told(&home, address)
        .env("OTEL_BSP_SCHEDULE_DELAY", "1")
        .args(["exec", "x"])
        .spawn()
        .unwrap();
    asked.recv_timeout(PATIENCE).unwrap();
    // One by one or both at once.
    let mut received = Vec::new();
    while spans(&received).len() < 2 {
        received.push(rx.recv_timeout(PATIENCE).unwrap());
    }
    first.kill().unwrap();
    first.wait().unwrap();
    go_tx.send(()).unwrap();
    go_tx.send(()).unwrap();
    let (code, out, err) = run(told(&home, address).args(["exec", "--continue"]));
    assert_eq!((code, out.trim()), (0, "All done."), "{err}");
    received.extend(rx.try_iter());
    let spans = spans(&received);
    let names: Vec<_> = spans.iter().map(|(span, _)| span["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["chat model", "execute_tool bash", "chat model", "invoke_agent default"]);
    let (root, _) = spans.last().unwrap();
    for (span, _) in &spans[..3] {
        assert_eq!((&span["traceId"], &span["parentSpanId"]), (&root["traceId"], &root["spanId"]));
    }
}

/// A receiver of gRPC on a thread of its own: what it is sent comes out of the channel.
fn grpc(status: &'static str) -> (SocketAddr, mpsc::Receiver<(String, Bytes)>) {
    let (tx, rx) = mpsc::channel();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                tokio::spawn(serve_grpc(stream, status, tx.clone()));
            }
        });
    });
    (address, rx)
}

async fn serve_grpc(
    stream: tokio::net::TcpStream,
    status: &'static str,
    tx: mpsc::Sender<(String, Bytes)>,
) {
    let mut connection = h2::server::handshake(stream).await.unwrap();
    while let Some(Ok((request, mut respond))) = connection.accept().await {
        let tx = tx.clone();
        tokio::spawn(async move {
            let (parts, mut body) = request.into_parts();
            assert_eq!(parts.headers["content-type"], "application/grpc");
            assert_eq!(parts.headers["te"], "trailers");
            let mut all = Vec::new();
            while let Some(Ok(chunk)) = body.data().await {
                body.flow_control().release_capacity(chunk.len()).unwrap();
                all.extend(chunk);
            }
            let _ = tx.send((parts.uri.path().to_owned(), all.into()));
            let answer = http::Response::builder().header("content-type", "application/grpc");
            let mut out = respond.send_response(answer.body(()).unwrap(), false).unwrap();
            // An empty message: everything was taken.
            out.send_data(Bytes::from_static(&[0; 5]), false).unwrap();
            let trailers = [("grpc-status", status), ("grpc-message", "said so")];
            let trailer = |(name, value): (&'static str, &'static str)| {
                (http::HeaderName::from_static(name), http::HeaderValue::from_static(value))
            };
            out.send_trailers(trailers.map(trailer).into_iter().collect()).unwrap();
        });
    }
}

#[test]
fn grpc_is_spoken_with_those_who_want_it() {
    let provider = provider();
    let home = Home::new(&provider);
    for (status, is_taken) in [("0", true), ("3", false)] {
        let (address, rx) = grpc(status);
        let (code, out, err) = run(told(&home, address)
            .env("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
            .args(["exec", "x"]));
        assert_eq!((code, out.trim()), (0, "All done."), "{err}");
        assert_eq!(err.contains("gRPC status 3 said so"), !is_taken, "{err}");
        let calls: Vec<_> = rx.try_iter().collect();
        let paths: Vec<_> = calls.iter().map(|(path, _)| path.as_str()).collect();
        assert_eq!(
            paths,
            [
                "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
                "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
            ]
        );
        for (_, body) in calls {
            assert_eq!(body[0], 0, "not compressed");
            let length = u32::from_be_bytes(body[1..5].try_into().unwrap());
            assert_eq!(length as usize, body.len() - 5);
        }
    }
}

#[test]
fn doctor_says_where_traces_go_and_whether_they_arrive() {
    let provider = provider();
    let home = Home::new(&provider);
    let traces = |command: &mut Command| {
        let (_, out, _) = run(command.args(["doctor", "--json"]));
        let report: Value = serde_json::from_str(&out).unwrap();
        let checks = report["checks"].as_array().unwrap().clone();
        checks.into_iter().find(|check| check["name"] == "traces").unwrap()
    };
    let check = traces(&mut home.bowline());
    assert_eq!(check["status"], "ok");
    assert!(check["what"].as_str().unwrap().starts_with("go nowhere"));
    let (address, rx) = receiver(TAKEN);
    let check = traces(&mut told(&home, address));
    let url = format!("http://{address}/v1");
    assert_eq!(check["what"], format!("go to {url}/traces, {url}/metrics, which takes them"));
    assert_eq!(rx.try_iter().count(), 2);
    let gone = NOBODY.parse().unwrap();
    let check = traces(&mut told(&home, gone));
    assert_eq!(check["status"], "problem");
    assert!(check["what"].as_str().unwrap().contains("Connection refused"));
}
