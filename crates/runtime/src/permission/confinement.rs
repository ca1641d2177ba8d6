//! The sandbox that the rules make.

use std::path::{Path, PathBuf};

use bowline_tools::guard::{Confinement, Network, ResourceLimits};

use super::call::Command;
use super::judgement::Decision;
use super::path::PathPattern;
use super::policy::Policy;
use super::rule::{About, Host, Rule};
use crate::config::{Mode, SandboxProfile};

/// Returns what confines a command by the rules of one agent; `None` if nothing does.
pub(super) fn of(policy: &Policy, command: &Command) -> Option<Confinement> {
    let is_outside = command.doubts.is_empty()
        && !command.programs.is_empty()
        && command.programs.iter().all(|program| policy.is_outside(program));
    if !policy.is_confined() || is_outside {
        return None;
    }
    let places = &policy.places;
    let (allowed, denied) = (rules(policy, Decision::Allow), rules(policy, Decision::Deny));
    let lifted: Vec<&PathPattern> = written(&allowed).collect();
    let is_read_only = policy.profile() == SandboxProfile::ReadOnly || policy.mode == Mode::Plan;
    let mut writable: Vec<PathBuf> = Vec::new();
    if !is_read_only {
        writable.extend(places.roots().cloned());
    }
    if policy.mode != Mode::Plan {
        writable.extend(lifted.iter().filter_map(|pattern| pattern.only(places)));
    }
    let mut protected: Vec<PathBuf> =
        writable.iter().flat_map(|root| places.protected_in(root, &lifted)).collect();
    // In there nothing is protected.
    writable.extend(places.temp.last().cloned());
    protected.extend(written(&denied).filter_map(|pattern| pattern.nearest(places)));
    let shown: Vec<&PathPattern> = read(&allowed).collect();
    let is_hidden = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let is_shown = shown.iter().any(|pattern| pattern.names(&name));
        // The workspace may lie in such a place.
        !is_shown && path.exists() && !places.roots().any(|root| root.starts_with(path))
    };
    let mut hidden: Vec<PathBuf> = places.secret_places().filter(is_hidden).collect();
    hidden.extend(read(&denied).filter_map(|pattern| pattern.nearest(places)));
    Some(Confinement {
        writable: sorted(writable),
        protected: sorted(protected),
        hidden: sorted(hidden),
        network: network(policy, &allowed),
        unix_sockets: policy.sandbox.unix_sockets.unwrap_or(false),
        limits: policy.sandbox.limits.resources(),
    })
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
    let by_rule: Vec<Option<&Host>> = by_rule.collect();
    if policy.sandbox.network == Some(true) || by_rule.contains(&None) {
        return Network::Full;
    }
    let configured = policy.sandbox.hosts.iter().flatten();
    let mut hosts: Vec<String> =
        configured.chain(by_rule.into_iter().flatten()).map(Host::name).collect();
    hosts.sort();
    hosts.dedup();
    if hosts.is_empty() { Network::None } else { Network::Hosts(hosts) }
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
            let covers = |names: &[String], name: &String| {
                names.iter().any(|wide| wide == name || is_under(name, wide))
            };
            let mut hosts: Vec<String> =
                one.iter().filter(|name| covers(other, name)).cloned().collect();
            hosts.extend(other.iter().filter(|name| covers(&one, name)).cloned());
            hosts.sort();
            hosts.dedup();
            if hosts.is_empty() { Network::None } else { Network::Hosts(hosts) }
        }
    }
}

/// Tells whether `*.example.com` stands for all that another name does.
fn is_under(name: &str, wide: &str) -> bool {
    let Some(domain) = wide.strip_prefix("*.") else { return false };
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
