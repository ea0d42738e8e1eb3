//! The machine: its calls, and what they do to connections.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use wire::nvme::command::Status;
use wire::nvme::{FatalError, FatalErrorStatus, ICReq, Nqn, Pdu};

use super::action::{Action, CloseReason, Place};
use super::command::State;
use super::config::{Config, ConfigError};
use super::connection::{Connection, Incoming, Phase, PskIdentity, Queue};
use super::controller::Controller;
use super::ids::{CommandRef, ConnectionId, ControllerRef};
use super::info::Counters;
use super::shared::{Mail, QueueRef, Shared};
use super::slab::Slab;
use super::subsystem::Live;
use super::traffic::TrafficCells;

/// A target, or one of several machines that are one target: all its subsystems, and what hosts have of it on some connections. See the
/// [module](super) for how to drive it.
pub struct Target {
    pub(super) config: Config,
    pub(super) shared: Arc<Shared>,
    /// Which one it is.
    pub(super) machine: u16,
    pub(super) mail: Arc<Mail>,
    /// By subsystem.
    pub(super) traffic: Arc<[TrafficCells]>,
    pub(super) subsystems: Vec<Live>,
    pub(super) connections: Slab<Connection>,
    /// Those whose admin queue is here.
    pub(super) controllers: Slab<Controller>,
    pub(super) discovery_generation: u64,
    pub(super) actions: VecDeque<Action>,
    /// No deadline is before this.
    pub(super) next_deadline: Option<Instant>,
    pub(super) started: Instant,
    /// A time, and how long after that it was.
    elapsed: (Instant, Duration),
    /// When it was last called.
    pub(super) now: Instant,
    pub(super) piece: Box<[u8; super::answer::PIECE]>,
    pub(super) counters: Counters,
}

impl Target {
    /// A target that offers what `config` says.
    ///
    /// # Errors
    /// When the configuration contradicts itself.
    pub fn new(now: Instant, config: Config) -> Result<Target, ConfigError> {
        Ok(Target::several(now, config, 1)?.remove(0))
    }

    /// The same by `count` machines, each for a thread of its own: at least one, at most 1,024. A connection is on one of them, whichever that
    /// is, and a controller has queues on any. The limits are those of all together: of [`pending`](super::Limits::pending) connections each machine
    /// has its part, at least one.
    ///
    /// # Errors
    /// When the configuration contradicts itself, or leaves a machine without any pending connection.
    pub fn several(
        now: Instant,
        mut config: Config,
        count: usize,
    ) -> Result<Vec<Target>, ConfigError> {
        config.check()?;
        let count = count.clamp(1, 1024);
        let subsystems = config.subsystems.len();
        let shared = Arc::new(Shared::new(now, config.limits, subsystems, count));
        let pending = config.limits.pending;
        if pending < count {
            return Err(ConfigError::Limit("pending"));
        }
        let machines = (0..count).map(|machine| {
            config.limits.pending = (pending + machine) / count;
            Target::of(now, config.clone(), machine as u16, &shared)
        });
        Ok(machines.collect())
    }

    fn of(now: Instant, config: Config, machine: u16, shared: &Arc<Shared>) -> Target {
        let subsystems = config.subsystems.iter().cloned().map(Live::new).collect();
        Target {
            machine,
            mail: shared.mail_of(machine),
            traffic: shared.traffic_of(machine),
            shared: Arc::clone(shared),
            subsystems,
            connections: Slab::new(config.limits.places()),
            controllers: Slab::new(config.limits.controllers),
            discovery_generation: 1,
            actions: VecDeque::new(),
            next_deadline: None,
            started: now,
            elapsed: (now, Duration::ZERO),
            now,
            piece: Box::new([0; super::answer::PIECE]),
            counters: Counters::default(),
            config,
        }
    }

    /// What it was made of; namespaces may have changed since.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// A host has connected; `identity` is what TLS has proved of it. Another one that is no queue yet may be closed for it, which
    /// an action says: follow it before this connection is used. `None`: there are too many connections.
    pub fn accept(&mut self, now: Instant, identity: Option<PskIdentity>) -> Option<ConnectionId> {
        self.make_room();
        let deadline = now + self.config.limits.handshake;
        let make = |_, _| Connection::new(deadline, identity);
        let (index, generation) = self.connections.insert(make)?;
        self.expect_deadline(deadline);
        self.counters.connections += 1;
        Some(self.connection_id(index, generation))
    }

    /// Closes the oldest connection that is no queue yet, if there are as many of those as there may be.
    fn make_room(&mut self) {
        let all = self.connections.iter();
        let pending = all.filter_map(|((index, generation), connection)| {
            let until = connection.pending_until()?;
            Some((until, self.connection_id(index, generation)))
        });
        let pending: Vec<_> = pending.collect();
        if let Some(&(_, id)) = pending.iter().min()
            && pending.len() >= self.config.limits.pending
        {
            self.counters.evicted += 1;
            self.close(id, CloseReason::Evicted);
        }
    }

    /// The connection is no more.
    pub fn handle_closed(&mut self, id: ConnectionId) {
        self.drop_connection(id);
    }

    /// Takes in a header that was checked against the connection's framing; answers where its data belongs.
    ///
    /// # Errors
    /// An error ends the connection: tell the host by a C2HTermReq, and close it.
    pub fn handle_pdu(
        &mut self,
        now: Instant,
        id: ConnectionId,
        pdu: &Pdu,
    ) -> Result<Place, FatalError> {
        self.look_at_mail();
        if self.open_mut(id).is_none() {
            return Ok(Place::Discard);
        }
        let place = match pdu {
            Pdu::ICReq(request) => self.open(id, request),
            Pdu::CapsuleCmd(capsule) => self.capsule(now, id, capsule),
            Pdu::H2CData(data) => self.host_data(id, data),
            Pdu::H2CTermReq(request) => {
                self.close(id, CloseReason::HostTerminated(request.error));
                Ok(Place::Discard)
            }
            _ => Err(FatalError::field(0)),
        };
        if place.is_err() {
            self.counters.fatal_errors += 1;
            self.drop_connection(id);
        }
        place
    }

    /// All of the PDU has come whose header was last taken in. `intact`: its data digest was right, or it has no data digest.
    /// `inline`: the data, where [`Place::Inline`] was answered. A PDU without data needs no such call.
    pub fn handle_pdu_end(&mut self, now: Instant, id: ConnectionId, intact: bool, inline: &[u8]) {
        let next = now + self.config.limits.r2t;
        let Some(connection) = self.open_mut(id) else {
            return;
        };
        let incoming = std::mem::replace(&mut connection.incoming, Incoming::Nothing);
        if let Incoming::Transfer { is_last, .. } = incoming {
            connection.data_came(is_last, next);
        }
        if !intact && incoming != Incoming::Nothing {
            self.counters.digest_errors += 1;
        }
        match incoming {
            Incoming::Nothing | Incoming::Discarded => {}
            Incoming::Capsule(slot) => self.capsule_end(now, id, slot, intact, inline),
            Incoming::Transfer { slot, .. } => self.transfer_end(id, slot, intact),
        }
    }

    /// The next thing to do. Call it until it gives `None`.
    #[inline]
    pub fn poll_action(&mut self) -> Option<Action> {
        match self.actions.pop_front() {
            None if self.mail.has_come() => {
                self.do_requests();
                self.actions.pop_front()
            }
            action => action,
        }
    }

    fn open(&mut self, id: ConnectionId, request: &ICReq) -> Result<Place, FatalError> {
        let required = self.config.required_digests;
        let connection = self.open_mut(id).expect("it is open");
        let Phase::Opening { deadline } = connection.phase else {
            return Err(FatalError::of(FatalErrorStatus::SEQUENCE));
        };
        let lacks = |required: bool, asked: bool| required && !asked;
        let asked = request.digests;
        if lacks(required.header, asked.header) || lacks(required.data, asked.data) {
            return Err(FatalError {
                fes: FatalErrorStatus::UNSUPPORTED_PARAMETER,
                fei: 11,
            });
        }
        connection.negotiate(request);
        connection.phase = Phase::Answering { deadline };
        Ok(Place::None)
    }

    /// The command is over but for its response.
    pub(super) fn respond(&mut self, id: ConnectionId, slot: u16, status: Status, result: u64) {
        let connection = self.open_mut(id).expect("it is open");
        let command = connection.command_mut(slot).expect("it is in flight");
        command.status = status;
        command.result = result;
        command.state = State::Responding;
        let release = std::mem::replace(&mut command.buffer, false);
        let (cid, nsid) = (command.cid, command.nsid);
        connection.queue(slot);
        if !status.is_success()
            && let (Some(number), Some(queue)) = (connection.queue_number(), &connection.queue)
        {
            queue.control.record_error(number, cid, status, nsid);
        }
        if release {
            self.actions.push_back(Action::Release(CommandRef {
                connection: id,
                slot,
            }));
        }
        self.counters.failed_commands += u64::from(!status.is_success());
    }

    /// Closes a connection of the machine's own accord.
    pub(super) fn close(&mut self, id: ConnectionId, why: CloseReason) {
        if self.open_mut(id).is_some() {
            // Memory first: the connection may be needed to take it back.
            self.drop_connection(id);
            self.actions.push_back(Action::Close {
                connection: id,
                why,
            });
        }
    }

    /// Forgets a connection, and the controller whose admin queue it is.
    pub(super) fn drop_connection(&mut self, id: ConnectionId) {
        let Some(connection) = self.open_mut(id) else {
            return;
        };
        let phase = std::mem::replace(&mut connection.phase, Phase::Closed);
        connection.ready.clear();
        let mut over = Vec::new();
        for (slot, command) in connection.commands_mut() {
            if !matches!(command.state, State::Storing) {
                over.push((slot, command.buffer));
            }
        }
        let (at_store, queue) = (connection.at_store, connection.queue.clone());
        for &(slot, _) in &over {
            connection.finish(slot);
        }
        for (slot, _) in over.into_iter().filter(|(_, buffer)| *buffer) {
            self.actions.push_back(Action::Release(CommandRef {
                connection: id,
                slot,
            }));
        }
        if at_store == 0 {
            self.connections.remove(id.index, id.generation);
        }
        match (phase, queue) {
            (Phase::Admin(controller), _) => self.drop_controller(controller),
            (Phase::Io { .. }, Some(Queue { control, heard })) => {
                let queue = QueueRef {
                    connection: id,
                    heard,
                };
                let mut state = self.shared.lock();
                state.close_queue(&control, &queue, at_store > 0);
            }
            _ => {}
        }
    }

    fn drop_controller(&mut self, id: ControllerRef) {
        let Some(controller) = self.controllers.remove(id.index, id.generation) else {
            return;
        };
        controller.control.set_ready(false);
        self.delete_queues(controller.id(), CloseReason::ControllerGone);
        self.shared.lock().remove_controller(controller.id());
    }

    /// A connection that is not closed.
    pub(super) fn open_mut(&mut self, id: ConnectionId) -> Option<&mut Connection> {
        let connection = self.connections.get_mut(id.index, id.generation)?;
        (!connection.is_closed()).then_some(connection)
    }

    pub(super) fn controller_mut(&mut self, id: ControllerRef) -> Option<&mut Controller> {
        self.controllers.get_mut(id.index, id.generation)
    }

    /// How long after the target was made that is: many commands come at one time.
    #[inline]
    pub(super) fn elapsed(&mut self, now: Instant) -> Duration {
        if self.elapsed.0 != now {
            self.elapsed = (now, now.saturating_duration_since(self.started));
        }
        self.elapsed.1
    }

    pub(super) fn connection_id(&self, index: u32, generation: u32) -> ConnectionId {
        ConnectionId {
            machine: self.machine,
            index,
            generation,
        }
    }

    pub(super) fn subsystem_of(&self, nqn: &Nqn) -> Option<usize> {
        self.subsystems.iter().position(|live| live.nqn == *nqn)
    }
}
