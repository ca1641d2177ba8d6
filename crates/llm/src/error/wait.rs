//! How long a provider asks to wait, where it says so in the body of its answer.

use std::time::Duration;

use jiff::SignedDuration;
use serde_json::Value;

/// Reads how long Google asks to wait: a `RetryInfo` with a delay such as `36.5s`.
pub(super) fn in_detail(detail: &Value) -> Option<Duration> {
    read(detail.get("retryDelay")?.as_str()?)
}

/// Finds a wait in the words of a message: OpenAI and Groq say `try again in 1m2.5s`, Google
/// `retry in 36.5s`, Azure `retry after 30 seconds`.
pub(super) fn in_words(message: &str) -> Option<Duration> {
    let message = message.to_ascii_lowercase();
    let phrases = ["try again in ", "retry in ", "retry after "];
    let (_, rest) = phrases.iter().find_map(|phrase| message.split_once(phrase))?;
    let mut words = rest.split_whitespace().map(|word| word.trim_end_matches(['.', ',', ';', ')']));
    let first = words.next()?;
    match first.parse::<f64>() {
        Ok(_) => read(&format!("{first} {}", words.next()?)),
        Err(_) => read(first),
    }
}

fn read(text: &str) -> Option<Duration> {
    text.parse::<SignedDuration>().ok()?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_found_in_words() {
        for (words, millis) in [
            ("Rate limit reached for m: Limit 3, Used 3. Please try again in 20s. Visit x", 20_000),
            ("Please try again in 320ms.", 320),
            ("Please try again in 1.5s", 1_500),
            ("Please try again in 2m59.56s. Need more?", 179_560),
            ("Please try again in 6m0s.", 360_000),
            ("Please try again in 1h2m3s.", 3_723_000),
            ("Please retry in 41.820516331s.", 41_820),
            ("Please retry after 30 seconds.", 30_000),
            ("Please retry after 1 second.", 1_000),
            ("Too many requests (try again in 5 minutes)", 300_000),
        ] {
            let wait = in_words(words).map(|wait| wait.as_millis());
            assert_eq!(wait, Some(millis), "{words}");
        }
    }

    #[test]
    fn other_words_are_no_wait() {
        for words in [
            "",
            "Please try again later.",
            "try again in a moment",
            "try again in -3s",
            "retry after",
            "retry after 30",
            "Please retry in NaNs",
        ] {
            assert_eq!(in_words(words), None, "{words}");
        }
    }
}
