//! What a model is told of a call that did not simply succeed.

use std::time::Duration;

use bowline_llm::{Part, text_of};

use crate::entry::CallStatus;

/// A call that was in flight when its process died.
pub(super) const INTERRUPTED: &str = "interrupted: the process that ran this call died, and its \
     outcome is unknown. Check what it did before you repeat it.";

/// A call whose arguments the model could not finish.
pub(super) const CUT: &str = "not run: the reply was cut at the output limit before the arguments \
     of this call were complete. Call again with less in it.";

/// Returns what is said of a call of a tool there is not.
pub(super) fn unknown_tool<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> String {
    let mut known: Vec<&str> = known.collect();
    if known.is_empty() {
        return format!("unknown tool {name:?}: there are no tools");
    }
    known.sort_by_key(|known| distance(name, known));
    known.truncate(3);
    format!("unknown tool {name:?}: did you mean {}?", known.join(", "))
}

/// Returns what is said of a call that was stopped.
pub(super) fn stopped(status: CallStatus, ran: Duration) -> String {
    let seconds = ran.as_secs_f64();
    match status {
        CallStatus::Timeout => format!("timed out after {seconds:.1} s and was stopped"),
        CallStatus::Ok
        | CallStatus::Error
        | CallStatus::Denied
        | CallStatus::Skipped
        | CallStatus::Canceled
        | CallStatus::Interrupted => {
            format!("canceled after {seconds:.1} s; it may have done a part of its work")
        }
    }
}

/// Cuts the text of a result to `limit` bytes, a quarter from its beginning and the rest from its
/// end. Returns the whole text too if it was cut. 0 is no limit.
pub(super) fn cut(parts: Vec<Part>, limit: usize) -> (Vec<Part>, Option<String>) {
    let length: usize = parts.iter().filter_map(Part::as_text).map(str::len).sum();
    if limit == 0 || length <= limit {
        return (parts, None);
    }
    let whole = text_of(&parts);
    let head = whole.floor_char_boundary(limit / 4);
    let tail = whole.ceil_char_boundary(whole.len() - (limit - limit / 4).min(whole.len()));
    let (head, omitted, tail) = (&whole[..head], tail - head, &whole[tail..]);
    let text = format!("{head}\n[… {omitted} bytes left out …]\n{tail}");
    let others = parts.into_iter().filter(|part| part.as_text().is_none());
    let cut = std::iter::once(Part::Text(text)).chain(others).collect();
    (cut, Some(whole))
}

/// The edit distance of two names.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.chars().count()).collect();
    for (i, a) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in b.chars().enumerate() {
            let changed = diagonal + usize::from(!a.eq_ignore_ascii_case(&b));
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(row[j + 1] + 1);
        }
    }
    row[b.chars().count()]
}
