//! What the machines of one target share: its controllers with their queues, queues that stores still work for, and mail.
//!
//! All of it is behind one lock, which Connect, properties, resets, ends of queues and deadlines take, and no I/O command. What one machine
//! wants done by another goes into that one's mailbox as a [`Request`]; a flag on a cache line of its own says that there is some.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::action::CloseReason;
use super::config::{Hosts, Limits, Namespace, StoreId};
use super::connection::QueueOwner;
use super::control::{Control, Heard};
use super::controller::Subject;
use super::ids::ConnectionId;
use super::traffic::{Traffic, TrafficCells};

/// The highest CNTLID (Base 2.0c §3.1.2.2).
const MAX_CONTROLLER_ID: u16 = 0xffef;
/// How long a host may say nothing to a discovery controller that has no keep-alive time-out: as long as with Linux's target. Any host gets
/// such a controller.
const DISCOVERY_SILENCE: Duration = Duration::from_secs(120);

/// What the machines of one target share.
pub(super) struct Shared {
    state: Mutex<State>,
    /// By machine: whether it has mail.
    mail: Box<[Arc<Mail>]>,
    /// By machine and subsystem.
    traffic: Box<[Arc<[TrafficCells]>]>,
    /// When the target was made.
    pub started: Instant,
}

/// Whether a machine has mail.
#[derive(Default)]
#[repr(align(128))]
pub(super) struct Mail(AtomicBool);

impl Mail {
    #[inline]
    pub(super) fn has_come(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// What is behind the lock.
pub(super) struct State {
    limits: Limits,
    /// By CNTLID.
    controllers: BTreeMap<u16, Entry>,
    last_controller_id: u16,
    /// Queues of all hosts, with those that are closed while stores work for them.
    queues: usize,
    /// Queues that are to be closed, or are, while stores may work for them.
    leaving: Vec<Leaving>,
    /// By machine.
    requests: Vec<Vec<Request>>,
}

/// A controller and its queues.
struct Entry {
    control: Arc<Control>,
    admin: QueueRef,
    /// The I/O queues, the first of which is queue 1. As many as were granted.
    io: Vec<Option<QueueRef>>,
}

/// A queue on some machine.
#[derive(Clone, Debug)]
pub(super) struct QueueRef {
    pub connection: ConnectionId,
    pub heard: Arc<Heard>,
}

struct Leaving {
    connection: ConnectionId,
    owner: QueueOwner,
    /// CNTLID.
    controller: u16,
}

/// What one machine wants another to do.
#[derive(Clone, Debug)]
pub(super) enum Request {
    Close(ConnectionId, CloseReason),
    /// A namespace of the subsystem of this index is like this from now on.
    PutNamespace(usize, Namespace),
    RemoveNamespace(usize, u32),
    SetHosts(usize, Hosts),
    /// All namespaces on this store have so many blocks from now on.
    Resize(StoreId, u64),
}

/// Why there is no new I/O queue.
pub(super) enum NoQueue {
    /// There are too many, or stores still work for one that was there before.
    Busy,
    NoController,
    NoSuchQueue,
    /// The controller is not enabled.
    NotReady,
    /// It is there already.
    Taken,
}

impl Shared {
    /// For so many machines.
    pub(super) fn new(now: Instant, limits: Limits, subsystems: usize, machines: usize) -> Shared {
        let cells = || (0..subsystems).map(|_| TrafficCells::default()).collect();
        Shared {
            state: Mutex::new(State {
                limits,
                controllers: BTreeMap::new(),
                last_controller_id: 0,
                queues: 0,
                leaving: Vec::new(),
                requests: (0..machines).map(|_| Vec::new()).collect(),
            }),
            mail: (0..machines).map(|_| Arc::default()).collect(),
            traffic: (0..machines).map(|_| cells()).collect(),
            started: now,
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What one machine has counted, by subsystem.
    pub(super) fn traffic_of(&self, machine: u16) -> Arc<[TrafficCells]> {
        Arc::clone(&self.traffic[usize::from(machine)])
    }

    /// What all have counted of a subsystem.
    pub(super) fn traffic(&self, subsystem: usize) -> Traffic {
        self.traffic
            .iter()
            .map(|machine| machine[subsystem].read())
            .sum()
    }

    /// Whether a machine has mail.
    pub(super) fn mail_of(&self, machine: u16) -> Arc<Mail> {
        Arc::clone(&self.mail[usize::from(machine)])
    }

    /// Takes what others want this machine to do, in the order in which they did.
    pub(super) fn take_requests(&self, machine: u16) -> Vec<Request> {
        let mut state = self.lock();
        self.mail[usize::from(machine)]
            .0
            .store(false, Ordering::Relaxed);
        std::mem::take(&mut state.requests[usize::from(machine)])
    }

    /// Has all machines do it: all in the same order, where several give requests. Gives the machines.
    pub(super) fn request_of_all(&self, request: &Request) -> impl Iterator<Item = u16> + use<> {
        let mut state = self.lock();
        let machines = 0..self.mail.len() as u16;
        for machine in machines.clone() {
            self.request(&mut state, machine, request.clone());
        }
        machines
    }

    fn request(&self, state: &mut State, machine: u16, request: Request) {
        state.requests[usize::from(machine)].push(request);
        self.mail[usize::from(machine)]
            .0
            .store(true, Ordering::Release);
    }

    /// Takes all I/O queues of a controller away, and has other machines than `own` close theirs. Gives all of them.
    pub(super) fn delete_queues(
        &self,
        own: u16,
        controller: u16,
        why: CloseReason,
    ) -> Vec<ConnectionId> {
        let mut state = self.lock();
        let Some(entry) = state.controllers.get_mut(&controller) else {
            return Vec::new();
        };
        let owner = entry.control.owner;
        let queues = entry.io.iter_mut().filter_map(Option::take);
        let queues: Vec<_> = queues.map(|queue| queue.connection).collect();
        for &connection in &queues {
            // Until its machine says that no store works for it.
            state.leaving.push(Leaving {
                connection,
                owner,
                controller,
            });
            if connection.machine != own {
                self.request(
                    &mut state,
                    connection.machine,
                    Request::Close(connection, why),
                );
            }
        }
        queues
    }
}

impl State {
    /// Makes a controller with so many I/O queues at most. `None`: there is no room, or stores still work for queues that this host
    /// had before, whose writes must not come after those of the next ones.
    pub(super) fn add_controller(
        &mut self,
        owner: QueueOwner,
        admin: QueueRef,
        io_queues: u16,
    ) -> Option<Arc<Control>> {
        let is_leaving = self.leaving.iter().any(|queue| queue.owner == owner);
        let is_full = self.controllers.len() >= self.limits.controllers
            || owner.subject == Subject::Discovery && !self.has_room_for_discovery();
        if is_leaving || is_full || !self.has_room() {
            return None;
        }
        let id = self.free_controller_id();
        self.last_controller_id = id;
        let control = Arc::new(Control::new(id, owner));
        self.controllers.insert(
            id,
            Entry {
                control: Arc::clone(&control),
                admin,
                io: vec![None; usize::from(io_queues)],
            },
        );
        self.queues += 1;
        Some(control)
    }

    /// The admin queue is gone, and all others have been taken away.
    pub(super) fn remove_controller(&mut self, id: u16) {
        if self.controllers.remove(&id).is_some() {
            self.queues -= 1;
        }
    }

    /// Gives a controller of this owner an I/O queue.
    pub(super) fn add_queue(
        &mut self,
        controller: u16,
        owner: &QueueOwner,
        number: u16,
        queue: QueueRef,
    ) -> Result<Arc<Control>, NoQueue> {
        if !self.has_room() {
            return Err(NoQueue::Busy);
        }
        let is_resetting = self.is_resetting(controller);
        let found = self.controllers.get_mut(&controller);
        let entry = found.filter(|entry| entry.control.owner == *owner);
        let entry = entry.ok_or(NoQueue::NoController)?;
        if is_resetting {
            return Err(NoQueue::Busy);
        }
        let place = entry.io.get_mut(usize::from(number) - 1);
        let place = place.ok_or(NoQueue::NoSuchQueue)?;
        if !entry.control.is_ready() {
            return Err(NoQueue::NotReady);
        }
        if place.is_some() {
            return Err(NoQueue::Taken);
        }
        *place = Some(queue);
        self.queues += 1;
        Ok(Arc::clone(&entry.control))
    }

    /// An I/O queue is closed. `at_store`: stores still work for it.
    pub(super) fn close_queue(&mut self, control: &Control, queue: &QueueRef, at_store: bool) {
        let connection = queue.connection;
        if let Some(entry) = self.controllers.get_mut(&control.id) {
            let is_it = |it: &&mut Option<QueueRef>| {
                it.as_ref().is_some_and(|it| it.connection == connection)
            };
            if let Some(place) = entry.io.iter_mut().find(is_it) {
                *place = None;
                entry.admin.heard.raise(&queue.heard);
            }
        }
        self.leaving.retain(|queue| queue.connection != connection);
        match at_store {
            true => self.leaving.push(Leaving {
                connection,
                owner: control.owner,
                controller: control.id,
            }),
            false => self.queues -= 1,
        }
    }

    /// No store works for a queue that is closed: others may have its room.
    pub(super) fn left(&mut self, connection: ConnectionId) {
        self.leaving.retain(|queue| queue.connection != connection);
        self.queues -= 1;
    }

    /// Whether stores may still work on commands of queues that a reset has deleted, or that the host has closed before. The controller is not
    /// idle before, which CSTS.RDY tells.
    pub(super) fn is_resetting(&self, controller: u16) -> bool {
        let mut leaving = self.leaving.iter();
        leaving.any(|queue| queue.controller == controller)
    }

    /// When the host of a controller counts as gone, unless it shows that it lives.
    pub(super) fn deadline(&self, controller: u16, started: Instant) -> Option<Instant> {
        let entry = self.controllers.get(&controller)?;
        let limit = match (entry.control.keep_alive(), entry.control.subject()) {
            (0, Subject::Discovery) => DISCOVERY_SILENCE,
            (0, Subject::Subsystem(_)) => return None,
            (milliseconds, _) => Duration::from_millis(milliseconds.into()),
        };
        let io = entry.io.iter().flatten();
        let heard = io
            .chain([&entry.admin])
            .map(|queue| queue.heard.at(started));
        Some(heard.max().unwrap_or(started) + limit)
    }

    /// The I/O queues of a controller.
    pub(super) fn io_queues(&mut self, controller: u16) -> &mut Vec<Option<QueueRef>> {
        let entry = self.controllers.get_mut(&controller);
        &mut entry.expect("its admin queue is open").io
    }

    /// Controllers that there are.
    pub(super) fn controllers(&self) -> usize {
        self.controllers.len()
    }

    /// Whether there may be one more queue.
    fn has_room(&self) -> bool {
        self.queues < self.limits.connections
    }

    /// Whether there may be one more discovery controller. They are for hosts that may not have a subsystem, too, and have no more than half of all
    /// controllers and of all queues.
    fn has_room_for_discovery(&self) -> bool {
        let controllers = self.controllers.values();
        let those = controllers.filter(|entry| entry.control.subject() == Subject::Discovery);
        let all = self.limits.controllers.min(self.limits.connections);
        those.count() < all.div_ceil(2)
    }

    /// A CNTLID that no controller has or had lately.
    fn free_controller_id(&self) -> u16 {
        let mut id = self.last_controller_id;
        loop {
            id = if id >= MAX_CONTROLLER_ID { 1 } else { id + 1 };
            if !self.controllers.contains_key(&id) {
                return id;
            }
        }
    }
}
