//! Playing a recording back.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use futures::stream;
use serde_json::Value;

use super::format::{self, Asked, Exchange};
use super::{RecordingError, difference};
use crate::{ErrorKind, Model, ModelError, ModelInfo, ModelStream, Request, StreamEvent};

/// A model that answers as was recorded.
///
/// Nothing is waited for: a recorded wait is told and over. A recording that was dropped in the
/// middle ends with [`ErrorKind::Incomplete`] where it was dropped. Clones share what is left.
#[derive(Debug, Clone)]
pub struct Replayed(Arc<Recording>);

/// Which recorded answer belongs to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Matching {
    /// That of the same request: the first that is left, so that agents who talk at the same time
    /// find their own. A request that was not recorded is an error that shows the first difference.
    Strict,
    /// The next one, whatever is asked.
    Order,
}

#[derive(Debug)]
struct Recording {
    path: PathBuf,
    info: ModelInfo,
    matching: Matching,
    count: usize,
    left: Mutex<Vec<Exchange>>,
}

impl Replayed {
    /// Reads a recording.
    ///
    /// # Errors
    /// If there is none at `path`.
    pub fn open(path: &Path, matching: Matching) -> Result<Self, RecordingError> {
        let (header, exchanges) = format::read(path)?;
        Ok(Self(Arc::new(Recording {
            path: path.to_owned(),
            info: header.info,
            matching,
            count: exchanges.len(),
            left: Mutex::new(exchanges),
        })))
    }

    /// Returns how many recorded answers were not asked for yet.
    pub fn remaining(&self) -> usize {
        self.0.left.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}

impl Model for Replayed {
    fn info(&self) -> &ModelInfo {
        &self.0.info
    }

    fn stream(&self, request: Request) -> ModelStream {
        let recording = Arc::clone(&self.0);
        let events = stream::once(async move { stream::iter(recording.answer(&request)) });
        Box::pin(futures::StreamExt::flatten(events))
    }
}

impl Recording {
    fn answer(&self, request: &Request) -> Vec<Result<StreamEvent, ModelError>> {
        let exchange = match self.take(request) {
            Ok(exchange) => exchange,
            Err(why) => {
                let message = format!("{}: {why}", self.path.display());
                return vec![Err(ModelError::new(ErrorKind::InvalidRequest, message))];
            }
        };
        let is_whole = matches!(exchange.events.last(), Some(StreamEvent::Done(_)));
        let dropped = || ModelError::new(ErrorKind::Incomplete, "the recording was dropped here");
        let error = exchange.error.or_else(|| (!is_whole).then(dropped));
        exchange.events.into_iter().map(Ok).chain(error.map(Err)).collect()
    }

    /// Takes the answer to a request from those that are left.
    fn take(&self, request: &Request) -> Result<Exchange, String> {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(next) = left.first() else {
            return Err(format!("all {} recorded answers were given already", self.count));
        };
        let place = match self.matching {
            Matching::Order => 0,
            Matching::Strict => {
                let asked = value(&Asked::of(request));
                let is_meant = |exchange: &Exchange| value(&exchange.request) == asked;
                left.iter().position(is_meant).ok_or_else(|| {
                    let difference = difference::first(&value(&next.request), &asked);
                    let (n, difference) = (next.n, difference.unwrap_or_default());
                    format!("this was not recorded; next is request {n}: {difference}")
                })?
            }
        };
        Ok(left.remove(place))
    }
}

fn value(asked: &Asked) -> Value {
    // What was read from JSON, or is made of texts and numbers, can be written.
    serde_json::to_value(asked).unwrap_or_default()
}
