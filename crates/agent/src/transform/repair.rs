//! Pairs: each call with its result right behind it, whatever was done to the messages.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use bowline_llm::{
    AssistantMessage, AssistantPart, CallId, Message, MessageRef, Messages, ToolResult,
};

/// Returns the messages as a provider takes them. Messages in which nothing has to be mended stay the
/// same in memory.
pub(crate) fn repair(messages: &Messages) -> Messages {
    if is_sound(messages) {
        return messages.clone();
    }
    let results = by_call(messages);
    let mut used = HashSet::new();
    let mut mended = Messages::default();
    let mut rest = messages.iter().enumerate().peekable();
    while let Some((at, message)) = rest.next() {
        let said = match &**message {
            Message::User(_) => {
                mended.push_back_mut(message.clone());
                continue;
            }
            // They are put behind their replies.
            Message::Results(_) => continue,
            Message::Assistant(said) => said,
        };
        let mut answered = Vec::new();
        let whole = said.tool_calls().fold(true, |whole, call| {
            let result = results.get(&call.id).and_then(|all| all.iter().find(|(to, _)| *to > at));
            let is_kept = result.is_some() && used.insert(&call.id);
            answered.extend(result.filter(|_| is_kept).map(|(_, result)| *result));
            whole && is_kept
        });
        if whole {
            mended.push_back_mut(message.clone());
        } else {
            let kept: HashSet<&CallId> = answered.iter().map(|result| &result.call).collect();
            let Some(said) = without_calls(said, &kept) else { continue };
            mended.push_back_mut(Message::Assistant(Arc::new(said)).into());
        }
        if !answered.is_empty() {
            let behind = rest.peek().map(|(_, behind)| *behind);
            mended.push_back_mut(results_of(&answered, behind));
        }
    }
    mended
}

/// Tells whether nothing has to be mended.
fn is_sound(messages: &Messages) -> bool {
    let mut seen: HashSet<&CallId> = HashSet::new();
    let mut open: Vec<&CallId> = Vec::new();
    for message in messages {
        match &**message {
            Message::Results(results) => {
                let given = results.iter().map(|result| &result.call);
                if open.is_empty() || !given.eq(open.drain(..)) {
                    return false;
                }
            }
            Message::User(_) | Message::Assistant(_) if !open.is_empty() => return false,
            Message::User(_) => {}
            Message::Assistant(said) => {
                open.extend(said.tool_calls().map(|call| &call.id));
                if !open.iter().all(|call| seen.insert(call)) {
                    return false;
                }
            }
        }
    }
    open.is_empty()
}

/// Returns the results of each call, with the places of the messages they stand in.
fn by_call(messages: &Messages) -> HashMap<&CallId, Vec<(usize, &ToolResult)>> {
    let mut all: HashMap<_, Vec<_>> = HashMap::new();
    for (at, message) in messages.iter().enumerate() {
        let Message::Results(results) = &**message else { continue };
        for result in results {
            all.entry(&result.call).or_default().push((at, result));
        }
    }
    all
}

/// Returns the message of some results: the one that stands there already, if it has just these.
fn results_of(results: &[&ToolResult], behind: Option<&MessageRef>) -> MessageRef {
    if let Some(behind) = behind
        && let Message::Results(given) = &**behind
        && given.len() == results.len()
        && given.iter().zip(results).all(|(given, result)| std::ptr::eq(given, *result))
    {
        return behind.clone();
    }
    Message::Results(results.iter().copied().cloned().collect()).into()
}

/// Returns a reply with only some of its calls; `None` if nothing but reasoning is left.
fn without_calls(said: &AssistantMessage, kept: &HashSet<&CallId>) -> Option<AssistantMessage> {
    let mut content = Vec::with_capacity(said.content.len());
    // Reasoning and the calls it led to.
    let mut thought = Vec::new();
    let mut calls: Option<Vec<AssistantPart>> = None;
    let mut seen = HashSet::new();
    for part in &said.content {
        match part {
            AssistantPart::ToolCall(call) => {
                let calls = calls.get_or_insert_default();
                if kept.contains(&call.id) && seen.insert(&call.id) {
                    calls.push(part.clone());
                }
                continue;
            }
            AssistantPart::Reasoning(_) | AssistantPart::Text(_) | AssistantPart::Opaque(_) => {}
        }
        if let Some(calls) = calls.take() {
            settle(&mut content, &mut thought, calls);
        }
        match part {
            AssistantPart::Reasoning(_) => thought.push(part.clone()),
            AssistantPart::Text(_) | AssistantPart::Opaque(_) | AssistantPart::ToolCall(_) => {
                content.append(&mut thought);
                content.push(part.clone());
            }
        }
    }
    match calls {
        Some(calls) => settle(&mut content, &mut thought, calls),
        None => content.append(&mut thought),
    }
    let is_reasoning = |part: &AssistantPart| matches!(part, AssistantPart::Reasoning(_));
    (!content.iter().all(is_reasoning)).then_some(AssistantMessage { content })
}

/// Adds the calls that are left with the reasoning that led to them.
fn settle(
    content: &mut Vec<AssistantPart>,
    thought: &mut Vec<AssistantPart>,
    mut calls: Vec<AssistantPart>,
) {
    if calls.is_empty() {
        thought.clear();
    }
    content.append(thought);
    content.append(&mut calls);
}
