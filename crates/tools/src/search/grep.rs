//! Finding text in files.

use std::borrow::Cow;
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
use bowline_agent::visible::name;

use super::{Listing, Place};
use crate::files;
use crate::workspace::Workspace;

/// The longest part of a line that is shown.
const MAX_LINE: usize = 400;

/// The longest line that is searched: it is held in memory as a whole.
const MAX_SEARCHED: usize = 16 << 20;

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
        .heap_limit(Some(MAX_SEARCHED))
        .build();
    let listing = place.listing();
    let mut results = Results { listing, matches: 0, files: 0, unfinished: 0, files_only };
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
    Ok(results.finish())
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
    /// How many files have a line that is too long to be searched, so that what follows it was not.
    unfinished: usize,
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
        let room = self.listing.room;
        let mut found = Found { room, ..Found::new(self.files_only) };
        let searched = searcher.search_file(matcher, &file, &mut found);
        // What the searcher itself refuses has no other kind.
        let is_unfinished = searched.is_err_and(|error| error.kind() == io::ErrorKind::Other);
        // Nor has one that the call may not read.
        if found.matches == 0 && !is_unfinished || place.check(&real).is_err() {
            return;
        }
        self.unfinished += usize::from(is_unfinished);
        if found.matches == 0 {
            return;
        }
        self.matches += found.matches;
        self.files += 1;
        self.listing.push(&heading(place, path));
        for line in &found.lines {
            self.listing.push(line);
        }
        self.listing.left_out += found.left_out;
    }

    fn finish(self) -> String {
        let Self { listing, matches, files, unfinished, .. } = self;
        let is_all = matches < MAX_MATCHES;
        let plus = if is_all { "" } else { " or more" };
        let advice =
            format!("{matches}{plus} matches in {files} files: narrow the pattern, path or glob");
        let mut text = match (matches, listing.left_out) {
            (0, _) => "no matches".to_owned(),
            // All that was found fits, but it was not looked for more.
            (_, 0) if !is_all => format!("{}\n[{advice}]", listing.finish("lines", "")),
            (_, _) => listing.finish("lines", &advice),
        };
        if unfinished > 0 {
            let most = MAX_SEARCHED >> 20;
            text.push_str(&format!(
                "\n[{unfinished} files were not searched to the end: a line has more than {most} MiB]"
            ));
        }
        text
    }
}

/// Returns what stands above the lines of a file: its name, which is not to be taken for one of them.
fn heading<'a>(place: &Place, path: &'a Path) -> Cow<'a, str> {
    let shown = place.shown(path);
    let behind = shown.trim_start_matches(|c: char| c.is_ascii_digit());
    let is_like_a_line = behind.len() < shown.len() && behind.starts_with([':', '-']);
    match is_like_a_line || shown == "--" {
        true => Cow::Owned(name::quoted(place.workspace.relative(path))),
        false => shown,
    }
}

/// What has been found in one file.
struct Found {
    lines: Vec<String>,
    matches: usize,
    files_only: bool,
    /// How many bytes of lines are of any use.
    room: usize,
    left_out: usize,
}

impl Found {
    fn new(files_only: bool) -> Self {
        Self { lines: Vec::new(), matches: 0, files_only, room: 0, left_out: 0 }
    }

    fn push(&mut self, number: Option<u64>, mark: char, bytes: &[u8]) {
        let bytes = bytes.trim_ascii_end();
        // Enough to tell whether there is more than is shown.
        let text = String::from_utf8_lossy(bytes.get(..2 * MAX_LINE).unwrap_or(bytes));
        let shown = &text[..text.floor_char_boundary(MAX_LINE)];
        let cut = if shown.len() < bytes.len() { "…" } else { "" };
        self.add(format!("{}{mark}{shown}{cut}", number.unwrap_or_default()));
    }

    fn add(&mut self, line: String) {
        match self.room.checked_sub(line.len() + 1) {
            Some(room) if self.left_out == 0 => {
                self.room = room;
                self.lines.push(line);
            }
            Some(_) | None => self.left_out += 1,
        }
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
        self.add("--".to_owned());
        Ok(true)
    }

    fn finish(&mut self, _: &Searcher, finish: &SinkFinish) -> Result<(), io::Error> {
        // What comes before the first zero byte of a binary file is no text either.
        if finish.binary_byte_offset().is_some() {
            *self = Self::new(self.files_only);
        }
        Ok(())
    }
}
