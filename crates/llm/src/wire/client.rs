//! A model behind a server: sending, reading, waiting and giving up.

use std::collections::{VecDeque, hash_map::RandomState};
use std::fmt;
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::stream;
use tokio::time::timeout;

use super::{Codec, Decode};
use crate::http::{Answer, Endpoint, Transport};
use crate::{ErrorKind, Model, ModelError, ModelInfo, ModelStream, Request, StreamEvent, sse};

/// How long a complete reply waits for its usage and the end marker.
const USAGE_WAIT: Duration = Duration::from_secs(5);

/// How long a complete reply waits for the end of the body, after which the connection can serve
/// the next request.
const CLOSE_WAIT: Duration = Duration::from_millis(50);

/// A model behind a server that speaks the wire of `C`.
///
/// Each wire has its own name for its client, such as [`chat::Client`](crate::chat::Client), and
/// its own way to make it.
pub struct Client<C> {
    info: ModelInfo,
    connection: Arc<Connection<C>>,
}

/// What all exchanges of one client have in common.
pub(crate) struct Connection<C> {
    pub(crate) transport: Transport,
    pub(crate) endpoint: Endpoint,
    pub(crate) codec: C,
}

impl<C: Codec> Client<C> {
    /// Makes a client. Nothing is sent before a stream is polled.
    pub(crate) fn over(info: ModelInfo, connection: Connection<C>) -> Self {
        Self { info, connection: Arc::new(connection) }
    }
}

impl<C> fmt::Debug for Client<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("info", &self.info)
            .field("endpoint", &self.connection.endpoint)
            .finish_non_exhaustive()
    }
}

impl<C: Codec> Model for Client<C> {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn stream(&self, request: Request) -> ModelStream {
        let exchange = Exchange {
            connection: Arc::clone(&self.connection),
            stage: Stage::Unsent(request),
            events: VecDeque::new(),
        };
        Box::pin(stream::unfold(Box::new(exchange), async |mut exchange| {
            let event = exchange.next().await?;
            Some((event, exchange))
        }))
    }
}

/// One request and its answer.
struct Exchange<C: Codec> {
    connection: Arc<Connection<C>>,
    stage: Stage<C::Decoder>,
    events: VecDeque<StreamEvent>,
}

enum Stage<D> {
    Unsent(Request),
    Reading(Box<Reading<D>>),
    Over,
}

/// A streamed answer in the middle.
struct Reading<D> {
    answer: Answer,
    lines: sse::Decoder,
    decoder: D,
}

impl<C: Codec> Exchange<C> {
    async fn next(&mut self) -> Option<Result<StreamEvent, ModelError>> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Some(Ok(event));
            }
            // What fails below leaves the exchange over.
            let step = match std::mem::replace(&mut self.stage, Stage::Over) {
                Stage::Unsent(request) => self.send(request).await,
                Stage::Reading(reading) => self.read(reading).await,
                Stage::Over => return None,
            };
            if let Err(error) = step {
                // What came before the failure is void, and its reader is about to learn it.
                self.events.clear();
                return Some(Err(error));
            }
        }
    }

    async fn send(&mut self, request: Request) -> Result<(), ModelError> {
        let Connection { transport, endpoint, codec } = &*self.connection;
        let body = codec.body(&request);
        let decoder = codec.decoder_for(&request, RandomState::new().build_hasher().finish());
        // The history may be large, and is not needed while the answer comes.
        drop(request);
        let mut answer = transport.post(endpoint, body).await?;
        let first = answer.chunk().await?;
        if codec.is_streaming() && is_stream(&answer, first.as_deref().unwrap_or_default()) {
            let lines = sse::Decoder::default();
            return self.take(Box::new(Reading { answer, lines, decoder }), first).await;
        }
        let response = decoder.whole(&answer.document(first).await?)?;
        self.events.push_back(StreamEvent::Done(Box::new(response)));
        Ok(())
    }

    async fn read(&mut self, mut reading: Box<Reading<C::Decoder>>) -> Result<(), ModelError> {
        let Reading { answer, decoder, .. } = &mut *reading;
        let chunk = if decoder.has_stopped() {
            // The reply is complete: a server that keeps the line open, or loses it, does not void
            // what it has said.
            timeout(USAGE_WAIT, answer.chunk()).await.unwrap_or(Ok(None)).unwrap_or(None)
        } else {
            answer.chunk().await.map_err(|error| decoder.fail(error))?
        };
        self.take(reading, chunk).await
    }

    /// Takes the next piece of a stream, or its end.
    async fn take(
        &mut self,
        mut reading: Box<Reading<C::Decoder>>,
        chunk: Option<Bytes>,
    ) -> Result<(), ModelError> {
        let Reading { lines, decoder, .. } = &mut *reading;
        let is_end = chunk.is_none();
        lines.push(&chunk.unwrap_or_default());
        let events = &mut self.events;
        loop {
            match lines.next_event() {
                Ok(Some(event)) => {
                    decoder.push(&event, &mut |event| events.push_back(event))?;
                }
                Ok(None) => break,
                Err(error) => {
                    let error = ModelError::new(ErrorKind::Decode, error.to_string());
                    return Err(decoder.fail(error));
                }
            }
        }
        if !is_end && !decoder.is_done() {
            self.stage = Stage::Reading(reading);
            return Ok(());
        }
        let Reading { mut answer, decoder, .. } = *reading;
        let response = decoder.finish()?;
        if !is_end {
            // Reading up to the end hands the connection back to the pool.
            let rest = async { while let Ok(Some(_)) = answer.chunk().await {} };
            let _ = timeout(CLOSE_WAIT, rest).await;
        }
        self.events.push_back(StreamEvent::Done(Box::new(response)));
        Ok(())
    }
}

/// Tells whether an answer that begins with `first` is a stream. Its bytes say more than its type:
/// servers that know no streams, and gateways with bad news, send documents under any type.
fn is_stream(answer: &Answer, first: &[u8]) -> bool {
    match first.trim_ascii_start() {
        [] => !answer.is_json(),
        first => !sse::is_document(first),
    }
}
