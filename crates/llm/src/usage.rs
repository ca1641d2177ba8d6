//! Tokens and money.

use std::iter::Sum;
use std::ops::{Add, AddAssign, Sub};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

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
            // A server may count whatever it likes.
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

impl Sub for Usage {
    type Output = Self;

    /// Returns what is more than in `other`.
    fn sub(self, other: Self) -> Self {
        let both = |a: Option<u64>, b: Option<u64>| a.map(|a| a.saturating_sub(b.unwrap_or(0)));
        Self {
            input: self.input.saturating_sub(other.input),
            output: self.output.saturating_sub(other.output),
            cache_read: both(self.cache_read, other.cache_read),
            cache_write: both(self.cache_write, other.cache_write),
            reasoning: both(self.reasoning, other.reasoning),
        }
    }
}

impl Sum for Usage {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self::default(), Add::add)
    }
}

/// An amount of US dollars, kept as whole millionths of a millionth, so that sums are exact. In JSON it
/// is a number of dollars.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Usd(u64);

/// How many of the smallest parts a dollar has.
const PARTS: f64 = 1e12;

impl Usd {
    /// Makes an amount of a number of dollars; what is below zero or no number is zero.
    pub fn from_dollars(dollars: f64) -> Self {
        // The cast ends at the bounds of the type.
        Self((dollars * PARTS).round() as u64)
    }

    /// Returns the amount as the nearest number of dollars.
    pub fn to_dollars(self) -> f64 {
        self.0 as f64 / PARTS
    }
}

impl Add for Usd {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl Sub for Usd {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Serialize for Usd {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.to_dollars().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Usd {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        f64::deserialize(deserializer).map(Self::from_dollars)
    }
}

/// Tokens and money.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Spent {
    /// The tokens.
    pub usage: Usage,
    /// US dollars, as far as prices are known.
    pub cost_usd: Usd,
    /// How many of the tokens have no known price, so that `cost_usd` is too low.
    pub unpriced: u64,
}

impl Spent {
    /// Returns what the tokens of one request cost at a price.
    pub fn at(price: Option<&Price>, usage: Usage) -> Self {
        match price {
            Some(price) => Self { usage, cost_usd: price.cost(&usage), unpriced: 0 },
            None => Self { usage, cost_usd: Usd::default(), unpriced: usage.total() },
        }
    }

    /// Returns the cost in US dollars if all of it is known.
    pub fn cost(&self) -> Option<f64> {
        (self.unpriced == 0).then(|| self.cost_usd.to_dollars())
    }
}

impl Add for Spent {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            usage: self.usage + other.usage,
            cost_usd: self.cost_usd + other.cost_usd,
            unpriced: self.unpriced.saturating_add(other.unpriced),
        }
    }
}

impl AddAssign for Spent {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Spent {
    type Output = Self;

    /// Returns what was spent since `earlier`.
    fn sub(self, earlier: Self) -> Self {
        Self {
            usage: self.usage - earlier.usage,
            cost_usd: self.cost_usd - earlier.cost_usd,
            unpriced: self.unpriced.saturating_sub(earlier.unpriced),
        }
    }
}

/// Prices in US dollars for a million tokens. One below zero counts as zero.
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
    /// Tells whether all of it can be paid: no number is below zero or none at all.
    pub fn is_amount(&self) -> bool {
        let Self { input, output, cache_read, cache_write, long } = self;
        let own = [Some(*input), Some(*output), *cache_read, *cache_write];
        let long = long
            .map(|long| [Some(long.input), Some(long.output), long.cache_read, long.cache_write]);
        let all = own.into_iter().chain(long.into_iter().flatten());
        all.flatten().all(|price| price.is_finite() && price >= 0.0)
    }

    /// Returns what `usage` of one request costs.
    pub fn cost(&self, usage: &Usage) -> Usd {
        if let Some(long) = self.long.filter(|long| usage.input > long.above) {
            let LongPrice { above: _, input, output, cache_read, cache_write } = long;
            return Self { input, output, cache_read, cache_write, long: None }.cost(usage);
        }
        let read = usage.cache_read.unwrap_or(0);
        let write = usage.cache_write.unwrap_or(0);
        let plain = usage.input.saturating_sub(read).saturating_sub(write);
        let at = |price: f64, tokens: u64| {
            let token = Usd::from_dollars(price / 1e6);
            Usd(token.0.saturating_mul(tokens))
        };
        at(self.input, plain)
            + at(self.cache_read.unwrap_or(self.input), read)
            + at(self.cache_write.unwrap_or(self.input), write)
            + at(self.output, usage.output)
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
        assert!(price.cost(&absurd).to_dollars().is_finite());
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
        assert_eq!(price.cost(&usage(1_000_000)).to_dollars(), 12.0);
        assert_eq!(price.cost(&usage(2_000_000)).to_dollars(), 23.0);
        let cached =
            Usage { cache_read: Some(500_000), cache_write: Some(500_000), ..usage(1_000_000) };
        assert_eq!(price.cost(&cached).to_dollars(), 0.1 + 1.25 + 10.0);
    }

    #[test]
    fn sums_of_money_are_exact() {
        let price =
            Price { input: 0.1, output: 0.3, cache_read: None, cache_write: None, long: None };
        let spent = Spent::at(Some(&price), Usage { input: 1, output: 1, ..Usage::default() });
        let sum = (0..1_000_000).fold(Spent::default(), |sum, _| sum + spent);
        assert_eq!(sum.cost(), Some(0.4));
        let tenths = [0.1, 0.2].map(Usd::from_dollars);
        assert_eq!(serde_json::to_string(&(tenths[0] + tenths[1])).unwrap(), "0.3");
        assert_eq!(Usd::from_dollars(f64::NAN), Usd::default());
        assert_eq!(Usd::from_dollars(-1.0), Usd::default());
    }

    #[test]
    fn no_count_is_too_large() {
        let all = Usage { input: u64::MAX, output: u64::MAX, ..Usage::default() };
        assert_eq!((all + all, all.total()), (all, u64::MAX));
        let price =
            Price { input: 5.0, output: 5.0, cache_read: None, cache_write: None, long: None };
        let cached = Usage { cache_read: Some(u64::MAX), cache_write: Some(u64::MAX), ..all };
        let (all, cached) = (Spent::at(Some(&price), all), Spent::at(Some(&price), cached));
        assert_eq!((all + all).cost(), cached.cost());
    }
}
