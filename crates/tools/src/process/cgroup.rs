//! A cgroup for a helper and all that it starts, where this user may make one.
//!
//! Whatever a process does to itself, it stays in its cgroup, and the kernel kills all that is in one in a
//! single step, however fast it forks. So it finds what no other way does: what is left of a helper that was
//! killed itself. The helper goes in once, before it starts anything; commands are born in it and pay
//! nothing for it.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, Mode, OFlags, flock, openat};

/// What the names of our cgroups begin with; the process that made it follows.
const PREFIX: &str = "bowline-";

/// How often a cgroup is tried to be made, while others look for what was left over.
const TRIES: u32 = 3;

/// How often a cgroup is tried to be removed while what is in it dies.
const ROUNDS: u32 = 100;

/// How long to wait in between.
const PAUSE: Duration = Duration::from_millis(5);

/// The cgroup that this process is in, with all that it has started.
#[derive(Debug)]
pub(super) struct Cgroup {
    folder: PathBuf,
    /// Held as long as its maker lives, so that others know one that is left over.
    held: File,
}

impl Cgroup {
    /// Makes a cgroup for a helper below the one that this process is in, and goes into it; `None` if it may
    /// not.
    pub(super) fn enter(helper: u32) -> Option<Self> {
        let above = own()?;
        sweep(&above);
        (0..TRIES).find_map(|_| Self::make(above.join(name(helper))))
    }

    fn make(folder: PathBuf) -> Option<Self> {
        fs::create_dir(&folder).ok()?;
        // Kernels before 5.14 do not kill a cgroup.
        let is_able = folder.join("cgroup.kill").exists();
        let held = hold(&folder).filter(|_| is_able && join(&folder).is_ok());
        if held.is_none() {
            remove(&folder);
        }
        Some(Self { folder, held: held? })
    }

    /// Returns its folder.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Kills all others that are in it, and leaves it for that. If this process cannot leave it nothing is
    /// done.
    pub(super) fn kill_others(&self) {
        // To leave it takes ten milliseconds.
        if self.is_mine_alone() {
            return;
        }
        if self.folder.parent().is_some_and(|above| join(above).is_ok()) {
            kill(&self.held);
        }
    }

    /// Tells whether nobody else is in it, nor in one that was made in it.
    fn is_mine_alone(&self) -> bool {
        let inside = fs::read_to_string(self.folder.join("cgroup.procs")).unwrap_or_default();
        inside.trim_end() == std::process::id().to_string() && inner(&self.folder).next().is_none()
    }

    /// Removes it, once all others are dead. Where this process is still in it, its watcher does.
    pub(super) fn remove(self) {
        remove(&self.folder);
    }
}

/// Kills all that is left in the cgroup of another process, which has ended; returns when nothing is.
pub(super) fn kill_of(pid: u32) {
    if let Some(folder) = own().map(|above| above.join(name(pid))) {
        kill_left(&folder);
    }
}

/// Kills all that is left in a cgroup of ours whose maker has ended; returns when nothing is.
pub(super) fn kill_left(folder: &Path) {
    let Some(left) = left_over(folder) else { return };
    kill(&left);
    for _ in 0..ROUNDS {
        if remove(folder) {
            return;
        }
        std::thread::sleep(PAUSE);
    }
}

/// Ends what is left of those who were killed together with all who would have ended it.
fn sweep(above: &Path) {
    let Ok(entries) = fs::read_dir(above) else { return };
    for folder in entries.filter_map(|entry| Some(entry.ok()?.path())) {
        if let Some(left) = left_over(&folder) {
            kill(&left);
            remove(&folder);
        }
    }
}

/// Opens a cgroup of ours, if nobody is there any more who has made it. Its lock says so; but what is in it
/// may hold the lock as well, and then it counts whether its maker's process is gone.
fn left_over(folder: &Path) -> Option<File> {
    let name = folder.file_name().and_then(|name| name.to_str());
    let maker: u32 = name?.strip_prefix(PREFIX)?.parse().ok()?;
    let opened = File::open(folder).ok()?;
    let is_free = flock(&opened, FlockOperation::NonBlockingLockExclusive).is_ok();
    let is_gone = || !Path::new("/proc").join(maker.to_string()).exists();
    (is_free || is_gone()).then_some(opened)
}

fn name(pid: u32) -> String {
    format!("{PREFIX}{pid}")
}

/// Takes the lock on a cgroup, unless its maker holds it.
fn hold(folder: &Path) -> Option<File> {
    let folder = File::open(folder).ok()?;
    flock(&folder, FlockOperation::NonBlockingLockExclusive).ok()?;
    Some(folder)
}

fn join(folder: &Path) -> io::Result<()> {
    fs::write(folder.join("cgroup.procs"), "0")
}

/// Kills all that is in a cgroup that is held, and not what is in one that has come to be called like it.
fn kill(held: &File) {
    let file = openat(held, "cgroup.kill", OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty());
    // There may be none.
    let _ = file.map(File::from).map(|mut file| file.write_all(b"1"));
}

/// Removes a cgroup with those that were made in it; one in which something lives stays.
fn remove(folder: &Path) -> bool {
    for inner in inner(folder) {
        remove(&inner);
    }
    fs::remove_dir(folder).is_ok()
}

/// Returns those that were made in it.
fn inner(folder: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    let is_folder = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
    entries.filter(is_folder).map(|entry| entry.path())
}

/// Returns the folder of the cgroup that this process is in, of the second version.
fn own() -> Option<PathBuf> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    folder_of(&groups, &mounts)
}

/// Finds the folder of a cgroup, from what `/proc` says of a process.
fn folder_of(groups: &str, mounts: &str) -> Option<PathBuf> {
    let group = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    mounts.lines().find_map(|line| {
        let (place, kind) = line.split_once(" - ")?;
        if kind.split(' ').next() != Some("cgroup2") {
            return None;
        }
        // Number, parent, device, the folder that is mounted, and where.
        let mut fields = place.split(' ').skip(3);
        let (root, mounted) = (fields.next()?, fields.next()?);
        let below = Path::new(group).strip_prefix(root).ok()?;
        Some(Path::new(mounted).join(below))
    })
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader};
    use std::process::{Command, Stdio};

    use super::*;

    // Who starts just when another looks for what is left over lets that have its cgroup, and makes a new one.
    #[test]
    fn what_was_taken_for_left_over_is_not_another_of_its_name() {
        let folder = own().map(|above| above.join(format!("test-{}", name(std::process::id()))));
        // It is not to be had everywhere.
        let Some(folder) = folder.filter(|folder| fs::create_dir(folder).is_ok()) else { return };
        let left_over = hold(&folder).unwrap();
        assert!(remove(&folder));
        fs::create_dir(&folder).unwrap();
        let mut cat = Command::new("cat");
        let mut cat = cat.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        fs::write(folder.join("cgroup.procs"), cat.id().to_string()).unwrap();
        kill(&left_over);
        cat.stdin.take().unwrap().write_all(b"here\n").unwrap();
        let said = BufReader::new(cat.stdout.take().unwrap()).lines().next();
        kill(&hold(&folder).unwrap());
        cat.wait().unwrap();
        assert!(remove(&folder));
        assert_eq!(said.map(Result::unwrap).as_deref(), Some("here"));
    }

    // Who is in a cgroup may look at it, and so may lock it.
    #[test]
    fn a_lock_keeps_nobody_whose_bowline_is_gone() {
        let Some(above) = own() else { return };
        let gone = Command::new("true").spawn().and_then(|mut child| {
            let pid = child.id();
            child.wait().map(|_| pid)
        });
        let lives_on = |maker: u32| {
            let folder = above.join(name(maker));
            fs::create_dir(&folder).ok()?;
            let _lock = hold(&folder).unwrap();
            let mut cat = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
            fs::write(folder.join("cgroup.procs"), cat.id().to_string()).unwrap();
            kill_left(&folder);
            drop(cat.stdin.take());
            let lives_on = cat.wait().unwrap().success();
            remove(&folder);
            Some(lives_on)
        };
        assert!(matches!(lives_on(gone.unwrap()), None | Some(false)));
        assert!(matches!(lives_on(std::process::id()), None | Some(true)));
    }

    #[test]
    fn a_cgroup_is_found_where_it_is_mounted() {
        let both = "8:pids:/a\n0::/user.slice/me.scope\n";
        let whole = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n";
        let part = "30 23 0:26 /user.slice /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        let other = "30 23 0:26 /system.slice /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        let old = "30 23 0:26 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n";
        let found = |mounts: &str| folder_of(both, mounts);
        assert_eq!(found(whole), Some("/sys/fs/cgroup/user.slice/me.scope".into()));
        assert_eq!(found(part), Some("/sys/fs/cgroup/me.scope".into()));
        assert_eq!(found(other), None);
        assert_eq!(found(old), None);
        assert_eq!(found(&format!("{old}{whole}")), found(whole));
        assert_eq!(folder_of("8:pids:/a\n", whole), None);
    }
}
