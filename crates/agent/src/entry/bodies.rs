//! Which large bodies an entry refers to.

use bowline_llm::{Part, Stored, UserMessage};

use super::{Act, EntryKind, Rewrite};

impl EntryKind {
    /// Returns the hashes of the large bodies that it refers to: whoever copies the entry copies
    /// them, and while it is there they are kept.
    pub fn bodies(&self) -> Vec<&str> {
        match self {
            Self::User(said) => in_message(&said.message).collect(),
            Self::Posted(op) => {
                op.kind.input().into_iter().flat_map(|input| in_message(&input.0)).collect()
            }
            Self::CallEnded(ended) => {
                in_parts(&ended.content).chain(ended.full.iter().map(hash_of)).collect()
            }
            Self::LimitHit(hit) => {
                hit.wrap_up.iter().flat_map(|message| in_message(message)).collect()
            }
            Self::BackgroundEnded(ended) => {
                ended.message.iter().flat_map(|message| in_message(message)).collect()
            }
            Self::Effect(acted) => in_act(&acted.act),
            Self::Created(_)
            | Self::RunStarted(_)
            | Self::Assistant(_)
            | Self::CallStarted(_)
            | Self::CallWaiting(_)
            | Self::Decided(_)
            | Self::Answered(_)
            | Self::Woken(_)
            | Self::ExternalUsage(_)
            | Self::Canceled(_)
            | Self::RunEnded(_)
            | Self::SystemChanged(_)
            | Self::ToolsChanged(_)
            | Self::Head(_)
            | Self::Custom(_)
            | Self::Planned(_)
            | Self::StepTaken(_)
            | Self::Unknown { .. } => Vec::new(),
        }
    }
}

fn in_act(act: &Act) -> Vec<&str> {
    match act {
        Act::Say { message } => in_message(message).collect(),
        Act::Rewrite(Rewrite { summary, results, .. }) => {
            let shown = results.iter().flat_map(|shown| in_parts(&shown.content));
            let summary = summary.iter().flat_map(|summary| in_message(&summary.message));
            shown.chain(summary).collect()
        }
        Act::Ask { .. } | Act::Note(_) | Act::Warn { .. } | Act::Stop { .. } | Act::Fail(_) => {
            Vec::new()
        }
    }
}

fn in_message(message: &UserMessage) -> impl Iterator<Item = &str> {
    in_parts(&message.content)
}

fn in_parts(parts: &[Part]) -> impl Iterator<Item = &str> {
    parts.iter().filter_map(|part| match part {
        Part::Stored(stored) => Some(hash_of(stored)),
        Part::Text(_) | Part::Image(_) | Part::Document(_) => None,
    })
}

fn hash_of(stored: &Stored) -> &str {
    &stored.hash
}
