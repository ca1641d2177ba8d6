//! How an entry is written and read.

use jiff::Timestamp;
use serde::ser::SerializeStruct;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::id::{AgentId, EntryId};

use super::{Entry, EntryKind, VERSION};

impl Entry {
    /// Returns why this version must not write behind the entry, if it must not.
    pub fn bars_writing(&self) -> Option<String> {
        match &self.kind {
            EntryKind::Unknown { kind, .. } if self.critical => {
                Some(format!("it holds an entry {kind:?} of a form that only a later one knows"))
            }
            _ => None,
        }
    }
}

/// Writes the two ways of [`EntryKind`] from one table: name and type of each kind.
macro_rules! kinds {
    ($($name:literal => $variant:ident),* $(,)?) => {
        impl EntryKind {
            /// Returns the name of the kind as it stands in the log.
            pub fn name(&self) -> &str {
                match self {
                    $(Self::$variant(_) => $name,)*
                    Self::Unknown { kind, .. } => kind,
                }
            }

            fn write<S: SerializeStruct>(&self, entry: &mut S) -> Result<(), S::Error> {
                match self {
                    $(Self::$variant(data) => entry.serialize_field("data", data),)*
                    Self::Unknown { data, .. } => entry.serialize_field("data", data),
                }
            }

            // The content is read in a second step: raw JSON does not survive a tagged enum.
            fn read(kind: &str, data: &RawValue) -> Result<Self, serde_json::Error> {
                Ok(match kind {
                    $($name => Self::$variant(serde_json::from_str(data.get())?),)*
                    _ => Self::Unknown { kind: kind.into(), data: data.to_owned().into() },
                })
            }
        }
    };
}

kinds! {
    "created" => Created,
    "run_started" => RunStarted,
    "user" => User,
    "posted" => Posted,
    "assistant" => Assistant,
    "call_started" => CallStarted,
    "call_waiting" => CallWaiting,
    "decided" => Decided,
    "answered" => Answered,
    "woken" => Woken,
    "call_ended" => CallEnded,
    "background_ended" => BackgroundEnded,
    "external_usage" => ExternalUsage,
    "limit_hit" => LimitHit,
    "canceled" => Canceled,
    "run_ended" => RunEnded,
    "system_changed" => SystemChanged,
    "tools_changed" => ToolsChanged,
    "head" => Head,
    "custom" => Custom,
    "effect" => Effect,
    "planned" => Planned,
    "step_taken" => StepTaken,
}

impl Serialize for Entry {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut entry = serializer.serialize_struct("Entry", 9)?;
        entry.serialize_field("v", &self.v)?;
        entry.serialize_field("id", &self.id)?;
        if let Some(parent) = &self.parent {
            entry.serialize_field("parent", parent)?;
        }
        entry.serialize_field("at", &self.at)?;
        entry.serialize_field("agent", &self.agent)?;
        if self.critical {
            entry.serialize_field("critical", &true)?;
        }
        if let Some(ms) = &self.active_ms {
            entry.serialize_field("active_ms", ms)?;
        }
        entry.serialize_field("kind", self.kind.name())?;
        self.kind.write(&mut entry)?;
        entry.end()
    }
}

impl<'de> Deserialize<'de> for Entry {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Form<'a> {
            v: u32,
            id: EntryId,
            #[serde(default)]
            parent: Option<EntryId>,
            at: Timestamp,
            agent: AgentId,
            #[serde(default)]
            critical: bool,
            #[serde(default)]
            active_ms: Option<u64>,
            #[serde(borrow)]
            kind: std::borrow::Cow<'a, str>,
            #[serde(borrow)]
            data: &'a RawValue,
        }
        let Form { v, id, parent, at, agent, critical, active_ms, kind, data } =
            Form::deserialize(deserializer)?;
        // A later form of a known kind is no known kind: it is kept, not guessed at.
        let known = if v <= VERSION { EntryKind::read(&kind, data).ok() } else { None };
        // One of a known kind that cannot be read says something that only a later version knows.
        // Damage it is not: the log's hashes would have shown that.
        let critical = critical || (known.is_none() && v <= VERSION);
        let kind = known.unwrap_or_else(|| EntryKind::Unknown {
            kind: kind.into(),
            data: data.to_owned().into(),
        });
        Ok(Self { v, id, parent, at, agent, critical, active_ms, kind })
    }
}
