//! From a model's name to a model.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use bowline_llm::http::{self, Transport};
use bowline_llm::{Effort, Model, ModelInfo, Retry, Secret, chat, retry};

use crate::config::{Config, Provider, SystemRole, Wire};
use crate::environment::Environment;
use crate::error::ConfigError;

/// A model as a user names it: `provider/model[:effort]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelName {
    /// The provider; it ends at the first slash.
    pub provider: String,
    /// The model, as the provider knows it.
    pub model: String,
    /// How hard it should think.
    pub effort: Option<Effort>,
}

impl ModelName {
    /// Reads a name. What follows the last colon is an effort only if it is one.
    ///
    /// # Errors
    /// [`ConfigError::ModelName`] if it has no provider.
    pub fn parse(name: &str) -> Result<Self, ConfigError> {
        let wrong = || ConfigError::ModelName(name.to_owned());
        let (provider, rest) = name.split_once('/').ok_or_else(wrong)?;
        let (model, effort) = match rest.rsplit_once(':') {
            Some((model, effort)) => match Effort::parse(effort) {
                Some(effort) => (model, Some(effort)),
                None => (rest, None),
            },
            None => (rest, None),
        };
        if provider.is_empty() || model.is_empty() {
            return Err(wrong());
        }
        Ok(Self { provider: provider.to_owned(), model: model.to_owned(), effort })
    }
}

/// A provider that needs no configuration but a key.
struct Known {
    name: &'static str,
    base_url: &'static str,
    key: Option<&'static str>,
    wire: Wire,
}

const fn known(name: &'static str, base_url: &'static str, key: &'static str, wire: Wire) -> Known {
    Known { name, base_url, key: Some(key), wire }
}

const KNOWN: &[Known] = &[
    known("openai", "https://api.openai.com/v1", "OPENAI_API_KEY", Wire::Chat),
    known("anthropic", "https://api.anthropic.com", "ANTHROPIC_API_KEY", Wire::Anthropic),
    known("gemini", "https://generativelanguage.googleapis.com", "GEMINI_API_KEY", Wire::Gemini),
    known("openrouter", "https://openrouter.ai/api/v1", "OPENROUTER_API_KEY", Wire::Chat),
    known("xai", "https://api.x.ai/v1", "XAI_API_KEY", Wire::Chat),
    known("groq", "https://api.groq.com/openai/v1", "GROQ_API_KEY", Wire::Chat),
    known("deepseek", "https://api.deepseek.com/v1", "DEEPSEEK_API_KEY", Wire::Chat),
    known("mistral", "https://api.mistral.ai/v1", "MISTRAL_API_KEY", Wire::Chat),
    known("together", "https://api.together.xyz/v1", "TOGETHER_API_KEY", Wire::Chat),
    known("fireworks", "https://api.fireworks.ai/inference/v1", "FIREWORKS_API_KEY", Wire::Chat),
    Known { name: "ollama", base_url: "http://127.0.0.1:11434/v1", key: None, wire: Wire::Chat },
    Known { name: "llamacpp", base_url: "http://127.0.0.1:8080/v1", key: None, wire: Wire::Chat },
    Known { name: "lmstudio", base_url: "http://127.0.0.1:1234/v1", key: None, wire: Wire::Chat },
    Known { name: "vllm", base_url: "http://127.0.0.1:8000/v1", key: None, wire: Wire::Chat },
];

/// What runs if only a key is there, best first.
const BY_KEY: &[(&str, &str)] = &[("OPENAI_API_KEY", "openai/gpt-5.5")];

/// Returns the model that runs when no flag names one.
///
/// # Errors
/// [`ConfigError::NoModel`] if nothing says which.
pub fn default_model(
    config: &Config,
    environment: &Environment,
    config_file: &Path,
) -> Result<String, ConfigError> {
    let named = config.model.clone().filter(|model| !model.is_empty());
    let by_key = BY_KEY.iter().find(|(key, _)| environment.get(key).is_some());
    named
        .or_else(|| by_key.map(|(_, model)| (*model).to_owned()))
        .ok_or_else(|| ConfigError::NoModel { config: config_file.to_owned() })
}

/// Makes the model of a name.
///
/// # Errors
/// [`ConfigError`] if its provider is unknown, or cannot be used as it is configured.
pub fn model(
    name: &ModelName,
    config: &Config,
    environment: &Environment,
) -> Result<Arc<dyn Model>, ConfigError> {
    let built_in = KNOWN.iter().find(|known| known.name == name.provider);
    let configured = config.providers.get(&name.provider);
    let provider = match (configured, built_in) {
        (Some(provider), _) => provider.clone(),
        (None, Some(known)) => Provider { wire: known.wire, ..Provider::default() },
        (None, None) => {
            let names = KNOWN.iter().map(|known| known.name);
            let names = names.chain(config.providers.keys().map(String::as_str));
            let known = names.collect::<Vec<_>>().join(", ");
            return Err(ConfigError::UnknownProvider { name: name.provider.clone(), known });
        }
    };
    let wrong = |what: String| ConfigError::Provider { name: name.provider.clone(), what };
    match provider.wire {
        Wire::Chat => {}
        Wire::Responses | Wire::Anthropic | Wire::Gemini | Wire::Local => {
            return Err(wrong(format!(
                "this version does not speak {:?} yet, only chat",
                provider.wire
            )));
        }
    }
    let base_url =
        provider.base_url.clone().or_else(|| built_in.map(|known| known.base_url.to_owned()));
    let base_url = base_url.ok_or_else(|| wrong("base_url is missing".to_owned()))?;
    let default_key = built_in.and_then(|known| known.key);
    let api_key = api_key(name, &provider, default_key, &base_url, environment)?;
    let transport =
        Transport::new(http::Config { proxy: proxy(environment), ..http::Config::default() })
            .map_err(|error| wrong(error.to_string()))?;
    let mut chat = chat::Config::new(base_url);
    chat.info = info(name, &provider);
    chat.api_key = api_key;
    chat.headers = provider.headers.clone().into_iter().collect();
    chat.stream = provider.stream;
    chat.idle_timeout = provider.idle_timeout.0;
    if let Some(role) = provider.system_role {
        chat.dialect.system_role = match role {
            SystemRole::System => chat::SystemRole::System,
            SystemRole::Developer => chat::SystemRole::Developer,
        };
    }
    let client = chat::Client::new(chat, &transport).map_err(|error| wrong(error.to_string()))?;
    let policy = retry::Policy { max_retries: provider.max_retries, ..retry::Policy::default() };
    Ok(Arc::new(Retry::new(client, policy)))
}

fn info(name: &ModelName, provider: &Provider) -> ModelInfo {
    let own = provider.models.get(&name.model).cloned().unwrap_or_default();
    ModelInfo {
        provider: name.provider.clone(),
        model: name.model.clone(),
        context_window: own.context_window.or(provider.context_window),
        max_output_tokens: own.max_output_tokens.or(provider.max_output_tokens),
        price: own.price,
    }
}

fn api_key(
    name: &ModelName,
    provider: &Provider,
    default: Option<&str>,
    base_url: &str,
    environment: &Environment,
) -> Result<Option<Secret>, ConfigError> {
    let missing = |how: String| ConfigError::NoKey { name: name.provider.clone(), how };
    if let Some(file) = &provider.api_key_file {
        let text = std::fs::read_to_string(file)
            .map_err(|error| missing(format!("cannot read {}: {error}", file.display())))?;
        return Ok(Some(Secret::from(text.trim())));
    }
    if let Some(command) = &provider.api_key_command {
        return key_of_command(command).map(Some).map_err(missing);
    }
    let named = provider.api_key_env.as_deref();
    let Some(variable) = named.or(default) else { return Ok(None) };
    match environment.get(variable) {
        Some(key) => Ok(Some(Secret::from(key))),
        None if is_loopback(base_url) => Ok(None),
        None => Err(missing(format!("set {variable}"))),
    }
}

fn key_of_command(command: &str) -> Result<Secret, String> {
    let output = Command::new("sh")
        .args(["-c", command])
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("cannot run {command:?}: {error}"))?;
    if !output.status.success() {
        return Err(format!("{command:?} ended with {}", output.status));
    }
    let key = String::from_utf8_lossy(&output.stdout);
    match key.trim() {
        "" => Err(format!("{command:?} printed nothing")),
        key => Ok(Secret::from(key)),
    }
}

fn is_loopback(base_url: &str) -> bool {
    let host = base_url.split_once("://").map_or(base_url, |(_, rest)| rest);
    let host = host.split(['/', '?']).next().unwrap_or_default();
    let host = host
        .strip_prefix('[')
        .and_then(|host| host.split(']').next())
        .unwrap_or_else(|| host.rsplit_once(':').map_or(host, |(host, _)| host));
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

fn proxy(environment: &Environment) -> http::Proxy {
    let either = |upper: &str, lower: &str| environment.get(lower).or(environment.get(upper));
    http::Proxy {
        http: either("HTTP_PROXY", "http_proxy").map(Secret::from),
        https: either("HTTPS_PROXY", "https_proxy").map(Secret::from),
        no_proxy: either("NO_PROXY", "no_proxy").unwrap_or_default().to_owned(),
    }
}

/// Returns the secrets that must never be shown: the keys that the configuration names.
pub fn secrets(config: &Config, environment: &Environment) -> BTreeMap<String, Secret> {
    let configured =
        config.providers.values().filter_map(|provider| provider.api_key_env.as_deref());
    let known = KNOWN.iter().filter_map(|known| known.key);
    configured
        .chain(known)
        .filter_map(|name| Some((name.to_owned(), Secret::from(environment.get(name)?))))
        .collect()
}
