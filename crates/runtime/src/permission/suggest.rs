//! Rules that a person may be offered, and where they are kept.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;

use toml::de::{DeTable, DeValue};

use bowline_agent::gate::Review;
use bowline_agent::tool::Tool as _;
use bowline_tools::{Bash, Fetch};

use super::call::{Call, Command, Program};
use super::command::is_raising;
use super::path::MARKS;
use super::places::Places;
use super::rule::{About, Rule, WRITING};
use super::shell::{self, Run, Word, base};
use crate::reading;

/// Programs that run whatever they are told, beside those that run texts: a rule that allows them allows
/// everything.
const RUN_ANYTHING: [&str; 34] = [
    "awk", "bunx", "busybox", "chroot", "docker", "doas", "env", "eval", "exec", "find", "gawk",
    "go", "make", "nice", "nohup", "npx", "pkexec", "pnpx", "podman", "sed", "setsid", "source",
    "ssh", "su", "sudo", "time", "timeout", "uv", "uvx", "watch", "xargs", ".", "just", "gmake",
];

/// Programs that destroy, or send things away.
const DANGEROUS: [&str; 32] = [
    "aria2c", "chmod", "chown", "cp", "crontab", "curl", "dd", "ftp", "install", "kill", "killall",
    "ln", "mkfs", "mount", "mv", "nc", "ncat", "pkill", "poweroff", "reboot", "rm", "rmdir",
    "rsync", "scp", "sftp", "shred", "shutdown", "socat", "tee", "truncate", "unlink", "wget",
];

/// Programs of which the next word says what they do.
const BY_SUBCOMMAND: [&str; 21] = [
    "apt",
    "apt-get",
    "brew",
    "bun",
    "bundle",
    "cargo",
    "deno",
    "gh",
    "git",
    "go",
    "helm",
    "kubectl",
    "npm",
    "pip",
    "pnpm",
    "poetry",
    "systemctl",
    "terraform",
    "tofu",
    "uv",
    "yarn",
];

/// Subcommands that run what they are told.
const RUN_WHAT_FOLLOWS: [&str; 7] = ["run", "exec", "x", "dlx", "run-script", "tool", "eval"];

impl Rule {
    /// Returns the rule that "always allow this" would write: wider than the call, and no wider than a
    /// person would expect; `None` if there is none such.
    pub fn suggested(review: &Review<'_>) -> Option<Self> {
        let access = review.access;
        let text = if let Some(command) = &access.execute {
            of_command(&Command::read(command))?
        } else if let [path] = access.writes.paths() {
            of_path("write", path)?
        } else if let [path] = access.reads.paths() {
            of_path("read", path)?
        } else if let [host] = access.network.as_slice()
            && !host.starts_with("mcp:")
        {
            of_host(host)?
        } else {
            let nowhere = Places::default();
            let call = Call::of(review.call, access, &nowhere, &|_| None, &|_| Command::none());
            match call.agents().as_slice() {
                [] if access.writes.is_empty() && access.reads.is_empty() => call.tool,
                [agent] => of_agent(agent)?,
                _ => return None,
            }
        };
        Self::parse(&text).ok().filter(|rule| rule.useless().is_none())
    }

    /// Says why a rule should not be kept as one that allows: it would allow nearly everything.
    pub fn useless(&self) -> Option<String> {
        let wide =
            |what: &str| Some(format!("`{self}` would allow {what}; allow something narrower"));
        match &self.about {
            About::Command(None) => wide("every command"),
            About::Command(Some(pattern)) => {
                let words = pattern.literals();
                let program = base(words.first()?.as_deref().unwrap_or("*"));
                let subcommand = words.get(1).and_then(Option::as_deref);
                if program == "*" {
                    return wide("every program");
                }
                if !pattern.is_open() && words.iter().all(Option::is_some) {
                    // One command, and no other.
                    return None;
                }
                let runs_anything = RUN_ANYTHING.contains(&program) || shell::runs_texts(program);
                if runs_anything && (subcommand.is_none() || is_code(subcommand)) {
                    return wide("whatever a program can do");
                }
                if is_raising(program) {
                    return wide("it with the rights of others");
                }
                if DANGEROUS.contains(&program) {
                    return wide("it whatever it is done to");
                }
                let behind = pattern.behind_options();
                let subcommand = behind.first().and_then(Option::as_deref);
                let next = behind.get(1).and_then(Option::as_deref);
                let runs = subcommand.is_some_and(|word| RUN_WHAT_FOLLOWS.contains(&word));
                match BY_SUBCOMMAND.contains(&program) {
                    true if subcommand.is_none() => wide("everything that it can do"),
                    true if runs && next.is_none() && program != "cargo" => {
                        wide("whatever is run so")
                    }
                    _ => None,
                }
            }
            About::Read(None) => wide("every file to be read"),
            About::Write(None) => wide("every file to be written"),
            About::Read(Some(pattern)) | About::Write(Some(pattern)) => {
                pattern.is_everything().then(|| wide("every file")).flatten()
            }
            About::Host(None) => wide("every host"),
            About::Agent(_) | About::Host(Some(_)) | About::Survival => None,
            About::Tool(pattern) if pattern.fits(Bash::NAME) => wide("every tool"),
            About::Tool(pattern) if WRITING.iter().any(|tool| pattern.fits(tool)) => {
                wide("every file to be written")
            }
            About::Tool(pattern) if pattern.fits(Fetch::NAME) => wide("every host"),
            About::Tool(_) => None,
        }
    }
}

/// Tells whether what follows is a program in the language of the one that runs it.
fn is_code(word: Option<&str>) -> bool {
    word.is_some_and(|word| word.starts_with('-') || word == "*")
}

/// Returns a rule for what of a command does not only look; `None` if that is more than one thing.
fn of_command(command: &Command) -> Option<String> {
    if !command.doubts.is_empty() {
        return None;
    }
    let mut rules: Vec<String> = Vec::new();
    for program in command.programs.iter().filter(|program| !program.is_harmless) {
        let rule = of_program(program)?;
        if !rules.contains(&rule) {
            rules.push(rule);
        }
    }
    match rules.as_slice() {
        [rule] => Some(rule.clone()),
        _ => None,
    }
}

fn of_program(program: &Program) -> Option<String> {
    let run = &program.run;
    let is_raised = run.through.iter().any(|name| is_raising(base(name)));
    let is_steered = run.assignments.iter().any(|(name, value)| !shell::is_harmless(name, value));
    if is_raised || is_steered || run.is_opaque || !run.writes.is_empty() {
        return None;
    }
    let words: Vec<&str> = run.words.iter().map_while(Word::known).collect();
    let first = *words.first()?;
    let is_name =
        |word: &&str| word.chars().all(|c| c.is_ascii_alphanumeric() || "-_:".contains(c));
    let is_script = !run.through.is_empty() && first.contains('.');
    if is_script {
        // `sh x.sh` runs what the file says then.
        return None;
    }
    let subcommand = words.get(1).filter(|word| is_name(word) && !word.starts_with('-'));
    let mut kept = vec![quoted(first)];
    if BY_SUBCOMMAND.contains(&first) {
        kept.push(quoted(subcommand?));
        let runs = subcommand.is_some_and(|word| RUN_WHAT_FOLLOWS.contains(word));
        if let (true, Some(next)) = (runs, words.get(2)) {
            kept.push(quoted(next));
        }
    }
    Some(format!("bash({} *)", kept.join(" ")))
}

/// Returns the rule that allows exactly one program with its words.
pub(super) fn exactly(run: &Run) -> Option<String> {
    let words: Option<Vec<String>> =
        run.words.iter().map(|word| word.known().map(quoted)).collect();
    let raised = run.through.iter().filter(|name| is_raising(base(name))).map(|name| quoted(name));
    let words: Vec<String> = raised.chain(words?).collect();
    let set = run.assignments.iter().filter(|(name, value)| !shell::is_harmless(name, value));
    let set =
        set.map(|(name, value)| value.known().map(|value| quoted(&format!("{name}={value}"))));
    let words: Vec<String> = set.chain(words.into_iter().map(Some)).collect::<Option<_>>()?;
    (!words.is_empty()).then(|| format!("bash({})", words.join(" ")))
}

/// Writes a word as it stands in a rule.
fn quoted(word: &str) -> String {
    let escaped = word.replace('\\', r"\\").replace('*', r"\*");
    let is_plain = |c: char| !c.is_whitespace() && !"|&;<>`$'\"".contains(c);
    match (!escaped.is_empty() && escaped.chars().all(is_plain), escaped.contains('"')) {
        (true, _) => escaped,
        (false, false) => format!("\"{escaped}\""),
        (false, true) => format!("'{}'", escaped.replace('\'', r#"'"'"'"#)),
    }
}

/// Returns the rule about one file, of which strangers may have chosen the name; `None` if no rule means
/// just this.
pub(super) fn of_path(about: &str, path: &Path) -> Option<String> {
    path.to_str().and_then(|_| naming(about, &escaped(path)))
}

/// Returns the rule about one host, as [`of_path`] does.
pub(super) fn of_host(host: &str) -> Option<String> {
    naming("net", host).filter(|_| !host.contains('*'))
}

/// Returns the rule about one agent, as [`of_path`] does.
pub(super) fn of_agent(name: &str) -> Option<String> {
    naming("agent", &name.replace('\\', r"\\").replace('*', r"\*"))
}

/// Writes a rule about a name. Around names space does not count: one that has some would be another.
fn naming(about: &str, name: &str) -> Option<String> {
    (name.trim() == name).then(|| format!("{about}({name})"))
}

/// Writes a path as it stands in a rule.
pub(super) fn escaped(path: &Path) -> String {
    let mut escaped = String::new();
    for character in path.display().to_string().chars() {
        if MARKS.contains(&character) {
            escaped.push('\\');
        }
        escaped.push(character);
    }
    escaped
}

/// Adds a rule to what a file of the configuration allows, and changes nothing else of it.
///
/// # Errors
/// Why not: the rule would allow nearly everything, or the file cannot be read, changed or written.
pub fn remember(rule: &Rule, file: &Path) -> Result<(), String> {
    if let Some(why) = rule.useless() {
        return Err(why);
    }
    let cannot =
        |error: std::io::Error| format!("cannot keep the rule in {}: {error}", file.display());
    // In a folder that others have made a link may lead to any file, to be read or to be written.
    if [Some(file), file.parent()].into_iter().flatten().any(Path::is_symlink) {
        return Err(format!("cannot keep the rule in {}: it is reached by a link", file.display()));
    }
    let text = match reading::text_of(file) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(cannot(error)),
    };
    let text = with_rule(&text, &rule.to_string()).ok_or_else(|| {
        format!(
            "cannot add to {}; write `allow = [{:?}]` yourself",
            file.display(),
            rule.to_string()
        )
    })?;
    if let Some(folder) = file.parent() {
        std::fs::create_dir_all(folder).map_err(cannot)?;
    }
    let beside = file.with_extension("toml.new");
    // Whoever made the folder may have put a link there, to have another file written.
    let _ = std::fs::remove_file(&beside);
    let mut new = File::create_new(&beside).map_err(cannot)?;
    new.write_all(text.as_bytes()).map_err(cannot)?;
    if let Ok(existing) = std::fs::metadata(file) {
        std::fs::set_permissions(&beside, existing.permissions()).map_err(cannot)?;
    }
    std::fs::rename(&beside, file).map_err(cannot)
}

/// Adds a rule to the text of a configuration; `None` if it cannot be done without changing more.
fn with_rule(text: &str, rule: &str) -> Option<String> {
    let before: toml::Table = toml::from_str(text).ok()?;
    let has = |table: &toml::Table| {
        let rules = table.get("permissions").and_then(|table| table.get("allow"));
        rules
            .and_then(toml::Value::as_array)
            .is_some_and(|rules| rules.iter().any(|one| one.as_str() == Some(rule)))
    };
    if has(&before) {
        return Some(text.to_owned());
    }
    let value = toml::Value::from(rule).to_string();
    let ways = [
        into_list(text, &value),
        below_header(text, &value),
        Some(format!("{text}{}[permissions]\nallow = [{value}]\n", gap(text))),
        Some(format!("permissions.allow = [{value}]\n{text}")),
    ];
    let is_right = |changed: &String| {
        toml::from_str::<toml::Table>(changed)
            .is_ok_and(|after| has(&after) && without(after, rule) == without(before.clone(), rule))
    };
    ways.into_iter().flatten().find(is_right)
}

/// Takes a rule away, and what is empty then.
fn without(mut table: toml::Table, rule: &str) -> toml::Table {
    let Some(toml::Value::Table(permissions)) = table.get_mut("permissions") else { return table };
    if let Some(toml::Value::Array(rules)) = permissions.get_mut("allow") {
        rules.retain(|one| one.as_str() != Some(rule));
        if rules.is_empty() {
            permissions.remove("allow");
        }
    }
    if permissions.is_empty() {
        table.remove("permissions");
    }
    table
}

/// Adds to the list that is there.
fn into_list(text: &str, value: &str) -> Option<String> {
    let table = DeTable::parse(text).ok()?;
    let DeValue::Table(permissions) = table.get_ref().get("permissions")?.get_ref() else {
        return None;
    };
    let list = permissions.get("allow")?;
    let DeValue::Array(items) = list.get_ref() else { return None };
    let (at, added) = match items.iter().next_back() {
        Some(last) => (last.span().end, format!(", {value}")),
        None => (list.span().start + 1, value.to_owned()),
    };
    Some(format!("{}{added}{}", text.get(..at)?, text.get(at..)?))
}

/// Adds a list below the header that is there.
fn below_header(text: &str, value: &str) -> Option<String> {
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        at += line.len();
        let header = line.split('#').next().unwrap_or_default().trim();
        if header == "[permissions]" {
            let break_ = if line.ends_with('\n') { "" } else { "\n" };
            return Some(format!(
                "{}{break_}allow = [{value}]\n{}",
                text.get(..at)?,
                text.get(at..)?
            ));
        }
    }
    None
}

/// Returns what stands between a text and a new section.
fn gap(text: &str) -> &'static str {
    match text {
        "" => "",
        text if text.ends_with('\n') => "\n",
        _ => "\n\n",
    }
}
