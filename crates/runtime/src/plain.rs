//! What models, tools, servers and files say, made harmless for a terminal.

/// At most so many characters of a text are shown.
const LONGEST: usize = 160;

/// Returns a text as one line, cut if it is long: no control characters, no escape sequences of a
/// terminal, nothing that changes the direction of writing.
pub fn line(text: &str) -> String {
    let text = plain(text);
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{} …", &line[..end]),
        None => line,
    }
}

/// Returns a text in its lines: no control characters but tabs and ends of lines, and nothing else that
/// a terminal would act upon.
pub fn text(text: &str) -> String {
    let lines = text.split('\n').map(|line| line.split('\t').map(plain).collect::<Vec<_>>());
    lines.map(|parts| parts.join("\t").trim_end().to_owned()).collect::<Vec<_>>().join("\n")
}

/// Returns a text without anything that a terminal would act upon, but for spaces between words.
fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        match c {
            '\u{1b}' => rest = behind_escape(rest),
            '\u{9b}' => rest = behind_control(rest),
            '\u{90}' | '\u{98}' | '\u{9d}'..='\u{9f}' => rest = behind_string(rest),
            '\n' | '\r' | '\t' => plain.push(' '),
            c if c.is_control() || turns_around(c) => {}
            c => plain.push(c),
        }
    }
    plain
}

fn behind_escape(rest: &str) -> &str {
    let Some(c) = rest.chars().next() else { return rest };
    let behind = &rest[c.len_utf8()..];
    match c {
        '[' => behind_control(behind),
        ']' | 'P' | 'X' | '^' | '_' => behind_string(behind),
        ' '..='/' => behind_final(behind.trim_start_matches(|c| matches!(c, ' '..='/'))),
        '0'..='~' => behind,
        // No sequence: what follows is dealt with by itself.
        _ => rest,
    }
}

/// Goes behind a control sequence: parameters, then one final character.
fn behind_control(rest: &str) -> &str {
    behind_final(rest.trim_start_matches(|c| matches!(c, ' '..='?')))
}

fn behind_final(rest: &str) -> &str {
    rest.strip_prefix(|c| matches!(c, '0'..='~')).unwrap_or(rest)
}

/// Goes behind a string for the terminal. One that does not end is not one: what follows is shown.
fn behind_string(rest: &str) -> &str {
    let is_end = |c: char| matches!(c, '\u{7}' | '\u{1b}' | '\u{9c}');
    match rest.split_once(is_end) {
        // Of its end, ESC \, a backslash is left.
        Some((_, behind)) => behind.strip_prefix('\\').unwrap_or(behind),
        None => rest,
    }
}

fn turns_around(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_act_upon_is_left_out() {
        let cases = [
            ("a\u{1b}[31mred\u{1b}[0m", "ared"),
            ("\u{1b}]0;title\u{7}b", "b"),
            ("\u{1b}]8;;http://x\u{1b}\\link\u{1b}]8;;\u{1b}\\", "link"),
            ("\u{1b}Pq#0\u{1b}\\c", "c"),
            ("\u{9b}2Jd", "d"),
            ("\u{9d}0;t\u{9c}e", "e"),
            ("\u{1b}(Bf\u{1b}cg\u{1b}=h", "fgh"),
            ("i\rj\u{8}k\u{7f}\u{0}", "i jk"),
            ("l\u{202e}m\u{2066}", "lm"),
            ("\u{1b}", ""),
            ("\u{1b}[", ""),
            ("\u{1b}]0;never ends", "0;never ends"),
            ("\u{1b}\u{1b}[1mn", "n"),
            ("größer ✓", "größer ✓"),
        ];
        for (text, expected) in cases {
            assert_eq!(plain(text), expected, "{text:?}");
        }
    }

    #[test]
    fn nothing_that_a_terminal_acts_upon_survives_any_order_of_it() {
        let pieces = ["\u{1b}", "[", "]", "0", "m", "\\", "\u{7}", "\u{9b}", "\u{9c}", "x", "é"];
        let count = pieces.len();
        for number in 0..count.pow(5) {
            let picked = (0..5).map(|place| pieces[number / count.pow(place) % count]);
            let text: String = picked.collect();
            assert!(!plain(&text).contains(char::is_control), "{text:?}");
        }
    }

    #[test]
    fn a_text_keeps_its_lines() {
        assert_eq!(text("a\tb\r\n\n  \u{1b}[2Jc\u{202e}\n"), "a\tb\n\n  c\n");
    }

    #[test]
    fn a_text_becomes_one_line_that_is_not_too_long() {
        assert_eq!(line("\n\n  one \n\ttwo"), "one two");
        assert_eq!(line(" \n"), "");
        assert_eq!(line(&"é".repeat(LONGEST)), "é".repeat(LONGEST));
        assert_eq!(line(&"é".repeat(200)), format!("{} …", "é".repeat(LONGEST)));
    }
}
