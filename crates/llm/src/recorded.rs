//! Real traffic, recorded once and played back in tests.
//!
//! [`Recorded`] writes what is asked and answered to a file; [`Replayed`] reads it and answers the
//! same, without network, key or time:
//!
//! ```
//! use bowline_llm::recorded::{Matching, Recorded, Replayed};
//! use bowline_llm::scripted::{Reply, ScriptedModel};
//! use bowline_llm::{Message, Model, Request};
//! use futures::StreamExt;
//!
//! # let folder = std::env::temp_dir().join(format!("bowline-recorded-{}", std::process::id()));
//! # std::fs::create_dir_all(&folder)?;
//! # let path = folder.join("greeting.jsonl");
//! # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
//! let request = Request {
//!     messages: [Message::user("Hi").into()].into_iter().collect(),
//!     ..Request::default()
//! };
//!
//! // Once, by hand: the real model. Its key cannot get into the file.
//! let real = ScriptedModel::new([Reply::text("Hello!")]);
//! let recorded = Recorded::create(real, &path, &["sk-the-key".into()])?;
//! let told: Vec<_> = recorded.stream(request.clone()).collect().await;
//!
//! // In every test since: the file.
//! let replayed = Replayed::open(&path, Matching::Strict)?;
//! let again: Vec<_> = replayed.stream(request).collect().await;
//! assert_eq!(told, again);
//! assert_eq!(replayed.remaining(), 0);
//! # std::fs::remove_dir_all(&folder)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # The file
//!
//! Lines of JSON. The first names the version and the model; each further one is a request with the
//! events that answered it, in order, and the error if it failed. A line is written when its answer
//! ends, and `n` counts requests as they began, so that agents who talk at the same time are kept
//! apart. HTTP headers are not seen here, so none are written. A request is written whole, the
//! history with it; what names the session to a provider's cache is left out.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::{fmt, mem};

use futures::{StreamExt, stream};

use crate::{ErrorKind, Model, ModelError, ModelInfo, ModelStream, Request, Secret, StreamEvent};

mod difference;
mod format;
mod redact;
mod replay;

pub use format::RecordingError;
use format::{Asked, Exchange, Header};
use redact::Redact;
pub use replay::{Matching, Replayed};

/// A model whose traffic is written to a file.
///
/// Put it around the client itself to record every attempt, or around [`Retry`](crate::Retry) to
/// record what an agent sees. A request whose stream is dropped is recorded as far as it came. If
/// the file cannot be written the request fails.
pub struct Recorded<M> {
    model: M,
    tape: Arc<Tape>,
}

impl<M: Model> Recorded<M> {
    /// Begins a recording in place of what was at `path`.
    ///
    /// No secret of `secrets` gets into the file, wherever it stands: in a tool's result, in an
    /// answer, or split over the pieces of one. Other forms of a secret, such as its base64, are not
    /// recognised.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn create(model: M, path: &Path, secrets: &[Secret]) -> io::Result<Self> {
        let tape = Tape {
            file: Mutex::new(File::create(path)?),
            redact: Redact::new(secrets),
            begun: AtomicU64::new(0),
        };
        tape.write(&Header::of(model.info()))?;
        Ok(Self { model, tape: Arc::new(tape) })
    }
}

impl<M: fmt::Debug> fmt::Debug for Recorded<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorded").field("model", &self.model).finish_non_exhaustive()
    }
}

impl<M: Model> Model for Recorded<M> {
    fn info(&self) -> &ModelInfo {
        self.model.info()
    }

    fn stream(&self, request: Request) -> ModelStream {
        let take = Take {
            tape: Arc::clone(&self.tape),
            exchange: Exchange {
                n: 0,
                request: Asked::of(&request),
                events: Vec::new(),
                error: None,
            },
            state: State::Unsent,
        };
        let start = (self.model.stream(request), take);
        Box::pin(stream::unfold(start, async |(mut events, mut take)| {
            take.begin();
            let event = events.next().await;
            let event = take.keep(event)?;
            Some((event, (events, take)))
        }))
    }
}

/// The file that is written.
struct Tape {
    file: Mutex<File>,
    redact: Redact,
    begun: AtomicU64,
}

impl Tape {
    fn write(&self, line: &impl serde::Serialize) -> io::Result<()> {
        let mut line = self.redact.line(serde_json::to_string(line)?);
        line.push('\n');
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.write_all(line.as_bytes())
    }
}

/// One exchange that is being recorded.
struct Take {
    tape: Arc<Tape>,
    exchange: Exchange,
    state: State,
}

#[derive(PartialEq)]
enum State {
    Unsent,
    Running,
    Written,
}

impl Take {
    fn begin(&mut self) {
        if self.state == State::Unsent {
            self.exchange.n = self.tape.begun.fetch_add(1, Ordering::Relaxed) + 1;
            self.state = State::Running;
        }
    }

    /// Keeps what came; with the end, the exchange is written.
    fn keep(
        &mut self,
        event: Option<Result<StreamEvent, ModelError>>,
    ) -> Option<Result<StreamEvent, ModelError>> {
        let is_end = match &event {
            Some(Ok(event)) => {
                self.exchange.events.push(event.clone());
                matches!(event, StreamEvent::Done(_))
            }
            Some(Err(error)) => {
                self.exchange.error = Some(error.clone());
                true
            }
            None => true,
        };
        match if is_end { self.write() } else { Ok(()) } {
            Ok(()) => event,
            Err(error) => {
                let message = format!("cannot write the recording: {error}");
                Some(Err(ModelError::new(ErrorKind::InvalidRequest, message)))
            }
        }
    }

    fn write(&mut self) -> io::Result<()> {
        if mem::replace(&mut self.state, State::Written) != State::Running {
            return Ok(());
        }
        self.tape.redact.deltas(&mut self.exchange.events);
        self.tape.write(&self.exchange)
    }
}

impl Drop for Take {
    fn drop(&mut self) {
        // Nobody is left to be told of a failure.
        let _ = self.write();
    }
}
