//! What the model sees of a long output: its beginning and its end.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// How much of an output is shown.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    bytes: u64,
    lines: usize,
}

/// The most lines that are ever shown.
pub(crate) const MAX_LINES: usize = 2000;

/// What is shown if the limit is none.
const NO_LIMIT: u64 = 16 * 1024 * 1024;

impl Bounds {
    /// Takes a limit of bytes, 0 for none.
    pub(crate) fn new(bytes: u64) -> Self {
        Self { bytes: if bytes == 0 { NO_LIMIT } else { bytes }, lines: MAX_LINES }
    }

    /// Returns the most bytes to show.
    pub(crate) fn bytes(self) -> usize {
        usize::try_from(self.bytes).unwrap_or(usize::MAX)
    }
}

/// Reads a file from an offset on and, if that is longer than it may be, cuts out its middle and says
/// so. The text is empty if there is nothing. Also returns where the file ended.
///
/// Memory is bounded by the limit, not by the file.
///
/// # Errors
/// If the file cannot be read.
pub(crate) fn excerpt(path: &Path, from: u64, bounds: Bounds) -> io::Result<(String, u64)> {
    let file = File::open(path)?;
    let end = file.metadata()?.len();
    let length = end.saturating_sub(from);
    let is_short = length <= bounds.bytes;
    let head_bytes = if is_short { length } else { bounds.bytes / 4 };
    let head = read_at(&file, from, head_bytes)?;
    if is_binary(&head) {
        return Ok((format!("[binary output of {length} bytes, kept in {}]", path.display()), end));
    }
    if is_short && count_lines(&head) <= bounds.lines {
        return Ok((to_text(&head), end));
    }
    let notice_bytes = 120 + as_u64(path.as_os_str().len());
    let tail_bytes = match is_short {
        true => length,
        false => (bounds.bytes - head_bytes).saturating_sub(notice_bytes),
    };
    let tail = read_at(&file, end - tail_bytes, tail_bytes)?;
    let head = first_lines(&head, bounds.lines / 4);
    let tail = last_lines(&tail, bounds.lines - bounds.lines / 4);
    let cut = (from + as_u64(head.len()), end - as_u64(tail.len()));
    let lines = count_newlines(&file, cut.0, cut.1)?;
    let mut text = clip(to_text(head), bounds.bytes / 4, false);
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    let (bytes, path) = (cut.1 - cut.0, path.display());
    text.push_str(&format!("[… {lines} lines, {bytes} bytes cut here; full output: {path}]\n"));
    text.push_str(&clip(to_text(tail), tail_bytes, true));
    Ok((text, end))
}

/// Makes text of bytes: what is no UTF-8, and the zero byte, becomes a replacement character.
pub(crate) fn to_text(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    if text.contains('\0') { text.replace('\0', "\u{fffd}") } else { text.into_owned() }
}

/// Tells whether bytes are most likely no text at all.
pub(crate) fn is_binary(bytes: &[u8]) -> bool {
    let sample = bytes.get(..8192).unwrap_or(bytes);
    let zeros = sample.iter().filter(|byte| **byte == 0).count();
    let broken: usize = sample.utf8_chunks().map(|chunk| chunk.invalid().len()).sum();
    // Three bytes may be the start of a character that the sample cuts.
    zeros + broken.saturating_sub(3) > sample.len() / 10
}

fn read_at(file: &File, at: u64, bytes: u64) -> io::Result<Vec<u8>> {
    let mut buffer = vec![0; usize::try_from(bytes).unwrap_or(usize::MAX)];
    let mut filled = 0;
    while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, at + as_u64(filled))? {
            0 => break,
            read => filled += read,
        }
    }
    buffer.truncate(filled);
    Ok(buffer)
}

/// Returns the start of the bytes up to a line's end, or all if there is not one line.
fn first_lines(bytes: &[u8], lines: usize) -> &[u8] {
    let mut ends = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').take(lines);
    let end = ends.by_ref().last().map_or(0, |(at, _)| at + 1);
    match bytes.get(..end) {
        Some(whole) if !whole.is_empty() => whole,
        Some(_) | None => bytes.get(..character_start(bytes, bytes.len())).unwrap_or(bytes),
    }
}

/// Returns the end of the bytes from a line's start, or all if there is not one line.
fn last_lines(bytes: &[u8], lines: usize) -> &[u8] {
    let content = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    let newlines = content.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n');
    match newlines.take(lines).last() {
        Some((at, _)) => bytes.get(at + 1..).unwrap_or_default(),
        None => {
            let is_inner = |byte: &&u8| **byte & 0xC0 == 0x80;
            let inner = bytes.iter().take(3).take_while(is_inner).count();
            bytes.get(inner..).unwrap_or_default()
        }
    }
}

/// Returns the place at or before `end` where no character is cut.
fn character_start(bytes: &[u8], end: usize) -> usize {
    let last = bytes.get(end.saturating_sub(4)..end).unwrap_or_default();
    match last.utf8_chunks().last() {
        // An incomplete character at the very end, not a wrong byte.
        Some(chunk)
            if std::str::from_utf8(chunk.invalid())
                .is_err_and(|error| error.error_len().is_none()) =>
        {
            end - chunk.invalid().len()
        }
        Some(_) | None => end,
    }
}

/// Shortens a text that replacement characters have made longer than its bytes were.
fn clip(text: String, bytes: u64, is_tail: bool) -> String {
    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    if text.len() <= bytes {
        text
    } else if is_tail {
        text[text.ceil_char_boundary(text.len() - bytes)..].to_owned()
    } else {
        text[..text.floor_char_boundary(bytes)].to_owned()
    }
}

fn count_lines(bytes: &[u8]) -> usize {
    newlines(bytes) + usize::from(bytes.last().is_some_and(|last| *last != b'\n'))
}

fn newlines(bytes: &[u8]) -> usize {
    bytes.iter().filter(|byte| **byte == b'\n').count()
}

fn count_newlines(file: &File, mut from: u64, to: u64) -> io::Result<usize> {
    let mut buffer = vec![0; 128 * 1024];
    let mut lines = 0;
    while from < to {
        let wanted = usize::try_from(to - from).unwrap_or(usize::MAX).min(buffer.len());
        let read = file.read_at(buffer.get_mut(..wanted).unwrap_or_default(), from)?;
        if read == 0 {
            break;
        }
        lines += newlines(buffer.get(..read).unwrap_or_default());
        from += as_u64(read);
    }
    Ok(lines)
}

fn as_u64(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

/// Follows a file that grows, from its beginning.
#[derive(Debug, Default)]
pub(crate) struct Tail {
    file: Option<File>,
    at: u64,
    /// The start of a character whose end has not been written yet.
    pending: Vec<u8>,
}

/// The most that is shown of what came since the last look.
const MAX_STEP: u64 = 64 * 1024;

impl Tail {
    /// Returns what has been written since the last look, up to the last whole character. If it is
    /// much, only its end.
    pub(crate) fn read(&mut self, path: &Path) -> io::Result<Option<String>> {
        let file = match &mut self.file {
            Some(file) => file,
            None => self.file.insert(File::open(path)?),
        };
        let length = file.metadata()?.len();
        if length <= self.at {
            return Ok(None);
        }
        let mut skipped = 0;
        if length - self.at > MAX_STEP {
            skipped = length - MAX_STEP - self.at;
            self.at = length - MAX_STEP;
            self.pending.clear();
        }
        let mut bytes = std::mem::take(&mut self.pending);
        let new = read_at(file, self.at, length - self.at)?;
        self.at += as_u64(new.len());
        bytes.extend(new);
        self.pending = bytes.split_off(character_start(&bytes, bytes.len()));
        let text = to_text(&bytes);
        Ok(Some(if skipped > 0 { format!("\n[… {skipped} bytes]\n{text}") } else { text }))
    }
}

#[cfg(test)]
mod tests;
