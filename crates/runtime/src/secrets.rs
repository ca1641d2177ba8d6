//! What is known to be secret before anything is read: keys, and what `.env` files of the project hold.

use std::fs;
use std::path::Path;

use bowline_agent::{Redaction, looks_secret, names_secret};
use bowline_llm::Secret;

use crate::error::ConfigError;
use crate::project;
use crate::provider;
use crate::runtime::Runtime;

/// A file that is longer is none of settings.
const LONGEST: u64 = 1 << 20;

/// Endings of files that say what settings there are, without the settings.
const EXAMPLES: &[&str] = &["example", "sample", "template", "dist", "defaults"];

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
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let ending = name.strip_prefix(".env.");
        let is_settings = ending.is_some_and(|ending| !EXAMPLES.contains(&ending));
        // What is no file, or grows without end, is not read.
        let is_file = |metadata: fs::Metadata| metadata.is_file() && metadata.len() <= LONGEST;
        (name == ".env" || name == ".envrc" || is_settings)
            && fs::metadata(entry.path()).is_ok_and(is_file)
    });
    let mut paths: Vec<_> = files.map(|entry| entry.path()).collect();
    paths.sort();
    paths
        .iter()
        .filter_map(|path| fs::read_to_string(path).ok())
        .flat_map(|text| read(&text))
        .collect()
}

/// Reads the secrets among the settings of a `.env` file.
fn read(text: &str) -> Vec<(String, Secret)> {
    let setting = |line: &str| {
        let line = line.trim();
        let line = line.strip_prefix("export ").unwrap_or(line).trim_start();
        let (name, value) = line.split_once('=')?;
        let (name, value) = (name.trim(), value.trim());
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
        let quoted = ['"', '\'', '`']
            .into_iter()
            .find_map(|quote| value.strip_prefix(quote)?.split_once(quote).map(|(value, _)| value));
        let bare = value.split_once(" #").map_or(value, |(value, _)| value).trim_end();
        let value = quoted.unwrap_or(bare);
        let is_secret = !name.is_empty() && name.chars().all(is_name) && looks_secret(name, value);
        is_secret.then(|| (name.to_owned(), Secret::from(value)))
    };
    text.lines().filter_map(setting).collect()
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
}
