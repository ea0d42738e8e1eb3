//! Any network interface as a wire, by a packet socket (packet(7)).
//!
//! With virtio-net's header before each frame, super-frames and unfinished checksums pass in both directions. The interface is in
//! promiscuous mode as long as the port is open: the addresses behind the port are not its own.

mod socket;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::io::Errno;

use crate::meta::{Capabilities, LINK_HEADER_LEN, MAX_SUPER_FRAME, Meta};
use crate::parts::{Parts, Whole};
use crate::{Fill, Port, Source, Take, interface, vnet};
use socket::Arrived;

/// How an interface is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketConfig {
    /// Send super-frames, which Linux or the interface cuts, and frames whose checksum they finish.
    ///
    /// What is received may be a super-frame in any case: of a veth's other end, or merged by the interface.
    pub tso: bool,
}

impl Default for PacketConfig {
    /// With super-frames.
    fn default() -> PacketConfig {
        PacketConfig { tso: true }
    }
}

/// Why an interface cannot be a wire, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The process must not open packet sockets.
    #[error(
        "no permission for a packet socket on {interface}: that needs CAP_NET_RAW; run with sudo, or \
         `sudo setcap cap_net_raw,cap_net_admin+ep` the program"
    )]
    NotPermitted {
        /// The interface.
        interface: String,
    },
    /// There is no such interface.
    #[error("there is no interface {interface}; `ip link` shows those of this network namespace")]
    NoInterface {
        /// The interface.
        interface: String,
    },
    /// Anything else.
    #[error("cannot {action} {interface}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// The interface.
        interface: String,
        /// Why it failed.
        #[source]
        source: io::Error,
    },
}

/// A packet socket on an interface.
#[derive(Debug)]
pub struct Packet {
    socket: OwnedFd,
    interface: String,
    index: u32,
    capabilities: Capabilities,
    /// Headers and frames that are received, one in each [`STRIDE`]. Empty of a send-only port.
    incoming: Box<[u8]>,
    /// Headers and frames that are sent, one behind the other.
    outgoing: Box<[u8]>,
    /// Where they are.
    queued: Vec<(usize, usize)>,
    /// How many of them are out.
    sent: usize,
    /// When to try the others again, for which the kernel had no memory.
    retry_at: Option<Instant>,
    /// Since when each frame was refused, if the last one was.
    refused_since: Option<Instant>,
    /// An error that the last call was given in place of sending, if it may be an earlier one's.
    given: Option<Errno>,
    counters: vnet::Counters,
}

impl Packet {
    /// Opens an interface, which must be there.
    ///
    /// # Errors
    /// See [`OpenError`]; each says what to do.
    pub fn open(interface: &str, config: PacketConfig) -> Result<Packet, OpenError> {
        Packet::open_for(interface, config, true)
    }

    /// Opens an interface, send-only: another port receives what comes.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_to_send(interface: &str, config: PacketConfig) -> Result<Packet, OpenError> {
        Packet::open_for(interface, config, false)
    }

    fn open_for(
        interface: &str,
        config: PacketConfig,
        receives: bool,
    ) -> Result<Packet, OpenError> {
        let name = || interface.to_owned();
        let failed = |action| {
            move |source| OpenError::Io {
                action,
                interface: interface.to_owned(),
                source,
            }
        };
        let index = interface::index(interface).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::InvalidInput => {
                OpenError::NoInterface { interface: name() }
            }
            _ if error.raw_os_error() == Some(libc::ENODEV) => {
                OpenError::NoInterface { interface: name() }
            }
            _ => failed("ask for the number of")(error),
        })?;
        let mtu = interface::mtu(interface).map_err(failed("ask for the MTU of"))?;
        let socket = socket::open().map_err(|error| match error.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => OpenError::NotPermitted { interface: name() },
            _ => failed("open a packet socket for")(error),
        })?;
        socket::set_up(&socket, index, receives).map_err(failed("set up a packet socket on"))?;
        let max_frame = match config.tso {
            true => MAX_SUPER_FRAME,
            false => usize::from(mtu) + LINK_HEADER_LEN,
        };
        Ok(Packet {
            socket,
            interface: name(),
            index,
            capabilities: Capabilities {
                mtu,
                max_frame,
                tso: config.tso,
                checksum: config.tso,
            },
            incoming: vec![0; if receives { RECEIVED * STRIDE } else { 0 }].into(),
            outgoing: vec![0; OUTGOING].into(),
            queued: Vec::with_capacity(BATCH),
            sent: 0,
            retry_at: None,
            refused_since: None,
            given: None,
            counters: vnet::Counters::default(),
        })
    }

    /// Gives the kernel what is queued. `false`: it has no memory for all of it now.
    fn flush(&mut self, now: Instant) -> io::Result<bool> {
        self.retry_at = None;
        while self.sent < self.queued.len() {
            let queued = &self.queued[self.sent..];
            match socket::send(&self.socket, &self.outgoing, queued) {
                Ok(count) => {
                    let bytes = queued[..count]
                        .iter()
                        .map(|(_, len)| len - vnet::HEADER_LEN);
                    self.counters.tx_bytes += bytes.sum::<usize>() as u64;
                    self.counters.tx_packets += count as u64;
                    self.sent += count;
                    self.was_taken();
                }
                Err(Errno::INTR) => {}
                Err(error) if self.may_be_anothers(error) => {}
                Err(error) => match self.judge(now, error)? {
                    Fate::Lost => self.sent += 1,
                    Fate::Waits => {
                        self.retry_at = Some(now + RETRY_INTERVAL);
                        return Ok(false);
                    }
                },
            }
        }
        self.queued.clear();
        self.sent = 0;
        Ok(true)
    }

    /// Gives the kernel a frame whose head, behind its header, is in the first `front` bytes from `at` on of `outgoing`. `false`: it has no
    /// memory for it now.
    fn send_parts(
        &mut self,
        now: Instant,
        (at, front): (usize, usize),
        parts: &Parts<'_>,
    ) -> io::Result<bool> {
        loop {
            match parts.write(&self.socket, &self.outgoing[at..at + front]) {
                Ok(len) => {
                    self.counters.tx_bytes += len.saturating_sub(vnet::HEADER_LEN) as u64;
                    self.counters.tx_packets += 1;
                    self.was_taken();
                    return Ok(true);
                }
                Err(Errno::INTR) => {}
                Err(error) if self.may_be_anothers(error) => {}
                Err(error) => return Ok(matches!(self.judge(now, error)?, Fate::Lost)),
            }
        }
    }

    /// A frame was sent. What another one's error was is known then.
    fn was_taken(&mut self) {
        self.refused_since = None;
        // Of a super-frame that was to be received behind others: see `receive`.
        self.counters.rx_errors += u64::from(self.given.take() == Some(Errno::INVAL));
    }

    /// Whether an error need not be that of the frame to send, which is tried once more then. The socket gives the next call, whatever it is for, what
    /// it has to tell of the interface, and of what was to be received behind other frames (recvmmsg(2)), and forgets it.
    fn may_be_anothers(&mut self, error: Errno) -> bool {
        let can_be = matches!(error, Errno::INVAL | Errno::NETDOWN) && self.given.is_none();
        self.given = can_be.then_some(error);
        can_be
    }

    /// What becomes of a frame that was not taken; counts it if it is lost.
    fn judge(&mut self, now: Instant, error: Errno) -> io::Result<Fate> {
        match error {
            Errno::AGAIN | Errno::NOMEM => Ok(Fate::Waits),
            // The interface's queue is full, or a filter drops the frame: time tells which.
            Errno::NOBUFS => {
                let since = *self.refused_since.get_or_insert(now);
                if now.saturating_duration_since(since) < PATIENCE {
                    return Ok(Fate::Waits);
                }
                self.counters.tx_dropped += 1;
                Ok(Fate::Lost)
            }
            // The interface is down, the frame is not to Linux's liking, or its memory was taken away: lost, as on any wire.
            Errno::NETDOWN | Errno::INVAL | Errno::MSGSIZE | Errno::IO | Errno::FAULT => {
                self.check_is_there()?;
                self.counters.tx_dropped += 1;
                Ok(Fate::Lost)
            }
            error => Err(self.gone(error)),
        }
    }

    /// A socket tells in the same way that its interface is down and that it was removed.
    fn check_is_there(&self) -> io::Result<()> {
        match interface::index_by(&self.socket, &self.interface) {
            Ok(index) if index == self.index => Ok(()),
            _ => Err(self.gone(Errno::NODEV)),
        }
    }

    /// The error that says that the interface cannot be used any longer.
    fn gone(&self, error: Errno) -> io::Error {
        let kind = io::Error::from(error).kind();
        let interface = &self.interface;
        io::Error::new(
            kind,
            format!("interface {interface} has failed or was removed: {error}"),
        )
    }
}

impl Port for Packet {
    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn transmit(&mut self, now: Instant, fill: &mut Fill<'_>) -> io::Result<usize> {
        self.transmit_parts(now, &mut Whole(fill))
    }

    fn transmit_parts(&mut self, now: Instant, source: &mut dyn Source) -> io::Result<usize> {
        if !self.flush(now)? {
            return Ok(0);
        }
        let (mut count, mut used, max_frame) = (0, 0, self.capabilities.max_frame);
        while count < BATCH && OUTGOING - used >= vnet::HEADER_LEN + max_frame {
            let (header, room) = self.outgoing[used..].split_at_mut(vnet::HEADER_LEN);
            let Some(parts) = source.next(&mut room[..max_frame]) else {
                break;
            };
            vnet::encode(parts.meta, &room[..parts.head], header);
            self.counters.tx_super_frames += u64::from(parts.meta.gso_size != 0);
            count += 1;
            let front = vnet::HEADER_LEN + parts.head;
            if parts.lent().is_empty() {
                self.queued.push((used, front));
                used += front;
                continue;
            }
            // It is sent by itself, behind those that are queued.
            if self.flush(now)? && self.send_parts(now, (used, front), &parts)? {
                used = 0;
                continue;
            }
            let whole = parts.gather(&mut self.outgoing[used + vnet::HEADER_LEN..]);
            self.queued.push((used, vnet::HEADER_LEN + whole));
            break;
        }
        self.flush(now)?;
        Ok(count)
    }

    fn receive(&mut self, _now: Instant, take: &mut Take<'_>) -> io::Result<usize> {
        if self.incoming.is_empty() {
            return Ok(0);
        }
        let mut arrived = [Arrived::default(); RECEIVED];
        let count = loop {
            match socket::receive(&self.socket, &mut self.incoming, &mut arrived) {
                Ok(count) => break count,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(0),
                // A super-frame that virtio-net's header cannot describe, of SCTP for one. The kernel has dropped it.
                Err(Errno::INVAL) => {
                    self.counters.rx_errors += 1;
                    return Ok(1);
                }
                Err(Errno::NETDOWN) => {
                    self.check_is_there()?;
                    return Ok(0);
                }
                Err(error) => return Err(self.gone(error)),
            }
        };
        for (room, arrived) in self.incoming.chunks_mut(STRIDE).zip(&arrived[..count]) {
            let Some((meta, frame)) = read(room, *arrived) else {
                self.counters.rx_errors += 1;
                continue;
            };
            self.counters.received(frame, meta);
            take(frame, meta);
        }
        Ok(count)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.retry_at
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.as_fd())
    }

    fn counters(&self, visit: &mut dyn FnMut(&'static str, u64)) {
        self.counters.visit(visit);
    }
}

/// A frame in its room, with its tag. `None` if there is no whole header.
fn read(room: &mut [u8], arrived: Arrived) -> Option<(Meta, &[u8])> {
    let end = TAG_LEN + arrived.len;
    let Some(tag) = arrived.tag else {
        return vnet::decode(room.get(TAG_LEN..end)?);
    };
    // What is before the tag moves towards the front.
    let before = vnet::HEADER_LEN + MAC_ADDRESSES_LEN;
    if arrived.len < before {
        return None;
    }
    room.copy_within(TAG_LEN..TAG_LEN + before, 0);
    room[before..before + TAG_LEN].copy_from_slice(&tag);
    let (mut meta, frame) = vnet::decode(room.get(..end)?)?;
    if let Some((start, _)) = &mut meta.needs_checksum {
        *start = start.saturating_add(TAG_LEN as u16);
    }
    Some((meta, frame))
}

/// What becomes of a frame that the kernel has not taken.
enum Fate {
    /// It is tried again.
    Waits,
    Lost,
}

/// Frames of one call to `transmit`.
const BATCH: usize = 64;
/// Bytes of these, with their headers: what stays in a core's cache.
const OUTGOING: usize = 4 * STRIDE;
/// Frames of one call to `receive`: so few that super-frames stay in a core's cache.
const RECEIVED: usize = 8;
/// Room for a header and the most bytes of a frame from the kernel.
const STRIDE: usize = (TAG_LEN + vnet::HEADER_LEN + MAX_SUPER_FRAME).next_multiple_of(64);
/// Bytes of a tag of 802.1Q, which the kernel takes out of a frame.
const TAG_LEN: usize = 4;
/// Bytes of a frame before its tag.
const MAC_ADDRESSES_LEN: usize = 12;
/// When to try again where the kernel had no memory for a frame.
const RETRY_INTERVAL: Duration = Duration::from_millis(1);
/// How long a frame waits for room in a queue that takes nothing meanwhile.
const PATIENCE: Duration = Duration::from_millis(20);
