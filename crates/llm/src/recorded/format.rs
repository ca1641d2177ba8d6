//! The lines of a recording.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

use serde::{Deserialize, Serialize};

use crate::{
    Effort, Message, MessageRef, ModelError, ModelInfo, RawJson, Request, StreamEvent, ToolSpec,
};

/// The only version there is.
const VERSION: u32 = 1;

/// The first line.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Header {
    /// The version of the format.
    bowline_recording: u32,
    pub(super) info: ModelInfo,
}

impl Header {
    pub(super) fn of(info: &ModelInfo) -> Self {
        Self { bowline_recording: VERSION, info: info.clone() }
    }
}

/// Any other line: a request and its answer.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Exchange {
    /// The place of the request among all, from 1.
    pub(super) n: u64,
    pub(super) request: Asked,
    pub(super) events: Vec<StreamEvent>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<ModelError>,
}

/// What of a request decides the answer.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Asked {
    #[serde(default, skip_serializing_if = "str::is_empty")]
    system: Arc<str>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    tools: Vec<ToolSpec>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    effort: Option<Effort>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    max_output_tokens: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    output_schema: Option<RawJson>,
    messages: Vec<Message>,
}

impl Asked {
    pub(super) fn of(request: &Request) -> Self {
        let Request {
            system,
            tools,
            messages,
            effort,
            max_output_tokens,
            output_schema,
            cache_key: _,
        } = request;
        Self {
            system: Arc::clone(system),
            tools: tools.specs().to_vec(),
            effort: *effort,
            max_output_tokens: *max_output_tokens,
            output_schema: output_schema.clone(),
            messages: messages.iter().map(|message: &MessageRef| Message::clone(message)).collect(),
        }
    }
}

/// A recording that cannot be played back.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    /// The file cannot be read.
    #[error("cannot read the recording {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A line is none of a recording.
    #[error("{}:{line}: no line of a recording", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// The file is empty or of another version.
    #[error("{}: no recording of version {VERSION}", path.display())]
    Version {
        /// The file.
        path: PathBuf,
    },
}

/// Reads a recording; the exchanges come in the order in which they were asked.
pub(super) fn read(path: &Path) -> Result<(Header, Vec<Exchange>), RecordingError> {
    let path_buf = || path.to_owned();
    let text = fs::read_to_string(path)
        .map_err(|source| RecordingError::Read { path: path_buf(), source })?;
    let wrong = |line, source| RecordingError::Line { path: path_buf(), line: line + 1, source };
    let mut lines = text.lines().enumerate();
    let (n, first) = lines.next().ok_or_else(|| RecordingError::Version { path: path_buf() })?;
    let header: Header = serde_json::from_str(first).map_err(|source| wrong(n, source))?;
    if header.bowline_recording != VERSION {
        return Err(RecordingError::Version { path: path_buf() });
    }
    let exchanges = lines.filter(|(_, line)| !line.trim().is_empty());
    let mut exchanges = exchanges
        .map(|(n, line)| serde_json::from_str(line).map_err(|source| wrong(n, source)))
        .collect::<Result<Vec<Exchange>, _>>()?;
    exchanges.sort_by_key(|exchange| exchange.n);
    Ok((header, exchanges))
}
