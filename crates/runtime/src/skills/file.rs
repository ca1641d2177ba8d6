//! Reading skills from a disk that anybody may have written to.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use super::Refused;

/// How many bytes a `SKILL.md` may have.
pub const LIMIT: u64 = 256 * 1024;

/// The names under which a skill is found, the standard's first.
const NAMES: [&str; 2] = ["SKILL.md", "skill.md"];

/// Returns the folders in a folder that hold skills, by name; none if it is not there.
pub(super) fn folders(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let mut folders: Vec<_> = paths.filter(|path| has_skill(path)).collect();
    folders.sort();
    folders
}

/// Tells whether a folder holds a skill, be it good or bad.
pub(super) fn has_skill(folder: &Path) -> bool {
    file_of(folder).is_some()
}

fn file_of(folder: &Path) -> Option<PathBuf> {
    // A link that leads nowhere is there too, and told.
    let files = NAMES.map(|name| folder.join(name));
    files.into_iter().find(|file| file.symlink_metadata().is_ok())
}

/// Reads the text of the skill in a folder.
pub(super) fn read(folder: &Path, within: Option<&Path>) -> Result<(PathBuf, String), Refused> {
    let Some(file) = file_of(folder) else {
        let what = "there is no such file; a skill is a folder with a SKILL.md".to_owned();
        return Err(Refused { file: folder.join("SKILL.md"), what });
    };
    match text_of(&file, folder, within) {
        Ok(text) => Ok((file, text)),
        Err(what) => Err(Refused { file, what }),
    }
}

fn text_of(file: &Path, folder: &Path, within: Option<&Path>) -> Result<String, String> {
    let failed = |error: std::io::Error| format!("cannot be read: {error}");
    let real = file.canonicalize().map_err(failed)?;
    let folder = folder.canonicalize().map_err(failed)?;
    if !real.starts_with(&folder) {
        return Err("is a link out of its folder; put the file itself there".to_owned());
    }
    let within = within.map(|within| within.canonicalize().map_err(failed)).transpose()?;
    if within.is_some_and(|within| !folder.starts_with(within)) {
        return Err(
            "its folder is a link out of the project; put the folder itself there".to_owned()
        );
    }
    // Nothing but a file is opened: a pipe would wait for whoever writes to it.
    let metadata = real.metadata().map_err(failed)?;
    if !metadata.is_file() {
        return Err("is no file".to_owned());
    }
    let mut bytes = Vec::new();
    let opened = std::fs::File::open(&real).map_err(failed)?;
    opened.take(LIMIT + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > LIMIT {
        let (size, limit) = (metadata.len().div_ceil(1024), LIMIT / 1024);
        return Err(format!(
            "has {size} KiB, more than the {limit} KiB there is room for; move parts of it into files \
             beside it"
        ));
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        format!("is not UTF-8 at byte {at}; save it as UTF-8")
    })
}
