//! The machines of a target as one: each call goes to the machine of its connection.

use std::time::Instant;

use l5p::nvme::target::{
    Action, CommandRef, Config, ConfigError, ConnectionId, Counters, Hosts, Namespace, Negotiated,
    Outgoing, Owner, Place, PskIdentity, Target,
};
use wire::nvme::command::Status;
use wire::nvme::{FatalError, Pdu};

/// All machines of a target, on which connections come in turn.
pub struct Targets {
    pub machines: Vec<Target>,
    /// Which one the next connection is on.
    next: usize,
    pinned: Option<usize>,
    /// Those that are not asked for actions.
    pub asleep: Vec<bool>,
    /// Those that were called, or are to be woken: others have nothing to do.
    awake: Vec<bool>,
    /// How often one was to be woken.
    #[allow(dead_code)]
    pub wakes: usize,
}

impl Targets {
    pub fn new(now: Instant, config: Config, count: usize) -> Targets {
        Targets {
            machines: Target::several(now, config, count).unwrap(),
            next: 0,
            pinned: None,
            asleep: vec![false; count],
            awake: vec![false; count],
            wakes: 0,
        }
    }

    /// All connections from now on are on this machine.
    pub fn pin(&mut self, machine: usize) {
        self.pinned = Some(machine);
    }

    fn at(&mut self, machine: usize) -> &mut Target {
        self.awake[machine] = true;
        &mut self.machines[machine]
    }

    fn of(&mut self, id: ConnectionId) -> &mut Target {
        self.at(id.machine())
    }

    pub fn accept(&mut self, now: Instant, proved: Option<PskIdentity>) -> Option<ConnectionId> {
        let machine = self.pinned.unwrap_or(self.next);
        self.next = (self.next + 1) % self.machines.len();
        let id = self.at(machine).accept(now, proved)?;
        assert_eq!(id.machine(), machine);
        Some(id)
    }

    pub fn handle_closed(&mut self, id: ConnectionId) {
        self.of(id).handle_closed(id);
    }

    pub fn handle_pdu(
        &mut self,
        now: Instant,
        id: ConnectionId,
        pdu: &Pdu,
    ) -> Result<Place, FatalError> {
        self.of(id).handle_pdu(now, id, pdu)
    }

    pub fn handle_pdu_end(&mut self, now: Instant, id: ConnectionId, intact: bool, inline: &[u8]) {
        self.of(id).handle_pdu_end(now, id, intact, inline);
    }

    pub fn handle_data(&mut self, now: Instant, id: ConnectionId) {
        self.of(id).handle_data(now, id);
    }

    pub fn handle_buffer(&mut self, command: CommandRef) {
        self.of(command.connection).handle_buffer(command);
    }

    pub fn handle_stored(&mut self, owner: Owner, result: Result<(), Status>) {
        let machine = match owner {
            Owner::Command(command) => command.connection.machine(),
            Owner::Controller(controller) => controller.machine(),
        };
        self.at(machine).handle_stored(owner, result);
    }

    /// The next action of any machine that does not sleep.
    pub fn poll_action(&mut self) -> Option<Action> {
        for machine in 0..self.machines.len() {
            if !self.awake[machine] || self.asleep[machine] {
                continue;
            }
            match self.machines[machine].poll_action() {
                Some(Action::Wake { machine: other }) => {
                    assert_ne!(other, machine);
                    self.awake[other] = true;
                    self.wakes += 1;
                    return self.poll_action();
                }
                Some(action) => return Some(action),
                None => self.awake[machine] = false,
            }
        }
        None
    }

    pub fn peek_pdu(&mut self, now: Instant, id: ConnectionId) -> Option<Outgoing<'_>> {
        self.of(id).peek_pdu(now, id)
    }

    pub fn pdu_sent(&mut self, id: ConnectionId) {
        self.of(id).pdu_sent(id);
    }

    pub fn negotiated(&self, id: ConnectionId) -> Option<Negotiated> {
        self.machines[id.machine()].negotiated(id)
    }

    pub fn set_namespace(&mut self, subsystem: usize, new: Namespace) -> Result<(), ConfigError> {
        self.at(0).set_namespace(subsystem, new)
    }

    pub fn remove_namespace(&mut self, subsystem: usize, nsid: u32) {
        self.at(0).remove_namespace(subsystem, nsid);
    }

    pub fn set_hosts(&mut self, subsystem: usize, hosts: Hosts) {
        self.at(0).set_hosts(subsystem, hosts);
    }

    pub fn connections(&self) -> usize {
        self.machines.iter().map(Target::connections).sum()
    }

    pub fn controllers(&self) -> usize {
        self.machines[0].controllers()
    }

    /// Of what tests look at.
    pub fn counters(&self) -> Counters {
        let all = self.machines.iter().map(Target::counters);
        all.fold(Counters::default(), |sum, one| Counters {
            busy_connects: sum.busy_connects + one.busy_connects,
            commands: sum.commands + one.commands,
            reads: sum.reads + one.reads,
            writes: sum.writes + one.writes,
            flushes: sum.flushes + one.flushes,
            failed_commands: sum.failed_commands + one.failed_commands,
            bytes_read: sum.bytes_read + one.bytes_read,
            bytes_written: sum.bytes_written + one.bytes_written,
            digest_errors: sum.digest_errors + one.digest_errors,
            r2t_expired: sum.r2t_expired + one.r2t_expired,
            keep_alive_expired: sum.keep_alive_expired + one.keep_alive_expired,
            failed_shutdown_flushes: sum.failed_shutdown_flushes + one.failed_shutdown_flushes,
            ..sum
        })
    }

    pub fn poll_timeout(&self) -> Option<Instant> {
        self.machines.iter().filter_map(Target::poll_timeout).min()
    }

    pub fn handle_timeout(&mut self, now: Instant) {
        for machine in 0..self.machines.len() {
            self.at(machine).handle_timeout(now);
        }
    }
}
