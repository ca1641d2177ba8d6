//! Variables in what is said of a server.

/// Looks up a variable.
pub(super) type Lookup<'a> = &'a dyn Fn(&str) -> Option<&'a str>;

/// Replaces `${VAR}` and `${VAR:-default}`; everything else stays as it is.
///
/// # Errors
/// If a variable without a default is not set.
pub(super) fn expand(text: &str, lookup: Lookup<'_>) -> Result<String, String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        out.push_str(before);
        match after.split_once('}').and_then(|(inside, behind)| Some((reference(inside)?, behind)))
        {
            Some(((name, default), behind)) => {
                match lookup(name).or(default) {
                    Some(value) => out.push_str(value),
                    None => return Err(format!("the variable {name} is not set")),
                }
                rest = behind;
            }
            None => {
                out.push_str("${");
                rest = after;
            }
        }
    }
    out.push_str(rest);
    Ok(out)
}

/// Returns the variables that a text names.
pub(super) fn variables(text: &str) -> Vec<&str> {
    let after = text.split("${").skip(1);
    after.filter_map(|after| Some(reference(after.split_once('}')?.0)?.0)).collect()
}

/// Reads what stands between the braces: a name, and what counts where it is not set.
fn reference(inside: &str) -> Option<(&str, Option<&str>)> {
    let (name, default) = match inside.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (inside, None),
    };
    let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    is_name.then_some((name, default))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn variables_are_replaced_and_everything_else_stays() {
        let lookup = |name: &str| (name == "TOKEN").then_some("t${X}");
        let expanded = |text: &str| expand(text, &lookup);
        assert_eq!(expanded("Bearer ${TOKEN}!").unwrap(), "Bearer t${X}!");
        assert_eq!(expanded("${HOST:-a:-b}:${PORT:-}").unwrap(), "a:-b:");
        assert_eq!(expanded("$5 $TOKEN ${} ${1} ${").unwrap(), "$5 $TOKEN ${} ${1} ${");
        assert_eq!(expanded("${NO}").unwrap_err(), "the variable NO is not set");
        assert_eq!(variables("${A} ${B:-x} ${-}"), ["A", "B"]);
    }
}
