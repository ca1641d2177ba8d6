//! Marks around parts of a prompt, which what stands between them cannot end.

/// Puts a text between the marks of a part of a prompt.
pub(crate) fn tagged(tag: &str, text: &str) -> String {
    format!("<{tag}>\n{}\n</{tag}>", within(tag, text.trim_matches('\n')))
}

/// Spells the end mark of a part otherwise where it stands in a text, which would end the part there.
pub(crate) fn within(tag: &str, text: &str) -> String {
    let end = format!("</{tag}");
    // Lower case in ASCII leaves every place where it is.
    let lower = text.to_ascii_lowercase();
    let mut safe = String::with_capacity(text.len());
    let mut behind = 0;
    for (at, _) in lower.match_indices(&end) {
        safe.push_str(&text[behind..at]);
        safe.push_str("<\\/");
        behind = at + "</".len();
    }
    safe.push_str(&text[behind..]);
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
