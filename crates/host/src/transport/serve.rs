//! Serving a socket: what its connection has to tell, what it has to send, and whether anything of it is left.

use std::time::Instant;

use probes::Opener;
use tcp::State;

use super::{Transport, TransportEvent};
use crate::driver::{Stopped, Unsent};
use crate::events::EventKinds;
use crate::layer5::Fallback;
use crate::meter::Component;
use crate::socket::{Membership, User};
use crate::{CloseReason, SocketId, probing};

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
    /// Serves a socket of a connection that is the host's alone. Answers whether anything was posted.
    pub fn serve_socket(&mut self, now: Instant, id: SocketId) -> bool {
        let sent = self.run_connection(now, id);
        self.conclude_serving(now, id);
        sent
    }

    /// Does what is due for a connection. Answers whether anything was posted.
    #[inline]
    pub fn run_connection(&mut self, now: Instant, id: SocketId) -> bool {
        self.drain_events(now, id);
        self.drive_protocols(now, id);
        let sent = self.transmit(now, id);
        // Sending may have ended it (an abort's reset is out).
        self.drain_events(now, id);
        sent
    }

    /// Acts on what TCP has to tell.
    #[inline]
    pub fn drain_events(&mut self, now: Instant, id: SocketId) {
        while let Some(socket) = self.sockets.get_mut(id)
            && let Some(event) = socket.tcp.poll_event()
        {
            self.handle_event(now, id, event);
        }
    }

    fn handle_event(&mut self, now: Instant, id: SocketId, event: tcp::Event) {
        let Some(socket) = self.sockets.get_mut(id) else {
            return;
        };
        match event {
            tcp::Event::Acked(una) => {
                socket.acknowledged(now, una, &mut self.link, &mut self.device.driver);
            }
            tcp::Event::PeerFin => socket.peer_closed(),
            // All that is left is to wait for old segments to die out: no concern of the application.
            tcp::Event::TimeWait => self.end(id, CloseReason::Graceful),
            tcp::Event::Connected => {
                socket.is_unreachable = false;
                self.events.push_back(TransportEvent::Established(id));
                match socket.user.listener() {
                    Some(listener) => self.connection_waits(listener, id),
                    None => {
                        self.device.counters.tcp_active_opens += 1;
                        probing::connection_opened(|| socket.flow, Opener::Local);
                        self.schedule.tell(id, socket, EventKinds::CONNECTED);
                    }
                }
            }
            tcp::Event::Closed(tcp::CloseReason::TimedOut) if socket.is_unreachable => {
                self.end(id, CloseReason::Unreachable);
            }
            tcp::Event::Closed(reason) => self.end(id, reason.into()),
            tcp::Event::Counted(counted) => {
                if counted == tcp::Counted::Timeout {
                    probing::tcp_timeout(&socket.flow);
                }
                self.device.counters.count(counted);
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
        let Some(socket) = self.sockets.get_mut(id) else {
            return Turn::Over;
        };
        let (schedule, device) = (&mut self.schedule, &mut self.device);
        let unsent = if schedule.unsent.is_some() {
            schedule.take_unsent(now, id, socket)
        } else if !socket.tcp.has_output() {
            None
        } else if device.driver.is_blocked() && !device.flush() {
            schedule.stall(id, socket);
            None
        } else {
            socket.next_segment(now, id, &mut self.link, device)
        };
        let Some(mut unsent) = unsent else {
            return Turn::Over;
        };
        device.meter.switch(Component::Driver);
        let posted = socket.post(&mut unsent, &self.link, device);
        device.meter.switch(Component::Tcp);
        match posted {
            Ok(()) => Turn::Sent,
            Err(stopped) => self.handle_stop(id, unsent, stopped),
        }
    }

    /// The driver did not take a segment, or not all of it.
    #[cold]
    fn handle_stop(&mut self, id: SocketId, mut unsent: Unsent, stopped: Stopped) -> Turn {
        let Some(socket) = self.sockets.get_mut(id) else {
            return Turn::Over;
        };
        let device = &mut self.device;
        match stopped {
            Stopped::RingFull => {
                self.schedule.unsent = Some((id, unsent));
                self.schedule.stall_first(id, socket);
                Turn::Over
            }
            Stopped::NoContext(seq) => {
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
            Stopped::NoMessage(_) => {
                device.counters.driver_tx_withheld += 1;
                Turn::Ended(CloseReason::Device(
                    "a segment belongs to no message that is known".into(),
                ))
            }
            Stopped::SourceGone(seq) => Turn::Ended(self.source_gone(id, seq)),
        }
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
        if socket.user == User::Released {
            self.retire_socket(now, id);
            self.note_orphan(now, id);
        }
    }
}
