use std::path::Path;
use std::sync::Arc;

use pretty_assertions::assert_eq;

use super::super::node::{self, Origin};
use super::super::{Config, check, read};
use super::*;

fn origin() -> Arc<Origin> {
    Arc::new(Origin::File(Path::new("config").to_owned()))
}

fn lookup(name: &str) -> Option<String> {
    (name == "HOST").then(|| "models.lan".to_owned())
}

/// Reads a configuration: what is ours of it, and what is ignored.
fn ours(table: Result<Table, Wrong>) -> (Config, toml::Table, Vec<String>) {
    let Ours { table, ignored } = to_ours(table.unwrap(), &lookup).unwrap();
    (check::check(&table).unwrap(), node::to_toml(&table), ignored)
}

const PINGU: &str = r#"
default_llm = "fast"

[llm.fast]
model = "gpt-4.1-nano"
api_key = "sk-1"

[llm.local]
model = "qwen3"
base_url = "http://127.0.0.1:8080/v1"
api_key = ""

[gateway]
addr = ":8484"
token = "t"

[db]
path = "~/.local/share/pingu/pingu.db"

[channel.telegram]
enabled = true
type = "telegram"

[channel.telegram.settings]
bot_token = "b"
allowed_users = "1,2"

[agent.orchestrator]
system_prompt = "Lead."
tools = ["delegate", "message"]

[agent.sysinfo]
system_prompt = "Look."
tools = []

[services.brave]
api_key = "k"

[trace]
endpoint = ""
url_path = "/v1/traces"
api_key = "k"

[memory]
vector_weight = 0.7

[memory.embedding]
enabled = true

[audio]
whisper_model = "base"
"#;

#[test]
fn a_configuration_of_pingu_loads() {
    let (config, _, ignored) = ours(read::toml(PINGU, &origin()));
    assert_eq!(config.model.as_deref(), Some("fast"));
    let fast = &config.providers["fast"];
    assert_eq!(fast.model.as_deref(), Some("gpt-4.1-nano"));
    assert_eq!(fast.base_url.as_deref(), Some("https://api.openai.com/v1"));
    assert_eq!(fast.api_key, Some("sk-1".into()));
    let local = &config.providers["local"];
    // What OpenAI speaks is told by its address; pingu's other servers speak Chat Completions.
    assert_eq!((fast.wire, local.wire), (None, Some(crate::config::Wire::Chat)));
    assert_eq!(local.base_url.as_deref(), Some("http://127.0.0.1:8080/v1"));
    assert_eq!((&local.api_key, &local.api_key_env), (&None, &None));
    assert_eq!(config.agents.keys().collect::<Vec<_>>(), ["orchestrator", "sysinfo"]);
    assert_eq!(config.agents["sysinfo"].instructions, "Look.");
    assert_eq!(ignored, ["gateway", "db", "channel", "services", "memory", "audio"]);
    // Who has `message` speaks with it, who has no `delegate` does not delegate, and no tools are all.
    let (first, sysinfo) = (&config.agents["orchestrator"], &config.agents["sysinfo"]);
    assert_eq!(config.entry_agent.as_deref(), Some("orchestrator"));
    assert_eq!((first.tools.as_deref(), first.max_depth), (Some(&[][..]), None));
    assert_eq!(first.output, crate::config::OutputMode::MessageTool);
    assert_eq!(sysinfo.tools.as_deref(), Some(&["*".to_owned()][..]));
    assert_eq!(config.without_effect(), Vec::<String>::new());
    let trace = &config.trace;
    assert_eq!((trace.endpoint.as_deref(), trace.path.as_deref()), (Some(""), Some("/v1/traces")));
    assert_eq!(trace.headers["authorization"], "Bearer k");
}

#[test]
fn pingu_without_a_default_takes_openai() {
    let (config, _, _) = ours(read::toml("[llm.openai]\nmodel = \"gpt-x\"\n", &origin()));
    assert_eq!(config.model.as_deref(), Some("openai"));
    assert_eq!(config.providers["openai"].api_key_env.as_deref(), Some("OPENAI_API_KEY"));
}

const SHELLY: &str = r#"
providers:
  - name: claude
    kind: anthropic
    api_key: ${ANTHROPIC_API_KEY}
    model: claude-sonnet
    context_window: 200000
    max_tokens: 4096
    rate_limit:
      rpm: 50
      input_tpm: 100000
      base_delay: 1s
    batch:
      enabled: true
  - name: mine
    kind: openai
    base_url: http://$HOST:8080
    model: qwen3
  - name: other
    kind: grok
mcp_servers:
  - name: files
    command: mcp-files
    args: ["--root", "."]
agents:
  - name: assistant
    description: Helps.
    instructions: Help for $5.
    provider: mine
    toolboxes: [filesystem, {name: search, tools: [search_content, fs_stat]}]
    skills: []
    effects:
      - kind: compact
        params:
          threshold: 0.8
    options:
      max_iterations: 0
      warn_iterations: 4
      max_delegation_depth: 2
      max_handoffs: 1
      context_threshold: 0.6
      interaction_mode: interactive
      question_timeout: 90s
    skills_tags: [help]
    estimated_cost: cheap
    max_concurrency: 2
  - name: coder
    options: {interaction_mode: "", question_timeout: ""}
entry_agent: assistant
default_context_windows:
  openai: 32000
filesystem:
  permissions_file: p.json
git:
  work_dir: .
"#;

#[test]
fn a_configuration_of_shelly_loads() {
    let (config, table, ignored) = ours(read::yaml(SHELLY, &origin()));
    assert_eq!(config.model.as_deref(), Some("mine"));
    let claude = &config.providers["claude"];
    assert_eq!(claude.wire, Some(crate::config::Wire::Anthropic));
    assert_eq!(claude.api_key_env.as_deref(), Some("ANTHROPIC_API_KEY"));
    assert_eq!((claude.context_window, claude.max_output_tokens), (Some(200_000), Some(4096)));
    let limit = claude.rate_limit.unwrap();
    assert_eq!((limit.rpm, limit.input_tpm, limit.output_tpm), (50, 100_000, 0));
    assert_eq!(limit.base_delay.map(|delay| delay.0.as_secs()), Some(1));
    let mine = &config.providers["mine"];
    assert_eq!(mine.base_url.as_deref(), Some("http://models.lan:8080/v1"));
    assert_eq!(mine.wire, Some(crate::config::Wire::Chat));
    assert_eq!(mine.context_window, Some(32_000));
    // A server of one's own gets nobody else's key.
    assert_eq!(mine.api_key_env, None);
    assert_eq!(config.providers["other"].api_key_env.as_deref(), Some("XAI_API_KEY"));
    let effects: toml::Table =
        toml::from_str("effects = [{ kind = \"compact\", params = { threshold = 0.8 } }]").unwrap();
    assert_eq!(table["agents"]["assistant"]["effects"], effects["effects"]);
    assert_eq!(table["agents"]["assistant"]["instructions"].as_str(), Some("Help for $5."));
    assert_eq!(table["mcp_servers"]["files"]["command"].as_str(), Some("mcp-files"));
    assert_eq!(ignored, ["agents.assistant.toolboxes fs_stat", "filesystem", "git"]);
    let agent = &config.agents["assistant"];
    let toolbox = |name: &str, tools: Option<&[&str]>| crate::config::ToolboxConfig {
        name: name.to_owned(),
        tools: tools.map(|tools| tools.iter().map(|&tool| tool.to_owned()).collect()),
    };
    let toolboxes =
        [toolbox("ask", None), toolbox("filesystem", None), toolbox("search", Some(&["grep"]))];
    assert_eq!(agent.toolboxes.as_deref(), Some(&toolboxes[..]));
    assert_eq!((agent.skills.as_deref(), agent.model().as_deref()), (None, Some("mine")));
    assert_eq!((agent.limits.model_turns, agent.warn_turns), (Some(0), 4));
    assert_eq!((agent.max_depth, agent.max_handoffs), (Some(2), Some(1)));
    assert_eq!(agent.context_threshold, Some(0.6));
    assert_eq!(agent.interaction, crate::config::Interaction::Interactive);
    assert_eq!(agent.question_timeout.map(|time| time.0.as_secs()), Some(90));
    assert_eq!(agent.estimated_cost, Some(crate::config::Cost::Cheap));
    assert_eq!((agent.max_concurrency, &*agent.skills_tags), (Some(2), &["help".to_owned()][..]));
    assert_eq!(agent.effects().last().map(|effect| effect.kind()), Some("inject"));
    assert_eq!(config.agents["coder"].question_timeout, None);
}

#[test]
fn the_first_provider_of_shelly_runs_if_no_agent_names_one() {
    let text = "providers:\n- {name: a, kind: openai, model: m}\nagents:\n- name: x\n";
    let (config, _, _) = ours(read::yaml(text, &origin()));
    assert_eq!(config.model.as_deref(), Some("a"));
    assert_eq!(config.entry_agent.as_deref(), Some("x"));
}

#[test]
fn complaints_point_into_the_file_as_it_is_written() {
    let wrong = |text: &str| match read::yaml(text, &origin()) {
        Ok(table) => match to_ours(table, &lookup) {
            Ok(ours) => {
                let fault = check::check(&ours.table).unwrap_err().remove(0);
                (fault.place.and_then(|place| place.line), fault.what)
            }
            Err(wrong) => wrong,
        },
        Err(wrong) => wrong,
    };
    let unknown = wrong("providers:\n  - name: a\n    kind: bard\n");
    assert_eq!(unknown.0, Some(3));
    assert!(unknown.1.contains("\"bard\" is unknown"), "{}", unknown.1);
    let key = wrong("providers:\n  - name: a\n    kind: openai\n    modle: x\n");
    assert_eq!(key.0, Some(4));
    assert!(key.1.contains("did you mean \"model\""), "{}", key.1);
    let option = wrong("agents:\n  - name: a\n    options:\n      max_iteration: 1\n");
    assert_eq!(option.0, Some(4));
    assert!(option.1.contains("did you mean \"max_iterations\""), "{}", option.1);
    assert_eq!(wrong("agents:\n  - name: a\n  - name: a\n").0, Some(3));
    assert_eq!(wrong("agents:\n  - description: a\n").0, Some(2));
    assert_eq!(wrong("a: [\nb: c\n").0.is_some(), true);
    assert_eq!(wrong("model: 1\nmodel: 2\n").0, Some(2));
}

#[test]
fn references_are_replaced_and_other_dollars_stay() {
    assert_eq!(expanded("http://$HOST/${HOST}x", &lookup), "http://models.lan/models.lanx");
    assert_eq!(expanded("$NOBODY costs $5 ${", &lookup), " costs $5 ${");
    assert_eq!(whole_reference("${A_1}"), Some("A_1"));
    assert_eq!(whole_reference("$A"), Some("A"));
    assert_eq!(whole_reference("x$A"), None);
    assert_eq!(whole_reference("$A-b"), None);
}
