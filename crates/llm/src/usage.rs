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
        self.input.saturating_add(self.output)
    }
}

impl Add for Usage {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        let both = |a: Option<u64>, b: Option<u64>| match (a, b) {
            (Some(a), Some(b)) => Some(a.saturating_add(b)),
            (one, None) | (None, one) => one,
        };
        Self {
            input: self.input.saturating_add(other.input),
            output: self.output.saturating_add(other.output),
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
    /// What a long request costs, all of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub long: Option<LongPrice>,
}

/// Prices of requests that are longer than a limit, in US dollars for a million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LongPrice {
    /// The limit: more input tokens than these cost this.
    pub above: u64,
    /// As in [`Price`].
    pub input: f64,
    /// As in [`Price`].
    pub output: f64,
    /// As in [`Price`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_read: Option<f64>,
    /// As in [`Price`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write: Option<f64>,
}

impl Price {
    /// Returns what `usage` of one request costs in US dollars.
    pub fn cost(&self, usage: &Usage) -> f64 {
        if let Some(long) = self.long.filter(|long| usage.input > long.above) {
            let LongPrice { above: _, input, output, cache_read, cache_write } = long;
            return Self { input, output, cache_read, cache_write, long: None }.cost(usage);
        }
        let read = usage.cache_read.unwrap_or(0);
        let write = usage.cache_write.unwrap_or(0);
        let plain = usage.input.saturating_sub(read).saturating_sub(write);
        let million = |tokens: u64, price: f64| tokens as f64 * price / 1e6;
        million(plain, self.input)
            + million(read, self.cache_read.unwrap_or(self.input))
            + million(write, self.cache_write.unwrap_or(self.input))
            + million(usage.output, self.output)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_request_can_cost_is_counted_without_harm() {
        let most = Some(u64::MAX);
        let absurd = Usage {
            input: u64::MAX,
            output: u64::MAX,
            cache_read: most,
            cache_write: most,
            reasoning: most,
        };
        assert_eq!([absurd, absurd].into_iter().sum::<Usage>(), absurd);
        assert_eq!(absurd.total(), u64::MAX);
        let price =
            Price { input: 1.0, output: 1.0, cache_read: None, cache_write: None, long: None };
        assert!(price.cost(&absurd).is_finite());
    }

    #[test]
    fn a_long_request_has_its_own_price() {
        let long = LongPrice {
            above: 1_000_000,
            input: 4.0,
            output: 15.0,
            cache_read: Some(0.4),
            cache_write: None,
        };
        let price = Price {
            input: 2.0,
            output: 10.0,
            cache_read: Some(0.2),
            cache_write: Some(2.5),
            long: Some(long),
        };
        let usage = |input| Usage { input, output: 1_000_000, ..Usage::default() };
        assert!((price.cost(&usage(1_000_000)) - 12.0).abs() < 1e-9);
        assert!((price.cost(&usage(2_000_000)) - 23.0).abs() < 1e-9);
        let cached =
            Usage { cache_read: Some(500_000), cache_write: Some(500_000), ..usage(1_000_000) };
        assert!((price.cost(&cached) - (0.1 + 1.25 + 10.0)).abs() < 1e-9);
    }
}
