//! The escapes in `$'...'`.

/// Decodes the text after `$'` up to its closing quote. Returns it and the bytes that it took.
/// `None` if it does not end, or if what bash makes of it is no text or depends on the locale.
pub(super) fn decode(text: &str) -> Option<(String, usize)> {
    let mut bytes = Vec::new();
    let mut at = 0;
    loop {
        let byte = *text.as_bytes().get(at)?;
        match byte {
            b'\'' => {
                let value = String::from_utf8(bytes).ok()?;
                // These are bash's own marks, or end the text.
                let is_plain = !value.contains(['\0', '\u{1}', '\u{7f}']);
                return is_plain.then_some((value, at + 1));
            }
            b'\\' => at += 1 + escaped(text.get(at + 1..)?, &mut bytes)?,
            _ => {
                bytes.push(byte);
                at += 1;
            }
        }
    }
}

/// Decodes what follows a backslash. Returns the bytes that it took.
fn escaped(text: &str, bytes: &mut Vec<u8>) -> Option<usize> {
    let byte = *text.as_bytes().first()?;
    let simple = match byte {
        b'a' => 7,
        b'b' => 8,
        b'e' | b'E' => 27,
        b'f' => 12,
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'v' => 11,
        b'\\' | b'\'' | b'"' | b'?' => byte,
        b'0'..=b'7' => return number(text, 0, 3, 8, bytes),
        b'x' => return number(text, 1, 2, 16, bytes),
        b'u' => return character(text, 4, bytes),
        b'U' => return character(text, 8, bytes),
        // Control characters have rules of their own; anything else is kept with its backslash.
        b'c' => return None,
        _ => {
            bytes.push(b'\\');
            return Some(0);
        }
    };
    bytes.push(simple);
    Some(1)
}

fn digits(text: &str, from: usize, most: usize, radix: u32) -> Option<(u32, usize)> {
    let is_digit = |byte: &&u8| char::from(**byte).is_digit(radix);
    let length = text.as_bytes()[from..].iter().take(most).take_while(is_digit).count();
    let value = u32::from_str_radix(text.get(from..from + length)?, radix).ok()?;
    Some((value, from + length))
}

fn number(text: &str, from: usize, most: usize, radix: u32, bytes: &mut Vec<u8>) -> Option<usize> {
    let (value, taken) = digits(text, from, most, radix)?;
    bytes.push(u8::try_from(value & 0xff).ok()?);
    Some(taken)
}

fn character(text: &str, most: usize, bytes: &mut Vec<u8>) -> Option<usize> {
    let (value, taken) = digits(text, 1, most, 16)?;
    // Beyond ASCII it depends on the locale.
    let character = char::from_u32(value).filter(char::is_ascii)?;
    bytes.push(u8::try_from(character).ok()?);
    Some(taken)
}
