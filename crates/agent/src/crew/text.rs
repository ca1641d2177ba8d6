//! Texts that must not be too long.

/// Returns the first characters of a text, and how many are left out.
pub(super) fn cut(text: &str, max: usize) -> (String, usize) {
    match text.char_indices().nth(max) {
        None => (text.to_owned(), 0),
        Some((end, _)) => (text[..end].to_owned(), text[end..].chars().count()),
    }
}

/// Returns the beginning of a text in one line.
pub(super) fn line(text: &str, max: usize) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let (shown, left) = cut(&text, max);
    if left == 0 { shown } else { format!("{shown}…") }
}
