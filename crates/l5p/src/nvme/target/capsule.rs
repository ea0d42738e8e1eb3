//! Capsules and the data of R2Ts, as they come in.

use std::time::Instant;

use wire::nvme::command::{DataPointer, Status, SubmissionEntry, opcode};
use wire::nvme::{CapsuleCmd, FatalError, FatalErrorStatus, H2CData};

use super::action::{Memory, Operation, Place};
use super::answer::Answer;
use super::command::{ConnectRequest, State, StoreWork, Work};
use super::config::ADMIN_IN_CAPSULE;
use super::connection::{Incoming, Phase};
use super::controller::Subject;
use super::ids::{CommandRef, ConnectionId};
use super::io;
use super::machine::Target;

/// What a command comes to.
pub(super) enum Plan {
    /// A response with this result.
    Reply(u64),
    /// Connect, once its data is there.
    Connect(ConnectRequest),
    /// So many bytes of data, made here.
    Answer(Answer, u32),
    /// Work for a store.
    Store(StoreWork),
    /// Nothing until there is an event.
    Park,
}

impl Target {
    pub(super) fn capsule(
        &mut self,
        now: Instant,
        id: ConnectionId,
        capsule: &CapsuleCmd,
    ) -> Result<Place, FatalError> {
        let (in_capsule, elapsed) = (self.config.limits.in_capsule, self.elapsed(now));
        let connection = self.open_mut(id).expect("it is open");
        let room = match connection.phase {
            Phase::Connecting { .. } | Phase::Admin(_) => ADMIN_IN_CAPSULE,
            Phase::Io { .. } => in_capsule,
            _ => return Err(FatalError::of(FatalErrorStatus::SEQUENCE)),
        };
        if capsule.data_len > room {
            // PLEN is more than IOCCSZ or the 8 KiB of admin queues allow.
            return Err(FatalError::field(4));
        }
        let entry = SubmissionEntry::parse(&capsule.sqe);
        self.give_up_event_request(id, entry.cid);
        let connection = self.open_mut(id).expect("it is open");
        let Some(slot) = connection.start(entry.cid, entry.nsid) else {
            return Err(FatalError::of(FatalErrorStatus::SEQUENCE));
        };
        let owns_cid = connection.command(slot).is_some_and(|c| c.owns_cid);
        if let Some(queue) = &connection.queue {
            queue.heard.hear(elapsed);
        }
        self.counters.commands += 1;
        let plan = match owns_cid {
            true => check(&entry, capsule.data_len).and_then(|()| self.plan(id, slot, &entry)),
            false => Err(Status::CID_CONFLICT.do_not_retry()),
        };
        let place = self.begin(id, slot, plan, capsule.data_len > 0);
        let phase = self.open_mut(id).map(|connection| connection.phase);
        if let Some(Phase::Admin(controller)) = phase {
            self.deliver_events(controller);
        }
        Ok(place)
    }

    /// A host that gives the identifier of a request for events to another command waits for that event no more: as SPDK's does when it
    /// detaches.
    fn give_up_event_request(&mut self, id: ConnectionId, cid: u16) {
        let connection = self.open_mut(id).expect("it is open");
        let Phase::Admin(controller) = connection.phase else {
            return;
        };
        let Some(slot) = connection.find(cid) else {
            return;
        };
        let controller = self.controller_mut(controller);
        if controller.is_some_and(|controller| controller.events.unpark(slot)) {
            self.open_mut(id).expect("it is open").finish(slot);
        }
    }

    /// Who the command is for.
    fn plan(
        &mut self,
        id: ConnectionId,
        slot: u16,
        entry: &SubmissionEntry,
    ) -> Result<Plan, Status> {
        let phase = self.open_mut(id).expect("it is open").phase;
        match phase {
            Phase::Admin(controller) if entry.opcode == opcode::FABRICS => {
                self.fabrics_command(controller, entry)
            }
            Phase::Admin(controller) => self.admin_command(controller, slot, entry),
            Phase::Io { .. } if entry.opcode == opcode::FABRICS => {
                super::fabrics::io_queue_command(entry)
            }
            Phase::Io { .. } => self.io_command(id, entry),
            _ => super::fabrics::connect_command(entry),
        }
    }

    fn io_command(&mut self, id: ConnectionId, entry: &SubmissionEntry) -> Result<Plan, Status> {
        let connection = self.open_mut(id).expect("it is open");
        let queue = connection.queue.as_ref().expect("it is a queue");
        let control = &queue.control;
        let Subject::Subsystem(subsystem) = control.subject() else {
            return Err(Status::INVALID_OPCODE.do_not_retry());
        };
        if !control.is_ready() {
            return Err(Status::SEQUENCE_ERROR.do_not_retry());
        }
        let write_cache = control.has_write_cache();
        let (subsystem, limits) = (&self.subsystems[subsystem], &self.config.limits);
        match io::plan(entry, subsystem, limits, write_cache)? {
            io::Planned::Work(work) => Ok(Plan::Store(work)),
            io::Planned::Done => Ok(Plan::Reply(0)),
        }
    }

    /// Sets a command out on its way; answers where the data of its capsule belongs.
    fn begin(
        &mut self,
        id: ConnectionId,
        slot: u16,
        plan: Result<Plan, Status>,
        has_data: bool,
    ) -> Place {
        let connection = self.open_mut(id).expect("it is open");
        let (unwanted, incoming) = match has_data {
            true => (Place::Discard, Incoming::Discarded),
            false => (Place::None, Incoming::Nothing),
        };
        connection.incoming = incoming;
        let command = connection.command_mut(slot).expect("it has just begun");
        match plan {
            Err(status) => self.respond(id, slot, status, 0),
            Ok(Plan::Reply(result)) => self.respond(id, slot, Status::SUCCESS, result),
            Ok(Plan::Park) => {}
            Ok(Plan::Answer(answer, len)) => {
                command.work = Work::Answer(answer);
                command.state = State::Sending { sent: 0, len };
                connection.queue(slot);
            }
            Ok(Plan::Connect(request)) => {
                command.work = Work::Connect(request);
                command.state = State::InCapsule;
                connection.incoming = Incoming::Capsule(slot);
                return Place::Inline;
            }
            Ok(Plan::Store(work)) => {
                command.work = Work::Store(work);
                match data_of(&work.operation) {
                    Some(Memory::InCapsule) => {
                        command.state = State::InCapsule;
                        connection.incoming = Incoming::Capsule(slot);
                        return Place::InCapsule {
                            command: CommandRef {
                                connection: id,
                                slot,
                            },
                            len: work.len,
                        };
                    }
                    Some(Memory::Buffer) => self.await_buffer(id, slot),
                    None => self.store(id, slot),
                }
            }
        }
        unwanted
    }

    /// All data of a command's capsule has come.
    pub(super) fn capsule_end(
        &mut self,
        now: Instant,
        id: ConnectionId,
        slot: u16,
        intact: bool,
        inline: &[u8],
    ) {
        let connection = self.open_mut(id).expect("it is open");
        let Some(command) = connection.command_mut(slot) else {
            return;
        };
        if !intact {
            return self.respond(id, slot, Status::TRANSIENT_TRANSPORT_ERROR, 0);
        }
        match &command.work {
            Work::Connect(request) => {
                let request = *request;
                self.connect(now, id, slot, request, inline);
            }
            Work::Store(work) if matches!(work.operation, Operation::Compare { .. }) => {
                self.await_buffer(id, slot);
            }
            Work::Store(_) => self.store(id, slot),
            Work::Reply | Work::Answer(_) => {}
        }
    }

    /// Takes in the header of data that an R2T asked for (NVMe/TCP 1.0 §3.6.2.8).
    pub(super) fn host_data(
        &mut self,
        id: ConnectionId,
        data: &H2CData,
    ) -> Result<Place, FatalError> {
        const CCCID: u32 = 8;
        const TTAG: u32 = 10;
        let most = self.config.limits.h2c_data;
        let connection = self.open_mut(id).expect("it is open");
        let Some(command) = connection.command_mut(data.ttag) else {
            return Err(FatalError::field(TTAG));
        };
        let State::Receiving(transfer) = &mut command.state else {
            return Err(FatalError::field(TTAG));
        };
        if command.cid != data.cccid {
            return Err(FatalError::field(CCCID));
        }
        if data.data_len > most {
            return Err(FatalError::of(FatalErrorStatus::LIMIT_EXCEEDED));
        }
        transfer.data(data)?;
        connection.incoming = Incoming::Transfer {
            slot: data.ttag,
            is_last: data.last,
        };
        Ok(Place::Command {
            command: CommandRef {
                connection: id,
                slot: data.ttag,
            },
            offset: data.data_offset,
            len: data.data_len,
        })
    }

    /// Some data has come of the PDU whose header was last taken in, and more of it is to come: what lets a host take
    /// longer for one PDU than [`Limits::r2t`](super::Limits::r2t).
    pub fn handle_data(&mut self, now: Instant, id: ConnectionId) {
        let next = now + self.config.limits.r2t;
        if let Some(connection) = self.open_mut(id)
            && matches!(connection.incoming, Incoming::Transfer { .. })
        {
            connection.data_came(false, next);
        }
    }

    /// All data of an H2CData has come.
    pub(super) fn transfer_end(&mut self, id: ConnectionId, slot: u16, intact: bool) {
        let connection = self.open_mut(id).expect("it is open");
        let Some(command) = connection.command_mut(slot) else {
            return;
        };
        let State::Receiving(transfer) = &mut command.state else {
            return;
        };
        transfer.damaged |= !intact;
        let (over, damaged) = (transfer.is_over(), transfer.damaged);
        let asks = transfer.next_r2t().is_some();
        match (over, damaged) {
            (true, true) => self.respond(id, slot, Status::TRANSIENT_TRANSPORT_ERROR, 0),
            (true, false) => self.store(id, slot),
            (false, _) if asks => connection.queue(slot),
            (false, _) => {}
        }
    }
}

/// What holds for every command: no fused operations, SGLs alone, and the data that its capsule says it has.
fn check(entry: &SubmissionEntry, data_len: u32) -> Result<(), Status> {
    if entry.is_fused() || !entry.uses_sgl() {
        return Err(Status::INVALID_FIELD.do_not_retry());
    }
    match entry.data {
        DataPointer::InCapsule { offset, .. } if offset != 0 => {
            Err(Status::SGL_OFFSET_INVALID.do_not_retry())
        }
        DataPointer::InCapsule { len, .. } if len != data_len => {
            Err(Status::SGL_LENGTH_INVALID.do_not_retry())
        }
        DataPointer::InCapsule { .. } => Ok(()),
        _ if data_len > 0 => Err(Status::SGL_TYPE_INVALID.do_not_retry()),
        _ => Ok(()),
    }
}

/// Where the data of a command is, if it has data.
fn data_of(operation: &Operation) -> Option<Memory> {
    match operation {
        Operation::Read { .. } => Some(Memory::Buffer),
        Operation::Write { memory, .. }
        | Operation::Compare { memory, .. }
        | Operation::Deallocate { memory, .. } => Some(*memory),
        Operation::WriteZeroes { .. } | Operation::Flush => None,
    }
}
