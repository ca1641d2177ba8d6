//! What is said, as far as it is recorded: nothing, the beginning of it, or all.

use serde_json::{Value as Json, json};

use bowline_agent::Redaction;
use bowline_llm::{Media, Message, Part, ToolResult, text_of};

use crate::config::TraceContent;

/// How many bytes of content an attribute may hold if it is trimmed.
const TRIMMED: usize = 4096;

/// How much of what is said is recorded, and what never is.
#[derive(Debug, Clone)]
pub(super) struct Content {
    much: TraceContent,
    redaction: Redaction,
}

impl Content {
    pub(super) fn new(much: TraceContent, redaction: Redaction) -> Self {
        Self { much, redaction }
    }

    /// Tells whether anything is recorded.
    pub(super) fn is_on(&self) -> bool {
        self.much != TraceContent::Off
    }

    /// Returns a text that is told even if no content is: what went wrong.
    pub(super) fn clean(&self, text: &str) -> String {
        self.redaction.apply(text).into_owned()
    }

    /// Returns a text that is an attribute of its own.
    pub(super) fn text(&self, text: &str) -> String {
        self.within(&mut self.room(), text)
    }

    /// Returns messages as the conventions write them.
    pub(super) fn messages(&self, messages: &[Json]) -> String {
        let mut room = self.room();
        let messages = messages.iter().map(|message| self.frame(&mut room, message)).collect();
        Json::Array(messages).to_string()
    }

    fn room(&self) -> usize {
        match self.much {
            TraceContent::Off => 0,
            TraceContent::Trimmed => TRIMMED,
            TraceContent::Full => usize::MAX,
        }
    }

    /// Returns as much of a text as there is room for. Secrets are masked first: half of one would
    /// not be known any more.
    fn within(&self, room: &mut usize, text: &str) -> String {
        let clean = self.redaction.apply(text);
        let end = clean.floor_char_boundary(*room);
        *room -= end;
        clean.get(..end).unwrap_or_default().to_owned()
    }

    /// Returns a message or a part of one, in which the words of the conventions take no room.
    fn frame(&self, room: &mut usize, json: &Json) -> Json {
        let Json::Object(fields) = json else { return self.fit(room, json) };
        let fit = |(name, value): (&String, &Json)| {
            let value = match (name.as_str(), value) {
                ("parts", Json::Array(parts)) => {
                    parts.iter().map(|part| self.frame(room, part)).collect()
                }
                ("content" | "arguments" | "response", _) => self.fit(room, value),
                _ => self.fit(&mut { usize::MAX }, value),
            };
            (name.clone(), value)
        };
        Json::Object(fields.iter().map(fit).collect())
    }

    /// Returns JSON with its texts cut to the room there is, so that it stays JSON.
    fn fit(&self, room: &mut usize, json: &Json) -> Json {
        match json {
            Json::String(text) => Json::String(self.within(room, text)),
            Json::Array(all) => all.iter().map(|json| self.fit(room, json)).collect(),
            Json::Object(fields) => {
                let fit = |(name, value): (&String, &Json)| (name.clone(), self.fit(room, value));
                Json::Object(fields.iter().map(fit).collect())
            }
            Json::Null | Json::Bool(_) | Json::Number(_) => json.clone(),
        }
    }
}

/// Returns a message that is sent to a model; `None` if the model said it itself.
pub(super) fn sent(message: &Message) -> Option<Json> {
    match message {
        Message::User(said) => Some(json!({
            "role": "user", "parts": said.content.iter().map(part).collect::<Vec<_>>(),
        })),
        Message::Results(results) => Some(json!({
            "role": "tool", "parts": results.iter().map(result).collect::<Vec<_>>(),
        })),
        Message::Assistant(_) => None,
    }
}

/// Returns a message that a model said.
pub(super) fn said(parts: &[Json], finish: &str) -> Json {
    json!({ "role": "assistant", "parts": parts, "finish_reason": finish })
}

/// Returns a text as part of a message.
pub(super) fn text(text: &str) -> Json {
    json!({ "type": "text", "content": text })
}

/// Returns what a model thought as part of a message.
pub(super) fn reasoning(text: &str) -> Json {
    json!({ "type": "reasoning", "content": text })
}

/// Returns a call as part of a message.
pub(super) fn call(id: &str, name: &str, arguments: &str) -> Json {
    // What is no JSON is shown as the model wrote it.
    let arguments = serde_json::from_str(arguments).unwrap_or_else(|_| json!(arguments));
    json!({ "type": "tool_call", "id": id, "name": name, "arguments": arguments })
}

fn result(result: &ToolResult) -> Json {
    let response = text_of(&result.content);
    json!({ "type": "tool_call_response", "id": result.call.as_str(), "response": response })
}

fn part(part: &Part) -> Json {
    let media = |media: &Media| json!({ "type": "blob", "mime_type": media.media_type });
    match part {
        Part::Text(said) => text(said),
        Part::Image(image) => media(image),
        Part::Document(document) => media(document),
        Part::Stored(_) => json!({ "type": "blob" }),
    }
}

#[cfg(test)]
mod tests {
    use bowline_llm::Secret;

    use super::*;

    fn content(much: TraceContent) -> Content {
        let secret = ("KEY".to_owned(), Secret::from("sk-12345678"));
        Content::new(much, Redaction::new([secret]))
    }

    #[test]
    fn trimmed_messages_stay_json_and_keep_their_roles() {
        let messages = [
            sent(&Message::user("ä".repeat(3000))).unwrap(),
            said(&[call("c1", "bash", r#"{"command":"ls"}"#)], "tool_use"),
        ];
        let trimmed = content(TraceContent::Trimmed).messages(&messages);
        let trimmed: Json = serde_json::from_str(&trimmed).unwrap();
        assert_eq!(trimmed[0]["parts"][0]["content"], "ä".repeat(2048));
        assert_eq!(
            trimmed[1]["parts"][0],
            json!({ "type": "tool_call", "id": "c1", "name": "bash", "arguments": { "command": "" } })
        );
        let full: Json =
            serde_json::from_str(&content(TraceContent::Full).messages(&messages)).unwrap();
        assert_eq!(full, json!(messages));
    }

    #[test]
    fn a_secret_is_masked_before_it_could_be_cut() {
        let text = format!("{}sk-12345678", "x".repeat(TRIMMED - 4));
        let trimmed = content(TraceContent::Trimmed).text(&text);
        assert_eq!(trimmed, format!("{}[sec", "x".repeat(TRIMMED - 4)));
        assert_eq!(content(TraceContent::Full).text("a sk-12345678"), "a [secret KEY]");
        let said = [said(&[call("c1", "bash", r#"{"name":"sk-12345678"}"#)], "tool_use")];
        assert!(content(TraceContent::Full).messages(&said).contains(r#""name":"[secret KEY]""#));
        assert_eq!(content(TraceContent::Off).clean("a sk-12345678"), "a [secret KEY]");
    }
}
