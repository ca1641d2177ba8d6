//! Keeping secrets out of a recording.

use crate::{Secret, StreamEvent};

/// What stands in place of a secret.
const MARK: &str = "[secret]";

/// The secrets in every form in which JSON text may hold them.
pub(super) struct Redact {
    plain: Vec<Secret>,
    written: Vec<Secret>,
}

impl Redact {
    pub(super) fn new(secrets: &[Secret]) -> Self {
        let mut plain: Vec<_> =
            secrets.iter().filter(|secret| !secret.expose().is_empty()).cloned().collect();
        // A secret may begin with another one.
        plain.sort_by_key(|secret| std::cmp::Reverse(secret.expose().len()));
        // A string, and a string of a call's arguments, which are JSON within JSON.
        let once = |secret: &Secret| Secret::from(escaped(secret.expose()));
        let all = plain.iter().flat_map(|secret| {
            let (one, two) = (once(secret), once(&once(secret)));
            [two, one, secret.clone()]
        });
        let written = all.collect();
        Self { plain, written }
    }

    /// Takes the secrets out of a line of JSON.
    pub(super) fn line(&self, line: String) -> String {
        replace(&self.written, line)
    }

    /// Joins the pieces of an answer over which a secret is split, so that it can be seen.
    pub(super) fn deltas(&self, events: &mut Vec<StreamEvent>) {
        let mut joined: Vec<StreamEvent> = Vec::with_capacity(events.len());
        let mut rest = std::mem::take(events).into_iter().peekable();
        while let Some(first) = rest.next() {
            let mut run = vec![first];
            while let Some(next) =
                rest.next_if(|next| run.first().is_some_and(|a| continues(a, next)))
            {
                run.push(next);
            }
            let whole: String = run.iter().filter_map(text_of).collect();
            let is_split = self.plain.iter().chain(&self.written).any(|secret| {
                let secret = secret.expose();
                whole.matches(secret).count()
                    > run.iter().filter_map(text_of).map(|text| text.matches(secret).count()).sum()
            });
            if is_split {
                run.truncate(1);
                if let Some(text) = run.first_mut().and_then(text_mut) {
                    *text = whole;
                }
            }
            joined.append(&mut run);
        }
        *events = joined;
    }
}

fn escaped(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    quoted.trim_start_matches('"').strip_suffix('"').unwrap_or(&quoted).to_owned()
}

fn replace(secrets: &[Secret], text: String) -> String {
    secrets.iter().fold(text, |text, secret| match text.contains(secret.expose()) {
        true => text.replace(secret.expose(), MARK),
        false => text,
    })
}

/// Tells whether two pieces belong to the same text.
fn continues(one: &StreamEvent, other: &StreamEvent) -> bool {
    match (one, other) {
        (StreamEvent::TextDelta(_), StreamEvent::TextDelta(_))
        | (StreamEvent::ReasoningDelta(_), StreamEvent::ReasoningDelta(_)) => true,
        (
            StreamEvent::ToolCallDelta { index, .. },
            StreamEvent::ToolCallDelta { index: other, .. },
        ) => index == other,
        _ => false,
    }
}

fn text_of(event: &StreamEvent) -> Option<&str> {
    match event {
        StreamEvent::TextDelta(text) | StreamEvent::ReasoningDelta(text) => Some(text),
        StreamEvent::ToolCallDelta { arguments, .. } => Some(arguments),
        StreamEvent::Waiting { .. } | StreamEvent::Restarted { .. } | StreamEvent::Done(_) => None,
    }
}

fn text_mut(event: &mut StreamEvent) -> Option<&mut String> {
    match event {
        StreamEvent::TextDelta(text) | StreamEvent::ReasoningDelta(text) => Some(text),
        StreamEvent::ToolCallDelta { arguments, .. } => Some(arguments),
        StreamEvent::Waiting { .. } | StreamEvent::Restarted { .. } | StreamEvent::Done(_) => None,
    }
}
