//! What runs look like to OpenTelemetry: spans and metrics by its conventions for generative AI.
//!
//! Spans are one more view of the events of a session ([`Spans`]): nothing in the loop knows of them.
//! [`Telemetry`] takes events, and a task of its own brings what follows from them to an OTLP receiver.
//! No agent ever waits for that, and none fails because of it.
//!
//! In reading order: [`Settings`], from the `OTEL_*` variables and `[trace]`; [`Spans`], from events to
//! spans; what is told of what is said; metrics, summed up from spans; the messages of OTLP, and the
//! task that sends them; [`Trace`], the middleware that lets an agent be told of.

mod content;
mod exporter;
mod message;
mod metrics;
mod otlp;
mod receiver;
mod settings;
mod span;
mod spans;
mod trace;

use bowline_agent::Redaction;
use bowline_agent::event::Event;
use bowline_llm::http::Proxy;

use crate::config::TraceConfig;

use exporter::Exporter;
use receiver::Receiver;

pub use settings::{Batch, Settings, Target};
pub use span::{Attributes, Moment, Operation, Parent, Span, SpanId, TraceId, Value};
pub use spans::Spans;
pub use trace::Trace;

/// Turns events into spans and metrics, and sends them.
#[derive(Debug)]
pub struct Telemetry {
    spans: Spans,
    exporter: Exporter,
}

impl Telemetry {
    /// Starts the task that sends; nothing is connected before there is something to tell. It must be
    /// called within a runtime of tokio.
    ///
    /// # Errors
    /// What is wrong with an address, a header or a proxy.
    pub fn start(
        settings: Settings,
        config: &TraceConfig,
        redaction: Redaction,
        proxy: &Proxy,
    ) -> Result<Self, String> {
        let spans = Spans::new(config.content(), config.compat, settings.parent, redaction);
        Ok(Self { spans, exporter: Exporter::start(settings, proxy)? })
    }

    /// Takes in an event that happens now.
    pub fn event(&mut self, event: &Event) {
        if let Some(span) = self.spans.event(event) {
            self.exporter.send(span);
        }
    }

    /// Takes in an event of the open run that another process has told of.
    pub fn recall(&mut self, event: &Event) {
        // Its span went out from there.
        let _ = self.spans.event(event);
    }

    /// Sends what is left, for three seconds at most, and returns what a person should know: that
    /// something did not arrive, and why.
    pub async fn close(self) -> Option<String> {
        self.exporter.close().await
    }
}

/// Asks whether a receiver takes what is sent to it, with a message that holds nothing; returns its
/// address, or what is wrong.
pub(crate) async fn probe(settings: &Settings, proxy: &Proxy) -> Result<String, String> {
    let mut addresses = Vec::new();
    if let Some(target) = &settings.traces {
        let receiver = Receiver::new(target.clone(), proxy)?;
        let told = receiver.tell(&otlp::ExportTraces::default()).await;
        told.map_err(|what| format!("{}: {what}", receiver.address()))?;
        addresses.push(receiver.address());
    }
    if let Some(target) = &settings.metrics {
        let receiver = Receiver::new(target.clone(), proxy)?;
        let told = receiver.tell(&otlp::ExportMetrics::default()).await;
        told.map_err(|what| format!("{}: {what}", receiver.address()))?;
        addresses.push(receiver.address());
    }
    Ok(addresses.join(", "))
}
