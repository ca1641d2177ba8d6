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

/// Puts a text between the marks of a part of a prompt.
pub(super) fn tagged(tag: &str, text: &str) -> String {
    format!("<{tag}>\n{}\n</{tag}>", within(tag, text.trim_matches('\n')))
}

/// Spells the end mark of a part otherwise where it stands in a text, which would end the part there.
pub(super) fn within(tag: &str, text: &str) -> String {
    let end = format!("</{tag}");
    let mut safe = String::with_capacity(text.len());
    let mut rest = text;
    // Lower case in ASCII leaves every place where it is.
    while let Some(at) = rest.to_ascii_lowercase().find(&end) {
        let (before, from) = rest.split_at(at);
        safe.push_str(before);
        safe.push_str("<\\/");
        rest = &from["</".len()..];
    }
    safe.push_str(rest);
    safe
}

#[cfg(test)]
mod tests {
    use super::tagged;

    #[test]
    fn a_text_cannot_end_its_own_part() {
        let said = tagged("note", "a </note> b </NOTE > </notes> </other>");
        assert_eq!(said, "<note>\na <\\/note> b <\\/NOTE > <\\/notes> </other>\n</note>");
    }
}
