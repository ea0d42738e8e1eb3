//! What a target tells of itself.

use std::time::Instant;

use wire::nvme::Nqn;
use wire::nvme::command::Status;

use super::action::Operation;
use super::command::StoreWork;
use super::connection::Host;
use super::controller::Subject;
use super::ids::ConnectionId;
use super::machine::Target;

/// What has happened since the target was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Connections accepted.
    pub connections: u64,
    /// Controllers made.
    pub controllers: u64,
    /// Connects that were refused.
    pub refused_connects: u64,
    /// Of these, for want of room for a queue or a controller.
    pub busy_connects: u64,
    /// Connections closed for others, before they were a queue.
    pub evicted: u64,
    /// Connections closed since no data came for an R2T.
    pub r2t_expired: u64,
    /// Commands that came.
    pub commands: u64,
    /// Commands that failed.
    pub failed_commands: u64,
    /// Reads and Compares that succeeded.
    pub reads: u64,
    /// Bytes that these read.
    pub bytes_read: u64,
    /// Writes that succeeded.
    pub writes: u64,
    /// Bytes that these wrote.
    pub bytes_written: u64,
    /// Flushes that succeeded.
    pub flushes: u64,
    /// PDUs with a wrong data digest.
    pub digest_errors: u64,
    /// Connections that a PDU ended which no host may send.
    pub fatal_errors: u64,
    /// Flushes for shutdowns that failed: what was written may not be durable.
    pub failed_shutdown_flushes: u64,
    /// Controllers whose host was silent for too long.
    pub keep_alive_expired: u64,
}

/// A queue as it is now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueInfo {
    /// Its connection.
    pub connection: ConnectionId,
    /// The controller's identifier.
    pub controller: u16,
    /// The queue: 0 is the admin queue.
    pub queue: u16,
    /// The host.
    pub host: Nqn,
    /// The subsystem.
    pub subsystem: Nqn,
    /// Entries of the queue.
    pub entries: u32,
    /// Commands in flight.
    pub in_flight: usize,
    /// When the controller's host counts as gone, unless it shows that it lives.
    pub deadline: Option<Instant>,
}

impl Target {
    /// What has happened.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// All queues of this machine, in the order of their connections' places.
    pub fn queues(&self) -> impl Iterator<Item = QueueInfo> {
        self.connections
            .iter()
            .filter_map(|((index, generation), connection)| {
                let number = connection.queue_number()?;
                let control = &connection.queue.as_ref()?.control;
                Some(QueueInfo {
                    connection: self.connection_id(index, generation),
                    controller: control.id,
                    queue: number,
                    host: control.owner.host.nqn,
                    subsystem: match control.subject() {
                        Subject::Discovery => Nqn::DISCOVERY,
                        Subject::Subsystem(at) => self.subsystems[at].nqn,
                    },
                    entries: connection.entries,
                    in_flight: connection.in_flight(),
                    deadline: self.shared.lock().deadline(control.id, self.started),
                })
            })
    }

    /// Whose queue a connection is or was. None: it never was one.
    #[must_use]
    pub fn host(&self, id: ConnectionId) -> Option<Host> {
        let connection = self.connections.get(id.index, id.generation)?;
        Some(connection.queue.as_ref()?.control.owner.host)
    }

    /// Connections that there are, queues or not; those too that are closed while a store works for them.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.connections.len()
    }

    /// Controllers that there are, of all machines of the target.
    #[must_use]
    pub fn controllers(&self) -> usize {
        self.shared.lock().controllers()
    }

    /// A store has worked on a command of a queue.
    pub(super) fn count(
        &mut self,
        subject: Option<Subject>,
        work: &StoreWork,
        result: Result<(), Status>,
    ) {
        let Some(Subject::Subsystem(at)) = subject else {
            return;
        };
        let traffic = &self.traffic[at];
        if let Err(status) = result {
            let on_medium = status.code_type() == 2 && !status.is(Status::COMPARE_FAILURE);
            if on_medium {
                traffic.medium_failed();
            }
            return;
        }
        let counters = &mut self.counters;
        match work.operation {
            Operation::Read { len, .. } | Operation::Compare { len, .. } => {
                traffic.read_done(len);
                counters.reads += 1;
                counters.bytes_read += u64::from(len);
            }
            Operation::Write { len, .. } => {
                traffic.write_done(len);
                counters.writes += 1;
                counters.bytes_written += u64::from(len);
            }
            Operation::Flush => counters.flushes += 1,
            Operation::WriteZeroes { .. } | Operation::Deallocate { .. } => {}
        }
    }
}
