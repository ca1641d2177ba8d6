//! Which part of an answer is shown.

use bowline_agent::tool::ToolError;
use serde_json::{Map, Value};

/// A way into JSON: `results[0].name`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Path(Vec<Step>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Key(String),
    Index(usize),
}

impl Path {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is no way into an answer; write it like results[0].name");
        let mut steps = Vec::new();
        for part in text.split('.').filter(|_| !text.is_empty()) {
            let (key, indices) = part.split_at(part.find('[').unwrap_or(part.len()));
            let is_closed = indices.is_empty() || indices.ends_with(']');
            if !is_closed || (key.is_empty() && indices.is_empty()) {
                return Err(wrong());
            }
            steps.extend((!key.is_empty()).then(|| Step::Key(key.to_owned())));
            for index in indices.split_terminator(']') {
                let index = index.strip_prefix('[').and_then(|index| index.parse().ok());
                steps.push(Step::Index(index.ok_or_else(wrong)?));
            }
        }
        Ok(Self(steps))
    }

    fn follow<'a>(&self, value: &'a Value) -> Option<&'a Value> {
        self.0.iter().try_fold(value, |value, step| match step {
            Step::Key(key) => value.get(key),
            Step::Index(index) => value.get(index),
        })
    }
}

/// Returns what is wanted of an answer: all of it as it came, if nothing else is said.
pub(super) fn pick(text: String, path: &Path, map: &[(String, Path)]) -> Result<String, ToolError> {
    if path.0.is_empty() && map.is_empty() {
        return Ok(text);
    }
    let answer: Value = serde_json::from_str(&text)
        .map_err(|error| ToolError::Failed(format!("the answer is no JSON: {error}\n{text}")))?;
    let Some(part) = path.follow(&answer) else {
        return Err(ToolError::Failed(format!(
            "the answer has not what is expected of it: {text}"
        )));
    };
    if map.is_empty() {
        return Ok(crate::template::plain(part));
    }
    let value = |way: &Path| way.follow(part).cloned().unwrap_or_default();
    let picked: Map<String, Value> =
        map.iter().map(|(name, way)| (name.clone(), value(way))).collect();
    Ok(Value::Object(picked).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_an_answer_are_found() {
        let answer = r#"{"results":[{"name":"a","n":[[1,2]]}],"ok":true}"#;
        let pick = |path: &str, map: &[(&str, &str)]| {
            let map: Vec<_> =
                map.iter().map(|(n, p)| ((*n).to_owned(), Path::parse(p).unwrap())).collect();
            pick(answer.to_owned(), &Path::parse(path).unwrap(), &map)
        };
        assert_eq!(pick("", &[]).unwrap(), answer);
        assert_eq!(pick("results[0].name", &[]).unwrap(), "a");
        assert_eq!(pick("results[0].n[0][1]", &[]).unwrap(), "2");
        let picked = pick("results[0]", &[("who", "name"), ("none", "x.y")]).unwrap();
        assert_eq!(picked, r#"{"none":null,"who":"a"}"#);
        assert!(pick("results[1]", &[]).is_err());
        for wrong in ["a..b", "a[x]", "a[0", "a[0]b", "."] {
            assert!(Path::parse(wrong).is_err(), "{wrong}");
        }
    }
}
