//! The gate of the permission modes, and what commands would run.

pub mod shell;

use async_trait::async_trait;

use bowline_agent::gate::{Gate, Review, Verdict};
use bowline_agent::op::Decision;

use crate::config::Mode;

/// Decides by the mode alone; rules come before it when there are rules.
#[derive(Debug, Clone, Copy)]
pub struct ModeGate(pub Mode);

#[async_trait]
impl Gate for ModeGate {
    async fn review(&self, call: &Review<'_>) -> Verdict {
        if matches!(call.decision, Some(Decision::Allow { .. })) {
            return Verdict::Allow { rule: Some("a person allowed it".to_owned()) };
        }
        let access = call.access;
        let only_edits = access.execute.is_none() && access.network.is_empty();
        let is_allowed = match self.0 {
            Mode::Auto | Mode::Bypass => true,
            Mode::AcceptEdits => only_edits,
            Mode::Ask | Mode::Plan | Mode::Deny => access.is_read_only(),
        };
        if is_allowed {
            return Verdict::Allow { rule: None };
        }
        match self.0 {
            Mode::Ask | Mode::AcceptEdits => Verdict::Wait { question: question(call), rule: None },
            Mode::Plan => Verdict::Deny {
                reason: "the permission mode is plan: look, do not change anything".to_owned(),
            },
            Mode::Deny | Mode::Auto | Mode::Bypass => Verdict::Deny {
                reason: "the permission mode is deny: only reading is allowed".to_owned(),
            },
        }
    }
}

fn question(call: &Review<'_>) -> String {
    let access = call.access;
    if let Some(command) = &access.execute {
        return format!("run `{command}`?");
    }
    let paths: Vec<_> =
        access.writes.paths().iter().map(|path| path.display().to_string()).collect();
    if !paths.is_empty() {
        return format!("{} {}?", call.call.name, paths.join(", "));
    }
    if !access.network.is_empty() {
        return format!("{}: connect to {}?", call.call.name, access.network.join(", "));
    }
    format!("call {} {}?", call.call.name, call.call.arguments)
}
