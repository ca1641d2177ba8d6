//! Waiting for a post from another process.

use std::time::Duration;

#[cfg(target_os = "linux")]
mod inotify;
#[cfg(target_os = "linux")]
pub(crate) use inotify::{Watch, until};

#[cfg(not(target_os = "linux"))]
mod poll;
#[cfg(not(target_os = "linux"))]
pub(crate) use poll::{Watch, until};

/// How often we look where nobody tells.
const PERIOD: Duration = Duration::from_millis(250);

async fn pause() {
    tokio::time::sleep(PERIOD).await;
}
