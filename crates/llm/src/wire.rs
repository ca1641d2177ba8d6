//! What all wires share: the exchange with a server, and the traits its pure parts plug into.
//!
//! A wire is a [`Codec`], which writes requests, and its [`Decode`], which reads one reply. Both
//! take bytes and give bytes or events and know nothing of sockets; [`Client`] is the one place
//! that sends, reads, waits and gives up. What several wires write alike lies below in `ids`, `json`,
//! `media` and `shape`.

use crate::{ErrorKind, ModelError, Request, Response, StreamEvent, sse};

mod client;
mod config;
pub(crate) mod ids;
pub(crate) mod json;
pub(crate) mod media;
pub(crate) mod shape;

pub use client::Client;
pub(crate) use client::Connection;
pub use config::Config;

/// The pure part of a wire: requests into bytes, answers into events.
pub trait Codec: Send + Sync + 'static {
    /// What reads one reply.
    type Decoder: Decode + Send + 'static;

    /// Joins a request from the encodings of its parts. The messages come last, so that the body
    /// of the next request begins with the same bytes.
    fn body(&self, request: &Request) -> Vec<u8>;

    /// Makes the decoder for one reply.
    ///
    /// A call without an id gets one made of `salt`, the reply's id and the call's place. Replies
    /// must not share a salt: the ids of replies repeat on servers that make none themselves.
    fn decoder(&self, salt: u64) -> Self::Decoder;

    /// Makes the decoder for the reply to a request, where it matters to which.
    fn decoder_for(&self, request: &Request, salt: u64) -> Self::Decoder {
        let _ = request;
        self.decoder(salt)
    }

    /// Tells whether answers are asked for as streams.
    fn is_streaming(&self) -> bool;
}

/// The pure reader of one reply.
///
/// Every error carries what the provider had already billed.
pub trait Decode: Sized {
    /// Takes one event of a stream and hands out what it brings.
    ///
    /// # Errors
    /// If the event is none of this wire, or reports an error of the provider.
    fn push(
        &mut self,
        event: &sse::Event<'_>,
        emit: &mut dyn FnMut(StreamEvent),
    ) -> Result<(), ModelError>;

    /// Reads an answer that came as one document.
    ///
    /// # Errors
    /// If the document is no answer, or reports an error of the provider.
    fn document(self, body: &[u8]) -> Result<Response, ModelError>;

    /// Reads an answer that came as a whole: a document, or a stream where none was asked for.
    ///
    /// # Errors
    /// If either fails.
    fn whole(mut self, body: &[u8]) -> Result<Response, ModelError> {
        match body.trim_ascii_start() {
            [b'{' | b'[', ..] => return self.document(body),
            // Most often the address is wrong, and what lies there is a site.
            _ if sse::is_document(body) => return Err(self.fail(ModelError::from_page(body))),
            _ => {}
        }
        let mut lines = sse::Decoder::default();
        lines.push(body);
        loop {
            match lines.next_event() {
                Ok(Some(event)) => self.push(&event, &mut drop)?,
                Ok(None) => return self.finish(),
                Err(error) => {
                    let error = ModelError::new(ErrorKind::Decode, error.to_string());
                    return Err(self.fail(error));
                }
            }
        }
    }

    /// Tells whether the reply is complete, so that nothing but its usage can still come.
    fn has_stopped(&self) -> bool;

    /// Tells whether the end marker came and nothing more will be taken.
    fn is_done(&self) -> bool;

    /// Ends the reply.
    ///
    /// # Errors
    /// If the reply broke off.
    fn finish(self) -> Result<Response, ModelError>;

    /// Adds to an error what the provider already billed.
    fn fail(&self, error: ModelError) -> ModelError;
}
