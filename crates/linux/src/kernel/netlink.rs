//! Questions to the kernel over netlink.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::Range;
use std::os::fd::OwnedFd;

use attachment::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, socket_with,
};

/// Bytes of `struct nlmsghdr`.
const HEADER: usize = 16;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const NLM_F_REQUEST: u16 = 1;
const NLM_F_DUMP: u16 = 0x300;

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
            buffer: vec![0; 32 << 10].into(),
        })
    }

    /// Asks; gives the answer without its header.
    ///
    /// # Errors
    /// What the kernel answers instead.
    pub(super) fn ask(&mut self, kind: u16, body: &[u8]) -> Result<&[u8], Errno> {
        self.send(kind, NLM_F_REQUEST, body)?;
        loop {
            // The kernel has answered before `send` returns.
            let received = self.receive()?;
            if let Some(message) = Messages::new(&self.buffer[..received], self.sequence).next() {
                let range = message?;
                return self.buffer.get(range).ok_or(Errno::BADMSG);
            }
        }
    }

    /// Asks for all that there is; gives the answers, without their headers, one after the other to `take`.
    ///
    /// # Errors
    /// What the kernel answers instead.
    pub(super) fn dump(
        &mut self,
        kind: u16,
        body: &[u8],
        mut take: impl FnMut(&[u8]),
    ) -> Result<(), Errno> {
        self.send(kind, NLM_F_REQUEST | NLM_F_DUMP, body)?;
        loop {
            let received = self.receive()?;
            let mut messages = Messages::new(&self.buffer[..received], self.sequence);
            for message in messages.by_ref() {
                take(self.buffer.get(message?).ok_or(Errno::BADMSG)?);
            }
            if messages.is_done {
                return Ok(());
            }
        }
    }

    fn send(&mut self, kind: u16, flags: u16, body: &[u8]) -> Result<(), Errno> {
        self.sequence = self.sequence.wrapping_add(1);
        let mut request = Vec::with_capacity(HEADER + body.len());
        request.extend((HEADER as u32 + body.len() as u32).to_ne_bytes());
        request.extend(kind.to_ne_bytes());
        request.extend(flags.to_ne_bytes());
        request.extend(self.sequence.to_ne_bytes());
        request.extend(0u32.to_ne_bytes());
        request.extend(body);
        rustix::net::send(&self.socket, &request, SendFlags::empty())?;
        Ok(())
    }

    fn receive(&mut self) -> Result<usize, Errno> {
        let (received, _) =
            rustix::net::recv(&self.socket, &mut self.buffer[..], RecvFlags::DONTWAIT)?;
        Ok(received)
    }
}

/// The places of the answers to one request in what was received.
struct Messages<'a> {
    bytes: &'a [u8],
    at: usize,
    sequence: u32,
    /// The last one has come.
    is_done: bool,
}

impl Messages<'_> {
    fn new(bytes: &[u8], sequence: u32) -> Messages<'_> {
        Messages {
            bytes,
            at: 0,
            sequence,
            is_done: false,
        }
    }
}

impl Iterator for Messages<'_> {
    type Item = Result<Range<usize>, Errno>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.at + HEADER <= self.bytes.len() && !self.is_done {
            let message = &self.bytes[self.at..];
            let len = u32_at(message, 0)? as usize;
            if len < HEADER || len > message.len() {
                return Some(Err(Errno::BADMSG));
            }
            let body = self.at + HEADER..self.at + len;
            self.at += len.next_multiple_of(4);
            if u32_at(message, 8) != Some(self.sequence) {
                continue;
            }
            match u16_at(message, 4) {
                Some(NLMSG_DONE) => self.is_done = true,
                Some(NLMSG_ERROR) => {
                    let code = u32_at(message, HEADER).unwrap_or(0) as i32;
                    return Some(Err(Errno::from_raw_os_error(code.wrapping_neg())));
                }
                _ => return Some(Ok(body)),
            }
        }
        None
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

/// The address of `family` that these bytes begin with; an IPv4 address of a socket of IPv6 is IPv4's.
pub(super) fn ip(bytes: &[u8], family: i32) -> Option<IpAddr> {
    Some(match family {
        libc::AF_INET => Ipv4Addr::from(*bytes.first_chunk::<4>()?).into(),
        _ => Ipv6Addr::from(*bytes.first_chunk::<16>()?).to_canonical(),
    })
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}
