//! Connections whose close the NIC finishes (AccelTCP, "Connection Teardown Offload").

use std::collections::VecDeque;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use nic::ring::ErrorCode;
use nic::ring::accel::{AccelRoom, Teardown, TimestampState};
use tcp::State;
use wire::ethernet::MacAddr;
use wire::packet::Parsed;
use wire::tcp::Flags;

use super::quasi::Flag;
use super::room::Room;
use crate::SocketId;
use crate::driver::{FrameInfo, HOP_LIMIT};
use crate::memory::Buffer;
use crate::neighbour::Resolution;
use crate::socket::{Socket, TeardownPhase, User};
use crate::stack::{Core, Stack};

/// Connections on their way to the NIC.
#[derive(Debug, Default)]
pub(crate) struct Teardowns {
    /// Closed since the last poll.
    due: VecDeque<SocketId>,
    /// Asked for, in the order of the send ring.
    posted: VecDeque<Posted>,
    room: Room,
}

#[derive(Clone, Copy, Debug)]
struct Posted {
    /// The descriptor's first slot, and the send ring's position behind it.
    first: u64,
    end: u64,
    socket: SocketId,
}

/// When to look again whether the NIC has taken what it was asked to take.
const FORGET: Duration = Duration::from_millis(10);
/// When to look again at a NIC that had no room in its ring.
pub(super) const STALL: Duration = Duration::from_micros(20);

impl Teardowns {
    /// The NIC is to be asked to finish a socket.
    #[inline]
    pub fn ask(&mut self, id: SocketId) {
        self.due.push_back(id);
    }

    /// Connections that the NIC was asked to finish and may still refuse.
    pub fn len(&self) -> usize {
        self.due.len() + self.posted.len()
    }

    pub fn poll_timeout(&self, last_poll: Instant) -> Option<Instant> {
        if !self.due.is_empty() {
            return Some(last_poll + STALL);
        }
        (!self.posted.is_empty()).then_some(last_poll + FORGET)
    }
}

impl Core {
    /// Whether the NIC may be asked to finish another connection.
    #[inline]
    pub(super) fn may_ask_teardown(&mut self, now: Instant) -> bool {
        if !self.config.accel.teardown {
            return false;
        }
        let teardowns = &self.accel.teardowns;
        let may = teardowns.room.allows(now, teardowns.len());
        self.counters.accel_teardowns_withheld += u64::from(!may);
        may
    }

    /// The NIC has told how much room it has.
    pub(crate) fn take_room(&mut self, room: AccelRoom) {
        self.accel.teardowns.room.tell(room);
    }

    /// Gives the NIC a frame that came up after its flow had been handed over.
    pub(crate) fn put_back(&mut self, frame: Buffer, info: &FrameInfo) {
        self.counters.accel_reinjected += 1;
        self.driver.reinject(frame, info.gso_size());
    }

    /// The MAC address of a peer's next hop, if nothing needs to be asked for it.
    #[inline]
    fn known_hop(&mut self, now: Instant, peer: IpAddr) -> Option<MacAddr> {
        let next_hop = self.interface.next_hop(peer)?;
        if let Some((address, hop)) = self.accel.last_hop
            && address == next_hop
            && let Some(mac) = self.neighbours.mac(hop, now)
        {
            return Some(mac);
        }
        match self.neighbours.resolve(now, next_hop) {
            Resolution::Known(hop, mac) => {
                self.accel.last_hop = Some((next_hop, hop));
                Some(mac)
            }
            Resolution::Pending | Resolution::Full => None,
        }
    }
}

impl Stack {
    /// Whether the NIC has still to be asked to finish a connection, or to say that it will not.
    pub fn has_pending_teardowns(&self) -> bool {
        self.core.accel.teardowns.len() > 0
    }

    /// Gives a closed socket up to the NIC, if it is one that the NIC may finish.
    pub(crate) fn close_on_nic(&mut self, now: Instant, id: SocketId) -> bool {
        let Some(socket) = self.sockets.get_mut(id) else {
            return false;
        };
        if !self.core.config.accel.teardown
            || !socket.is_simple()
            || socket.tcp.closing(now).is_none()
            || !self.core.may_ask_teardown(now)
        {
            return false;
        }
        socket.user = User::Released;
        socket.write_closed = true;
        socket.discards_input = true;
        socket.owner.ask_teardown();
        self.core.accel.teardowns.ask(id);
        true
    }

    /// The host closes a socket itself that the application has given up.
    pub(crate) fn close_on_host(&mut self, now: Instant, id: SocketId) {
        let Some(socket) = self.sockets.get_mut(id) else {
            return;
        };
        socket.owner.end_teardown();
        socket.write_closed = true;
        socket.discards_input = true;
        socket.stream.clear();
        socket.tcp.close(now);
        // Bytes that nobody has read stay unconsumed: TCP tells the peer by a reset.
        socket.tcp.detach(now);
        self.core.mark_ready(id, socket);
        self.retire_socket(now, id);
    }

    /// Whether the host is to take a segment of a connection, and not the NIC. What a connection that is to be handed over cannot be
    /// handed over with makes it the host's.
    #[inline]
    pub(crate) fn host_takes(&mut self, now: Instant, id: SocketId, parsed: &Parsed) -> bool {
        let socket = self.sockets.get(id);
        match socket.and_then(|socket| socket.owner.teardown()) {
            Some(TeardownPhase::Posted) => return false,
            Some(TeardownPhase::Due) => {
                let flags = parsed.tcp.flags;
                let is_ack = !flags.intersects(Flags::SYN | Flags::RST | Flags::FIN);
                if parsed.payload_len > 0 || !is_ack {
                    self.close_on_host(now, id);
                }
            }
            _ => {}
        }
        true
    }

    /// Asks the NIC to finish what was closed. Answers whether it asked for any.
    pub(super) fn post_teardowns(&mut self, now: Instant) -> bool {
        let mut asked = false;
        while let Some(&id) = self.core.accel.teardowns.due.front() {
            let posted = if self.sockets.is_quasi(id) {
                self.post_quasi(now, id)
            } else {
                self.post_whole(now, id)
            };
            match posted {
                TeardownRequest::Posted { first, end } => {
                    asked = true;
                    self.core.counters.accel_teardowns += 1;
                    self.core.accel.teardowns.posted.push_back(Posted {
                        first,
                        end,
                        socket: id,
                    });
                }
                TeardownRequest::NoRoom => return asked,
                TeardownRequest::Not => {}
            }
            self.core.accel.teardowns.due.pop_front();
        }
        asked
    }

    fn post_quasi(&mut self, now: Instant, id: SocketId) -> TeardownRequest {
        let Some((quasi, held)) = self.sockets.quasi(id) else {
            return TeardownRequest::Not;
        };
        let flow = self.sockets.quasis.flow(quasi);
        let Some(hop) = self.core.known_hop(now, flow.dst.0) else {
            // The host asks for it, and finishes.
            self.promote(now, id);
            return TeardownRequest::Not;
        };
        let core = &mut self.core;
        let clock = core.accel.clock(now);
        let handshake = self.sockets.quasis.handshake(quasi, clock);
        let config = &core.config.tcp;
        let fin = u32::from(quasi.is(Flag::PeerFin));
        let peer_shift = handshake.peer_shift(config);
        let teardown = Teardown {
            ticket: id.index,
            flow,
            hop,
            hop_limit: HOP_LIMIT,
            peer_closed: fin != 0,
            snd_una: quasi.first,
            snd_nxt: quasi.first,
            rcv_nxt: quasi.start + held.taken + fin,
            peer_window: u32::from(quasi.window) << peer_shift,
            peer_shift,
            window: handshake.window_field(config),
            our_shift: handshake.our_shift(config),
            mss: handshake.payload_mss(core.interface.mss(!flow.is_ipv6())),
            timestamps: Some(TimestampState {
                recent: quasi.recent,
                value: handshake.timestamp,
            }),
            rto_us: INITIAL_RTO_US.max(micros(config.min_rto)),
            retransmits: 0,
            time_wait_ms: millis(config.time_wait),
            fin_wait2_ms: millis(config.fin_wait_2),
        };
        let written = held.written.as_ref().map(Buffer::slice);
        let bytes = written.map_or(0, |slice| slice.len);
        if bytes > Teardown::payload_limit(teardown.mss) {
            self.promote(now, id);
            return TeardownRequest::Not;
        }
        let posted = core
            .driver
            .post_teardown(&teardown, written.as_slice(), &mut core.counters);
        let Some((first, end)) = posted else {
            return TeardownRequest::NoRoom;
        };
        if let Some((quasi, _)) = self.sockets.quasi_mut(id) {
            quasi.set(Flag::Handed, true);
        }
        TeardownRequest::Posted { first, end }
    }

    fn post_whole(&mut self, now: Instant, id: SocketId) -> TeardownRequest {
        let core = &mut self.core;
        let Some(socket) = self.sockets.get_mut(id) else {
            return TeardownRequest::Not;
        };
        if socket.owner.teardown() != Some(TeardownPhase::Due) {
            return TeardownRequest::Not;
        }
        let is_free = socket.is_simple() && core.unsent.is_none_or(|(owner, _)| owner != id);
        let closing = socket.tcp.closing(now).filter(|_| is_free);
        let hop = closing.and_then(|_| core.known_hop(now, socket.flow.dst.0));
        let (Some(closing), Some(hop)) = (closing, hop) else {
            self.close_on_host(now, id);
            return TeardownRequest::Not;
        };
        let config = &core.config.tcp;
        let teardown = Teardown {
            ticket: id.index,
            flow: socket.flow,
            hop,
            hop_limit: HOP_LIMIT,
            peer_closed: closing.state == State::CloseWait,
            snd_una: closing.snd_una,
            snd_nxt: closing.snd_nxt,
            rcv_nxt: closing.rcv_nxt,
            peer_window: closing.peer_window,
            peer_shift: closing.peer_shift,
            window: closing.window,
            our_shift: closing.our_shift,
            mss: closing.mss,
            timestamps: closing
                .timestamps
                .map(|(recent, value)| TimestampState { recent, value }),
            rto_us: micros(closing.rto),
            retransmits: 0,
            time_wait_ms: millis(config.time_wait),
            fin_wait2_ms: millis(config.fin_wait_2),
        };
        let bytes = closing.snd_una.distance_to(closing.end);
        let posted = if bytes <= Teardown::payload_limit(closing.mss)
            && core
                .driver
                .gather_plain(&socket.send, closing.snd_una, bytes)
        {
            core.driver.post_gathered(&teardown, &mut core.counters)
        } else {
            self.close_on_host(now, id);
            return TeardownRequest::Not;
        };
        let Some((first, end)) = posted else {
            return TeardownRequest::NoRoom;
        };
        socket.owner.teardown_posted();
        if !socket.tcp.is_passive() {
            // Its port is not for another connection to this peer for a while. The NIC answers for it, and what that passes up is of
            // no connection any more.
            let has_timestamps = closing.timestamps.is_some();
            core.time_wait.withhold(now, socket.flow, has_timestamps);
        }
        TeardownRequest::Posted { first, end }
    }

    /// Forgets the connections that the NIC has taken and not refused.
    pub(super) fn forget_handed_over(&mut self) {
        let settled = self.core.driver.settled();
        while let Some(posted) = self.core.accel.teardowns.posted.front()
            && posted.end <= settled
        {
            let id = posted.socket;
            self.core.accel.teardowns.posted.pop_front();
            let quasi = self.sockets.quasi(id);
            if quasi.is_some_and(|(quasi, _)| quasi.is(Flag::Handed)) {
                if let Some((quasi, _)) = self.sockets.remove_quasi(id) {
                    let flow = self.sockets.quasis.flow(&quasi);
                    self.core.demux.remove(&flow);
                    self.core.counters.accel_curr_quasi -= 1;
                }
            } else if let Some(socket) = self.sockets.get(id)
                && socket.owner.teardown() == Some(TeardownPhase::Posted)
            {
                self.remove(id);
            }
        }
    }

    /// The NIC was reset: what it was asked to finish and may not have taken, the host finishes.
    pub(crate) fn take_back_teardowns(&mut self, now: Instant) {
        for posted in std::mem::take(&mut self.core.accel.teardowns.posted) {
            self.finish_on_host(now, posted.socket);
        }
    }

    fn finish_on_host(&mut self, now: Instant, id: SocketId) {
        if let Some((quasi, _)) = self.sockets.quasi_mut(id) {
            quasi.set(Flag::Handed, false);
            self.promote(now, id);
        } else if let Some(socket) = self.sockets.get_mut(id)
            && socket.owner.teardown() == Some(TeardownPhase::Posted)
        {
            let flow = socket.flow;
            self.core.time_wait.remove(&flow);
            self.close_on_host(now, id);
        }
    }

    /// The NIC has refused the descriptor of this index. Answers whether it was a connection to be finished: the host has it again,
    /// and finishes it.
    pub(crate) fn teardown_refused(&mut self, now: Instant, index: u64, error: ErrorCode) -> bool {
        let posted = &self.core.accel.teardowns.posted;
        let Ok(at) = posted.binary_search_by_key(&index, |posted| posted.first) else {
            return false;
        };
        let id = posted[at].socket;
        self.core.counters.accel_teardowns_refused += 1;
        if matches!(error, ErrorCode::TableFull | ErrorCode::NoPacketMemory) {
            self.core.accel.teardowns.room.refused(now);
        }
        self.finish_on_host(now, id);
        true
    }
}

/// What became of asking.
enum TeardownRequest {
    Posted {
        first: u64,
        end: u64,
    },
    /// The ring has no room.
    NoRoom,
    /// It is not asked for: the host does it.
    Not,
}

/// RFC 6298 §2.1: nothing was measured.
const INITIAL_RTO_US: u32 = 1_000_000;

fn micros(duration: Duration) -> u32 {
    u32::try_from(duration.as_micros()).unwrap_or(u32::MAX)
}

fn millis(duration: Duration) -> u32 {
    u32::try_from(duration.as_millis()).unwrap_or(u32::MAX)
}

impl Socket {
    /// Nothing above TCP has a part in it, and nothing of it is half done.
    fn is_simple(&self) -> bool {
        self.is_plain()
            && self.ended.is_none()
            && !self.lingers
            && self.stream.len() == 0
            && self.owner.splice().is_none()
            && self.owner.handoff().is_none()
    }
}
