//! Serving a socket: what its connection has to tell, what it has to send, and whether anything of it is left.

use std::time::Instant;

use tcp::State;
use wire::tcp::Flags;

use super::{Transport, TransportEvent};
use crate::driver::{Stopped, Unsent};
use crate::events::EventKinds;
use crate::layer5::Fallback;
use crate::meter::Component;
use crate::socket::Membership;
use crate::{CloseReason, SocketId};

/// Segments that one socket may send before others get their turn.
const TRANSMIT_BUDGET: usize = 16;

/// Whether a socket may send on.
enum Turn {
    /// Something was posted.
    Sent,
    /// Nothing was posted yet; there may be something.
    Again,
    /// It is over for now.
    Over,
    /// The connection has ended.
    Ended(CloseReason),
}

impl Transport {
    /// Acts on what TCP has to tell.
    pub fn drain_events(&mut self, now: Instant, id: SocketId) {
        loop {
            let Some(socket) = self.sockets.get_mut(id) else {
                return;
            };
            match socket.tcp.poll_event() {
                None => return,
                Some(tcp::Event::Acked(una)) => {
                    socket.acknowledged(now, una, &mut self.link, &mut self.device.driver);
                }
                Some(tcp::Event::PeerFin) => socket.peer_closed(),
                // All that is left is to wait for old segments to die out: no concern of the application.
                Some(tcp::Event::TimeWait) => self.end(id, CloseReason::Graceful),
                Some(tcp::Event::Connected) => {
                    self.events.push_back(TransportEvent::Established(id));
                    match socket.user.listener() {
                        Some(listener) => self.connection_waits(listener, id),
                        None => {
                            self.device.counters.tcp_active_opens += 1;
                            self.schedule.tell(id, socket, EventKinds::CONNECTED);
                        }
                    }
                }
                Some(tcp::Event::Closed(reason)) => self.end(id, reason.into()),
            }
        }
    }

    /// Posts what the connection has to send, as far as the ring has room. Answers whether anything was posted.
    pub fn transmit(&mut self, now: Instant, id: SocketId) -> bool {
        let mut sent = false;
        for _ in 0..TRANSMIT_BUDGET {
            match self.transmit_one(now, id) {
                Turn::Sent => sent = true,
                Turn::Again => {}
                Turn::Over => return sent,
                Turn::Ended(reason) => {
                    self.reset(id, reason);
                    return true;
                }
            }
        }
        self.mark_ready(id);
        sent
    }

    /// Posts the next segment, or what is left of one.
    #[inline]
    fn transmit_one(&mut self, now: Instant, id: SocketId) -> Turn {
        let Some(mut unsent) = self.next_segment(now, id) else {
            return Turn::Over;
        };
        let Some(socket) = self.sockets.get_mut(id) else {
            return Turn::Over;
        };
        let device = &mut self.device;
        device.meter.switch(Component::Driver);
        let posted = socket.post(&mut unsent, &self.link, device);
        device.meter.switch(Component::Tcp);
        match posted {
            Ok(()) => Turn::Sent,
            Err(Stopped::RingFull) => {
                self.schedule.unsent = Some((id, unsent));
                self.schedule.stall_first(id, socket);
                Turn::Over
            }
            Err(Stopped::NoContext(seq)) => {
                match socket.fall_back(self.last_poll, &mut unsent, seq, device) {
                    Fallback::Done => {
                        self.schedule.unsent = Some((id, unsent));
                        Turn::Again
                    }
                    Fallback::Later => {
                        self.schedule.unsent = Some((id, unsent));
                        self.schedule.stall_first(id, socket);
                        Turn::Over
                    }
                    // As if it were lost: TCP sends it again, when there may be memory for it.
                    Fallback::NoMemory => Turn::Over,
                    Fallback::Impossible(reason) => {
                        device.counters.driver_tx_withheld += 1;
                        Turn::Ended(reason)
                    }
                }
            }
            Err(Stopped::NoMessage(_)) => {
                device.counters.driver_tx_withheld += 1;
                Turn::Ended(CloseReason::Device(
                    "a segment belongs to no message that is known".into(),
                ))
            }
            Err(Stopped::SourceGone(seq)) => Turn::Ended(self.source_gone(id, seq)),
        }
    }

    /// The segment that a socket has to send next, or what is left of one. `None` when it has nothing to send, or must wait.
    #[inline]
    fn next_segment(&mut self, now: Instant, id: SocketId) -> Option<Unsent> {
        let socket = self.sockets.get_mut(id)?;
        if let Some((owner, mut unsent)) = self.schedule.unsent.take() {
            if owner == id {
                // It may have waited for long.
                socket.tcp.bring_up_to_date(now, &mut unsent.transmit);
                return Some(unsent);
            }
            // Another socket's segment is half posted: its rest goes first.
            self.schedule.unsent = Some((owner, unsent));
            self.schedule.stall(id, socket);
            return None;
        }
        let device = &mut self.device;
        if device.driver.is_blocked() && !device.flush() {
            self.schedule.stall(id, socket);
            return None;
        }
        if !socket.find_next_hop(now, id, &mut self.link, device) {
            return None;
        }
        let transmit = socket.tcp.poll_transmit(now)?;
        let counters = &mut device.counters;
        counters.tcp_out_segs += 1;
        counters.tcp_retrans_segs += u64::from(transmit.retransmit);
        let is_reset = transmit.header.flags.contains(Flags::RST);
        counters.tcp_out_rsts += u64::from(is_reset);
        Some(Unsent::new(transmit))
    }

    /// A socket was served: tells its application, arms its timer, and removes it if nothing of it is left.
    pub fn conclude_serving(&mut self, now: Instant, id: SocketId) {
        let Some(socket) = self.sockets.get_mut(id) else {
            return;
        };
        let limits = self.device.queue_limits;
        self.schedule.tell_readiness(id, socket, limits);
        // It may set a timer.
        socket.stop_lingering(now);
        let deadline = socket.tcp.poll_timeout();
        self.schedule.timers.arm(id, &mut socket.armed, deadline);
        let is_over =
            socket.tcp.state() == State::Closed && !socket.membership.is_in(Membership::READY);
        if is_over && socket.membership.leave(Membership::FLOW) {
            // What comes now is answered by resets.
            self.demux.remove(&socket.flow);
        }
        self.retire_socket(now, id);
    }
}
