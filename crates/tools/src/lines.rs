//! Finding lines in a file that a model has quoted not quite right.

/// How forgiving a comparison of lines is, strictest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pass {
    /// Every character counts.
    Exact,
    /// Space at the ends of lines does not count.
    TrailingSpace,
    /// All lines are indented differently, but in the same way.
    Indentation,
    /// Space at both ends of lines does not count.
    Space,
    /// Nor does it count which kind of dash, quote or space a character is.
    Typography,
}

impl Pass {
    /// All passes in order.
    pub(crate) const ALL: [Self; 5] =
        [Self::Exact, Self::TrailingSpace, Self::Indentation, Self::Space, Self::Typography];

    /// Tells the model what did not count; `None` for an exact match.
    pub(crate) fn note(self) -> Option<&'static str> {
        match self {
            Self::Exact => None,
            Self::TrailingSpace => Some("matched without regard to space at line ends"),
            Self::Indentation => {
                Some("matched with another indentation, which the new text got too")
            }
            Self::Space => Some("matched without regard to space around lines"),
            Self::Typography => {
                Some("matched without regard to kinds of quotes, dashes and spaces")
            }
        }
    }

    /// Tells whether the lines of a file are the quoted ones.
    pub(crate) fn matches(self, lines: &[&str], quoted: &[&str]) -> bool {
        let all = |is_same: fn(&str, &str) -> bool| {
            lines.len() == quoted.len() && lines.iter().zip(quoted).all(|(a, b)| is_same(a, b))
        };
        match self {
            Self::Exact => lines == quoted,
            Self::TrailingSpace => all(|a, b| a.trim_end() == b.trim_end()),
            Self::Indentation => {
                all(|a, b| a.trim() == b.trim()) && Reindent::between(quoted, lines).is_some()
            }
            Self::Space => all(|a, b| a.trim() == b.trim()),
            Self::Typography => {
                all(|a, b| a.trim().chars().map(plain).eq(b.trim().chars().map(plain)))
            }
        }
    }
}

/// Returns the plain character that a typographic one stands for.
pub(crate) fn plain(c: char) -> char {
    match c {
        '\u{2010}'..='\u{2015}' | '\u{2212}' => '-',
        '\u{2018}'..='\u{201b}' => '\'',
        '\u{201c}'..='\u{201f}' => '"',
        '\u{a0}' | '\u{2002}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}' => ' ',
        _ => c,
    }
}

/// How the indentation of quoted lines has to change to be that of the file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Reindent<'a> {
    pairs: Vec<(&'a str, &'a str)>,
}

impl<'a> Reindent<'a> {
    /// Compares lines that differ in nothing but the space around them; `None` if the same
    /// indentation became different ones.
    pub(crate) fn between(quoted: &[&'a str], lines: &[&'a str]) -> Option<Self> {
        let mut pairs: Vec<(&str, &str)> = Vec::new();
        for (quoted, line) in quoted.iter().zip(lines).filter(|(line, _)| !line.trim().is_empty()) {
            let (from, to) = (indent(quoted), indent(line));
            match pairs.iter().find(|(known, _)| *known == from) {
                Some((_, known)) if *known != to => return None,
                Some(_) => {}
                None => pairs.push((from, to)),
            }
        }
        // The longest known indentation is the best start for what is indented even further.
        pairs.sort_by_key(|(from, _)| std::cmp::Reverse(from.len()));
        Some(Self { pairs })
    }

    /// Indents new text, which was written like the quoted lines, like the file.
    pub(crate) fn apply(&self, text: &str) -> String {
        text.split('\n').map(|line| self.line(line)).collect::<Vec<_>>().join("\n")
    }

    fn line(&self, line: &str) -> String {
        let own = indent(line);
        let content = &line[own.len()..];
        if content.is_empty() {
            return line.to_owned();
        }
        let known = self.pairs.iter().find_map(|(from, to)| {
            let further = own.strip_prefix(from)?;
            Some(format!("{to}{}", convert(further, from, to)))
        });
        // Less than any known indentation: the same amount is missing on both sides.
        let less = || {
            let (from, to) = self.pairs.last()?;
            match (to.strip_suffix(from), from.strip_suffix(to)) {
                (Some(added), _) => Some(format!("{added}{own}")),
                (None, Some(removed)) => Some(own.strip_prefix(removed).unwrap_or("").to_owned()),
                (None, None) => None,
            }
        };
        format!("{}{content}", known.or_else(less).unwrap_or_else(|| own.to_owned()))
    }
}

/// Writes further indentation with tabs if that is how spaces were replaced so far, and the other
/// way round.
fn convert(further: &str, from: &str, to: &str) -> String {
    let is_all = |text: &str, c| !text.is_empty() && text.chars().all(|other| other == c);
    if is_all(from, ' ') && is_all(to, '\t') && is_all(further, ' ') {
        let width = (from.len() / to.len()).max(1);
        return "\t".repeat(further.len().div_ceil(width));
    }
    if is_all(from, '\t') && is_all(to, ' ') && is_all(further, '\t') {
        return " ".repeat(further.len() * (to.len() / from.len()).max(1));
    }
    further.to_owned()
}

fn indent(line: &str) -> &str {
    &line[..line.len() - line.trim_start().len()]
}

/// Returns the lines of the file that look most like what was quoted, with their numbers.
pub(crate) fn closest(text: &str, old: &str) -> Option<String> {
    // One telling line is enough to find the place.
    let quoted: Vec<&str> = old.lines().collect();
    let (nth, telling) =
        quoted.iter().enumerate().max_by_key(|(_, line)| line.trim().chars().count())?;
    let wanted = pairs(telling);
    let lines: Vec<&str> = text.lines().collect();
    let likeness = |line: &str| {
        let own = pairs(line);
        let shared = own.iter().filter(|pair| wanted.contains(pair)).count();
        2 * 1000 * shared / (own.len() + wanted.len()).max(1)
    };
    let (best, like) = lines
        .iter()
        .enumerate()
        .map(|(at, line)| (at, likeness(line)))
        .max_by_key(|(at, like)| (*like, std::cmp::Reverse(*at)))?;
    if like < 400 {
        return None;
    }
    let first = best.saturating_sub(nth.min(1));
    let shown = lines.iter().enumerate().skip(first).take(3);
    let shown: Vec<String> = shown.map(|(at, line)| format!("{}: {line}", at + 1)).collect();
    Some(shown.join("\n"))
}

/// Returns the neighbouring characters of a line, a measure of likeness that is cheap.
fn pairs(line: &str) -> Vec<(char, char)> {
    let line = line.trim();
    // Lines of generated files can be endless; their beginnings tell enough.
    let mut pairs: Vec<_> = line.chars().zip(line.chars().skip(1)).take(200).collect();
    pairs.sort_unstable();
    pairs.dedup();
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reindented(quoted: &[&str], lines: &[&str], text: &str) -> Option<String> {
        Some(Reindent::between(quoted, lines)?.apply(text))
    }

    #[test]
    fn new_text_moves_with_the_old() {
        let moved =
            reindented(&["a {", "  b", "}"], &["    a {", "      b", "    }"], "x {\n    y\n\n}");
        assert_eq!(moved.as_deref(), Some("    x {\n        y\n\n    }"));
        let back = reindented(&["    a", "      b"], &["a", "  b"], "    x\n      y\n  z");
        assert_eq!(back.as_deref(), Some("x\n  y\nz"));
    }

    #[test]
    fn less_than_any_known_indentation_moves_too() {
        assert_eq!(reindented(&["  b"], &["    b"], "a\n  b").as_deref(), Some("  a\n    b"));
    }

    #[test]
    fn spaces_become_tabs_where_the_file_has_tabs() {
        let tabs = reindented(&["    a", "        b"], &["\ta", "\t\tb"], "    x\n            y");
        assert_eq!(tabs.as_deref(), Some("\tx\n\t\t\ty"));
    }

    #[test]
    fn a_crooked_match_cannot_be_reindented() {
        assert_eq!(reindented(&["a", "b"], &["  a", "    b"], "x"), None);
    }

    #[test]
    fn each_pass_forgives_what_it_says() {
        let passes = |line: &str, quoted: &str| {
            Pass::ALL.into_iter().find(|pass| pass.matches(&[line], &[quoted]))
        };
        assert_eq!(passes("a b", "a b"), Some(Pass::Exact));
        assert_eq!(passes("a b ", "a b"), Some(Pass::TrailingSpace));
        assert_eq!(passes("  a b", "a b "), Some(Pass::Indentation));
        assert_eq!(passes("a \u{2013} \u{201c}b\u{201d}", "a - \"b\""), Some(Pass::Typography));
        assert_eq!(passes("a  b", "a b"), None);
        let crooked: (&[&str], &[&str]) = (&["  a", "    b"], &["a", "b"]);
        let found = Pass::ALL.into_iter().find(|pass| pass.matches(crooked.0, crooked.1));
        assert_eq!(found, Some(Pass::Space));
    }
}
