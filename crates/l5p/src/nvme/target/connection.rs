//! A connection: a queue of a controller, or about to become one.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use wire::nvme::command::Status;
use wire::nvme::{Digests, ICReq, Nqn};

use super::cids::CidSet;
use super::command::{Command, State, Work};
use super::control::{Control, Heard};
use super::controller::Subject;
use super::ids::ControllerRef;

/// A connection.
pub(super) struct Connection {
    /// What TLS has proved of the host, where there was TLS.
    pub identity: Option<PskIdentity>,
    pub phase: Phase,
    /// The queue that it is or was.
    pub queue: Option<Queue>,
    pub digests: Digests,
    /// HPDA of the host.
    pub alignment: u8,
    /// MAXR2T of the host.
    pub max_r2t: u32,
    /// The host sees no submission queue head, and may take SUCCESS for a response.
    pub no_flow_control: bool,
    /// The submission queue's head.
    pub sq_head: u16,
    /// Entries of the queue.
    pub entries: u32,
    /// Who the data belongs to that is coming.
    pub incoming: Incoming,
    commands: Vec<Option<Command>>,
    free: Vec<u16>,
    cids: Option<CidSet>,
    /// Commands that have something to send, each once.
    pub ready: VecDeque<u16>,
    /// Commands that a store works on.
    pub at_store: u32,
    r2ts: Outstanding,
}

/// R2Ts whose data is to come.
#[derive(Clone, Copy, Debug, Default)]
struct Outstanding {
    count: u32,
    /// By when some data must come. None if there are none.
    deadline: Option<Instant>,
}

/// A queue, as its connection's machine has it: what commands need of its controller, whichever machine has that.
#[derive(Clone, Debug)]
pub(super) struct Queue {
    pub control: Arc<Control>,
    pub heard: Arc<Heard>,
}

/// Who has a queue, and of what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct QueueOwner {
    pub host: Host,
    pub subject: Subject,
}

/// A host, as Connect names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Host {
    /// Its name.
    pub nqn: Nqn,
    /// Its identifier.
    pub id: [u8; 16],
}

/// Whom a PSK stands for: the names in its identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PskIdentity {
    /// The host.
    pub host: Nqn,
    /// The subsystem.
    pub subsystem: Nqn,
}

/// How far a connection is.
#[derive(Clone, Copy, Debug)]
pub(super) enum Phase {
    /// The host's ICReq is to come.
    Opening { deadline: Instant },
    /// The ICResp is to be sent.
    Answering { deadline: Instant },
    /// Connect is to come.
    Connecting { deadline: Instant },
    /// It is the admin queue.
    Admin(ControllerRef),
    /// It is the I/O queue of this number.
    Io { queue: u16 },
    /// It is closed. Its place is kept while stores work for it.
    Closed,
}

/// Who the data belongs to that is coming.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Incoming {
    Nothing,
    /// A command's capsule.
    Capsule(u16),
    /// A command's R2T. `is_last`: it asked for nothing behind this data.
    Transfer {
        slot: u16,
        is_last: bool,
    },
    /// No store.
    Discarded,
}

impl Connection {
    pub(super) fn new(deadline: Instant, identity: Option<PskIdentity>) -> Connection {
        Connection {
            identity,
            phase: Phase::Opening { deadline },
            queue: None,
            digests: Digests::NONE,
            alignment: 0,
            max_r2t: 0,
            no_flow_control: false,
            sq_head: 0,
            // Connect alone.
            entries: 1,
            incoming: Incoming::Nothing,
            commands: Vec::new(),
            free: Vec::new(),
            cids: None,
            ready: VecDeque::new(),
            at_store: 0,
            r2ts: Outstanding::default(),
        }
    }

    /// When it is closed, unless its host does something.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.pending_until().or(self.r2ts.deadline)
    }

    /// Until when it must have become a queue.
    pub(super) fn pending_until(&self) -> Option<Instant> {
        match self.phase {
            Phase::Opening { deadline }
            | Phase::Answering { deadline }
            | Phase::Connecting { deadline } => Some(deadline),
            Phase::Admin(_) | Phase::Io { .. } | Phase::Closed => None,
        }
    }

    /// An R2T was sent, the first data for which must come by `deadline`.
    pub(super) fn r2t_sent(&mut self, deadline: Instant) {
        self.r2ts.count += 1;
        self.r2ts.deadline.get_or_insert(deadline);
    }

    /// Data came for an R2T, and `ended` says whether that was all it asked for. Further data must come by `deadline`.
    pub(super) fn data_came(&mut self, ended: bool, deadline: Instant) {
        self.r2ts.count -= u32::from(ended);
        self.r2ts.deadline = (self.r2ts.count > 0).then_some(deadline);
    }

    /// The number of the queue that it is.
    pub(super) fn queue_number(&self) -> Option<u16> {
        match self.phase {
            Phase::Admin(_) => Some(0),
            Phase::Io { queue } => Some(queue),
            _ => None,
        }
    }

    /// What it is or was a queue of.
    pub(super) fn subject(&self) -> Option<Subject> {
        Some(self.queue.as_ref()?.control.subject())
    }

    pub(super) fn is_closed(&self) -> bool {
        matches!(self.phase, Phase::Closed)
    }

    pub(super) fn negotiate(&mut self, request: &ICReq) {
        self.digests = request.digests;
        self.alignment = request.hpda;
        self.max_r2t = request.max_r2t;
    }

    /// It has become a queue of so many entries.
    pub(super) fn become_queue(
        &mut self,
        phase: Phase,
        queue: Queue,
        entries: u32,
        no_flow_control: bool,
    ) {
        self.phase = phase;
        self.queue = Some(queue);
        self.entries = entries;
        self.no_flow_control = no_flow_control;
        // Connect was its first entry.
        self.sq_head = if no_flow_control {
            0
        } else {
            (1 % entries) as u16
        };
    }

    /// Takes a command in. `None`: the host has more in flight than the queue has entries.
    pub(super) fn start(&mut self, cid: u16, nsid: u32) -> Option<u16> {
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None if self.commands.len() < self.entries as usize => {
                self.commands.push(None);
                (self.commands.len() - 1) as u16
            }
            None => return None,
        };
        let cids = self.cids.get_or_insert_with(CidSet::new);
        self.commands[usize::from(slot)] = Some(Command {
            cid,
            owns_cid: cids.insert(cid),
            work: Work::Reply,
            state: State::Parked,
            buffer: false,
            queued: false,
            result: 0,
            status: Status::SUCCESS,
            nsid,
        });
        if !self.no_flow_control {
            self.sq_head = ((u32::from(self.sq_head) + 1) % self.entries.max(1)) as u16;
        }
        Some(slot)
    }

    pub(super) fn command(&self, slot: u16) -> Option<&Command> {
        self.commands.get(usize::from(slot))?.as_ref()
    }

    pub(super) fn command_mut(&mut self, slot: u16) -> Option<&mut Command> {
        self.commands.get_mut(usize::from(slot))?.as_mut()
    }

    /// The command that the host calls `cid`.
    pub(super) fn find(&self, cid: u16) -> Option<u16> {
        let is_it = |command: &Option<Command>| {
            command.as_ref().is_some_and(|c| c.cid == cid && c.owns_cid)
        };
        self.commands.iter().position(is_it).map(|slot| slot as u16)
    }

    /// The command has something to send.
    pub(super) fn queue(&mut self, slot: u16) {
        let Some(command) = self.command_mut(slot) else {
            return;
        };
        if !std::mem::replace(&mut command.queued, true) {
            self.ready.push_back(slot);
        }
    }

    /// The first command that has something to send has nothing more.
    pub(super) fn unqueue(&mut self) {
        let slot = self.ready.pop_front();
        if let Some(command) = slot.and_then(|slot| self.command_mut(slot)) {
            command.queued = false;
        }
    }

    /// The command is over. It is not among those that have something to send.
    pub(super) fn finish(&mut self, slot: u16) {
        let Some(command) = self.commands[usize::from(slot)].take() else {
            return;
        };
        if let (true, Some(cids)) = (command.owns_cid, &mut self.cids) {
            cids.remove(command.cid);
        }
        self.free.push(slot);
    }

    /// Commands in flight.
    pub(super) fn in_flight(&self) -> usize {
        self.commands.len() - self.free.len()
    }

    /// All commands with their slots.
    pub(super) fn commands_mut(&mut self) -> impl Iterator<Item = (u16, &mut Command)> {
        self.commands
            .iter_mut()
            .enumerate()
            .filter_map(|(slot, command)| Some((slot as u16, command.as_mut()?)))
    }
}
