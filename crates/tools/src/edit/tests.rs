use pretty_assertions::assert_eq;
use proptest::prelude::*;

use super::replaced;

fn edited(text: &str, old: &str, new: &str) -> String {
    match replaced(text, old, new, false) {
        Ok((content, summary)) => format!("{content}\n--- {summary}"),
        Err(problem) => format!("!!! {problem}"),
    }
}

#[test]
fn an_exact_piece_is_replaced() {
    assert_eq!(edited("one two\nthree\n", "two", "2"), "one 2\nthree\n\n--- line 1");
    assert_eq!(edited("a\nb\nc\n", "b\n", ""), "a\nc\n\n--- line 2");
}

#[test]
fn a_piece_that_occurs_more_than_once_is_not_touched() {
    let twice = "!!! old_string occurs 2 times (lines 1, 3); quote more lines around the one you \
                 mean, or set replace_all";
    assert_eq!(edited("x\ny\nx\n", "x", "z"), twice);
    let (content, summary) = replaced("x\ny\nx\n", "x", "z", true).unwrap();
    assert_eq!((content.as_str(), summary.as_str()), ("z\ny\nz\n", "lines 1, 3"));
}

#[test]
fn the_first_pass_that_matches_must_match_once() {
    // The exact line occurs once; that others would match with less care does not matter.
    assert_eq!(edited("a \nb\n  a\n", "  a", "  c"), "a \nb\n  c\n\n--- line 3");
    let twice = edited("f(x) \ng\nf(x)  \n", "f(x)\n", "h\n");
    assert!(twice.starts_with("!!! old_string occurs 2 times (lines 1, 3)"), "{twice}");
}

#[test]
fn space_at_line_ends_is_forgiven() {
    let text = "if x: \n    y()  \nz\n";
    let expected = "if y:\n    z()\nz\n\n--- line 1; matched without regard to space at line ends";
    assert_eq!(edited(text, "if x:\n    y()\n", "if y:\n    z()\n"), expected);
}

#[test]
fn another_indentation_is_carried_over() {
    let text = "mod m {\n    fn f() {\n        a();\n    }\n}\n";
    let expected = "mod m {\n    fn f() {\n        b();\n        c();\n    }\n}\n\n\
                    --- line 2; matched with another indentation, which the new text got too";
    assert_eq!(edited(text, "fn f() {\n    a();\n}", "fn f() {\n    b();\n    c();\n}"), expected);
}

#[test]
fn crooked_space_is_forgiven() {
    let expected = "x\ny\n\n--- line 1; matched without regard to space around lines";
    assert_eq!(edited("  a\n      b\n", "a\nb\n", "x\ny\n"), expected);
}

#[test]
fn typography_is_forgiven_within_lines() {
    let note = "matched without regard to kinds of quotes, dashes and spaces";
    let text = "say \u{201c}hi\u{201d} \u{2014} now \n\u{a0}\u{2026}\n";
    let expected = format!("say bye \u{2014} now \n\u{a0}\u{2026}\n\n--- line 1; {note}");
    assert_eq!(edited(text, "\"hi\"", "bye"), expected);
}

#[test]
fn only_the_matched_range_changes() {
    let text = "a  \n\u{201c}q\u{201d}  \n\tb \nc  ";
    let expected = "a  \n\u{201c}q\u{201d}  \n\td\nc  \n--- line 3; matched with another \
                    indentation, which the new text got too";
    assert_eq!(edited(text, "b\n", "d\n"), expected);
}

#[test]
fn no_line_end_at_the_end_stays_so() {
    let expected = "a\nc\n--- line 2; matched without regard to space at line ends";
    assert_eq!(edited("a\nb", "b \n", "c\n"), expected);
}

#[test]
fn mixed_line_ends_keep_their_kind() {
    let expected = "a\nx\r\ny\r\nc\n\n--- line 2; matched without regard to space at line ends";
    assert_eq!(edited("a\nb\r\nb2\r\nc\n", "b\nb2\n", "x\ny\n"), expected);
}

#[test]
fn a_failure_shows_the_closest_lines() {
    let text = "fn a() {}\nfn compute_total(items: &[Item]) -> u64 {\n    0\n}\n";
    let expected = "!!! old_string does not occur; the closest lines are:\n\
                    2: fn compute_total(items: &[Item]) -> u64 {\n3:     0\n4: }";
    assert_eq!(
        edited(text, "fn compute_totals(items: &Vec<Item>) -> u64 {\n    1\n", "x"),
        expected
    );
    assert_eq!(edited(text, "completely different", "x"), "!!! old_string does not occur");
}

#[test]
fn an_edit_that_was_made_already_is_recognized() {
    let expected = "!!! old_string does not occur; new_string is already there at line 2";
    assert_eq!(edited("a\nnew text\n", "old text", "new text"), expected);
}

#[test]
fn pointless_edits_say_so() {
    assert_eq!(edited("a", "a", "a"), "!!! old_string and new_string are the same");
    assert!(edited("a", "", "b").starts_with("!!! old_string is empty"));
}

proptest! {
    #[test]
    fn an_edit_and_its_inverse_give_the_text_back(
        before in "[a-c \n]{0,20}", old in "[x-z]{1,5}", new in "[p-s\n]{1,5}",
        after in "[a-c \n]{0,20}",
    ) {
        let text = format!("{before}{old}{after}");
        let (there, _) = replaced(&text, &old, &new, false).unwrap();
        prop_assert_eq!(&there, &format!("{before}{new}{after}"));
        if let Ok((back, _)) = replaced(&there, &new, &old, false) {
            prop_assert_eq!(back, text);
        }
    }

    #[test]
    fn no_edit_panics(text in "(é|“|a|b| |\t|\r|\n){0,30}", old in "(é|\"|a|b| |\n){1,8}") {
        let _ = replaced(&text, &old, "new\n", true);
        let _ = replaced(&text, &old, "new", false);
    }
}
