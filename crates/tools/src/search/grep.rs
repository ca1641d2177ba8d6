//! Finding text in files.

use std::io;
use std::path::Path;

use globset::{GlobBuilder, GlobMatcher};
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{
    BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkFinish, SinkMatch,
};
use schemars::JsonSchema;
use serde::Deserialize;

use bowline_agent::tool::{Access, Recovery, Tool, ToolContext, ToolError, ToolOutput};

use super::{Listing, Place};
use crate::files;
use crate::workspace::Workspace;

/// The longest part of a line that is shown.
const MAX_LINE: usize = 400;

/// The most matching lines that are looked for.
const MAX_MATCHES: usize = 2000;

/// The tool `grep`.
#[derive(Debug)]
pub struct Grep {
    workspace: Workspace,
}

/// Searches file contents with a regex; ignored, hidden and binary files are left out.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(transform = crate::schema::shorten)]
pub struct GrepInput {
    pattern: String,
    /// File or folder.
    path: Option<String>,
    /// Only files like this, e.g. *.rs.
    glob: Option<String>,
    ignore_case: Option<bool>,
    /// Lines shown around a match.
    context: Option<usize>,
    /// Only list the files.
    files_only: Option<bool>,
}

impl Grep {
    /// Makes the tool for a workspace.
    pub fn new(workspace: Workspace) -> Self {
        Self { workspace }
    }
}

impl Tool for Grep {
    const NAME: &'static str = "grep";
    type Input = GrepInput;

    fn access(&self, input: &GrepInput) -> Access {
        Access::read(self.workspace.resolve(input.path.as_deref().unwrap_or(".")))
    }

    fn recovery(&self, _: &GrepInput) -> Recovery {
        Recovery::Rerun
    }

    async fn run(&self, input: GrepInput, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let path = input.path.clone();
        Place::search(&self.workspace, path.as_deref(), cx, move |place| grep(place, &input)).await
    }
}

fn grep(place: &Place, input: &GrepInput) -> Result<String, ToolError> {
    let matcher = RegexMatcherBuilder::new()
        .case_insensitive(input.ignore_case.unwrap_or(false))
        .line_terminator(Some(b'\n'))
        .build(&input.pattern)
        .map_err(|error| ToolError::Failed(format!("bad pattern: {error}")))?;
    let only = input.glob.as_deref().map(file_matcher).transpose()?;
    let files_only = input.files_only.unwrap_or(false);
    let context = if files_only { 0 } else { input.context.unwrap_or(0).min(50) };
    let mut searcher = SearcherBuilder::new()
        .line_number(true)
        .before_context(context)
        .after_context(context)
        .binary_detection(BinaryDetection::quit(0))
        .build();
    let mut results = Results { listing: place.listing(), matches: 0, files: 0, files_only };
    for entry in place.walk(None, false) {
        let relative = entry.path().strip_prefix(&place.root).unwrap_or(entry.path());
        let is_wanted = only.as_ref().is_none_or(|only| only.is_match(relative));
        if entry.file_type().is_none_or(|kind| !kind.is_file()) || !is_wanted {
            continue;
        }
        results.search(&mut searcher, &matcher, entry.path(), place);
        if results.matches >= MAX_MATCHES {
            break;
        }
    }
    let is_all = results.matches < MAX_MATCHES;
    if results.matches == 0 {
        return Ok("no matches".to_owned());
    }
    let (matches, files) = (results.matches, results.files);
    let plus = if is_all { "" } else { " or more" };
    let advice =
        format!("{matches}{plus} matches in {files} files: narrow the pattern, path or glob");
    Ok(results.listing.finish("lines", &advice))
}

fn file_matcher(glob: &str) -> Result<GlobMatcher, ToolError> {
    let everywhere = if glob.contains('/') { glob.to_owned() } else { format!("**/{glob}") };
    let glob = GlobBuilder::new(&everywhere).literal_separator(true).build();
    Ok(glob.map_err(|error| ToolError::Failed(format!("bad glob: {error}")))?.compile_matcher())
}

/// What has been found so far.
struct Results {
    listing: Listing,
    matches: usize,
    files: usize,
    files_only: bool,
}

impl Results {
    fn search(
        &mut self,
        searcher: &mut Searcher,
        matcher: &RegexMatcher,
        path: &Path,
        place: &Place,
    ) {
        // A file that cannot be read has no matches.
        let Ok((file, real)) = files::open(path) else { return };
        let mut found = Found { lines: Vec::new(), matches: 0, files_only: self.files_only };
        let _ = searcher.search_file(matcher, &file, &mut found);
        // Nor has one that the call may not read.
        if found.matches == 0 || place.check(&real).is_err() {
            return;
        }
        let name = place.shown(path);
        self.matches += found.matches;
        self.files += 1;
        self.listing.push(&name);
        for line in &found.lines {
            self.listing.push(line);
        }
    }
}

/// What has been found in one file.
struct Found {
    lines: Vec<String>,
    matches: usize,
    files_only: bool,
}

impl Found {
    fn push(&mut self, number: Option<u64>, mark: char, bytes: &[u8]) {
        let text = String::from_utf8_lossy(bytes);
        let text = text.trim_end();
        let shown = &text[..text.floor_char_boundary(MAX_LINE)];
        let cut = if shown.len() < text.len() { "…" } else { "" };
        self.lines.push(format!("{}{mark}{shown}{cut}", number.unwrap_or_default()));
    }
}

impl Sink for Found {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, io::Error> {
        self.matches += 1;
        if !self.files_only {
            self.push(found.line_number(), ':', found.bytes());
        }
        Ok(!self.files_only && self.matches < MAX_MATCHES)
    }

    fn context(&mut self, _: &Searcher, context: &SinkContext<'_>) -> Result<bool, io::Error> {
        self.push(context.line_number(), '-', context.bytes());
        Ok(true)
    }

    fn context_break(&mut self, _: &Searcher) -> Result<bool, io::Error> {
        self.lines.push("--".to_owned());
        Ok(true)
    }

    fn finish(&mut self, _: &Searcher, finish: &SinkFinish) -> Result<(), io::Error> {
        // What comes before the first zero byte of a binary file is no text either.
        if finish.binary_byte_offset().is_some() {
            *self = Self { lines: Vec::new(), matches: 0, files_only: self.files_only };
        }
        Ok(())
    }
}
