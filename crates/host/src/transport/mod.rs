//! TCP's connections: sockets and listeners, whom a segment is for, when each is served, and what is left of those that have ended.
//!
//! The transport runs the connections that the host owns. It knows of the others only that they are not its own: what concerns their
//! owner it tells by [`TransportEvent`]s.

mod completions;
mod connect;
mod deliver;
mod demux;
mod ending;
mod listen;
mod listeners;
mod protocols;
mod schedule;
mod serve;
mod shortage;
mod timers;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use nic::ring::HostFunction;
use nic::ring::accel::ListenRuleId;
use tcp::TimeWait;
use tcp::isn::{Ahead, Generator};

use crate::deadlines::earliest;
use crate::device::Device;
use crate::handoff::policy;
use crate::keyed::derive;
use crate::link::Link;
use crate::socket::{OffloadedConnection, Sockets};
use crate::{ListenerId, SocketId, StackConfig};
use connect::Outgoing;
use demux::Demux;
use schedule::Schedule;
use shortage::Shortage;

pub(crate) use connect::PORTS;
pub(crate) use deliver::Unmatched;
pub(crate) use listeners::{Listeners, Listening};

/// Every connection of the stack, and what it takes to run those of the host.
#[derive(Debug)]
pub(crate) struct Transport {
    pub config: StackConfig,
    pub device: Device,
    pub link: Link,
    pub sockets: Sockets,
    pub listeners: Listeners,
    pub demux: Demux,
    pub time_wait: TimeWait,
    pub schedule: Schedule,
    pub shortage: Shortage,
    pub isn: Generator,
    /// Where the numbers end of connections without timestamps that the NIC finishes.
    pub ahead: Ahead,
    /// Which flows are open to connections from here.
    pub outgoing: Outgoing,
    events: VecDeque<TransportEvent>,
    pub last_poll: Instant,
    /// When a connection was reset because something failed here.
    last_reset: Option<Instant>,
}

/// What the owners of connections must hear of.
#[derive(Debug)]
pub(crate) enum TransportEvent {
    /// A connection is established, with a full control block.
    Established(SocketId),
    /// A connection that the NIC has set up by a rule waits at the listener no longer.
    Unlisted {
        rule: ListenRuleId,
        listener: ListenerId,
    },
    /// A socket is gone that the NIC had, or that the policy counts among the NIC's.
    Removed {
        record: policy::Record,
        offloaded: Option<OffloadedConnection>,
    },
}

/// Connections in TIME-WAIT at most.
const TIME_WAIT_CAPACITY: usize = 65_536;
/// Sockets that wait for memory and are served by one poll at most.
const REAP_BUDGET: usize = 1024;
/// When to look again at a NIC that had no room.
const STALL: Duration = Duration::from_micros(20);
/// When to look again for memory that the NIC was still reading, or the application.
const REAP: Duration = Duration::from_millis(10);

impl Transport {
    pub fn new(now: Instant, config: StackConfig, function: HostFunction) -> Self {
        let device = Device::new(function, &config);
        let secret = &config.secret;
        let time_wait = config.tcp.time_wait;
        Self {
            link: Link::new(now, &config, device.driver.mac()),
            device,
            sockets: Sockets::default(),
            listeners: Listeners::default(),
            demux: Demux::new(secret),
            time_wait: TimeWait::new(now, TIME_WAIT_CAPACITY, time_wait, derive(secret, 1)),
            schedule: Schedule::default(),
            shortage: Shortage::default(),
            isn: Generator::new(config.epoch.unwrap_or(now), derive(secret, 2)),
            ahead: Ahead::new(derive(secret, 4)),
            outgoing: Outgoing::new(secret),
            events: VecDeque::new(),
            last_poll: now,
            last_reset: None,
            config,
        }
    }

    /// The next thing that the owners of connections must hear of.
    #[inline]
    pub fn poll_event(&mut self) -> Option<TransportEvent> {
        self.events.pop_front()
    }

    /// When there is something to do, if nothing comes before.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let schedule = &self.schedule;
        let driver = &self.device.driver;
        let has_work = schedule.has_work()
            || !self.events.is_empty()
            || driver.is_blocked()
            || driver.is_settling();
        let wait = match schedule.is_stalled {
            true => STALL,
            false => Duration::ZERO,
        };
        let has_reapable = driver.has_retiring() || schedule.has_starved();
        earliest([
            schedule.timers.next(),
            self.link.poll_timeout(),
            self.time_wait.poll_timeout(),
            self.device.trim_timeout(),
            self.shortage
                .poll_timeout(self.device.level, self.last_poll),
            has_work.then_some(self.last_poll + wait),
            has_reapable.then_some(self.last_poll + REAP),
        ])
    }

    /// Has a socket served that may have something to send or to tell.
    pub fn mark_ready(&mut self, id: SocketId) {
        if let Some(socket) = self.sockets.get_mut(id) {
            self.schedule.mark_ready(id, socket);
        }
    }

    /// Runs the timers that are due. Answers whether there was any.
    pub fn run_timers(&mut self, now: Instant) -> bool {
        let mut progress = false;
        while let Some((id, at)) = self.schedule.timers.pop_due(now) {
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
            let deadline = socket.tcp.poll_timeout();
            if deadline.is_some_and(|deadline| deadline <= now) {
                socket.tcp.handle_timeout(now);
                progress = true;
                self.schedule.mark_ready(id, socket);
            } else {
                self.schedule.timers.arm(id, &mut socket.armed, deadline);
            }
        }
        let armed = self.sockets.iter();
        self.schedule.timers.tidy(
            self.sockets.len(),
            armed.filter_map(|(id, socket)| Some((id, socket.armed?))),
        );
        if self.time_wait.poll_timeout().is_some_and(|at| at <= now) {
            self.time_wait.handle_timeout(now);
        }
        progress
    }

    /// Frees what the NIC has read, and lets those try again that found no memory.
    pub fn reap(&mut self) -> bool {
        let freed = self.device.driver.reap();
        // What the application has let go comes back without a word.
        if !self.schedule.has_starved() || !(freed || self.device.driver.has_room()) {
            return freed;
        }
        for _ in 0..REAP_BUDGET {
            let Some(id) = self.schedule.pop_starved() else {
                break;
            };
            if let Some(socket) = self.sockets.get_mut(id) {
                self.schedule.fed(id, socket);
            }
        }
        true
    }
}
