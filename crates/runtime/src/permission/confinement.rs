//! The sandbox that the rules make.

use std::path::{Path, PathBuf};

use bowline_tools::guard::{BUT, Confinement, EVERYTHING, Network, ResourceLimits};

use super::call::{Command, names_a_secret};
use super::judgement::Decision;
use super::path::PathPattern;
use super::places::Places;
use super::policy::Policy;
use super::rule::{About, Host, Rule};
use crate::config::{Mode, SandboxProfile};

/// Returns what confines a command by the rules of one agent; `None` if nothing does.
///
/// # Errors
/// Which rule cannot be enforced: it is about more files than can be looked for before each command.
pub(super) fn of(policy: &Policy, command: &Command) -> Result<Option<Confinement>, String> {
    let is_outside = command.doubts.is_empty()
        && !command.programs.is_empty()
        && command.programs.iter().all(|program| policy.is_outside(program));
    if !policy.is_confined() || is_outside {
        return Ok(None);
    }
    let places = &policy.places;
    let (allowed, denied) = (rules(policy, Decision::Allow), rules(policy, Decision::Deny));
    let lifted: Vec<&PathPattern> = written(&allowed).collect();
    let is_looking = policy.mode == Mode::Plan || only_looks(policy, command);
    let mut writable: Vec<PathBuf> = Vec::new();
    if !is_looking && policy.profile() != SandboxProfile::ReadOnly {
        writable.extend(places.roots().cloned());
    }
    if !is_looking {
        writable.extend(lifted.iter().filter_map(|pattern| pattern.only(places)));
    }
    let mut protected: Vec<PathBuf> =
        writable.iter().flat_map(|root| places.protected_in(root, &lifted)).collect();
    // In there nothing is protected.
    writable.extend(places.temp.last().cloned());
    if !is_looking {
        protected.extend(meant(written(&denied), places)?);
    }
    let shown: Vec<&PathPattern> = read(&allowed).collect();
    // The workspace may lie in such a place.
    let is_hidden =
        |path: &PathBuf| path.exists() && !places.roots().any(|root| root.starts_with(path));
    let mut hidden: Vec<PathBuf> = places
        .secret_places()
        .filter(is_hidden)
        .flat_map(|place| places.hidden_in(&place, &shown))
        .collect();
    // What only looks is not asked about, and may look at a folder with secrets in it.
    if is_looking && !names_a_secret(command, places) {
        let files = places.secret_files();
        hidden.extend(files.flat_map(|file| places.hidden_in(&file, &shown)));
    }
    hidden.extend(meant(read(&denied), places)?);
    Ok(Some(Confinement {
        writable: sorted(writable),
        protected: sorted(protected),
        hidden: sorted(hidden),
        network: network(policy, &allowed),
        unix_sockets: policy.sandbox.unix_sockets.unwrap_or(false),
        limits: policy.sandbox.limits.resources(),
    }))
}

/// Tells whether a command runs without a question because it only looks. Then it can only look: what it
/// looks at may name programs, as the configuration of a repository does.
fn only_looks(policy: &Policy, command: &Command) -> bool {
    policy.mode != Mode::Auto
        && command.doubts.is_empty()
        && command.programs.iter().all(|program| program.is_harmless)
}

/// Returns the files that patterns mean: those that are there, and those that would be.
fn meant<'p>(
    patterns: impl Iterator<Item = &'p PathPattern>,
    places: &Places,
) -> Result<Vec<PathBuf>, String> {
    let mut paths = Vec::new();
    for pattern in patterns {
        paths.extend(pattern.nearest(places));
        if pattern.only(places).is_none() {
            paths.extend(pattern.existing(places).ok_or_else(|| {
                format!(
                    "a rule that denies `{pattern}` means more files than commands can be kept from; name \
                     the folders that it is about"
                )
            })?);
        }
    }
    Ok(paths)
}

fn rules(policy: &Policy, decision: Decision) -> Vec<Rule> {
    let entries = policy.entries.iter().filter(|entry| entry.decision == decision);
    let mut rules: Vec<Rule> = entries.map(|entry| entry.rule.clone()).collect();
    if decision == Decision::Allow {
        rules.extend(policy.approvals.rules().iter().cloned());
    }
    rules
}

fn written(rules: &[Rule]) -> impl Iterator<Item = &PathPattern> {
    rules.iter().filter_map(|rule| match &rule.about {
        About::Write(pattern) => pattern.as_ref(),
        _ => None,
    })
}

fn read(rules: &[Rule]) -> impl Iterator<Item = &PathPattern> {
    rules.iter().filter_map(|rule| match &rule.about {
        About::Read(pattern) => pattern.as_ref(),
        _ => None,
    })
}

fn network(policy: &Policy, allowed: &[Rule]) -> Network {
    let by_rule = allowed.iter().filter_map(|rule| match &rule.about {
        About::Host(host) => Some(host.as_ref()),
        _ => None,
    });
    let configured = policy.sandbox.hosts.iter().flatten().map(Some);
    let mut named: Vec<Option<&Host>> = configured.chain(by_rule).collect();
    if policy.sandbox.network == Some(true) {
        named.push(None);
    }
    let refused = policy.hosts_with_questions();
    if named.contains(&None) && refused.is_empty() {
        return Network::Full;
    }
    let name = |host: Option<&Host>| host.map_or(EVERYTHING.to_owned(), Host::name);
    let (wide, exact): (Vec<String>, Vec<String>) =
        named.into_iter().map(name).partition(|name| name.starts_with(EVERYTHING));
    let mut hosts: Vec<String> = exact.into_iter().filter(|host| policy.lets_reach(host)).collect();
    if !wide.is_empty() && !refused.contains(&None) {
        hosts.extend(wide);
        hosts.extend(refused.into_iter().map(|host| format!("{BUT}{}", name(host))));
    }
    of_names(hosts)
}

fn of_names(mut hosts: Vec<String>) -> Network {
    hosts.sort();
    hosts.dedup();
    match hosts.iter().all(|host| host.starts_with(BUT)) {
        true => Network::None,
        false => Network::Hosts(hosts),
    }
}

/// Equal confinements must be equal values: they share what is set up for them.
fn sorted(mut paths: Vec<PathBuf>) -> Vec<PathBuf> {
    paths.sort();
    paths.dedup();
    paths
}

/// Returns what confines as much as each of two does.
pub fn intersect(one: Confinement, other: &Confinement) -> Confinement {
    let within = |paths: &[PathBuf], path: &Path| paths.iter().any(|root| path.starts_with(root));
    let from_one = one.writable.iter().filter(|path| within(&other.writable, path));
    let from_other = other.writable.iter().filter(|path| within(&one.writable, path));
    let writable = sorted(from_one.chain(from_other).cloned().collect());
    let both = |one: Vec<PathBuf>, other: &[PathBuf]| {
        sorted(one.into_iter().chain(other.iter().cloned()).collect())
    };
    Confinement {
        writable,
        protected: both(one.protected, &other.protected),
        hidden: both(one.hidden, &other.hidden),
        network: common(one.network, &other.network),
        unix_sockets: one.unix_sockets && other.unix_sockets,
        limits: lowest(&one.limits, &other.limits),
    }
}

fn common(one: Network, other: &Network) -> Network {
    match (one, other) {
        (Network::None, _) | (_, Network::None) => Network::None,
        (Network::Full, other) => other.clone(),
        (one, Network::Full) => one,
        (Network::Hosts(one), Network::Hosts(other)) => {
            let lets = |names: &[String], name: &String| {
                let is_excepted = || {
                    let excepted = names.iter().filter_map(|known| known.strip_prefix(BUT));
                    excepted.into_iter().any(|known| known == name || is_under(name, known))
                };
                names.contains(name)
                    || names.iter().any(|wide| is_under(name, wide)) && !is_excepted()
            };
            let is_but = |name: &&String| name.starts_with(BUT);
            let from_one = one.iter().filter(|name| is_but(name) || lets(other, name));
            let from_other = other.iter().filter(|name| is_but(name) || lets(&one, name));
            of_names(from_one.chain(from_other).cloned().collect())
        }
    }
}

/// Tells whether `*.example.com` stands for all that another name does; `*` does for everything.
fn is_under(name: &str, wide: &str) -> bool {
    let Some(domain) = wide.strip_prefix("*.") else { return wide == EVERYTHING };
    let name = name.strip_prefix("*.").unwrap_or(name);
    name.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.'))
}

fn lowest(one: &ResourceLimits, other: &ResourceLimits) -> ResourceLimits {
    let least = |one: Option<u64>, other: Option<u64>| match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    };
    ResourceLimits {
        memory: least(one.memory, other.memory),
        processes: least(one.processes, other.processes),
        open_files: least(one.open_files, other.open_files),
        file_size: least(one.file_size, other.file_size),
        cpu_seconds: least(one.cpu_seconds, other.cpu_seconds),
    }
}
