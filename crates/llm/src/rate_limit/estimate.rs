//! How many tokens a request has, before anybody has counted them.

use crate::{AssistantPart, Message, Part, Request};

/// How many bytes a token has, about.
const BYTES_PER_TOKEN: u64 = 4;

/// What an image or a document counts as; their bytes say nothing about their tokens.
const MEDIA_TOKENS: u64 = 1_500;

/// What a message takes besides its text.
const MESSAGE_TOKENS: u64 = 4;

/// Returns how many tokens so many bytes of text are.
pub(super) fn tokens(bytes: u64) -> u64 {
    bytes.div_ceil(BYTES_PER_TOKEN)
}

/// Estimates the input of a request.
pub(super) fn input_of(request: &Request) -> u64 {
    let tools = request.tools.specs().iter().map(|tool| {
        text(&tool.name) + text(&tool.description) + text(tool.schema.as_str()) + MESSAGE_TOKENS
    });
    let messages = request.messages.iter().map(|message| of_message(message) + MESSAGE_TOKENS);
    let schema = request.output_schema.as_ref().map_or(0, |schema| text(schema.as_str()));
    text(&request.system) + tools.sum::<u64>() + schema + messages.sum::<u64>()
}

fn of_message(message: &Message) -> u64 {
    match message {
        Message::User(said) => said.content.iter().map(of_part).sum(),
        Message::Assistant(said) => said.content.iter().map(of_assistant_part).sum(),
        Message::Results(results) => {
            results.iter().flat_map(|result| result.content.iter()).map(of_part).sum()
        }
    }
}

fn of_part(part: &Part) -> u64 {
    match part {
        Part::Text(said) => text(said),
        Part::Image(_) | Part::Document(_) => MEDIA_TOKENS,
        Part::Stored(stored) => tokens(stored.bytes),
    }
}

fn of_assistant_part(part: &AssistantPart) -> u64 {
    match part {
        AssistantPart::Text(said) => text(said),
        AssistantPart::Reasoning(reasoning) => text(&reasoning.text),
        AssistantPart::ToolCall(call) => text(&call.name) + text(&call.arguments),
        AssistantPart::Opaque(opaque) => text(opaque.item.as_str()),
    }
}

fn text(text: &str) -> u64 {
    tokens(text.len() as u64)
}
