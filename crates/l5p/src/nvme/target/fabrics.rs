//! Connect and properties (Base 2.0c §6).

use std::time::Instant;

use wire::nvme::Nqn;
use wire::nvme::command::{
    CONNECT_DATA_LEN, Capabilities, Configuration, ConnectData, ConnectReply, DYNAMIC_CONTROLLER,
    DataPointer, Fabrics, Property, Status, SubmissionEntry, opcode,
};

use super::VERSION;
use super::action::{Action, Operation, Owner, StoreRequest};
use super::capsule::Plan;
use super::command::ConnectRequest;
use super::config::Config;
use super::connection::{Connection, Host, Phase, QueueOwner};
use super::controller::{Configured, Controller, Subject};
use super::ids::{ConnectionId, ControllerRef};
use super::machine::Target;

/// Where the fields of Connect are: in its entry, and in its data.
mod offset {
    pub(super) const QID: u16 = 42;
    pub(super) const SQSIZE: u16 = 44;
    pub(super) const CNTLID: u16 = 16;
    pub(super) const SUBNQN: u16 = 256;
}

/// The highest CNTLID (Base 2.0c §3.1.2.2).
const MAX_CONTROLLER_ID: u16 = 0xffef;
/// Half seconds that becoming ready may take (CAP.TO).
const READY_TIMEOUT: u8 = 30;

/// Entries that an admin queue may have.
pub(super) fn admin_entries(config: &Config) -> u32 {
    config.limits.queue_entries
}

/// A command on a connection that is no queue yet: Connect, with its data in the capsule.
pub(super) fn connect_command(entry: &SubmissionEntry) -> Result<Plan, Status> {
    if entry.opcode != opcode::FABRICS {
        return Err(Status::SEQUENCE_ERROR.do_not_retry());
    }
    let Fabrics::Connect {
        queue,
        entries,
        no_flow_control,
        keep_alive,
    } = Fabrics::parse(entry)?
    else {
        return Err(Status::SEQUENCE_ERROR.do_not_retry());
    };
    match entry.data {
        DataPointer::InCapsule { len, .. } if len as usize == CONNECT_DATA_LEN => {
            Ok(Plan::Connect(ConnectRequest {
                queue,
                entries,
                no_flow_control,
                keep_alive,
            }))
        }
        DataPointer::InCapsule { .. } => Err(Status::SGL_LENGTH_INVALID.do_not_retry()),
        _ => Err(Status::SGL_TYPE_INVALID.do_not_retry()),
    }
}

/// Why Connect is refused: the status and what dword 0 says.
struct Refusal(Status, u32);

impl Refusal {
    fn of(status: Status) -> Refusal {
        Refusal(status.do_not_retry(), 0)
    }

    fn invalid(in_data: bool, offset: u16) -> Refusal {
        let reply = ConnectReply::Invalid { in_data, offset };
        let status = Status::CONNECT_INVALID_PARAMETERS.do_not_retry();
        Refusal(status, reply.to_dword())
    }
}

impl Target {
    /// Acts on Connect, whose data has come.
    pub(super) fn connect(
        &mut self,
        now: Instant,
        id: ConnectionId,
        slot: u16,
        request: ConnectRequest,
        data: &[u8],
    ) {
        let connected = match data
            .first_chunk::<CONNECT_DATA_LEN>()
            .map(ConnectData::parse)
        {
            Some(Ok(data)) if request.queue == 0 => self.connect_admin(now, id, &request, &data),
            Some(Ok(data)) => self.connect_io(now, id, &request, &data),
            Some(Err(error)) => Err(Refusal::invalid(true, error.offset)),
            None => Err(Refusal::of(Status::SGL_LENGTH_INVALID)),
        };
        match connected {
            Ok(controller) => {
                let reply = ConnectReply::Accepted {
                    controller,
                    authentication: false,
                };
                self.respond(id, slot, Status::SUCCESS, reply.to_dword().into());
            }
            Err(Refusal(status, dword)) => {
                self.counters.refused_connects += 1;
                self.counters.busy_connects += u64::from(status == Status::CONNECT_CONTROLLER_BUSY);
                self.respond(id, slot, status, dword.into());
            }
        }
    }

    fn connect_admin(
        &mut self,
        now: Instant,
        id: ConnectionId,
        request: &ConnectRequest,
        data: &ConnectData,
    ) -> Result<u16, Refusal> {
        if data.controller != DYNAMIC_CONTROLLER {
            return Err(Refusal::invalid(true, offset::CNTLID));
        }
        let subject = self.admit(id, data)?;
        if request.entries > admin_entries(&self.config) {
            return Err(Refusal::invalid(false, offset::SQSIZE));
        }
        let owner = QueueOwner {
            host: Host {
                nqn: data.host,
                id: data.host_id,
            },
            subject,
        };
        // A write of a connection that is gone must not come after those of the next one.
        let is_leaving = |c: &Connection| c.is_closed() && c.owner == Some(owner);
        if self.connections.iter().any(|(_, c)| is_leaving(c)) {
            return Err(Refusal(Status::CONNECT_CONTROLLER_BUSY, 0));
        }
        self.expect_room()?;
        let io_queues = match subject {
            Subject::Discovery => 0,
            Subject::Subsystem(_) => self.config.limits.io_queues,
        };
        let host = (data.host, data.host_id);
        let cntlid = self.free_controller_id();
        let make = |_, _| {
            let mut controller = Controller::new(now, cntlid, subject, host, id, io_queues);
            controller.set_keep_alive(request.keep_alive);
            controller
        };
        let Some((index, generation)) = self.controllers.insert(make) else {
            return Err(Refusal(Status::CONNECT_CONTROLLER_BUSY, 0));
        };
        self.last_controller_id = cntlid;
        let controller = ControllerRef { index, generation };
        let deadline = self
            .controllers
            .get(index, generation)
            .and_then(Controller::deadline);
        if let Some(deadline) = deadline {
            self.expect_deadline(deadline);
        }
        let phase = Phase::Admin(controller);
        let connection = self.open_mut(id).expect("it is open");
        connection.become_queue(phase, owner, request.entries, request.no_flow_control);
        self.counters.controllers += 1;
        Ok(cntlid)
    }

    fn connect_io(
        &mut self,
        now: Instant,
        id: ConnectionId,
        request: &ConnectRequest,
        data: &ConnectData,
    ) -> Result<u16, Refusal> {
        let subject = self.admit(id, data)?;
        self.expect_room()?;
        let most = self.config.limits.queue_entries;
        let is_it = |controller: &Controller| {
            controller.id == data.controller
                && controller.subject == subject
                && controller.host == data.host
                && controller.host_id == data.host_id
        };
        let found = self.controllers.iter().find(|(_, c)| is_it(c));
        let Some(((index, generation), _)) = found else {
            return Err(Refusal::invalid(true, offset::CNTLID));
        };
        let reference = ControllerRef { index, generation };
        // As above: a write of a queue that a reset has deleted comes first.
        if self.is_resetting(reference) {
            return Err(Refusal(Status::CONNECT_CONTROLLER_BUSY, 0));
        }
        let controller = self.controller_mut(reference).expect("it was found");
        let Some(place) = controller.queues.get(usize::from(request.queue) - 1) else {
            return Err(Refusal::invalid(false, offset::QID));
        };
        if place.is_some() || !controller.is_ready() {
            return Err(Refusal::of(Status::SEQUENCE_ERROR));
        }
        if request.entries > most {
            return Err(Refusal::invalid(false, offset::SQSIZE));
        }
        controller.queues[usize::from(request.queue) - 1] = Some(id);
        controller.hear(now);
        let cntlid = controller.id;
        let phase = Phase::Io {
            controller: reference,
            queue: request.queue,
        };
        let owner = QueueOwner {
            host: Host {
                nqn: data.host,
                id: data.host_id,
            },
            subject,
        };
        let connection = self.open_mut(id).expect("it is open");
        connection.become_queue(phase, owner, request.entries, request.no_flow_control);
        Ok(cntlid)
    }

    /// Whether there may be one more queue.
    fn expect_room(&self) -> Result<(), Refusal> {
        let queues = self.connections.iter();
        let queues = queues.filter(|(_, c)| c.controller().is_some()).count();
        match queues < self.config.limits.connections {
            true => Ok(()),
            false => Err(Refusal(Status::CONNECT_CONTROLLER_BUSY, 0)),
        }
    }

    /// Whether the host may have what it asks for.
    fn admit(&mut self, id: ConnectionId, data: &ConnectData) -> Result<Subject, Refusal> {
        let subject = if data.subsystem == Nqn::DISCOVERY {
            Subject::Discovery
        } else {
            let found = self.subsystem_of(&data.subsystem);
            Subject::Subsystem(found.ok_or(Refusal::invalid(true, offset::SUBNQN))?)
        };
        let connection = self.open_mut(id).expect("it is open");
        if let Some(proved) = &connection.identity
            && (proved.host, proved.subsystem) != (data.host, data.subsystem)
        {
            return Err(Refusal::of(Status::CONNECT_INVALID_HOST));
        }
        if let Subject::Subsystem(at) = subject
            && !self.subsystems[at].hosts.allow(&data.host)
        {
            return Err(Refusal::of(Status::CONNECT_INVALID_HOST));
        }
        Ok(subject)
    }

    /// A CNTLID that no controller has or had lately.
    fn free_controller_id(&self) -> u16 {
        let mut id = self.last_controller_id;
        loop {
            id = if id >= MAX_CONTROLLER_ID { 1 } else { id + 1 };
            if !self
                .controllers
                .iter()
                .any(|(_, controller)| controller.id == id)
            {
                return id;
            }
        }
    }

    /// A fabrics command on an admin queue.
    pub(super) fn fabrics_command(
        &mut self,
        id: ControllerRef,
        entry: &SubmissionEntry,
    ) -> Result<Plan, Status> {
        match Fabrics::parse(entry)? {
            Fabrics::PropertyGet(property) => self.property(id, property).map(Plan::Reply),
            Fabrics::PropertySet(Property::CC, value) => {
                self.configure(id, Configuration(value as u32));
                Ok(Plan::Reply(0))
            }
            Fabrics::PropertySet(..) => Err(Status::INVALID_FIELD.do_not_retry()),
            Fabrics::Connect { .. } => Err(Status::SEQUENCE_ERROR.do_not_retry()),
            Fabrics::Disconnect => Err(Status::INVALID_OPCODE.do_not_retry()),
        }
    }

    fn property(&mut self, id: ControllerRef, property: Property) -> Result<u64, Status> {
        let entries = self.config.limits.queue_entries;
        let resetting = self.is_resetting(id);
        let controller = self.controller_mut(id).expect("its queue is open");
        match property {
            Property::CAP => Ok(Capabilities::new(entries, READY_TIMEOUT).0),
            Property::VS => Ok(VERSION.0.into()),
            Property::CC => Ok(controller.configuration().0.into()),
            Property::CSTS => Ok(controller.status(resetting).0.into()),
            _ => Err(Status::INVALID_FIELD.do_not_retry()),
        }
    }

    fn configure(&mut self, id: ControllerRef, new: Configuration) {
        let controller = self.controller_mut(id).expect("its queue is open");
        let resets = controller.configuration().enabled() && !new.enabled();
        let configured = controller.configure(new);
        if resets {
            self.reset_controller(id);
        }
        if configured == Configured::Done {
            return;
        }
        let controller = self.controller_mut(id).expect("its queue is open");
        if controller.flushes > 0 {
            // However often the host asks, only so many are under way.
            controller.flush_again = true;
            return;
        }
        self.flush_for_shutdown(id);
    }

    /// Makes durable what the controller's host has written.
    fn flush_for_shutdown(&mut self, id: ControllerRef) {
        let controller = self.controller_mut(id).expect("its queue is open");
        let subject = controller.subject;
        let mut flushes = 0;
        if let Subject::Subsystem(at) = subject {
            let volatile = self.subsystems[at].namespaces().iter();
            for namespace in volatile.filter(|namespace| namespace.volatile_cache) {
                self.actions.push_back(Action::Store(StoreRequest {
                    owner: Owner::Controller(id),
                    store: namespace.store,
                    operation: Operation::Flush,
                }));
                flushes += 1;
            }
        }
        let controller = self.controller_mut(id).expect("its queue is open");
        controller.flushes = flushes;
        if flushes == 0 {
            controller.shut_down();
        }
    }

    /// A flush of a controller's shutdown is done, or cannot be.
    pub(super) fn flushed(&mut self, id: ControllerRef, result: Result<(), Status>) {
        self.counters.failed_shutdown_flushes += u64::from(result.is_err());
        let Some(controller) = self.controller_mut(id) else {
            return;
        };
        if let Err(status) = result {
            controller.fail_to_shut_down();
            // Of no command, on the admin queue, for all namespaces.
            controller.errors.record(0, 0xffff, status, 0xffff_ffff);
        }
        controller.flushes = controller.flushes.saturating_sub(1);
        if controller.flushes > 0 {
            return;
        }
        match std::mem::take(&mut controller.flush_again) {
            true => self.flush_for_shutdown(id),
            false => controller.shut_down(),
        }
    }
}
