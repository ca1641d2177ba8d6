//! A state that agents share: values by key.

use std::collections::BTreeMap;
use std::fs::Metadata;
use std::path::{Path, PathBuf};

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use bowline_agent::shared::Fold;
use bowline_agent::tool::{
    Access, Recovery, Tool, ToolContext, ToolError, ToolOutput, Toolbox, ToolboxError,
};

use crate::files::{self, Spot};
use crate::folder_lock::FolderLock;

/// The longest value, in bytes of JSON.
const MAX: usize = 64 * 1024;

/// Where a shared state is kept.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum StatePlace {
    /// In the session: all its agents see it, and nobody else.
    #[default]
    Session,
    /// In a file, for all sessions that use it.
    File(PathBuf),
}

/// Makes the tools of a shared state.
///
/// # Errors
/// None in practice: the names differ.
pub(crate) fn toolbox(place: &StatePlace) -> Result<Toolbox, ToolboxError> {
    Toolbox::default()
        .with(GetState(place.clone()))?
        .with(SetState(place.clone()))?
        .with(ListState(place.clone()))
}

/// The tool `shared_state_get`.
#[derive(Debug, Clone, Default)]
pub struct GetState(pub StatePlace);

/// Reads a value of the state that all agents share.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct GetStateInput {
    key: String,
}

/// The tool `shared_state_set`.
#[derive(Debug, Clone, Default)]
pub struct SetState(pub StatePlace);

/// Sets a value of the state that all agents share.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct SetStateInput {
    key: String,
    #[schemars(schema_with = "any_json")]
    value: Value,
}

/// The tool `shared_state_list`.
#[derive(Debug, Clone, Default)]
pub struct ListState(pub StatePlace);

/// Lists the keys of the state that all agents share.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ListStateInput {}

// A schema that is only `true` is refused by some providers.
fn any_json(_: &mut SchemaGenerator) -> Schema {
    schemars::json_schema!({ "description": "Any JSON." })
}

/// The values by key.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
struct State(BTreeMap<String, Value>);

/// A value that was set.
#[derive(Debug, Serialize, Deserialize)]
struct Set {
    key: String,
    value: Value,
}

impl Fold for State {
    const NAME: &'static str = "state";
    type Change = Set;

    fn apply(&mut self, Set { key, value }: Set) {
        self.0.insert(key, value);
    }
}

impl State {
    fn get(&self, key: &str) -> Result<String, ToolError> {
        if let Some(value) = self.0.get(key) {
            return Ok(value.to_string());
        }
        let near = files::nearest(key, self.0.keys().map(String::as_str));
        let hint = near.map_or_else(String::new, |near| format!("; did you mean {near:?}?"));
        Err(ToolError::Failed(format!("nothing is set for {key:?}{hint}")))
    }

    fn list(&self) -> String {
        serde_json::json!(self.0.keys().collect::<Vec<_>>()).to_string()
    }
}

impl StatePlace {
    fn access(&self, write: bool) -> Access {
        match self {
            Self::Session => Access::none(),
            Self::File(file) if write => Access::write(file.clone()),
            Self::File(file) => Access::read(file.clone()),
        }
    }

    fn read<R>(&self, cx: &ToolContext, look: impl FnOnce(&State) -> R) -> Result<R, ToolError> {
        match self {
            Self::Session => Ok(cx.shared::<State>().read(look)),
            Self::File(file) => load(file).map(|(state, _)| look(&state)),
        }
    }

    fn set(&self, cx: &ToolContext, set: Set) -> Result<(), ToolError> {
        match self {
            Self::Session => cx.shared::<State>().change(|_| Ok((Some(set), ()))),
            Self::File(file) => {
                let failed = |error| cannot("write", file, &error);
                let _lock =
                    FolderLock::take(file.parent().unwrap_or(Path::new("/"))).map_err(failed)?;
                let (mut state, existing) = load(file)?;
                state.apply(set);
                let text = serde_json::to_string_pretty(&state)
                    .map_err(|error| cannot("write", file, &error.into()))?;
                Spot::own(file)
                    .and_then(|spot| spot.replace(text.as_bytes(), existing.as_ref(), None))
                    .map_err(failed)
            }
        }
    }
}

fn load(file: &Path) -> Result<(State, Option<Metadata>), ToolError> {
    match files::read_own(file) {
        Ok((bytes, metadata)) => {
            let state = serde_json::from_slice(&bytes);
            let state = state.map_err(|error| cannot("read", file, &error.into()))?;
            Ok((state, Some(metadata)))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok((State::default(), None)),
        Err(error) => Err(cannot("read", file, &error)),
    }
}

fn cannot(what: &str, file: &Path, error: &std::io::Error) -> ToolError {
    ToolError::Failed(format!("cannot {what} the shared state in {}: {error}", file.display()))
}

impl Tool for GetState {
    const NAME: &'static str = "shared_state_get";
    type Input = GetStateInput;

    fn access(&self, _: &GetStateInput) -> Access {
        self.0.access(false)
    }

    fn recovery(&self, _: &GetStateInput) -> Recovery {
        Recovery::Rerun
    }

    async fn run(&self, input: GetStateInput, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        Ok(self.0.read(cx, |state| state.get(&input.key))??.into())
    }
}

impl Tool for SetState {
    const NAME: &'static str = "shared_state_set";
    type Input = SetStateInput;

    fn access(&self, _: &SetStateInput) -> Access {
        self.0.access(true)
    }

    // It may have been set by somebody else since.
    fn recovery(&self, _: &SetStateInput) -> Recovery {
        Recovery::Unknown
    }

    async fn run(&self, input: SetStateInput, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let SetStateInput { key, value } = input;
        if key.trim().is_empty() {
            return Err(ToolError::failed("a value needs a key"));
        }
        let size = value.to_string().len();
        if size > MAX {
            return Err(ToolError::Failed(format!(
                "the value has {size} bytes, more than the {MAX} that fit; write it to a file and share \
                 the path"
            )));
        }
        let said = format!("{key:?} is set");
        self.0.set(cx, Set { key, value })?;
        Ok(said.into())
    }
}

impl Tool for ListState {
    const NAME: &'static str = "shared_state_list";
    type Input = ListStateInput;

    fn access(&self, _: &ListStateInput) -> Access {
        self.0.access(false)
    }

    fn recovery(&self, _: &ListStateInput) -> Recovery {
        Recovery::Rerun
    }

    async fn run(&self, _: ListStateInput, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        Ok(self.0.read(cx, State::list)?.into())
    }
}
