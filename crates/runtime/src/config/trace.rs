//! Where traces go, and how much they tell.

use std::collections::BTreeMap;

use serde::Deserialize;

/// Where traces go, and how much they tell. The standard `OTEL_*` variables go before it.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub struct TraceConfig {
    /// The address of an OTLP receiver; `None` for nowhere, unless a variable names one.
    pub endpoint: Option<String>,
    /// Where below it spans are taken over HTTP, if not at `v1/traces`.
    pub path: Option<String>,
    /// What is spoken there.
    pub protocol: Option<TraceProtocol>,
    /// More headers for every request, such as a key.
    pub headers: BTreeMap<String, String>,
    /// How much of what is said is recorded; `None` for nothing, or what `compat` brings.
    pub content: Option<TraceContent>,
    /// Whose names spans have.
    pub compat: Option<TraceCompat>,
}

impl TraceConfig {
    /// Returns how much of what is said is recorded.
    pub fn content(&self) -> TraceContent {
        let default = match self.compat {
            Some(TraceCompat::Pingu) => TraceContent::Full,
            None => TraceContent::Off,
        };
        self.content.unwrap_or(default)
    }
}

/// What is spoken with an OTLP receiver.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
pub enum TraceProtocol {
    /// Protobuf over HTTP.
    #[default]
    #[serde(rename = "http/protobuf")]
    HttpProtobuf,
    /// JSON over HTTP.
    #[serde(rename = "http/json")]
    HttpJson,
    /// gRPC.
    #[serde(rename = "grpc")]
    Grpc,
}

impl TraceProtocol {
    /// Returns the protocol as it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::HttpProtobuf => "http/protobuf",
            Self::HttpJson => "http/json",
            Self::Grpc => "grpc",
        }
    }

    /// Returns the protocol of a name.
    pub fn named(name: &str) -> Option<Self> {
        [Self::HttpProtobuf, Self::HttpJson, Self::Grpc].into_iter().find(|it| it.as_str() == name)
    }
}

/// How much of what is said is recorded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TraceContent {
    /// Nothing.
    #[default]
    Off,
    /// The first 4 KiB of each attribute.
    Trimmed,
    /// All of it.
    Full,
}

/// Whose names spans have, other than those of the conventions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TraceCompat {
    /// Those of pingu: `agent.run`, `llm.chat`, and tools by their own names.
    Pingu,
}
