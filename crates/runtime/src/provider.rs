//! From a model's name to a model.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use bowline_llm::http::{self, Transport};
use bowline_llm::{Effort, Model, ModelInfo, Retry, Secret, chat, retry};

use crate::config::{self, Config, Provider, SystemRole, Wire};
use crate::embedded::{self, Embedded};
use crate::environment::Environment;
use crate::error::ConfigError;
use crate::local::{self, Found};

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
    /// Reads a name as [`ModelName::parse`] does, or the name of a provider that has a model of its
    /// own.
    ///
    /// # Errors
    /// [`ConfigError::ModelName`] if it has no provider.
    pub fn resolve(name: &str, config: &Config) -> Result<Self, ConfigError> {
        let name = name.trim();
        match config.providers.get(name).and_then(|provider| provider.model.as_deref()) {
            Some(model) => Self::parse(&format!("{name}/{model}")),
            None => Self::parse(name),
        }
    }

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
    Known { name: embedded::PROVIDER, base_url: "", key: None, wire: Wire::Local },
];

/// What runs if only a key is there, best first.
const BY_KEY: &[(&str, &str)] = &[
    ("OPENAI_API_KEY", "openai/gpt-5.5"),
    ("OPENROUTER_API_KEY", "openrouter/openrouter/auto"),
    ("XAI_API_KEY", "xai/grok-4"),
    ("DEEPSEEK_API_KEY", "deepseek/deepseek-chat"),
    ("MISTRAL_API_KEY", "mistral/mistral-large-latest"),
    ("GROQ_API_KEY", "groq/openai/gpt-oss-120b"),
];

/// The model that runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Picked {
    /// Its name.
    pub name: ModelName,
    /// The local server it was found at, if nothing names a model.
    pub found: Option<Found>,
    /// What to tell the user, if nothing names a model.
    pub note: Option<String>,
}

impl From<ModelName> for Picked {
    fn from(name: ModelName) -> Self {
        Self { name, found: None, note: None }
    }
}

/// Returns the model that runs when no flag names one: the configured one, else that of a key in
/// the environment; `None` if nothing says which.
///
/// # Errors
/// [`ConfigError::ModelName`] if the configured one is none.
pub fn named(config: &Config, environment: &Environment) -> Result<Option<ModelName>, ConfigError> {
    let configured = config.model.as_deref().filter(|model| !model.is_empty());
    let by_key = BY_KEY.iter().find(|(key, _)| environment.get(key).is_some());
    let name = configured.or_else(|| by_key.map(|(_, model)| *model));
    name.map(|name| ModelName::resolve(name, config)).transpose()
}

/// Returns the keys in the environment that this version cannot use.
pub(crate) fn unusable_keys(environment: &Environment) -> Vec<&'static str> {
    let unspoken = KNOWN.iter().filter(|known| !is_spoken(known.wire));
    let keys = unspoken.filter_map(|known| known.key);
    keys.filter(|key| environment.get(key).is_some()).collect()
}

/// Returns the providers that are configured, and those whose keys are in the environment.
pub(crate) fn in_use<'a>(config: &'a Config, environment: &Environment) -> Vec<&'a str> {
    let with_key = KNOWN.iter().filter(|known| {
        let has_key = known.key.is_some_and(|key| environment.get(key).is_some());
        has_key && !config.providers.contains_key(known.name)
    });
    config.providers.keys().map(String::as_str).chain(with_key.map(|known| known.name)).collect()
}

/// Returns the address of a provider that needs no configuration.
pub(crate) fn base_url_of(name: &str) -> Option<&'static str> {
    Some(find_known(name)?.base_url)
}

/// Tells whether this version can talk to a provider of this kind.
pub(crate) fn is_spoken(wire: Wire) -> bool {
    match wire {
        Wire::Chat | Wire::Local => true,
        Wire::Responses | Wire::Anthropic | Wire::Gemini => false,
    }
}

fn find_known(name: &str) -> Option<&'static Known> {
    KNOWN.iter().find(|known| known.name == name)
}

/// A provider with everything that is said of it, and what holds by itself.
#[derive(Debug, Clone)]
pub(crate) struct Resolved {
    pub(crate) provider: Provider,
    pub(crate) base_url: String,
    pub(crate) key: KeySource,
}

/// Where the key of a provider comes from.
#[derive(Debug, Clone)]
pub(crate) enum KeySource {
    /// It needs none.
    None,
    /// It stands in the configuration.
    Given(Secret),
    /// A variable; on this machine it may be missing.
    Variable { name: String, is_needed: bool },
    /// A file.
    File(PathBuf),
    /// What a command prints.
    Command(String),
}

/// Puts together what is known of a provider.
pub(crate) fn resolve(
    name: &str,
    config: &Config,
    environment: &Environment,
) -> Result<Resolved, ConfigError> {
    let known = find_known(name);
    let provider = match (config.providers.get(name), known) {
        (Some(provider), _) => provider.clone(),
        (None, Some(known)) => Provider { wire: known.wire, ..Provider::default() },
        (None, None) => {
            let names = KNOWN.iter().map(|known| known.name);
            let names = names.chain(config.providers.keys().map(String::as_str));
            let known: Vec<_> = names.collect();
            let meant = match config::nearest(name, known.iter().copied()) {
                Some(nearest) => format!("did you mean {nearest:?}?"),
                None => format!("use one of {}", known.join(", ")),
            };
            return Err(ConfigError::UnknownProvider { name: name.to_owned(), meant });
        }
    };
    let wrong = |what: &str| ConfigError::Provider { name: name.to_owned(), what: what.to_owned() };
    let by_itself = || match name {
        "openai" => environment.get("OPENAI_BASE_URL").map(str::to_owned),
        "ollama" => local::ollama_host(environment).map(|host| format!("http://{host}/v1")),
        _ => None,
    };
    let base_url = provider
        .base_url
        .clone()
        .or_else(by_itself)
        .or_else(|| known.map(|known| known.base_url.to_owned()))
        .or_else(|| (provider.wire == Wire::Local).then(String::new))
        .ok_or_else(|| wrong("base_url is missing"))?;
    let key = key_source(&provider, known, &base_url, environment).map_err(wrong)?;
    Ok(Resolved { provider, base_url, key })
}

/// Finds out where the key of a provider comes from.
fn key_source(
    provider: &Provider,
    known: Option<&Known>,
    base_url: &str,
    environment: &Environment,
) -> Result<KeySource, &'static str> {
    let given = [
        provider.api_key.is_some(),
        provider.api_key_env.is_some(),
        provider.api_key_file.is_some(),
        provider.api_key_command.is_some(),
    ];
    if given.into_iter().filter(|is_given| *is_given).count() > 1 {
        return Err("give only one of api_key, api_key_env, api_key_file and api_key_command");
    }
    // The key of a known provider is not for whoever else has its name.
    let is_known_place = provider.base_url.is_none()
        || known.is_some_and(|known| same_host(known.base_url, base_url));
    let default = known.and_then(|known| known.key).filter(|_| is_known_place);
    Ok(if let Some(key) = &provider.api_key {
        KeySource::Given(key.clone())
    } else if let Some(file) = &provider.api_key_file {
        KeySource::File(home_path(file, environment))
    } else if let Some(command) = &provider.api_key_command {
        KeySource::Command(command.clone())
    } else if let Some(variable) = provider.api_key_env.as_deref().or(default) {
        KeySource::Variable { name: variable.to_owned(), is_needed: !is_loopback(base_url) }
    } else {
        KeySource::None
    })
}

/// A model that was made.
pub(crate) struct Made {
    pub(crate) model: Arc<dyn Model>,
    /// The key it uses.
    pub(crate) key: Option<Secret>,
    /// Whether it talks in plain lines, and so knows few tools and takes no system text.
    pub(crate) in_lines: bool,
}

/// Makes the model that was picked. A command that prints its key runs here and nowhere else.
///
/// # Errors
/// [`ConfigError`] if its provider is unknown, or cannot be used as it is configured.
pub(crate) fn model(
    picked: &Picked,
    config: &Config,
    environment: &Environment,
) -> Result<Made, ConfigError> {
    let name = &picked.name;
    let Resolved { mut provider, mut base_url, key } =
        resolve(&name.provider, config, environment)?;
    let wrong = |what: String| ConfigError::Provider { name: name.provider.clone(), what };
    match provider.wire {
        Wire::Chat => {}
        Wire::Local => {
            let folders = environment.folders().ok_or(ConfigError::NoHome)?;
            let folder = embedded::folder(&folders);
            let opened = embedded::open(&name.model, &folder, info(name, &provider));
            let Embedded { model, in_lines } = opened.map_err(wrong)?;
            return Ok(Made { model, key: None, in_lines });
        }
        Wire::Responses | Wire::Anthropic | Wire::Gemini => {
            return Err(wrong(format!(
                "this version does not speak {:?} yet, only chat",
                provider.wire
            )));
        }
    }
    let api_key = match &picked.found {
        Some(found) => {
            base_url.clone_from(&found.base_url);
            provider.context_window = provider.context_window.or(found.context_window);
            // Whoever was found there is not whom a configured key is for.
            None
        }
        None => key.read(environment, &name.provider)?,
    };
    let transport =
        Transport::new(http::Config { proxy: proxy(environment), ..http::Config::default() })
            .map_err(|error| wrong(error.to_string()))?;
    let mut chat = chat::Config::new(base_url);
    chat.info = info(name, &provider);
    chat.api_key.clone_from(&api_key);
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
    Ok(Made { model: Arc::new(Retry::new(client, policy)), key: api_key, in_lines: false })
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

impl KeySource {
    /// Reads the key.
    pub(crate) fn read(
        &self,
        environment: &Environment,
        provider: &str,
    ) -> Result<Option<Secret>, ConfigError> {
        let missing = |how: String| ConfigError::NoKey { name: provider.to_owned(), how };
        match self {
            Self::None => Ok(None),
            Self::Given(key) => Ok(Some(key.clone())),
            Self::Variable { name, is_needed } => match environment.get(name) {
                Some(key) => Ok(Some(Secret::from(key.trim()))),
                None if *is_needed => Err(missing(format!("set {name}"))),
                None => Ok(None),
            },
            Self::File(path) => key_of_file(path).map(Some).map_err(missing),
            Self::Command(command) => key_of_command(command).map(Some).map_err(missing),
        }
    }
}

/// Reads a key from a file that nobody but its owner can read.
pub(crate) fn key_of_file(path: &Path) -> Result<Secret, String> {
    let cannot = |error: std::io::Error| format!("cannot read {}: {error}", path.display());
    let mut file = std::fs::File::open(path).map_err(cannot)?;
    if can_be_read_by_others(&file.metadata().map_err(cannot)?) {
        let path = path.display();
        return Err(format!("others can read {path}; make it yours alone: chmod 600 {path}"));
    }
    let mut text = String::new();
    file.read_to_string(&mut text).map_err(cannot)?;
    match text.trim() {
        "" => Err(format!("{} is empty", path.display())),
        key => Ok(Secret::from(key)),
    }
}

#[cfg(unix)]
fn can_be_read_by_others(metadata: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    metadata.permissions().mode() & 0o077 != 0
}

#[cfg(not(unix))]
fn can_be_read_by_others(_: &std::fs::Metadata) -> bool {
    false
}

/// Returns a path of the configuration: `~/` is the user's home, and what is relative is in the
/// folder of the user's configuration.
fn home_path(path: &Path, environment: &Environment) -> PathBuf {
    if let (Ok(rest), Some(home)) = (path.strip_prefix("~"), environment.get("HOME")) {
        return Path::new(home).join(rest);
    }
    match environment.folders() {
        Some(folders) => folders.config.join(path),
        None => path.to_owned(),
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

/// Returns the host of an address, without its port.
fn host_of(base_url: &str) -> &str {
    let host = base_url.split_once("://").map_or(base_url, |(_, rest)| rest);
    let host = host.split(['/', '?', '#']).next().unwrap_or_default();
    match host.strip_prefix('[') {
        Some(host) => host.split(']').next().unwrap_or_default(),
        None => host.rsplit_once(':').map_or(host, |(host, _)| host),
    }
}

fn same_host(one: &str, other: &str) -> bool {
    let is_secret = |url: &str| url.starts_with("https://");
    host_of(one) == host_of(other) && (!is_secret(one) || is_secret(other))
}

pub(crate) fn is_loopback(base_url: &str) -> bool {
    let host = host_of(base_url);
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

pub(crate) fn proxy(environment: &Environment) -> http::Proxy {
    let either = |upper: &str, lower: &str| environment.get(lower).or(environment.get(upper));
    http::Proxy {
        http: either("HTTP_PROXY", "http_proxy").map(Secret::from),
        https: either("HTTPS_PROXY", "https_proxy").map(Secret::from),
        no_proxy: either("NO_PROXY", "no_proxy").unwrap_or_default().to_owned(),
    }
}

/// Returns the secrets that must never be shown: the keys that the configuration names, by the
/// variables or the providers they belong to; not those that a command would print, as it runs only
/// for [`model`].
pub(crate) fn secrets(config: &Config, environment: &Environment) -> BTreeMap<String, Secret> {
    let configured =
        config.providers.values().filter_map(|provider| provider.api_key_env.as_deref());
    let known = KNOWN.iter().filter_map(|known| known.key);
    let in_variables = configured
        .chain(known)
        .filter_map(|name| Some((name.to_owned(), Secret::from(environment.get(name)?))));
    let by_provider = config.providers.iter().filter_map(|(name, provider)| {
        let in_file = || kept_in_file(&home_path(provider.api_key_file.as_deref()?, environment));
        Some((name.clone(), provider.api_key.clone().or_else(in_file)?))
    });
    in_variables.chain(by_provider).collect()
}

/// Returns what a file holds that is to be kept secret, whoever else can read it; `None` if it is not
/// there, or is something that can be read only once.
fn kept_in_file(path: &Path) -> Option<Secret> {
    let is_file = std::fs::metadata(path).is_ok_and(|metadata| metadata.is_file());
    let text = is_file.then(|| std::fs::read_to_string(path).ok())??;
    Some(text.trim()).filter(|key| !key.is_empty()).map(Secret::from)
}

#[cfg(test)]
mod tests;
