//! Characters written as names and numbers.

/// No name of an entity in the table, and no number that means a character, is longer.
const LONGEST: usize = 10;

const NAMES: &[(&str, &str)] = &[
    ("amp", "&"),
    ("lt", "<"),
    ("gt", ">"),
    ("quot", "\""),
    ("apos", "'"),
    ("nbsp", "\u{a0}"),
    ("ensp", " "),
    ("emsp", " "),
    ("thinsp", " "),
    ("shy", ""),
    ("zwnj", ""),
    ("zwj", "\u{200d}"),
    ("copy", "©"),
    ("reg", "®"),
    ("trade", "™"),
    ("hellip", "…"),
    ("mdash", "—"),
    ("ndash", "–"),
    ("lsquo", "‘"),
    ("rsquo", "’"),
    ("sbquo", "‚"),
    ("ldquo", "“"),
    ("rdquo", "”"),
    ("bdquo", "„"),
    ("laquo", "«"),
    ("raquo", "»"),
    ("lsaquo", "‹"),
    ("rsaquo", "›"),
    ("bull", "•"),
    ("middot", "·"),
    ("times", "×"),
    ("divide", "÷"),
    ("minus", "−"),
    ("plusmn", "±"),
    ("deg", "°"),
    ("micro", "µ"),
    ("para", "¶"),
    ("sect", "§"),
    ("dagger", "†"),
    ("cent", "¢"),
    ("pound", "£"),
    ("yen", "¥"),
    ("euro", "€"),
    ("larr", "←"),
    ("uarr", "↑"),
    ("rarr", "→"),
    ("darr", "↓"),
    ("harr", "↔"),
    ("rArr", "⇒"),
    ("infin", "∞"),
    ("ne", "≠"),
    ("le", "≤"),
    ("ge", "≥"),
    ("asymp", "≈"),
    ("frac12", "½"),
    ("sup2", "²"),
    ("sup3", "³"),
    ("check", "✓"),
    ("lbrace", "{"),
    ("rbrace", "}"),
    ("lbrack", "["),
    ("rbrack", "]"),
    ("lpar", "("),
    ("rpar", ")"),
    ("num", "#"),
    ("colon", ":"),
    ("comma", ","),
    ("period", "."),
    ("sol", "/"),
    ("lowbar", "_"),
    ("grave", "`"),
    ("Tab", "\t"),
    ("NewLine", "\n"),
    ("auml", "ä"),
    ("ouml", "ö"),
    ("uuml", "ü"),
    ("Auml", "Ä"),
    ("Ouml", "Ö"),
    ("Uuml", "Ü"),
    ("szlig", "ß"),
    ("agrave", "à"),
    ("aacute", "á"),
    ("acirc", "â"),
    ("aring", "å"),
    ("aelig", "æ"),
    ("ccedil", "ç"),
    ("egrave", "è"),
    ("eacute", "é"),
    ("ecirc", "ê"),
    ("euml", "ë"),
    ("iacute", "í"),
    ("ntilde", "ñ"),
    ("oacute", "ó"),
    ("ocirc", "ô"),
    ("oslash", "ø"),
    ("uacute", "ú"),
];

/// Replaces entities by what they stand for; what is none stays.
pub(super) fn decode(text: &str) -> String {
    let mut pieces = text.split('&');
    let mut decoded = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let end = piece.bytes().take(LONGEST + 1).position(|byte| byte == b';');
        let entity = end.and_then(|end| Some((meaning(piece.get(..end)?)?, piece.get(end + 1..)?)));
        match entity {
            Some((meaning, rest)) => {
                decoded.push_str(&meaning);
                decoded.push_str(rest);
            }
            None => {
                decoded.push('&');
                decoded.push_str(piece);
            }
        }
    }
    decoded
}

fn meaning(entity: &str) -> Option<String> {
    let Some(number) = entity.strip_prefix('#') else {
        let found = NAMES.iter().find(|(name, _)| *name == entity);
        return found.map(|(_, meaning)| (*meaning).to_owned());
    };
    let number = match number.strip_prefix(['x', 'X']) {
        Some(hex) => u32::from_str_radix(hex, 16).ok()?,
        None => number.parse().ok()?,
    };
    // A zero byte and numbers of no character stand for nothing that could be shown.
    let character = char::from_u32(number).filter(|c| *c != '\0');
    Some(character.unwrap_or(char::REPLACEMENT_CHARACTER).to_string())
}
