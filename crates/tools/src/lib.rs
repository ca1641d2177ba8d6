//! What touches the machine: commands and files.

mod bash;
mod environment;
mod excerpt;
pub mod process;
mod workspace;

pub use bash::{Bash, BashInput};
pub use environment::Environment;
pub use process::helper;
pub use workspace::Workspace;
