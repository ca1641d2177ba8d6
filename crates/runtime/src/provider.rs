//! From a model's name to a model.

mod key;
mod known;
mod make;
mod own;

use bowline_llm::Effort;

use crate::config::{self, Config, Provider, Wire};
use crate::environment::Environment;
use crate::error::ConfigError;
use crate::local::Found;

pub(crate) use key::{KeySource, key_of_file, secrets};
pub(crate) use make::{Made, Making, Shared, entry, info, make, proxy};
pub(crate) use own::OwnModels;

use known::{BY_KEY, KNOWN};

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

/// Returns the providers that are configured, and those whose keys are in the environment.
pub(crate) fn in_use<'a>(config: &'a Config, environment: &Environment) -> Vec<&'a str> {
    let with_key = KNOWN.iter().filter(|known| {
        let has_key = known.key.is_some_and(|key| environment.get(key).is_some());
        has_key && !config.providers.contains_key(known.name)
    });
    config.providers.keys().map(String::as_str).chain(with_key.map(|known| known.name)).collect()
}

/// Returns all providers: those that are configured, and those that are known.
pub(crate) fn all(config: &Config) -> Vec<&str> {
    let known = KNOWN.iter().map(|known| known.name);
    let unconfigured = known.filter(|name| !config.providers.contains_key(*name));
    config.providers.keys().map(String::as_str).chain(unconfigured).collect()
}

/// Returns the name by which the catalog knows a provider: that of whose address it is, else its own.
pub(crate) fn namesake<'a>(provider: &'a str, base_url: &str) -> &'a str {
    known::at(base_url).map_or(provider, |known| known.name)
}

/// Returns the model that a key alone makes run.
pub(crate) fn by_key(provider: &str) -> Option<&'static str> {
    let models = BY_KEY.iter().map(|(_, model)| *model);
    models
        .filter_map(|model| model.split_once('/'))
        .find(|(own, _)| *own == provider)
        .map(|(_, model)| model)
}

/// A provider with everything that is said of it, and what holds by itself.
#[derive(Debug, Clone)]
pub(crate) struct Resolved {
    pub(crate) provider: Provider,
    /// What is spoken there.
    pub(crate) wire: Wire,
    pub(crate) base_url: String,
    pub(crate) key: KeySource,
}

/// Puts together what is known of a provider.
pub(crate) fn resolve(
    name: &str,
    config: &Config,
    environment: &Environment,
) -> Result<Resolved, ConfigError> {
    let known = known::find(name);
    let provider = match (config.providers.get(name), known) {
        (Some(provider), _) => provider.clone(),
        (None, Some(_)) => Provider::default(),
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
    let base_url = provider
        .base_url
        .clone()
        .or_else(|| known?.moved_to(environment))
        .or_else(|| known.map(|known| known.base_url.to_owned()))
        .or_else(|| (provider.wire == Some(Wire::Local)).then(String::new))
        .ok_or_else(|| wrong("base_url is missing"))?;
    let wire = provider.wire.unwrap_or_else(|| known::wire(name, &base_url));
    let key = key::key_source(&provider, known, &base_url, environment).map_err(wrong)?;
    Ok(Resolved { provider, wire, base_url, key })
}

#[cfg(test)]
mod tests;
