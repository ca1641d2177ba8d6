//! The one place that says what a failure means.
//!
//! Facts go in (the HTTP status, the provider's codes, its words), an [`ErrorKind`] comes out. The
//! provider's own code beats the status where it is the more specific of the two: 429 stands for an
//! empty account as well. But no code makes a failure [transient](ErrorKind::is_transient) whose
//! status puts it down to the request: a gateway that answers 401 means it, whatever type of error
//! it names beside it, and a minute of waiting would end with the same 401.

use std::time::Duration;

use serde_json::Value;

use super::{ErrorKind, ModelError, wait};

/// How much of a provider's message is kept, in bytes.
const MESSAGE_LIMIT: usize = 2_000;

/// What a provider said about a failure, in whatever shape it said it.
#[derive(Debug, Default, PartialEq)]
struct Facts {
    status: Option<u16>,
    /// Codes and types, the most specific first.
    codes: Vec<String>,
    message: String,
    retry_after: Option<Duration>,
    /// Whether what may be used in a day is used up.
    is_spent: bool,
}

impl ModelError {
    /// Makes an error of an HTTP answer that is no success.
    pub(crate) fn from_answer(status: u16, body: &[u8]) -> Self {
        let mut facts = Facts::default();
        match serde_json::from_slice(body) {
            Ok(body) => facts.add_body(&body),
            Err(_) => facts.message = text_of_page(body),
        }
        facts.status = Some(status);
        facts.into_error()
    }

    /// Makes an error of a page that came where an answer was expected.
    pub(crate) fn from_page(body: &[u8]) -> Self {
        let message = format!("no answer of a model: {}", text_of_page(body));
        Self::new(ErrorKind::Decode, message)
    }

    /// Makes an error of the value of an `error` field in an answer that began as a success.
    pub(crate) fn from_error_field(error: &str) -> Self {
        let error = serde_json::from_str(error).unwrap_or_else(|_| error.into());
        let mut facts = Facts::default();
        facts.add(&error);
        // A gateway that had already sent its status puts the real one into the code.
        facts.status = facts
            .codes
            .iter()
            .find_map(|code| code.parse().ok().filter(|status| (400..600).contains(status)));
        facts.into_error()
    }
}

impl Facts {
    /// Adds what a whole body says.
    fn add_body(&mut self, body: &Value) {
        // Some servers wrap the one error into an array.
        let body = match body {
            Value::Array(items) => items.first().unwrap_or(body),
            body => body,
        };
        if let Some(error) = body.get("error").filter(|error| !error.is_null()) {
            self.add(error);
        }
        self.add(body);
    }

    /// Adds what one object says; what is known already is not replaced.
    fn add(&mut self, error: &Value) {
        // A gateway may put the whole answer that it got into a text, which says more than its own.
        for text in [Some(error), error.get("message")].into_iter().flatten() {
            if let Some(inner) = object_in(text) {
                self.add_body(&inner);
            }
        }
        let mut number = None;
        for key in ["code", "type", "status"] {
            match error.get(key) {
                Some(Value::String(code)) if !code.is_empty() && code != "error" => {
                    self.codes.push(code.clone());
                }
                Some(Value::Number(code)) => number = Some(code.to_string()),
                _ => {}
            }
        }
        // A number is the status once more; a name says more.
        self.codes.extend(number);
        for detail in error.get("details").and_then(Value::as_array).into_iter().flatten() {
            if let Some(Value::String(reason)) = detail.get("reason") {
                self.codes.insert(0, reason.clone());
            }
            self.retry_after = self.retry_after.max(wait::in_detail(detail));
            self.is_spent |= is_daily(detail);
        }
        if self.message.is_empty() {
            self.message = message_of(error);
        }
    }

    fn into_error(self) -> ModelError {
        let kind = self.kind();
        let asked = self.retry_after.max(wait::in_words(&self.message));
        let Self { status, codes, message, retry_after: _, is_spent: _ } = self;
        let error = ModelError::new(kind, cut(message, MESSAGE_LIMIT));
        ModelError { status, code: codes.into_iter().next(), retry_after: asked, ..error }
    }

    fn kind(&self) -> ErrorKind {
        if self.is_spent || says_spent(&self.message) {
            return ErrorKind::Quota;
        }
        let by_status = self.status.map(kind_of_status);
        let by_code = self.codes.iter().find_map(|code| kind_of_code(code));
        if by_code == Some(ErrorKind::RateLimited) && says_too_large_for_a_minute(&self.message) {
            return ErrorKind::ContextOverflow;
        }
        if let Some(kind) = by_code
            && (!kind.is_transient() || by_status.is_none_or(ErrorKind::is_transient))
        {
            return kind;
        }
        let may_be_overflow = matches!(self.status, None | Some(400 | 413 | 422 | 500));
        if may_be_overflow && says_overflow(&self.message) {
            return ErrorKind::ContextOverflow;
        }
        by_status
            .or_else(|| self.codes.iter().find_map(|code| kind_of_vague_code(code)))
            .unwrap_or(ErrorKind::Overloaded)
    }
}

/// Tells whether a detail of Google's names a quota of a day, for which no wait within a run is
/// long enough, whatever delay stands beside it.
fn is_daily(detail: &Value) -> bool {
    let violations = detail.get("violations").and_then(Value::as_array).into_iter().flatten();
    let quotas = violations.filter_map(|violation| violation.get("quotaId"));
    let limit = detail.get("metadata").and_then(|metadata| metadata.get("quota_limit"));
    quotas.chain(limit).filter_map(Value::as_str).any(|quota| quota.contains("PerDay"))
}

/// Reads codes and types that mean one thing whatever the status is.
fn kind_of_code(code: &str) -> Option<ErrorKind> {
    Some(match code.to_ascii_lowercase().as_str() {
        "insufficient_quota"
        | "insufficient_credits"
        | "insufficient_balance"
        | "billing_hard_limit_reached"
        | "billing_not_active"
        | "billing_error"
        | "exceeded_current_quota_error"
        | "payment_required" => ErrorKind::Quota,
        "context_length_exceeded"
        | "context_window_exceeded"
        | "model_context_window_exceeded"
        | "exceed_context_size_error"
        | "prompt_too_long" => ErrorKind::ContextOverflow,
        "rate_limit_exceeded"
        | "rate_limit_error"
        | "rate_limited"
        | "too_many_requests"
        | "resource_exhausted" => ErrorKind::RateLimited,
        "overloaded"
        | "overloaded_error"
        | "engine_overloaded"
        | "engine_overloaded_error"
        | "service_unavailable"
        | "service_unavailable_error"
        | "slow_down"
        | "unavailable" => ErrorKind::Overloaded,
        "timeout_error" | "request_timeout" | "deadline_exceeded" => ErrorKind::Timeout,
        "authentication_error"
        | "invalid_api_key"
        | "api_key_invalid"
        | "permission_error"
        | "permission_denied"
        | "unauthenticated"
        | "unauthorized" => ErrorKind::Auth,
        "not_found" | "not_found_error" | "model_not_found" => ErrorKind::NotFound,
        "content_filter"
        | "content_policy_violation"
        | "image_content_policy_violation"
        | "moderation_blocked" => ErrorKind::Refused,
        _ => return None,
    })
}

/// Reads types so general that any status says more than they do.
fn kind_of_vague_code(code: &str) -> Option<ErrorKind> {
    Some(match code {
        "invalid_request_error"
        | "bad_request"
        | "INVALID_ARGUMENT"
        | "FAILED_PRECONDITION"
        | "invalid_prompt"
        | "unsupported_image_media_type"
        | "empty_image_file"
        | "failed_to_download_image" => ErrorKind::InvalidRequest,
        // What can be wrong with an image has a dozen names.
        code if code.starts_with("invalid_image") || code.starts_with("image_") => {
            ErrorKind::InvalidRequest
        }
        "server_error" | "api_error" | "internal_server_error" | "internal_error" | "INTERNAL" => {
            ErrorKind::Overloaded
        }
        _ => return None,
    })
}

fn kind_of_status(status: u16) -> ErrorKind {
    match status {
        // 407 is the same from a proxy.
        401 | 403 | 407 => ErrorKind::Auth,
        402 => ErrorKind::Quota,
        // A redirect that was not followed leads to no address either.
        300..=399 | 404 | 410 => ErrorKind::NotFound,
        408 => ErrorKind::Timeout,
        429 => ErrorKind::RateLimited,
        // 409 is a lock that somebody else holds, 425 a request that came too early.
        409 | 425 => ErrorKind::Overloaded,
        // Google cancels what takes it too long; had we cancelled, nobody would read this.
        499 => ErrorKind::Overloaded,
        451 => ErrorKind::Refused,
        // What a server has not implemented it will not have implemented a second later.
        501 | 505 => ErrorKind::InvalidRequest,
        500.. => ErrorKind::Overloaded,
        _ => ErrorKind::InvalidRequest,
    }
}

/// Tells whether a message speaks of an empty account. Anthropic calls that an invalid request, Z.ai
/// and Google a rate limit.
fn says_spent(message: &str) -> bool {
    const PHRASES: [&str; 6] = [
        "credit balance is too low",
        "credits are depleted",
        "insufficient balance",
        "insufficient credits",
        "reached your specified api usage limits",
        "used all available credits",
    ];
    let message = message.to_ascii_lowercase();
    PHRASES.iter().any(|phrase| message.contains(phrase))
}

/// Tells whether a message complains of a request longer than the context window.
fn says_overflow(message: &str) -> bool {
    const PHRASES: [&str; 14] = [
        "context length",
        "context limit",
        "context_length",
        "context window",
        "context size",
        "maximum context",
        "maximum model length",
        "maximum prompt length",
        "prompt exceeds max length",
        "prompt is too long",
        "exceeded model token limit",
        "input is too long",
        "input token count",
        "reduce the length of the messages",
    ];
    let message = message.to_ascii_lowercase();
    PHRASES.iter().any(|phrase| message.contains(phrase))
}

/// Tells whether a request alone has more tokens than a minute allows, so that only a shorter one
/// can pass. OpenAI and Groq call that a rate limit too.
fn says_too_large_for_a_minute(message: &str) -> bool {
    message.to_ascii_lowercase().starts_with("request too large")
}

/// Reads a text that is an object in JSON.
fn object_in(text: &Value) -> Option<Value> {
    let text = text.as_str()?.trim_start();
    if text.starts_with('{') { serde_json::from_str(text).ok() } else { None }
}

/// Finds the words in an error, in the shapes that servers use.
fn message_of(error: &Value) -> String {
    if let Value::String(message) = error {
        return message.clone();
    }
    let said = ["message", "detail", "error", "msg"]
        .iter()
        .find_map(|key| error.get(key).filter(|value| !value.is_null()));
    let mut message = match said {
        Some(Value::String(message)) => message.clone(),
        Some(Value::Array(items)) => items.iter().map(message_of).collect::<Vec<_>>().join("; "),
        Some(other @ Value::Object(_)) => match message_of(other) {
            empty if empty.is_empty() => other.to_string(),
            message => message,
        },
        Some(other) => other.to_string(),
        None => String::new(),
    };
    // OpenRouter says "Provider returned error" and hides what it was one level below.
    if let Some(Value::String(raw)) = error.get("metadata").and_then(|data| data.get("raw")) {
        message = format!("{message}: {raw}");
    }
    message
}

/// Makes one line of a body that is no JSON: plain text or the page of a proxy.
fn text_of_page(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let mut plain = String::new();
    let mut is_tag = false;
    for c in text.chars().take(4_000) {
        match c {
            '<' => is_tag = true,
            '>' if is_tag => {
                is_tag = false;
                plain.push(' ');
            }
            c if !is_tag => plain.push(c),
            _ => {}
        }
    }
    cut(plain.split_whitespace().collect::<Vec<_>>().join(" "), 300)
}

fn cut(mut text: String, limit: usize) -> String {
    if text.len() > limit {
        text.truncate(text.floor_char_boundary(limit));
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn answer(status: u16, body: &str) -> (ErrorKind, Option<String>, String) {
        let error = ModelError::from_answer(status, body.as_bytes());
        assert_eq!(error.status, Some(status));
        (error.kind, error.code, error.message)
    }

    #[test]
    fn a_status_alone_decides() {
        for (status, kind) in [
            (302, ErrorKind::NotFound),
            (400, ErrorKind::InvalidRequest),
            (401, ErrorKind::Auth),
            (402, ErrorKind::Quota),
            (403, ErrorKind::Auth),
            (404, ErrorKind::NotFound),
            (408, ErrorKind::Timeout),
            (409, ErrorKind::Overloaded),
            (413, ErrorKind::InvalidRequest),
            (422, ErrorKind::InvalidRequest),
            (425, ErrorKind::Overloaded),
            (499, ErrorKind::Overloaded),
            (429, ErrorKind::RateLimited),
            (500, ErrorKind::Overloaded),
            (501, ErrorKind::InvalidRequest),
            (502, ErrorKind::Overloaded),
            (503, ErrorKind::Overloaded),
            (504, ErrorKind::Overloaded),
            (529, ErrorKind::Overloaded),
        ] {
            assert_eq!(answer(status, "").0, kind, "{status}");
        }
    }

    #[test]
    fn the_code_of_the_provider_beats_the_status() {
        let overloaded = r#"{"type":"error","error":{"type":"overloaded_error","message":"x"}}"#;
        assert_eq!(answer(429, overloaded).0, ErrorKind::Overloaded);
        let quota =
            r#"{"error":{"message":"x","type":"insufficient_quota","code":"insufficient_quota"}}"#;
        assert_eq!(answer(429, quota).0, ErrorKind::Quota);
        let limit = r#"{"error":{"message":"x","type":"tokens","code":"rate_limit_exceeded"}}"#;
        assert_eq!(answer(503, limit).0, ErrorKind::RateLimited);
        let empty = r#"{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low to access the Anthropic API."}}"#;
        assert_eq!(answer(400, empty).0, ErrorKind::Quota);
        let key = r#"[{"error":{"code":400,"message":"no","status":"INVALID_ARGUMENT","details":[{"reason":"API_KEY_INVALID"}]}}]"#;
        assert_eq!(answer(400, key).0, ErrorKind::Auth);
    }

    #[test]
    fn a_general_type_does_not_beat_the_status() {
        let body = r#"{"error":{"code":"forbidden","message":"Forbidden","type":"invalid_request_error"}}"#;
        assert_eq!(
            answer(403, body),
            (ErrorKind::Auth, Some("forbidden".to_owned()), "Forbidden".to_owned())
        );
    }

    #[test]
    fn an_overflow_is_told_by_code_or_words() {
        let words = [
            "This model's maximum context length is 8192 tokens. However, your messages resulted in 9001 tokens.",
            "prompt is too long: 210000 tokens > 200000 maximum",
            "input length and `max_tokens` exceed context limit: 190000 + 32000 > 200000",
            "the request exceeds the available context size (4096 tokens), try increasing it",
            "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
            "The decoder prompt (length 2136) is longer than the maximum model length of 2048.",
            "the input length exceeds the context length",
            "Your request exceeded model token limit: 131072",
        ];
        for words in words {
            let body = serde_json::json!({"error": {"message": words}}).to_string();
            assert_eq!(answer(400, &body).0, ErrorKind::ContextOverflow, "{words}");
            assert_eq!(answer(429, &body).0, ErrorKind::RateLimited, "{words}");
        }
        let code = r#"{"error":{"message":"no","code":"context_length_exceeded"}}"#;
        assert_eq!(answer(400, code).0, ErrorKind::ContextOverflow);
    }

    #[test]
    fn an_empty_account_is_told_by_words() {
        for (status, body) in [
            (
                429,
                r#"{"error":{"type":"rate_limit_error","code":"1113","message":"[1113][Insufficient balance or no resource package. Please recharge.]"}}"#,
            ),
            (
                429,
                r#"{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","message":"Your prepayment credits are depleted."}}"#,
            ),
            (
                400,
                r#"{"type":"error","error":{"type":"invalid_request_error","message":"You have reached your specified API usage limits. You will regain access on 2026-12-01."}}"#,
            ),
        ] {
            assert_eq!(answer(status, body).0, ErrorKind::Quota, "{body}");
        }
        // Google says this of every limit.
        let minute = r#"{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","message":"You exceeded your current quota, please check your plan and billing details."}}"#;
        assert_eq!(answer(429, minute).0, ErrorKind::RateLimited);
    }

    #[test]
    fn an_answer_within_an_answer_is_read() {
        let inner = serde_json::json!({"error": {
            "code": 429, "status": "RESOURCE_EXHAUSTED", "message": "slowly",
            "details": [{"retryDelay": "5s"}],
        }})
        .to_string();
        for body in [
            serde_json::json!({"error": {"message": inner, "code": 500, "status": "x"}}),
            serde_json::json!({"error": inner}),
            serde_json::json!({"message": inner}),
        ] {
            let error = ModelError::from_answer(500, body.to_string().as_bytes());
            assert_eq!((error.kind, &*error.message), (ErrorKind::RateLimited, "slowly"), "{body}");
            assert_eq!(error.retry_after, Some(Duration::from_secs(5)));
        }
    }

    #[test]
    fn the_words_tell_how_long_to_wait() {
        let body = r#"{"code":"rate_limit_exceeded","message":"Rate limit reached for m. Please try again in 1.5s. Visit x"}"#;
        let error = ModelError::from_error_field(body);
        assert_eq!(error.retry_after, Some(Duration::from_millis(1_500)));
        let error = ModelError::from_answer(429, body.as_bytes());
        assert_eq!(error.retry_after, Some(Duration::from_millis(1_500)));
    }

    #[test]
    fn every_shape_of_a_message_is_read() {
        for body in [
            r#"{"error":{"message":"no"}}"#,
            r#"{"error":"no"}"#,
            r#"{"message":"no"}"#,
            r#"{"detail":"no"}"#,
            r#"{"detail":[{"msg":"no","loc":[]}]}"#,
            r#"{"object":"error","message":{"detail":[{"msg":"no"}]}}"#,
            "no",
            "<html><body>\n<h1>no</h1></body></html>",
        ] {
            assert_eq!(answer(400, body).2, "no", "{body}");
        }
    }

    #[test]
    fn google_says_how_long_to_wait_and_which_quota_is_used_up() {
        let body = |quota: &str| {
            serde_json::json!([{"error": {
                "code": 429, "status": "RESOURCE_EXHAUSTED", "message": "m",
                "details": [
                    {"@type": "type.googleapis.com/google.rpc.QuotaFailure",
                     "violations": [{"quotaId": quota}]},
                    {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "36.5s"},
                ],
            }}])
        };
        let minute = body("GenerateRequestsPerMinutePerProjectPerModel-FreeTier");
        let error = ModelError::from_answer(429, minute.to_string().as_bytes());
        assert_eq!(error.kind, ErrorKind::RateLimited);
        assert_eq!(error.code.as_deref(), Some("RESOURCE_EXHAUSTED"));
        assert_eq!(error.retry_after, Some(Duration::from_millis(36_500)));
        let day = body("GenerateRequestsPerDayPerProjectPerModel-FreeTier");
        let error = ModelError::from_error_field(&day[0]["error"].to_string());
        assert_eq!((error.kind, error.status), (ErrorKind::Quota, Some(429)));
    }

    #[test]
    fn a_long_page_is_cut() {
        let (_, _, message) = answer(502, &"é ".repeat(10_000));
        assert!(message.len() < 400);
        assert!(message.ends_with('…'));
    }

    #[test]
    fn an_error_inside_a_stream_brings_its_status_along() {
        let error = ModelError::from_error_field(
            r#"{"code":502,"message":"Provider returned error","metadata":{"raw":"boom"}}"#,
        );
        assert_eq!((error.kind, error.status), (ErrorKind::Overloaded, Some(502)));
        assert_eq!(error.message, "Provider returned error: boom");
        let error =
            ModelError::from_error_field(r#"{"message":"no","type":"invalid_request_error"}"#);
        assert_eq!((error.kind, error.status), (ErrorKind::InvalidRequest, None));
        assert_eq!(ModelError::from_error_field("\"no\"").kind, ErrorKind::Overloaded);
    }
}
