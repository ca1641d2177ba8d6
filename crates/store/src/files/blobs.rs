//! Large bodies, each in a file named by its hash.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use sha2::{Digest as _, Sha256};

use bowline_agent::id::SessionId;
use bowline_agent::journal::{Blobs, JournalError};

use super::disk::{Disk, blocking};
use super::line::hex;
use super::place::{Place, failed, is_absent, make_folder};
use super::{Durability, Files};

/// The large bodies of a session that is held for writing.
#[derive(Debug)]
pub(crate) struct FileBlobs {
    place: Place,
    disk: Arc<Disk>,
    durability: Durability,
}

impl FileBlobs {
    pub(crate) fn new(place: Place, disk: Arc<Disk>, durability: Durability) -> Self {
        Self { place, disk, durability }
    }
}

#[async_trait]
impl Blobs for FileBlobs {
    async fn put(&self, body: &[u8]) -> Result<String, JournalError> {
        let (place, disk, body) = (self.place.clone(), Arc::clone(&self.disk), body.to_vec());
        let hash = blocking(move || {
            let hash = hash_of(&body);
            let path = place.blobs().join(&hash);
            let length = fs::metadata(&path).map(|metadata| metadata.len());
            if length.ok() != Some(body.len() as u64) {
                make_folder(&place.blobs())?;
                write_whole(&path, &body, Durability::Process)?;
                disk.wrote_body(path);
            }
            Ok(hash)
        })
        .await?;
        match self.durability {
            Durability::Process => self.disk.sync_later(),
            Durability::Power => self.disk.sync().await?,
        }
        Ok(hash)
    }

    async fn get(&self, hash: &str) -> Result<Vec<u8>, JournalError> {
        let (place, hash) = (self.place.clone(), hash.to_owned());
        blocking(move || get(&place, &hash)).await
    }
}

/// Reads a body and checks it.
pub(crate) fn get(place: &Place, hash: &str) -> Result<Vec<u8>, JournalError> {
    let missing = || JournalError::NotFound(format!("blob {hash} of session {}", place.id));
    // What is no hash must not lead anywhere else.
    if hash.len() != 64 || !hash.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(missing());
    }
    let path = place.blobs().join(hash);
    let body = match fs::read(&path) {
        Ok(body) => body,
        Err(error) if is_absent(&error) => return Err(missing()),
        Err(error) => return Err(failed("read", &path)(error)),
    };
    if hash_of(&body) != hash {
        let what = "it no longer has the hash that it is named by".into();
        return Err(JournalError::Corrupt { place: path.display().to_string(), what });
    }
    Ok(body)
}

/// Brings a body from one session to another.
pub(crate) fn copy(from: &Place, to: &Place, hash: &str) -> Result<(), JournalError> {
    let body = get(from, hash)?;
    let path = to.blobs().join(hash);
    if path.exists() {
        return Ok(());
    }
    make_folder(&to.blobs())?;
    // A body never changes, so two sessions can share one.
    if fs::hard_link(from.blobs().join(hash), &path).is_ok() {
        return Ok(());
    }
    write_whole(&path, &body, Durability::Power).map(drop)
}

fn hash_of(body: &[u8]) -> String {
    hex(&Sha256::digest(body).into()).into_iter().map(char::from).collect()
}

/// Writes a file that is there whole or not at all, after a loss of power too if that is asked for,
/// and returns it.
pub(crate) fn write_whole(
    path: &Path,
    content: &[u8],
    durability: Durability,
) -> Result<File, JournalError> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let draft: PathBuf = path.with_extension(format!("{}-{number}.new", std::process::id()));
    let write = || {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        let mut file = options.open(&draft)?;
        file.write_all(content)?;
        match durability {
            Durability::Process => {}
            Durability::Power => file.sync_all()?,
        }
        fs::rename(&draft, path)?;
        Ok(file)
    };
    write().map_err(|error: io::Error| {
        // It may not even be there.
        let _ = fs::remove_file(&draft);
        failed("write", path)(error)
    })
}

/// The large bodies of a session that somebody else may hold for writing.
#[derive(Debug)]
pub(crate) struct ReadBlobs {
    files: Files,
    session: SessionId,
}

impl ReadBlobs {
    pub(crate) fn new(files: Files, session: SessionId) -> Self {
        Self { files, session }
    }
}

#[async_trait]
impl Blobs for ReadBlobs {
    async fn put(&self, _body: &[u8]) -> Result<String, JournalError> {
        let why = "it was opened for reading".to_owned();
        Err(JournalError::ReadOnly { session: self.session, why })
    }

    async fn get(&self, hash: &str) -> Result<Vec<u8>, JournalError> {
        let (files, session, hash) = (self.files.clone(), self.session, hash.to_owned());
        blocking(move || files.blob(session, &hash)).await
    }
}
