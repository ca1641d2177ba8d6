//! Where two requests differ first.

use serde_json::Value;

/// How much of a text is shown around a difference, in bytes.
const SHOWN: usize = 60;

/// Names the first place at which `asked` is not what was recorded; `None` if there is none.
pub(super) fn first(recorded: &Value, asked: &Value) -> Option<String> {
    find("request", recorded, asked)
}

fn find(path: &str, recorded: &Value, asked: &Value) -> Option<String> {
    match (recorded, asked) {
        (Value::Object(one), Value::Object(other)) => {
            let new = other.keys().filter(|key| !one.contains_key(*key));
            one.keys().chain(new).find_map(|key| {
                let path = format!("{path}.{key}");
                match (one.get(key), other.get(key)) {
                    (Some(one), Some(other)) => find(&path, one, other),
                    (one, other) => Some(say(&path, &show(one), &show(other))),
                }
            })
        }
        (Value::Array(one), Value::Array(other)) => (0..one.len().max(other.len())).find_map(|n| {
            let path = format!("{path}[{n}]");
            match (one.get(n), other.get(n)) {
                (Some(one), Some(other)) => find(&path, one, other),
                (one, other) => Some(say(&path, &show(one), &show(other))),
            }
        }),
        (Value::String(one), Value::String(other)) if one != other => {
            let same = one.bytes().zip(other.bytes()).take_while(|(a, b)| a == b).count();
            let near = |text: &str| {
                let start = text.floor_char_boundary(same.saturating_sub(SHOWN / 3));
                let dots = if start > 0 { "…" } else { "" };
                cut(&format!("{dots}{}", text.get(start..).unwrap_or_default()))
            };
            Some(say(path, &format!("{:?}", near(one)), &format!("{:?}", near(other))))
        }
        (one, other) if one == other => None,
        (one, other) => Some(say(path, &show(Some(one)), &show(Some(other)))),
    }
}

fn say(path: &str, recorded: &str, asked: &str) -> String {
    format!("{path}: recorded {recorded}, asked {asked}")
}

fn show(value: Option<&Value>) -> String {
    value.map_or_else(|| "nothing".to_owned(), |value| cut(&value.to_string()))
}

fn cut(text: &str) -> String {
    let end = text.floor_char_boundary(SHOWN);
    let dots = if end < text.len() { "…" } else { "" };
    format!("{}{dots}", text.get(..end).unwrap_or_default())
}
