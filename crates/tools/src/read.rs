//! Reading files.

use std::borrow::Cow;
use std::path::Path;

use base64::Engine;
use schemars::JsonSchema;
use serde::Deserialize;

use bowline_agent::tool::{Access, Recovery, Tool, ToolContext, ToolError, ToolOutput};
use bowline_llm::{Media, Part};

use crate::excerpt::{Bounds, MAX_LINES, is_binary};
use crate::files::{self, Loaded};
use crate::workspace::{Workspace, off_thread_if_large};

/// The largest image that providers take.
pub(crate) const MAX_IMAGE: usize = 3_750_000;

/// The tool `read`.
#[derive(Debug)]
pub struct Read {
    workspace: Workspace,
}

/// Reads a text file or an image.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(transform = crate::schema::shorten)]
pub struct ReadInput {
    #[serde(alias = "file_path")]
    path: String,
    /// First line, from 1.
    offset: Option<usize>,
    /// Number of lines (at most 2000).
    limit: Option<usize>,
}

impl Read {
    /// Makes the tool for a workspace.
    pub fn new(workspace: Workspace) -> Self {
        Self { workspace }
    }
}

impl Tool for Read {
    const NAME: &'static str = "read";
    type Input = ReadInput;

    fn access(&self, input: &ReadInput) -> Access {
        Access::read(self.workspace.resolve(&input.path))
    }

    fn recovery(&self, _: &ReadInput) -> Recovery {
        Recovery::Rerun
    }

    async fn run(&self, input: ReadInput, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let path = self.workspace.resolve(&input.path);
        let workspace = self.workspace.clone();
        let cx = cx.clone();
        off_thread_if_large(path.clone(), move || read(&workspace, &path, &input, &cx)).await
    }
}

fn read(
    workspace: &Workspace,
    path: &Path,
    input: &ReadInput,
    cx: &ToolContext,
) -> Result<ToolOutput, ToolError> {
    let file = Loaded::read(workspace, path, cx)?.ok_or_else(|| files::missing(workspace, path))?;
    let shown = workspace.shown(path);
    if let Some(media_type) = image_type(&file.content) {
        if file.content.len() > MAX_IMAGE {
            return Err(ToolError::Failed(format!(
                "{shown} has {} bytes, more than an image may have ({MAX_IMAGE}); scale it down",
                file.content.len()
            )));
        }
        files::remember(cx, &file.path, &file.content)?;
        let note = format!("{shown}: {media_type}, {} bytes", file.content.len());
        let data = base64::engine::general_purpose::STANDARD.encode(&file.content);
        let image = Media { media_type: media_type.to_owned(), data: data.into(), name: None };
        return Ok(ToolOutput::Content(vec![Part::Text(note), Part::Image(image)]));
    }
    if is_binary(&file.content) {
        return Err(ToolError::Failed(format!(
            "{shown} is binary ({} bytes); look at it with bash (file, strings, xxd)",
            file.content.len()
        )));
    }
    let page = page(&file.content, input, Bounds::new(cx.output_bytes))?;
    files::remember(cx, &file.path, &file.content)?;
    Ok(page.into())
}

/// Returns the lines asked for, as many as fit, and what there is beyond them.
///
/// Only what is shown is made text: of bytes that are none it has three times as many.
fn page(content: &[u8], input: &ReadInput, bounds: Bounds) -> Result<String, ToolError> {
    let is_lossy = std::str::from_utf8(content).is_err();
    let content = content.strip_prefix("\u{feff}".as_bytes()).unwrap_or(content);
    let lines = || content.strip_suffix(b"\n").unwrap_or(content).split(|byte| *byte == b'\n');
    let total = if content.is_empty() { 0 } else { lines().count() };
    let first = input.offset.unwrap_or(1).max(1);
    if total == 0 {
        return Ok("(empty file)".to_owned());
    }
    if first > total {
        return Err(ToolError::Failed(format!(
            "offset {first} is beyond the end: there are {total} lines"
        )));
    }
    let wanted = input.limit.unwrap_or(MAX_LINES).clamp(1, MAX_LINES);
    // The notes at the end need some room.
    let room = bounds.bytes().saturating_sub(200);
    let mut page = String::new();
    let mut count = 0;
    for line in lines().skip(first - 1).take(wanted) {
        let line = text_of(line, room);
        if page.len() + line.len() > room {
            break;
        }
        page.push_str(&line);
        page.push('\n');
        count += 1;
    }
    let mut notes = Vec::new();
    if count == 0 {
        let line = lines().nth(first - 1).unwrap_or_default();
        let text = text_of(line, room);
        page.push_str(&text[..text.floor_char_boundary(room)]);
        page.push('\n');
        count = 1;
        notes.push(format!(
            "line {first} has {} bytes and is cut; see more of it with bash",
            line.len()
        ));
    }
    let last = first + count - 1;
    if last < total {
        notes.push(format!("lines {first}-{last} of {total}; go on with offset {}", last + 1));
    }
    if is_lossy {
        notes.push("not UTF-8: \u{fffd} stands for other bytes".to_owned());
    }
    if !notes.is_empty() {
        page.push_str(&format!("[{}]", notes.join("; ")));
    } else if !content.ends_with(b"\n") {
        // The model sees that the last line has no end.
        page.pop();
    }
    Ok(page)
}

/// Returns a line without its end, or the beginning of one that is longer than there is room.
fn text_of(line: &[u8], room: usize) -> Cow<'_, str> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    String::from_utf8_lossy(line.get(..room + 4).unwrap_or(line))
}

/// Recognizes an image by its first bytes.
pub(crate) fn image_type(content: &[u8]) -> Option<&'static str> {
    match content {
        [0x89, b'P', b'N', b'G', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        _ => None,
    }
}
