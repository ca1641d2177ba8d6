use std::sync::Arc;

use bowline_tools::Workspace;
use pretty_assertions::assert_eq;

use super::*;

fn environment(vars: &[(&str, &str)]) -> Environment {
    let vars = vars.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Environment { vars: vars.collect(), cwd: "/work".into() }
}

fn workspace() -> Workspace {
    let environment = bowline_tools::Environment::default();
    Workspace {
        cwd: "/work".into(),
        environment,
        processes: Arc::default(),
        scratch: "/tmp".into(),
        guard: Arc::new(bowline_tools::guard::Open),
    }
}

fn made(text: &str, vars: &[(&str, &str)]) -> Result<Configured, ConfigError> {
    let config: Config = toml::from_str(text).unwrap();
    configured(&config, &environment(vars), &workspace())
}

fn wrong(text: &str) -> String {
    made(text, &[]).unwrap_err().to_string()
}

#[test]
fn tools_of_all_kinds_are_made() {
    let all = made(
        r#"
        [tools.weather]
        kind = "http"
        description = "Tells the weather."
        url = "https://example.com/{city}"
        headers = { authorization = "Bearer ${WEATHER}" }
        timeout = "5s"
        [tools.weather.parameters]
        type = "object"
        required = ["city"]
        properties.city = { type = "string" }

        [tools.count]
        kind = "command"
        command = ["wc", "-l"]

        [tools.report]
        kind = "command"
        script = "make report"

        [tools.research]
        kind = "agent"
        agent = "researcher"
        task = "Find out about {topic}."
        parameters = { type = "object", properties = { topic = { type = "string" } } }
        "#,
        &[("WEATHER", "w-12345678")],
    );
    let all = all.unwrap();
    assert_eq!(all.tools.names().collect::<Vec<_>>(), ["count", "report", "weather"]);
    let block = all.tools.block();
    assert_eq!(
        block.specs()[2].schema.as_str(),
        r#"{"properties":{"city":{"type":"string"}},"required":["city"],"type":"object"}"#
    );
    assert_eq!(block.specs()[2].description, "Tells the weather.");
    let [research] = &all.agents[..] else { panic!("{:?}", all.agents) };
    let arguments = json!({ "topic": "knots" });
    let task = research.task.fill(arguments.as_object().unwrap(), bowline_tools::plain);
    assert_eq!((research.agent.as_str(), task.as_str()), ("researcher", "Find out about knots."));
    let [(name, secret)] = &all.secrets[..] else { panic!("{:?}", all.secrets) };
    assert_eq!((name.as_str(), secret.expose()), ("WEATHER", "w-12345678"));
}

#[test]
fn a_variable_that_plainly_holds_no_secret_is_none() {
    let all = made(
        "[tools.x]\nscript = \"true\"\nenv = { A = \"$HOME/bin\", B = \"$MODE\", C = \"$API_KEY\", D = \"$OTHER\" }",
        &[("HOME", "/home/me"), ("MODE", "debug"), ("API_KEY", "plain"), ("OTHER", "a1b2c3")],
    );
    let secrets = all.unwrap().secrets;
    let names: Vec<_> = secrets.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["API_KEY", "OTHER"]);
}

#[test]
fn what_is_wrong_is_told_with_the_name_of_the_tool() {
    let cases = [
        ("kind = 'http'", "tool \"x\": a tool of kind http needs url"),
        ("kind = 'agent'\nagent = 'a'", "tool \"x\": a tool of kind agent needs task"),
        ("kind = 'command'", "tool \"x\": a tool of kind command needs command or script"),
        ("command = ['a']\nscript = 'b'", "tool \"x\": give command or script, not both"),
        ("command = ['a']\nurl = 'b'", "tool \"x\": url means nothing for a tool of kind command"),
        ("command = ['a', '{b}']", "tool \"x\": {b} is no argument of the tool; it has: "),
        (
            "command = ['a']\nparameters = { type = 'array' }",
            "tool \"x\": parameters: a schema with type = \"object\" is expected",
        ),
    ];
    for (text, told) in cases {
        assert_eq!(wrong(&format!("[tools.x]\n{text}")), told);
    }
    assert!(wrong("[tools.\"a b\"]\ncommand = ['a']").contains("a tool's name"));
    assert!(toml::from_str::<Config>("[tools.x]\nkind = 'mcp'").is_err());
    assert!(toml::from_str::<Config>("[tools.x]\ncomand = ['a']").is_err());
}

#[test]
fn tools_of_agent_core_are_read() {
    let tools = json!([
        { "type": "http", "name": "search", "description": "Searches.", "endpoint": "https://example.com/s",
          "parameters": { "properties": { "q": { "type": "string" } }, "required": ["q"] },
          "auth": { "type": "apikey", "apikey": "pa$HOME", "header": "X-Key" },
          "response_path": "results[0].x", "response_map": { "out": "in" } },
        { "type": "command", "name": "date", "command": "date", "args": ["-u"] },
        { "type": "http", "endpoint": "https://example.com/nameless" },
    ]);
    let tools = tools.to_string();
    let all = made("", &[("AGENT_TOOLS_JSON", &tools)]).unwrap();
    assert_eq!(all.tools.names().collect::<Vec<_>>(), ["date", "search"]);
    assert_eq!(all.secrets.iter().map(|(_, key)| key.expose()).collect::<Vec<_>>(), ["pa$HOME"]);
    let wrong = |tools: &str| made("", &[("AGENT_TOOLS_JSON", tools)]).unwrap_err().to_string();
    let mcp = wrong(r#"[{ "type": "mcp", "name": "files", "mcp_command": "x" }]"#);
    assert_eq!(mcp, "AGENT_TOOLS_JSON: the tool files: configure its server in [mcp_servers]");
    let basic = json!([{ "type": "http", "name": "b", "endpoint": "https://example.com/",
        "auth": { "type": "basic" } }]);
    assert!(wrong(&basic.to_string()).ends_with("auth of type \"basic\" is unknown"));
    let error = wrong("{}");
    assert!(error.starts_with("AGENT_TOOLS_JSON: no array of tools"), "{error}");
}
