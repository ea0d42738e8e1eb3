//! An NVMe/TCP target on a stack: its listeners, its connections, the memory of commands, and its stores.
//!
//! [`Target`] joins the pure [machine](l5p::nvme::target) with a [`Stack`] and with [`Stores`]. Data is never copied on the host but where it has to be:
//! what hosts write is placed into the memory that the store writes from, what they read is sent from the memory that the
//! store has read into.
//!
//! ```text
//! loop {
//!     let mut progress = runtime.poll(now)?;
//!     while let Some(event) = runtime.stack().poll_event() { target.handle_event(now, runtime.stack(), &event); }
//!     progress |= target.poll(now, runtime.stack());
//!     if !progress { runtime.wait(now, target.poll_timeout(), &fds)?; }
//! }
//! ```
//!
//! Stores ring the runtime's doorbell when they are done.

mod link;
mod memory;
mod options;
mod pool;
mod shares;
mod sink;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use l5p::nvme::target::{
    Action, CloseReason, Config, ConnectionId, Counters, FilledBy, Owner, QueueInfo,
    Target as Machine,
};
use nic::ring::Region;

use super::store::Stores;
use crate::deadlines::earliest;
use crate::runtime::Doorbell;
use crate::stack::Stack;
use crate::{Event, ListenOptions, ListenerId, SocketError, SocketId};
use link::Link;
use memory::Memories;

pub use options::{LinkCounters, Options, TargetError};

/// Target of warnings that hosts can cause as often as they like.
const LIMITED: &str = "host::limited";

/// When to look again at what the NIC is still to let go of.
const SETTLE: Duration = Duration::from_micros(20);

/// A target with its connections and its stores.
pub struct Target {
    machine: Machine,
    options: Options,
    // Before the memories: what is under way uses them.
    stores: Stores,
    memories: Memories,
    listeners: Vec<ListenerId>,
    /// By [`ConnectionId::index`].
    links: Vec<Option<Link>>,
    /// By [`SocketId::index`]: whose socket it is.
    sockets: Vec<Option<Client>>,
    /// TLS handshakes under way, and by when they are to be done, in this order.
    securing: VecDeque<(Instant, SocketId)>,
    counters: LinkCounters,
    /// What wakes the other machines, by their number: nothing, where there is one.
    bells: Vec<Doorbell>,
    /// Refusals for want of room that were logged.
    told_busy: u64,
    last_poll: Instant,
}

/// A socket that was accepted.
#[derive(Clone, Copy, Debug)]
enum Client {
    /// The TLS handshake is under way.
    Securing(SocketId),
    /// PDUs flow.
    Open(SocketId, ConnectionId),
}

impl Target {
    /// A target that offers what `config` says, from `stores`. Its memory is registered with the stack and with the stores.
    ///
    /// # Errors
    /// When `config` makes no sense, or there is no memory.
    pub fn new(
        now: Instant,
        stack: &mut Stack,
        config: Config,
        options: Options,
        stores: Stores,
    ) -> Result<Target, TargetError> {
        let machine = Machine::new(now, config)?;
        Target::with(now, stack, machine, options, stores)
    }

    /// The part of a target that one of [several machines](Machine::several) does, on a stack and a thread of its own, from stores that are
    /// [another](Stores::another)'s: with the memory of `options` for itself. `bells` of all parts, in the machines' order, are to be
    /// [set](Self::set_bells).
    ///
    /// # Errors
    /// When there is no memory.
    pub fn with(
        now: Instant,
        stack: &mut Stack,
        machine: Machine,
        options: Options,
        mut stores: Stores,
    ) -> Result<Target, TargetError> {
        let limits = machine.config().limits;
        let memories = Memories::new(stack, &mut stores, &limits, options.memory)?;
        Ok(Target {
            machine,
            options,
            stores,
            memories,
            listeners: Vec::new(),
            links: (0..limits.places()).map(|_| None).collect(),
            sockets: Vec::new(),
            securing: VecDeque::new(),
            counters: LinkCounters::default(),
            bells: Vec::new(),
            told_busy: 0,
            last_poll: now,
        })
    }

    /// What wakes the threads of all machines of the target, in their order. To be called before any host is there, where there are several.
    pub fn set_bells(&mut self, bells: Vec<Doorbell>) {
        self.bells = bells;
    }

    /// Accepts connections on an address.
    ///
    /// # Errors
    /// When it is not an address of this host, or in use.
    pub fn listen(&mut self, stack: &mut Stack, address: SocketAddr) -> Result<(), SocketError> {
        let listener = stack.listen(address, ListenOptions::default())?;
        self.listeners.push(listener);
        Ok(())
    }

    /// Accepts no more connections.
    pub fn close_listeners(&mut self, stack: &mut Stack) {
        for listener in self.listeners.drain(..) {
            let _ = stack.close_listener(listener);
        }
    }

    /// Closes all connections. Stores go on with what they have begun: see [`Target::is_idle`].
    pub fn close_all(&mut self, now: Instant, stack: &mut Stack) {
        for index in 0..self.sockets.len() {
            match self.sockets[index].take() {
                Some(Client::Open(_, connection)) => self.lose(now, stack, connection, "the end"),
                Some(Client::Securing(socket)) => {
                    self.securing.retain(|(_, other)| *other != socket);
                    let _ = stack.close(now, socket);
                }
                None => {}
            }
        }
    }

    /// Whether nothing is under way: no command that a host waits for, and no work of a store.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        let ids = self.links.iter().flatten().map(|link| link.connection);
        let mut sending = ids.filter(|id| self.machine.has_pdu(*id));
        self.stores.in_flight() == 0 && !self.memories.is_busy() && sending.next().is_none()
    }

    /// TLS handshakes that are under way.
    #[must_use]
    pub fn handshakes(&self) -> usize {
        self.securing.len()
    }

    /// The stores, to be asked about.
    #[must_use]
    pub fn stores(&self) -> &Stores {
        &self.stores
    }

    /// Looks whether files have changed their size, and tells hosts of it.
    pub fn refresh(&mut self) {
        for store in self.stores.refresh() {
            let info = self.stores.info(store);
            self.machine.resize(store, info.bytes >> info.block_shift);
        }
    }

    /// Waits for what its stores have begun, and makes durable what was written, whether or not a host has asked for it.
    ///
    /// # Errors
    /// When a file can't be made durable.
    pub fn end(self) -> std::io::Result<()> {
        self.stores.end()
    }

    /// The machine, to be asked about, and told of namespaces that change.
    pub fn machine(&mut self) -> &mut Machine {
        &mut self.machine
    }

    /// What the machine has counted.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.machine.counters()
    }

    /// What happened to connections.
    #[must_use]
    pub fn link_counters(&self) -> LinkCounters {
        self.counters
    }

    /// Bytes of memory for the data of commands: in use, and in all.
    #[must_use]
    pub fn memory(&self) -> (u64, u64) {
        self.memories.usage()
    }

    /// All queues, and their sockets.
    pub fn queues(&self) -> impl Iterator<Item = (SocketId, QueueInfo)> {
        self.machine.queues().filter_map(|queue| {
            let link = self.links[queue.connection.index()].as_ref()?;
            (link.connection == queue.connection).then_some((link.socket, queue))
        })
    }

    /// Takes in an event of the stack. Whether it was about a listener or a connection of this target.
    pub fn handle_event(&mut self, now: Instant, stack: &mut Stack, event: &Event) -> bool {
        if let Event::Accepted(listener) = event {
            let ours = self.listeners.contains(listener);
            if ours {
                self.accept(now, stack, *listener);
            }
            return ours;
        }
        let Some(id) = event.socket() else {
            return false;
        };
        let client = self.sockets.get(id.index()).copied().flatten();
        match (client, event) {
            (Some(Client::Securing(socket)), _) if socket == id => match event {
                Event::Secured(_) => self.secured(now, stack, socket),
                Event::Closed(_, reason) => {
                    self.counters.handshakes_failed += 1;
                    tracing::info!("a TLS handshake failed: {reason}");
                    self.forget(now, stack, socket);
                }
                _ => {}
            },
            (Some(Client::Open(socket, connection)), _) if socket == id => match event {
                Event::Readable(_) => self.receive(now, stack, connection),
                Event::Writable(_) => self.with_link(connection, |link| link.writable = true),
                Event::Closed(_, reason) => {
                    // What came before the end may be the reason for it.
                    self.receive(now, stack, connection);
                    self.lose(now, stack, connection, &reason.to_string());
                }
                _ => {}
            },
            _ => return false,
        }
        true
    }

    /// Moves what can be moved: work of stores, memory, PDUs, timers. Whether anything was done.
    pub fn poll(&mut self, now: Instant, stack: &mut Stack) -> bool {
        self.last_poll = now;
        let mut progress = false;
        if self.machine.poll_timeout().is_some_and(|at| at <= now) {
            self.machine.handle_timeout(now);
            progress = true;
        }
        progress |= self.end_slow_handshakes(now, stack);
        self.tell_of_refusals();
        progress |= self.settle(stack);
        progress |= self.stores.poll();
        while let Some((owner, result)) = self.stores.poll_done() {
            if let (Owner::Controller(_), Err(status)) = (owner, result) {
                tracing::error!("what was written is not durable: {status}; a shutdown fails");
            }
            self.machine.handle_stored(owner, result);
            progress = true;
        }
        progress |= self.act(now, stack);
        for index in 0..self.links.len() {
            progress |= self.send(now, stack, index);
        }
        // What was sent may have given memory back, for commands that wait.
        progress |= self.act(now, stack);
        progress |= self.stores.poll();
        progress
    }

    /// When to call [`Target::poll`] again, if the stack has no event and no store rings before.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        let settling = self.memories.is_settling().then(|| self.last_poll + SETTLE);
        let working = self.stores.has_work().then_some(self.last_poll);
        let handshake = self.securing.front().map(|(deadline, _)| *deadline);
        earliest([settling, working, handshake, self.machine.poll_timeout()])
    }

    /// Says that hosts were refused for want of room.
    fn tell_of_refusals(&mut self) {
        let busy = self.machine.counters().busy_connects;
        if std::mem::replace(&mut self.told_busy, busy) != busy {
            let limits = self.machine.config().limits;
            tracing::warn!(
                target: LIMITED,
                "a Connect is refused: there are {} controllers of {}, and {} queues may be open",
                self.machine.controllers(),
                limits.controllers,
                limits.connections,
            );
        }
    }

    /// Takes back what TCP and the NIC use no more.
    fn settle(&mut self, stack: &mut Stack) -> bool {
        let mut progress = false;
        while let Some(slice) = stack.poll_released() {
            self.memories.sent_is_done(slice);
            progress = true;
        }
        let (machine, counters) = (&mut self.machine, &mut self.counters);
        progress |= self
            .memories
            .settle(stack, &mut self.stores, |owner, status| {
                counters.tainted += 1;
                machine.handle_stored(owner, Err(status));
            });
        progress
    }

    /// Does what the machine asks for.
    fn act(&mut self, now: Instant, stack: &mut Stack) -> bool {
        let mut progress = false;
        loop {
            while let Some(action) = self.machine.poll_action() {
                progress = true;
                match action {
                    Action::Buffer {
                        command,
                        len,
                        filled_by,
                    } => {
                        // Only queues have commands that need memory.
                        if let Some(host) = self.machine.host(command.connection) {
                            self.memories.wait(host, command, len, filled_by);
                        }
                    }
                    Action::Store(request) => match request.owner {
                        Owner::Command(_) => {
                            self.memories.store(stack, &mut self.stores, request);
                        }
                        Owner::Controller(_) => self.stores.submit(request, None, None),
                    },
                    Action::Release(command) => self.memories.release(stack, command),
                    Action::Close { connection, why } => self.closed(now, stack, connection, why),
                    Action::Wake { machine } => {
                        if let Some(bell) = self.bells.get(machine) {
                            bell.ring();
                        }
                    }
                }
            }
            let Some((command, filled_by)) = self.memories.grant() else {
                return progress;
            };
            let link = self.links[command.connection.index()].as_ref();
            let link = link.filter(|link| link.connection == command.connection);
            if let (FilledBy::Host, Some(link)) = (filled_by, link)
                && self.options.offload.placement
            {
                let least = self.options.map_threshold;
                let mapped = self.memories.map(stack, link.socket, command, least);
                self.counters.mapped += u64::from(mapped);
            }
            self.machine.handle_buffer(command);
            progress = true;
        }
    }

    /// The machine closes a connection.
    fn closed(
        &mut self,
        now: Instant,
        stack: &mut Stack,
        connection: ConnectionId,
        why: CloseReason,
    ) {
        match why {
            CloseReason::Evicted | CloseReason::R2t => {
                tracing::warn!(target: LIMITED, "a connection is closed: {why}");
            }
            _ => tracing::info!("a connection is closed: {why}"),
        }
        let Some(link) = self.take_link(connection) else {
            return;
        };
        // A host that is gone, or never said anything, is not waited for.
        let _ = match why {
            CloseReason::KeepAlive | CloseReason::Handshake | CloseReason::Evicted => {
                stack.abort(now, link.socket)
            }
            CloseReason::R2t => link.terminate(now, stack),
            CloseReason::ControllerGone
            | CloseReason::ControllerReset
            | CloseReason::HostTerminated(_) => stack.close(now, link.socket),
        };
    }

    fn with_link(&mut self, connection: ConnectionId, change: impl FnOnce(&mut Link)) {
        let link = self.links[connection.index()].as_mut();
        if let Some(link) = link.filter(|link| link.connection == connection) {
            change(link);
        }
    }
}

/// A region of zeroed memory, whose pages are taken when they are used.
fn zeroed(stack: &Stack, bytes: u64) -> Result<Arc<Region>, SocketError> {
    stack.allocate_region(bytes.max(1) as usize).map(Arc::new)
}
