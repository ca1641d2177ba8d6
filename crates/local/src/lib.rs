//! A model in the process: any GGUF file, through llama.cpp.
//!
//! [`LocalModel`] is a [`Model`](bowline_llm::Model) like any other. How it talks depends on the
//! file, which says of itself ([`Header`]) whether it was trained to call tools:
//!
//! - One with a chat template that knows tools is given all of them in its own words, and what it
//!   writes after the beginning of a call is held to the grammar of the tools' schemas.
//! - Any other converses in plain lines, after eleven examples, with four tools that read and make
//!   files. Its calls are held to a grammar whose paths and texts are copied from the request.
//!
//! In both ways a call is always well-formed; whether it is the right one is up to the model. The
//! default model, [`pull::DEFAULT`], is a tiny one for demonstrations that really runs.
//!
//! In reading order: [`pull`] fetches files, `gguf` reads what they say of themselves, `engine` owns
//! the weights, `vocabulary` splits text into tokens, `lines` and `template` are the two ways to talk, `grammar` writes grammars.
#![deny(missing_docs)]

mod engine;
mod gguf;
mod grammar;
mod lines;
mod model;
pub mod pull;
mod template;
mod text;
mod vocabulary;

pub use gguf::Header;
pub use model::{Config, LINES_WINDOW, LocalModel, TEMPLATE_WINDOW, Way};
