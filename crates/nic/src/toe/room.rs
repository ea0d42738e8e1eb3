//! How many connections the device takes: load control, and telling the hosts of it (Connection handoff policies §3.2).

use super::load::{LoadConfig, LoadControl};
use crate::config::ToeConfig;
use crate::function::Function;
use crate::ring::RecvDescriptor;
use crate::ring::toe::ToeEvent;
use crate::switch::FunctionId;

/// Soft_limit, and what it follows from.
#[derive(Debug)]
pub(crate) struct Room {
    /// Without it Soft_limit is Hard_limit.
    control: Option<LoadControl>,
    hard_limit: u32,
    /// Cnum: connections begun or run.
    connections: u32,
    /// Qlen: NIC packets of each function, and of all.
    queued: Vec<u32>,
    total: u32,
    /// The last Soft_limit that each function's host was notified of. A host is notified once it has begun a connection.
    reported: Vec<Announced>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Announced {
    /// It has not asked.
    Nothing,
    /// It is to be reported.
    Due,
    This(u32),
}

impl Room {
    pub(crate) fn new(config: &ToeConfig) -> Room {
        let limits = LoadConfig {
            hard_limit: config.hard_limit,
            hiwat: config.hiwat,
            lowat: config.lowat,
        };
        Room {
            control: config.load_control.then(|| LoadControl::new(limits)),
            hard_limit: config.hard_limit,
            connections: 0,
            queued: Vec::new(),
            total: 0,
            reported: Vec::new(),
        }
    }

    /// Makes room for the next function.
    pub(crate) fn add_function(&mut self) {
        self.queued.push(0);
        self.reported.push(Announced::Nothing);
    }

    /// Soft_limit: the most connections.
    pub(crate) fn soft_limit(&self) -> u32 {
        self.control
            .as_ref()
            .map_or(self.hard_limit, LoadControl::soft_limit)
    }

    /// Cnum: connections begun or run.
    pub(crate) fn connections(&self) -> u32 {
        self.connections
    }

    /// Whether one more may be begun.
    pub(crate) fn admits(&self) -> bool {
        self.connections < self.soft_limit()
    }

    /// Connections beyond Soft_limit.
    pub(crate) fn excess(&self) -> u32 {
        self.connections.saturating_sub(self.soft_limit())
    }

    /// A host asks for room: from now on it is notified.
    pub(crate) fn asked(&mut self, function: FunctionId) {
        if let Some(reported) = self.reported.get_mut(usize::from(function.0))
            && *reported == Announced::Nothing
        {
            *reported = Announced::Due;
        }
    }

    /// A host has lost what was reported to it.
    pub(crate) fn forget(&mut self, function: FunctionId) {
        if let Some(reported) = self.reported.get_mut(usize::from(function.0)) {
            *reported = Announced::Nothing;
        }
    }

    /// A connection was begun.
    pub(crate) fn begun(&mut self) {
        self.connections += 1;
        let (qlen, cnum) = (self.total, self.connections);
        if let Some(control) = &mut self.control {
            control.handed_off(qlen, cnum);
        }
    }

    /// A connection that was begun has ended, or is the host's again.
    pub(crate) fn ended(&mut self) {
        self.connections = self.connections.saturating_sub(1);
        let (qlen, cnum) = (self.total, self.connections);
        if let Some(control) = &mut self.control {
            control.terminated(qlen, cnum);
        }
    }

    /// A NIC packet has arrived; the function has so many in its queue now.
    #[inline]
    pub(crate) fn packet_arrived(&mut self, function: FunctionId, queued: u32) {
        self.note(function, queued);
        let (qlen, cnum) = (self.total, self.connections);
        if let Some(control) = &mut self.control {
            control.packet_arrived(qlen, cnum);
        }
    }

    /// A function has so many NIC packets in its queue now.
    #[inline]
    pub(crate) fn note(&mut self, function: FunctionId, queued: u32) {
        if let Some(known) = self.queued.get_mut(usize::from(function.0)) {
            self.total = self.total + queued - *known;
            *known = queued;
        }
    }

    /// Tells a function's host if it has to know. False when that waits for room in its receive ring.
    pub(crate) fn report(&mut self, function: &mut Function) -> bool {
        let soft_limit = self.soft_limit();
        let Some(reported) = self.reported.get_mut(usize::from(function.id.0)) else {
            return true;
        };
        if *reported == Announced::Nothing || *reported == Announced::This(soft_limit) {
            return true;
        }
        let room = ToeEvent::Room {
            soft_limit,
            active: self.connections,
        };
        let done = function.report(0, RecvDescriptor::Toe(room));
        if done {
            *reported = Announced::This(soft_limit);
        }
        done
    }
}
