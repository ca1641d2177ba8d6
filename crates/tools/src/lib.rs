//! What touches the machine: commands and files.

mod bash;
mod edit;
mod environment;
mod excerpt;
mod files;
mod lines;
mod patch;
pub mod process;
mod read;
mod text;
mod workspace;
mod write;

pub use bash::{Bash, BashInput};
pub use edit::{Edit, EditInput};
pub use environment::Environment;
pub use patch::{ApplyPatch, ApplyPatchInput};
pub use process::helper;
pub use read::{Read, ReadInput};
pub use workspace::Workspace;
pub use write::{Write, WriteInput};
