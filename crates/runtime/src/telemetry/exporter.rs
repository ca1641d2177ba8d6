//! The task that brings spans and metrics away, so that no agent waits for it.

use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, interval_at, timeout};

use bowline_llm::http::Proxy;

use super::message;
use super::metrics::Meters;
use super::receiver::Receiver;
use super::settings::{Batch, Settings};
use super::span::Span;

/// How long the end of a process waits for what was not sent yet.
const FAREWELL: Duration = Duration::from_secs(3);

/// Where finished spans go.
#[derive(Debug)]
pub(super) struct Exporter {
    queue: mpsc::Sender<Span>,
    // Spans that found no place in the queue.
    lost: usize,
    task: JoinSet<Sent>,
    address: String,
}

/// What became of what was to be sent.
#[derive(Debug, Default)]
struct Sent {
    lost: usize,
    failure: Option<String>,
}

/// The task.
struct Courier {
    traces: Option<Receiver>,
    metrics: Option<Receiver>,
    resource: Vec<(String, String)>,
    batch: Batch,
    began: Timestamp,
    waiting: Vec<Span>,
    meters: Meters,
    sent: Sent,
}

impl Exporter {
    /// Starts the task; it must be called within a runtime of tokio.
    pub(super) fn start(settings: Settings, proxy: &Proxy) -> Result<Self, String> {
        let receiver = |target: Option<_>| target.map(|at| Receiver::new(at, proxy)).transpose();
        let (traces, metrics) = (receiver(settings.traces)?, receiver(settings.metrics)?);
        let address = traces.as_ref().or(metrics.as_ref()).map(Receiver::address);
        let (queue, mail) = mpsc::channel(settings.batch.queue);
        let courier = Courier {
            traces,
            metrics,
            resource: settings.resource,
            batch: settings.batch,
            began: Timestamp::now(),
            waiting: Vec::new(),
            meters: Meters::default(),
            sent: Sent::default(),
        };
        let mut task = JoinSet::new();
        task.spawn(courier.work(mail, settings.metric_interval));
        Ok(Self { queue, lost: 0, task, address: address.unwrap_or_default() })
    }

    /// Hands over a span; if there is no room it is lost, and nobody waits.
    pub(super) fn send(&mut self, span: Span) {
        self.lost += usize::from(self.queue.try_send(span).is_err());
    }

    /// Sends what is left, and returns what a person should know: what was lost, and why.
    pub(super) async fn close(self) -> Option<String> {
        let Self { queue, lost, mut task, address } = self;
        drop(queue);
        let sent = match timeout(FAREWELL, task.join_next()).await {
            Ok(Some(Ok(sent))) => sent,
            Ok(Some(Err(_)) | None) => {
                Sent { lost: 0, failure: Some("the export broke off".to_owned()) }
            }
            Err(_) => Sent { lost: 0, failure: Some(format!("no answer within {FAREWELL:?}")) },
        };
        let lost = lost + sent.lost;
        let count = if lost == 0 { String::new() } else { format!(", {lost} span(s) lost") };
        match sent.failure {
            Some(failure) => Some(format!("traces did not reach {address}: {failure}{count}")),
            None if lost > 0 => Some(format!("traces came faster than {address} took them{count}")),
            None => None,
        }
    }
}

impl Courier {
    async fn work(mut self, mut mail: mpsc::Receiver<Span>, metric_interval: Duration) -> Sent {
        let every = |period| interval_at(Instant::now() + period, period);
        let (mut traces_due, mut metrics_due) = (every(self.batch.delay), every(metric_interval));
        loop {
            tokio::select! {
                span = mail.recv() => match span {
                    Some(span) => self.take(span).await,
                    None => break,
                },
                _ = traces_due.tick() => self.send_traces().await,
                _ = metrics_due.tick() => self.send_metrics().await,
            }
        }
        self.send_traces().await;
        self.send_metrics().await;
        self.sent
    }

    async fn take(&mut self, span: Span) {
        self.meters.record(&span);
        if self.traces.is_some() {
            self.waiting.push(span);
        }
        if self.waiting.len() >= self.batch.size {
            self.send_traces().await;
        }
    }

    async fn send_traces(&mut self) {
        let Some(receiver) = self.traces.as_ref().filter(|_| !self.waiting.is_empty()) else {
            return;
        };
        let message = message::traces(&self.resource, &self.waiting);
        if let Err(failure) = receiver.tell(&message).await {
            self.sent.lost += self.waiting.len();
            self.sent.failure.get_or_insert(failure);
        }
        self.waiting.clear();
    }

    async fn send_metrics(&mut self) {
        let Some(receiver) = self.metrics.as_ref().filter(|_| !self.meters.is_empty()) else {
            return;
        };
        let times = (self.began, Timestamp::now());
        let message = message::metrics(&self.resource, &self.meters, times);
        if let Err(failure) = receiver.tell(&message).await {
            self.sent.failure.get_or_insert(failure);
        }
    }
}
