//! The examples that a model in plain lines continues.

use std::fmt::Write as _;

use super::forms::Form;

/// One request and how it was answered.
struct Example {
    user: &'static str,
    tool: &'static str,
    arguments: &'static [&'static str],
    result: &'static str,
    answer: &'static str,
}

const fn example(
    user: &'static str,
    (tool, arguments): (&'static str, &'static [&'static str]),
    result: &'static str,
    answer: &'static str,
) -> Example {
    Example { user, tool, arguments, result, answer }
}

/// The last ones weigh most with a small model, and reading is what is wanted most.
const EXAMPLES: [Example; 11] = [
    example(
        "What is in the file plan.txt?",
        ("read", &["plan.txt"]),
        "Monday: paint the wall. / Friday: rest.",
        "plan.txt says: Monday: paint the wall. Friday: rest.",
    ),
    example(
        "Which files are here?",
        ("list", &["."]),
        "app.js, docs/, plan.txt",
        "The files are app.js, docs/, plan.txt",
    ),
    example(
        "Create a file fruit.txt with the text apples and pears",
        ("write", &["fruit.txt", "apples and pears"]),
        "created fruit.txt",
        "I wrote apples and pears to fruit.txt.",
    ),
    example(
        "What is the host in server.ini?",
        ("read", &["server.ini"]),
        "host = \"moon\" / user = \"eve\" / timeout = 30",
        "The host is moon.",
    ),
    example(
        "Which file mentions banana?",
        ("grep", &["banana"]),
        "shop/list.txt line 3: banana bread",
        "shop/list.txt line 3: banana bread",
    ),
    example(
        "List the docs folder.",
        ("list", &["docs"]),
        "guide.md, intro.md",
        "The docs folder has guide.md, intro.md",
    ),
    example(
        "When does the train leave? It is in trip.md.",
        ("read", &["trip.md"]),
        "# Trip / The train leaves at 7:45 from platform 4. / Pack warm clothes.",
        "The train leaves at 7:45.",
    ),
    example(
        "Write \"see you soon\" to bye.txt",
        ("write", &["bye.txt", "see you soon"]),
        "created bye.txt",
        "I wrote see you soon to bye.txt.",
    ),
    example(
        "What files does this directory contain?",
        ("list", &["."]),
        "LICENSE, Makefile, lib/",
        "This directory contains LICENSE, Makefile, lib/",
    ),
    example(
        "Where is parse_date defined?",
        ("grep", &["parse_date"]),
        "lib/date.py line 12: def parse_date(text):",
        "lib/date.py line 12: def parse_date(text):",
    ),
    example(
        "Read song.txt and tell me the second line.",
        ("read", &["song.txt"]),
        "Row your boat / gently down the stream / merrily",
        "The second line is: gently down the stream",
    ),
];

/// Writes the examples that use the offered tools.
pub(super) fn text(offered: &[&Form]) -> String {
    let mut out = String::new();
    for Example { user, tool, arguments, result, answer } in &EXAMPLES {
        let Some(form) = offered.iter().find(|form| form.tool == *tool) else { continue };
        let arguments: Vec<String> = arguments.iter().map(|text| (*text).to_owned()).collect();
        let call = form.call(&arguments);
        // Writing to a string cannot fail.
        let _ = write!(out, "User: {user}\nCall: {call}\nResult: {result}\nAnswer: {answer}\n\n");
    }
    out
}
