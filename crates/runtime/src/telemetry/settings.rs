//! Where spans and metrics go: the standard variables, then the configuration.

use std::time::Duration;

use bowline_llm::Secret;

use crate::config::{TraceConfig, TraceProtocol};
use crate::environment::Environment;

use super::span::Parent;

/// Where spans and metrics go, and in whose name.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where spans go; `None` for nowhere.
    pub traces: Option<Target>,
    /// Where metrics go; `None` for nowhere.
    pub metrics: Option<Target>,
    /// The span of the program that started this one.
    pub parent: Option<Parent>,
    /// Who says it: `service.name` and the like.
    pub resource: Vec<(String, String)>,
    /// How spans are gathered.
    pub batch: Batch,
    /// How often metrics are sent.
    pub metric_interval: Duration,
}

/// One address that is told something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The address, complete.
    pub url: String,
    /// What is spoken there.
    pub protocol: TraceProtocol,
    /// More headers for every request; they may hold a key.
    pub headers: Vec<(String, Secret)>,
    /// How long a request may take.
    pub timeout: Duration,
}

/// How spans are gathered before they are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Batch {
    /// How long they may wait.
    pub delay: Duration,
    /// How many may wait; what comes on top is lost.
    pub queue: usize,
    /// How many are sent at once.
    pub size: usize,
}

/// What is told of: the word in the names of its variables, and where it is taken.
struct Signal {
    word: &'static str,
    path: &'static str,
    call: &'static str,
}

const TRACES: Signal = Signal {
    word: "TRACES",
    path: "v1/traces",
    call: "opentelemetry.proto.collector.trace.v1.TraceService/Export",
};

const METRICS: Signal = Signal {
    word: "METRICS",
    path: "v1/metrics",
    call: "opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
};

impl Settings {
    /// Reads the variables and the configuration; `None` if nothing is to be told to anybody.
    ///
    /// # Errors
    /// What is wrong with a variable, and what is expected.
    pub fn read(environment: &Environment, config: &TraceConfig) -> Result<Option<Self>, String> {
        let is_disabled = |value: &str| value.trim().eq_ignore_ascii_case("true");
        if environment.get("OTEL_SDK_DISABLED").is_some_and(is_disabled) {
            return Ok(None);
        }
        let parent = environment.get("TRACEPARENT").and_then(Parent::parse);
        let mut traces = TRACES.target(environment, config)?;
        if traces.is_some() && !is_sampled(environment, parent)? {
            traces = None;
        }
        let metrics = METRICS.target(environment, config)?;
        if traces.is_none() && metrics.is_none() {
            return Ok(None);
        }
        Ok(Some(Self {
            traces,
            metrics,
            parent,
            resource: resource(environment)?,
            batch: Batch {
                delay: millis(environment, "OTEL_BSP_SCHEDULE_DELAY", 5_000)?,
                queue: count(environment, "OTEL_BSP_MAX_QUEUE_SIZE", 2_048)?,
                size: count(environment, "OTEL_BSP_MAX_EXPORT_BATCH_SIZE", 512)?,
            },
            metric_interval: millis(environment, "OTEL_METRIC_EXPORT_INTERVAL", 60_000)?,
        }))
    }
}

impl Signal {
    fn target(
        &self,
        environment: &Environment,
        config: &TraceConfig,
    ) -> Result<Option<Target>, String> {
        let exporter = format!("OTEL_{}_EXPORTER", self.word);
        match environment.get(&exporter).map(str::trim) {
            None | Some("otlp") => {}
            Some("none") => return Ok(None),
            Some(other) => return Err(format!("{exporter}: {other:?} is none of otlp, none")),
        }
        let protocol = match self.either(environment, "PROTOCOL") {
            Some((name, value)) => TraceProtocol::named(value).ok_or_else(|| {
                format!("{name}: {value:?} is none of http/protobuf, http/json, grpc")
            })?,
            None => config.protocol.unwrap_or_default(),
        };
        let Some(url) = self.url(environment, config, protocol) else { return Ok(None) };
        self.check(environment)?;
        let headers = match self.either(environment, "HEADERS") {
            Some((name, value)) => {
                pairs(value).ok_or_else(|| format!("{name} is no list like key=value,key=value"))?
            }
            None => config.headers.clone().into_iter().collect(),
        };
        let timeout = match self.either(environment, "TIMEOUT") {
            Some((name, value)) => milliseconds(&name, value)?,
            None => Duration::from_secs(10),
        };
        let headers = headers.into_iter().map(|(name, value)| (name, value.into())).collect();
        Ok(Some(Target { url, protocol, headers, timeout }))
    }

    fn url(
        &self,
        environment: &Environment,
        config: &TraceConfig,
        protocol: TraceProtocol,
    ) -> Option<String> {
        let own = environment.get(&format!("OTEL_EXPORTER_OTLP_{}_ENDPOINT", self.word));
        let said = own.or_else(|| environment.get("OTEL_EXPORTER_OTLP_ENDPOINT"));
        let base = said.or(config.endpoint.as_deref().filter(|endpoint| !endpoint.is_empty()))?;
        let base = base.trim();
        // gRPC is often pointed at with a host and a port alone.
        let scheme = if base.contains("://") { "" } else { "http://" };
        let path = match protocol {
            TraceProtocol::Grpc => self.call,
            TraceProtocol::HttpProtobuf | TraceProtocol::HttpJson if own.is_some() => {
                return Some(format!("{scheme}{base}"));
            }
            TraceProtocol::HttpProtobuf | TraceProtocol::HttpJson => match &config.path {
                Some(path) if said.is_none() && self.word == TRACES.word => path,
                Some(_) | None => self.path,
            },
        };
        Some(format!("{scheme}{}/{}", base.trim_end_matches('/'), path.trim_start_matches('/')))
    }

    /// Refuses what is asked for and cannot be had: it would be missed silently otherwise.
    fn check(&self, environment: &Environment) -> Result<(), String> {
        if let Some((name, value)) = self.either(environment, "COMPRESSION")
            && value != "none"
        {
            return Err(format!("{name}: {value:?} is not none: requests are not compressed"));
        }
        for what in ["CERTIFICATE", "CLIENT_CERTIFICATE", "CLIENT_KEY"] {
            if let Some((name, _)) = self.either(environment, what) {
                return Err(format!("{name} is not supported: the system's certificates count"));
            }
        }
        Ok(())
    }

    /// Returns the variable of this signal, or else that of all, with its value.
    fn either<'a>(&self, environment: &'a Environment, what: &str) -> Option<(String, &'a str)> {
        let own = format!("OTEL_EXPORTER_OTLP_{}_{what}", self.word);
        let all = format!("OTEL_EXPORTER_OTLP_{what}");
        [own, all].into_iter().find_map(|name| {
            let value = environment.get(&name)?.trim();
            Some((name, value))
        })
    }
}

/// Tells whether the run is in a trace: it is, unless its caller says that theirs is not recorded.
fn is_sampled(environment: &Environment, parent: Option<Parent>) -> Result<bool, String> {
    const SAMPLER: &str = "OTEL_TRACES_SAMPLER";
    match environment.get(SAMPLER).map(str::trim) {
        None | Some("parentbased_always_on") => Ok(parent.is_none_or(|parent| parent.is_sampled)),
        Some("parentbased_always_off") => Ok(parent.is_some_and(|parent| parent.is_sampled)),
        Some("always_on") => Ok(true),
        Some("always_off") => Ok(false),
        Some(other) => Err(format!(
            "{SAMPLER}: {other:?} is none of always_on, always_off, parentbased_always_on, \
             parentbased_always_off"
        )),
    }
}

fn resource(environment: &Environment) -> Result<Vec<(String, String)>, String> {
    const ATTRIBUTES: &str = "OTEL_RESOURCE_ATTRIBUTES";
    let given = environment.get(ATTRIBUTES).map(pairs).unwrap_or_else(|| Some(Vec::new()));
    let mut resource =
        given.ok_or_else(|| format!("{ATTRIBUTES} is no list like key=value,key=value"))?;
    if let Some(name) = environment.get("OTEL_SERVICE_NAME") {
        resource.retain(|(known, _)| known != "service.name");
        resource.push(("service.name".to_owned(), name.to_owned()));
    }
    let instance = uuid::Uuid::now_v7().to_string();
    for (name, value) in [
        ("service.name", "bowline"),
        ("service.version", env!("CARGO_PKG_VERSION")),
        // Two processes at once are two series of metrics.
        ("service.instance.id", instance.as_str()),
    ] {
        if !resource.iter().any(|(known, _)| known == name) {
            resource.push((name.to_owned(), value.to_owned()));
        }
    }
    Ok(resource)
}

/// Reads `key=value,key=value`, values percent-encoded; `None` if it is not written like that.
fn pairs(text: &str) -> Option<Vec<(String, String)>> {
    let pairs = text.split(',').map(str::trim).filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| {
            let (name, value) = pair.split_once('=')?;
            let name = name.trim();
            (!name.is_empty()).then(|| (name.to_owned(), percent_decoded(value.trim())))
        })
        .collect()
}

fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let code = after.get(..2).filter(|_| byte == b'%');
        let code = code.and_then(|code| std::str::from_utf8(code).ok());
        let code = code.and_then(|code| u8::from_str_radix(code, 16).ok());
        bytes.push(code.unwrap_or(byte));
        rest = if code.is_some() { after.get(2..).unwrap_or_default() } else { after };
    }
    // What is no UTF-8 was not encoded.
    String::from_utf8(bytes).unwrap_or_else(|_| text.to_owned())
}

fn millis(environment: &Environment, name: &str, default: u64) -> Result<Duration, String> {
    match environment.get(name) {
        Some(value) => milliseconds(name, value),
        None => Ok(Duration::from_millis(default)),
    }
}

fn milliseconds(name: &str, value: &str) -> Result<Duration, String> {
    let millis = value.trim().parse().ok().filter(|millis| *millis > 0);
    millis
        .map(Duration::from_millis)
        .ok_or_else(|| format!("{name}: {value:?} is no number of milliseconds above 0"))
}

fn count(environment: &Environment, name: &str, default: usize) -> Result<usize, String> {
    let Some(value) = environment.get(name) else { return Ok(default) };
    let count = value.trim().parse().ok().filter(|count| *count > 0);
    count.ok_or_else(|| format!("{name}: {value:?} is no number above 0"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(vars: &[(&str, &str)], config: &str) -> Result<Option<Settings>, String> {
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let environment =
            Environment { vars: vars.iter().map(own).collect(), ..Environment::default() };
        Settings::read(&environment, &toml::from_str(config).unwrap())
    }

    fn urls(vars: &[(&str, &str)], config: &str) -> (Option<String>, Option<String>) {
        let settings = read(vars, config).unwrap().unwrap();
        (settings.traces.map(|target| target.url), settings.metrics.map(|target| target.url))
    }

    #[test]
    fn nothing_is_told_to_anybody_who_is_not_named() {
        for vars in [
            &[][..],
            &[("OTEL_SERVICE_NAME", "x"), ("OTEL_EXPORTER_OTLP_ENDPOINT", "")],
            &[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://a"), ("OTEL_SDK_DISABLED", "TRUE")],
            &[("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://a"), ("OTEL_TRACES_EXPORTER", "none")],
        ] {
            assert!(read(vars, "content = \"full\"").unwrap().is_none(), "{vars:?}");
        }
    }

    #[test]
    fn an_address_of_all_gets_the_path_of_the_signal_and_one_of_its_own_does_not() {
        let all = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://a:4318/x/");
        let own = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://b/here");
        let some = |traces: &str, metrics: &str| (Some(traces.into()), Some(metrics.into()));
        let both = some("http://a:4318/x/v1/traces", "http://a:4318/x/v1/metrics");
        assert_eq!(urls(&[all], ""), both);
        assert_eq!(urls(&[], "endpoint = \"http://a:4318/x\""), both);
        assert_eq!(urls(&[all], "endpoint = \"http://c\"\npath = \"/mine\""), both);
        let path = "endpoint = \"c:4318\"\npath = \"/mine\"";
        assert_eq!(urls(&[], path), some("http://c:4318/mine", "http://c:4318/v1/metrics"));
        assert_eq!(urls(&[all, own], ""), some("http://b/here", "http://a:4318/x/v1/metrics"));
        assert_eq!(urls(&[own], ""), (Some("http://b/here".into()), None));
        assert_eq!(
            urls(&[own, ("OTEL_METRICS_EXPORTER", "none")], "endpoint = \"http://a\"").1,
            None
        );
        let grpc =
            [("OTEL_EXPORTER_OTLP_ENDPOINT", "a:4317"), ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")];
        assert_eq!(
            urls(&grpc, "").0.unwrap(),
            "http://a:4317/opentelemetry.proto.collector.trace.v1.TraceService/Export"
        );
    }

    #[test]
    fn the_variables_say_how_and_in_whose_name() {
        let settings = read(
            &[
                ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://a"),
                ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json"),
                ("OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", "grpc"),
                ("OTEL_EXPORTER_OTLP_HEADERS", "api-key=a%20b%3D, x = y"),
                ("OTEL_EXPORTER_OTLP_TIMEOUT", "250"),
                ("OTEL_SERVICE_NAME", "mine"),
                ("OTEL_RESOURCE_ATTRIBUTES", "service.name=other,team=blue"),
                ("OTEL_BSP_SCHEDULE_DELAY", "10"),
            ],
            "protocol = \"grpc\"\nheaders = { z = \"1\" }",
        );
        let settings = settings.unwrap().unwrap();
        let traces = settings.traces.unwrap();
        assert_eq!(traces.protocol, TraceProtocol::HttpJson);
        assert_eq!(settings.metrics.unwrap().protocol, TraceProtocol::Grpc);
        let headers = [("api-key", "a b="), ("x", "y")];
        assert_eq!(traces.headers, headers.map(|(name, value)| (name.to_owned(), value.into())));
        assert_eq!(traces.timeout, Duration::from_millis(250));
        assert_eq!(settings.batch.delay, Duration::from_millis(10));
        let of = |name: &str| settings.resource.iter().find(|(known, _)| known == name).cloned();
        assert_eq!(of("service.name").unwrap().1, "mine");
        assert_eq!(of("team").unwrap().1, "blue");
        assert_eq!(of("service.version").unwrap().1, env!("CARGO_PKG_VERSION"));
        assert!(of("service.instance.id").is_some());
    }

    #[test]
    fn a_caller_that_records_nothing_has_no_trace_but_metrics() {
        let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00";
        let vars = [("OTEL_EXPORTER_OTLP_ENDPOINT", "http://a"), ("TRACEPARENT", parent)];
        let settings = read(&vars, "").unwrap().unwrap();
        assert_eq!((settings.traces, settings.metrics.is_some()), (None, true));
    }

    #[test]
    fn what_is_wrong_with_a_variable_is_said() {
        for (name, value, what) in [
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "thrift", "none of http/protobuf, http/json, grpc"),
            ("OTEL_TRACES_EXPORTER", "jaeger", "none of otlp, none"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "secret-key", "no list like key=value"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "10s", "no number of milliseconds"),
            ("OTEL_BSP_MAX_QUEUE_SIZE", "0", "no number above 0"),
            ("OTEL_RESOURCE_ATTRIBUTES", "team", "no list like key=value"),
            ("OTEL_TRACES_EXPORTER", "console", "none of otlp, none"),
            ("OTEL_TRACES_EXPORTER", "otlp,console", "none of otlp, none"),
            ("OTEL_METRICS_EXPORTER", "prometheus", "none of otlp, none"),
            ("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip", "requests are not compressed"),
            ("OTEL_EXPORTER_OTLP_METRICS_COMPRESSION", "gzip", "requests are not compressed"),
            ("OTEL_EXPORTER_OTLP_CERTIFICATE", "/secret.pem", "is not supported"),
            ("OTEL_EXPORTER_OTLP_TRACES_CLIENT_KEY", "/secret.pem", "is not supported"),
            ("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", "/secret.pem", "is not supported"),
            ("OTEL_TRACES_SAMPLER", "traceidratio", "none of always_on, always_off"),
        ] {
            let all = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://a");
            let error = read(&[all, (name, value)], "").unwrap_err();
            assert!(error.starts_with(name) && error.contains(what), "{error}");
            assert!(!error.contains("secret") && !error.contains('\n'), "{error}");
        }
    }

    #[test]
    fn what_says_only_what_is_so_anyway_is_no_mistake() {
        for (name, value) in [
            ("OTEL_EXPORTER_OTLP_COMPRESSION", "none"),
            ("OTEL_EXPORTER_OTLP_CERTIFICATE", ""),
            ("OTEL_TRACES_SAMPLER", "parentbased_always_on"),
            ("OTEL_TRACES_EXPORTER", "otlp"),
            ("OTEL_SDK_DISABLED", "no"),
        ] {
            let all = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://a");
            let settings = read(&[all, (name, value)], "").unwrap().unwrap();
            assert!(settings.traces.is_some() && settings.metrics.is_some(), "{name}");
        }
    }

    #[test]
    fn spans_that_are_not_to_be_sampled_go_nowhere() {
        let all = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://a");
        for sampler in ["always_off", "parentbased_always_off"] {
            let settings = read(&[all, ("OTEL_TRACES_SAMPLER", sampler)], "").unwrap().unwrap();
            assert_eq!((settings.traces, settings.metrics.is_some()), (None, true), "{sampler}");
        }
        // Who is called by somebody who records does what the sampler says of that.
        let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        for (sampler, is_told) in [("always_off", false), ("parentbased_always_off", true)] {
            let vars = [all, ("TRACEPARENT", parent), ("OTEL_TRACES_SAMPLER", sampler)];
            let settings = read(&vars, "").unwrap().unwrap();
            assert_eq!(settings.traces.is_some(), is_told, "{sampler}");
        }
        let parent = ("TRACEPARENT", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00");
        let settings = read(&[all, parent, ("OTEL_TRACES_SAMPLER", "always_on")], "");
        assert!(settings.unwrap().unwrap().traces.is_some());
    }

    #[test]
    fn each_signal_may_have_its_own_headers_and_time() {
        let settings = read(
            &[
                ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://a"),
                ("OTEL_EXPORTER_OTLP_HEADERS", "x=all"),
                ("OTEL_EXPORTER_OTLP_METRICS_HEADERS", "x=metrics"),
                ("OTEL_EXPORTER_OTLP_TIMEOUT", "100"),
                ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "200"),
            ],
            "",
        );
        let settings = settings.unwrap().unwrap();
        let (traces, metrics) = (settings.traces.unwrap(), settings.metrics.unwrap());
        assert_eq!(traces.headers, [("x".to_owned(), "all".into())]);
        assert_eq!(metrics.headers, [("x".to_owned(), "metrics".into())]);
        let millis = [traces.timeout, metrics.timeout].map(|time| time.as_millis());
        assert_eq!(millis, [200, 100]);
    }
}
