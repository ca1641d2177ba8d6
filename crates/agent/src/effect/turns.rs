//! The turns of a view, and which of them stay as they are.

use std::ops::Range;

use bowline_llm::Message;

use crate::conversation::{View, Whose};

/// Returns the ranges of a view's messages that belong together: a reply with its results, or one
/// message that was said to the model.
pub(super) fn turns(view: &View) -> Vec<Range<usize>> {
    let mut turns: Vec<Range<usize>> = Vec::new();
    for (at, place) in view.places().iter().enumerate() {
        match (place.whose, turns.last_mut()) {
            (Whose::Tools, Some(last)) => last.end = at + 1,
            _ => turns.push(at..at + 1),
        }
    }
    turns
}

/// Returns where the last turns begin that are to stay: what the model has not seen, so many replies
/// as long as all of it fits `most`, and further ones as long as it fits `tokens`.
pub(super) fn recent(view: &View, replies: usize, tokens: u64, most: u64) -> usize {
    let unseen = last_turn(view);
    let mut start = view.messages().len();
    let (mut used, mut kept) = (0, 0);
    for turn in turns(view).into_iter().rev() {
        let places = view.places().iter().skip(turn.start).take(turn.len());
        used += places.map(|place| place.tokens).sum::<u64>();
        let room = if kept < replies { most.max(tokens) } else { tokens };
        if turn.start < unseen && used > room {
            break;
        }
        start = turn.start;
        let whose = view.places().get(start).map(|place| place.whose);
        kept += usize::from(whose == Some(Whose::Model));
    }
    start
}

/// Returns where the last turn begins: what the model has not seen, with the reply that called for
/// it; of a conversation that ends with a reply, that.
pub(super) fn last_turn(view: &View) -> usize {
    let end = view.messages().len();
    let mut start = end;
    for turn in turns(view).into_iter().rev() {
        let is_reply =
            view.places().get(turn.start).is_some_and(|place| place.whose == Whose::Model);
        if is_reply && turn.len() == 1 && turn.end < end {
            break;
        }
        start = turn.start;
        if is_reply {
            break;
        }
    }
    start
}

/// Returns where the last messages begin, so many at least: a turn is not cut, and the last one is
/// always among them.
pub(super) fn last_messages(view: &View, count: usize) -> usize {
    let start = view.messages().len().saturating_sub(count);
    view.boundary(start).min(last_turn(view))
}

/// Returns where the turns begin that have the last results, so many at least; the last turn is
/// always among them.
pub(super) fn last_results(view: &View, count: usize) -> usize {
    let (mut start, mut seen) = (view.messages().len(), 0);
    for (at, message) in view.messages().iter().enumerate().rev() {
        if seen >= count {
            break;
        }
        if let Message::Results(results) = &**message {
            seen += results.len();
            start = at;
        }
    }
    if seen < count {
        start = 0;
    }
    view.boundary(start).min(last_turn(view))
}

/// Returns which messages before a place stay as they are: what is pinned, the request at hand, what
/// the user said first, and of the rest the latest as long as they fit.
pub(super) fn kept(view: &View, before: usize, tokens: u64) -> Vec<usize> {
    let is = |wanted: Whose| move |at: &usize| whose(view, *at) == Some(wanted);
    let said: Vec<usize> = (0..before).filter(is(Whose::User)).collect();
    let mut kept: Vec<usize> = (0..before).filter(is(Whose::Pinned)).collect();
    let at_hand = (0..view.messages().len()).rfind(is(Whose::User));
    kept.extend(at_hand.filter(|at| *at < before));
    let mut used = 0;
    for at in said.first().into_iter().chain(said.iter().rev()) {
        if kept.contains(at) {
            continue;
        }
        if used + size(view, *at) <= tokens {
            used += size(view, *at);
            kept.push(*at);
        }
    }
    kept.sort_unstable();
    kept
}

/// Returns where the request at hand begins, if nothing but what was said stands between a place and
/// it, or else the place.
pub(super) fn unanswered(view: &View, place: usize) -> usize {
    let is_user = |at: &usize| whose(view, *at) == Some(Whose::User);
    let Some(at_hand) = (place..view.messages().len()).rfind(is_user) else { return place };
    let is_said = |at: usize| !matches!(whose(view, at), Some(Whose::Model | Whose::Tools));
    if (place..at_hand).all(is_said) { at_hand } else { place }
}

/// Leaves of what is pinned only the latest, as long as it fits.
pub(super) fn keep_pins(view: &View, kept: &mut Vec<usize>, tokens: u64) {
    let mut left = tokens;
    let mut stays = kept.clone();
    stays.reverse();
    stays.retain(|at| match whose(view, *at) {
        Some(Whose::Pinned) => {
            left.checked_sub(size(view, *at)).inspect(|now| left = *now).is_some()
        }
        _ => true,
    });
    stays.reverse();
    *kept = stays;
}

/// Returns how many tokens of what is pinned before a place are not kept.
pub(super) fn unkept_pins(view: &View, before: usize, kept: &[usize]) -> u64 {
    let is_left_out = |at: &usize| whose(view, *at) == Some(Whose::Pinned) && !kept.contains(at);
    (0..before).filter(is_left_out).map(|at| size(view, at)).sum()
}

fn whose(view: &View, at: usize) -> Option<Whose> {
    view.places().get(at).map(|place| place.whose)
}

fn size(view: &View, at: usize) -> u64 {
    view.places().get(at).map_or(0, |place| place.tokens)
}

/// Returns how many tokens a summary takes the place of: those of the messages before a place, but
/// for some, and for an earlier summary.
pub(super) fn tokens_of(view: &View, before: usize, kept: &[usize]) -> u64 {
    let places = view.places().iter().enumerate().take(before);
    let counts = places.filter(|(at, place)| place.whose != Whose::Summary && !kept.contains(at));
    counts.map(|(_, place)| place.tokens).sum()
}
