//! Whether everything is there that is needed, and what to do where it is not.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bowline_llm::ModelInfo;
use bowline_tools::process::{Command, Helper, Processes};
use serde::Serialize;
use tokio::time::timeout;

use crate::config::{self, AgentConfig, Config, Loaded, Said, Trust};
use crate::environment::{Environment, Folders};
use crate::error::ConfigError;
use crate::provider::{self, KeySource};
use crate::telemetry::{self, Settings};
use crate::{Runtime, embedded, local};

/// How long the helper process may take to run a command that does nothing.
const HELPER_TIME: Duration = Duration::from_secs(10);

/// What was looked at.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Report {
    /// One entry for everything that was looked at.
    pub checks: Vec<Check>,
}

/// One thing that was looked at.
#[derive(Debug, Clone, Serialize)]
pub struct Check {
    /// What it is.
    pub name: &'static str,
    /// How it is.
    pub status: Status,
    /// What was found.
    pub what: String,
    /// What to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

/// How a thing is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// Fine.
    Ok,
    /// Worth knowing.
    Note,
    /// Wrong.
    Problem,
}

impl Report {
    /// Tells whether nothing is wrong.
    pub fn is_fine(&self) -> bool {
        self.checks.iter().all(|check| check.status != Status::Problem)
    }

    fn ok(&mut self, name: &'static str, what: impl Into<String>) {
        self.checks.push(Check { name, status: Status::Ok, what: what.into(), fix: None });
    }

    fn note(&mut self, name: &'static str, what: impl Into<String>) {
        self.checks.push(Check { name, status: Status::Note, what: what.into(), fix: None });
    }

    fn problem(&mut self, name: &'static str, what: impl Into<String>, fix: impl Into<String>) {
        let fix = Some(fix.into());
        self.checks.push(Check { name, status: Status::Problem, what: what.into(), fix });
    }
}

/// Looks at everything.
pub async fn examine(environment: &Environment, said: &Said) -> Report {
    let mut report = Report::default();
    let (os, arch) = (std::env::consts::OS, std::env::consts::ARCH);
    report.ok("version", format!("bowline {} on {os} {arch}", env!("CARGO_PKG_VERSION")));
    let Some(folders) = environment.folders() else {
        report.problem("folders", ConfigError::NoHome.to_string(), "set HOME");
        return report;
    };
    for (name, folder) in
        [("config", &folders.config), ("data", &folders.data), ("cache", &folders.cache)]
    {
        check_folder(name, folder, &mut report);
    }
    let loaded = check_configuration(&folders, environment, said, &mut report);
    let runtime = Runtime::with(environment.clone(), folders, loaded);
    check_models(&runtime, &mut report).await;
    check_fallback(&runtime, &mut report).await;
    check_agents(&runtime, &mut report).await;
    check_providers(&runtime.config, environment, &mut report);
    check_helper(environment, &mut report).await;
    check_traces(&runtime, &mut report).await;
    check_sessions(&runtime, &mut report);
    match in_path("git", environment) {
        Some(path) => report.ok("git", path.display().to_string()),
        None => report.problem("git", "not found", "install git, or add it to PATH"),
    }
    match runtime.undo() {
        Ok(Some(place)) => report.ok("undo", format!("records {}", place.root.display())),
        Ok(None) => report.note("undo", "switched off by `undo.enabled`"),
        Err(why) => report.note("undo", format!("not here: {why}")),
    }
    check_sandbox(&mut report);
    report
}

/// Tries what confines commands, and says what is lost where something is missing.
fn check_sandbox(report: &mut Report) {
    const NAME: &str = "sandbox";
    let processes = Processes::new(Helper::Own);
    let available = processes.available();
    if available.confines() {
        let namespaces = if available.namespaces { ", namespaces" } else { "" };
        report.ok(NAME, format!("Landlock version {}, seccomp{namespaces}", available.landlock));
    }
    available.losses().into_iter().for_each(|loss| report.note(NAME, loss));
    if let Some(why) = &available.why {
        report.note(NAME, format!("because: {why}"));
    }
}

fn check_folder(name: &'static str, folder: &Path, report: &mut Report) {
    let shown = folder.display();
    let existing = folder.ancestors().find(|folder| folder.exists());
    let Some(existing) = existing else {
        return report.problem(name, format!("{shown} cannot be made"), "set BOWLINE_HOME");
    };
    if !existing.is_dir() {
        let existing = existing.display();
        let fix = format!("move {existing} away, or set BOWLINE_HOME");
        return report.problem(name, format!("{existing} is no directory"), fix);
    }
    let probe = existing.join(format!(".bowline-doctor-{}", std::process::id()));
    let made = std::fs::OpenOptions::new().write(true).create_new(true).open(&probe);
    match made {
        Ok(file) => {
            drop(file);
            // It is empty, and tells by its name whose it is.
            let _ = std::fs::remove_file(&probe);
            let when = if existing == folder { "" } else { " (made when it is needed)" };
            report.ok(name, format!("{shown}{when}"));
        }
        Err(error) => report.problem(
            name,
            format!("cannot write to {}: {error}", existing.display()),
            format!("make {} writable, or set BOWLINE_HOME", existing.display()),
        ),
    }
}

/// Looks at every file of the configuration by itself, then at all of them together.
fn check_configuration(
    folders: &Folders,
    environment: &Environment,
    said: &Said,
    report: &mut Report,
) -> Loaded {
    const NAME: &str = "configuration";
    let fix = "correct it; `bowline config explain` shows what counts";
    let sources = match config::sources(folders, environment, said.profile(environment)) {
        Ok(sources) => sources,
        Err(error) => {
            report.problem(NAME, error.to_string(), fix);
            return Loaded::default();
        }
    };
    let mut broken = 0;
    for source in sources {
        match config::file(&source.path, environment) {
            Ok(None) => {}
            Ok(Some(_)) => {
                report.ok(NAME, format!("{} ({})", source.path.display(), source.kind.as_str()));
            }
            Err(error) => {
                broken += 1;
                error.each().iter().for_each(|fault| report.problem(NAME, fault.to_string(), fix));
            }
        }
    }
    let (loaded, faults) =
        config::read_all(folders, environment, said, Trust::of(folders, environment, said));
    if faults.is_empty() {
        loaded.notes.iter().for_each(|note| report.note(NAME, note));
        return loaded;
    }
    if broken == 0 {
        let faults = faults.into_iter().flat_map(ConfigError::each);
        faults.for_each(|fault| report.problem(NAME, fault.to_string(), fix));
    }
    Loaded::default()
}

async fn check_models(runtime: &Runtime, report: &mut Report) {
    let Runtime { environment, config, .. } = runtime;
    let servers = local::servers(&local::addresses(config, environment)).await;
    for server in &servers {
        let models: Vec<_> = server.models.iter().map(|offer| offer.name.as_str()).collect();
        let models = if models.is_empty() { "no models".to_owned() } else { models.join(", ") };
        report.ok("local servers", format!("{} at {}: {models}", server.kind, server.address));
    }
    if servers.is_empty() {
        report.ok("local servers", "none");
    }
    let embedded = embedded::models(&embedded::folder(&runtime.folders));
    let own = match (embedded::IS_BUILT_IN, embedded.is_empty()) {
        (false, _) => "left out of this build".to_owned(),
        (true, true) => "none; `bowline model pull` fetches a small one".to_owned(),
        (true, false) => embedded.join(", "),
    };
    report.ok("models in this process", own);
    let named = runtime.entry().and_then(|agent| runtime.named_by(&agent));
    let local = servers.iter().find_map(|server| Some((server, server.models.first()?)));
    match (named, local) {
        (Err(error), _) => report.problem("model", error.to_string(), "correct `model`"),
        (Ok(Some(name)), _) => check_model("model", &name, runtime, report).await,
        (Ok(None), Some((server, offer))) => {
            report.ok("model", format!("{}/{}", server.kind.as_str(), offer.name));
        }
        (Ok(None), None) => match runtime.embedded() {
            Some(picked) => check_model("model", &picked.name, runtime, report).await,
            None => {
                let file = runtime.folders.config.join("config.toml");
                let pull = match embedded::IS_BUILT_IN {
                    true => ", or fetch a small model with `bowline model pull`",
                    false => "",
                };
                let fix = format!(
                    "set `model` in {}, or ANTHROPIC_API_KEY or OPENAI_API_KEY, or start a local \
                     server such as Ollama{pull}",
                    file.display()
                );
                report.problem("model", "none is configured and none was found", fix);
            }
        },
    }
}

/// Looks at the models that stand in for the one that runs. All must be usable when it starts.
async fn check_fallback(runtime: &Runtime, report: &mut Report) {
    const NAME: &str = "fallback";
    for name in &runtime.config.fallback {
        match provider::ModelName::resolve(name, &runtime.config) {
            Ok(name) => check_model(NAME, &name, runtime, report).await,
            Err(error) => report.problem(NAME, error.to_string(), "correct `fallback`"),
        }
    }
}

/// Looks at the models that agents ask and the whole configuration does not name.
async fn check_agents(runtime: &Runtime, report: &mut Report) {
    let own: BTreeSet<_> = runtime.config.agents.values().filter_map(AgentConfig::model).collect();
    let entry = runtime.entry().ok().and_then(|agent| agent.model());
    for name in own.into_iter().filter(|name| Some(name) != entry.as_ref()) {
        // What is no model was found when the configuration was read.
        if let Ok(name) = provider::ModelName::resolve(&name, &runtime.config) {
            check_model("agents", &name, runtime, report).await;
        }
    }
}

async fn check_model(
    what: &'static str,
    name: &provider::ModelName,
    runtime: &Runtime,
    report: &mut Report,
) {
    let shown = format!("{}/{}", name.provider, name.model);
    let resolved = provider::resolve(&name.provider, &runtime.config, &runtime.environment);
    let problem = match resolved {
        Err(error) => Some((error.to_string(), format!("correct `{what}` or [providers]"))),
        Ok(resolved) if resolved.wire == config::Wire::Local => {
            let folder = embedded::folder(&runtime.folders);
            let opened = embedded::open(&name.model, &folder, ModelInfo::default());
            opened.err().map(|what| (format!("{shown}: {what}"), "name another model".to_owned()))
        }
        Ok(resolved) => {
            let problem = match key_problem(&resolved.key, &runtime.environment) {
                Some(problem) => Some(problem),
                None => local::silence(&name.provider, &resolved.base_url).await,
            };
            problem.map(|(what, fix)| (format!("{shown}: {what}"), fix))
        }
    };
    match problem {
        Some((found, fix)) => report.problem(what, found, fix),
        None => report.ok(what, shown),
    }
}

/// Says what is wrong with a key, and what to do; commands are not run to find out.
pub(crate) fn key_problem(key: &KeySource, environment: &Environment) -> Option<(String, String)> {
    match key {
        KeySource::Variable { name, is_needed: true } if environment.get(name).is_none() => {
            Some((format!("no key: {name} is not set"), format!("set {name}")))
        }
        KeySource::File(path) => {
            let what = provider::key_of_file(path).err()?;
            Some((what, format!("put the key into {}, mode 600", path.display())))
        }
        KeySource::None
        | KeySource::Given(_)
        | KeySource::Variable { .. }
        | KeySource::Command(_)
        | KeySource::Keyring { .. } => None,
    }
}

fn check_providers(config: &Config, environment: &Environment, report: &mut Report) {
    const NAME: &str = "provider";
    for name in provider::in_use(config, environment) {
        let resolved = match provider::resolve(name, config, environment) {
            Ok(resolved) => resolved,
            Err(error) => {
                report.problem(NAME, error.to_string(), format!("correct [providers.{name}]"));
                continue;
            }
        };
        let key = match &resolved.key {
            KeySource::None => "needs no key".to_owned(),
            KeySource::Given(_) => "key in the configuration".to_owned(),
            KeySource::Variable { name, .. } if environment.get(name).is_some() => {
                format!("key in {name}")
            }
            KeySource::Variable { name, is_needed: true } => format!("no key: {name} is not set"),
            KeySource::Variable { .. } => "no key, and none is needed on this machine".to_owned(),
            KeySource::File(path) => match provider::key_of_file(path) {
                Ok(_) => format!("key in {}", path.display()),
                Err(error) => format!("no key: {error}"),
            },
            KeySource::Command(_) => "key from a command, which was not run".to_owned(),
            KeySource::Keyring { .. } => "key in the keyring, which was not asked".to_owned(),
        };
        // Only the model that runs needs its key now.
        match key_problem(&resolved.key, environment) {
            Some(_) => report.note(NAME, format!("{name}: {key}")),
            None => report.ok(NAME, format!("{name}: {key}")),
        }
    }
}

/// Runs a command that does nothing, just as tools run theirs.
async fn check_helper(environment: &Environment, report: &mut Report) {
    const NAME: &str = "helper process";
    let fix = "check that /proc is there and that programs may be started";
    let Some(program) = in_path("true", environment).or_else(|| executable("/bin/true".into()))
    else {
        return report.problem(NAME, "the command `true` is not found", "correct PATH");
    };
    let folder = std::env::temp_dir().join(format!("bowline-doctor-{}", std::process::id()));
    if let Err(error) = std::fs::create_dir_all(&folder) {
        return report.problem(NAME, format!("cannot make {}: {error}", folder.display()), fix);
    }
    let processes = Processes::new(Helper::Own);
    let command = Command {
        owner: "doctor".to_owned(),
        program,
        arguments: Vec::new(),
        cwd: folder.clone(),
        environment: Vec::new(),
        output: folder.join("output"),
        max_output: 1 << 10,
        stdin: false,
        confinement: None,
    };
    let run = async {
        let mut running = processes.start(command).await.map_err(|error| error.to_string())?;
        running.exit().await.map_err(|error| error.to_string())
    };
    match timeout(HELPER_TIME, run).await {
        Ok(Ok(status)) if status.code == Some(0) => report.ok(NAME, "runs commands"),
        Ok(Ok(_)) => report.problem(NAME, "`true` failed", fix),
        Ok(Err(error)) => report.problem(NAME, error, fix),
        Err(_) => report.problem(NAME, format!("no answer for {HELPER_TIME:?}"), fix),
    }
    processes.close().await;
    // It is in the folder for what may be lost.
    let _ = std::fs::remove_dir_all(&folder);
}

/// Asks whoever is told of runs whether they listen.
async fn check_traces(runtime: &Runtime, report: &mut Report) {
    const NAME: &str = "traces";
    let settings = match Settings::read(&runtime.environment, &runtime.config.trace) {
        Ok(Some(settings)) => settings,
        Ok(None) => {
            return report.ok(NAME, "go nowhere; see `[trace]` and OTEL_EXPORTER_OTLP_ENDPOINT");
        }
        Err(what) => return report.problem(NAME, what, "correct it"),
    };
    match telemetry::probe(&settings, &provider::proxy(&runtime.environment)).await {
        Ok(address) => report.ok(NAME, format!("go to {address}, which takes them")),
        Err(what) => {
            let fix = "start the receiver, or correct `[trace]` or the OTEL_* variables";
            report.problem(NAME, what, fix);
        }
    }
}

fn check_sessions(runtime: &Runtime, report: &mut Report) {
    let fix = "see `bowline sessions verify`";
    let store = runtime.sessions();
    let reports = match store.verify_all() {
        Ok(reports) => reports,
        Err(error) => return report.problem("sessions", error.to_string(), fix),
    };
    let (mut all, mut broken) = (0, 0);
    for (_, session) in reports {
        all += 1;
        broken += usize::from(!session.is_ok_and(|session| session.is_sound()));
    }
    match broken {
        0 => report.ok("sessions", format!("{all}, all sound")),
        _ => report.problem("sessions", format!("{broken} of {all} are damaged"), fix),
    }
}

fn in_path(program: &str, environment: &Environment) -> Option<PathBuf> {
    let path = environment.get("PATH").unwrap_or("/usr/local/bin:/usr/bin:/bin");
    std::env::split_paths(path).find_map(|folder| executable(folder.join(program)))
}

fn executable(path: PathBuf) -> Option<PathBuf> {
    #[cfg(unix)]
    let may_run = {
        use std::os::unix::fs::PermissionsExt as _;
        path.metadata().is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
    };
    #[cfg(not(unix))]
    let may_run = path.is_file();
    may_run.then_some(path)
}
