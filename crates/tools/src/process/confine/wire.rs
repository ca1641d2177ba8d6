//! How the helper and a maker of namespaces talk: packets of JSON, with descriptors.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg,
    sendmsg, socketpair,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The longest packet.
const LONGEST: usize = 160 * 1024;

/// The most descriptors that come with one packet.
const MOST: usize = 6;

/// One end of the line between the helper and a maker.
#[derive(Debug)]
pub(super) struct Wire(OwnedFd);

impl Wire {
    pub(super) fn pair() -> Result<(Self, OwnedFd), String> {
        let kind = SocketType::SEQPACKET;
        let pair = socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None);
        let (ours, theirs) = pair.map_err(|error| format!("there are no sockets: {error}"))?;
        Ok((Self(ours), theirs))
    }

    pub(super) fn of(socket: OwnedFd) -> Self {
        Self(socket)
    }

    pub(super) fn send(
        &self,
        message: &impl Serialize,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<(), String> {
        let packet = serde_json::to_vec(message).map_err(|error| error.to_string())?;
        if packet.len() > LONGEST {
            return Err("too many paths are named".to_owned());
        }
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() {
            control.push(SendAncillaryMessage::ScmRights(descriptors));
        }
        let packet = [IoSlice::new(&packet)];
        let sent = sendmsg(self.0.as_fd(), &packet, &mut control, SendFlags::NOSIGNAL);
        sent.map(drop).map_err(|error| error.to_string())
    }

    /// Waits for a packet.
    pub(super) fn receive<T: DeserializeOwned>(&self) -> Result<(T, Vec<OwnedFd>), String> {
        let mut bytes = vec![0; LONGEST];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut into = [IoSliceMut::new(&mut bytes)];
        let received = loop {
            match recvmsg(&self.0, &mut into, &mut control, RecvFlags::CMSG_CLOEXEC) {
                Err(rustix::io::Errno::INTR) => {}
                received => break received.map_err(|error| error.to_string())?,
            }
        };
        if received.flags.intersects(ReturnFlags::CTRUNC | ReturnFlags::TRUNC) {
            return Err("an answer was cut".to_owned());
        }
        let mut descriptors = Vec::new();
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(received) = message {
                descriptors.extend(received);
            }
        }
        let packet = bytes.get(..received.bytes).unwrap_or_default();
        let message = serde_json::from_slice(packet);
        let message = message.map_err(|_| "the other end ended without a word".to_owned())?;
        Ok((message, descriptors))
    }
}
