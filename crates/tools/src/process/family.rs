//! Who descends from the helper, read from `/proc`, and ways to end them.

use std::collections::HashSet;
use std::fs;
use std::io::{self, Read as _};
use std::time::Duration;

use rustix::process::{
    Pid, PidfdFlags, Signal, getpid, kill_process, kill_process_group, pidfd_open,
    pidfd_send_signal,
};

/// The variable by which a process that has left its group is still known as a command's.
pub(super) const TAG: &str = "BOWLINE_COMMAND";

/// Returns the content of [`TAG`] for a command of a helper.
pub(super) fn tag(helper: u32, command: impl std::fmt::Display) -> String {
    format!("{helper}-{command}")
}

/// One process as `/proc/<pid>/stat` shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) pid: Pid,
    pub(super) parent: i32,
    pub(super) group: i32,
    /// Whether it does nothing any more: it was stopped, or is over.
    is_still: bool,
    /// Tells a process from a later one with the same number.
    started: u64,
}

impl Process {
    fn read(pid: Pid) -> Option<Self> {
        let mut file = fs::File::open(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
        // Such a file comes in one piece; what counts stands at its beginning.
        let mut stat = [0; 1024];
        let length = file.read(&mut stat).ok()?;
        Self::parse(pid, stat.get(..length)?)
    }

    fn parse(pid: Pid, stat: &[u8]) -> Option<Self> {
        // The name stands in parentheses and may itself hold spaces and parentheses.
        let after_name = stat.iter().rposition(|byte| *byte == b')')? + 1;
        let rest = std::str::from_utf8(stat.get(after_name..)?).ok()?;
        let mut fields = rest.split_ascii_whitespace();
        let is_still = matches!(fields.next()?, "T" | "t" | "Z" | "X");
        let parent = fields.next()?.parse().ok()?;
        let group = fields.next()?.parse().ok()?;
        let started = fields.nth(16)?.parse().ok()?;
        Some(Self { pid, parent, group, is_still, started })
    }

    /// Tells whether both are the same process, whatever it has done meanwhile.
    pub(super) fn is(&self, other: &Self) -> bool {
        (self.pid, self.started) == (other.pid, other.started)
    }

    /// Sends a signal unless the number has come to mean another process.
    pub(super) fn signal(&self, signal: Signal) -> io::Result<()> {
        match pidfd_open(self.pid, PidfdFlags::empty()) {
            Ok(pidfd) => {
                let is_same = Self::read(self.pid).is_some_and(|now| now.started == self.started);
                if is_same { Ok(pidfd_send_signal(pidfd, signal)?) } else { Ok(()) }
            }
            Err(rustix::io::Errno::NOSYS) => Ok(kill_process(self.pid, signal)?),
            Err(error) => Err(error.into()),
        }
    }

    /// Reads a variable from the environment the process was executed with.
    pub(super) fn variable(&self, name: &str) -> Option<String> {
        let environment = fs::read(format!("/proc/{}/environ", self.pid.as_raw_nonzero())).ok()?;
        environment.split(|byte| *byte == 0).find_map(|pair| {
            let value = pair.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?;
            Some(String::from_utf8_lossy(value).into_owned())
        })
    }
}

/// Reads all that descends from this process, to which its orphans come: it has to be their reaper.
pub(super) fn own() -> Vec<Process> {
    // Without a child there is nobody, and to read who else runs takes long where many do.
    if own_children().is_empty() {
        return Vec::new();
    }
    let me = getpid().as_raw_pid();
    let mut own = descendants(&snapshot(), [me]);
    own.retain(|process| process.pid.as_raw_pid() != me);
    own
}

/// Reads all processes there are.
fn snapshot() -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(Pid::from_raw)
        .filter_map(Process::read)
        .collect()
}

/// Returns the processes of `all` that are `roots` or descend from them.
pub(super) fn descendants(all: &[Process], roots: impl IntoIterator<Item = i32>) -> Vec<Process> {
    let mut family: HashSet<i32> = roots.into_iter().collect();
    loop {
        let before = family.len();
        // Most come behind their parents, so that one round finds them all however deep they are.
        for process in all {
            if family.contains(&process.parent) {
                family.insert(process.pid.as_raw_pid());
            }
        }
        if family.len() == before {
            break;
        }
    }
    all.iter().filter(|process| family.contains(&process.pid.as_raw_pid())).copied().collect()
}

/// Returns the numbers of this process's own children, living or not yet waited for.
pub(super) fn own_children() -> Vec<i32> {
    let me = getpid().as_raw_pid();
    match fs::read_to_string(format!("/proc/self/task/{me}/children")) {
        Ok(list) => list.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect(),
        // Some kernels are built without that file.
        Err(_) => {
            let children = snapshot().into_iter().filter(|process| process.parent == me);
            children.map(|process| process.pid.as_raw_pid()).collect()
        }
    }
}

/// Signals processes and their groups; tells whether any could be reached.
///
/// A group is signalled in one step, so that none of its members slips away by forking. Descendants
/// cannot join a group outside their session, so no stranger is in one of them.
pub(super) fn signal_all(processes: &[Process], signal: Signal) -> bool {
    let own_group = rustix::process::getpgrp().as_raw_pid();
    let groups: HashSet<i32> = processes.iter().map(|process| process.group).collect();
    let mut is_reached = false;
    for group in groups.into_iter().filter(|group| *group != own_group) {
        if let Some(group) = Pid::from_raw(group) {
            is_reached |= kill_process_group(group, signal).is_ok();
        }
    }
    // Whoever shares the helper's own group has to be signalled alone.
    for process in processes.iter().filter(|process| process.group == own_group) {
        is_reached |= process.signal(signal).is_ok();
    }
    is_reached
}

/// How often those who run are looked for anew while they are stopped.
const STOPS: u32 = 10;

/// Kills a family that may grow faster than it is found: all are stopped first, since what stands still
/// makes nothing more, and one that dies would make room for another. Tells whether any could be reached.
pub(super) fn kill_growing(find: impl Fn() -> Vec<Process>) -> bool {
    let mut family = find();
    for _ in 0..STOPS {
        let moving: Vec<Process> =
            family.iter().filter(|process| !process.is_still).copied().collect();
        if moving.is_empty() {
            break;
        }
        signal_all(&moving, Signal::STOP);
        family = find();
    }
    signal_all(&family, Signal::KILL)
}

/// So many rounds in which nothing can be killed show that what is left is a program of another user.
const IN_VAIN: u32 = 50;

/// How long to wait between two rounds of killing what would not go.
pub(super) const ROUND: Duration = Duration::from_millis(5);

/// Kills all that descends from this process, again and again until nothing is left. `reap` collects those
/// that are over.
pub(super) fn end_descendants(mut reap: impl FnMut()) {
    let mut in_vain = 0;
    reap();
    while in_vain < IN_VAIN && !own_children().is_empty() {
        kill_children();
        in_vain = if kill_growing(own) { 0 } else { in_vain + 1 };
        reap();
        if !own_children().is_empty() {
            std::thread::sleep(ROUND);
            reap();
        }
    }
}

/// Kills the children of this process, and their groups. Of a chain of processes each of which only starts
/// the next one, the last is a child of its reaper most of the time.
fn kill_children() {
    let children = own_children().into_iter().filter_map(Pid::from_raw).filter_map(Process::read);
    signal_all(&children.collect::<Vec<_>>(), Signal::KILL);
}

/// Kills what the commands of a lost helper have left, wherever it went.
pub(super) fn kill_tagged(helper: u32) {
    let prefix = tag(helper, "");
    let is_left =
        |process: &Process| process.variable(TAG).is_some_and(|tag| tag.starts_with(&prefix));
    // What it starts meanwhile is found in the next round; who wins that race forever is no accident.
    let find = || snapshot().into_iter().filter(is_left).collect::<Vec<_>>();
    for _ in 0..100 {
        if find().is_empty() {
            return;
        }
        kill_growing(find);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_does_not_confuse_the_reader() {
        let stat = b"42 (a) b (c)) S 7 41 40 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 98765 1000 10";
        let pid = Pid::from_raw(42).unwrap();
        let expected = Process { pid, parent: 7, group: 41, is_still: false, started: 98765 };
        assert_eq!(Process::parse(pid, stat), Some(expected));
    }

    #[test]
    fn descendants_are_found_over_generations() {
        let process = |pid, parent| Process {
            pid: Pid::from_raw(pid).unwrap(),
            parent,
            group: pid,
            is_still: false,
            started: 0,
        };
        let all = [process(5, 4), process(4, 3), process(3, 1), process(9, 1)];
        let found = descendants(&all, [3]);
        assert_eq!(found, [process(5, 4), process(4, 3), process(3, 1)]);
    }
}
