//! Models in this process, through llama.cpp.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bowline_llm::ModelInfo;
use bowline_local::pull::{self, DEFAULT, Source};
use bowline_local::{Config, LocalModel, Way};

use super::{Embedded, PROVIDER, Pull, Pulled};

pub(super) const IS_BUILT_IN: bool = true;

pub(super) fn models(folder: &Path) -> Vec<String> {
    let mut names = pull::kept(folder);
    // What somebody pulled on purpose goes before the demonstration.
    names.sort_by_key(|name| is_tiny(name));
    names
}

pub(super) fn is_tiny(model: &str) -> bool {
    model == DEFAULT.name
}

pub(super) fn open(name: &str, folder: &Path, info: ModelInfo) -> Result<Embedded, String> {
    let path = find(name, folder)?;
    let model = LocalModel::open(&path, Config { info, threads: None });
    let model = model.map_err(|error| error.message)?;
    let in_lines = match model.way() {
        Way::Lines => true,
        Way::Template => false,
    };
    Ok(Embedded { model: Arc::new(model), in_lines })
}

/// Finds the file of a model by its name, the beginning of it, or its path.
fn find(name: &str, folder: &Path) -> Result<PathBuf, String> {
    if name.contains('/') {
        return Ok(name.into());
    }
    let name = name.strip_suffix(".gguf").unwrap_or(name);
    let kept = pull::kept(folder);
    let is_meant = |kept: &&String| {
        kept.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name))
    };
    let exact = kept.iter().find(|kept| *kept == name);
    let mut meant = kept.iter().filter(is_meant);
    match (exact, meant.next(), meant.next()) {
        (Some(name), ..) | (None, Some(name), None) => Ok(pull::path(folder, name)),
        (None, Some(one), Some(other)) => {
            Err(format!("{name:?} may be {one} or {other}; write more of the name"))
        }
        (None, None, _) if kept.is_empty() => Err(format!(
            "no model is kept here; get the small one with `bowline model pull`, or any GGUF with \
             `bowline model pull PATH|URL`, or name a file: {PROVIDER}//path/to/model.gguf"
        )),
        (None, None, _) => Err(format!("there is no {name:?}; there is {}", kept.join(", "))),
    }
}

pub(super) async fn pull(
    wanted: Pull<'_>,
    progress: &mut (dyn FnMut(u64, Option<u64>) + Send),
) -> Result<Pulled, String> {
    let Pull { source, sha256, folder, proxy } = wanted;
    let source = match source {
        Some(source) => Source::parse(source).map_err(|error| error.to_string())?,
        None => Source::Package(DEFAULT),
    };
    let sha256 = sha256.map(str::to_owned);
    let pull = pull::Pull { source, sha256, folder, proxy };
    let pulled = pull::pull(&pull, progress).await.map_err(|error| error.to_string())?;
    let pull::Pulled { name, path, bytes, sha256, was_there } = pulled;
    Ok(Pulled { model: format!("{PROVIDER}/{name}"), path, bytes, sha256, was_there })
}
