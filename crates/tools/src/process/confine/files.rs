//! The rules about files, signals and sockets that Landlock enforces.

use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, BitFlags, PathBeneath, PathFd, Ruleset, RulesetAttr, RulesetCreated,
    RulesetCreatedAttr, RulesetError, Scope,
};

use super::layout::{Kind, Layout};

/// The latest version whose rights are all asked for; a kernel that knows fewer enforces fewer.
const ABI: ABI = ABI::V7;

/// Devices that do no harm.
pub(super) const DEVICES: [&str; 6] =
    ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"];

/// Makes rules for a command whose mounts say already what is protected and hidden.
///
/// What it writes its own output to is in `outputs`: it may open that again, by `/dev/stdout`. By their
/// paths the files in there are read-only.
pub(super) fn beside_mounts(layout: &Layout, outputs: Option<&Path>) -> Result<OwnedFd, String> {
    let mut rules = Rules::new()?;
    rules.allow(Path::new("/"), AccessFs::from_read(ABI))?;
    for piece in layout.pieces.iter().filter(|piece| piece.kind == Kind::Writable) {
        rules.allow(&piece.path, AccessFs::from_all(ABI))?;
    }
    for place in DEVICES.iter().chain(&["/dev/pts", "/dev/shm"]) {
        rules.allow(Path::new(place), AccessFs::from_all(ABI))?;
    }
    if let Some(outputs) = outputs {
        rules.allow(outputs, AccessFs::WriteFile | AccessFs::Truncate)?;
    }
    rules.finish()
}

/// Makes rules for a command that has no mounts of its own: what is not protected and not hidden is
/// named one by one.
pub(super) fn alone(layout: &Layout, output: Option<&Path>) -> Result<OwnedFd, String> {
    let of = |kind: Kind| layout.pieces.iter().filter(move |piece| piece.kind == kind);
    let paths = |kind: Kind| of(kind).map(|piece| piece.path.clone());
    let hidden: Vec<PathBuf> = paths(Kind::Hidden).chain(["/dev".into()]).collect();
    let mut rules = Rules::new()?;
    // The names of what is in a folder cannot be kept from who may list the folder above.
    rules.allow(Path::new("/"), AccessFs::ReadDir.into())?;
    for place in all_but(Path::new("/"), &hidden) {
        rules.allow(&place, AccessFs::from_read(ABI))?;
    }
    for device in DEVICES {
        rules.allow(Path::new(device), AccessFs::from_all(ABI))?;
    }
    rules.allow(Path::new("/dev/fd"), AccessFs::from_read(ABI))?;
    let kept: Vec<PathBuf> =
        paths(Kind::Protected).chain(hidden).chain(layout.absent.iter().cloned()).collect();
    for piece in of(Kind::Writable) {
        for place in all_but(&piece.path, &kept) {
            rules.allow(&place, AccessFs::from_all(ABI))?;
        }
    }
    if let Some(output) = output {
        rules.allow(output, AccessFs::WriteFile | AccessFs::Truncate)?;
    }
    rules.finish()
}

/// Returns the places that together are all that is in a place but what is `kept` from it; what is not
/// there yet is in none of them.
fn all_but(place: &Path, kept: &[PathBuf]) -> Vec<PathBuf> {
    if kept.iter().any(|kept| place.starts_with(kept)) {
        return Vec::new();
    }
    if !kept.iter().any(|kept| kept.starts_with(place)) {
        return vec![place.to_owned()];
    }
    let entries = fs::read_dir(place).into_iter().flatten().flatten();
    // A rule about a link would be one about what it leads to.
    let is_link = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_symlink());
    let entries = entries.filter(|entry| !is_link(entry));
    entries.flat_map(|entry| all_but(&entry.path(), kept)).collect()
}

struct Rules {
    created: RulesetCreated,
}

impl Rules {
    fn new() -> Result<Self, String> {
        let create = || -> Result<RulesetCreated, RulesetError> {
            let rules = Ruleset::default().handle_access(AccessFs::from_all(ABI))?;
            rules.scope(Scope::AbstractUnixSocket | Scope::Signal)?.create()
        };
        Ok(Self { created: create().map_err(|error| error.to_string())? })
    }

    /// Allows something at a place and all that is in it; a place that is gone is passed over.
    fn allow(&mut self, place: &Path, rights: BitFlags<AccessFs>) -> Result<(), String> {
        let Ok(opened) = PathFd::new(place) else { return Ok(()) };
        let rights = match place.is_dir() {
            true => rights,
            false => rights & AccessFs::from_file(ABI),
        };
        if rights.is_empty() {
            return Ok(());
        }
        let added = (&mut self.created).add_rule(PathBeneath::new(opened, rights));
        added.map(drop).map_err(|error| format!("{}: {error}", place.display()))
    }

    fn finish(self) -> Result<OwnedFd, String> {
        let rules: Option<OwnedFd> = self.created.into();
        rules.ok_or_else(|| "there is no Landlock".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_but_what_is_kept_is_named() {
        let root = tempfile::tempdir().unwrap();
        let path = |name: &str| root.path().join(name);
        fs::create_dir_all(path("a/b/c")).unwrap();
        fs::create_dir_all(path("a/d")).unwrap();
        fs::write(path("e"), "").unwrap();
        std::os::unix::fs::symlink("/", path("link")).unwrap();
        let mut places = all_but(root.path(), &[path("a/b/c"), path("a/none")]);
        places.sort();
        assert_eq!(places, [path("a/d"), path("e")]);
        assert_eq!(all_but(&path("a"), &[path("e")]), [path("a")]);
        assert_eq!(all_but(&path("a/b"), &[path("a")]), [] as [std::path::PathBuf; 0]);
    }
}
