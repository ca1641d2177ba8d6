//! What an agent did, in a few lines for the model that delegated to it.

use std::collections::HashMap;

use bowline_llm::{CallId, text_of};

use crate::entry::{CallStatus, Entry, EntryKind};

use super::text::line;

/// How long a trace may be, in bytes.
const LONGEST: usize = 2048;

/// Returns what an agent did: its calls, and what went wrong with them. Of a long story the end is
/// told.
pub(super) fn trace(log: &[Entry]) -> Option<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut places: HashMap<&CallId, usize> = HashMap::new();
    for entry in log {
        match &entry.kind {
            EntryKind::Assistant(said) => {
                for call in said.message.tool_calls() {
                    places.insert(&call.id, lines.len());
                    lines.push(format!("{} {}", call.name, line(&call.arguments, 100)));
                }
            }
            EntryKind::CallEnded(ended) if ended.status != CallStatus::Ok => {
                let what = line(&text_of(&ended.content), 160);
                if let Some(told) = places.get(&ended.call).and_then(|place| lines.get_mut(*place))
                {
                    *told = format!("{told} -> {}: {what}", ended.status.as_str());
                }
            }
            EntryKind::LimitHit(hit) => lines.push(format!("limit {}", hit.limit.as_str())),
            _ => {}
        }
    }
    let mut left = LONGEST - 40;
    let shown = lines.iter().rev().take_while(|line| {
        let fits = line.len() < left;
        left = left.saturating_sub(line.len() + 1);
        fits
    });
    let from = lines.len() - shown.count();
    let mut told = match from {
        0 => Vec::new(),
        omitted => vec![format!("[{omitted} earlier steps]")],
    };
    told.extend(lines.drain(from..));
    (!told.is_empty()).then(|| told.join("\n"))
}
