//! What is known to be secret before anything is read: keys, and what `.env` files of the project hold.

use std::fs;
use std::path::Path;

use bowline_agent::{Redaction, looks_secret, names_secret};
use bowline_llm::Secret;

use crate::error::ConfigError;
use crate::permission::holds_settings;
use crate::project;
use crate::provider;
use crate::runtime::Runtime;

/// A file that is longer is none of settings.
const LONGEST: u64 = 1 << 20;

impl Runtime {
    /// Makes what hides all that is known to be secret, and these keys.
    pub(crate) fn redaction_with(
        &self,
        keys: impl IntoIterator<Item = (String, Secret)>,
    ) -> Result<Redaction, ConfigError> {
        let own = provider::secrets(&self.config, &self.environment).into_iter();
        let own =
            own.chain(keys).chain(self.configured()?.secrets).chain(self.secrets_of_servers());
        let variables = self.environment.vars.iter();
        let variables =
            variables.filter(|(name, value)| names_secret(name) && looks_secret(name, value));
        let set = self.config.shell_environment.set.iter();
        let set = set.filter(|(name, value)| looks_secret(name, value));
        let variables =
            variables.chain(set).map(|(name, value)| (name.clone(), Secret::from(value.as_str())));
        let cwd = &self.environment.cwd;
        let root = project::git_root(cwd).filter(|root| root != cwd);
        let of_work = root.into_iter().chain([cwd.as_path()]).flat_map(of_folder);
        Ok(Redaction::new(own.chain(variables)).with_secrets_of_work(of_work))
    }
}

/// Returns the secrets in the `.env` files of a folder, with their names.
fn of_folder(folder: &Path) -> Vec<(String, Secret)> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let files = entries.filter_map(Result::ok).filter(|entry| {
        // What is no file, or grows without end, is not read.
        let is_file = |metadata: fs::Metadata| metadata.is_file() && metadata.len() <= LONGEST;
        holds_settings(&entry.file_name().to_string_lossy())
            && fs::metadata(entry.path()).is_ok_and(is_file)
    });
    let mut paths: Vec<_> = files.map(|entry| entry.path()).collect();
    paths.sort();
    paths
        .iter()
        .filter_map(|path| fs::read(path).ok())
        .flat_map(|text| read(&String::from_utf8_lossy(&text)))
        .collect()
}

/// A line of a value that is at least so long, in bytes, is not said by chance.
const LONG: usize = 20;

/// Reads the secrets among the settings of a `.env` file.
fn read(text: &str) -> Vec<(String, Secret)> {
    let mut found = Vec::new();
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        // A quote that is never closed, or by mistake, takes nothing away from the lines behind it.
        let rest = &text[at..];
        at += line.len();
        let Some((name, value)) = setting(line, rest) else { continue };
        found.extend(secrets_of(name, value).into_iter().map(|it| (name.to_owned(), it.into())));
    }
    found
}

/// Reads the name and the value of a line; `rest` is all text from the line on, for what is in quotes may
/// have several lines.
fn setting<'a>(line: &'a str, rest: &'a str) -> Option<(&'a str, &'a str)> {
    let line = line.trim();
    let line = line.strip_prefix("export ").unwrap_or(line).trim_start();
    let (name, value) = line.split_once('=')?;
    let (name, value) = (name.trim(), value.trim());
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    if name.is_empty() || !name.chars().all(is_name) {
        return None;
    }
    let (_, rest) = rest.split_once('=')?;
    let quoted = ['"', '\'', '`'].into_iter().find_map(|quote| {
        let (value, _) = rest.trim_start_matches(' ').strip_prefix(quote)?.split_once(quote)?;
        Some(value)
    });
    let bare = value.split_once(" #").map_or(value, |(value, _)| value).trim_end();
    Some((name, quoted.unwrap_or(bare)))
}

/// Returns what of a value is secret: itself, and of one in several lines, or with `\n` for their ends, its
/// long lines as well, for a tool may say one alone.
fn secrets_of(name: &str, value: &str) -> Vec<String> {
    let is_secret = |text: &str| looks_secret(name, text);
    let meant = value.replace("\\n", "\n");
    let lines: Vec<&str> = match meant.contains('\n') {
        true => meant.lines().map(str::trim).collect(),
        false => Vec::new(),
    };
    // What frames a key is the same in all of them.
    let is_told =
        |line: &&str| !line.starts_with("-----") && (line.len() >= LONG || is_secret(line));
    if !is_secret(value) && !lines.iter().any(|line| is_secret(line)) {
        return Vec::new();
    }
    let whole = std::iter::once(value.to_owned());
    let meant = Some(meant.clone()).filter(|meant| meant != value);
    whole.chain(meant).chain(lines.into_iter().filter(is_told).map(str::to_owned)).collect()
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn secrets_are_told_from_settings() {
        let text = "# comment\nexport API_TOKEN=\"correct horse battery\" # mine\n\
            DB_PASSWORD='hunter22'\nSESSION = s3ss10n-f0r-m3 # x\nPORT=8080\nDEBUG=true\n\
            HOST=db1.example.com\nREGION=eu-west-1\nMODEL=gpt-4o-mini\nVERSION=v20.11.0\n\
            DATA=/var/lib/data1/x\nURL=https://example.com/v1\nSECRET=short\n\
            API_KEY=changeme\nWITH=postgres://app:p4ssw0rd@db/x\nno setting\n=x1234567890\n";
        let found = read(text);
        let found: Vec<_> =
            found.iter().map(|(name, value)| (name.as_str(), value.expose())).collect();
        assert_eq!(
            found,
            [
                ("API_TOKEN", "correct horse battery"),
                ("DB_PASSWORD", "hunter22"),
                ("SESSION", "s3ss10n-f0r-m3"),
                ("WITH", "postgres://app:p4ssw0rd@db/x"),
            ]
        );
    }

    #[test]
    fn what_is_no_utf_8_takes_no_secrets_along_and_examples_hold_none() {
        let folder = tempfile::tempdir().unwrap();
        let put = |name: &str, text: &[u8]| fs::write(folder.path().join(name), text).unwrap();
        put(".env", b"# caf\xe9\nDB_PASSWORD=hunter22\n");
        put(".env.local.example", b"DB_PASSWORD=hunter33\n");
        put(".env.schema", b"DB_PASSWORD=hunter44\n");
        put(".env.local", b"DB_PASSWORD=hunter55\n");
        let found = of_folder(folder.path());
        let values: Vec<_> = found.iter().map(|(_, value)| value.expose()).collect();
        assert_eq!(values, ["hunter22", "hunter55"]);
    }

    #[test]
    fn of_a_value_in_several_lines_all_is_secret() {
        let text = "MULTI=\"line1secretvalueaaaa1\nline2secretvaluebbbb\n  tail\" # x\n\
            ESCAPED_KEY=\"-----BEGIN PRIVATE KEY-----\\nMIIEvQIBADANBgkqhkiG9w0\\n-----END PRIVATE KEY-----\"\n\
            NOTE='don\nDB_PASSWORD='hunter22'\nOPEN=\"never closed\nTEXT='two\nwords'\n";
        let found = read(text);
        let values = |of: &str| -> Vec<&str> {
            let own = found.iter().filter(|(name, _)| name == of);
            own.map(|(_, value)| value.expose()).collect()
        };
        assert_eq!(
            values("MULTI"),
            [
                "line1secretvalueaaaa1\nline2secretvaluebbbb\n  tail",
                "line1secretvalueaaaa1",
                "line2secretvaluebbbb",
            ]
        );
        let escaped = values("ESCAPED_KEY");
        assert!(escaped.contains(&"MIIEvQIBADANBgkqhkiG9w0"), "{escaped:?}");
        assert!(!escaped.contains(&"-----BEGIN PRIVATE KEY-----"));
        // What a stray quote holds together is not lost.
        assert_eq!(values("DB_PASSWORD"), ["hunter22"]);
        assert_eq!(values("TEXT"), ["two\nwords"]);
    }
}
