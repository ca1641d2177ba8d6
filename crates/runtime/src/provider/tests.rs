use std::os::unix::fs::PermissionsExt as _;

use bowline_llm::{Request, Secret, StreamEvent};
use futures::StreamExt as _;
use pretty_assertions::assert_eq;

use super::*;

fn name(provider: &str, model: &str, effort: Option<Effort>) -> ModelName {
    ModelName { provider: provider.to_owned(), model: model.to_owned(), effort }
}

fn environment(vars: &[(&str, &str)]) -> Environment {
    let vars = vars.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
    Environment { vars, ..Environment::default() }
}

fn config(text: &str) -> Config {
    toml::from_str(text).unwrap()
}

#[test]
fn the_provider_ends_at_the_first_slash_and_the_effort_begins_at_the_last_colon() {
    let parse = |text| ModelName::parse(text).unwrap();
    assert_eq!(parse("ollama/qwen2.5:7b"), name("ollama", "qwen2.5:7b", None));
    assert_eq!(parse("openrouter/x/y:free"), name("openrouter", "x/y:free", None));
    assert_eq!(parse("p/m:high"), name("p", "m", Some(Effort::High)));
    assert_eq!(parse("ollama/qwen2.5:7b:low"), name("ollama", "qwen2.5:7b", Some(Effort::Low)));
    assert_eq!(parse("p/m:High"), name("p", "m:High", None));
    for wrong in ["gpt-5.5", "/m", "p/", "p/:high", ""] {
        assert!(ModelName::parse(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn a_provider_with_a_model_can_be_named_alone() {
    let config = config("[providers.fast]\nmodel = \"meta/llama:low\"\n[providers.bare]\n");
    let resolve = |text| ModelName::resolve(text, &config);
    assert_eq!(resolve("fast").unwrap(), name("fast", "meta/llama", Some(Effort::Low)));
    assert_eq!(resolve(" fast/other ").unwrap(), name("fast", "other", None));
    assert!(resolve("bare").is_err());
}

#[test]
fn the_configuration_goes_before_the_keys() {
    let key = environment(&[("OPENAI_API_KEY", "sk"), ("GROQ_API_KEY", "g")]);
    let named = |text, environment: &Environment| {
        named(&config(text), environment).unwrap().map(|name| name.provider)
    };
    assert_eq!(named("model = \"a/b\"", &key).as_deref(), Some("a"));
    assert_eq!(named("", &key).as_deref(), Some("openai"));
    assert_eq!(named("", &environment(&[("GROQ_API_KEY", "g")])).as_deref(), Some("groq"));
    let both = environment(&[("OPENAI_API_KEY", "sk"), ("ANTHROPIC_API_KEY", "a")]);
    assert_eq!(named("", &both).as_deref(), Some("anthropic"));
    assert_eq!(named("", &environment(&[])), None);
}

fn key_of(text: &str, environment: &Environment) -> Result<Option<Secret>, String> {
    let resolved = resolve("p", &config(text), environment).map_err(|error| error.to_string())?;
    resolved.key.read(environment, "p").map_err(|error| error.to_string())
}

#[test]
fn a_key_comes_from_where_the_configuration_says() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config/key");
    std::fs::create_dir(folder.path().join("config")).unwrap();
    std::fs::write(&file, "from-file\n").unwrap();
    let mode = |mode| {
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    let home = folder.path().to_string_lossy().into_owned();
    let environment =
        environment(&[("MINE", "from-env"), ("BOWLINE_HOME", &home), ("HOME", &home)]);
    let far = |key: &str| format!("[providers.p]\nbase_url = \"https://far.example/v1\"\n{key}\n");
    let read = |key: &str| key_of(&far(key), &environment);
    mode(0o600);
    for (key, expected) in [
        ("api_key_env = \"MINE\"", "from-env"),
        ("api_key = \"given\"", "given"),
        ("api_key_command = \"echo printed\"", "printed"),
        // What is relative is beside the configuration.
        ("api_key_file = \"key\"", "from-file"),
        ("api_key_file = \"~/config/key\"", "from-file"),
    ] {
        assert_eq!(read(key), Ok(Some(expected.into())), "{key}");
    }
    assert_eq!(read(""), Ok(None));
    mode(0o640);
    let error = read("api_key_file = \"key\"").unwrap_err();
    assert!(error.contains("others can read") && error.contains("chmod 600"), "{error}");
    for (key, expected) in [
        ("api_key_env = \"MISSING\"", "set MISSING"),
        ("api_key_command = \"exit 3\"", "exit status: 3"),
        ("api_key_command = \"true\"", "printed nothing"),
        ("api_key_file = \"nowhere\"", "nowhere"),
        ("api_key_env = \"MINE\"\napi_key = \"given\"", "only one of"),
    ] {
        let error = read(key).unwrap_err();
        assert!(error.contains(expected), "{key}: {error}");
    }
}

#[test]
fn on_this_machine_no_key_is_needed() {
    let none = environment(&[]);
    let near = |url: &str| format!("[providers.p]\nbase_url = \"{url}\"\napi_key_env = \"NO\"\n");
    for url in ["http://127.0.0.1:8080/v1", "http://localhost/v1", "http://[::1]:1/v1"] {
        assert_eq!(key_of(&near(url), &none), Ok(None), "{url}");
    }
    for url in
        ["http://10.0.0.1/v1", "http://localhost.example/v1", "http://127.0.0.1@evil.example/v1"]
    {
        assert!(key_of(&near(url), &none).is_err(), "{url}");
    }
}

#[test]
fn the_key_of_a_known_provider_goes_only_there() {
    let environment = environment(&[("OPENAI_API_KEY", "sk")]);
    let key = |url: &str| {
        let config = config(&format!("[providers.openai]\nbase_url = \"{url}\"\n"));
        let resolved = resolve("openai", &config, &environment).unwrap();
        resolved.key.read(&environment, "openai").unwrap()
    };
    assert_eq!(key("https://api.openai.com/v1"), Some("sk".into()));
    assert_eq!(key("https://elsewhere.example/v1"), None);
    assert_eq!(key("http://api.openai.com/v1"), None);
}

#[test]
fn the_usual_variables_move_a_known_provider() {
    let vars = [
        ("OPENAI_BASE_URL", "http://127.0.0.1:1/v1"),
        ("ANTHROPIC_BASE_URL", "http://gate.lan"),
        ("OLLAMA_HOST", "gpu.lan:9000"),
    ];
    let base_url = |name| resolve(name, &Config::default(), &environment(&vars)).unwrap().base_url;
    assert_eq!(base_url("openai"), "http://127.0.0.1:1/v1");
    assert_eq!(base_url("anthropic"), "http://gate.lan");
    assert_eq!(base_url("ollama"), "http://gpu.lan:9000/v1");
    assert_eq!(base_url("vllm"), "http://127.0.0.1:8000/v1");
}

#[test]
fn what_is_spoken_is_told_by_the_configuration_then_the_place_then_the_name() {
    let wire = |name: &str, text: &str| {
        let config = config(&format!("[providers.{name}]\n{text}\n"));
        resolve(name, &config, &environment(&[])).unwrap().wire.as_str()
    };
    for (name, text, expected) in [
        ("openai", "", "responses"),
        ("anthropic", "max_retries = 1", "anthropic"),
        ("gemini", "", "gemini"),
        ("groq", "", "chat"),
        ("local", "", "local"),
        ("openai", "wire = \"chat\"", "chat"),
        // Whoever stands in for OpenAI speaks what all speak.
        ("openai", "base_url = \"http://127.0.0.1:1/v1\"", "chat"),
        ("anthropic", "base_url = \"http://gate.lan\"", "anthropic"),
        ("mine", "base_url = \"https://api.openai.com/v1\"", "responses"),
        ("mine", "base_url = \"https://api.anthropic.com\"", "anthropic"),
        ("mine", "base_url = \"http://127.0.0.1:8080/v1\"", "chat"),
        ("mine", "base_url = \"https://generativelanguage.googleapis.com/v1beta/openai\"", "chat"),
    ] {
        assert_eq!(wire(name, text), expected, "{name} {text}");
    }
}

fn made(picked: &Picked, config: &Config) -> Result<Made, ConfigError> {
    let environment = environment(&[]);
    make(picked, Making { config, environment: &environment, shared: &Shared::default() })
}

#[test]
fn what_is_wrong_with_a_provider_is_said_at_once() {
    let model_of = |text: &str, name: &str| {
        let picked = ModelName::parse(name).unwrap().into();
        made(&picked, &config(text)).map(|_| ()).unwrap_err().to_string()
    };
    let unknown = model_of("", "opnai/gpt");
    assert!(unknown.contains("did you mean \"openai\""), "{unknown}");
    assert!(model_of("[providers.p]", "p/m").contains("base_url is missing"));
    let header = "[providers.p]\nbase_url = \"http://127.0.0.1:1\"\nheaders = { \"a b\" = \"c\" }";
    assert!(model_of(header, "p/m").contains("\"a b\""));
    assert!(model_of("[providers.p]\nbase_url = \"127.0.0.1:1\"", "p/m").contains("base_url"));
    assert!(model_of("", "anthropic/claude").contains("set ANTHROPIC_API_KEY"));
    assert!(model_of("", "openai/gpt").contains("set OPENAI_API_KEY"));
}

#[test]
fn a_model_that_was_found_gets_no_key_and_has_its_window() {
    let found = Found {
        kind: crate::local::Kind::LlamaCpp,
        base_url: "http://127.0.0.1:9/v1".to_owned(),
        model: "m".to_owned(),
        context_window: Some(8192),
    };
    let picked = Picked { name: name("llamacpp", "m", None), found: Some(found), note: None };
    // The command would fail if it was run.
    let config = config("[providers.llamacpp]\napi_key_command = \"exit 1\"\n");
    let model = made(&picked, &config).unwrap().model;
    assert_eq!(model.info().id(), "llamacpp/m");
    assert_eq!(model.info().context_window, Some(8192));
}

#[test]
fn an_embedding_program_gets_a_model_by_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().to_string_lossy().into_owned();
    let environment = environment(&[
        ("BOWLINE_HOME", &home),
        ("BOWLINE_PROVIDERS__MINE__BASE_URL", "http://127.0.0.1:1/v1"),
        ("BOWLINE_PROVIDERS__MINE__MODEL", "small"),
    ]);
    let runtime = crate::Runtime::new(environment, &config::Said::default()).unwrap();
    assert_eq!(runtime.model("mine/big:high").unwrap().info().id(), "mine/big");
    assert_eq!(runtime.model("mine").unwrap().info().id(), "mine/small");
    let error = runtime.model("mien/big").map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("did you mean \"mine\"?"), "{error}");
}

#[tokio::test]
async fn models_of_a_provider_share_its_limits() {
    // Nobody listens there, which counts as a request all the same.
    let config = config(
        "[providers.p]\nbase_url = \"http://127.0.0.1:1\"\nmax_retries = 0\nrate_limit = { rpm = 1 }",
    );
    let (environment, shared) = (environment(&[]), Shared::default());
    let with = Making { config: &config, environment: &environment, shared: &shared };
    let first_event = async |model: &str| {
        let made = make(&name("p", model, None).into(), with).unwrap();
        made.model.stream(Request::default()).next().await.unwrap()
    };
    assert!(first_event("a").await.is_err());
    let Ok(StreamEvent::Waiting { reason, delay, .. }) = first_event("b").await else {
        panic!("the second must wait");
    };
    assert_eq!(reason, "rate limit: requests a minute");
    assert!(delay.as_secs() > 30, "{delay:?}");
}

// D16
#[tokio::test(start_paused = true)]
async fn a_request_that_is_made_again_counts_again() {
    let config = config(
        "[providers.p]\nbase_url = \"http://127.0.0.1:1\"\nmax_retries = 1\nrate_limit = { rpm = 1 }",
    );
    let (environment, shared) = (environment(&[]), Shared::default());
    let with = Making { config: &config, environment: &environment, shared: &shared };
    let made = make(&name("p", "m", None).into(), with).unwrap();
    let events: Vec<_> = made.model.stream(Request::default()).collect().await;
    let waits = events.iter().filter_map(|event| match event {
        Ok(StreamEvent::Waiting { attempt, reason, .. }) => Some((*attempt, reason.as_str())),
        _ => None,
    });
    let [(2, failure), (2, limit)] = waits.collect::<Vec<_>>()[..] else { panic!("{events:?}") };
    assert!(failure.starts_with("connection failed"), "{failure}");
    assert_eq!(limit, "rate limit: requests a minute");
}

#[test]
fn limits_are_numbers_that_are_known() {
    let limit =
        |text: &str| toml::from_str::<Config>(&format!("[providers.p]\nrate_limit = {text}"));
    assert!(limit("{ rpm = 5, input_tpm = 0, base_delay = \"1s\", max_retries = 3 }").is_ok());
    assert!(limit("{ tpm = 5 }").is_err());
    assert!(limit("{ rpm = -1 }").is_err());
}
