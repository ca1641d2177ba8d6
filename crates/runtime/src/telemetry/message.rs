//! From our spans and metrics to the messages of OTLP.

use jiff::Timestamp;

use super::metrics::{Instrument, Labels, Meters, Series};
use super::otlp;
use super::span::{Attributes, Moment, Operation, Span, Value};

/// The flag of a trace that is recorded.
const SAMPLED: u32 = 1;

/// Returns the message that carries spans.
pub(super) fn traces(resource: &[(String, String)], spans: &[Span]) -> otlp::ExportTraces {
    let spans = spans.iter().map(span).collect();
    let scope_spans = vec![otlp::ScopeSpans { scope: Some(scope()), spans }];
    let resource = Some(self::resource(resource));
    otlp::ExportTraces { resource_spans: vec![otlp::ResourceSpans { resource, scope_spans }] }
}

/// Returns the message that carries what was measured between two times.
pub(super) fn metrics(
    resource: &[(String, String)],
    meters: &Meters,
    (start, now): (Timestamp, Timestamp),
) -> otlp::ExportMetrics {
    let times = (nanos(start), nanos(now));
    let metrics = meters.iter().map(|(instrument, series)| metric(instrument, series, times));
    let scope_metrics =
        vec![otlp::ScopeMetrics { scope: Some(scope()), metrics: metrics.collect() }];
    let resource = Some(self::resource(resource));
    otlp::ExportMetrics {
        resource_metrics: vec![otlp::ResourceMetrics { resource, scope_metrics }],
    }
}

fn scope() -> otlp::Scope {
    otlp::Scope { name: "bowline".to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() }
}

fn resource(attributes: &[(String, String)]) -> otlp::Resource {
    let text =
        |(name, value): &(String, String)| pair(name, otlp::Value::StringValue(value.clone()));
    otlp::Resource { attributes: attributes.iter().map(text).collect() }
}

fn span(span: &Span) -> otlp::Span {
    let kind = match span.operation {
        Operation::Chat => otlp::Kind::Client,
        Operation::InvokeAgent | Operation::ExecuteTool => otlp::Kind::Internal,
    };
    let (code, message) = match &span.error {
        Some(message) => (otlp::Code::Error, message.clone()),
        None => (otlp::Code::Unset, String::new()),
    };
    otlp::Span {
        trace_id: span.trace.0.to_vec(),
        span_id: span.id.0.to_vec(),
        parent_span_id: span.parent.map_or_else(Vec::new, |parent| parent.0.to_vec()),
        name: span.name.clone(),
        kind: kind.into(),
        start_time_unix_nano: nanos(span.start),
        end_time_unix_nano: nanos(span.end),
        attributes: attributes(&span.attributes),
        events: span.events.iter().map(event).collect(),
        status: Some(otlp::Status { message, code: code.into() }),
        flags: SAMPLED,
    }
}

fn event(moment: &Moment) -> otlp::Event {
    otlp::Event {
        time_unix_nano: nanos(moment.at),
        name: moment.name.to_owned(),
        attributes: attributes(&moment.attributes),
    }
}

fn metric<'a>(
    instrument: Instrument,
    series: impl Iterator<Item = (&'a Labels, &'a Series)>,
    (start_time_unix_nano, time_unix_nano): (u64, u64),
) -> otlp::Metric {
    let (name, unit, description) = instrument.described();
    let metric = otlp::Metric {
        name: name.to_owned(),
        description: description.to_owned(),
        unit: unit.to_owned(),
        ..otlp::Metric::default()
    };
    let aggregation_temporality = otlp::Temporality::Cumulative.into();
    let Some(bounds) = instrument.bounds() else {
        let point = |(labels, series): (&Labels, &Series)| otlp::NumberDataPoint {
            start_time_unix_nano,
            time_unix_nano,
            as_double: Some(series.sum),
            attributes: texts(labels),
        };
        let data_points = series.map(point).collect();
        let sum = otlp::Sum { data_points, aggregation_temporality, is_monotonic: true };
        return otlp::Metric { sum: Some(sum), ..metric };
    };
    let point = |(labels, series): (&Labels, &Series)| otlp::HistogramDataPoint {
        start_time_unix_nano,
        time_unix_nano,
        count: series.count,
        sum: Some(series.sum),
        bucket_counts: series.buckets.clone(),
        explicit_bounds: bounds.to_vec(),
        attributes: texts(labels),
        min: Some(series.min),
        max: Some(series.max),
    };
    let data_points = series.map(point).collect();
    let histogram = otlp::Histogram { data_points, aggregation_temporality };
    otlp::Metric { histogram: Some(histogram), ..metric }
}

fn texts(labels: &Labels) -> Vec<otlp::KeyValue> {
    let text = |(name, value): &(&str, String)| pair(name, otlp::Value::StringValue(value.clone()));
    labels.iter().map(text).collect()
}

fn attributes(attributes: &Attributes) -> Vec<otlp::KeyValue> {
    attributes.iter().map(|(name, value)| pair(name, self::value(value))).collect()
}

fn pair(key: &str, value: otlp::Value) -> otlp::KeyValue {
    otlp::KeyValue { key: key.to_owned(), value: Some(otlp::AnyValue { value: Some(value) }) }
}

fn value(value: &Value) -> otlp::Value {
    match value {
        Value::Text(text) => otlp::Value::StringValue(text.clone()),
        Value::Texts(texts) => {
            let text = |text: &String| otlp::AnyValue {
                value: Some(otlp::Value::StringValue(text.clone())),
            };
            otlp::Value::ArrayValue(otlp::ArrayValue { values: texts.iter().map(text).collect() })
        }
        Value::Int(number) => otlp::Value::IntValue(*number),
        Value::Double(number) => otlp::Value::DoubleValue(*number),
    }
}

fn nanos(time: Timestamp) -> u64 {
    u64::try_from(time.as_nanosecond()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use prost::Message as _;
    use serde_json::json;

    use super::super::span::{SpanId, TraceId};
    use super::*;

    fn failed() -> Span {
        let mut attributes = Attributes::default();
        attributes.set("gen_ai.operation.name", "chat");
        attributes.set("gen_ai.usage.input_tokens", 5_000_000_000_u64);
        attributes.set("gen_ai.usage.output_tokens", 7_u64);
        attributes.set("gen_ai.response.finish_reasons", vec!["stop".to_owned()]);
        attributes.set("bowline.cost_usd", 0.5);
        Span {
            trace: TraceId([0xab; 16]),
            id: SpanId([1; 8]),
            parent: Some(SpanId([2; 8])),
            name: "chat one".to_owned(),
            operation: Operation::Chat,
            start: Timestamp::from_second(1).unwrap(),
            end: Timestamp::from_second(3).unwrap(),
            attributes,
            events: vec![Moment {
                at: Timestamp::from_second(2).unwrap(),
                name: "bowline.retry",
                attributes: Attributes::default(),
            }],
            error: Some("it broke".to_owned()),
        }
    }

    #[test]
    fn a_span_in_json_is_as_otlp_says() {
        let message = traces(&[("service.name".to_owned(), "mine".to_owned())], &[failed()]);
        let text = |text: &str| json!({ "stringValue": text });
        let span = json!({
            "traceId": "abababababababababababababababab",
            "spanId": "0101010101010101",
            "parentSpanId": "0202020202020202",
            "name": "chat one",
            "kind": 3,
            "startTimeUnixNano": "1000000000",
            "endTimeUnixNano": "3000000000",
            "attributes": [
                { "key": "gen_ai.operation.name", "value": text("chat") },
                { "key": "gen_ai.usage.input_tokens", "value": { "intValue": "5000000000" } },
                { "key": "gen_ai.usage.output_tokens", "value": { "intValue": "7" } },
                {
                    "key": "gen_ai.response.finish_reasons",
                    "value": { "arrayValue": { "values": [text("stop")] } },
                },
                { "key": "bowline.cost_usd", "value": { "doubleValue": 0.5 } },
            ],
            "events": [
                { "timeUnixNano": "2000000000", "name": "bowline.retry", "attributes": [] },
            ],
            "status": { "message": "it broke", "code": 2 },
            "flags": 1,
        });
        let resource = json!({
            "attributes": [{ "key": "service.name", "value": text("mine") }],
        });
        let scope = json!({ "name": "bowline", "version": env!("CARGO_PKG_VERSION") });
        let scope_spans = json!([{ "scope": scope, "spans": [span] }]);
        assert_eq!(
            serde_json::to_value(&message).unwrap(),
            json!({ "resourceSpans": [{ "resource": resource, "scopeSpans": scope_spans }] })
        );
    }

    #[test]
    fn what_is_measured_is_summed_up_between_bounds() {
        let mut meters = Meters::default();
        meters.record(&failed());
        meters.record(&failed());
        let times = (Timestamp::UNIX_EPOCH, Timestamp::from_second(9).unwrap());
        let message = metrics(&[], &meters, times);
        let json = serde_json::to_value(&message).unwrap();
        let all = json["resourceMetrics"][0]["scopeMetrics"][0]["metrics"].as_array().unwrap();
        let names: Vec<_> = all.iter().map(|it| it["name"].as_str().unwrap()).collect();
        assert_eq!(
            names,
            ["gen_ai.client.token.usage", "gen_ai.client.operation.duration", "bowline.cost"]
        );
        let seconds = &all[1]["histogram"]["dataPoints"][0];
        assert_eq!((&seconds["count"], &seconds["sum"]), (&json!("2"), &json!(4.0)));
        // Two seconds are above 1.28 and not above 2.56.
        assert_eq!(seconds["bucketCounts"][8], "2");
        let cost = &all[2]["sum"];
        assert_eq!(cost["dataPoints"][0]["asDouble"], 1.0);
        assert_eq!(
            (&cost["aggregationTemporality"], &cost["isMonotonic"]),
            (&json!(2), &json!(true))
        );
        let again = otlp::ExportMetrics::decode(message.encode_to_vec().as_slice()).unwrap();
        assert_eq!(again, message);
    }
}
