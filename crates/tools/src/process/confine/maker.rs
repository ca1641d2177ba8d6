//! The process that makes namespaces and ends: they live on by their descriptors.
//!
//! It is a copy of the helper, which it leaves alone, and everything that takes many steps is done by a process
//! that has not to answer anybody.

use std::fs::File;
use std::io::Write as _;
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::{AsFd as _, OwnedFd};

use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, send, socket_with};
use rustix::process::Pid;
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space};
use serde::{Deserialize, Serialize};

use super::layout::Layout;
use super::wire::Wire;
use super::{PROXY_PORT, files, mounts, raw};

/// What the helper asks of a maker.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Plan {
    pub(super) realm: Realm,
    pub(super) layout: Layout,
    /// The folder in which commands write their output.
    pub(super) outputs: Option<std::path::PathBuf>,
}

/// The namespaces that stay while mounts are made anew.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Realm {
    /// They are to be made.
    New { network: bool, proxy: bool },
    /// The one of users comes with the plan.
    Old,
}

/// What a maker says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Word {
    /// The maker is in a namespace of users that has none yet.
    NeedsUsers,
    /// The helper has put the users there.
    HasUsers,
    /// All is made; the descriptors come along, in the order of [`Made`].
    Made(Made),
    Failed(String),
}

/// Which descriptors come: mounts, rules, and then those that are said to.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Made {
    /// Users and what processes share beside memory.
    pub(super) realm: bool,
    pub(super) network: bool,
    pub(super) listener: bool,
}

/// Serves as a maker.
pub(super) fn make(socket: OwnedFd) -> i32 {
    let wire = Wire::of(socket);
    let word = match made(&wire) {
        Ok((made, descriptors)) => {
            let descriptors: Vec<_> = descriptors.iter().map(|fd| fd.as_fd()).collect();
            return i32::from(wire.send(&Word::Made(made), &descriptors).is_err());
        }
        Err(error) => Word::Failed(error),
    };
    let _ = wire.send(&word, &[]);
    1
}

fn made(wire: &Wire) -> Result<(Made, Vec<OwnedFd>), String> {
    let (plan, descriptors): (Plan, _) = wire.receive()?;
    let mut made = Made::default();
    let mut rest = Vec::new();
    match plan.realm {
        Realm::New { network, proxy } => {
            raw::unshare(UnshareFlags::NEWUSER).map_err(failed("no namespace of users"))?;
            wire.send(&Word::NeedsUsers, &[])?;
            let (Word::HasUsers, _) = wire.receive()? else {
                return Err("the users are not known".to_owned());
            };
            let mut kinds = UnshareFlags::NEWIPC;
            kinds.set(UnshareFlags::NEWNET, network);
            raw::unshare(kinds).map_err(failed("no namespaces"))?;
            made = Made { realm: true, network, listener: network && proxy };
            rest.extend([own("user")?, own("ipc")?]);
            if network {
                raise_loopback().map_err(failed("no loopback"))?;
                rest.push(own("net")?);
            }
            if made.listener {
                let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, PROXY_PORT));
                rest.push(
                    listener.map_err(|error| format!("no place for a proxy: {error}"))?.into(),
                );
            }
        }
        Realm::Old => {
            let users = descriptors.first().ok_or("no namespace of users came along")?;
            move_into_link_name_space(users.as_fd(), Some(LinkNameSpaceType::User))
                .map_err(failed("the namespace of users is lost"))?;
        }
    }
    raw::unshare(UnshareFlags::NEWNS).map_err(failed("no namespace of mounts"))?;
    mounts::arrange(&plan.layout)?;
    let rules = files::beside_mounts(&plan.layout, plan.outputs.as_deref())?;
    let mut descriptors = vec![own("mnt")?, rules];
    descriptors.append(&mut rest);
    Ok((made, descriptors))
}

/// Says what could not be done.
pub(super) fn failed(what: &str) -> impl Fn(rustix::io::Errno) -> String {
    move |error| format!("{what}: {error}")
}

/// Opens a namespace of this process.
fn own(kind: &str) -> Result<OwnedFd, String> {
    let opened = File::open(format!("/proc/self/ns/{kind}"));
    opened.map(OwnedFd::from).map_err(|error| format!("the namespace {kind}: {error}"))
}

/// Turns the loopback of a new network on: it is there, and down.
fn raise_loopback() -> rustix::io::Result<()> {
    const NEW_LINK: u16 = 16;
    const REQUEST: u16 = 1;
    const LENGTH: u32 = 32;
    const LOOPBACK: u32 = 1;
    const UP: u32 = 1;
    let mut message = Vec::new();
    // A header with no sequence, then a link of any family and kind, its number, its flags, and which of
    // them change.
    message.extend(LENGTH.to_ne_bytes());
    message.extend([NEW_LINK.to_ne_bytes(), REQUEST.to_ne_bytes()].concat());
    message.extend([0; 8]);
    message.extend([0; 4]);
    message.extend([LOOPBACK.to_ne_bytes(), UP.to_ne_bytes(), UP.to_ne_bytes()].concat());
    let kernel = socket_with(
        AddressFamily::NETLINK,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        // What it speaks when nothing else is said is routes.
        None,
    )?;
    send(kernel, &message, SendFlags::empty()).map(drop)
}

/// Puts into a new namespace the users of this one, each as itself: all if this process may name them
/// all, otherwise itself.
pub(super) fn name_users(maker: Pid) -> Result<(), String> {
    let write = |name: &str, text: &str| {
        let file = File::options().write(true).open(format!("/proc/{}/{name}", maker.as_raw_pid()));
        file.and_then(|mut file| file.write_all(text.as_bytes()))
    };
    let read =
        |name: &str| std::fs::read_to_string(format!("/proc/self/{name}")).unwrap_or_default();
    let is_all = write("uid_map", &same(&read("uid_map"))).is_ok();
    if is_all && write("gid_map", &same(&read("gid_map"))).is_ok() {
        return Ok(());
    }
    let own = |number: u32| format!("{number} {number} 1");
    let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
    let user = if is_all { Ok(()) } else { write("uid_map", &own(user.as_raw())) };
    // Who may not name groups must not be able to leave one either.
    user.and_then(|()| write("setgroups", "deny"))
        .and_then(|()| write("gid_map", &own(group.as_raw())))
        .map_err(|error| format!("the users of a namespace cannot be named: {error}"))
}

/// Makes of a map of users one that leaves each as it is.
fn same(map: &str) -> String {
    let line = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        let (first, _, count) = (words.next()?, words.next()?, words.next()?);
        Some(format!("{first} {first} {count}\n"))
    };
    map.lines().filter_map(line).collect()
}
