use std::path::PathBuf;

use pretty_assertions::assert_eq;
use tempfile::TempDir;

use crate::effects::EffectConfig;
use crate::environment::{Environment, Folders};
use crate::test_machine::folder_with;

use super::*;

/// A machine with files: `etc`, `home` for the user, `work` for the project.
struct Machine(TempDir);

impl Machine {
    fn new(files: &[(&str, &str)]) -> Self {
        Self(folder_with(&["work/.git"], files))
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    fn environment(&self, vars: &[(&str, &str)]) -> Environment {
        let vars = vars.iter().map(|&(name, value)| (name.to_owned(), value.to_owned()));
        Environment { vars: vars.collect(), cwd: self.path("work") }
    }

    fn load(&self, vars: &[(&str, &str)], said: &Said) -> Result<Loaded, String> {
        let folders = Folders {
            system: self.path("etc"),
            config: self.path("home"),
            data: self.path("data"),
            cache: self.path("cache"),
        };
        let root = format!("{}/", self.0.path().display());
        load(&folders, &self.environment(vars), said)
            .map_err(|error| error.to_string().replace(&root, ""))
    }

    fn explain(&self, loaded: &Loaded, key: &str) -> String {
        let root = format!("{}/", self.0.path().display());
        explain(loaded, &self.environment(&[]), Some(key)).unwrap().replace(&root, "")
    }
}

fn said(profile: Option<&str>, assignments: &[&str]) -> Said {
    let assignments = assignments.iter().map(|&assignment| assignment.to_owned()).collect();
    Said { profile: profile.map(str::to_owned), assignments, ..Said::default() }
}

fn set_to(turns: u32) -> String {
    format!("[limits]\nmodel_turns = {turns}\n")
}

#[test]
fn later_layers_win() {
    let user = format!("{}[profiles.fast.limits]\nmodel_turns = 3\n", set_to(2));
    let files = [
        ("etc/config.toml", set_to(1)),
        ("home/config.toml", user),
        ("home/fast.config.toml", set_to(4)),
    ];
    let files: Vec<_> = files.iter().map(|(path, text)| (*path, text.as_str())).collect();
    let variable = [("BOWLINE_LIMITS_MODEL_TURNS", "5")];
    let turns = |files: &[(&str, &str)], vars: &[(&str, &str)], said: &Said| {
        Machine::new(files).load(vars, said).unwrap().config.limits.headless().model_turns
    };
    let nothing = said(None, &[]);
    let fast = said(Some("fast"), &[]);
    assert_eq!(turns(&[], &[], &nothing), 100);
    assert_eq!(turns(&files[..1], &[], &nothing), 1);
    assert_eq!(turns(&files[..2], &[], &nothing), 2);
    assert_eq!(turns(&files[..2], &[], &fast), 3);
    assert_eq!(turns(&files, &[], &fast), 4);
    assert_eq!(turns(&files, &[("BOWLINE_PROFILE", "fast")], &nothing), 4);
    assert_eq!(turns(&files, &variable, &fast), 5);
    let all = said(Some("fast"), &["limits.model_turns=6", "limits.model_turns = 7"]);
    assert_eq!(turns(&files, &variable, &all), 7);
}

#[test]
fn explain_says_what_counts_and_what_does_not() {
    let machine = Machine::new(&[
        ("etc/config.toml", "model = \"a/a\"\n"),
        ("home/config.yaml", "# mine\nmodel: b/b\n"),
        ("work/.bowline/config.toml", "\n\nmodel = \"c/c\"\n"),
    ]);
    let loaded = machine.load(&[], &said(None, &["model=d/d"])).unwrap();
    assert_eq!(
        machine.explain(&loaded, "model"),
        "model = \"d/d\"  # -c\n    \
         not applied: \"c/c\"  # work/.bowline/config.toml:3\n    \
         instead of \"b/b\"  # home/config.yaml:2\n    \
         instead of \"a/a\"  # etc/config.toml:1\n"
    );
    assert_eq!(machine.explain(&loaded, "limits.tool_calls"), "limits.tool_calls = 0  # default\n");
    let environment = machine.environment(&[]);
    let unset = |key| explain(&loaded, &environment, Some(key)).unwrap_err();
    assert!(matches!(unset("providers.x.base_url"), Unset::NotSet(_)));
    assert!(matches!(unset("limits.model_turn"), Unset::Unknown(what) if what.contains("turns")));
}

#[test]
fn a_project_is_read_but_not_applied_until_it_is_trusted() {
    let machine = Machine::new(&[
        ("work/.bowline/config.toml", "model = \"evil/model\"\n"),
        ("work/.bowline/config.local.toml", "modle = 1\n"),
    ]);
    let loaded = machine.load(&[], &Said::default()).unwrap();
    assert_eq!(loaded.config.model, None);
    assert_eq!(loaded.notes.len(), 2);
    assert!(loaded.notes[0].contains("line 1: unknown key"), "{:?}", loaded.notes);
    assert!(loaded.notes[1].contains(".bowline/config.toml; the folder is not trusted"));
}

#[test]
fn faults_are_named_with_file_line_and_nearest_key() {
    let file = |path: &str, text: &str| {
        Machine::new(&[(path, text)]).load(&[], &Said::default()).unwrap_err()
    };
    let toml = |text: &str| file("home/config.toml", text);
    assert_eq!(
        toml("model = \"a/b\"\n\n[limits]\nmodel_turn = 1\n"),
        "home/config.toml: line 4: unknown key \"model_turn\" in [limits]; did you mean \
         \"model_turns\"?"
    );
    assert_eq!(
        toml("[limits]\nmodel_turns = \"many\"\n"),
        "home/config.toml: line 2: limits.model_turns: string \"many\"; expected is a whole \
         number, 0 or more"
    );
    assert_eq!(
        toml("[limits]\nmodel_turns = -1\n"),
        "home/config.toml: line 2: limits.model_turns: integer `-1`; expected is a whole number, \
         0 or more"
    );
    assert_eq!(
        toml("[permissions]\n\nmode = \"yolo\"\n"),
        "home/config.toml: line 3: permissions.mode: \"yolo\" is none of ask, accept-edits, plan, \
         auto, deny, bypass"
    );
    assert_eq!(
        toml("[limits]\nrun_time = \"soon\"\n"),
        "home/config.toml: line 2: limits.run_time: \"soon\" is no length of time; write it like \
         90s, 30m or 1h30m"
    );
    assert_eq!(
        toml("limits = 3\n"),
        "home/config.toml: line 1: limits: integer `3`; expected is a table"
    );
    assert_eq!(
        toml("model = \"gpt\"\n"),
        "home/config.toml: line 1: model: \"gpt\" has no provider; write it provider/model"
    );
    assert!(toml("\nmodel = \n").starts_with("home/config.toml: line 2: "));
    let secret = toml("[providers.p]\napi_key = [\"sk-secret\"]\n");
    assert!(secret.contains("line 2") && !secret.contains("sk-secret"), "{secret}");
    assert_eq!(
        file("etc/config.yaml", "providers:\n  x:\n    base_ulr: y\n"),
        "etc/config.yaml: line 3: unknown key \"base_ulr\" in [providers.x]; did you mean \
         \"base_url\"?"
    );
    for price in ["inf", "-0.1", "nan"] {
        let text = format!("[providers.p.models.m]\nprice = {{ input = 1, output = {price} }}\n");
        assert_eq!(
            toml(&text),
            "home/config.toml: line 2: providers.p.models.m.price: amounts of dollars, 0 or more, \
             are expected"
        );
    }
    assert_eq!(
        toml("durability = 1\n"),
        "home/config.toml: line 1: durability: a text is expected"
    );
    let far = toml("\nlocal_servers = [\n\"127.0.0.1:1\",\n\"10.0.0.1:1\"]\n");
    assert!(far.contains("line 4: local_servers: \"10.0.0.1:1\" is no address on"), "{far}");
    let two = file("home/config.yaml", "model: a/b\n---\nmodel: c/d\n");
    assert_eq!(two, "home/config.yaml: line 3: there is more than one document; keep one");
    let profile = toml("[profiles.x]\nmodle = \"a/b\"\n");
    assert!(profile.contains("line 2: unknown key \"modle\" in [profiles.x]"), "{profile}");
    let both = Machine::new(&[("home/config.toml", ""), ("home/config.yaml", "")]);
    assert!(both.load(&[], &Said::default()).unwrap_err().contains("keep one of them"));
}

#[test]
fn all_faults_of_a_file_are_named_in_the_order_of_its_lines() {
    let file = |path: &str, text: &str| {
        Machine::new(&[(path, text)]).load(&[], &Said::default()).unwrap_err()
    };
    let toml = "[limits]\ntool_call = 1\nrun_tim = \"1s\"\nmodel_turn = \"x\"\n\n[agents.a]\ntols = []\n\
                [[agents.a.effects]]\nkind = \"budget\"\n\n[permissions]\n\
                allow = [{ rule = \"bash\", reasn = \"x\", mach = [] }]\n";
    assert_eq!(
        file("home/config.toml", toml).lines().collect::<Vec<_>>(),
        [
            "home/config.toml: line 2: unknown key \"tool_call\" in [limits]; did you mean \
             \"tool_calls\"?",
            "home/config.toml: line 3: unknown key \"run_tim\" in [limits]; did you mean \"run_time\"?",
            "home/config.toml: line 4: unknown key \"model_turn\" in [limits]; did you mean \
             \"model_turns\"?",
            "home/config.toml: line 7: unknown key \"tols\" in [agents.a]; did you mean \"tools\"?",
            "home/config.toml: line 8: agents.a.effects.0: there is no effect \"budget\"; there is compact, \
             sliding_window, observation_mask, trim_tool_results, offload, loop_detect, stall_detect, \
             reflection, progress, inject, token_budget, time_budget, cost_budget, tool_scope",
            "home/config.toml: line 12: unknown key \"mach\" in [permissions.allow.0]; did you mean \
             \"match\"?",
            "home/config.toml: line 12: unknown key \"reasn\" in [permissions.allow.0]; did you mean \
             \"reason\"?",
        ]
    );
    // What was meant by a key that is none is not missing too.
    let yaml = "limits:\n  model_turns: many\nmodels: a/b\npermissions:\n  allow:\n  - rul: bash\n";
    let faults = file("home/config.yaml", yaml);
    let faults: Vec<_> = faults.lines().collect();
    assert_eq!(faults.len(), 3, "{faults:#?}");
    assert!(faults[0].contains("line 2: limits.model_turns: string \"many\""), "{faults:?}");
    assert!(faults[1].contains("line 3: unknown key \"models\""), "{faults:?}");
    assert!(faults[2].contains("line 6: unknown key \"rul\""), "{faults:?}");
}

#[test]
fn faults_of_other_layers_are_named_too() {
    let machine = Machine::new(&[]);
    let flag = |text: &str| machine.load(&[], &said(None, &[text])).unwrap_err();
    assert_eq!(
        flag("limits.model_turn=1"),
        "-c limits.model_turn: unknown key \"model_turn\" in [limits]; did you mean \
         \"model_turns\"?"
    );
    assert!(flag("limits.wrap_up=maybe").contains("expected is true or false"));
    assert!(flag("model").contains("key=value"));
    assert!(flag("model x=1").contains("is no key"));
    let secret = flag("providers.p.api_kee=sk-secret");
    assert!(!secret.contains("sk-secret"), "{secret}");
    let variable =
        |name: &str, value: &str| machine.load(&[(name, value)], &Said::default()).unwrap_err();
    assert_eq!(
        variable("BOWLINE_LIMITS_MODEL_TURN", "1"),
        "BOWLINE_LIMITS_MODEL_TURN: unknown key \"model_turn\" in [limits]; did you mean \
         \"model_turns\"?"
    );
    assert_eq!(
        variable("BOWLINE_MODLE", "a/b"),
        "BOWLINE_MODLE: no such setting; did you mean BOWLINE_MODEL?"
    );
    assert_eq!(
        variable("BOWLINE_PROVIDERS_X_BASE_URL", "y"),
        "BOWLINE_PROVIDERS_X_BASE_URL: two underscores go one level down: \
         BOWLINE_PROVIDERS__NAME__KEY"
    );
    let stranger = machine.load(&[("BOWLINE_CI_RUNNER_IMAGE", "x")], &Said::default()).unwrap();
    assert_eq!(stranger.notes, ["BOWLINE_CI_RUNNER_IMAGE is no setting and has no effect"]);
    let shared = [("BOWLINE_UNDO_ENABLED", "false"), ("BOWLINE_SHARED_STATE", "project")];
    let config = machine.load(&shared, &Said::default()).unwrap().config;
    assert_eq!((config.undo.enabled, config.shared.state), (false, SharedPlace::Project));
    let profile = |name| machine.load(&[], &said(Some(name), &[])).unwrap_err();
    assert_eq!(profile("x"), "profile \"x\": there is no home/x.config.toml and no [profiles.x]");
    assert!(profile("../x").contains("a name has only"));
}

#[test]
fn values_of_the_command_line_are_toml_or_else_texts() {
    let machine = Machine::new(&[]);
    let load = |assignments: &[&str]| machine.load(&[], &said(None, assignments)).unwrap().config;
    let config = load(&[
        "model=ollama/qwen2.5:7b",
        "limits.tool_time=30s",
        "fallback=[\"a/b\"]",
        "providers.\"my.own\".base_url=http://127.0.0.1:1/v1",
        "providers.x.api_key=12345",
    ]);
    assert_eq!(config.model.as_deref(), Some("ollama/qwen2.5:7b"));
    assert_eq!(config.limits.tool_time, Some(Span(Duration::from_secs(30))));
    assert_eq!(config.fallback, ["a/b"]);
    assert_eq!(config.providers["my.own"].base_url.as_deref(), Some("http://127.0.0.1:1/v1"));
    assert_eq!(config.providers["x"].api_key, Some("12345".into()));
    // A value cannot smuggle in another key.
    let smuggled = load(&["model=\"a/b\"\ndurability = \"power\""]);
    assert_eq!(smuggled.durability, Durability::Process);
}

#[test]
fn two_underscores_of_a_variable_go_one_level_down() {
    let vars = [("BOWLINE_PROVIDERS__MINE__BASE_URL", "http://127.0.0.1:1/v1")];
    let loaded = Machine::new(&[]).load(&vars, &Said::default()).unwrap();
    assert_eq!(loaded.config.providers["mine"].base_url.as_deref(), Some("http://127.0.0.1:1/v1"));
}

#[test]
fn a_later_layer_replaces_the_way_to_a_key() {
    let machine = Machine::new(&[("home/config.toml", "[providers.p]\napi_key_env = \"A\"\n")]);
    let loaded = machine.load(&[], &said(None, &["providers.p.api_key_file=key"])).unwrap();
    let provider = &loaded.config.providers["p"];
    assert_eq!((&provider.api_key_env, provider.api_key_file.is_some()), (&None, true));
}

#[test]
fn secrets_are_not_shown() {
    let machine = Machine::new(&[(
        "home/config.toml",
        r#"
        model = "p/m"
        [providers.p]
        base_url = "https://user:SECRET@host.example/v1?key=SECRET"
        api_key = "SECRET"
        headers = { "x-team" = "SECRET" }
        [providers.q]
        api_key_command = "echo SECRET"
        [providers.r]
        api_key_env = "MINE"
        base_url = "http://host.example/from-env/v1"
        [mcp_servers.x]
        args = ["--token", "from-env"]
        env = { A = "SECRET" }
        [trace]
        headers = { x = "SECRET" }
        [profiles.other.providers.p]
        api_key = "SECRET"
        "#,
    )]);
    let loaded = machine.load(&[], &Said::default()).unwrap();
    let environment = machine.environment(&[("MINE", "from-env")]);
    let shown = show(&loaded, &environment);
    let explained = explain(&loaded, &environment, None).unwrap();
    for text in [&shown, &explained] {
        assert!(!text.contains("SECRET") && !text.contains("from-env"), "{text}");
        assert!(text.contains("\"MINE\"") && text.contains("host.example"), "{text}");
    }
    // What is shown can be read again.
    let table: Config = toml::from_str(&shown).unwrap();
    assert_eq!(table.limits.headless(), loaded.config.limits.headless());
    assert_eq!(table.model.as_deref(), Some("p/m"));
}

#[test]
fn what_has_no_effect_is_named_once() {
    let text = "[agents.x]\n[gateway]\n[providers.p]\nbatch = true\n";
    let loaded = Machine::new(&[("home/config.toml", text)]).load(&[], &Said::default()).unwrap();
    assert_eq!(loaded.notes, ["no effect in this version: providers.*.batch, gateway"]);
}

#[test]
fn everything_that_an_agent_may_say_has_an_effect() {
    let notes = |text: &str| {
        let machine = Machine::new(&[("home/config.toml", text)]);
        machine.load(&[], &Said::default()).map(|loaded| loaded.notes)
    };
    let in_effect = "[agents.x]\ninstructions = \"x\"\noutput = \"message_tool\"\ntimeout = \"1m\"\n\
                     orchestrator = \"plan_execute\"\nplan = { replan = \"off\" }\n\
                     tools = [\"read\"]\nlimits = { tool_calls = 3 }\nskills = [\"*\"]\n\
                     permissions.mode = \"plan\"\nsandbox.network = false\n";
    assert_eq!(notes(in_effect).unwrap(), Vec::<String>::new());
    assert_eq!(
        notes("[agents.x]\n\noutputs = \"text\"\n").unwrap_err(),
        "home/config.toml: line 3: unknown key \"outputs\" in [agents.x]; did you mean \"output\"?"
    );
}

#[test]
fn the_orchestrator_is_named_and_a_wrong_name_is_refused_with_the_nearest() {
    let load = |text: &str| {
        let text = format!("[agents.default]\n{text}\n");
        let machine = Machine::new(&[("home/config.toml", &text)]);
        let loaded = machine.load(&[], &Said::default());
        loaded.map(|loaded| loaded.config.agents[DEFAULT_AGENT].orchestrator().name().to_owned())
    };
    for (text, name) in [
        ("", "react"),
        ("orchestrator = \"react\"", "react"),
        ("orchestrator = \"agentic\"", "react"),
        ("orchestrator = \"plan_execute\"", "plan_execute"),
        ("orchestrator = \"plan_execute\"\nplan = {}", "plan_execute"),
        ("orchestrator = \"plan_execute\"\nplan.replan = \"on_failure\"", "plan_execute"),
        ("orchestrator = \"plan_execute\"\nplan.replan = \"off\"", "plan_execute_once"),
    ] {
        assert_eq!(load(text).unwrap(), name, "{text}");
    }
    for (text, expected) in [
        (
            "orchestrator = \"plan-execute\"",
            "home/config.toml: line 2: agents.default.orchestrator: \"plan-execute\" is none of \
             agentic, react, plan_execute; did you mean \"plan_execute\"?",
        ),
        (
            "plan = { replan = \"never\" }",
            "home/config.toml: line 2: agents.default.plan.replan: \"never\" is none of on_failure, off",
        ),
        (
            "plan = { repla = \"off\" }",
            "home/config.toml: line 2: unknown key \"repla\" in [agents.default.plan]; did you mean \
             \"replan\"?",
        ),
    ] {
        assert_eq!(load(text).unwrap_err(), expected, "{text}");
    }
}

#[test]
fn what_is_wrong_with_a_trace_is_said_with_its_line() {
    for (text, what) in [
        ("content = \"all\"", "\"all\" is none of off, trimmed, full"),
        ("compat = \"shelly\"", "\"shelly\" is none of pingu"),
        ("protocol = \"http\"", "\"http\" is none of http/protobuf, http/json, grpc"),
        (
            "endpointt = \"http://a\"",
            "unknown key \"endpointt\" in [trace]; did you mean \"endpoint\"?",
        ),
    ] {
        let text = format!("[trace]\n{text}\n");
        let machine = Machine::new(&[("home/config.toml", &text)]);
        let error = machine.load(&[], &Said::default()).unwrap_err();
        assert!(error.contains("config.toml: line 2: ") && error.contains(what), "{error}");
    }
}

/// Loads a configuration of another program from the user's folder.
fn load_theirs(file: &str, text: &str) -> Config {
    let machine = Machine::new(&[(file, text)]);
    machine.load(&[("KEY", "sk-1")], &Said::default()).unwrap().config
}

#[test]
fn what_the_first_seed_prints_loads_unchanged() {
    let printed = "agents:\n  - name: coder\n    effects:\n      - kind: compact\n        params:\n          \
                   threshold: 0.8\n";
    let config = load_theirs("home/config.yaml", printed);
    assert_eq!(config.entry_agent.as_deref(), Some("coder"));
    let effects = config.agents["coder"].effects();
    assert_eq!(effects.iter().map(EffectConfig::kind).collect::<Vec<_>>(), ["compact"]);
}

#[test]
fn profiles_of_the_third_seed_load_unchanged() {
    let printed = "[agent.sysinfo]\nsystem_prompt = \"Look around.\"\ntools = [\"file\", \"message\"]\n\
                   [agent.any]\nsystem_prompt = \"Do.\"\n";
    let config = load_theirs("home/config.toml", printed);
    let tools = |name: &str| config.agents[name].tools.clone();
    assert_eq!(tools("sysinfo"), Some(vec!["read".to_owned(), "write".to_owned()]));
    assert_eq!((tools("any"), config.agents["sysinfo"].max_depth), (None, Some(0)));
}

#[test]
fn every_key_of_shelly_loads_unchanged() {
    let config = load_theirs(
        "home/config.yaml",
        r#"
providers:
  - name: claude
    kind: anthropic
    base_url: https://api.anthropic.com
    api_key: ${KEY}
    model: claude-sonnet-4-5
    context_window: 200000
    max_tokens: 4096
    rate_limit: {input_tpm: 1, output_tpm: 2, rpm: 3, max_retries: 4, base_delay: 1s}
    batch: {enabled: true, collect_window: 100ms, poll_interval: 5s, timeout: 1h, max_batch_size: 9}
  - {name: grok, kind: grok, model: grok-4}
mcp_servers:
  - {name: browser, command: npx, args: [playwright]}
  - {name: far, url: "https://example.com/mcp"}
agents:
  - name: lead
    description: Leads.
    instructions: It costs $5.
    provider: grok
    prefix: "*"
    toolboxes:
      - filesystem
      - browser
      - {name: exec, tools: [exec_run]}
    skills: []
    effects:
      - {kind: trim_tool_results}
    options:
      max_iterations: 20
      warn_iterations: 15
      max_delegation_depth: 2
      max_handoffs: 0
      context_threshold: 0.8
      interaction_mode: blocking
      question_timeout: ""
    skills_tags: [plans]
    estimated_cost: expensive
    max_concurrency: 1
  - {name: coder}
entry_agent: lead
filesystem: {permissions_file: p.json}
git: {work_dir: .}
context: {max_external_file_size: 1000}
default_context_windows: {grok: 100000}
"#,
    );
    let lead = &config.agents["lead"];
    assert_eq!((config.entry_agent.as_deref(), lead.name.as_str()), (Some("lead"), "lead"));
    assert_eq!(
        (lead.model().as_deref(), lead.instructions.as_str()),
        (Some("grok"), "It costs $5.")
    );
    assert_eq!((lead.limits.model_turns, lead.warn_turns), (Some(20), 15));
    assert_eq!(lead.interaction, Interaction::Blocking);
    assert_eq!(lead.toolboxes.as_ref().map(Vec::len), Some(4));
    assert_eq!(config.providers["grok"].context_window, Some(100_000));
}
