//! Which notes are about tasks like another one.
//!
//! Words are compared, in lower case and without those that say nothing of which task it is. A note
//! counts if its task and the other share at least a third of the words of the shorter one, and at
//! least two. Those that count are ordered by BM25, the usual measure of how much a text has to do
//! with words that are looked for: a word counts for more the fewer notes have it, for less each
//! time it is repeated, and for less in a long text. BM25 alone has no floor, since what it says
//! depends on how many notes there are.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::LazyLock;

use super::Note;

/// How soon repeating a word stops to count.
const SATURATION: f64 = 1.2;

/// How much the length of a text counts, from 0 to 1.
const LENGTH: f64 = 0.75;

/// Words that say nothing of which task it is: those of any text, and those of any task.
static STOP_WORDS: LazyLock<HashSet<&str>> = LazyLock::new(|| {
    "\
    about above add after again all also an and any are as at be because been before below both \
    but by can change check code create did do does don done each ensure file files find fix for \
    from function get has have how if implement in into is it its just line lines make may me more \
    must my new no not now of on one only or other our out please project read run same set should \
    so some such sure task test tests than that the their them then there these they this to up \
    update use using was we were what when where which while why will with work would write you \
    your"
        .split(' ')
        .collect()
});

/// Returns the notes whose tasks are like another one, those that are most like it first; of equals
/// those that came first.
pub(super) fn like<'a>(task: &str, notes: &'a [Note]) -> Vec<&'a Note> {
    let asked: BTreeSet<String> = words(task).collect();
    let known: Vec<_> = notes.iter().map(|note| (note, Words::of(&note.task))).collect();
    let mean = known.iter().map(|(_, words)| words.total).sum::<f64>() / known.len().max(1) as f64;
    let weights: Vec<_> = asked
        .iter()
        .map(|word| {
            let having = known.iter().filter(|(_, words)| words.counts.contains_key(word)).count();
            let (all, having) = (known.len() as f64, having as f64);
            (word.as_str(), ((all - having + 0.5) / (having + 0.5)).ln_1p())
        })
        .collect();
    let alike = known.iter().filter(|(_, words)| words.are_like(&asked));
    let mut alike: Vec<_> =
        alike.map(|(note, words)| (words.score(&weights, mean), *note)).collect();
    // The sort is stable.
    alike.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    alike.into_iter().map(|(_, note)| note).collect()
}

/// The words of a text and how often they occur.
struct Words {
    counts: HashMap<String, f64>,
    total: f64,
}

impl Words {
    fn of(text: &str) -> Self {
        let mut counts = HashMap::new();
        for word in words(text) {
            *counts.entry(word).or_default() += 1.0;
        }
        let total = counts.values().sum();
        Self { counts, total }
    }

    /// Tells whether enough is shared for a resemblance.
    fn are_like(&self, asked: &BTreeSet<String>) -> bool {
        let shared = asked.iter().filter(|word| self.counts.contains_key(*word)).count();
        let (fewer, more) =
            (asked.len().min(self.counts.len()), asked.len().max(self.counts.len()));
        // A single word is enough where neither has another.
        let is_enough = shared >= 2 || (shared == 1 && more == 1);
        is_enough && shared * 3 >= fewer
    }

    fn score(&self, weights: &[(&str, f64)], mean: f64) -> f64 {
        let length = 1.0 - LENGTH + LENGTH * self.total / mean;
        let scores = weights.iter().filter_map(|(word, weight)| {
            let count = self.counts.get(*word)?;
            Some(weight * count * (SATURATION + 1.0) / (count + SATURATION * length))
        });
        scores.sum()
    }
}

fn words(text: &str) -> impl Iterator<Item = String> {
    let words = text.split(|c: char| !c.is_alphanumeric()).map(str::to_lowercase);
    let words = words.flat_map(|word| parts(&word));
    words.filter(|word| word.chars().nth(1).is_some() && !STOP_WORDS.contains(word.as_str()))
}

/// Parts a run of letters where it goes over from a script with spaces between words to one without,
/// and takes from the latter each pair of letters: where its words end is not written.
fn parts(word: &str) -> Vec<String> {
    let letters: Vec<char> = word.chars().collect();
    let runs = letters.chunk_by(|a, b| has_no_spaces(*a) == has_no_spaces(*b));
    let parts = runs.flat_map(|run| match run {
        [first, _, ..] if has_no_spaces(*first) => run.windows(2).collect(),
        run => vec![run],
    });
    parts.map(|part| part.iter().collect()).collect()
}

/// Tells whether a letter is of a script that puts no spaces between words: Chinese, Japanese, and
/// the like.
fn has_no_spaces(c: char) -> bool {
    matches!(c,
        '\u{e00}'..='\u{eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}'
        | '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}'
        | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{323af}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_in_lower_case_and_without_those_of_any_task() {
        let found: Vec<_> = words("Fix the TEST file src/parse_config.rs: a Überlauf!").collect();
        assert_eq!(found, ["src", "parse", "config", "rs", "überlauf"]);
    }

    #[test]
    fn what_is_written_without_spaces_is_taken_in_pairs() {
        let found: Vec<_> = words("修复登录页面的bug、ログイン").collect();
        let pairs = ["修复", "复登", "登录", "录页", "页面", "面的", "bug", "ログ", "グイ", "イン"];
        assert_eq!(found, pairs);
    }
}
