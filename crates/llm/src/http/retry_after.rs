//! How long a provider asks to wait.

use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use reqwest::header::{DATE, HeaderMap, HeaderName, RETRY_AFTER};

const RETRY_AFTER_MS: HeaderName = HeaderName::from_static("retry-after-ms");

/// Reads `retry-after-ms`, or `retry-after` as seconds or as a date.
///
/// A date is measured against the `date` of the same answer, so that it does not matter whether
/// the clocks agree; `now` stands in for a missing one.
pub(super) fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = |name: &HeaderName| headers.get(name)?.to_str().ok().map(str::trim);
    if let Some(ms) = text(&RETRY_AFTER_MS).and_then(|ms| ms.parse::<f64>().ok())
        && let Some(wait) = of_seconds(ms / 1000.0)
    {
        return Some(wait);
    }
    let value = text(&RETRY_AFTER)?;
    if let Ok(seconds) = value.parse::<f64>() {
        return of_seconds(seconds);
    }
    let until = parse_date(value)?;
    let now = match text(&DATE).and_then(parse_date) {
        Some(date) => date,
        None => Timestamp::try_from(now).ok()?,
    };
    Some(Duration::try_from(until.duration_since(now)).unwrap_or_default())
}

/// Takes a wait that is too long to be counted for the longest there is, and one below zero for none.
fn of_seconds(seconds: f64) -> Option<Duration> {
    (seconds >= 0.0).then(|| Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX))
}

fn parse_date(text: &str) -> Option<Timestamp> {
    jiff::fmt::rfc2822::parse(text).ok().map(|date| date.timestamp())
}

#[cfg(test)]
mod tests {
    use reqwest::header::HeaderValue;

    use super::*;

    fn read(headers: &[(HeaderName, &'static str)]) -> Option<Duration> {
        let headers = headers
            .iter()
            .map(|(name, value)| (name.clone(), HeaderValue::from_static(value)))
            .collect();
        retry_after(&headers, SystemTime::UNIX_EPOCH)
    }

    #[test]
    fn seconds_and_milliseconds_are_read() {
        assert_eq!(read(&[]), None);
        assert_eq!(read(&[(RETRY_AFTER, "7")]), Some(Duration::from_secs(7)));
        assert_eq!(read(&[(RETRY_AFTER, "1.5")]), Some(Duration::from_millis(1500)));
        assert_eq!(
            read(&[(RETRY_AFTER, "2"), (RETRY_AFTER_MS, "1200")]),
            Some(Duration::from_millis(1200))
        );
        assert_eq!(read(&[(RETRY_AFTER, "-1")]), None);
        assert_eq!(read(&[(RETRY_AFTER, "NaN")]), None);
        assert_eq!(read(&[(RETRY_AFTER, "99999999999999999999")]), Some(Duration::MAX));
        assert_eq!(read(&[(RETRY_AFTER_MS, "1e300")]), Some(Duration::MAX));
        assert_eq!(
            read(&[(RETRY_AFTER, "2"), (RETRY_AFTER_MS, "-5")]),
            Some(Duration::from_secs(2))
        );
        assert_eq!(read(&[(RETRY_AFTER, "soon")]), None);
    }

    #[test]
    fn a_date_counts_from_the_date_of_the_answer() {
        let until = (RETRY_AFTER, "Sun, 06 Nov 1994 08:49:37 GMT");
        let date = (DATE, "Sun, 06 Nov 1994 08:49:07 GMT");
        assert_eq!(read(&[until.clone(), date]), Some(Duration::from_secs(30)));
        let later = (DATE, "Sun, 06 Nov 1994 08:50:00 GMT");
        assert_eq!(read(&[until, later]), Some(Duration::ZERO));
        let first = (RETRY_AFTER, "Thu, 01 Jan 1970 00:00:09 GMT");
        assert_eq!(read(&[first]), Some(Duration::from_secs(9)));
    }
}
