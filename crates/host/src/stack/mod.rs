//! The stack: the order in which a poll runs its parts, and the application's calls.
//!
//! ```text
//!  Stack               the application's calls and events, patterns             this module
//!    └▶ offload        who owns each connection: host or NIC                    events of the transport and the link ▲
//!         └▶ transport sockets, listeners, TCP, what is served when              TransportEvent ▲
//!              ├▶ link    addresses, neighbours, ICMP                            LinkEvent ▲
//!              └▶ device  the function: driver, counters, meter
//! ```
//!
//! Each part owns its state and the part below it. It calls down, and tells by events what those above must hear of.

mod calls;
mod input;

use std::time::Instant;

use nic::ring::HostFunction;

use crate::events::{EventKinds, Source};
use crate::meter::Component;
use crate::offload::ConnectionOffload;
use crate::pattern::PatternSets;
use crate::socket::Socket;
use crate::transport::Transport;
use crate::{Event, SocketError, SocketId, StackConfig};

/// A host's TCP/IP and TLS on one function of the NIC. See the crate's root for the order of calls.
#[derive(Debug)]
pub struct Stack {
    /// Connections, and who owns each.
    offload: ConnectionOffload,
    /// Sets of patterns that sockets are searched for.
    pattern_sets: PatternSets,
    /// What the NIC had to say so far: packets, and all else.
    taken: u64,
}

/// Packets taken in by one poll at most, so that timers and output get their turn.
const RECEIVE_BUDGET: usize = 256;

impl Stack {
    /// A stack on the function, with its memory registered and its receive buffers posted.
    pub fn new(now: Instant, config: StackConfig, function: HostFunction) -> Self {
        Self {
            offload: ConnectionOffload::new(now, config, function),
            pattern_sets: PatternSets::default(),
            taken: 0,
        }
    }

    /// Takes input, runs timers and posts output; answers whether it did anything.
    pub fn poll(&mut self, now: Instant) -> bool {
        let before = self.switch(Component::Driver);
        self.transport().last_poll = now;
        let mut progress = self.receive(now);
        let offload = &mut self.offload;
        progress |= offload.poll_splices(now);
        progress |= offload.transport.run_timers(now);
        progress |= offload.poll_link(now);
        progress |= offload.transport.reap();
        offload.handle_transport_events();
        progress |= offload.poll_accel(now);
        progress |= offload.poll_handoff(now);
        progress |= offload.transport.relieve(now);
        progress |= offload.serve(now);
        offload.handle_transport_events();
        let device = &mut offload.transport.device;
        device.meter.switch(Component::Driver);
        device.supply(now, offload.transport.sockets.len());
        device.driver.publish();
        device.trim(now, !progress);
        device.meter.switch(before);
        progress
    }

    /// When to poll again, if the NIC has nothing new before. A time in the past says: at once.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.offload.poll_timeout()
    }

    /// The next thing for the application to look at.
    pub fn poll_event(&mut self) -> Option<Event> {
        loop {
            let event = match self.transport().schedule.events.pop()? {
                Source::Listener(id) => {
                    let listeners = &mut self.transport().listeners;
                    let is_due = listeners.take_notification(id);
                    is_due.then_some(Event::Accepted(id))
                }
                Source::Splice => self.offload.poll_splice_event(),
                Source::Socket(id) => self.poll_socket_event(id),
            };
            if event.is_some() {
                return event;
            }
        }
    }

    fn poll_socket_event(&mut self, id: SocketId) -> Option<Event> {
        let transport = &mut self.offload.transport;
        let Some(socket) = transport.sockets.get_mut(id) else {
            return self.offload.quasi_event(id);
        };
        let event = match socket.pending.take()? {
            EventKinds::CONNECTED => Event::Connected(id),
            EventKinds::SECURED => Event::Secured(id),
            EventKinds::READABLE => Event::Readable(id),
            EventKinds::WRITABLE => Event::Writable(id),
            EventKinds::URGENT => Event::Urgent(id),
            _ => Event::Closed(id, (**socket.ended.as_ref()?).clone()),
        };
        if !socket.pending.is_empty() {
            let events = &mut transport.schedule.events;
            events.push_front(Source::Socket(id));
        }
        Some(event)
    }

    fn receive(&mut self, now: Instant) -> bool {
        for taken in 0..RECEIVE_BUDGET {
            let device = &mut self.transport().device;
            let Some(received) = device.driver.poll_receive(&mut device.counters) else {
                let settled = device.driver.settle();
                self.taken += taken as u64;
                return settled || taken > 0;
            };
            self.offload.expect_delivery();
            self.take_in(now, received);
        }
        self.transport().device.driver.settle();
        self.taken += RECEIVE_BUDGET as u64;
        true
    }

    /// The application's socket of this id, which has a full control block from here on.
    ///
    /// # Errors
    /// [`SocketError::NotFound`], and [`SocketError::Spliced`].
    fn owned(&mut self, id: SocketId) -> Result<&mut Socket, SocketError> {
        self.offload.promote_to_full_tcb(id);
        self.transport().sockets.owned(id)
    }

    fn transport(&mut self) -> &mut Transport {
        &mut self.offload.transport
    }

    /// Starts a component of the meter; gives the one that was on.
    fn switch(&mut self, to: Component) -> Component {
        self.transport().device.meter.switch(to)
    }
}

/// A stack may be moved to a thread of its own.
const _: fn() = || {
    fn is_send<T: Send>() {}
    is_send::<Stack>();
};

#[cfg(test)]
impl Stack {
    /// What runs the host's connections.
    pub(crate) fn transport_mut(&mut self) -> &mut Transport {
        &mut self.offload.transport
    }
}
