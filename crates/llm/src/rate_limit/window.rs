//! What counts against the limits at a time.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

use super::{Limits, estimate};
use crate::{ModelInfo, Request, Usage};

/// What the limits are about.
const MINUTE: Duration = Duration::from_secs(60);

/// How long the first answer is taken to be, in tokens.
const FIRST_OUTPUT: u64 = 1_000;

/// How much the latest answer counts in what is expected of the next.
const NEWEST: f64 = 0.2;

/// What began or ended within the last minute.
///
/// Requests and input count from the moment a request is sent. Output counts as expected while the
/// answer comes, and then as it was for a minute from its end.
#[derive(Debug)]
pub(super) struct Window {
    limits: Limits,
    /// In the order in which they began; the ids are consecutive.
    begun: VecDeque<Entry>,
    first_id: u64,
    /// The outputs of those that ended.
    ended: VecDeque<Entry>,
    /// What those that run are expected to say.
    expected: u64,
    /// The mean output of an answer.
    mean_output: Option<f64>,
    /// The mean ratio of the real input to the estimated one.
    ratio: Option<f64>,
    /// When the request that is next may be sent, as was found out last.
    next_at: Instant,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    at: Instant,
    tokens: u64,
}

/// What a request is expected to take.
#[derive(Debug, Clone, Copy)]
pub(super) struct Need {
    pub(super) input: u64,
    output: u64,
    /// The input before it was corrected by experience.
    raw: u64,
}

/// When there may be room, and what there is no room for now.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wait {
    pub(super) until: Instant,
    pub(super) of: &'static str,
}

impl Window {
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            limits,
            begun: VecDeque::new(),
            first_id: 0,
            ended: VecDeque::new(),
            expected: 0,
            mean_output: None,
            ratio: None,
            next_at: Instant::now(),
        }
    }

    pub(super) fn limits(&self) -> Limits {
        self.limits
    }

    /// Estimates what a request takes; experience makes the estimate better.
    pub(super) fn need_of(&self, request: &Request, info: &ModelInfo) -> Need {
        let raw = estimate::input_of(request);
        let input = self.ratio.map_or(raw, |ratio| (raw as f64 * ratio) as u64);
        let longest = request.max_output_tokens.or(info.max_output_tokens).unwrap_or(u64::MAX);
        let expected = self.mean_output.map_or(FIRST_OUTPUT, |mean| mean as u64);
        Need { input, output: expected.min(longest), raw }
    }

    /// Makes room for a request and returns its id, or tells when there may be room.
    pub(super) fn reserve(&mut self, need: Need, now: Instant) -> Result<u64, Wait> {
        self.forget(now);
        if let Some(wait) = self.missing(need, now) {
            self.next_at = wait.until;
            return Err(wait);
        }
        self.begun.push_back(Entry { at: now, tokens: need.input });
        self.expected = self.expected.saturating_add(need.output);
        Ok(self.first_id + self.begun.len() as u64 - 1)
    }

    /// Returns when the next request in the queue may be sent, as far as is known.
    pub(super) fn next_at(&self) -> Instant {
        self.next_at
    }

    /// Puts what a request took in place of what was reserved for it.
    pub(super) fn settle(&mut self, id: u64, need: Need, usage: Usage, now: Instant) {
        let place = id.checked_sub(self.first_id).and_then(|place| usize::try_from(place).ok());
        if let Some(entry) = place.and_then(|place| self.begun.get_mut(place)) {
            entry.tokens = usage.input;
        }
        self.expected = self.expected.saturating_sub(need.output);
        if usage.output > 0 {
            self.ended.push_back(Entry { at: now, tokens: usage.output });
            learn(&mut self.mean_output, usage.output as f64);
        }
        if usage.input > 0 && need.raw > 0 {
            learn(&mut self.ratio, usage.input as f64 / need.raw as f64);
        }
        self.forget(now);
    }

    fn forget(&mut self, now: Instant) {
        self.first_id += forget(&mut self.begun, now);
        forget(&mut self.ended, now);
    }

    /// Returns what there is no room for; of several, what takes longest.
    fn missing(&self, need: Need, now: Instant) -> Option<Wait> {
        let requests = self.until_request().map(|until| (until, "requests a minute"));
        let input = until_room(&self.begun, self.limits.input_tpm, need.input);
        let input = input.map(|until| (until, "input tokens a minute"));
        let output = self.until_output(need.output, now);
        let output = output.map(|until| (until, "output tokens a minute"));
        let longest = [requests, input, output].into_iter().flatten().max_by_key(|wait| wait.0);
        longest.map(|(until, of)| Wait { until, of })
    }

    fn until_request(&self) -> Option<Instant> {
        let rpm = usize::try_from(self.limits.rpm).unwrap_or(usize::MAX);
        if rpm == 0 {
            return None;
        }
        let last_to_leave = self.begun.len().checked_sub(rpm)?;
        self.begun.get(last_to_leave).map(|entry| entry.at + MINUTE)
    }

    fn until_output(&self, need: u64, now: Instant) -> Option<Instant> {
        let need = self.expected.saturating_add(need);
        let limit = self.limits.output_tpm;
        if limit > 0 && self.expected > 0 && need > limit {
            // Only the end of a running answer can make room, and nobody knows when that is.
            return Some(now + MINUTE);
        }
        until_room(&self.ended, limit, need)
    }
}

/// Returns when enough of the entries have left to make room for `need`; `None` for now.
fn until_room(entries: &VecDeque<Entry>, limit: u64, need: u64) -> Option<Instant> {
    let mut total = entries.iter().fold(0, |sum: u64, entry| sum.saturating_add(entry.tokens));
    // What is larger than the limit has room when nothing else counts.
    let room = limit.saturating_sub(need);
    if limit == 0 || total <= room {
        return None;
    }
    entries.iter().find_map(|entry| {
        total = total.saturating_sub(entry.tokens);
        (total <= room).then(|| entry.at + MINUTE)
    })
}

/// Drops what is older than a minute, with its memory; returns how many entries that were.
fn forget(entries: &mut VecDeque<Entry>, now: Instant) -> u64 {
    let old = entries.iter().take_while(|entry| entry.at + MINUTE <= now).count();
    entries.drain(..old);
    if entries.capacity() > 4 * entries.len().max(16) {
        entries.shrink_to(2 * entries.len());
    }
    old as u64
}

fn learn(mean: &mut Option<f64>, value: f64) {
    *mean = Some(mean.map_or(value, |mean| mean + NEWEST * (value - mean)));
}
