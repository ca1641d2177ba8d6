use std::io::Write;

use pretty_assertions::assert_eq;
use proptest::prelude::*;

use super::*;

fn shown(content: &[u8], bytes: u64) -> String {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(content).unwrap();
    excerpt(file.path(), 0, Bounds::new(bytes)).unwrap().0
}

#[test]
fn a_short_output_is_shown_as_it_is() {
    assert_eq!(shown(b"one\ntwo", 100), "one\ntwo");
    assert_eq!(shown(b"", 100), "");
}

#[test]
fn a_long_output_keeps_whole_lines_of_both_ends() {
    let content: String = (1..=1000).map(|n| format!("line {n}\n")).collect();
    let text = shown(content.as_bytes(), 1000);
    assert!(text.starts_with("line 1\nline 2\n"));
    assert!(text.ends_with("line 999\nline 1000\n"));
    assert!(text.len() <= 1000);
    let shown = text.lines().filter(|line| line.starts_with("line ")).count();
    assert!(text.contains(&format!("[… {} lines, ", 1000 - shown)), "{text}");
}

#[test]
fn many_short_lines_are_cut_by_their_number() {
    let text = shown("x\n".repeat(5000).as_bytes(), 65_536);
    assert_eq!(text.lines().filter(|line| *line == "x").count(), 2000);
    assert!(text.contains("[… 3000 lines, 6000 bytes cut here"));
}

#[test]
fn one_endless_line_is_cut_between_characters() {
    let text = shown("é".repeat(5000).as_bytes(), 1001);
    assert!(!text.contains('\u{fffd}'), "{text}");
    assert!(text.starts_with('é') && text.ends_with('é'));
}

#[test]
fn binary_is_said_to_be_binary() {
    let text = shown(&[0, 159, 146, 150].repeat(100), 100_000);
    assert!(text.starts_with("[binary output of 400 bytes"), "{text}");
}

#[test]
fn a_stray_byte_does_not_hide_the_text() {
    assert_eq!(shown(b"caf\xe9 and more text", 100), "caf\u{fffd} and more text");
}

#[test]
fn an_excerpt_can_begin_later() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(b"one\ntwo\n").unwrap();
    assert_eq!(excerpt(file.path(), 4, Bounds::new(100)).unwrap(), ("two\n".to_owned(), 8));
    assert_eq!(excerpt(file.path(), 8, Bounds::new(100)).unwrap(), (String::new(), 8));
}

#[test]
fn a_tail_never_splits_a_character() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    let mut tail = Tail::default();
    file.write_all(b"a\xe2\x82").unwrap();
    assert_eq!(tail.read(file.path()).unwrap().as_deref(), Some("a"));
    file.write_all(b"\xac!").unwrap();
    assert_eq!(tail.read(file.path()).unwrap().as_deref(), Some("€!"));
    assert_eq!(tail.read(file.path()).unwrap(), None);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn an_excerpt_keeps_to_its_limit(content in prop::collection::vec(any::<u8>(), 0..6000)) {
        let text = shown(&content, 2000);
        prop_assert!(text.len() <= 2000 * 3, "{}", text.len());
    }

    #[test]
    fn an_excerpt_of_text_keeps_to_its_limit(content in "(é|a|\n|x y){0,3000}") {
        let text = shown(content.as_bytes(), 2000);
        prop_assert!(text.len() <= 2000);
        let is_broken = text.contains('\u{fffd}');
        prop_assert!(!is_broken);
    }
}
