//! From spans to metrics: tokens, durations and cost, summed up since the process began.

use std::collections::BTreeMap;

use super::span::{Operation, Span, Value};

/// Bounds of token counts, as the conventions advise.
const TOKENS: &[f64] = &[
    1.0, 4.0, 16.0, 64.0, 256.0, 1024.0, 4096.0, 16384.0, 65536.0, 262144.0, 1048576.0, 4194304.0,
    16777216.0, 67108864.0,
];

/// Bounds of durations in seconds, as the conventions advise.
const SECONDS: &[f64] =
    &[0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92];

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Instrument {
    /// Tokens of model calls.
    Tokens,
    /// How long model calls take.
    Chat,
    /// How long runs take.
    Run,
    /// How long tools take.
    Tool,
    /// What model calls cost.
    Cost,
}

impl Instrument {
    /// Returns its name, its unit, and what it is.
    pub(super) fn described(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Tokens => {
                ("gen_ai.client.token.usage", "{token}", "Number of input and output tokens used.")
            }
            Self::Chat => ("gen_ai.client.operation.duration", "s", "GenAI operation duration."),
            Self::Run => ("gen_ai.invoke_agent.duration", "s", "Duration of an agent's run."),
            Self::Tool => ("gen_ai.execute_tool.duration", "s", "Duration of a tool call."),
            Self::Cost => ("bowline.cost", "{USD}", "What model calls cost in US dollars."),
        }
    }

    /// Returns the bounds of its histogram; `None` if it is a sum.
    pub(super) fn bounds(self) -> Option<&'static [f64]> {
        match self {
            Self::Tokens => Some(TOKENS),
            Self::Chat | Self::Run | Self::Tool => Some(SECONDS),
            Self::Cost => None,
        }
    }
}

/// The texts that tell the series of an instrument from each other.
pub(super) type Labels = Vec<(&'static str, String)>;

/// What has been measured of one series.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Series {
    pub(super) count: u64,
    pub(super) sum: f64,
    pub(super) min: f64,
    pub(super) max: f64,
    /// How many fell between two bounds, one more than there are bounds.
    pub(super) buckets: Vec<u64>,
}

/// All that has been measured.
#[derive(Debug, Default)]
pub(super) struct Meters(BTreeMap<Instrument, BTreeMap<Labels, Series>>);

impl Meters {
    /// Takes in a span that is over.
    pub(super) fn record(&mut self, span: &Span) {
        let (instrument, names): (_, &[&'static str]) = match span.operation {
            Operation::Chat => {
                (Instrument::Chat, &["gen_ai.provider.name", "gen_ai.request.model"])
            }
            Operation::InvokeAgent => (Instrument::Run, &["gen_ai.agent.name"]),
            Operation::ExecuteTool => {
                (Instrument::Tool, &["gen_ai.agent.name", "gen_ai.tool.name"])
            }
        };
        let mut labels = labels(span, &["gen_ai.operation.name"]);
        labels.extend(self::labels(span, names));
        let seconds = span.end.duration_since(span.start).as_secs_f64();
        let mut ended = labels.clone();
        ended.extend(self::labels(span, &["error.type"]));
        self.add(instrument, ended, seconds);
        if span.operation != Operation::Chat {
            return;
        }
        for (name, kind) in
            [("gen_ai.usage.input_tokens", "input"), ("gen_ai.usage.output_tokens", "output")]
        {
            if let Some(Value::Int(tokens)) = span.attributes.get(name) {
                let mut labels = labels.clone();
                labels.push(("gen_ai.token.type", kind.to_owned()));
                self.add(Instrument::Tokens, labels, *tokens as f64);
            }
        }
        if let Some(Value::Double(cost)) = span.attributes.get("bowline.cost_usd") {
            self.add(Instrument::Cost, labels, *cost);
        }
    }

    /// Returns what has been measured, instrument by instrument.
    pub(super) fn iter(
        &self,
    ) -> impl Iterator<Item = (Instrument, impl Iterator<Item = (&Labels, &Series)>)> {
        self.0.iter().map(|(instrument, series)| (*instrument, series.iter()))
    }

    /// Tells whether nothing has been measured.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn add(&mut self, instrument: Instrument, labels: Labels, value: f64) {
        let series = self.0.entry(instrument).or_default().entry(labels).or_default();
        (series.min, series.max) = match series.count {
            0 => (value, value),
            _ => (series.min.min(value), series.max.max(value)),
        };
        series.count += 1;
        series.sum += value;
        let Some(bounds) = instrument.bounds() else { return };
        series.buckets.resize(bounds.len() + 1, 0);
        // A bound belongs to the bucket below it.
        let bucket = bounds.partition_point(|bound| *bound < value);
        if let Some(count) = series.buckets.get_mut(bucket) {
            *count += 1;
        }
    }
}

fn labels(span: &Span, names: &[&'static str]) -> Labels {
    let text = |name: &&'static str| match span.attributes.get(name)? {
        Value::Text(text) => Some((*name, text.clone())),
        Value::Texts(_) | Value::Int(_) | Value::Double(_) => None,
    };
    names.iter().filter_map(text).collect()
}
