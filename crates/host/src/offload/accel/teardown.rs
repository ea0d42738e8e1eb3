//! Connections whose close the NIC finishes (AccelTCP, "Connection Teardown Offload").

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use nic::ring::ErrorCode;
use nic::ring::accel::Teardown;
use probes::EndReason;
use wire::icmp::Quoted;
use wire::packet::Parsed;
use wire::tcp::Flags;

use super::room::Room;
use super::sent::LastSent;
use super::{ConnectionOffload, descriptor};
use crate::device::Device;
use crate::driver::{self, FrameInfo};
use crate::memory::Buffer;
use crate::socket::quasi::Flag;
use crate::socket::{ReceiveSide, SendSide, Socket, TeardownPhase, User};
use crate::{SocketId, probing};

/// Connections on their way to the NIC.
#[derive(Debug, Default)]
pub(crate) struct Teardowns {
    /// Closed since the last poll.
    due: VecDeque<SocketId>,
    /// Asked for, in the order of the send ring.
    posted: VecDeque<Posted>,
    pub(super) room: Room,
    sent: LastSent,
}

#[derive(Clone, Copy, Debug)]
struct Posted {
    place: driver::Posted,
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

    /// Whether a report about a segment quotes what the NIC sends of a connection that it finishes.
    pub fn have_sent(&self, now: Instant, quoted: &Quoted) -> bool {
        self.sent.has(now, quoted)
    }

    pub fn poll_timeout(&self, last_poll: Instant) -> Option<Instant> {
        if !self.due.is_empty() {
            return Some(last_poll + STALL);
        }
        (!self.posted.is_empty()).then_some(last_poll + FORGET)
    }
}

impl ConnectionOffload {
    /// Whether the NIC may be asked to finish another connection.
    #[inline]
    pub(super) fn may_ask_teardown(&mut self, now: Instant) -> bool {
        if !self.transport.config.accel.teardown {
            return false;
        }
        let teardowns = &self.accel.teardowns;
        let may = teardowns.room.allows(now, teardowns.len());
        self.transport.device.counters.accel_teardowns_withheld += u64::from(!may);
        may
    }

    /// Gives the NIC a frame that came up after its flow had been handed over.
    pub fn put_back(&mut self, frame: Buffer, info: &FrameInfo) {
        let device = &mut self.transport.device;
        device.counters.accel_reinjected += 1;
        device.driver.reinject(frame, info.gso_size());
    }

    /// Whether the NIC has still to be asked to finish a connection, or to say that it will not.
    pub fn has_pending_teardowns(&self) -> bool {
        self.accel.teardowns.len() > 0
    }

    /// Gives a closed socket up to the NIC, if it is one that the NIC may finish.
    pub fn close_on_nic(&mut self, now: Instant, id: SocketId) -> bool {
        let is_closable = |socket: &Socket| socket.is_simple() && socket.tcp.closing(now).is_some();
        if !self.transport.config.accel.teardown
            || !self.transport.sockets.get(id).is_some_and(is_closable)
            || !self.may_ask_teardown(now)
        {
            return false;
        }
        let Some(socket) = self.transport.sockets.get_mut(id) else {
            return false;
        };
        socket.user = User::Released;
        socket.sending.close();
        socket.receive = ReceiveSide::Discarding;
        socket.owner.ask_teardown();
        self.accel.teardowns.ask(id);
        true
    }

    /// The host closes a socket itself that the application has given up.
    pub fn close_on_host(&mut self, now: Instant, id: SocketId) {
        let Some(socket) = self.transport.sockets.get_mut(id) else {
            return;
        };
        socket.owner.end_teardown();
        socket.sending.close();
        socket.discard_input();
        socket.tcp.close(now);
        // Bytes that were not read stay unconsumed: TCP tells the peer by a reset.
        socket.tcp.detach(now);
        self.transport.schedule.mark_ready(id, socket);
        self.transport.retire_socket(now, id);
    }

    /// Whether the host is to take a segment of a connection, and not the NIC. What a connection that is to be handed over cannot be
    /// handed over with makes it the host's.
    #[inline]
    pub fn host_takes(&mut self, now: Instant, id: SocketId, parsed: &Parsed) -> bool {
        let socket = self.transport.sockets.get(id);
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
        while let Some(&id) = self.accel.teardowns.due.front() {
            let posted = if self.transport.sockets.is_quasi(id) {
                self.post_quasi(now, id)
            } else {
                self.post_full(now, id)
            };
            match posted {
                TeardownRequest::Posted(place) => {
                    asked = true;
                    self.transport.device.counters.accel_teardowns += 1;
                    let posted = Posted { place, socket: id };
                    self.accel.teardowns.posted.push_back(posted);
                }
                TeardownRequest::NoRoom => return asked,
                TeardownRequest::Not => {}
            }
            self.accel.teardowns.due.pop_front();
        }
        asked
    }

    fn post_quasi(&mut self, now: Instant, id: SocketId) -> TeardownRequest {
        let clock = self.accel.clock(now);
        let transport = &mut self.transport;
        let Some((quasi, held)) = transport.sockets.quasi(id) else {
            return TeardownRequest::Not;
        };
        let peer = transport.sockets.quasis.flow(quasi).dst.0;
        let Some(hop) = transport.link.known_hop(now, peer) else {
            // The host asks for it, and finishes.
            self.promote(now, id);
            return TeardownRequest::Not;
        };
        let teardown = descriptor::of_quasi(transport, id, quasi, held.taken, hop, clock);
        let written = held.written.as_ref().map(Buffer::slice);
        let bytes = written.map_or(0, |slice| slice.len);
        if bytes > Teardown::payload_limit(teardown.mss) {
            self.promote(now, id);
            return TeardownRequest::Not;
        }
        let Device {
            driver, counters, ..
        } = &mut transport.device;
        let Some(posted) = driver.post_teardown(&teardown, written.as_slice(), counters) else {
            return TeardownRequest::NoRoom;
        };
        let sent = &mut self.accel.teardowns.sent;
        sent.note(now, &teardown.flow, teardown.snd_una, bytes);
        if let Some((quasi, _)) = transport.sockets.quasi_mut(id) {
            quasi.set(Flag::Handed, true);
        }
        TeardownRequest::Posted(posted)
    }

    fn post_full(&mut self, now: Instant, id: SocketId) -> TeardownRequest {
        let transport = &mut self.transport;
        let Some(socket) = transport.sockets.get_mut(id) else {
            return TeardownRequest::Not;
        };
        if socket.owner.teardown() != Some(TeardownPhase::Due) {
            return TeardownRequest::Not;
        }
        let is_free = socket.is_simple() && !transport.schedule.has_unsent(id);
        let closing = socket.tcp.closing(now).filter(|_| is_free);
        let peer = socket.flow.dst.0;
        let hop = closing.and_then(|_| transport.link.known_hop(now, peer));
        let (Some(closing), Some(hop)) = (closing, hop) else {
            self.close_on_host(now, id);
            return TeardownRequest::Not;
        };
        let config = &transport.config.tcp;
        let teardown = descriptor::of_full(config, id, socket.flow, hop, &closing);
        let bytes = closing.snd_una.distance_to(closing.end);
        let Device {
            driver, counters, ..
        } = &mut transport.device;
        if bytes > Teardown::payload_limit(closing.mss)
            || !driver.gather_plain(&socket.send, closing.snd_una, bytes)
        {
            self.close_on_host(now, id);
            return TeardownRequest::Not;
        }
        let Some(posted) = driver.post_gathered(&teardown, counters) else {
            return TeardownRequest::NoRoom;
        };
        let sent = &mut self.accel.teardowns.sent;
        sent.note(now, &teardown.flow, teardown.snd_una, bytes);
        socket.owner.teardown_posted();
        if closing.timestamps.is_none() {
            // With timestamps a new connection of the flow is told from this one by them (RFC 6191).
            let (isns, end) = (&transport.isn, closing.end + 1);
            transport.ahead.note(now, isns, &socket.flow, end);
        }
        if !socket.tcp.is_passive() {
            // Its port is not for another connection to this peer for a while. The NIC answers for it, and what that passes up is of
            // no connection any more.
            let has_timestamps = closing.timestamps.is_some();
            let flow = socket.flow;
            transport.time_wait.withhold(now, flow, has_timestamps);
        }
        TeardownRequest::Posted(posted)
    }

    /// Forgets the connections that the NIC has taken and not refused.
    pub(super) fn forget_handed_over(&mut self) {
        let settled = self.transport.device.driver.settled();
        while let Some(posted) = self.accel.teardowns.posted.front()
            && posted.place.end <= settled
        {
            let id = posted.socket;
            self.accel.teardowns.posted.pop_front();
            let quasi = self.transport.sockets.quasi(id);
            if quasi.is_some_and(|(quasi, _)| quasi.is(Flag::Handed)) {
                if let Some((quasi, _)) = self.transport.sockets.remove_quasi(id) {
                    let flow = self.transport.sockets.quasis.flow(&quasi);
                    self.transport.demux.remove(&flow);
                    probing::connection_closed(&flow, || EndReason::FinishedByNic);
                    self.transport.device.counters.accel_curr_quasi -= 1;
                }
            } else if let Some(socket) = self.transport.sockets.get(id)
                && socket.owner.teardown() == Some(TeardownPhase::Posted)
            {
                self.transport.remove(id);
            }
        }
    }

    /// The NIC was reset: what it was asked to finish and may not have taken, the host finishes.
    pub fn take_back_teardowns(&mut self, now: Instant) {
        for posted in std::mem::take(&mut self.accel.teardowns.posted) {
            self.finish_on_host(now, posted.socket);
        }
        // The NIC tells of its room only when that changes, and what another one has told does not hold for this one.
        self.accel.teardowns.room = Room::default();
    }

    fn finish_on_host(&mut self, now: Instant, id: SocketId) {
        if let Some((quasi, _)) = self.transport.sockets.quasi_mut(id) {
            quasi.set(Flag::Handed, false);
            self.promote(now, id);
        } else if let Some(socket) = self.transport.sockets.get_mut(id)
            && socket.owner.teardown() == Some(TeardownPhase::Posted)
        {
            let flow = socket.flow;
            self.transport.time_wait.remove(&flow);
            self.close_on_host(now, id);
        }
    }

    /// The NIC has refused the descriptor of this index. Answers whether it was a connection to be finished: the host has it again,
    /// and finishes it.
    pub fn teardown_refused(&mut self, now: Instant, index: u64, error: ErrorCode) -> bool {
        let posted = &self.accel.teardowns.posted;
        let Ok(at) = posted.binary_search_by_key(&index, |posted| posted.place.first) else {
            return false;
        };
        let id = posted[at].socket;
        self.transport.device.counters.accel_teardowns_refused += 1;
        if matches!(error, ErrorCode::TableFull | ErrorCode::NoPacketMemory) {
            self.accel.teardowns.room.refused(now);
        }
        self.finish_on_host(now, id);
        true
    }
}

/// What became of asking.
enum TeardownRequest {
    Posted(driver::Posted),
    /// The ring has no room.
    NoRoom,
    /// It is not asked for: the host does it.
    Not,
}

impl Socket {
    /// Nothing above TCP has a part in it, and nothing of it is half done.
    fn is_simple(&self) -> bool {
        self.is_plain()
            && self.ended.is_none()
            && self.sending != SendSide::Lingering
            && self.stream.len() == 0
            && self.owner.splice().is_none()
            && self.owner.handoff().is_none()
    }
}
