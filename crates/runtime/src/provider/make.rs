//! From what is known of a provider to a client that speaks its wire.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use bowline_llm::http::{self, Transport};
use bowline_llm::rate_limit::{Limits, RateLimited, RateLimiter};
use bowline_llm::wire;
use bowline_llm::{
    Model, ModelError, ModelInfo, Retry, Secret, anthropic, chat, gemini, responses, retry,
};

use crate::catalog;
use crate::config::{Config, Provider, SystemRole, Wire};
use crate::embedded::{self, Embedded};
use crate::environment::Environment;
use crate::error::ConfigError;

use super::{ModelName, Picked, Resolved, namesake, resolve};

/// A model that was made.
pub(crate) struct Made {
    pub(crate) model: Arc<dyn Model>,
    /// The key it uses.
    pub(crate) key: Option<Secret>,
    /// Whether it talks in plain lines, and so knows few tools and takes no system text.
    pub(crate) in_lines: bool,
}

/// What all models of a process share: the connections, and the account of what each provider was
/// asked.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    transport: Mutex<Option<Transport>>,
    limiters: Mutex<BTreeMap<String, RateLimiter>>,
}

/// What models are made with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Making<'a> {
    pub(crate) config: &'a Config,
    pub(crate) environment: &'a Environment,
    pub(crate) shared: &'a Shared,
}

/// What every wire needs to reach a model.
struct Reach<'a> {
    info: ModelInfo,
    base_url: String,
    key: Option<Secret>,
    provider: &'a Provider,
    transport: &'a Transport,
}

/// Makes the model that was picked. A command that prints its key runs here and nowhere else.
///
/// # Errors
/// [`ConfigError`] if its provider is unknown, or cannot be used as it is configured.
pub(crate) fn make(picked: &Picked, with: Making<'_>) -> Result<Made, ConfigError> {
    let Making { config, environment, shared } = with;
    let name = &picked.name;
    let Resolved { provider, wire, mut base_url, key } =
        resolve(&name.provider, config, environment)?;
    let wrong = |what: String| ConfigError::Provider { name: name.provider.clone(), what };
    let mut info = info(name, &provider, &base_url);
    if wire == Wire::Anthropic {
        info.max_output_tokens = info.max_output_tokens.or(answer_limit(&info, &base_url));
    }
    if wire == Wire::Local {
        let folders = environment.folders().ok_or(ConfigError::NoHome)?;
        let folder = embedded::folder(&folders);
        let Embedded { model, in_lines } =
            embedded::open(&name.model, &folder, info).map_err(wrong)?;
        return Ok(Made { model, key: None, in_lines });
    }
    let key = match &picked.found {
        Some(found) => {
            base_url.clone_from(&found.base_url);
            info.context_window = info.context_window.or(found.context_window);
            // Whoever was found there is not whom a configured key is for.
            None
        }
        None => key.read(environment, &name.provider)?,
    };
    let transport = shared.transport(environment).map_err(|error| wrong(error.to_string()))?;
    let reach =
        Reach { info, base_url, key: key.clone(), provider: &provider, transport: &transport };
    let client = match wire {
        // A model in this process was made above.
        Wire::Chat | Wire::Local => reach.chat(),
        Wire::Responses => reach.responses(),
        Wire::Anthropic => reach.anthropic(),
        Wire::Gemini => reach.gemini(),
    };
    let client = client.map_err(|error| wrong(error.message))?;
    let limit = provider.rate_limit.unwrap_or_default();
    let default = retry::Policy::default();
    let policy = retry::Policy {
        max_retries: limit.max_retries.unwrap_or(provider.max_retries),
        base_delay: limit.base_delay.map_or(default.base_delay, |delay| delay.0),
        ..default
    };
    let limits =
        Limits { rpm: limit.rpm, input_tpm: limit.input_tpm, output_tpm: limit.output_tpm };
    let model: Arc<dyn Model> = match limits == Limits::default() {
        true => Arc::new(Retry::new(client, policy)),
        false => {
            // Each attempt counts, so the limiter is within the patience.
            let limiter = shared.limiter(&name.provider, limits);
            Arc::new(Retry::new(RateLimited::new(client, limiter), policy))
        }
    };
    Ok(Made { model, key, in_lines: false })
}

impl Shared {
    /// Returns the connections, which are made when they are first needed.
    fn transport(&self, environment: &Environment) -> Result<Transport, ModelError> {
        let mut transport = self.transport.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(transport) = &*transport {
            return Ok(transport.clone());
        }
        let config = http::Config { proxy: proxy(environment), ..http::Config::default() };
        Ok(transport.insert(Transport::new(config)?).clone())
    }

    fn limiter(&self, provider: &str, limits: Limits) -> RateLimiter {
        let mut limiters = self.limiters.lock().unwrap_or_else(PoisonError::into_inner);
        let limiter = limiters.entry(provider.to_owned());
        limiter.or_insert_with(|| RateLimiter::new(limits)).clone()
    }
}

impl Reach<'_> {
    /// Fills in what is the same for all wires.
    fn fill<D>(self, config: wire::Config<D>) -> wire::Config<D> {
        wire::Config {
            info: self.info,
            api_key: self.key,
            headers: self.provider.headers.clone().into_iter().collect(),
            stream: self.provider.stream,
            idle_timeout: self.provider.idle_timeout.0,
            ..config
        }
    }

    fn system_role(&self) -> Option<chat::SystemRole> {
        self.provider.system_role.map(|role| match role {
            SystemRole::System => chat::SystemRole::System,
            SystemRole::Developer => chat::SystemRole::Developer,
        })
    }

    fn chat(self) -> Result<Arc<dyn Model>, ModelError> {
        let mut config = chat::Config::new(&self.base_url);
        config.dialect = chat::Dialect::find(&self.info.provider, &self.base_url);
        if let Some(role) = self.system_role() {
            config.dialect.system_role = role;
        }
        let transport = self.transport;
        Ok(Arc::new(chat::Client::new(self.fill(config), transport)?))
    }

    fn responses(self) -> Result<Arc<dyn Model>, ModelError> {
        let mut config = responses::Config::new(&self.base_url);
        if let Some(role) = self.system_role() {
            config.dialect.system_role = Some(role);
        }
        let transport = self.transport;
        Ok(Arc::new(responses::Client::new(self.fill(config), transport)?))
    }

    fn anthropic(self) -> Result<Arc<dyn Model>, ModelError> {
        let config = anthropic::Config::new(&self.base_url, &self.info.model);
        let transport = self.transport;
        Ok(Arc::new(anthropic::Client::new(self.fill(config), transport)?))
    }

    fn gemini(self) -> Result<Arc<dyn Model>, ModelError> {
        let config = gemini::Config::new(&self.base_url);
        let transport = self.transport;
        Ok(Arc::new(gemini::Client::new(self.fill(config), transport)?))
    }
}

/// Puts together what is known of a model: what is configured for it, then for its provider, then
/// what the catalog says.
pub(crate) fn info(name: &ModelName, provider: &Provider, base_url: &str) -> ModelInfo {
    let own = provider.models.get(&name.model).cloned().unwrap_or_default();
    let known = entry(&name.provider, &name.model, base_url);
    ModelInfo {
        provider: name.provider.clone(),
        model: name.model.clone(),
        context_window: own
            .context_window
            .or(provider.context_window)
            .or_else(|| known?.context_window),
        // What the catalog says is what a model can do, not what every answer should be granted.
        max_output_tokens: own.max_output_tokens.or(provider.max_output_tokens),
        price: own.price.or_else(|| known?.price),
    }
}

/// Returns what the catalog says: of the provider whose address it is, else of its namesake.
pub(crate) fn entry(
    provider: &str,
    model: &str,
    base_url: &str,
) -> Option<&'static catalog::Entry> {
    catalog::find(namesake(provider, base_url), model)
}

/// Returns the limit of an answer for the wire that demands one, where a model takes less than it
/// asks for by itself.
fn answer_limit(info: &ModelInfo, base_url: &str) -> Option<u64> {
    let limit = entry(&info.provider, &info.model, base_url)?.max_output_tokens?;
    Some(limit.min(anthropic::DEFAULT_MAX_TOKENS))
}

/// Returns the proxies that the environment names.
pub(crate) fn proxy(environment: &Environment) -> http::Proxy {
    let either = |upper: &str, lower: &str| environment.get(lower).or(environment.get(upper));
    http::Proxy {
        http: either("HTTP_PROXY", "http_proxy").map(Secret::from),
        https: either("HTTPS_PROXY", "https_proxy").map(Secret::from),
        no_proxy: either("NO_PROXY", "no_proxy").unwrap_or_default().to_owned(),
    }
}
