//! Texts with places for the arguments of a call: `{name}`.

use serde_json::{Map, Value};

/// The place in which all arguments stand, as one JSON object.
const ALL: &str = "arguments";

/// A text with places for arguments.
///
/// A place is an argument's name in braces, and nothing else in braces is one, so that JSON and
/// scripts need no escapes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Template {
    pieces: Vec<Piece>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Text(String),
    Argument(String),
}

impl Template {
    /// Reads a template for a tool whose arguments have these names. `{arguments}` is all of them,
    /// unless one has that name.
    ///
    /// # Errors
    /// A name in braces that is no argument.
    pub fn parse(text: &str, names: &[&str]) -> Result<Self, String> {
        let mut pieces = Vec::new();
        let mut text_so_far = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('{') {
            text_so_far.push_str(before);
            let name = after.split_once('}').filter(|(name, _)| is_name(name));
            let Some((name, behind)) = name else {
                text_so_far.push('{');
                rest = after;
                continue;
            };
            if !names.contains(&name) && name != ALL {
                let known = names.join(", ");
                return Err(format!("{{{name}}} is no argument of the tool; it has: {known}"));
            }
            pieces.push(Piece::Text(std::mem::take(&mut text_so_far)));
            pieces.push(Piece::Argument(name.to_owned()));
            rest = behind;
        }
        text_so_far.push_str(rest);
        pieces.push(Piece::Text(text_so_far));
        pieces.retain(|piece| !matches!(piece, Piece::Text(text) if text.is_empty()));
        Ok(Self { pieces })
    }

    /// Puts arguments in their places, each written by `write`; one that is missing is null.
    pub fn fill(&self, arguments: &Map<String, Value>, write: impl Fn(&Value) -> String) -> String {
        let pieces = self.pieces.iter().map(|piece| match piece {
            Piece::Text(text) => text.clone(),
            Piece::Argument(name) => match arguments.get(name) {
                Some(value) => write(value),
                None if name == ALL => write(&Value::Object(arguments.clone())),
                None => write(&Value::Null),
            },
        });
        pieces.collect()
    }

    /// Returns the names of the arguments that have a place.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Argument(name) => Some(name.as_str()),
            Piece::Text(_) => None,
        })
    }

    /// Returns the argument with whose value the text begins.
    pub(crate) fn first(&self) -> Option<&str> {
        match self.pieces.first() {
            Some(Piece::Argument(name)) => Some(name),
            Some(Piece::Text(_)) | None => None,
        }
    }
}

fn is_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Writes a value as the text it is: a string without quotes, nothing for null, the rest as JSON.
pub fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// Writes a value as part of a URL: what could mean something there is encoded.
pub(crate) fn in_url(value: &Value) -> String {
    use std::fmt::Write as _;

    plain(value).bytes().fold(String::new(), |mut text, byte| {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                text.push(char::from(byte));
            }
            // Writing to a string cannot fail.
            _ => drop(write!(text, "%{byte:02X}")),
        }
        text
    })
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    fn filled(text: &str, write: fn(&Value) -> String) -> String {
        let arguments = json!({ "q": "a b/c?d=é\"", "n": 3, "l": [1, "x"] });
        let template = Template::parse(text, &["q", "n", "l", "o"]).unwrap();
        template.fill(arguments.as_object().unwrap(), write)
    }

    #[test]
    fn arguments_are_written_as_their_place_needs_them() {
        assert_eq!(
            filled("/s/{q}/{n}?x={l}&o={o}", in_url),
            "/s/a%20b%2Fc%3Fd%3D%C3%A9%22/3?x=%5B1%2C%22x%22%5D&o="
        );
        let json = filled(r#"{"q": {q}, "in": {"n": {n}}, "o": {o}}"#, Value::to_string);
        assert_eq!(json, r#"{"q": "a b/c?d=é\"", "in": {"n": 3}, "o": null}"#);
        assert_eq!(filled("{n}{q} {} { x } {print $1}", plain), "3a b/c?d=é\" {} { x } {print $1}");
        assert_eq!(
            filled("{arguments}", Value::to_string),
            r#"{"l":[1,"x"],"n":3,"q":"a b/c?d=é\""}"#
        );
        let wrong = Template::parse("{m}", &["n"]).unwrap_err();
        assert_eq!(wrong, "{m} is no argument of the tool; it has: n");
    }
}
