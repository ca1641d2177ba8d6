//! Ids, and where they and the time come from.

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use bowline_llm::CallId;

/// Where an agent takes new ids and the time of day from.
///
/// Nothing in this crate asks the operating system for either, so a test that passes its own
/// source gets the same log every time.
pub trait Source: Send + Sync {
    /// Returns an id that was never returned before.
    fn id(&self) -> Uuid;
    /// Returns the time of day.
    fn now(&self) -> Timestamp;
}

/// The real source: version 7 UUIDs and the system's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemSource;

impl Source for SystemSource {
    fn id(&self) -> Uuid {
        Uuid::now_v7()
    }

    fn now(&self) -> Timestamp {
        // The log keeps milliseconds: what is read back must equal what was written.
        let now = Timestamp::now();
        Timestamp::from_millisecond(now.as_millisecond()).unwrap_or(now)
    }
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(Uuid);

        impl $name {
            /// Takes a new id from `source`.
            pub fn new(source: &dyn Source) -> Self {
                Self(source.id())
            }
        }

        impl From<Uuid> for $name {
            fn from(uuid: Uuid) -> Self {
                Self(uuid)
            }
        }

        impl From<$name> for Uuid {
            fn from(id: $name) -> Self {
                id.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self.0.as_simple(), f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl FromStr for $name {
            type Err = InvalidId;

            fn from_str(text: &str) -> Result<Self, InvalidId> {
                // Only the form that is written is read, so that one id has one spelling.
                match Uuid::try_parse(text) {
                    Ok(uuid) if text.len() == 32 => Ok(Self(uuid)),
                    Ok(_) | Err(_) => Err(InvalidId(text.into())),
                }
            }
        }

        impl Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.0.as_simple().encode_lower(&mut [0; 32]))
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

id! {
    /// Names a session: a tree of agents that work on one job. 32 hex digits, in order of creation.
    SessionId
}
id! {
    /// Names an agent within its session; the root's is the session's.
    AgentId
}
id! {
    /// Names a run: the work from a prompt to its outcome.
    RunId
}
id! {
    /// Names an entry of a log.
    EntryId
}
id! {
    /// Names an operation posted to a session.
    OpId
}

impl SessionId {
    /// Returns the id of the session's first agent.
    pub fn root(self) -> AgentId {
        AgentId(self.0)
    }
}

impl AgentId {
    /// Returns the id of the child that `call` makes under `key`: always the same, so that a tool
    /// that runs again finds the child it made before.
    pub fn child(self, call: &CallId, key: &str) -> Self {
        let mut name = call.as_str().as_bytes().to_vec();
        name.push(0);
        name.extend_from_slice(key.as_bytes());
        Self(Uuid::new_v5(&self.0, &name))
    }
}

impl OpId {
    /// Returns the id of the `ordinal`th prompt (from 0) given to a child agent: the same when the
    /// tool that gives it runs again.
    pub fn nth_prompt(agent: AgentId, ordinal: u32) -> Self {
        Self(Uuid::new_v5(&agent.0, format!("prompt {ordinal}").as_bytes()))
    }
}

/// Text that is no id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no id: expected 32 hex digits")]
pub struct InvalidId(String);
