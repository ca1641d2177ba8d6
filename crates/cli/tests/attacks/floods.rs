//! Output without end: whatever comes, bowline's memory stays small, and so do the log and the next request.

use std::fs::File;
use std::io::{BufRead as _, BufReader, BufWriter, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::support::{Home, Provider, Reply, messages, results};

/// How much comes, in bytes.
const FLOOD: usize = 100_000_000;

/// By how much the memory of bowline may grow, in KiB: less than what comes, whatever is done with it.
const GROWTH: u64 = 80 * 1024;

/// How long a result may be, with the words around it, in bytes.
const RESULT: usize = 66_000;

/// How it comes: as a command that writes it to standard output.
const SHAPES: [(&str, &str); 2] = [
    ("one line", "head -c 100000000 /dev/zero | tr '\\0' x"),
    ("many lines", "yes 0123456789 | head -c 100000000"),
];

/// Makes these calls, one after the other, and returns what each came to. Fails if memory, log or requests
/// grow with what comes.
fn told(
    config: &str,
    arguments: &[&str],
    calls: Vec<(&'static str, Value)>,
    home: Prepare,
) -> Vec<String> {
    let (process, peaks) = (Arc::new(AtomicU32::new(0)), Arc::new(Mutex::new(Vec::new())));
    let (asking, seen) = (Arc::clone(&process), Arc::clone(&peaks));
    let provider = Provider::answering(move |request| {
        seen.lock().unwrap().push(peak_of(&asking));
        let made = results(request);
        match calls.get(made) {
            Some((name, arguments)) => {
                Reply::Calls(vec![(format!("call-{made}"), *name, arguments.clone())])
            }
            None => Reply::Text("done".to_owned()),
        }
    });
    let prepare = home;
    let home = Home::with(&provider, config);
    prepare(&home.work());
    let mut command = home.bowline();
    command.args(["exec", "--json"]).args(arguments).arg("go");
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let running = command.spawn().unwrap();
    process.store(running.id(), Ordering::SeqCst);
    let output = running.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // When the first request is made nothing has come yet.
    let peaks = peaks.lock().unwrap();
    let grown = peaks[peaks.len() - 1] - peaks[0];
    assert!(grown < GROWTH, "{arguments:?}: grown by {grown} KiB: {peaks:?}");
    assert!(output.stdout.len() < 2_000_000, "{} bytes of events", output.stdout.len());
    let session = home.sessions().remove(0);
    let log = home.log(&session).metadata().unwrap().len();
    assert!(log < 1_000_000, "a log of {log} bytes");
    let request = provider.requests().pop().unwrap();
    let told = messages(&request).iter().filter(|message| message["role"] == "tool");
    let told: Vec<String> =
        told.map(|result| result["content"].as_str().unwrap().to_owned()).collect();
    assert!(told.iter().all(|result| result.len() <= RESULT), "{:?}", told.iter().map(String::len));
    told
}

/// What is done to the working folder before.
type Prepare = fn(&Path);

/// Returns the most memory that a process has had, in KiB, once it is known which.
fn peak_of(process: &AtomicU32) -> u64 {
    while process.load(Ordering::SeqCst) == 0 {
        std::thread::yield_now();
    }
    let status = format!("/proc/{}/status", process.load(Ordering::SeqCst));
    let status = std::fs::read_to_string(status).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    peak.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn a_command_that_floods_is_told_in_excerpts() {
    let calls = SHAPES.map(|(_, command)| ("bash", json!({ "command": command })));
    let told = told("", &[], calls.into(), |_| {});
    assert!(told[0].starts_with("xxx") && told[0].contains(" bytes cut here"), "{:.200}", told[0]);
    assert!(
        told[1].starts_with("0123456789\n") && told[1].contains(" lines, "),
        "{:.200}",
        told[1]
    );
}

/// Serves 100 MB of a page to whoever asks; ends when nobody listens any more.
fn page() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for shape in ["x", "<p>line\n"] {
            let (stream, _) = listener.accept().unwrap();
            let mut head = BufReader::new(stream.try_clone().unwrap()).lines();
            while head.next().is_some_and(|line| !line.unwrap().is_empty()) {}
            let mut out = BufWriter::new(stream);
            let _ = out.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\n\r\n");
            let chunk = shape.repeat(1 << 16);
            // Whoever has read enough closes the connection.
            let _ = (0..FLOOD / chunk.len()).try_for_each(|_| out.write_all(chunk.as_bytes()));
        }
    });
    address
}

#[test]
fn a_page_that_floods_is_loaded_in_part() {
    let url = page();
    let fetch = || ("fetch", json!({ "url": url }));
    let told = told("", &["--allow", "net(127.0.0.1)"], vec![fetch(), fetch()], |_| {});
    for (told, begins) in told.iter().zip(["xxx", "line\n"]) {
        assert!(told.starts_with(&format!("[200 OK, text/html]\n{begins}")), "{told:.200}");
        assert!(
            told.contains("only the first 1024 KiB were loaded"),
            "{}",
            &told[told.len() - 200..]
        );
    }
}

/// A server whose tools answer with 100 MB, with junk of as much before an answer, or with 400 kB that begin
/// like a secret everywhere.
const SERVER: &str = r#"
reply() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1"; }
text() { printf '{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"' "$id"; cat; printf '"}]}}\n'; }
while read -r line; do
  id=${line#*\"id\":}; id=${id%%[,\}]*}
  case $line in
    *'"initialize"'*) reply '{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"x","version":"1"}}' ;;
    *'"tools/list"'*) reply '{"tools":[{"name":"line","inputSchema":{"type":"object"}},{"name":"junk","inputSchema":{"type":"object"}},{"name":"secrets","inputSchema":{"type":"object"}}]}' ;;
    *'"name":"line"'*) head -c 100000000 /dev/zero | tr '\0' x | text ;;
    *'"name":"junk"'*) head -c 100000000 /dev/zero | tr '\0' x | fold -w 1000000; echo; echo fine | tr -d '\n' | text ;;
    *'"name":"secrets"'*) yes SG. | tr -d '\n' | head -c 400000 | text ;;
  esac
done
"#;

/// Calls a tool of the server, and returns what it came to.
fn told_by_server(tool: &'static str) -> String {
    let args = toml::Value::from(vec!["-c", SERVER]);
    let config = format!("[mcp_servers.flood]\ncommand = \"bash\"\nargs = {args}\n");
    told(&config, &[], vec![(tool, json!({}))], |_| {}).remove(0)
}

#[test]
fn an_answer_of_a_server_that_floods_is_an_error() {
    let told = told_by_server("mcp__flood__line");
    assert!(told.contains("longer than the 16 MiB that are taken"), "{told:.300}");
}

#[test]
fn what_floods_between_the_answers_of_a_server_is_passed_over() {
    assert_eq!(told_by_server("mcp__flood__junk"), "fine");
}

#[test]
fn an_answer_that_begins_like_a_secret_everywhere_is_searched_in_time() {
    let told = told_by_server("mcp__flood__secrets");
    assert!(told.starts_with("SG.SG.") && told.contains("bytes left out"), "{told:.300}");
}

#[test]
fn a_file_that_floods_is_read_and_searched_in_part() {
    let prepare = |work: &Path| {
        for (name, text) in [("line", "x"), ("lines", "0123456789\n")] {
            let mut file = File::create(work.join(name)).unwrap();
            let chunk = text.repeat(1 << 16);
            (0..FLOOD / chunk.len() + 1).for_each(|_| file.write_all(chunk.as_bytes()).unwrap());
        }
        // As much as is read, and mostly no text.
        let mut file = File::create(work.join("bytes")).unwrap();
        file.write_all(&[b'x'; 10_000]).unwrap();
        file.write_all(&vec![0xff; 32_000_000]).unwrap();
    };
    let read = |path: &str| ("read", json!({ "path": path }));
    let grep = |path: &str| ("grep", json!({ "pattern": "5|x$", "path": path, "context": 50 }));
    let calls =
        vec![read("line"), read("lines"), read("bytes"), grep("line"), grep("lines"), grep(".")];
    let config = "[undo]\nenabled = false\n";
    let told = told(config, &[], calls, prepare);
    for told in &told[..2] {
        assert!(told.contains("MiB, more than the 32 MiB that fit"), "{told:.300}");
    }
    assert!(told[2].starts_with("xxx") && told[2].contains("not UTF-8"), "{:.300}", told[2]);
    let unfinished = "1 files were not searched to the end: a line has more than 16 MiB]";
    assert_eq!(told[3], format!("no matches\n[{unfinished}"));
    assert!(told[4].starts_with("lines\n1:0123456789\n"), "{:.300}", told[4]);
    assert!(told[4].contains("2000 or more matches in 1 files"), "{:.300}", told[4]);
    assert!(told[5].contains("lines\n1:0123456789\n"), "{:.300}", told[5]);
    assert!(
        told[5].ends_with("\n[2 files were not searched to the end: a line has more than 16 MiB]"),
        "{}",
        &told[5][told[5].len() - 300..]
    );
}
