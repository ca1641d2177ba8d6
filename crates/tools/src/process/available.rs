//! What this machine has of what confines commands.

use serde::{Deserialize, Serialize};

/// What this machine has of what confines commands.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Available {
    /// The version of Landlock; 0 if there is none.
    pub landlock: u32,
    /// Whether commands can have users, mounts and a network of their own.
    pub namespaces: bool,
    /// Whether system calls can be filtered.
    pub seccomp: bool,
    /// Why something is missing, as far as that is known.
    pub why: Option<String>,
}

/// The version of Landlock that sees files being cut.
const TRUNCATE: u32 = 3;
/// The version of Landlock that sees what is asked of devices.
const DEVICES: u32 = 5;
/// The version of Landlock that sees signals and sockets without a file.
const SCOPES: u32 = 6;

impl Available {
    /// Tells whether commands can be confined. Where they cannot, one that is to be is refused.
    pub fn confines(&self) -> bool {
        // Without namespaces it is Landlock alone that keeps files from being emptied.
        let needed = if self.namespaces { 1 } else { TRUNCATE };
        self.seccomp && self.landlock >= needed
    }

    /// Says what is lost for what is missing, and what is done instead; empty if nothing is.
    pub fn losses(&self) -> Vec<String> {
        if !self.confines() {
            let missing = match (self.seccomp, self.landlock) {
                (false, _) => "no seccomp".to_owned(),
                (true, 0) => "no Landlock".to_owned(),
                (true, version) => format!("no namespaces, and Landlock of version {version}"),
            };
            return vec![format!(
                "{missing}: commands cannot be confined, and are refused if they must be"
            )];
        }
        let mut losses = Vec::new();
        if !self.namespaces {
            losses.extend([
                "no namespaces: nothing new can be made directly in a folder that has protected files",
                "no namespaces: modes, owners, times and attributes of files elsewhere can be changed, \
                 and names in hidden folders be seen",
                "no namespaces: no sockets at all but with the whole network; hosts cannot be allowed \
                 one by one",
            ]);
        }
        if self.landlock < DEVICES {
            losses.push("Landlock before version 5: requests to devices are not looked at");
        }
        if self.landlock < SCOPES {
            losses.push(
                "Landlock before version 6: processes of the same user outside can be signalled, and \
                 with the whole network abstract sockets reached",
            );
        }
        losses.into_iter().map(str::to_owned).collect()
    }
}
