//! Tokens and money.

use std::iter::Sum;
use std::ops::{Add, AddAssign};

use serde::{Deserialize, Serialize};

/// Tokens of one or more model calls.
///
/// The details are `None` where no provider said anything, which is not the same as zero.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// All tokens of the requests, those read from and written to a cache included.
    pub input: u64,
    /// All tokens of the answers, reasoning included.
    pub output: u64,
    /// The part of `input` that was read from a cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_read: Option<u64>,
    /// The part of `input` that was written to a cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write: Option<u64>,
    /// The part of `output` that was reasoning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<u64>,
}

impl Usage {
    /// Returns input and output together.
    pub fn total(&self) -> u64 {
        self.input + self.output
    }
}

impl Add for Usage {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        let both = |a: Option<u64>, b: Option<u64>| match (a, b) {
            (Some(a), Some(b)) => Some(a + b),
            (one, None) | (None, one) => one,
        };
        Self {
            input: self.input + other.input,
            output: self.output + other.output,
            cache_read: both(self.cache_read, other.cache_read),
            cache_write: both(self.cache_write, other.cache_write),
            reasoning: both(self.reasoning, other.reasoning),
        }
    }
}

impl AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sum for Usage {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self::default(), Add::add)
    }
}

/// Prices in US dollars for a million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// Input tokens that no cache was involved in.
    pub input: f64,
    /// Output tokens.
    pub output: f64,
    /// Input tokens read from a cache; the price of input if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_read: Option<f64>,
    /// Input tokens written to a cache; the price of input if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write: Option<f64>,
}

impl Price {
    /// Returns what `usage` costs in US dollars.
    pub fn cost(&self, usage: &Usage) -> f64 {
        let read = usage.cache_read.unwrap_or(0);
        let write = usage.cache_write.unwrap_or(0);
        let plain = usage.input.saturating_sub(read + write);
        let million = |tokens: u64, price: f64| tokens as f64 * price / 1e6;
        million(plain, self.input)
            + million(read, self.cache_read.unwrap_or(self.input))
            + million(write, self.cache_write.unwrap_or(self.input))
            + million(usage.output, self.output)
    }
}
