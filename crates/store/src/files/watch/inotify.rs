//! Being told by the kernel.
//!
//! There is one queue of the kernel for all sessions of a store, since a user has few of them. It
//! speaks of files that somebody wrote to and closed, and of files renamed: that is every post, and
//! no commit, because a log stays open.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Arc, Mutex};

use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::io::Errno;
use tokio::io::unix::AsyncFd;
use tokio::sync::Notify;

use crate::files::place::lock;

/// The queue, once somebody has waited.
#[derive(Debug, Default)]
pub(crate) struct Watch(Mutex<Option<Arc<Queue>>>);

#[derive(Debug)]
struct Queue {
    events: AsyncFd<OwnedFd>,
    came: Notify,
}

/// Returns once something is so that depends on a file in a folder.
pub(crate) async fn until(watch: &Watch, folder: &Path, is_so: impl Fn() -> bool) {
    loop {
        // Without a queue, or before there is a folder, we look again and again.
        let Ok(queue) = watch.queue(folder) else {
            if is_so() {
                return;
            }
            super::pause().await;
            continue;
        };
        let came = queue.came.notified();
        tokio::pin!(came);
        // From here on no event is missed, even if somebody else takes it from the queue.
        came.as_mut().enable();
        if is_so() {
            return;
        }
        tokio::select! {
            () = came => {}
            drained = queue.drain() => if drained.is_err() {
                // The runtime that the queue was registered with has ended.
                watch.drop_queue(&queue);
                super::pause().await;
            }
        }
    }
}

impl Watch {
    /// Returns the queue, with events of the folder in it.
    fn queue(&self, folder: &Path) -> io::Result<Arc<Queue>> {
        let mut slot = lock(&self.0);
        let queue = match &*slot {
            Some(queue) => Arc::clone(queue),
            None => Arc::clone(slot.insert(Arc::new(Queue::new()?))),
        };
        // Watching a folder again changes nothing.
        let flags = WatchFlags::CLOSE_WRITE | WatchFlags::MOVED_TO | WatchFlags::ONLYDIR;
        inotify::add_watch(queue.events.get_ref(), folder, flags)?;
        Ok(queue)
    }

    fn drop_queue(&self, queue: &Arc<Queue>) {
        let mut slot = lock(&self.0);
        if slot.as_ref().is_some_and(|held| Arc::ptr_eq(held, queue)) {
            *slot = None;
        }
    }
}

impl Queue {
    fn new() -> io::Result<Self> {
        let fd = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
        #[expect(deprecated, reason = "an OwnedFd keeps the promise that the unsafe way asks for")]
        let events = AsyncFd::new(fd)?;
        Ok(Self { events, came: Notify::new() })
    }

    /// Waits for events, takes them away and wakes everybody: each looks at its own file.
    async fn drain(&self) -> io::Result<()> {
        let mut ready = self.events.readable().await?;
        let mut buffer = [0; 4096];
        loop {
            match rustix::io::read(self.events.get_ref(), &mut buffer) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(Errno::WOULDBLOCK) => break,
                Err(error) => return Err(error.into()),
            }
        }
        ready.clear_ready();
        self.came.notify_waiters();
        Ok(())
    }
}
