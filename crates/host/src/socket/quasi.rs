//! Quasi control blocks: all that is kept of a connection that the NIC has set up, until it needs more (AccelTCP, "Lazy TCB
//! Creation").
//!
//! ```text
//! socket table ── 16 bytes ──▶ quasi control block ── 40 bytes, both families
//!                              its buffers ────────── what was received and written, beside it
//! ```
//! Only what peer and host have said is in the 40 bytes. The handles of the buffers that the application has not read, or has
//! written and not sent, are in an array of their own at the same index ([`Held`], 64 bytes).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Instant;

use tcp::{Accepted, Chunk, Handshake};
use wire::tcp::Header;
use wire::{FlowKey, SeqNum};

use super::{ReceiveSide, Socket};
use crate::ListenerId;
use crate::driver::Payload;
use crate::events::EventKinds;
use crate::memory::Buffer;
use crate::stream::{RxStatus, Segment, Stream};

/// A connection in ESTABLISHED or CLOSE-WAIT whose peer has sent one segment at most, and to which nothing was sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quasi {
    /// The peer's address; of IPv4 the first four bytes.
    remote: [u8; 16],
    remote_port: u16,
    local: EndpointId,
    /// Position of the peer's first byte.
    pub start: SeqNum,
    /// Position of our first byte, which is not sent.
    pub first: SeqNum,
    /// TS.Recent (RFC 7323 §4.3).
    pub recent: u32,
    /// Our TSval less the stack's own clock, in milliseconds.
    pub clock: u32,
    /// The window field of the peer's last segment.
    pub window: u16,
    /// Number of the peer's MSS (4 bits), its window shift (4 bits, 15 for none), SACK (1 bit), and [`Flag`]s.
    agreed: u16,
}

// AccelTCP: "a quasi-TCB (40 bytes)".
const _: () = assert!(size_of::<Quasi>() <= 40);

/// The buffers of a quasi control block, and who it waits for.
#[derive(Debug, Default)]
pub(crate) struct Held {
    /// Payload that the application has not read.
    pub received: Option<Buffer>,
    /// What the application has written.
    pub written: Option<Buffer>,
    /// Payload bytes that the peer has sent.
    pub taken: u32,
    /// Where it waits to be accepted.
    pub listener: Option<ListenerId>,
}

// What the 40 bytes do not count.
const _: () = assert!(size_of::<Held>() <= 64);

/// What may be true of a quasi control block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub(crate) enum Flag {
    /// The application has it.
    Accepted = 1 << 9,
    /// The peer's FIN was taken.
    PeerFin = 1 << 10,
    /// `Readable` is on its way to the application.
    Told = 1 << 11,
    /// The application has found nothing to read since the last `Readable`.
    WantsRead = 1 << 12,
    /// The application has closed it.
    Closed = 1 << 13,
    /// The NIC was asked to finish it.
    Handed = 1 << 14,
    /// Nagle's algorithm is off.
    NoDelay = 1 << 15,
}

const SHIFT_AT: u16 = 4;
const NO_SHIFT: u16 = 15;
const SACK: u16 = 1 << 8;

impl Quasi {
    #[inline]
    pub fn is(&self, flag: Flag) -> bool {
        self.agreed & flag as u16 != 0
    }

    #[inline]
    pub fn set(&mut self, flag: Flag, on: bool) {
        if on {
            self.agreed |= flag as u16;
        } else {
            self.agreed &= !(flag as u16);
        }
    }
}

/// A local address and port that connections share, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct EndpointId(u16);

#[derive(Clone, Copy, Debug)]
struct Endpoint {
    address: (IpAddr, u16),
    /// Quasi control blocks that name it; a number with none is free.
    users: u32,
}

/// What a connection is made of that gets a quasi control block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opening {
    /// From us to the peer.
    pub flow: FlowKey,
    pub start: SeqNum,
    pub first: SeqNum,
    pub recent: u32,
    pub clock: u32,
    pub window: u16,
    pub handshake: Handshake,
}

/// Every quasi control block of the stack, in a slab of their own.
#[derive(Debug, Default)]
pub(crate) struct Quasis {
    entries: Vec<Quasi>,
    held: Vec<Held>,
    free: Vec<u32>,
    endpoints: Vec<Endpoint>,
    /// The endpoint used last.
    last: usize,
    /// Every MSS that peers have announced, as cookies have rounded them.
    mss: Vec<u16>,
}

/// Different MSSs at most: the number has four bits.
const MAX_MSS: usize = 16;

impl Quasis {
    /// Makes a quasi control block; `None` when the connection can't be said in one.
    #[inline]
    pub fn insert(&mut self, opening: &Opening, held: Held) -> Option<u32> {
        let mss = self.mss_number(opening.handshake.mss)?;
        let local = self.endpoint(opening.flow.src)?;
        let remote = match opening.flow.dst.0 {
            IpAddr::V4(v4) => {
                let mut bytes = [0; 16];
                bytes[..4].copy_from_slice(&v4.octets());
                bytes
            }
            IpAddr::V6(v6) => v6.octets(),
        };
        let shift = opening.handshake.window_scale.map_or(NO_SHIFT, |shift| {
            u16::from(shift.min(wire::tcp::MAX_WINDOW_SCALE))
        });
        let sack = if opening.handshake.sack { SACK } else { 0 };
        let entry = Quasi {
            remote,
            remote_port: opening.flow.dst.1,
            local,
            start: opening.start,
            first: opening.first,
            recent: opening.recent,
            clock: opening.clock,
            window: opening.window,
            agreed: mss | shift << SHIFT_AT | sack,
        };
        Some(match self.free.pop() {
            Some(index) => {
                self.entries[index as usize] = entry;
                self.held[index as usize] = held;
                index
            }
            None => {
                self.entries.push(entry);
                self.held.push(held);
                self.entries.len() as u32 - 1
            }
        })
    }

    #[inline]
    pub fn get(&self, index: u32) -> (&Quasi, &Held) {
        (&self.entries[index as usize], &self.held[index as usize])
    }

    #[inline]
    pub fn get_mut(&mut self, index: u32) -> (&mut Quasi, &mut Held) {
        (
            &mut self.entries[index as usize],
            &mut self.held[index as usize],
        )
    }

    /// Frees an entry; gives what it was.
    #[inline]
    pub fn remove(&mut self, index: u32) -> (Quasi, Held) {
        let entry = self.entries[index as usize];
        self.endpoints[usize::from(entry.local.0)].users -= 1;
        self.free.push(index);
        (entry, std::mem::take(&mut self.held[index as usize]))
    }

    /// Quasi control blocks in use.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    /// The flow from us to the peer.
    #[inline]
    pub fn flow(&self, quasi: &Quasi) -> FlowKey {
        let local = self.endpoints[usize::from(quasi.local.0)].address;
        let remote = match (local.0, quasi.remote) {
            (IpAddr::V4(_), [a, b, c, d, ..]) => IpAddr::V4(Ipv4Addr::new(a, b, c, d)),
            (IpAddr::V6(_), bytes) => IpAddr::V6(Ipv6Addr::from(bytes)),
        };
        FlowKey {
            src: local,
            dst: (remote, quasi.remote_port),
        }
    }

    /// What the SYNs have agreed on; the timestamp is our TSval when the stack's clock is at `clock`.
    #[inline]
    pub fn handshake(&self, quasi: &Quasi, clock: u32) -> Handshake {
        let shift = quasi.agreed >> SHIFT_AT & 15;
        Handshake {
            mss: self.mss[usize::from(quasi.agreed & 15)],
            window_scale: (shift != NO_SHIFT).then_some(shift as u8),
            sack: quasi.agreed & SACK != 0,
            timestamp: quasi.clock.wrapping_add(clock),
        }
    }

    fn mss_number(&mut self, mss: u16) -> Option<u16> {
        let known = self.mss.iter().position(|known| *known == mss);
        let number = known.or_else(|| {
            (self.mss.len() < MAX_MSS).then(|| {
                self.mss.push(mss);
                self.mss.len() - 1
            })
        })?;
        Some(number as u16)
    }

    #[inline]
    fn endpoint(&mut self, address: (IpAddr, u16)) -> Option<EndpointId> {
        let is = |endpoint: &Endpoint| endpoint.users > 0 && endpoint.address == address;
        if !self.endpoints.get(self.last).is_some_and(is) {
            let known = self.endpoints.iter().position(is);
            let free = || {
                self.endpoints
                    .iter()
                    .position(|endpoint| endpoint.users == 0)
            };
            self.last = match known.or_else(free) {
                Some(at) => at,
                None => {
                    let next = self.endpoints.len();
                    u16::try_from(next).ok()?;
                    self.endpoints.push(Endpoint { address, users: 0 });
                    next
                }
            };
        }
        let endpoint = &mut self.endpoints[self.last];
        endpoint.address = address;
        endpoint.users += 1;
        Some(EndpointId(self.last as u16))
    }
}

/// What the NIC did to bytes of connections that it has set up: nothing.
const UNTOUCHED: RxStatus = RxStatus {
    replaced: None,
    checked: false,
};

impl Socket {
    /// Takes over what a quasi control block has kept: the peer's segment, and what was received and written.
    pub fn adopt(&mut self, now: Instant, quasi: &Quasi, held: Held, segment: &Header) {
        self.receive = ReceiveSide::Open;
        if !quasi.is(Flag::WantsRead) {
            self.awaited.remove(EventKinds::READABLE);
        }
        if quasi.is(Flag::Told) {
            self.pending.add(EventKinds::READABLE);
        }
        if held.taken > 0 || quasi.is(Flag::PeerFin) {
            self.tcp.handle_segment(now, segment, held.taken, 1);
        }
        let unread = held.received.as_ref().map_or(0, |it| it.len() as u32);
        let read = held.taken - unread;
        self.stream = Stream::new(quasi.start + read);
        if let Some(buffer) = held.received {
            let data = Accepted {
                seq: quasi.start + read,
                len: unread,
                skip: 0,
            };
            let next = self.tcp.rcv_nxt();
            self.stream
                .insert(data, next, Segment::new(buffer, UNTOUCHED));
        }
        self.tcp.consumed(now, read);
        if let Some(buffer) = held.written {
            let payload = Payload::plain(buffer);
            self.tcp.queue(now, payload.len());
            self.send.push(payload);
        }
        while let Some(event) = self.tcp.poll_event() {
            if event == tcp::Event::PeerFin {
                self.peer_closed();
            }
        }
    }
}

#[cfg(test)]
mod tests;
