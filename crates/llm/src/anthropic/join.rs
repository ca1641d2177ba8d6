//! Encoded messages into the body of a request, with the marks of the cache.

use bytes::Bytes;

use crate::Message;

/// What says that the provider should keep its work up to the block that carries it.
pub(super) const MARK: &[u8] = b",\"cache_control\":{\"type\":\"ephemeral\"}";

/// Stands in for what a view has dropped from its start: a conversation must begin with the user.
const OMITTED: &[u8] = b"{\"type\":\"text\",\"text\":\"[The beginning is left out.]\"}";

/// The blocks of one message.
pub(super) struct Turn {
    pub(super) role: Role,
    pub(super) blocks: Bytes,
}

impl Turn {
    fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }
}

/// Whose side a message is on. This wire knows but two, so the results of tools are the user's.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    User,
    Assistant,
}

impl Role {
    pub(super) fn of(message: &Message) -> Self {
        match message {
            Message::User(_) | Message::Results(_) => Self::User,
            Message::Assistant(_) => Self::Assistant,
        }
    }

    fn opening(self) -> &'static [u8] {
        match self {
            Self::User => b"{\"role\":\"user\",\"content\":[",
            Self::Assistant => b"{\"role\":\"assistant\",\"content\":[",
        }
    }
}

/// Appends items or a whole array of them, with the mark in the last item. It must be one that can
/// carry a mark.
pub(super) fn write_marked(out: &mut Vec<u8>, items: &[u8], mark: &[u8]) {
    let closing = if items.ends_with(b"]") { 2 } else { 1 };
    let (open, closing) = items.split_at(items.len().saturating_sub(closing));
    out.extend_from_slice(open);
    out.extend_from_slice(mark);
    out.extend_from_slice(closing);
}

/// Appends the `messages` array with marks where they belong. Messages in a row from one side
/// become one.
pub(super) fn write_messages(out: &mut Vec<u8>, mut turns: Vec<Turn>, mark: &[u8]) {
    let begins = turns.first().is_some_and(|turn| turn.role == Role::User && !turn.is_empty());
    turns.retain(|turn| !turn.is_empty());
    if !begins {
        turns.insert(0, Turn { role: Role::User, blocks: Bytes::from_static(OMITTED) });
    }
    let marks = marks(&turns);
    let around = Role::Assistant.opening().len() + 4;
    let length: usize = turns.iter().map(|turn| turn.blocks.len() + around).sum();
    out.reserve_exact(length + 2 * mark.len() + 8);
    out.push(b'[');
    let mut role = None;
    for (n, turn) in turns.iter().enumerate() {
        if role == Some(turn.role) {
            out.push(b',');
        } else {
            if role.is_some() {
                out.extend_from_slice(b"]},");
            }
            out.extend_from_slice(turn.role.opening());
            role = Some(turn.role);
        }
        let mark = if marks.contains(&Some(n)) { mark } else { b"" };
        write_marked(out, &turn.blocks, mark);
    }
    out.extend_from_slice(b"]}]");
}

/// Chooses which messages end with a mark: the last, and the last before the newest reply, where
/// the previous request ended.
///
/// The provider looks for kept work only some twenty blocks before a mark, and one reply with its
/// results may be longer.
fn marks(turns: &[Turn]) -> [Option<usize>; 2] {
    let of_user = |turns: &[Turn]| turns.iter().rposition(|turn| turn.role == Role::User);
    let reply = turns.iter().rposition(|turn| turn.role == Role::Assistant);
    let before = reply.and_then(|reply| turns.get(..reply)).and_then(of_user);
    [before, of_user(turns)]
}
