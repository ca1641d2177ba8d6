//! Reading files that lie in a folder: whoever made the folder may have put anything there.
//!
//! A pipe waits for whoever writes to it, a device may do anything, and some files never end. None of them
//! is a reason for bowline not to start, or to take all the memory there is.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

/// The most that a file of a configuration has, in bytes.
const LIMIT: u64 = 1 << 20;

/// Reads a file as text.
///
/// # Errors
/// If it is no file, is too long, is no UTF-8, or cannot be read.
pub(crate) fn text_of(path: &Path) -> io::Result<String> {
    let text = String::from_utf8(bytes_of(path)?);
    text.map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is no UTF-8"))
}

/// Reads a file.
///
/// # Errors
/// If it is no file, is too long, or cannot be read.
pub(crate) fn bytes_of(path: &Path) -> io::Result<Vec<u8>> {
    let refused = |what: String| io::Error::new(io::ErrorKind::InvalidData, what);
    // What is no file is not even opened.
    if !path.metadata()?.is_file() {
        return Err(refused("it is no file".to_owned()));
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(LIMIT + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LIMIT {
        return Err(refused(format!("it has more than {} KiB", LIMIT >> 10)));
    }
    Ok(bytes)
}
