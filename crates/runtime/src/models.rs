//! Which models can be used now, and why others cannot.

use serde::Serialize;

use bowline_llm::ModelInfo;

use crate::config::{AgentConfig, Provider};
use crate::local::{self, Server};
use crate::provider::{self, KeySource, ModelName, Resolved};
use crate::{Runtime, catalog, doctor, embedded};

/// What there is.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Models {
    /// Models that can be used, by the names to choose them by.
    pub usable: Vec<Usable>,
    /// Providers that cannot be used.
    pub unusable: Vec<Unusable>,
}

/// A model that can be used. Hosted ones are those that are configured and those that are known; a
/// provider may have more, and takes any name.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Usable {
    /// Its name, as `provider/model`.
    pub name: String,
    /// Whether it runs when nothing else is said.
    pub is_default: bool,
    /// How many tokens a request and its answer may have together, if that is known.
    pub context_window: Option<u64>,
    /// How many tokens an answer may have, if that is known.
    pub max_output_tokens: Option<u64>,
    /// Whether it sees images, if that is known.
    pub images: Option<bool>,
    /// Whether it reasons, if that is known.
    pub reasoning: Option<bool>,
    /// What its tokens cost, if that is known.
    pub price: Option<bowline_llm::Price>,
    /// Why it can be used: where its key is, or where its server.
    pub why: String,
}

/// A provider that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Unusable {
    /// Its name.
    pub provider: String,
    /// Why.
    pub why: String,
    /// What to do.
    pub fix: String,
}

impl Models {
    fn refuse(&mut self, provider: &str, why: impl Into<String>, fix: impl Into<String>) {
        let (provider, why, fix) = (provider.to_owned(), why.into(), fix.into());
        self.unusable.push(Unusable { provider, why, fix });
    }
}

/// Looks at everything. Servers on this machine are asked what they have; nobody else is asked
/// anything, and no command is run to find out whether it prints a key.
pub async fn list(runtime: &Runtime) -> Models {
    let Runtime { environment, config, .. } = runtime;
    let servers = local::servers(&local::addresses(config, environment)).await;
    let mut models = Models::default();
    for name in provider::all(config) {
        if name == embedded::PROVIDER {
            add_embedded(runtime, &mut models);
            continue;
        }
        let on_this_machine: Vec<_> =
            servers.iter().filter(|server| server.kind.as_str() == name).collect();
        if !config.providers.contains_key(name) && is_server(name) {
            add_servers(name, &on_this_machine, &mut models);
            continue;
        }
        match provider::resolve(name, config, environment) {
            Ok(resolved) => match local::silence(name, &resolved.base_url).await {
                Some((why, fix)) => models.refuse(name, why, fix),
                None => add_provider(name, &resolved, runtime, &mut models),
            },
            Err(error) => {
                models.refuse(name, error.to_string(), format!("correct [providers.{name}]"));
            }
        }
    }
    let default = default(runtime, &servers);
    for model in &mut models.usable {
        model.is_default = Some(&model.name) == default.as_ref();
    }
    models
}

fn is_server(name: &str) -> bool {
    ["ollama", "llamacpp", "lmstudio", "vllm"].contains(&name)
}

fn add_embedded(runtime: &Runtime, models: &mut Models) {
    let names = embedded::models(&embedded::folder(&runtime.folders));
    if names.is_empty() {
        let (why, fix) = match embedded::IS_BUILT_IN {
            true => ("no model is there", "bowline model pull"),
            false => ("bowline is built without it", "build it with --features local"),
        };
        models.refuse(embedded::PROVIDER, why, fix);
    }
    let why = "runs in this process";
    models.usable.extend(names.iter().map(|model| bare(embedded::PROVIDER, model, None, why)));
}

fn add_servers(name: &str, servers: &[&Server], models: &mut Models) {
    let has_models = servers.iter().any(|server| !server.models.is_empty());
    if !has_models {
        let why =
            if servers.is_empty() { "no server is found" } else { "its server has no models" };
        models.refuse(name, why, format!("start it, or set [providers.{name}] base_url"));
    }
    for server in servers {
        let why = format!("{} at {}", server.kind, server.address);
        let offers = server.models.iter();
        let offers = offers.map(|offer| bare(name, &offer.name, offer.context_window, &why));
        models.usable.extend(offers);
    }
}

fn bare(provider: &str, model: &str, context_window: Option<u64>, why: &str) -> Usable {
    Usable {
        name: format!("{provider}/{model}"),
        is_default: false,
        context_window,
        max_output_tokens: None,
        images: None,
        reasoning: None,
        price: None,
        why: why.to_owned(),
    }
}

fn add_provider(name: &str, resolved: &Resolved, runtime: &Runtime, models: &mut Models) {
    let environment = &runtime.environment;
    if let Some((why, fix)) = doctor::key_problem(&resolved.key, environment) {
        return models.refuse(name, why, fix);
    }
    let why = match &resolved.key {
        KeySource::Given(_) => "key in the configuration".to_owned(),
        KeySource::Variable { name, .. } if environment.get(name).is_some() => {
            format!("key in {name}")
        }
        KeySource::File(path) => format!("key in {}", path.display()),
        KeySource::Command(_) => "key from a command".to_owned(),
        KeySource::Keyring { .. } => "key in the keyring".to_owned(),
        KeySource::None | KeySource::Variable { .. } => resolved.base_url.clone(),
    };
    let Provider { model, models: own, .. } = &resolved.provider;
    let configured = model.iter().map(String::as_str).chain(own.keys().map(String::as_str));
    let known = catalog::of(provider::namesake(name, &resolved.base_url));
    let known = known.map(|entry| entry.name.as_str());
    let agents = runtime.config.agents.values().filter_map(AgentConfig::model);
    let named = runtime.config.model.iter().cloned().chain(agents);
    let named = named.filter_map(|model| ModelName::resolve(&model, &runtime.config).ok());
    let named: Vec<_> =
        named.filter(|model| model.provider == name).map(|model| model.model).collect();
    let named = named.iter().map(String::as_str);
    let mut names: Vec<&str> = Vec::new();
    for model in named.chain(configured).chain(provider::by_key(name)).chain(known) {
        if !names.contains(&model) {
            names.push(model);
        }
    }
    if names.is_empty() {
        // It takes any name, and has none of its own.
        names.push("…");
    }
    let usable = names.into_iter().map(|model| usable(name, model, resolved, &why));
    models.usable.extend(usable);
}

fn usable(provider: &str, model: &str, resolved: &Resolved, why: &str) -> Usable {
    let model = ModelName { provider: provider.to_owned(), model: model.to_owned(), effort: None };
    let ModelInfo { context_window, max_output_tokens, price, .. } =
        provider::info(&model, &resolved.provider, &resolved.base_url);
    let known = provider::entry(provider, &model.model, &resolved.base_url);
    let own = resolved.provider.models.get(&model.model);
    Usable {
        name: format!("{provider}/{}", model.model),
        is_default: false,
        context_window,
        max_output_tokens: max_output_tokens.or_else(|| known?.max_output_tokens),
        images: own.and_then(|own| own.images).or(known.map(|known| known.images)),
        reasoning: own.and_then(|own| own.reasoning).or(known.map(|known| known.reasoning)),
        price,
        why: why.to_owned(),
    }
}

/// Returns the model that runs when nothing else is said: the one that is named, else the first of a
/// server on this machine, else the first in this process.
fn default(runtime: &Runtime, servers: &[Server]) -> Option<String> {
    let shown = |name: ModelName| format!("{}/{}", name.provider, name.model);
    let named = runtime.entry().and_then(|agent| runtime.named_by(&agent)).ok().flatten();
    let served = || {
        let server = servers.iter().find(|server| !server.models.is_empty())?;
        Some(format!("{}/{}", server.kind.as_str(), server.models.first()?.name))
    };
    let embedded = || Some(shown(runtime.embedded()?.name));
    named.map(shown).or_else(served).or_else(embedded)
}
