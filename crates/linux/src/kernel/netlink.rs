//! Questions to the kernel over netlink: one request, one answer.

use std::os::fd::OwnedFd;

use attachment::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, socket_with,
};

/// Bytes of `struct nlmsghdr`.
const HEADER: usize = 16;
const NLMSG_ERROR: u16 = 2;
const NLM_F_REQUEST: u16 = 1;

/// A netlink socket.
#[derive(Debug)]
pub(super) struct Netlink {
    socket: OwnedFd,
    sequence: u32,
    buffer: Box<[u8]>,
}

impl Netlink {
    pub(super) fn new(family: i32) -> Result<Netlink, Errno> {
        let protocol = std::num::NonZeroU32::new(family as u32).map(Protocol::from_raw);
        let socket = socket_with(
            AddressFamily::NETLINK,
            SocketType::DGRAM,
            SocketFlags::CLOEXEC,
            protocol,
        )?;
        rustix::net::connect(&socket, &SocketAddrNetlink::new(0, 0))?;
        Ok(Netlink {
            socket,
            sequence: 0,
            buffer: vec![0; 16 << 10].into(),
        })
    }

    /// Asks; gives the answer without its header.
    ///
    /// # Errors
    /// What the kernel answers instead.
    pub(super) fn ask(&mut self, kind: u16, body: &[u8]) -> Result<&[u8], Errno> {
        self.sequence = self.sequence.wrapping_add(1);
        let mut request = Vec::with_capacity(HEADER + body.len());
        request.extend((HEADER as u32 + body.len() as u32).to_ne_bytes());
        request.extend(kind.to_ne_bytes());
        request.extend(NLM_F_REQUEST.to_ne_bytes());
        request.extend(self.sequence.to_ne_bytes());
        request.extend(0u32.to_ne_bytes());
        request.extend(body);
        rustix::net::send(&self.socket, &request, SendFlags::empty())?;
        loop {
            // The kernel has answered before `send` returns.
            let (received, _) =
                rustix::net::recv(&self.socket, &mut self.buffer[..], RecvFlags::DONTWAIT)?;
            let message = self
                .buffer
                .get(..received)
                .filter(|message| message.len() >= HEADER);
            let message = message.ok_or(Errno::BADMSG)?;
            if u32_at(message, 8) != Some(self.sequence) {
                continue;
            }
            let kind = u16_at(message, 4).ok_or(Errno::BADMSG)?;
            if kind == NLMSG_ERROR {
                let code = u32_at(message, HEADER).ok_or(Errno::BADMSG)? as i32;
                return Err(Errno::from_raw_os_error(code.wrapping_neg()));
            }
            let len = u32_at(message, 0).ok_or(Errno::BADMSG)? as usize;
            return self.buffer[..received]
                .get(HEADER..len)
                .ok_or(Errno::BADMSG);
        }
    }
}

/// The attributes (`struct rtattr`) from byte `at` on: types and values.
pub(super) fn attributes(message: &[u8], mut at: usize) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let len = usize::from(u16_at(message, at)?);
        let kind = u16_at(message, at + 2)?;
        let value = message.get(at + 4..at.checked_add(len)?)?;
        at += len.next_multiple_of(4).max(4);
        Some((kind, value))
    })
}

pub(super) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}
