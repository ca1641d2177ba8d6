//! What touches the machine and the world around it: the tools with which an agent runs commands,
//! reads, changes and finds files, reads the web, and speaks to a person.
//!
//! [`toolbox`] makes them for a [`Workspace`], all but [`Message`] and [`LoadSkill`], which not every agent
//! needs, and [`listed_toolbox`] those that an agent has only if it lists them. A program that does not
//! only try things out calls [`helper`] first thing in its `main`: commands are then started by a helper
//! process, which ends them with all they have started, whatever happens to the program (see [`process`]).
//!
//! Nothing here reads environment variables: what commands see is an [`Environment`] that the caller
//! makes. What a call may touch is decided before a tool runs, from what it declares to touch, and again by
//! a [`Guard`](guard::Guard) when it touches it.
//!
//! In reading order: `workspace`, `environment`; [`process`] (the helper, its commands, and what they are confined
//! to), `proxy` (the way out of a sandbox), `confined` (what a guard says of a command), `bash`,
//! `job`, `excerpt` (long outputs); `files` (what an agent knows of them, and safe writing), `text`
//! and `lines` (line ends, forgiving comparison), `read`, `write`, `edit`, `patch`; `search`
//! (`list`, `glob`, `grep`); `fetch`; `run` (programs without a shell), `git`; `notes`, `state` and
//! `tasks` (what agents share), `folder_lock`; `http` and `command` (tools that a configuration
//! describes), `configured` and `template` (what those share); [`mcp`] (tools of servers); `plan`, `ask` and `message` (what a
//! person sees); `skill`; [`undo`] (files as they were before); `schema` and `toolbox`.
//!
//! `examples/commands.rs` runs a command as an agent would.

#![deny(missing_docs)]

mod ask;
mod bash;
mod command;
mod configured;
mod confined;
mod edit;
mod environment;
mod excerpt;
mod fetch;
mod files;
mod folder_lock;
mod git;
pub mod guard;
mod http;
mod job;
mod lines;
pub mod mcp;
mod message;
mod notes;
mod patch;
mod plan;
pub mod process;
mod proxy;
mod read;
mod run;
mod schema;
mod search;
mod skill;
mod state;
mod tasks;
mod template;
mod text;
mod toolbox;
pub mod undo;
mod workspace;
mod write;

pub use ask::{AskUser, AskUserInput};
pub use bash::{Bash, BashInput};
pub use command::{CommandConfig, CommandLine, CommandTool};
pub use configured::Described;
pub use edit::{Edit, EditInput};
pub use environment::Environment;
pub use fetch::{Fetch, FetchConfig, FetchInput};
pub use git::{
    GitCommit, GitCommitInput, GitDiff, GitDiffInput, GitLog, GitLogInput, GitStatus,
    GitStatusInput,
};
pub use http::{HttpRequest, HttpTool};
pub use job::{Job, JobInput, Jobs, state_of};
pub use message::{Message, MessageInput};
pub use notes::{
    ListNotes, ListNotesInput, NotesPlace, ReadNote, ReadNoteInput, WriteNote, WriteNoteInput,
};
pub use patch::{ApplyPatch, ApplyPatchInput};
pub use plan::{UpdatePlan, UpdatePlanInput};
pub use process::helper;
pub use read::{Read, ReadInput};
pub use search::{Glob, GlobInput, Grep, GrepInput, List, ListInput};
pub use skill::{LoadSkill, LoadSkillInput, Skill};
pub use state::{
    GetState, GetStateInput, ListState, ListStateInput, SetState, SetStateInput, StatePlace,
};
pub use tasks::{
    CancelTask, CancelTaskInput, ClaimTask, ClaimTaskInput, CreateTask, CreateTaskInput, GetTask,
    GetTaskInput, ListTasks, ListTasksInput, UpdateTask, UpdateTaskInput, WatchTask,
    WatchTaskInput,
};
pub use template::{Template, plain};
pub use toolbox::{Editing, TOOLBOXES, listed_toolbox, small_toolbox, toolbox, tools_in};
pub use workspace::Workspace;
pub use write::{Write, WriteInput};
