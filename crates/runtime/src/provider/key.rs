//! Where the key of a provider comes from, and whom it is for.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use bowline_llm::Secret;

use crate::config::{Config, Provider};
use crate::environment::Environment;
use crate::error::ConfigError;
use crate::reading;

use super::known::{KNOWN, Known};

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
    /// The keyring of the operating system: a service and an account.
    Keyring { service: String, account: String },
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
            Self::Keyring { service, account } => {
                key_of_keyring(service, account).map(Some).map_err(missing)
            }
        }
    }
}

/// Finds out where the key of a provider comes from.
pub(super) fn key_source(
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
        provider.api_key_keyring.is_some(),
    ];
    if given.into_iter().filter(|is_given| *is_given).count() > 1 {
        return Err("give only one of api_key, api_key_env, api_key_file, api_key_command and \
                    api_key_keyring");
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
    } else if let Some(entry) = &provider.api_key_keyring {
        let (service, account) = entry
            .split_once('/')
            .filter(|(service, account)| !service.is_empty() && !account.is_empty())
            .ok_or("api_key_keyring must be \"service/account\"")?;
        KeySource::Keyring { service: service.to_owned(), account: account.to_owned() }
    } else if let Some(variable) = provider.api_key_env.as_deref().or(default) {
        KeySource::Variable { name: variable.to_owned(), is_needed: !is_loopback(base_url) }
    } else {
        KeySource::None
    })
}

/// Reads a key from a file that nobody but its owner can read.
pub(crate) fn key_of_file(path: &Path) -> Result<Secret, String> {
    let cannot = |error: std::io::Error| format!("cannot read {}: {error}", path.display());
    let text = reading::text_of(path).map_err(cannot)?;
    if can_be_read_by_others(&path.metadata().map_err(cannot)?) {
        let path = path.display();
        return Err(format!("others can read {path}; make it yours alone: chmod 600 {path}"));
    }
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

/// Reads a key from the keyring of the operating system, by the program that comes with it: a library for
/// each of them would be much for what is done once.
fn key_of_keyring(service: &str, account: &str) -> Result<Secret, String> {
    let (program, arguments) = match cfg!(target_os = "macos") {
        true => ("security", vec!["find-generic-password", "-s", service, "-a", account, "-w"]),
        false => ("secret-tool", vec!["lookup", "service", service, "account", account]),
    };
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output();
    let output = output.map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => {
            format!("there is no keyring here: {program} is not installed; use api_key_file")
        }
        _ => format!("cannot ask the keyring with {program}: {error}"),
    })?;
    let key = String::from_utf8_lossy(&output.stdout);
    match key.trim() {
        key if output.status.success() && !key.is_empty() => Ok(Secret::from(key)),
        _ => {
            let why = String::from_utf8_lossy(&output.stderr);
            let why = why.lines().next().map(|line| format!(": {line}")).unwrap_or_default();
            Err(format!("the keyring has no key for {account:?} of {service:?}{why}"))
        }
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

pub(super) fn same_host(one: &str, other: &str) -> bool {
    let is_secret = |url: &str| url.starts_with("https://");
    host_of(one) == host_of(other) && (!is_secret(one) || is_secret(other))
}

pub(crate) fn is_loopback(base_url: &str) -> bool {
    let host = host_of(base_url);
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// Returns the secrets that must never be shown: the keys that the configuration names, by the
/// variables or the providers they belong to; not those that a command would print or that the keyring
/// holds, as they are asked only for [`make`](super::make()).
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
