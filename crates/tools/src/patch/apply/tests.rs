use pretty_assertions::assert_eq;
use proptest::prelude::*;

use crate::patch::parse::{Change, parse};

use super::update;

/// Applies the body of an update to a text.
fn updated(text: &str, body: &str) -> String {
    let patch = format!("*** Begin Patch\n*** Update File: f\n{body}*** End Patch\n");
    let changes = match parse(&patch) {
        Ok(changes) => changes,
        Err(problem) => return format!("!!! {problem}"),
    };
    let [change] = changes.as_slice() else { panic!("{changes:?}") };
    let Change::Update { chunks, .. } = &change.change else { panic!("{change:?}") };
    match update(text, chunks) {
        Ok((text, notes)) if notes.is_empty() => text,
        Ok((text, notes)) => format!("{text}--- {}", notes.join("; ")),
        Err(problem) => format!("!!! {problem}"),
    }
}

#[test]
fn anchors_narrow_the_place_one_after_the_other() {
    let text = "class A\n  def f\n    x\nclass B\n  def f\n    x\n  def g\n    x\n";
    let expected = "class A\n  def f\n    x\nclass B\n  def f\n    y\n  def g\n    x\n";
    assert_eq!(updated(text, "@@ class B\n@@   def f\n-    x\n+    y\n"), expected);
    assert_eq!(updated(text, "@@ class B\n   def f\n-    x\n+    y\n"), expected);
}

#[test]
fn additions_go_after_their_anchor_or_to_the_end() {
    assert_eq!(updated("a\nb\n", "@@\n+c\n"), "a\nb\nc\n");
    assert_eq!(updated("a\nb\n", "@@ a\n+c\n"), "a\nc\nb\n");
    assert_eq!(updated("a\nb\n", "@@ a\n+c\n*** End of File\n"), "a\nb\nc\n");
    assert_eq!(updated("", "+c\n"), "c\n");
}

#[test]
fn an_addition_at_the_end_does_not_hide_what_comes_before() {
    let body = "@@\n+after\n+second\n@@\n line1\n-line2\n-line3\n+replaced\n";
    assert_eq!(updated("line1\nline2\nline3\n", body), "line1\nreplaced\nafter\nsecond\n");
}

#[test]
fn the_end_of_the_file_is_tried_first() {
    let body = "@@\n x\n-y\n+z\n*** End of File\n";
    assert_eq!(updated("x\ny\nx\ny\n", body), "x\ny\nx\nz\n");
    assert_eq!(updated("x\ny\nend\n", body), "x\nz\nend\n");
}

#[test]
fn a_missing_last_line_end_is_added() {
    assert_eq!(updated("a\nb", "@@\n-b\n+c\n+d\n"), "a\nc\nd\n");
    assert_eq!(updated("a", "@@\n-a\n"), "");
}

#[test]
fn context_is_forgiven_but_not_changed() {
    let text = "a  \n\u{201c}b\u{201d}\nc\n";
    let note = "matched without regard to kinds of quotes, dashes and spaces";
    assert_eq!(
        updated(text, " a\n \"b\"\n-c\n+d\n"),
        format!("a  \n\u{201c}b\u{201d}\nd\n--- {note}")
    );
    let moved = "matched with another indentation, which the new text got too";
    assert_eq!(updated("    a\n    b\n", " a\n-b\n+c\n"), format!("    a\n    c\n--- {moved}"));
}

#[test]
fn a_header_of_a_unified_diff_is_no_anchor() {
    assert_eq!(updated("a\nb\n", "@@ -1,2 +1,2 @@ fn x()\n a\n-b\n+c\n"), "a\nc\n");
}

#[test]
fn blank_lines_between_parts_are_no_context() {
    assert_eq!(updated("a\n\nb\n", "@@\n-a\n+x\n\n@@\n-b\n+y\n\n"), "x\n\ny\n");
    assert_eq!(updated("a\n\nb\n", "@@\n-a\n\n-b\n"), "\n");
}

#[test]
fn what_does_not_match_is_shown_beside_what_is_there() {
    let expected = "!!! chunk 2 of 2: these lines do not occur after line 1:\nlet value = 2;\n\
                    the closest lines are:\n2: let value = 3;";
    assert_eq!(updated("a\nlet value = 3;\n", "@@\n-a\n+b\n@@\n-let value = 2;\n+x\n"), expected);
}

#[test]
fn bad_patches_say_which_line_is_wrong() {
    assert_eq!(
        updated("a\n", "@@\n-a\nb\n"),
        "!!! line 5 of the patch: \"b\" must begin with ' ' (context), '-' (remove) or '+' (add)"
    );
    assert!(updated("a\n", "").contains("the update of f is empty"));
    assert!(updated("a\n", "@@\n").contains("this chunk has no lines"));
    let problem = |patch: &str| parse(patch).unwrap_err();
    assert_eq!(problem("hello world"), "the first line of the patch must be *** Begin Patch");
    assert_eq!(
        problem("*** Begin Patch\n*** Delete File: x\n"),
        "the last line of the patch must be *** End Patch"
    );
    assert!(problem("*** Begin Patch\n*** End Patch").starts_with("the patch changes no file"));
    assert!(
        problem("*** Begin Patch\n*** Delete File:\n*** End Patch").contains("a path is missing")
    );
}

#[test]
fn wrappings_are_taken_off() {
    let patch = "*** Begin Patch\n*** Delete File: x\n*** End Patch";
    let expected = parse(patch).unwrap();
    for wrapped in [
        format!("<<'EOF'\n{patch}\nEOF\n"),
        format!("apply_patch <<\"EOF\"\n{patch}\nEOF"),
        format!("```\n{patch}\n```\n"),
        format!("\n\n  {patch}  \n\n"),
        patch.replace('\n', "\r\n"),
    ] {
        assert_eq!(
            parse(&wrapped),
            Ok(expected.as_slice().iter().map(copy).collect()),
            "{wrapped}"
        );
    }
}

fn copy(change: &crate::patch::parse::FileChange) -> crate::patch::parse::FileChange {
    assert_eq!(change.change, Change::Delete);
    crate::patch::parse::FileChange { path: change.path.clone(), change: Change::Delete }
}

proptest! {
    #[test]
    fn a_patch_and_its_inverse_give_the_text_back(
        above in prop::collection::vec("[a-c]{1,3}", 0..5),
        old in prop::collection::vec("[p-s]{1,3}", 1..4),
        new in prop::collection::vec("[x-z]{1,3}", 1..4),
        below in prop::collection::vec("[d-f]{1,3}", 0..5),
    ) {
        let text = |middle: &[String]| {
            let lines = above.iter().chain(middle).chain(&below);
            lines.map(|line| format!("{line}\n")).collect::<String>()
        };
        let signed = |sign: char, lines: &[String]| {
            lines.iter().map(|line| format!("{sign}{line}\n")).collect::<String>()
        };
        let there = updated(&text(&old), &format!("@@\n{}{}", signed('-', &old), signed('+', &new)));
        prop_assert_eq!(&there, &text(&new));
        let back = updated(&there, &format!("@@\n{}{}", signed('-', &new), signed('+', &old)));
        prop_assert_eq!(back, text(&old));
    }

    #[test]
    fn no_patch_panics(body in "(\\*\\*\\* (Begin Patch|End Patch|Update File: f|End of File|Move to: g)|@@ ?|[ +-]?[ab“]|\n){0,30}") {
        let patch = format!("*** Begin Patch\n*** Update File: f\n{body}*** End Patch\n");
        for change in parse(&patch).unwrap_or_default() {
            if let Change::Update { chunks, .. } = change.change {
                let _ = update("a\nb\n", &chunks);
            }
        }
        let _ = parse(&body);
    }
}
