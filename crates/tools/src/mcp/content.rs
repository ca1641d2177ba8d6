//! What a server hands back, as a model can take it.

use rmcp::model::{CallToolResult, ContentBlock, ErrorData, Resource, ResourceContents};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use bowline_llm::{Media, Part};

use crate::read::{MAX_IMAGE, image_type};

/// Returns a result as parts; what no model takes is told in words.
pub(super) fn parts(result: CallToolResult) -> Vec<Part> {
    let mut parts = Vec::new();
    for block in result.content {
        match block {
            ContentBlock::Text(text) => add_text(&mut parts, &text.text),
            ContentBlock::Image(image) => add_media(&mut parts, &image.mime_type, image.data, None),
            ContentBlock::Audio(audio) => {
                let bytes = bytes_of(&audio.data);
                let kind = audio.mime_type;
                add_text(
                    &mut parts,
                    &format!("[audio, {kind}, {bytes} bytes: it cannot be heard here]"),
                );
            }
            ContentBlock::Resource(embedded) => add_resource(&mut parts, embedded.resource),
            ContentBlock::ResourceLink(resource) => {
                add_text(&mut parts, &format!("[resource {}]", line_of(&resource)));
            }
            _ => add_text(&mut parts, "[something of a kind that is not known here]"),
        }
    }
    if let Some(structured) = result.structured_content
        && !says(&parts, &structured)
    {
        add_text(&mut parts, &structured.to_string());
    }
    if parts.is_empty() {
        add_text(&mut parts, "(no output)");
    }
    parts
}

/// Adds the contents of a resource.
pub(super) fn add_resource(parts: &mut Vec<Part>, resource: ResourceContents) {
    match resource {
        ResourceContents::TextResourceContents { uri, text, .. } => {
            add_text(parts, &format!("[{uri}]\n{text}"));
        }
        ResourceContents::BlobResourceContents { uri, mime_type, blob, .. } => {
            let kind = mime_type.unwrap_or_else(|| "application/octet-stream".to_owned());
            add_media(parts, &kind, blob, Some(uri));
        }
        _ => add_text(parts, "[a resource of a kind that is not known here]"),
    }
}

/// Returns what is known of a resource, in one line.
pub(super) fn line_of(resource: &Resource) -> String {
    let mut line = resource.uri.clone();
    let title = resource.title.as_deref().unwrap_or(&resource.name);
    if title != resource.uri {
        line.push_str(&format!(" {title}"));
    }
    if let Some(kind) = &resource.mime_type {
        line.push_str(&format!(" ({kind})"));
    }
    if let Some(description) = &resource.description {
        line.push_str(&format!(": {}", first_line(description)));
    }
    line
}

/// Returns the first line of a text.
pub(super) fn first_line(text: &str) -> &str {
    text.trim().lines().next().unwrap_or_default()
}

/// Says what an error of the protocol says.
pub(super) fn protocol_error(error: &ErrorData) -> String {
    let data = error.data.as_ref().map_or_else(String::new, |data| format!(" {data}"));
    format!("{} (error {}){data}", error.message, error.code.0)
}

/// Returns parts as text, with words for what is none.
pub(super) fn as_text(parts: &[Part]) -> String {
    let said = |part: &Part| match part {
        Part::Text(text) => text.clone(),
        Part::Image(media) | Part::Document(media) => format!("[{}]", media.media_type),
        Part::Stored(_) => String::new(),
    };
    parts.iter().map(said).collect::<Vec<_>>().join("\n")
}

/// Adds a text; texts in a row become one, a line each.
fn add_text(parts: &mut Vec<Part>, text: &str) {
    match parts.last_mut() {
        Some(Part::Text(last)) => {
            last.push('\n');
            last.push_str(text);
        }
        _ => parts.push(Part::Text(text.to_owned())),
    }
}

fn add_media(parts: &mut Vec<Part>, media_type: &str, data: String, name: Option<String>) {
    let bytes = bytes_of(&data);
    let why_not = match media_type.starts_with("image/") {
        // It would be refused with the whole request, in this turn and in all that follow.
        true if bytes > MAX_IMAGE => format!("more than an image may have ({MAX_IMAGE})"),
        true => match STANDARD.decode(&data).map(|content| image_type(&content)) {
            // What it is counts, not what it is said to be.
            Ok(Some(kind)) => {
                let image = Media { media_type: kind.to_owned(), data: data.into(), name };
                parts.push(Part::Image(image));
                return;
            }
            Ok(None) => "it is no image that can be shown here".to_owned(),
            Err(_) => "it is not base64".to_owned(),
        },
        false => "it cannot be shown here".to_owned(),
    };
    let name = name.map_or_else(String::new, |name| format!("{name}, "));
    add_text(parts, &format!("[{name}{media_type}, {bytes} bytes: {why_not}]"));
}

/// Returns how many bytes a base64 text stands for.
fn bytes_of(base64: &str) -> usize {
    base64.trim_end_matches('=').len() * 3 / 4
}

/// Tells whether a text says the same as a value, as servers are asked to repeat it.
fn says(parts: &[Part], value: &serde_json::Value) -> bool {
    let reads = |text: &str| serde_json::from_str::<serde_json::Value>(text).ok();
    parts.iter().filter_map(Part::as_text).any(|text| reads(text).as_ref() == Some(value))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::{Value, json};

    use super::*;

    fn parts_of(content: &Value, structured: Option<Value>) -> Vec<Part> {
        let mut result = json!({ "content": content });
        if let Some(structured) = structured {
            result["structuredContent"] = structured;
        }
        parts(serde_json::from_value(result).unwrap())
    }

    #[test]
    fn images_stay_images_and_the_rest_is_told_in_words() {
        let content = json!([
            { "type": "text", "text": "one" },
            { "type": "text", "text": "two" },
            { "type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png" },
            { "type": "image", "data": "AAAA", "mimeType": "image/tiff" },
            { "type": "audio", "data": "AAA=", "mimeType": "audio/wav" },
            { "type": "resource_link", "uri": "file:///a", "name": "a", "mimeType": "text/x" },
            { "type": "resource", "resource": { "uri": "file:///b", "text": "inside" } },
        ]);
        let image =
            Media { media_type: "image/png".to_owned(), data: "iVBORw0KGgo=".into(), name: None };
        let words = "[image/tiff, 3 bytes: it is no image that can be shown here]\n\
            [audio, audio/wav, 2 bytes: it cannot be heard here]\n\
            [resource file:///a a (text/x)]\n[file:///b]\ninside";
        assert_eq!(
            parts_of(&content, None),
            [Part::Text("one\ntwo".into()), Part::Image(image), Part::Text(words.into())]
        );
    }

    #[test]
    fn an_image_that_a_provider_would_refuse_is_told_in_words() {
        let image =
            |data: &str| json!([{ "type": "image", "data": data, "mimeType": "image/png" }]);
        for (data, words) in [
            ("no base64!", "[image/png, 7 bytes: it is not base64]".to_owned()),
            ("", "[image/png, 0 bytes: it is no image that can be shown here]".to_owned()),
            (
                &"A".repeat(6_000_000),
                format!("[image/png, 4500000 bytes: more than an image may have ({MAX_IMAGE})]"),
            ),
        ] {
            assert_eq!(parts_of(&image(data), None), [Part::Text(words)]);
        }
        let [Part::Image(shown)] = &parts_of(&image("/9j/"), None)[..] else { panic!() };
        assert_eq!(shown.media_type, "image/jpeg");
    }

    #[test]
    fn structured_content_is_said_once() {
        let said = json!([{ "type": "text", "text": "{ \"n\": 1 }" }]);
        let once = [Part::Text("{ \"n\": 1 }".into())];
        assert_eq!(parts_of(&said, Some(json!({ "n": 1 }))), once);
        assert_eq!(parts_of(&json!([]), Some(json!({ "n": 1 }))), [Part::Text("{\"n\":1}".into())]);
        assert_eq!(parts_of(&json!([]), None), [Part::Text("(no output)".into())]);
    }
}
