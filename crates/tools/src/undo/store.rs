//! How the repository of a session is made.
//!
//! What the user's repository has need not be stored again: its objects are read from where they are, and
//! its index says which files are as they are there. That holds only where git stores files byte for
//! byte; where it converts line ends or filters files, everything is recorded anew.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use super::git::{Git, paths};
use super::{Place, UndoError};

/// What makes git store something else than is in a file.
const CONVERSIONS: [&str; 6] = ["text", "crlf", "eol", "ident", "filter", "working-tree-encoding"];

/// No file is converted, whatever the project says.
const ATTRIBUTES: &str = "* -text -crlf -ident -filter !eol !working-tree-encoding\n";

/// How many bytes a file with patterns has at most, and an index.
const EXCLUDE_BYTES: u64 = 1 << 20;
const INDEX_BYTES: u64 = 1 << 30;

/// Makes the repository, and returns the files that the user's repository knows, should the index not say.
pub(super) fn make(git: &Git, place: &Place) -> Result<Vec<Vec<u8>>, UndoError> {
    clear(git.store())?;
    let user = User::find(git, place);
    let format = user.as_ref().map_or("sha1", |user| user.format.as_str());
    git.run(&["init", "--quiet", "--template=", &format!("--object-format={format}")], &[])?;
    write(&git.store().join("info/attributes"), ATTRIBUTES.as_bytes())?;
    let excluded = user.as_ref().map(|user| user.excluded(git, place)).unwrap_or_default();
    write(&git.store().join("info/exclude"), &[excluded, left_out(place)].concat())?;
    let Some(user) = user else { return Ok(Vec::new()) };
    let mut alternates = user.objects.as_os_str().as_bytes().to_vec();
    alternates.push(b'\n');
    write(&git.store().join("objects/info/alternates"), &alternates)?;
    begin_with(git, &user, place)
}

/// Removes what was begun and not finished.
fn clear(store: &Path) -> Result<(), UndoError> {
    for entry in fs::read_dir(store).map_err(UndoError::file(store))? {
        let path = entry.map_err(UndoError::file(store))?.path();
        let removed = match path.is_dir() {
            true => fs::remove_dir_all(&path),
            // The lock is held.
            false if path.ends_with(".lock") => Ok(()),
            false => fs::remove_file(&path),
        };
        removed.map_err(UndoError::file(&path))?;
    }
    Ok(())
}

/// The user's repository.
struct User {
    objects: PathBuf,
    index: PathBuf,
    exclude: PathBuf,
    format: String,
}

impl User {
    /// Finds it; `None` if there is none at the root, or git will not read it.
    fn find(git: &Git, place: &Place) -> Option<Self> {
        place.root.join(".git").symlink_metadata().ok()?;
        let asked = ["rev-parse", "--show-object-format", "--git-path", "objects", "--git-path"];
        let asked = [&asked[..], &["index", "--git-path", "info/exclude"]].concat();
        let said = git.of_user(&place.variables, &asked, &[]).ok()?;
        let said = String::from_utf8(said).ok()?;
        let lines: Vec<&str> = said.lines().collect();
        let &[format, objects, index, exclude] = &lines[..] else { return None };
        let [objects, index, exclude] = [objects, index, exclude].map(|path| place.root.join(path));
        // What git reads as a quote or a comment.
        let is_plain = objects.is_dir() && !objects.as_os_str().as_bytes().contains(&b'"');
        is_plain.then(|| Self { objects, index, exclude, format: format.to_owned() })
    }

    /// Returns what the user has ignored outside the project's own files.
    fn excluded(&self, git: &Git, place: &Place) -> Vec<u8> {
        let variable = |wanted: &str| {
            let mut variables = place.variables.iter();
            variables.find(|(name, _)| name == wanted).map(|(_, value)| PathBuf::from(value))
        };
        // Not what the project names: it may be any file.
        let named = ["--global", "--system"].into_iter().find_map(|whose| {
            let asked =
                ["config", whose, "--includes", "--type=path", "--get", "core.excludesFile"];
            String::from_utf8(git.of_user(&place.variables, &asked, &[]).ok()?).ok()
        });
        let global = match named {
            Some(path) => Some(PathBuf::from(path.trim_end_matches('\n'))),
            None => variable("XDG_CONFIG_HOME")
                .or_else(|| variable("HOME").map(|home| home.join(".config")))
                .map(|folder| folder.join("git/ignore")),
        };
        let global = global.map(|file| (file, OFlags::empty()));
        let files = global.into_iter().chain([(self.exclude.clone(), OFlags::NOFOLLOW)]);
        // What cannot be read does not count for git either.
        let texts = files.filter_map(|(file, flags)| read(&file, flags).ok());
        texts.fold(Vec::new(), |all, text| [all, text, b"\n".to_vec()].concat())
    }

    /// Tells whether git stores any of these files otherwise than they are.
    fn converts(&self, git: &Git, place: &Place, tracked: &[u8]) -> bool {
        let asked = ["config", "--get", "core.autocrlf"];
        let autocrlf = git.of_user(&place.variables, &asked, &[]).unwrap_or_default();
        if !matches!(autocrlf.trim_ascii(), b"" | b"false") {
            return true;
        }
        let asked = [&["check-attr", "-z", "--stdin"][..], &CONVERSIONS].concat();
        let Ok(said) = git.of_user(&place.variables, &asked, tracked) else { return true };
        let fields: Vec<&[u8]> = said.split(|byte| *byte == 0).collect();
        let mut values = fields.chunks(3).filter_map(|fields| fields.get(2));
        values.any(|value| !matches!(*value, b"unspecified" | b"unset"))
    }
}

/// Begins with the index of the user if it tells of every file what is in it. Otherwise there is none, and
/// the files are returned that it names: they are recorded even if they are ignored.
fn begin_with(git: &Git, user: &User, place: &Place) -> Result<Vec<Vec<u8>>, UndoError> {
    match copy(&user.index, git.index()) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(UndoError::file(&user.index)(error)),
    }
    let asked = ["ls-files", "-s", "-v", "-z"];
    // An index in parts cannot be read where its parts are not.
    let listed = git.run(&asked, &[]);
    let is_whole = listed.is_ok();
    let listed = listed.or_else(|_| git.of_user(&place.variables, &asked, &[]))?;
    let entries = paths(&listed);
    if entries.len() > place.limits.files {
        let why = format!("there are more than {} files", place.limits.files);
        return Err(UndoError::Unable(why));
    }
    let mut tracked = Vec::new();
    let mut is_usual = is_whole;
    for entry in &entries {
        let Some(tab) = entry.iter().position(|byte| *byte == b'\t') else { continue };
        let (said, path) = (&entry[..tab], &entry[tab + 1..]);
        // Neither in conflict, nor hidden from git, nor another repository.
        let is_file = said.starts_with(b"H ") && said.ends_with(b" 0");
        is_usual &= is_file && !said.starts_with(b"H 160000");
        if !said.starts_with(b"H 160000") {
            tracked.push(path.to_vec());
        }
    }
    let names = super::git::joined(&tracked);
    if is_usual && !tracked.is_empty() && !user.converts(git, place, &names) {
        return Ok(Vec::new());
    }
    fs::remove_file(git.index()).map_err(UndoError::file(git.index()))?;
    tracked.dedup();
    Ok(tracked)
}

/// Copies an index. Its time counts: what was changed when it was written is looked at again.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let mut from = open(from, OFlags::NOFOLLOW, INDEX_BYTES)?;
    let mut to = File::create(to)?;
    io::copy(&mut (&mut from).take(INDEX_BYTES), &mut to)?;
    to.set_modified(from.metadata()?.modified()?)
}

fn read(path: &Path, flags: OFlags) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    open(path, flags, EXCLUDE_BYTES)?.take(EXCLUDE_BYTES).read_to_end(&mut text)?;
    Ok(text)
}

/// Opens a file that has no more than `most` bytes, and is no device or pipe.
fn open(path: &Path, flags: OFlags, most: u64) -> io::Result<File> {
    let flags = (flags | OFlags::NONBLOCK).bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let data = file.metadata()?;
    match data.is_file() && data.len() <= most {
        true => Ok(file),
        false => Err(io::Error::new(io::ErrorKind::InvalidData, "it is too large, or no file")),
    }
}

/// Returns patterns for what is in the project and no part of it.
fn left_out(place: &Place) -> Vec<u8> {
    let mut patterns = Vec::new();
    for folder in &place.left_out {
        let Ok(relative) = folder.strip_prefix(&place.root) else { continue };
        patterns.push(b'/');
        for byte in relative.as_os_str().as_bytes() {
            if b"\\*?[ ".contains(byte) {
                patterns.push(b'\\');
            }
            patterns.push(*byte);
        }
        patterns.extend_from_slice(b"/\n");
    }
    patterns
}

fn write(path: &Path, content: &[u8]) -> Result<(), UndoError> {
    let folder = path.parent().unwrap_or(path);
    fs::create_dir_all(folder).map_err(UndoError::file(folder))?;
    fs::write(path, content).map_err(UndoError::file(path))
}
