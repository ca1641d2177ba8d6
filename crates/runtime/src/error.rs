//! What can be wrong with what the user says.

use std::path::PathBuf;

/// A configuration that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A file could not be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A file could not be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A file says something that cannot be.
    #[error("{}: {what}", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// What is wrong, with the line.
        what: String,
    },
    /// A variable of the environment says something that cannot be.
    #[error("{name}: {what}")]
    Variable {
        /// The variable.
        name: String,
        /// What is wrong.
        what: String,
    },
    /// A profile is none.
    #[error("profile {name:?}: {what}")]
    Profile {
        /// Its name.
        name: String,
        /// What is wrong.
        what: String,
    },
    /// An assignment on the command line says something that cannot be.
    #[error("-c {assignment}: {what}")]
    Flag {
        /// The key of the assignment; its value may be a secret.
        assignment: String,
        /// What is wrong.
        what: String,
    },
    /// Several things are wrong in one place, in the order in which they stand there.
    #[error("{}", lines(.0))]
    Several(Vec<Self>),
    /// The layers make no sense together.
    #[error("configuration: {0}")]
    Layers(String),
    /// There is no place for the user's files.
    #[error("cannot tell where your files are: set HOME or BOWLINE_HOME")]
    NoHome,
    /// No model was named, and none was found.
    #[error(
        "no model: name one with --model provider/model, or `model` in {}, or set \
         ANTHROPIC_API_KEY or OPENAI_API_KEY, or start a local server such as Ollama{note}",
        config.display()
    )]
    NoModel {
        /// The user's configuration file.
        config: PathBuf,
        /// What else there is to know.
        note: String,
    },
    /// There is no such agent.
    #[error("there is no agent {name:?}{what}")]
    UnknownAgent {
        /// The name.
        name: String,
        /// What is probably meant, or where it is.
        what: String,
    },
    /// A model's name is none.
    #[error("model {0:?} has no provider: write it provider/model")]
    ModelName(String),
    /// There is no such provider.
    #[error("unknown provider {name:?}; configure [providers.{name}], or {meant}")]
    UnknownProvider {
        /// The name.
        name: String,
        /// What is probably meant, or all there are.
        meant: String,
    },
    /// A tool cannot be made as it is configured.
    #[error("tool {name:?}: {what}")]
    Tool {
        /// The tool.
        name: String,
        /// What is wrong.
        what: String,
    },
    /// A provider cannot be used as it is configured.
    #[error("provider {name:?}: {what}")]
    Provider {
        /// The provider.
        name: String,
        /// What is wrong, and what to do.
        what: String,
    },
    /// The key of a provider is missing.
    #[error("no API key for provider {name:?}: {how}")]
    NoKey {
        /// The provider.
        name: String,
        /// How to give one.
        how: String,
    },
    /// The tools do not go together.
    #[error(transparent)]
    Tools(#[from] bowline_agent::tool::ToolboxError),
    /// A model could not be fetched.
    #[error("{0}")]
    Model(String),
    /// A limit cannot be kept.
    #[error("{0}")]
    Limit(String),
}

impl ConfigError {
    /// Takes several things that are wrong apart: each is told on a line of its own.
    pub fn each(self) -> Vec<Self> {
        match self {
            Self::Several(errors) => errors,
            one => vec![one],
        }
    }
}

fn lines(errors: &[ConfigError]) -> String {
    errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}
