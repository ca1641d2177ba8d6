//! Encoded messages into the body of a request, with the marks of the cache.

use bytes::Bytes;

use crate::Message;

/// What says that the provider should keep its work up to the block that carries it.
const MARK: &[u8] = b",\"cache_control\":{\"type\":\"ephemeral\"}";

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

/// Appends the `tools` array, with a mark on its last item.
pub(super) fn write_tools(out: &mut Vec<u8>, tools: &[u8], is_marked: bool) {
    match tools.strip_suffix(b"]") {
        Some(items) if is_marked => {
            write_block(out, items, true);
            out.push(b']');
        }
        _ => out.extend_from_slice(tools),
    }
}

/// Appends blocks, the last of them with a mark. It must be one that can carry a mark.
pub(super) fn write_block(out: &mut Vec<u8>, blocks: &[u8], is_marked: bool) {
    match blocks.strip_suffix(b"}") {
        Some(open) if is_marked => {
            out.extend_from_slice(open);
            out.extend_from_slice(MARK);
            out.push(b'}');
        }
        _ => out.extend_from_slice(blocks),
    }
}

/// Appends the `messages` array. Messages in a row from one side become one.
pub(super) fn write_messages(out: &mut Vec<u8>, mut turns: Vec<Turn>, is_marked: bool) {
    let begins = turns.first().is_some_and(|turn| turn.role == Role::User && !turn.is_empty());
    turns.retain(|turn| !turn.is_empty());
    if !begins {
        turns.insert(0, Turn { role: Role::User, blocks: Bytes::from_static(OMITTED) });
    }
    let marks = if is_marked { marks(&turns) } else { [None; 2] };
    let around = Role::Assistant.opening().len() + 4;
    let length: usize = turns.iter().map(|turn| turn.blocks.len() + around).sum();
    out.reserve_exact(length + 2 * MARK.len() + 8);
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
        write_block(out, &turn.blocks, marks.contains(&Some(n)));
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
