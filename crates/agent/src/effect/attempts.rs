//! How often a model was asked for a summary, and how that went.

use crate::entry::{Act, Acted, Entry, EntryKind};
use crate::op::{Op, OpKind};
use crate::orchestrator::Purpose;

use super::{Step, share_of};

/// The share of the window by which a conversation must have grown until what failed is tried again.
const GROWTH: f64 = 0.05;

/// How often an effect has asked a model for a summary, and how that went: a fold of the log.
#[derive(Debug, Clone, Default)]
pub(super) struct Attempts {
    /// How often it has asked since the latest reply.
    pub(super) asked: u32,
    /// What the summary should not leave out that somebody asked for last.
    pub(super) focus: Option<String>,
    /// Whether it has asked because somebody wants it.
    pub(super) is_demanded: bool,
    // How long the conversation was when it asked and got no summary.
    gave_up: Option<u64>,
}

impl Attempts {
    /// Takes in an entry.
    pub(super) fn fold(&mut self, entry: &Entry) {
        match &entry.kind {
            EntryKind::RunStarted(_) => self.begin_turn(),
            EntryKind::Assistant(said) if said.purpose != Purpose::Compact => self.begin_turn(),
            EntryKind::Posted(Op { kind: OpKind::Compact { focus }, .. }) => {
                self.focus.clone_from(focus);
            }
            _ => {}
        }
    }

    /// Takes in what the effect did whose memory this is.
    pub(super) fn acted(&mut self, acted: &Acted) {
        match &acted.act {
            Act::Ask { tokens } => {
                self.asked += 1;
                self.is_demanded |= acted.op.is_some();
                // Until it is known better.
                self.gave_up = Some(*tokens);
            }
            // Without a summary it only made the best of having none.
            Act::Rewrite(rewrite) if rewrite.summary.is_some() => {
                self.gave_up = None;
                self.focus = None;
            }
            Act::Rewrite(_)
            | Act::Say { .. }
            | Act::Note(_)
            | Act::Warn { .. }
            | Act::Stop { .. }
            | Act::Fail(_) => {}
        }
    }

    fn begin_turn(&mut self) {
        self.asked = 0;
        self.is_demanded = false;
    }

    /// Tells whether it has failed and the conversation has hardly grown since: another attempt
    /// would cost as much and come to the same.
    pub(super) fn is_hopeless(&self, step: &Step, window: Option<u64>) -> bool {
        let room = share_of(window.unwrap_or(0), GROWTH);
        self.gave_up.is_some_and(|at| step.tokens() < at.saturating_add(room))
    }
}
