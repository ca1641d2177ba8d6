//! Front matter: what a Markdown file says about itself, in YAML between two lines `---`.

use std::collections::BTreeMap;

use serde_json::Value;

/// A Markdown file in its parts.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Document {
    /// What it says about itself; `None` if it says nothing.
    pub(crate) header: Option<BTreeMap<String, Value>>,
    /// The rest, with `\n` at the end of lines.
    pub(crate) body: String,
    /// Whether it begins like front matter that never ends. All of it is the body then.
    pub(crate) is_unclosed: bool,
}

/// Takes a text apart.
///
/// # Errors
/// What is wrong with the YAML, with the line of the text.
pub(crate) fn read(text: &str) -> Result<Document, String> {
    let cut = cut(text);
    let header = cut.header.as_deref().map(mapping).transpose()?;
    Ok(Document { header, body: cut.body, is_unclosed: cut.is_unclosed })
}

/// A Markdown file cut at its lines `---`, with `\n` at the end of lines.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Cut {
    /// The YAML between them.
    pub(crate) header: Option<String>,
    /// The rest; all of it if there is no closing line.
    pub(crate) body: String,
    /// Whether there is an opening line and no closing one.
    pub(crate) is_unclosed: bool,
    /// The line with which the body begins, from 1.
    pub(crate) line: usize,
}

/// Cuts a text.
pub(crate) fn cut(text: &str) -> Cut {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text).replace("\r\n", "\n");
    let is_unclosed = match opening(&text).map(split) {
        Some(Some((header, body))) => {
            let line = header.matches('\n').count() + 3;
            let (header, body) = (Some(header.to_owned()), body.to_owned());
            return Cut { header, body, is_unclosed: false, line };
        }
        Some(None) => true,
        None => false,
    };
    Cut { header: None, body: text, is_unclosed, line: 1 }
}

/// Returns what follows an opening line.
fn opening(text: &str) -> Option<&str> {
    let (first, rest) = text.split_once('\n').unwrap_or((text, ""));
    (first.trim_end() == "---").then_some(rest)
}

/// Cuts at the closing line, which may be the last one.
fn split(text: &str) -> Option<(&str, &str)> {
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let next = at + line.len();
        if line.trim_end() == "---" {
            return Some((text.get(..at)?, text.get(next..)?));
        }
        at = next;
    }
    None
}

fn mapping(yaml: &str) -> Result<BTreeMap<String, Value>, String> {
    let read: Result<Option<BTreeMap<String, Value>>, _> = serde_saphyr::from_str(yaml);
    read.map(Option::unwrap_or_default).map_err(|error| {
        let error = error.without_snippet();
        // The opening line goes before.
        let line = error.location().map(|at| format!("line {}: ", at.line() + 1));
        let message = error.to_string();
        let message = message.lines().next().unwrap_or_default();
        let what = message.rsplit_once(" at line ").map_or(message, |(what, _)| what);
        format!("{}{what}", line.unwrap_or_default())
    })
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    fn document(header: Option<Value>, body: &str) -> Document {
        let header = header.map(|header| serde_json::from_value(header).unwrap());
        Document { header, body: body.to_owned(), is_unclosed: false }
    }

    #[test]
    fn front_matter_is_what_stands_between_two_lines_of_three_dashes() {
        let pdf = || Some(json!({ "name": "pdf" }));
        let cases = [
            ("", document(None, "")),
            ("text\n---\n", document(None, "text\n---\n")),
            ("---\nname: pdf\n---\n\ntext\n", document(pdf(), "\ntext\n")),
            ("---\r\nname: pdf\r\n---\r\ntext\r\n", document(pdf(), "text\n")),
            ("\u{feff}--- \nname: pdf\n---", document(pdf(), "")),
            ("---\nname: pdf\n---\n", document(pdf(), "")),
            ("---\n---\ntext", document(Some(json!({})), "text")),
            ("---\nname: a---b\n---\n---\n", document(Some(json!({ "name": "a---b" })), "---\n")),
        ];
        for (text, expected) in cases {
            assert_eq!(read(text), Ok(expected), "{text:?}");
        }
    }

    #[test]
    fn without_a_closing_line_all_of_it_is_the_body() {
        for text in ["---", "---\n", "---\nname: pdf\n", "---\nname: pdf\n----\ntext"] {
            let expected = Document { is_unclosed: true, ..document(None, text) };
            assert_eq!(read(text), Ok(expected), "{text:?}");
        }
    }

    #[test]
    fn bad_yaml_is_told_with_its_line() {
        for (text, start) in [
            ("---\nname: pdf\ndescription: Use when: asked\n---\n", "line 3: "),
            ("---\n- name\n---\n", "line 2: "),
            ("---\nname: a\nname: b\n---\n", "line 3: "),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.starts_with(start) && !error.contains('\n'), "{error}");
        }
    }
}
