//! Tools that a configuration describes: requests to a server of the test, and commands.

use std::sync::Arc;
use std::time::Duration;

use bowline_agent::OutputSchema;
use bowline_agent::tool::{DynTool, Recovery, ToolError};
use bowline_tools::{
    CommandConfig, CommandLine, CommandTool, Described, FetchConfig, HttpRequest, HttpTool,
};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::task::AbortOnDropHandle;

use crate::desk::{Desk, failure};

/// A server that tells what it was asked.
struct Echo {
    port: u16,
    _task: AbortOnDropHandle<()>,
}

impl Echo {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let task = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                answer(stream).await;
            }
        });
        Self { port, _task: AbortOnDropHandle::new(task) }
    }

    fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }
}

async fn answer(mut stream: TcpStream) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    let head = String::from_utf8(head).unwrap();
    let field = |name: &str| head.lines().find_map(|line| line.strip_prefix(name).map(str::trim));
    let mut body = vec![0; field("content-length:").unwrap_or("0").parse().unwrap()];
    stream.read_exact(&mut body).await.unwrap();
    let line = head.lines().next().unwrap();
    let typed = field("content-type:").unwrap_or("-");
    let key = field("x-key:").unwrap_or("-");
    let body = String::from_utf8(body).unwrap();
    let text = format!("{line}|{typed}|{key}|{body}");
    let path = line.split(' ').nth(1).unwrap();
    let response = match path {
        "/moved" => {
            "302 Found\r\nlocation: http://127.0.0.1:1/x\r\ncontent-length: 0\r\n\r\n".to_owned()
        }
        "/broken" => format!("500 Oops\r\ncontent-length: {}\r\n\r\n{text}", text.len()),
        "/json" => {
            let json = r#"{"results":[{"name":"a","size":3}]}"#;
            format!(
                "200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{json}",
                json.len()
            )
        }
        _ => format!(
            "200 OK\r\ncontent-type: text/plain\r\ncontent-length: {}\r\n\r\n{text}",
            text.len()
        ),
    };
    stream.write_all(format!("HTTP/1.1 {response}").as_bytes()).await.unwrap();
    stream.shutdown().await.ok();
}

fn described(name: &str) -> Described {
    let schema = json!({ "type": "object", "required": ["q"], "additionalProperties": false,
        "properties": { "q": { "type": "string" }, "n": { "type": "integer" }, "key": { "type": "string" } } });
    Described {
        name: name.to_owned(),
        description: "Searches.".to_owned(),
        arguments: OutputSchema::parse(&schema.to_string()).unwrap(),
    }
}

fn tool(request: &HttpRequest) -> HttpTool {
    HttpTool::new(described("find"), request, FetchConfig::default()).unwrap()
}

fn private(method: &str, url: String) -> HttpRequest {
    HttpRequest { method: method.to_owned(), url, allow_private: true, ..HttpRequest::default() }
}

async fn call(request: &HttpRequest, arguments: Value) -> Result<String, ToolError> {
    Desk::new().call(tool(request), arguments).await
}

#[tokio::test]
async fn arguments_go_where_the_configuration_puts_them() {
    let echo = Echo::start().await;
    let told = |text: &str| format!("[200 OK, text/plain]\n{text}");
    let get = HttpRequest {
        headers: vec![("X-Key".into(), "k {key}".into())],
        ..private("get", echo.url("/s/{q}?fixed=1"))
    };
    let asked = json!({ "q": "a/b ?&ä", "n": 2, "key": "secret" });
    let line = "GET /s/a%2Fb%20%3F%26%C3%A4?fixed=1&n=2 HTTP/1.1|-|k secret|";
    assert_eq!(call(&get, asked).await.unwrap(), told(line));
    let post = private("POST", echo.url("/s"));
    let line = "POST /s HTTP/1.1|application/json|-|{\"n\":2,\"q\":\"a\\\"b\"}";
    assert_eq!(call(&post, json!({ "q": "a\"b", "n": 2 })).await.unwrap(), told(line));
    let body = r#"{"query": {"text": {q}}, "limit": {n}}"#.to_owned();
    let post = HttpRequest { body: Some(body), ..private("PUT", echo.url("/s")) };
    let line =
        "PUT /s HTTP/1.1|application/json|-|{\"query\": {\"text\": \"\\\"}, {\"}, \"limit\": null}";
    assert_eq!(call(&post, json!({ "q": "\"}, {" })).await.unwrap(), told(line));
    let form = HttpRequest {
        headers: vec![("content-type".into(), "application/x-www-form-urlencoded".into())],
        body: Some("q={q}&n={n}".to_owned()),
        ..private("POST", echo.url("/s"))
    };
    let line = "POST /s HTTP/1.1|application/x-www-form-urlencoded|-|q=a%26b%3D&n=7";
    assert_eq!(call(&form, json!({ "q": "a&b=", "n": 7 })).await.unwrap(), told(line));
}

#[tokio::test]
async fn parts_of_an_answer_are_shown_and_errors_told() {
    let echo = Echo::start().await;
    let picked = HttpRequest {
        response_path: Some("results[0]".into()),
        response_map: vec![("who".into(), "name".into())],
        ..private("GET", echo.url("/json"))
    };
    let q = || json!({ "q": "x" });
    assert_eq!(
        call(&HttpRequest { url: echo.url("/json"), ..picked.clone() }, q())
            .await
            .unwrap_err()
            .to_string(),
        {
            // The query makes it another address there.
            "the answer is no JSON: expected value at line 1 column 1\nGET /json?q=x HTTP/1.1|-|-|"
        }
    );
    let bodied = HttpRequest { body: Some("{arguments}".into()), ..picked };
    assert_eq!(call(&bodied, q()).await.unwrap(), "[200 OK, application/json]\n{\"who\":\"a\"}");
    let post = |path: &str| private("POST", echo.url(path));
    let why = failure(call(&post("/broken"), q()).await);
    assert!(why.contains("500") && why.contains("POST /broken"), "{why}");
    let why = failure(call(&post("/moved"), q()).await);
    assert_eq!(why, "302 Found: redirected to http://127.0.0.1:1/x, not followed");
}

#[tokio::test]
async fn no_argument_leads_to_another_place() {
    let echo = Echo::start().await;
    let here = private("GET", echo.url("/safe/{q}/end"));
    for q in ["..", ".", "../..", "a\\..\\b", "a/./b"] {
        let why = failure(call(&here, json!({ "q": q })).await);
        assert!(why.starts_with("the arguments make no address: http://127.0.0.1"), "{q}: {why}");
    }
    for q in ["@evil.example/", "%2e%2e", "x\r\ny: z", "//evil.example"] {
        let said = call(&here, json!({ "q": q })).await.unwrap();
        let path = said.split(' ').nth(3).unwrap();
        assert!(path.starts_with("/safe/") && path.ends_with("/end"), "{q}: {said}");
        assert_eq!(path.matches('/').count(), 3, "{q}: {said}");
    }
    let header = HttpRequest {
        headers: vec![("x-key".into(), "{key}".into())],
        ..private("GET", echo.url("/"))
    };
    let why = failure(call(&header, json!({ "q": "x", "key": "a\r\nx-evil: b" })).await);
    assert_eq!(why, "the header x-key cannot have what was given for it");
    // As with `fetch`: what is not public is reached only if the configuration says so.
    let guarded = HttpRequest { allow_private: false, ..private("GET", echo.url("/{q}")) };
    assert!(failure(call(&guarded, json!({ "q": "x" })).await).contains("is not a public address"));
}

#[tokio::test]
async fn arguments_are_checked_before_anything_runs() {
    let request = private("POST", "http://127.0.0.1:1/x".to_owned());
    for wrong in
        [json!({}), json!({ "q": 1 }), json!({ "q": "x", "m": 1 }), json!({ "q": "x", "n": 1.5 })]
    {
        let why = failure(call(&request, wrong.clone()).await);
        assert!(why.starts_with("the arguments do not fit: "), "{wrong}: {why}");
    }
    let prepared = Arc::new(tool(&request)).prepare(r#"{"q":"x"}"#).unwrap();
    assert_eq!(
        (prepared.recovery, &*prepared.access.network),
        (Recovery::Unknown, &["127.0.0.1".to_owned()][..])
    );
    let get = private("GET", "http://127.0.0.1:1/x".to_owned());
    assert_eq!(Arc::new(tool(&get)).prepare(r#"{"q":"x"}"#).unwrap().recovery, Recovery::Rerun);
    assert!(!format!("{:?}", tool(&get)).contains("127"));
}

#[test]
fn a_request_that_makes_no_sense_is_refused() {
    let refused = |request: &HttpRequest| {
        HttpTool::new(described("x"), request, FetchConfig::default()).unwrap_err()
    };
    let url = |url: &str| refused(&private("GET", url.to_owned()));
    assert!(url("ftp://x/").contains("no http address"));
    assert!(url("example.com").contains("no http address"));
    assert!(url("https://{q}.example.com/").contains("which server"));
    assert!(url("https://me:pw@example.com/").contains("goes into a header"));
    assert!(
        url("https://example.com/{query}").contains("{query} is no argument of the tool; it has:")
    );
    let base = private("GET", "https://example.com/".to_owned());
    assert!(refused(&HttpRequest { method: "BREW".into(), ..base.clone() }).contains("no method"));
    let bad_header = vec![("a b".to_owned(), "x".to_owned())];
    assert!(
        refused(&HttpRequest { headers: bad_header, ..base.clone() }).contains("name of a header")
    );
    assert!(
        refused(&HttpRequest { response_path: Some("a..b".into()), ..base })
            .contains("no way into")
    );
}

fn config(line: CommandLine) -> CommandConfig {
    CommandConfig { line, env: vec![("GREETING".into(), "hi".into())], cwd: None, timeout: None }
}

fn argv(parts: &[&str]) -> CommandLine {
    CommandLine::Program(parts.iter().map(|part| (*part).to_owned()).collect())
}

async fn command(desk: &Desk, line: CommandLine, arguments: Value) -> Result<String, ToolError> {
    let tool = CommandTool::new(described("say"), config(line), desk.workspace.clone()).unwrap();
    desk.call(tool, arguments).await
}

#[tokio::test]
async fn a_program_gets_its_arguments_without_a_shell() {
    let desk = Desk::new();
    let line = || argv(&["printf", "%s|", "{q}", "n={n}", "{n}", "{arguments}"]);
    let said = command(&desk, line(), json!({ "q": "$(id) `id`; *", "n": -3 })).await.unwrap();
    assert_eq!(said, "$(id) `id`; *|n=-3|-3|{\"n\":-3,\"q\":\"$(id) `id`; *\"}|");
    let why = failure(command(&desk, line(), json!({ "q": "--help" })).await);
    assert_eq!(why, "\"--help\" may not begin with -");
    let behind = argv(&["printf", "--", "%s", "{q}"]);
    assert_eq!(command(&desk, behind, json!({ "q": "--help" })).await.unwrap(), "--help");
    let why = failure(command(&desk, argv(&["false"]), json!({ "q": "" })).await);
    assert_eq!(why, "[exit code 1]");
    let why = failure(command(&desk, argv(&["no-such-program"]), json!({ "q": "" })).await);
    assert_eq!(why, "no-such-program is not installed");
    for wrong in
        [argv(&[]), argv(&["{q}"]), argv(&["echo", "{z}"]), CommandLine::Script(" ".into())]
    {
        let refused =
            CommandTool::new(described("x"), config(wrong.clone()), desk.workspace.clone());
        assert!(refused.is_err(), "{wrong:?}");
    }
}

#[tokio::test]
async fn a_script_finds_its_arguments_in_variables() {
    let desk = Desk::new();
    let script = "echo \"$GREETING $ARG_q\"; echo \"$ARGUMENTS\"; pwd; echo \"{q}\"";
    let line = CommandLine::Script(script.to_owned());
    let said =
        command(&desk, line.clone(), json!({ "q": "\"; touch x; $(touch y)" })).await.unwrap();
    let cwd = desk.workspace.cwd.display();
    let all = r#"{"q":"\"; touch x; $(touch y)"}"#;
    assert_eq!(said, format!("hi \"; touch x; $(touch y)\n{all}\n{cwd}\n{{q}}\n"));
    assert!(!desk.path("x").exists() && !desk.path("y").exists());
    let tool = CommandTool::new(described("say"), config(line), desk.workspace.clone()).unwrap();
    let prepared = Arc::new(tool).prepare(r#"{"q":"x"}"#).unwrap();
    assert_eq!(prepared.access.execute.as_deref(), Some(r#"say {"q":"x"}"#));
    assert_eq!(prepared.recovery, Recovery::Unknown);
}

#[tokio::test]
async fn a_command_has_its_own_folder_and_time() {
    let desk = Desk::new();
    std::fs::create_dir(desk.path("sub")).unwrap();
    let inside = CommandConfig { cwd: Some("sub".into()), ..config(argv(&["pwd"])) };
    let tool = CommandTool::new(described("where"), inside, desk.workspace.clone()).unwrap();
    let said = desk.call(tool, json!({ "q": "" })).await.unwrap();
    assert_eq!(said.trim_end(), desk.path("sub").display().to_string());
    let timeout = Some(Duration::from_millis(50));
    let slow = CommandConfig { timeout, ..config(argv(&["sleep", "100"])) };
    let tool = CommandTool::new(described("slow"), slow, desk.workspace.clone()).unwrap();
    let late = desk.call(tool, json!({ "q": "" })).await;
    assert!(matches!(&late, Err(ToolError::TimedOut(why)) if why.contains("0.05 s")), "{late:?}");
}
