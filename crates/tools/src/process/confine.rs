//! The sandbox: what keeps a command and everything it starts to its [`Confinement`].
//!
//! Commands of one owner with one confinement share a room: namespaces of users, mounts, network and
//! of what else processes share, made once by a short process (`maker`) and kept by their descriptors.
//! In its mounts (`mounts`, for a `layout`) everything is read-only but what may be written, and what
//! is protected or hidden cannot be moved away. A command joins the room before it is executed (`way`),
//! gives up every capability for good, and puts itself under rules of Landlock (`files`) and a filter of
//! system calls (`filter`).
//!
//! Where namespaces cannot be had the rules of Landlock name what may be touched one by one, and the
//! filter refuses sockets. Where Landlock cannot be had a command that is to be confined is refused.

mod files;
mod filter;
mod layout;
mod maker;
mod mounts;
mod names;
mod raw;
mod way;
mod wire;

use std::ffi::CString;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::{Pid, WaitOptions, waitpid};
use rustix::thread::LinkNameSpaceType;

use super::available::Available;
use super::child;
use super::family::{self, Process};
use crate::guard::{Confinement, Network};
use filter::{Filter, Sockets};
use layout::Layout;
use maker::{Made, Plan, Realm, Word};
use names::Names;
use wire::Wire;

pub(super) use way::Way;

/// Where the proxy of a room listens, on the loopback of the room's network; [`super::PROXY`] names it.
const PROXY_PORT: u16 = 3128;

/// How often a room is tried to be made, while other processes change what is arranged in it: another
/// bowline that has just ended takes away what it had put there.
const TRIES: u32 = 5;

/// How long to wait before trying again.
const BETWEEN_TRIES: Duration = Duration::from_millis(10);

/// How long names stay taken after the last command of a room: to take them anew costs more than a command,
/// and a model often asks for the next one within this time.
const NAMES_STAY: Duration = Duration::from_secs(5);

/// How long a room stays after the last command in it.
const ROOM_STAYS: Duration = Duration::from_mins(10);

/// How long to wait before a room that is closed is looked at again.
const ROUND: Duration = Duration::from_millis(5);

/// Names a room.
pub(super) type RoomId = u64;

/// The rooms that a helper keeps.
#[derive(Debug, Default)]
pub(super) struct Rooms {
    rooms: Vec<Room>,
    next: RoomId,
    /// Whether it has been tried in vain to have any.
    are_impossible: bool,
}

/// What commands of one owner with one confinement share.
#[derive(Debug)]
struct Room {
    id: RoomId,
    owner: String,
    confinement: Confinement,
    /// The folder in which its commands write their output.
    outputs: Option<PathBuf>,
    layout: Layout,
    users: Arc<OwnedFd>,
    ipc: Arc<OwnedFd>,
    network: Option<Arc<OwnedFd>>,
    mounts: Arc<OwnedFd>,
    rules: Arc<OwnedFd>,
    filter: Arc<Filter>,
    /// What must not be made, as long as somebody is in the room.
    names: Names,
    idle_since: Option<Instant>,
    /// Whether nobody will come in any more.
    is_closed: bool,
}

/// What a command is to be confined to.
#[derive(Debug)]
pub(super) struct Asked<'a> {
    pub(super) owner: &'a str,
    pub(super) confinement: &'a Confinement,
    /// The file that takes its output.
    pub(super) output: Option<&'a Path>,
    pub(super) cwd: &'a Path,
}

impl Asked<'_> {
    /// Returns the folder in which its output is.
    fn outputs(&self) -> Option<&Path> {
        self.output.and_then(Path::parent)
    }
}

/// The way of one command into its confinement.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) way: Way,
    /// None if there are no namespaces.
    pub(super) room: Option<RoomId>,
    /// Where a proxy is to listen, if the room is new and has one.
    pub(super) listener: Option<OwnedFd>,
}

impl Rooms {
    /// Finds or makes what a command is confined to.
    pub(super) fn enter(&mut self, asked: &Asked<'_>) -> Result<Entry, String> {
        if raw::landlock_version() == 0 {
            return Err("there is no Landlock".to_owned());
        }
        if self.are_impossible {
            return alone(asked);
        }
        let mut listener = None;
        let mut tries = 0;
        loop {
            tries += 1;
            match self.way_in(asked, &mut listener) {
                Ok(way) => return Ok(Entry { listener, ..way }),
                // Only before there has been any: nobody gets less because of what others do.
                Err(_) if self.next == 0 && confines_alone() && simplest_room().is_err() => {
                    self.are_impossible = true;
                    return alone(asked);
                }
                Err(error) if tries >= TRIES => return Err(error),
                Err(_) => std::thread::sleep(BETWEEN_TRIES),
            }
        }
    }

    /// Finds or makes a room. What is arranged in it may come and go meanwhile: then this fails, and a new
    /// look finds it as it is.
    fn way_in(
        &mut self,
        asked: &Asked<'_>,
        listener: &mut Option<OwnedFd>,
    ) -> Result<Entry, String> {
        let at = match self.rooms.iter().position(|room| room.is_for(asked)) {
            Some(at) => at,
            None => {
                let (room, made) = Room::new(self.next, asked)?;
                self.next += 1;
                *listener = made;
                self.rooms.push(room);
                self.rooms.len() - 1
            }
        };
        let room = self.rooms.get_mut(at).ok_or("the room is gone")?;
        room.idle_since = None;
        if !room.layout.holds() || !room.names.are_free(&room.layout.absent) {
            room.rearrange()?;
        }
        let way = room.way(asked.cwd)?;
        Ok(Entry { way, room: Some(room.id), listener: None })
    }

    /// Gives names free that no command could take any more, and rooms that nobody uses.
    pub(super) fn tidy(&mut self, is_used: impl Fn(RoomId) -> bool) {
        let now = Instant::now();
        for room in &mut self.rooms {
            if is_used(room.id) {
                room.idle_since = None;
                continue;
            }
            let idle = now.duration_since(*room.idle_since.get_or_insert(now));
            if idle >= NAMES_STAY && !room.names.is_empty() {
                match room.is_inhabited() {
                    true => room.idle_since = None,
                    false => room.names.free(),
                }
            }
        }
        self.clear();
        let is_over = |room: &Room| room.idle_since.is_some_and(|since| now - since >= ROOM_STAYS);
        self.rooms.retain(|room| !is_over(room) || room.is_inhabited());
    }

    /// Returns after how long there is something to tidy.
    pub(super) fn due(&self, is_used: impl Fn(RoomId) -> bool) -> Option<Duration> {
        let idle = self.rooms.iter().filter(|room| !is_used(room.id));
        let stays = |room: &Room| match (room.is_closed, room.names.is_empty()) {
            (true, _) => ROUND,
            (false, true) => ROOM_STAYS,
            (false, false) => NAMES_STAY,
        };
        idle.map(stays).min()
    }

    /// Closes the rooms of those who are gone. What has hidden itself in there so well that it was not ended
    /// is killed.
    pub(super) fn close(&mut self, is_gone: impl Fn(&str) -> bool) {
        for room in self.rooms.iter_mut().filter(|room| is_gone(&room.owner)) {
            room.is_closed = true;
        }
        self.clear();
    }

    /// Drops closed rooms as soon as nobody is in them.
    fn clear(&mut self) {
        self.rooms.retain(|room| {
            let inhabitants = if room.is_closed { room.inhabitants() } else { Vec::new() };
            family::signal_all(&inhabitants, rustix::process::Signal::KILL);
            !room.is_closed || !inhabitants.is_empty()
        });
    }
}

/// Returns the way of a command that has no namespaces.
fn alone(asked: &Asked<'_>) -> Result<Entry, String> {
    let confinement = asked.confinement;
    if let Network::Hosts(hosts) = &confinement.network {
        return Err(format!(
            "only some hosts may be reached ({}), and without namespaces that cannot be enforced",
            hosts.join(", ")
        ));
    }
    let layout = Layout::of(confinement);
    let sockets =
        Sockets { internet: confinement.network == Network::Full, unix: confinement.unix_sockets };
    let way = Way {
        spaces: Vec::new(),
        names: Vec::new(),
        cwd: path(asked.cwd)?,
        limits: way::limits(&confinement.limits),
        keeps: way::keeps(false),
        may_drop: way::may_drop(),
        rules: Arc::new(files::alone(&layout, asked.output)?),
        filter: Arc::new(filter::program(sockets)?),
    };
    Ok(Entry { way, room: None, listener: None })
}

impl Room {
    fn new(id: RoomId, asked: &Asked<'_>) -> Result<(Self, Option<OwnedFd>), String> {
        let confinement = asked.confinement;
        let layout = Layout::of(confinement);
        let network = confinement.network != Network::Full;
        let proxy = matches!(confinement.network, Network::Hosts(_));
        let outputs = asked.outputs().map(Path::to_owned);
        let realm = Realm::New { network, proxy };
        let (made, descriptors) =
            ask(&Plan { realm, layout: layout.clone(), outputs: outputs.clone() }, None)?;
        let mut descriptors = descriptors.into_iter();
        let mut next = |is_there: bool| match is_there {
            true => descriptors.next().map(Some).ok_or("a namespace did not come"),
            false => Ok(None),
        };
        let (mounts, rules) = (needed(next(true)?)?, needed(next(true)?)?);
        let (users, ipc) = (needed(next(made.realm)?)?, needed(next(made.realm)?)?);
        let own_network = next(made.network)?.map(Arc::new);
        let listener = next(made.listener)?;
        let sockets = Sockets { internet: true, unix: confinement.unix_sockets };
        let room = Self {
            id,
            owner: asked.owner.to_owned(),
            confinement: confinement.clone(),
            outputs,
            layout,
            users: Arc::new(users),
            ipc: Arc::new(ipc),
            network: own_network,
            mounts: Arc::new(mounts),
            rules: Arc::new(rules),
            filter: Arc::new(filter::program(sockets)?),
            names: Names::default(),
            idle_since: None,
            is_closed: false,
        };
        Ok((room, listener))
    }

    fn is_for(&self, asked: &Asked<'_>) -> bool {
        !self.is_closed
            && self.owner == asked.owner
            && self.confinement == *asked.confinement
            && self.outputs.as_deref() == asked.outputs()
    }

    /// Makes the mounts anew, since files have come, gone or been replaced.
    fn rearrange(&mut self) -> Result<(), String> {
        // Who is in the mounts as they were must not find a name free.
        match self.is_inhabited() {
            true => self.names.unfix(),
            false => self.names.free(),
        }
        let layout = Layout::of(&self.confinement);
        let outputs = self.outputs.clone();
        let plan = Plan { realm: Realm::Old, layout: layout.clone(), outputs };
        let (_, descriptors) = ask(&plan, Some(&self.users))?;
        let mut descriptors = descriptors.into_iter();
        self.mounts = Arc::new(needed(descriptors.next())?);
        self.rules = Arc::new(needed(descriptors.next())?);
        self.layout = layout;
        Ok(())
    }

    /// Returns the way of one command into the room.
    fn way(&mut self, cwd: &Path) -> Result<Way, String> {
        let names = self.names.take(&self.layout.absent)?;
        let mut spaces = vec![
            (Arc::clone(&self.users), LinkNameSpaceType::User),
            (Arc::clone(&self.mounts), LinkNameSpaceType::Mount),
            (Arc::clone(&self.ipc), LinkNameSpaceType::InterProcessCommunication),
        ];
        let network = self.network.iter();
        spaces.extend(network.map(|network| (Arc::clone(network), LinkNameSpaceType::Network)));
        Ok(Way {
            spaces,
            names,
            cwd: path(cwd)?,
            limits: way::limits(&self.confinement.limits),
            keeps: way::keeps(true),
            may_drop: true,
            rules: Arc::clone(&self.rules),
            filter: Arc::clone(&self.filter),
        })
    }

    fn is_inhabited(&self) -> bool {
        !self.inhabitants().is_empty()
    }

    /// Finds the processes that are in the room, wherever they have hidden themselves.
    fn inhabitants(&self) -> Vec<Process> {
        let Ok(users) = rustix::fs::fstat(self.users.as_fd()) else { return Vec::new() };
        let mut family = family::own();
        family.retain(|process| {
            let namespace = format!("/proc/{}/ns/user", process.pid.as_raw_nonzero());
            rustix::fs::stat(namespace).is_ok_and(|found| found.st_ino == users.st_ino)
        });
        family
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.names.free();
    }
}

/// Has a maker make something. This process must have one thread.
fn ask(plan: &Plan, users: Option<&OwnedFd>) -> Result<(Made, Vec<OwnedFd>), String> {
    let (wire, theirs) = Wire::pair()?;
    let maker = child::fork().map_err(|error| format!("no maker of namespaces: {error}"))?;
    let Some(maker) = maker else {
        child::forget_handlers();
        // It ends if the helper does.
        drop(wire);
        std::process::exit(maker::make(theirs));
    };
    drop(theirs);
    let answer = conversation(&wire, maker, plan, users);
    // It waits for no more words then, and nobody else waits for it.
    drop(wire);
    let _ = rustix::io::retry_on_intr(|| waitpid(Some(maker), WaitOptions::empty()));
    answer
}

fn conversation(
    wire: &Wire,
    maker: Pid,
    plan: &Plan,
    users: Option<&OwnedFd>,
) -> Result<(Made, Vec<OwnedFd>), String> {
    let users: Vec<_> = users.iter().map(|users| users.as_fd()).collect();
    wire.send(plan, &users)?;
    loop {
        match wire.receive()? {
            (Word::NeedsUsers, _) => {
                maker::name_users(maker)?;
                wire.send(&Word::HasUsers, &[])?;
            }
            (Word::Made(made), descriptors) => return Ok((made, descriptors)),
            (Word::Failed(error), _) => return Err(error),
            (Word::HasUsers, _) => return Err("a maker makes no sense".to_owned()),
        }
    }
}

/// Tells whether this kernel confines commands even where namespaces cannot be had.
pub(super) fn confines_alone() -> bool {
    let (landlock, seccomp) = (raw::landlock_version(), raw::has_filters());
    Available { landlock, seccomp, ..Available::default() }.confines()
}

/// Really tries what there is, in a process that ends afterwards.
pub(super) fn probe() -> Available {
    let landlock = raw::landlock_version();
    let room = simplest_room();
    let sockets = Sockets { internet: true, unix: true };
    let applied = filter::program(sockets).map(|filter| raw::install(&filter).is_ok());
    Available {
        landlock,
        namespaces: room.is_ok(),
        seccomp: applied.unwrap_or(false),
        why: room.err().filter(|_| landlock > 0),
    }
}

/// Makes a room in which there is nothing special: where that cannot be done there are no namespaces.
fn simplest_room() -> Result<(), String> {
    let asked = Asked {
        owner: "",
        confinement: &Confinement::default(),
        output: None,
        cwd: Path::new("/"),
    };
    Room::new(0, &asked).map(drop)
}

fn needed(descriptor: Option<OwnedFd>) -> Result<OwnedFd, String> {
    descriptor.ok_or_else(|| "a namespace did not come".to_owned())
}

fn path(path: &Path) -> Result<CString, String> {
    use std::os::unix::ffi::OsStrExt as _;
    CString::new(path.as_os_str().as_bytes()).map_err(|error| error.to_string())
}
