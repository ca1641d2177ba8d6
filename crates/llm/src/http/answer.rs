//! The answer to a request, read within limits of time and size.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use reqwest::Response;
use reqwest::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderName, LOCATION};
use tokio::time::timeout;

use super::{causes, retry_after, silence};
use crate::{ErrorKind, ModelError};

/// How much of the body of an error is read, in bytes.
const ERROR_BODY_LIMIT: usize = 64 << 10;

/// How long the body of an error is read; its status came before.
const ERROR_BODY_WAIT: Duration = Duration::from_secs(5);

/// How long an answer that is one document may be, in bytes.
const DOCUMENT_LIMIT: usize = 64 << 20;

/// The answer to a request, of which the body is still to come.
#[derive(Debug)]
pub(crate) struct Answer {
    response: Response,
    idle_timeout: Duration,
}

impl Answer {
    /// Takes an answer if it may be that of a model.
    pub(super) async fn accept(
        response: Response,
        idle_timeout: Duration,
    ) -> Result<Self, ModelError> {
        let answer = Self { response, idle_timeout };
        let status = answer.response.status();
        if !status.is_success() {
            return Err(answer.into_error().await);
        }
        if let Some(encoding) = answer.encoding() {
            let message = format!("the answer is encoded as {encoding}, which was not asked for");
            let error = ModelError::new(ErrorKind::Decode, message);
            return Err(ModelError { status: Some(status.as_u16()), ..error });
        }
        Ok(answer)
    }

    /// Tells whether the answer says that it is one JSON document.
    pub(crate) fn is_json(&self) -> bool {
        self.is_of("application/json")
    }

    /// Returns the next bytes of the body, or `None` at its proper end.
    pub(crate) async fn chunk(&mut self) -> Result<Option<Bytes>, ModelError> {
        match timeout(self.idle_timeout, self.response.chunk()).await {
            Ok(Ok(chunk)) => Ok(chunk),
            Ok(Err(error)) => Err(ModelError::new(ErrorKind::Incomplete, causes(error))),
            Err(_) => Err(silence(self.idle_timeout)),
        }
    }

    /// Reads the whole body, of which `first` has come already.
    pub(crate) async fn document(mut self, first: Option<Bytes>) -> Result<Vec<u8>, ModelError> {
        let mut body = Vec::new();
        let mut next = first;
        while let Some(chunk) = next {
            body.extend_from_slice(&chunk);
            if body.len() > DOCUMENT_LIMIT {
                let message = format!("answer longer than {DOCUMENT_LIMIT} bytes");
                return Err(ModelError::new(ErrorKind::Decode, message));
            }
            next = self.chunk().await?;
        }
        Ok(body)
    }

    async fn into_error(mut self) -> ModelError {
        let status = self.response.status();
        let asked = retry_after::retry_after(self.response.headers(), SystemTime::now());
        let location = self.header(&LOCATION).map(str::to_owned);
        let body = if self.encoding().is_none() { self.beginning().await } else { Vec::new() };
        let mut error = ModelError::from_answer(status.as_u16(), &body);
        error.retry_after = asked.max(error.retry_after);
        if let Some(location) = location.filter(|_| status.is_redirection()) {
            // A query may hold a key.
            let place = location.split(['?', '#']).next().unwrap_or_default();
            error.message = format!("the address redirects to {place}, which is not followed");
        }
        if error.message.is_empty() {
            error.message = status.canonical_reason().unwrap_or_default().to_owned();
        }
        error
    }

    /// Reads as much of the body as tells what is wrong. What breaks off or takes too long is left:
    /// the status says enough.
    async fn beginning(&mut self) -> Vec<u8> {
        let mut body = Vec::new();
        let read = async {
            while body.len() < ERROR_BODY_LIMIT
                && let Ok(Some(chunk)) = self.chunk().await
            {
                body.extend_from_slice(&chunk);
            }
        };
        let _ = timeout(ERROR_BODY_WAIT, read).await;
        body.truncate(ERROR_BODY_LIMIT);
        body
    }

    /// Returns how the body is compressed, if it is.
    fn encoding(&self) -> Option<&str> {
        self.header(&CONTENT_ENCODING).filter(|encoding| !matches!(*encoding, "" | "identity"))
    }

    fn is_of(&self, kind: &str) -> bool {
        let said = self.header(&CONTENT_TYPE).map(str::trim_start).unwrap_or_default();
        said.get(..kind.len()).is_some_and(|said| said.eq_ignore_ascii_case(kind))
    }

    fn header(&self, name: &HeaderName) -> Option<&str> {
        self.response.headers().get(name)?.to_str().ok()
    }
}
