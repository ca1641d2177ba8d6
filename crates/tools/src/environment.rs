//! The environment of commands: what they need and nothing else.

use std::ffi::OsString;
use std::path::PathBuf;

/// The variables that commands get.
///
/// A command sees what is on a list of names that tools need, never what looks like a key: whoever
/// controls the model's input could otherwise have it printed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Environment {
    variables: Vec<(String, String)>,
}

/// Names that commands get.
///
/// `XDG_RUNTIME_DIR`, `DBUS_SESSION_BUS_ADDRESS` and `SSH_AUTH_SOCK` are not among them: they hold
/// no secret, but they lend the user's authority and ways out of the process tree.
const NAMES: &[&str] = &[
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LANGUAGE",
    "TERM",
    "TMPDIR",
    "TZ",
    "HOSTNAME",
    "CI",
    "CARGO_HOME",
    "CARGO_TARGET_DIR",
    "CARGO_INCREMENTAL",
    "CARGO_BUILD_JOBS",
    "CARGO_NET_OFFLINE",
    "RUSTUP_HOME",
    "RUSTUP_TOOLCHAIN",
    "RUSTFLAGS",
    "RUSTC_WRAPPER",
    "RUST_BACKTRACE",
    "SCCACHE_DIR",
    "CC",
    "CXX",
    "AR",
    "LD",
    "CFLAGS",
    "CXXFLAGS",
    "CPPFLAGS",
    "LDFLAGS",
    "CMAKE_PREFIX_PATH",
    "PKG_CONFIG_PATH",
    "LD_LIBRARY_PATH",
    "LIBRARY_PATH",
    "CPATH",
    "LIBCLANG_PATH",
    "GOPATH",
    "GOROOT",
    "GOBIN",
    "GOCACHE",
    "GOMODCACHE",
    "GOFLAGS",
    "GOPROXY",
    "GOTOOLCHAIN",
    "JAVA_HOME",
    "JDK_HOME",
    "MAVEN_HOME",
    "M2_HOME",
    "GRADLE_HOME",
    "GRADLE_USER_HOME",
    "ANDROID_HOME",
    "ANDROID_SDK_ROOT",
    "NODE_PATH",
    "NODE_OPTIONS",
    "NODE_ENV",
    "NVM_DIR",
    "NVM_BIN",
    "PNPM_HOME",
    "YARN_CACHE_FOLDER",
    "NPM_CONFIG_CACHE",
    "NPM_CONFIG_PREFIX",
    "BUN_INSTALL",
    "DENO_DIR",
    "DENO_INSTALL",
    "VIRTUAL_ENV",
    "PYTHONPATH",
    "PYTHONHOME",
    "PYENV_ROOT",
    "UV_CACHE_DIR",
    "PIP_CACHE_DIR",
    "CONDA_PREFIX",
    "CONDA_DEFAULT_ENV",
    "CONDA_EXE",
    "GEM_HOME",
    "GEM_PATH",
    "BUNDLE_PATH",
    "RBENV_ROOT",
    "COMPOSER_HOME",
    "DOTNET_ROOT",
    "NUGET_PACKAGES",
    "NIX_PATH",
    "NIX_PROFILES",
    "NIX_SSL_CERT_FILE",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "ALL_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "all_proxy",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_STATE_HOME",
    "XDG_DATA_DIRS",
    "ASDF_DIR",
    "ASDF_DATA_DIR",
    "MISE_DATA_DIR",
    "SOURCE_DATE_EPOCH",
];

/// What the name of a variable that passes may not contain.
const SECRETS: &[&str] =
    &["KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL", "COOKIE", "PRIVATE"];

impl Environment {
    /// Takes from all variables of a process those that commands may see.
    ///
    /// A variable whose name or content is no UTF-8, whose name looks like that of a key, or whose
    /// content is an address with a password in it is left out.
    pub fn allowed(variables: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        let text = |(name, value): (OsString, OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        let mut kept = Self::default();
        for (name, value) in variables.into_iter().filter_map(text) {
            let is_listed = NAMES.contains(&name.as_str()) || name.starts_with("LC_");
            if is_listed && Self::may_pass(&name, &value) {
                kept.set(&name, &value);
            }
        }
        kept
    }

    /// Tells whether neither the name nor the content of a variable tells of a secret.
    pub fn may_pass(name: &str, value: &str) -> bool {
        !looks_secret(name) && !has_password(value)
    }

    /// Keeps those variables whose names are to be kept.
    pub fn retain(&mut self, is_kept: impl Fn(&str) -> bool) {
        self.variables.retain(|(name, _)| is_kept(name));
    }

    /// Sets a variable, whatever its name: for what the user asks for by name.
    pub fn set(&mut self, name: &str, value: &str) {
        match self.variables.iter_mut().find(|(known, _)| known == name) {
            Some((_, present)) => value.clone_into(present),
            None => self.variables.push((name.to_owned(), value.to_owned())),
        }
    }

    /// Returns a variable.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.variables.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Returns all variables.
    pub fn variables(&self) -> &[(String, String)] {
        &self.variables
    }

    /// Returns where a program is, if it is on the path.
    pub fn program(&self, name: &str) -> Option<PathBuf> {
        let path = self.get("PATH").unwrap_or_default();
        // What is relative would depend on where a command runs.
        let folders = path.split(':').filter(|folder| folder.starts_with('/'));
        let mut programs = folders.map(|folder| PathBuf::from(folder).join(name));
        programs.find(|program| program.is_file())
    }

    /// Returns the program that runs commands: bash, or where there is none, sh.
    pub fn shell(&self) -> PathBuf {
        let path = self.get("PATH").unwrap_or_default();
        let folders = ["/bin", "/usr/bin"].into_iter().chain(path.split(':'));
        let candidates = folders.filter(|folder| folder.starts_with('/'));
        let mut shells = candidates.map(|folder| PathBuf::from(folder).join("bash"));
        shells.find(|shell| shell.is_file()).unwrap_or_else(|| "/bin/sh".into())
    }
}

/// Tells whether a variable's name suggests that its content must not be seen.
fn looks_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    SECRETS.iter().any(|secret| name.contains(secret))
}

/// Tells whether a value holds `scheme://user:password@host`.
fn has_password(value: &str) -> bool {
    value.split("://").skip(1).any(|rest| {
        let authority = rest.split(['/', ',', '|']).next().unwrap_or_default();
        authority.contains('@')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(variables: &[(&str, &str)]) -> Vec<(String, String)> {
        let variables = variables.iter().map(|(name, value)| (name.into(), value.into()));
        Environment::allowed(variables).variables
    }

    #[test]
    fn only_what_tools_need_passes() {
        let given = [
            ("PATH", "/bin"),
            ("LC_ALL", "C.UTF-8"),
            ("CARGO_HOME", "/c"),
            ("OPENAI_API_KEY", "sk-1"),
            ("GITHUB_TOKEN", "gh"),
            ("LC_SECRET", "x"),
            ("BASH_ENV", "/tmp/x"),
            ("SOMETHING", "else"),
        ];
        let kept = allowed(&given);
        let names: Vec<&str> = kept.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["PATH", "LC_ALL", "CARGO_HOME"]);
    }

    #[test]
    fn an_address_with_a_password_does_not_pass() {
        assert_eq!(allowed(&[("HTTPS_PROXY", "http://me:secret@proxy:3128")]), []);
        assert_eq!(allowed(&[("HTTPS_PROXY", "http://proxy:3128")]).len(), 1);
        assert_eq!(allowed(&[("GOPROXY", "https://a.example,https://t0k@b.example")]), []);
    }
}
