//! Serving a socket: what its connection has to tell, what its protocols can do, what it has to send.

use std::time::Instant;

use tcp::State;
use wire::SeqNum;
use wire::tcp::Flags;

use crate::driver::{Driver, Link, MessageSource, Stopped, Unsent};
use crate::events::Pending;
use crate::handoff::Phase;
use crate::layer5::Fallback;
use crate::meter::Component;
use crate::neighbour::Resolution;
use crate::socket::{Socket, User};
use crate::stack::{Core, Stack};
use crate::{CloseReason, SocketId};

/// Segments that one socket may send before others get their turn.
const TRANSMIT_BUDGET: usize = 16;

impl Stack {
    /// Serves one socket that was marked ready. Answers whether anything was done.
    pub(crate) fn serve_socket(&mut self, now: Instant, id: SocketId) -> bool {
        let Some(socket) = self.sockets.get_mut(id) else {
            return false;
        };
        socket.is_ready = false;
        if socket.owner.is_given_away() {
            return false;
        }
        if socket
            .owner
            .handoff()
            .is_some_and(|offloaded| offloaded.phase == Phase::Ready)
        {
            self.offer(now, id);
        }
        if self.sockets.get(id).is_some_and(|it| it.tcp.is_parked()) {
            return self.serve_offloaded(now, id);
        }
        self.drain_events(now, id);
        self.drive_protocols(now, id);
        let sent = self.transmit(now, id);
        // Sending may have ended it (an abort's reset is out).
        self.drain_events(now, id);
        self.advance_splice(now, id);
        let Some(socket) = self.sockets.get_mut(id) else {
            return true;
        };
        if socket.owner.is_given_away() {
            return true;
        }
        let is_offered_later = socket
            .owner
            .handoff()
            .is_some_and(|offloaded| offloaded.phase == Phase::Ready);
        let is_whole = self.core.unsent.is_none_or(|(owner, _)| owner != id);
        if is_offered_later && is_whole {
            // What was in the way of its offer is gone.
            self.core.mark_ready(id, socket);
        }
        self.core.tell_readiness(id, socket);
        let deadline = socket.tcp.poll_timeout();
        self.core.timers.arm(id, &mut socket.armed, deadline);
        if socket.lingers && socket.user == User::Released && socket.tcp.state() == State::FinWait2
        {
            socket.lingers = false;
            socket.tcp.detach(now);
        }
        if socket.tcp.state() == State::Closed && !socket.is_ready && !socket.is_unhooked {
            // What comes now is answered by resets.
            socket.is_unhooked = true;
            self.core.demux.remove(&socket.flow);
        }
        self.retire_socket(now, id);
        sent
    }

    /// Acts on what TCP has to tell.
    pub(crate) fn drain_events(&mut self, now: Instant, id: SocketId) {
        loop {
            let Some(socket) = self.sockets.get_mut(id) else {
                return;
            };
            let core = &mut self.core;
            match socket.tcp.poll_event() {
                None => return,
                Some(tcp::Event::Acked(una)) => core.acknowledged(now, socket, una),
                Some(tcp::Event::PeerFin) => socket.peer_fin = true,
                // All that is left is to wait for old segments to die out: no concern of the application.
                Some(tcp::Event::TimeWait) => self.end(id, CloseReason::Graceful),
                Some(tcp::Event::Connected) => {
                    core.established_for_policy(now, id, socket);
                    match socket.listener {
                        Some(listener) => self.connection_waits(listener, id),
                        None => {
                            core.counters.tcp_active_opens += 1;
                            core.tell(id, socket, Pending::CONNECTED);
                        }
                    }
                }
                Some(tcp::Event::Closed(reason)) => {
                    let reason = match reason {
                        tcp::CloseReason::Graceful => CloseReason::Graceful,
                        tcp::CloseReason::Reset => CloseReason::Reset,
                        tcp::CloseReason::Refused => CloseReason::Refused,
                        tcp::CloseReason::TimedOut => CloseReason::TimedOut,
                        tcp::CloseReason::Aborted => CloseReason::Aborted,
                    };
                    self.end(id, reason);
                }
            }
        }
    }

    /// Posts what the connection has to send, as far as the ring has room. Answers whether anything was posted.
    fn transmit(&mut self, now: Instant, id: SocketId) -> bool {
        let Some(socket) = self.sockets.get_mut(id) else {
            return false;
        };
        let core = &mut self.core;
        let mut sent = false;
        for _ in 0..TRANSMIT_BUDGET {
            let mut unsent = match core.unsent.take() {
                Some((owner, mut unsent)) if owner == id => {
                    // It may have waited for long.
                    socket.tcp.bring_up_to_date(now, &mut unsent.transmit);
                    unsent
                }
                Some(other) => {
                    // Another socket's segment is half posted: its rest goes first.
                    core.unsent = Some(other);
                    core.stall(id, socket);
                    return sent;
                }
                None => {
                    if core.driver.is_blocked() && !core.driver.flush(&mut core.counters) {
                        core.stall(id, socket);
                        return sent;
                    }
                    if !core.find_next_hop(now, id, socket) {
                        return sent;
                    }
                    let Some(transmit) = socket.tcp.poll_transmit(now) else {
                        return sent;
                    };
                    core.counters.tcp_out_segs += 1;
                    core.counters.tcp_retrans_segs += u64::from(transmit.retransmit);
                    let is_reset = transmit.header.flags.contains(Flags::RST);
                    core.counters.tcp_out_rsts += u64::from(is_reset);
                    Unsent::new(transmit)
                }
            };
            core.meter.switch(Component::Driver);
            let posted = core.post(socket, &mut unsent);
            core.meter.switch(Component::Tcp);
            match posted {
                Ok(()) => sent = true,
                Err(Stopped::RingFull) => {
                    core.unsent = Some((id, unsent));
                    core.stall_first(id, socket);
                    return sent;
                }
                Err(Stopped::NoContext(seq)) => {
                    match core.fall_back(socket, &mut unsent, seq) {
                        Fallback::Done => core.unsent = Some((id, unsent)),
                        Fallback::Later => {
                            core.unsent = Some((id, unsent));
                            core.stall_first(id, socket);
                            return sent;
                        }
                        // As if it were lost: TCP sends it again, when there may be memory for it.
                        Fallback::NoMemory => return sent,
                        Fallback::Impossible(reason) => {
                            core.counters.driver_tx_withheld += 1;
                            self.reset(id, reason);
                            return true;
                        }
                    }
                }
                Err(Stopped::NoMessage(_)) => {
                    core.counters.driver_tx_withheld += 1;
                    let reason =
                        CloseReason::Device("a segment belongs to no message that is known".into());
                    self.reset(id, reason);
                    return true;
                }
                Err(Stopped::SourceGone(seq)) => {
                    let reason = self.source_reason(id, seq, |name, offset| {
                        CloseReason::SourceGone { name, offset }
                    });
                    self.reset(id, reason);
                    return true;
                }
            }
        }
        core.mark_ready(id, socket);
        sent
    }
}

impl Core {
    /// TCP has acknowledged everything before `una`.
    fn acknowledged(&mut self, now: Instant, socket: &mut Socket, una: SeqNum) {
        let upto = socket.release_point(una, &mut self.driver);
        release(&mut self.driver, socket, upto);
        if let Some(hop) = socket.hop {
            self.neighbours.confirm(hop, now);
        }
    }

    /// Posts a segment, or what is left of it.
    #[inline]
    fn post(&mut self, socket: &mut Socket, unsent: &mut Unsent) -> Result<(), Stopped> {
        let Some(next_hop) = socket.hop.and_then(|hop| self.neighbours.mac_now(hop)) else {
            // The neighbour was forgotten while the segment waited: TCP sends it again.
            return Ok(());
        };
        let link = Link {
            flow: socket.flow,
            next_hop,
        };
        let messages = socket.messages();
        let messages = messages
            .as_ref()
            .map(|messages| messages as &dyn MessageSource);
        self.driver
            .post_segment(link, unsent, &socket.send, messages, &mut self.counters)
    }

    fn fall_back(&mut self, socket: &mut Socket, unsent: &mut Unsent, seq: SeqNum) -> Fallback {
        // While the rest of this segment waits, nothing more is posted that names the message.
        let posted = *unsent.last_named.get_or_insert(self.driver.posted());
        if self.driver.completed() < posted {
            return Fallback::Later;
        }
        unsent.last_named = None;
        self.transform_in_software(socket, seq)
    }

    /// Makes sure that the next hop's address is known. If it is not, the socket waits for it.
    #[inline]
    pub(crate) fn find_next_hop(
        &mut self,
        now: Instant,
        id: SocketId,
        socket: &mut Socket,
    ) -> bool {
        if let Some(hop) = socket.hop
            && self.neighbours.mac(hop, now).is_some()
        {
            return true;
        }
        if socket.tcp.state() == State::Closed && self.neighbours.peek(socket.next_hop).is_none() {
            // The reset of a connection that is over is worth no question.
            while socket.tcp.poll_transmit(now).is_some() {}
            return false;
        }
        match self.neighbours.resolve(now, socket.next_hop) {
            Resolution::Known(hop, _) => {
                socket.hop = Some(hop);
                true
            }
            unknown => {
                if unknown == Resolution::Full {
                    self.counters.neighbour_failed += 1;
                }
                if !std::mem::replace(&mut socket.awaits_hop, true) {
                    self.neighbours.wait(socket.next_hop, id);
                }
                false
            }
        }
    }

    pub(crate) fn stall(&mut self, id: SocketId, socket: &mut Socket) {
        self.is_stalled = true;
        self.mark_ready(id, socket);
    }

    fn stall_first(&mut self, id: SocketId, socket: &mut Socket) {
        self.is_stalled = true;
        if !socket.is_ready {
            socket.is_ready = true;
            self.ready.push_front(id);
        }
    }

    /// Tells the application that it can read or write again, if it waits for that.
    pub(crate) fn tell_readiness(&mut self, id: SocketId, socket: &mut Socket) {
        let is_held = socket.owner.splice().is_some() || socket.is_handshaking();
        if socket.user != User::Application || is_held {
            return;
        }
        if socket.wants_read && socket.is_readable() {
            socket.wants_read = false;
            self.tell(id, socket, Pending::READABLE);
        }
        if socket.wants_write && !socket.is_starved && socket.tcp.state().may_send() {
            let room = socket.room(self.config.send_buffer);
            if room >= socket.send_limit(self.config.send_buffer) / 4 || socket.send.is_empty() {
                socket.wants_write = false;
                self.tell(id, socket, Pending::WRITABLE);
            }
        }
    }
}

/// Lets go of payload before `upto`.
fn release(driver: &mut Driver, socket: &mut Socket, upto: SeqNum) {
    for payload in socket.send.release(upto) {
        driver.retire(payload);
    }
}
