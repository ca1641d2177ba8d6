//! A word for a task.

/// Words that say nothing about a task.
const STOP: [&str; 15] = [
    "the", "and", "for", "with", "from", "that", "this", "into", "onto", "over", "some", "then",
    "than", "also", "just",
];

/// The longest word for a task, in bytes.
const LONGEST: usize = 12;

/// Returns a word for a task: the first one that says something, or else `task`.
pub(super) fn slug(task: &str) -> String {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let words = task.split_whitespace().map(str::to_lowercase);
    let found = words.into_iter().find_map(|word| {
        let word = word.trim_matches(|c| !is_plain(c));
        // What is left within it must fit a name, too.
        let word: String = word.chars().filter(|c| is_plain(*c) || "-_.".contains(*c)).collect();
        let says_something = word.len() >= 3 && !STOP.contains(&word.as_str());
        says_something.then(|| word.chars().take(LONGEST).collect::<String>())
    });
    found.unwrap_or_else(|| "task".to_owned())
}

#[cfg(test)]
mod tests {
    use super::slug;

    // 85
    #[test]
    fn the_first_word_that_says_something_stands_for_a_task() {
        let table = [
            ("refactor the authentication module", "refactor"),
            ("fix bug in parser", "fix"),
            ("the and for", "task"),
            ("a b c", "task"),
            ("", "task"),
            ("the implementationofthings", "implementati"),
            ("  \"Review!\" this", "review"),
            ("é ö write-tests", "write-tests"),
            ("Ünïcode naïve", "ncode"),
            ("this, then (parse)", "parse"),
        ];
        for (task, expected) in table {
            assert_eq!(slug(task), expected, "{task:?}");
        }
    }
}
