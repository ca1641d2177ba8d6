//! What a guard says of a command, put on it; and why a confined command may have failed.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use bowline_agent::tool::{ToolContext, ToolError};

use crate::bash::{after, end_of};
use crate::guard::{Confinement, Network};
use crate::process::{Command, PROXY, Status};
use crate::workspace::Workspace;

/// The variable that tells a command that it is confined, and how.
const SANDBOX: &str = "BOWLINE_SANDBOX";

/// Confines a command as the guard says. `line` is what it would be in a shell.
///
/// A confined command has a folder of its own for what is temporary: the one that the guard lets it write and
/// the workspace calls `TMPDIR`, else one that is made.
///
/// # Errors
/// Why it may not run.
pub(crate) fn confined(
    workspace: &Workspace,
    mut command: Command,
    line: &str,
    cx: &ToolContext,
) -> Result<Command, ToolError> {
    let confinement = workspace.guard.confinement(&cx.call, line).map_err(ToolError::Failed)?;
    let Some(mut confinement) = confinement else { return Ok(command) };
    let given = workspace.environment.get("TMPDIR").map(PathBuf::from);
    let temporary = match given.filter(|folder| confinement.writable.contains(folder)) {
        Some(folder) => folder,
        None => make_temporary(&workspace.scratch, &command.owner).map_err(|error| {
            ToolError::Failed(format!("no folder for what is temporary: {error}"))
        })?,
    };
    confinement.writable.retain(|folder| *folder != temporary);
    let profile = if confinement.writable.is_empty() { "read-only" } else { "workspace-write" };
    let mut variables = vec![(SANDBOX, profile.to_owned())];
    let shown = temporary.display().to_string();
    variables.extend(["TMPDIR", "TMP", "TEMP"].map(|name| (name, shown.clone())));
    if matches!(confinement.network, Network::Hosts(_)) {
        let names =
            ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"];
        variables.extend(names.map(|name| (name, PROXY.to_owned())));
        let own = "localhost,127.0.0.1,::1";
        variables.extend(["NO_PROXY", "no_proxy"].map(|name| (name, own.to_owned())));
    }
    command.environment.retain(|(name, _)| !variables.iter().any(|(own, _)| own == name));
    command.environment.extend(variables.into_iter().map(|(name, value)| (name.to_owned(), value)));
    confinement.writable.push(temporary);
    command.confinement = Some(confinement);
    Ok(command)
}

/// Returns the folder for what commands of an owner keep for a while.
fn temporary(scratch: &Path, owner: &str) -> PathBuf {
    scratch.join("tmp").join(owner)
}

fn make_temporary(scratch: &Path, owner: &str) -> io::Result<PathBuf> {
    let folder = temporary(scratch, owner);
    fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
    folder.canonicalize()
}

/// Removes what commands of an owner have kept for a while.
pub(crate) fn remove_temporary(scratch: &Path, owner: &str) {
    // There is none if nothing of it was confined.
    let _ = fs::remove_dir_all(temporary(scratch, owner));
}

/// Gives a command that outlives bowline a folder of its own for what is temporary, in the place of one that
/// goes with bowline. So does the proxy to some hosts: it gets none of them, and what is returned says so.
pub(crate) fn in_folder_of_its_own(command: &mut Command, folder: PathBuf) -> Option<&'static str> {
    let names = ["TMPDIR", "TMP", "TEMP"];
    command.environment.retain(|(name, _)| !names.contains(&name.as_str()));
    let shown = folder.display().to_string();
    command.environment.extend(names.map(|name| (name.to_owned(), shown.clone())));
    let confinement = command.confinement.as_mut()?;
    // The last one is the folder that it would have had.
    confinement.writable.pop();
    confinement.writable.push(folder);
    if !matches!(confinement.network, Network::Hosts(_)) {
        return None;
    }
    confinement.network = Network::None;
    command.environment.retain(|(_, value)| value != PROXY);
    Some("[it has no network: the hosts that are allowed are reached through bowline]")
}

/// What must be said of a confined command that has failed; nothing of one that was not confined.
#[derive(Debug)]
pub(crate) struct Sandboxed {
    confinement: Option<Confinement>,
    owner: String,
}

/// What programs write when the system does not let them; the rest of the line may name a path.
const DENIALS: [&str; 10] = [
    "Permission denied",
    "Read-only file system",
    "Operation not permitted",
    "Invalid cross-device link",
    "Device or resource busy",
    "Network is unreachable",
    "Temporary failure in name resolution",
    "Could not resolve host",
    "Connection refused",
    "EROFS",
];

impl Sandboxed {
    pub(crate) fn of(command: &Command) -> Self {
        Self { confinement: command.confinement.clone(), owner: command.owner.clone() }
    }

    /// Adds to the output of a command the hosts that it asked for in vain; and if it has failed, what the
    /// sandbox may have had to do with it, and how that can be allowed.
    pub(crate) fn explain(&self, mut text: String, end: &Status, workspace: &Workspace) -> String {
        let Some(confinement) = &self.confinement else { return text };
        let refused = workspace.processes.take_refused(&self.owner);
        for host in &refused {
            let line = format!(
                "[blocked: {host}; the sandbox does not let commands talk to it; --allow 'net({host})' would]"
            );
            text = after(text, &line);
        }
        if refused.is_empty() && end_of(end).is_some() && is_denial(&text) {
            let line = line(confinement, denied_path(&text), workspace);
            text = after(text, &line);
        }
        text
    }
}

fn is_denial(text: &str) -> bool {
    DENIALS.iter().any(|denial| text.contains(denial))
}

/// Says in one line what a command could do, and how it could do more.
fn line(confinement: &Confinement, path: Option<&str>, workspace: &Workspace) -> String {
    // The last one is the folder for what is temporary, which `TMPDIR` names.
    let own = confinement.writable.split_last().map_or(&[][..], |(_, own)| own);
    let shown: Vec<_> = own.iter().map(|path| workspace.shown(path)).collect();
    let writable = match shown.len() {
        0 => "only $TMPDIR can be written".to_owned(),
        1..=4 => format!("{} and $TMPDIR can be written", shown.join(", ")),
        more => format!("{more} places and $TMPDIR can be written"),
    };
    let (network, reach) = match &confinement.network {
        Network::None => ("there is no network".to_owned(), ", --allow 'net(HOST)'"),
        Network::Hosts(hosts) => {
            (format!("of the network there is {}", hosts.join(", ")), ", --allow 'net(HOST)'")
        }
        Network::Full => ("the network is open".to_owned(), ""),
    };
    let allow = match path {
        Some(path) => {
            let whole = workspace.resolve(path);
            // What is protected is opened as a whole.
            let protected = confinement.protected.iter().find(|folder| whole.starts_with(folder));
            match protected {
                Some(folder) => format!("--allow 'write({}/**)'", workspace.shown(folder)),
                None => format!("--allow 'write({path})'"),
            }
        }
        None => "--allow 'write(PATH)'".to_owned(),
    };
    format!(
        "[this ran in the sandbox, which may be why: {writable}, {network}; the user can allow more: \
         --add-dir DIR, {allow}{reach}, --sandbox off]"
    )
}

/// Finds the path that a denial is about: the last word before it that looks like one, or else the first one
/// behind it.
fn denied_path(text: &str) -> Option<&str> {
    let (before, behind) = text
        .lines()
        .rev()
        .find_map(|line| DENIALS.iter().find_map(|denial| line.split_once(denial)))?;
    let edges = |c: char| "'\"`‘’:,()[]".contains(c);
    let is_path = |word: &&str| word.contains('/') && !word.contains("//") && word.len() < 200;
    // A program names itself first, if it does.
    let before = before.split_whitespace().skip(1).map(|word| word.trim_matches(edges));
    let behind = behind.split_whitespace().map(|word| word.trim_matches(edges));
    let found: Vec<&str> = before.filter(is_path).collect();
    found.last().copied().or_else(|| behind.into_iter().find(is_path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_denial_names_its_path() {
        let cases = [
            ("touch: cannot touch '/etc/x': Read-only file system", Some("/etc/x")),
            ("bash: line 1: /a/b: Permission denied\n[exit code 1]", Some("/a/b")),
            ("cp: cannot create regular file ‘/a b/c’: Read-only file system", Some("b/c")),
            ("ping: socket: Operation not permitted", None),
            ("/bin/bash: line 1: kill: (7) - Operation not permitted", None),
            ("PermissionError: [Errno 13] Permission denied: '/etc/x'", Some("/etc/x")),
            ("fine", None),
        ];
        for (text, path) in cases {
            assert_eq!(denied_path(text), path, "{text}");
        }
    }
}
