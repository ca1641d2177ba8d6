use pretty_assertions::assert_eq;

use bowline_tools::mcp::{Http, Program, Reach};

use super::*;

fn server(toml: &str) -> McpServer {
    toml::from_str(toml).unwrap()
}

fn lookup(name: &str) -> Option<&'static str> {
    (name == "API_TOKEN").then_some("tok-12345678")
}

#[test]
fn variables_are_looked_up_when_a_server_is_started() {
    let program = server(
        "command = \"${HOME_OF_IT:-npx}\"\nargs = [\"-y\", \"--key=${API_TOKEN}\"]\n\
         env = { A = \"${API_TOKEN}\", B = \"$5\" }\ncwd = \"sub\"\ntimeout = \"3s\"",
    );
    let ready = program.ready("x", &lookup);
    assert_eq!(ready.timeout, Some(std::time::Duration::from_secs(3)));
    let Ok(Reach::Program(Program { command, arguments, environment, cwd })) = ready.reach else {
        panic!("{:?}", ready.reach)
    };
    assert_eq!((command.as_str(), arguments.len()), ("npx", 2));
    assert_eq!(arguments[1], "--key=tok-12345678");
    let environment: Vec<_> = environment.iter().map(|(n, v)| (n.as_str(), v.expose())).collect();
    assert_eq!(environment, [("A", "tok-12345678"), ("B", "$5")]);
    assert_eq!(cwd, Some("sub".into()));

    let address =
        server("type = \"http\"\nurl = \"http://h/\"\nheaders = { a = \"Bearer ${NO}\" }");
    assert_eq!(address.ready("x", &lookup).reach.unwrap_err(), "the variable NO is not set");
    let address = server("url = \"http://h/\"\nheaders = { a = \"Bearer ${API_TOKEN}\" }");
    let Ok(Reach::Http(Http { headers, .. })) = address.ready("x", &lookup).reach else { panic!() };
    assert_eq!(headers[0].1.expose(), "Bearer tok-12345678");
}

#[test]
fn a_server_that_makes_no_sense_says_so() {
    for (toml, what) in [
        ("", "it has neither a command nor a url"),
        ("command = \"a\"\nurl = \"b\"", "it has a command and a url; one of them is enough"),
        ("type = \"http\"\ncommand = \"a\"", "it has no url"),
        ("type = \"stdio\"\nurl = \"a\"", "it has no command"),
    ] {
        assert_eq!(server(toml).ready("x", &lookup).reach.unwrap_err(), what, "{toml}");
    }
    let sse = server("type = \"sse\"\nurl = \"a\"").ready("x", &lookup).reach.unwrap_err();
    assert!(sse.starts_with("the transport sse"), "{sse}");
}

#[test]
fn what_a_server_is_given_is_kept_secret_but_not_its_paths_and_words() {
    let server = server(
        "command = \"x\"\nargs = [\"${API_TOKEN}\"]\n\
         headers = { authorization = \"Bearer abc-123\" }\n\
         env = { SOME = \"a1b2c3d4\", ROOT = \"/home/me/1\", LEVEL = \"debug\", PORT = \"8080\", \
         DB_PASSWORD = \"plain\", URL = \"http://host/1\", DB = \"pg://u:p@h/1\" }",
    );
    let secrets = server.secrets(&lookup);
    let secrets: Vec<_> = secrets.iter().map(|(name, it)| (name.as_str(), it.expose())).collect();
    let expected = [
        ("token of authorization", "abc-123"),
        ("authorization", "Bearer abc-123"),
        ("DB", "pg://u:p@h/1"),
        ("DB_PASSWORD", "plain"),
        ("SOME", "a1b2c3d4"),
        ("API_TOKEN", "tok-12345678"),
    ];
    assert_eq!(secrets, expected);
}

#[test]
fn what_other_programs_write_is_read_and_the_rest_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(".mcp.json");
    let text = r#"{ "mcpServers": {
        "a": { "type": "stdio", "command": "x", "timeout": 1500, "alwaysAllow": ["y"] },
        "b": { "type": "streamable-http", "url": "http://h/", "disabled": true } }, "inputs": [] }"#;
    std::fs::write(&path, text).unwrap();
    let layer = crate::config::file(&path, &Environment::default()).unwrap().unwrap();
    assert_eq!(layer.ignored, ["inputs", "mcpServers.a.alwaysAllow"]);
    let table: toml::Table =
        layer.table.iter().map(|(key, node)| (key.clone(), node.to_toml())).collect();
    let servers: BTreeMap<String, McpServer> = table["mcp_servers"].clone().try_into().unwrap();
    let timeout = Some(crate::config::Span(std::time::Duration::from_millis(1500)));
    let command = Some("x".to_owned());
    let a = McpServer { kind: Some(McpKind::Stdio), command, timeout, ..McpServer::default() };
    let url = Some("http://h/".to_owned());
    let b = McpServer { kind: Some(McpKind::Http), url, enabled: false, ..McpServer::default() };
    assert_eq!(servers, BTreeMap::from([("a".to_owned(), a), ("b".to_owned(), b)]));
    std::fs::write(&path, r#"{ "mcpServers": [] }"#).unwrap();
    let wrong = crate::config::file(&path, &Environment::default()).unwrap_err().to_string();
    assert!(wrong.ends_with(".mcp.json: line 1: mcpServers: a table is expected here"), "{wrong}");
}
