//! Connect and properties (Base 2.0c §6).

use std::sync::Arc;
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
use super::connection::{Host, Phase, Queue, QueueOwner};
use super::control::Heard;
use super::controller::{Configured, Controller, Subject};
use super::ids::{ConnectionId, ControllerRef};
use super::machine::Target;
use super::shared::{NoQueue, QueueRef};

/// Where the fields of Connect are: in its entry, and in its data.
mod offset {
    pub(super) const QID: u16 = 42;
    pub(super) const SQSIZE: u16 = 44;
    pub(super) const HOSTID: u16 = 0;
    pub(super) const CNTLID: u16 = 16;
    pub(super) const SUBNQN: u16 = 256;
}

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

/// A fabrics command on an I/O queue, which has no use for any.
pub(super) fn io_queue_command(entry: &SubmissionEntry) -> Result<Plan, Status> {
    Err(match Fabrics::parse(entry)? {
        Fabrics::Connect { .. } => Status::SEQUENCE_ERROR.do_not_retry(),
        _ => Status::INVALID_OPCODE.do_not_retry(),
    })
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

/// A queue has at least two entries.
fn check_entries(request: &ConnectRequest, most: u32) -> Result<(), Refusal> {
    match (2..=most).contains(&request.entries) {
        true => Ok(()),
        false => Err(Refusal::invalid(false, offset::SQSIZE)),
    }
}

/// Whose queue it is to be.
fn owner_of(data: &ConnectData, subject: Subject) -> QueueOwner {
    QueueOwner {
        host: Host {
            nqn: data.host,
            id: data.host_id,
        },
        subject,
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
        // Queues that were there before may wait to be closed here.
        self.look_at_mail();
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
        check_entries(request, admin_entries(&self.config))?;
        let io_queues = match subject {
            Subject::Discovery => 0,
            Subject::Subsystem(_) => self.config.limits.io_queues,
        };
        let owner = owner_of(data, subject);
        let (queue, heard) = self.new_queue(now, id);
        let added = self.shared.lock().add_controller(owner, queue, io_queues);
        let control = added.ok_or(Refusal(Status::CONNECT_CONTROLLER_BUSY, 0))?;
        let cntlid = control.id;
        let mut controller = Controller::new(Arc::clone(&control), id);
        controller.set_keep_alive(request.keep_alive);
        let (index, generation) = self
            .controllers
            .insert(|_, _| controller)
            .expect("all machines together have no more than one has room for");
        let controller = ControllerRef {
            machine: self.machine,
            index,
            generation,
        };
        self.expect_silence(cntlid);
        let phase = Phase::Admin(controller);
        let queue = Queue { control, heard };
        let connection = self.open_mut(id).expect("it is open");
        connection.become_queue(phase, queue, request.entries, request.no_flow_control);
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
        check_entries(request, self.config.limits.queue_entries)?;
        if data.host_id == [0; 16] {
            return Err(Refusal::invalid(true, offset::HOSTID));
        }
        let owner = owner_of(data, subject);
        let (queue, heard) = self.new_queue(now, id);
        let mut state = self.shared.lock();
        let added = state.add_queue(data.controller, &owner, request.queue, queue);
        let control = added.map_err(|why| match why {
            NoQueue::Busy => Refusal(Status::CONNECT_CONTROLLER_BUSY, 0),
            NoQueue::NoController | NoQueue::NotReady => Refusal::invalid(true, offset::CNTLID),
            NoQueue::NoSuchQueue => Refusal::invalid(false, offset::QID),
            NoQueue::Taken => Refusal::of(Status::SEQUENCE_ERROR),
        })?;
        drop(state);
        let cntlid = control.id;
        let phase = Phase::Io {
            queue: request.queue,
        };
        let queue = Queue { control, heard };
        let connection = self.open_mut(id).expect("it is open");
        connection.become_queue(phase, queue, request.entries, request.no_flow_control);
        Ok(cntlid)
    }

    /// A queue on this connection, of which the host is heard now.
    fn new_queue(&mut self, now: Instant, connection: ConnectionId) -> (QueueRef, Arc<Heard>) {
        let heard = Arc::new(Heard::new(self.elapsed(now)));
        let queue = QueueRef {
            connection,
            heard: Arc::clone(&heard),
        };
        (queue, heard)
    }

    /// There is a deadline for the host of this controller to be heard.
    pub(super) fn expect_silence(&mut self, controller: u16) {
        let deadline = self.shared.lock().deadline(controller, self.started);
        if let Some(deadline) = deadline {
            self.expect_deadline(deadline);
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
        let (controllers, shared) = (&mut self.controllers, &self.shared);
        let controller = controllers.get_mut(id.index, id.generation);
        let controller = controller.expect("its queue is open");
        let resetting = shared.lock().is_resetting(controller.id());
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
        let subject = controller.subject();
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
            let control = &controller.control;
            control.record_error(0, 0xffff, status, 0xffff_ffff);
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
