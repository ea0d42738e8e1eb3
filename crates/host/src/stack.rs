//! The stack: its parts, and the order in which a poll runs them.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nic::ring::{HostFunction, Region, RegionId};
use tcp::TimeWait;
use tcp::isn::Generator;

use crate::accel::{AccelState, Splices};
use crate::counters::Counters;
use crate::demux::Demux;
use crate::driver::{Driver, Supply, Unsent};
use crate::events::{EventQueue, Pending, Source};
use crate::handoff::HandoffState;
use crate::interface::Interface;
use crate::listen::Listeners;
use crate::meter::{Component, Meter};
use crate::neighbour::Neighbours;
use crate::pattern::PatternSets;
use crate::socket::Sockets;
use crate::timers::Timers;
use crate::{Event, SocketError, SocketId, StackConfig};

/// A host's TCP/IP and TLS on one function of the NIC. See the crate's root for the order of calls.
#[derive(Debug)]
pub struct Stack {
    pub(crate) sockets: Sockets,
    pub(crate) listeners: Listeners,
    pub(crate) splices: Splices,
    pub(crate) core: Core,
}

/// What sockets share.
#[derive(Debug)]
pub(crate) struct Core {
    pub config: StackConfig,
    pub driver: Driver,
    pub interface: Interface,
    pub neighbours: Neighbours,
    pub demux: Demux,
    pub time_wait: TimeWait,
    /// Connections that the NIC has a part in.
    pub accel: AccelState,
    /// Connections that are handed off.
    pub handoff: HandoffState,
    pub isn: Generator,
    pub timers: Timers,
    pub events: EventQueue,
    /// Sockets that may have something to send or to tell, in turn.
    pub ready: VecDeque<SocketId>,
    /// A segment of which the ring took a part only. Nothing else is sent before its rest.
    pub unsent: Option<(SocketId, Unsent)>,
    /// Sockets whose writes found no memory.
    pub starved: VecDeque<SocketId>,
    /// Sets of patterns that sockets are searched for.
    pub pattern_sets: PatternSets,
    pub counters: Counters,
    pub meter: Meter,
    /// Memory to keep what is received.
    pub supply: Supply,
    /// Something waits for the NIC to catch up.
    pub is_stalled: bool,
    /// Errors that may still be sent this interval (RFC 1812 §4.3.2.8, RFC 4443 §2.4).
    pub icmp_budget: u32,
    pub icmp_refill_at: Instant,
    /// Router solicitations still to be sent, and when (RFC 4861 §6.3.7).
    pub router_solicitations: u8,
    pub solicit_at: Instant,
    pub port_offset: u32,
    pub last_poll: Instant,
    /// When a connection was reset because something failed here.
    pub last_reset: Option<Instant>,
}

/// Packets taken in by one poll at most, so that timers and output get their turn.
const RECEIVE_BUDGET: usize = 256;
/// Sockets served by one poll at most, for the same reason.
const SERVE_BUDGET: usize = 1024;
/// When to look again at a NIC that had no room.
const STALL: Duration = Duration::from_micros(20);
/// When to look again for memory that the NIC was still reading, or the application.
const REAP: Duration = Duration::from_millis(10);
/// Connections in TIME-WAIT at most.
const TIME_WAIT_CAPACITY: usize = 65_536;

impl Stack {
    /// A stack on the function, with its memory registered and its receive buffers posted.
    pub fn new(now: Instant, config: StackConfig, function: HostFunction) -> Self {
        let driver = Driver::new(function, config.arena);
        let interface = Interface::new(
            driver.mac(),
            config.mtu,
            config.addresses.clone(),
            config.gateway_v4,
            config.gateway_v6,
        );
        let secret = &config.secret;
        let core = Core {
            neighbours: Neighbours::new(config.max_neighbours, secret),
            demux: Demux::new(secret),
            time_wait: TimeWait::new(
                now,
                TIME_WAIT_CAPACITY,
                config.tcp.time_wait,
                derive(secret, 1),
            ),
            handoff: HandoffState::new(&config.handoff, driver.toe_quota()),
            accel: AccelState::new(now, config.accel_handshakes),
            isn: Generator::new(now, derive(secret, 2)),
            timers: Timers::default(),
            events: EventQueue::default(),
            ready: VecDeque::new(),
            unsent: None,
            starved: VecDeque::new(),
            pattern_sets: PatternSets::default(),
            counters: Counters::default(),
            meter: Meter::new(config.meter),
            supply: Supply::Plenty,
            is_stalled: false,
            icmp_budget: 0,
            icmp_refill_at: now,
            router_solicitations: if config.gateway_v6.is_none() { 3 } else { 0 },
            solicit_at: now,
            port_offset: u32::from_le_bytes([secret[3], secret[7], secret[11], secret[15]]),
            last_poll: now,
            last_reset: None,
            driver,
            interface,
            config,
        };
        Self {
            sockets: Sockets::default(),
            listeners: Listeners::default(),
            splices: Splices::default(),
            core,
        }
    }

    /// Takes input, runs timers and posts output; answers whether it did anything.
    pub fn poll(&mut self, now: Instant) -> bool {
        let before = self.core.meter.switch(Component::Driver);
        self.core.last_poll = now;
        let mut progress = self.receive(now);
        progress |= self.poll_splices(now);
        progress |= self.run_timers(now);
        progress |= self.reap(now);
        progress |= self.poll_accel(now);
        progress |= self.poll_handoff(now);
        progress |= self.serve(now);
        self.core.meter.switch(Component::Driver);
        self.core.supply = self.core.driver.refill();
        self.core.driver.publish();
        self.core.meter.switch(before);
        progress
    }

    /// When to poll again, if the NIC has nothing new before. A time in the past says: at once.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let core = &self.core;
        let has_work = !core.ready.is_empty()
            || core.unsent.is_some()
            || core.driver.is_blocked()
            || core.driver.is_settling();
        [
            core.timers.next(),
            core.neighbours.poll_timeout(),
            core.time_wait.poll_timeout(),
            self.splices.poll_timeout(),
            core.accel.poll_timeout(core.last_poll),
            core.handoff.poll_timeout(core.last_poll),
            (core.router_solicitations > 0).then_some(core.solicit_at),
            has_work.then_some(if core.is_stalled {
                core.last_poll + STALL
            } else {
                core.last_poll
            }),
            (core.driver.has_retiring() || !core.starved.is_empty())
                .then_some(core.last_poll + REAP),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// The next thing for the application to look at.
    pub fn poll_event(&mut self) -> Option<Event> {
        loop {
            match self.core.events.pop()? {
                Source::Listener(id) => {
                    if self.listeners.take_notification(id) {
                        return Some(Event::Accepted(id));
                    }
                }
                Source::Splice => {
                    if let Some(event) = self.poll_splice_event() {
                        return Some(event);
                    }
                }
                Source::Socket(id) => {
                    let Some(socket) = self.sockets.get_mut(id) else {
                        match self.quasi_event(id) {
                            Some(event) => return Some(event),
                            None => continue,
                        }
                    };
                    let Some(kind) = socket.pending.take() else {
                        continue;
                    };
                    let event = match kind {
                        Pending::CONNECTED => Event::Connected(id),
                        Pending::SECURED => Event::Secured(id),
                        Pending::READABLE => Event::Readable(id),
                        Pending::WRITABLE => Event::Writable(id),
                        _ => match &socket.ended {
                            Some(reason) => Event::Closed(id, (**reason).clone()),
                            None => continue,
                        },
                    };
                    if !socket.pending.is_empty() {
                        self.core.events.push_front(Source::Socket(id));
                    }
                    return Some(event);
                }
            }
        }
    }

    /// Whether the NIC slept when something was posted to it, since this was asked last: whoever runs the stack then
    /// wakes it.
    pub fn take_doorbell(&mut self) -> bool {
        self.core.driver.take_wakeup()
    }

    /// Whether the NIC has not done yet all that was posted to it.
    pub fn has_posted(&mut self) -> bool {
        self.core.driver.completed() < self.core.driver.posted()
    }

    /// Whether a connection was reset so shortly before that its peer may still ask: one that lacks bytes before the RST does not believe
    /// it, and is sent another one (RFC 5961 §3.2).
    pub(crate) fn has_just_reset(&self, now: Instant) -> bool {
        /// Some round trips.
        const CHALLENGE: Duration = Duration::from_millis(50);
        let reset = self.core.last_reset;
        reset.is_some_and(|reset| now.duration_since(reset) < CHALLENGE)
    }

    /// Announces to the NIC that the host is about to sleep, so that it is woken by what comes. False when something has
    /// come meanwhile: then it must poll instead.
    pub fn prepare_sleep(&mut self) -> bool {
        self.core.driver.prepare_sleep()
    }

    /// Takes the announcement back, after the sleep or instead of it.
    pub fn cancel_sleep(&mut self) {
        self.core.driver.cancel_sleep();
    }

    /// Zeroed memory that can be [registered](Self::register) with this NIC.
    ///
    /// # Errors
    /// [`SocketError::NoMemory`].
    ///
    /// # Panics
    /// When `len` is zero.
    pub fn allocate_region(&self, len: usize) -> Result<Region, SocketError> {
        self.core.driver.regions.allocate(len)
    }

    /// Registers memory with the NIC for [`send_slices`](Self::send_slices), under a name for errors (a file's path).
    ///
    /// # Errors
    /// [`TooManyRegions`](SocketError::TooManyRegions), [`RegionRefused`](SocketError::RegionRefused).
    pub fn register(&mut self, region: Arc<Region>, name: &str) -> Result<RegionId, SocketError> {
        self.core.driver.regions.register(region, name)
    }

    /// Gives the region back once nothing in flight names it. It takes no new sends from now on.
    pub fn unregister(&mut self, id: RegionId) {
        self.core.driver.regions.unregister(id);
    }

    /// From now on [`poll_released`](Self::poll_released) tells of the region's memory that is in use no more.
    pub fn watch(&mut self, id: RegionId) {
        self.core.driver.regions.watch(id);
    }

    /// Memory of a [watched](Self::watch) region that was sent, and that no socket and not the NIC uses any more. What was sent at once may
    /// be told in parts; each byte is told once for each time it was sent.
    pub fn poll_released(&mut self) -> Option<nic::ring::Slice> {
        self.core.driver.regions.poll_released()
    }

    /// Whether a connection is left: one of the application's, or one that was closed and has not ended yet. TIME-WAIT does not count.
    pub fn has_sockets(&self) -> bool {
        self.sockets.ids().next().is_some()
    }

    /// The stack's own memory: what is in use and what there is.
    pub fn memory(&self) -> crate::memory::ArenaStats {
        self.core.driver.arena().stats()
    }

    /// Host cycles by component.
    pub fn meter(&self) -> &Meter {
        &self.core.meter
    }

    /// The meter, for whoever runs the stack to switch to [`Component::Idle`] while it sleeps.
    pub fn meter_mut(&mut self) -> &mut Meter {
        &mut self.core.meter
    }

    /// The stack's counters, named as in Linux where it has one.
    pub fn counters(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        self.core.counters.iter()
    }

    fn receive(&mut self, now: Instant) -> bool {
        for taken in 0..RECEIVE_BUDGET {
            let Some(received) = self.core.driver.poll_receive(&mut self.core.counters) else {
                return self.core.driver.settle() || taken > 0;
            };
            self.expect_delivery();
            self.take_in(now, received);
        }
        self.core.driver.settle();
        true
    }

    fn run_timers(&mut self, now: Instant) -> bool {
        let mut progress = false;
        while let Some((id, at)) = self.core.timers.pop_due(now) {
            let Some(socket) = self.sockets.get_mut(id) else {
                continue;
            };
            if socket.armed != Some(at) {
                continue;
            }
            socket.armed = None;
            if socket.owner.is_given_away() {
                continue;
            }
            if socket
                .tcp
                .poll_timeout()
                .is_some_and(|deadline| deadline <= now)
            {
                socket.tcp.handle_timeout(now);
                progress = true;
                self.core.mark_ready(id, socket);
            } else {
                let deadline = socket.tcp.poll_timeout();
                self.core.timers.arm(id, &mut socket.armed, deadline);
            }
        }
        let armed = self.sockets.iter();
        self.core.timers.tidy(
            self.sockets.len(),
            armed.filter_map(|(id, socket)| Some((id, socket.armed?))),
        );
        if self
            .core
            .time_wait
            .poll_timeout()
            .is_some_and(|at| at <= now)
        {
            self.core.time_wait.handle_timeout(now);
        }
        self.poll_neighbours(now) | progress
    }

    /// Frees what the NIC has read, and lets those try again who found no memory.
    fn reap(&mut self, _now: Instant) -> bool {
        let freed = self.core.driver.reap();
        // What the application has let go comes back without a word.
        if self.core.starved.is_empty() || !(freed || self.core.driver.has_room()) {
            return freed;
        }
        for _ in 0..self.core.starved.len().min(SERVE_BUDGET) {
            let Some(id) = self.core.starved.pop_front() else {
                break;
            };
            if let Some(socket) = self.sockets.get_mut(id) {
                socket.is_starved = false;
                self.core.mark_ready(id, socket);
            }
        }
        true
    }

    fn serve(&mut self, now: Instant) -> bool {
        self.core.meter.switch(Component::Tcp);
        self.core.is_stalled = false;
        let mut progress = false;
        if self.core.driver.is_blocked() {
            progress |= self.core.driver.flush(&mut self.core.counters);
        }
        if let Some((owner, _)) = self.core.unsent {
            if self.core.ready.front() == Some(&owner) {
                self.core.ready.pop_front();
            }
            progress |= self.serve_socket(now, owner);
        }
        for _ in 0..self.core.ready.len().min(SERVE_BUDGET) {
            if self.core.is_stalled {
                break;
            }
            let Some(id) = self.core.ready.pop_front() else {
                break;
            };
            progress |= self.serve_socket(now, id);
        }
        progress
    }
}

impl Core {
    /// Puts a socket in the queue of those that may have something to send or to tell.
    #[inline]
    pub fn mark_ready(&mut self, id: SocketId, socket: &mut crate::socket::Socket) {
        if !socket.is_ready {
            socket.is_ready = true;
            self.ready.push_back(id);
        }
    }

    /// Memory has run out for a socket: it is served again once there is some.
    pub fn starve(&mut self, id: SocketId, socket: &mut crate::socket::Socket) {
        if !std::mem::replace(&mut socket.is_starved, true) {
            self.starved.push_back(id);
        }
    }

    /// Tells the application something about a socket.
    #[inline]
    pub fn tell(&mut self, id: SocketId, socket: &mut crate::socket::Socket, what: Pending) {
        if socket.user == crate::socket::User::Application && socket.pending.add(what) {
            self.events.push(Source::Socket(id));
        }
    }
}

/// A secret of its own for each use.
pub(crate) fn derive(secret: &[u8; 16], purpose: u8) -> [u8; 16] {
    use std::hash::Hasher;
    let mut derived = [0; 16];
    for (half, out) in derived.chunks_mut(8).enumerate() {
        let mut hasher = siphasher::sip::SipHasher24::new_with_key(secret);
        hasher.write(&[purpose, half as u8]);
        out.copy_from_slice(&hasher.finish().to_le_bytes());
    }
    derived
}

/// A stack may be moved to a thread of its own.
const _: fn() = || {
    fn is_send<T: Send>() {}
    is_send::<Stack>();
};
