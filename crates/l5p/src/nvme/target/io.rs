//! I/O commands: what a store is to do for them (NVM Command Set 1.0c §3.2).

use wire::nvme::command::{
    Blocks, DataPointer, Io, MAX_RANGES, RANGE_LEN, Range, Status, SubmissionEntry,
};

use super::action::{Memory, Operation};
use super::command::StoreWork;
use super::config::{Limits, Namespace};
use super::subsystem::Live;

/// What a command on an I/O queue comes to.
pub(super) enum Planned {
    /// The store has work.
    Work(StoreWork),
    /// It is done already.
    Done,
}

/// What `entry` asks of `subsystem`, or the status that refuses it. `write_cache`: whether the host lets writes be volatile.
pub(super) fn plan(
    entry: &SubmissionEntry,
    subsystem: &Live,
    limits: &Limits,
    write_cache: bool,
) -> Result<Planned, Status> {
    let io = Io::parse(entry)?;
    let namespace = subsystem.active(entry.nsid)?;
    let writes = !matches!(io, Io::Read { .. } | Io::Compare { .. } | Io::Flush);
    if writes && namespace.read_only {
        return Err(Status::WRITE_PROTECTED.do_not_retry());
    }
    let durable = |fua| fua || !write_cache;
    // Reads commit what they read, and only then read it (NVM Command Set 1.0c §3.2.4).
    let committed = |fua| fua && namespace.volatile_cache;
    let planner = Planner::new(entry, namespace, limits);
    let (len, operation) = match io {
        Io::Read { blocks, fua } => {
            let (offset, len) = planner.data(blocks)?;
            planner.to_host(len)?;
            let fua = committed(fua);
            (len, Operation::Read { offset, len, fua })
        }
        Io::Write { blocks, fua } => {
            let (offset, len) = planner.data(blocks)?;
            let operation = Operation::Write {
                offset,
                len,
                fua: durable(fua),
                memory: planner.host_data(len)?,
            };
            (len, operation)
        }
        Io::Compare { blocks, fua } => {
            let (offset, len) = planner.data(blocks)?;
            let operation = Operation::Compare {
                offset,
                len,
                fua: committed(fua),
                memory: planner.host_data(len)?,
            };
            (len, operation)
        }
        Io::WriteZeroes {
            blocks,
            fua,
            deallocate,
        } => (0, planner.write_zeroes(blocks, durable(fua), deallocate)?),
        Io::Flush => (0, Operation::Flush),
        Io::DatasetManagement { ranges, deallocate } => {
            return planner.dataset_management(ranges, deallocate);
        }
    };
    Ok(planner.work(len, operation))
}

struct Planner<'a> {
    entry: &'a SubmissionEntry,
    namespace: &'a Namespace,
    limits: &'a Limits,
}

impl<'a> Planner<'a> {
    fn new(entry: &'a SubmissionEntry, namespace: &'a Namespace, limits: &'a Limits) -> Self {
        Planner {
            entry,
            namespace,
            limits,
        }
    }

    fn write_zeroes(
        &self,
        blocks: Blocks,
        fua: bool,
        deallocate: bool,
    ) -> Result<Operation, Status> {
        self.within(blocks)?;
        Ok(Operation::WriteZeroes {
            offset: blocks.start << self.namespace.block_shift,
            len: self.namespace.len_of(blocks.count),
            fua,
            deallocate: deallocate && self.namespace.deallocate,
        })
    }

    fn dataset_management(&self, ranges: u16, deallocate: bool) -> Result<Planned, Status> {
        // Hosts may describe room for the most ranges whatever their number: Linux does.
        let most = u32::from(MAX_RANGES) * RANGE_LEN as u32;
        let least = u32::from(ranges) * RANGE_LEN as u32;
        let len = self.entry.data.len().unwrap_or(0).clamp(least, most);
        let memory = self.host_data(len)?;
        if !(deallocate && self.namespace.deallocate) {
            // A hint. Its data is in the capsule or not asked for.
            return Ok(Planned::Done);
        }
        let operation = Operation::Deallocate {
            ranges,
            memory,
            blocks: self.namespace.blocks,
            block_shift: self.namespace.block_shift,
        };
        Ok(self.work(len, operation))
    }

    fn work(&self, len: u32, operation: Operation) -> Planned {
        Planned::Work(StoreWork {
            store: self.namespace.store,
            len,
            operation,
        })
    }

    fn within(&self, blocks: Blocks) -> Result<(), Status> {
        match blocks.within(self.namespace.blocks) {
            true => Ok(()),
            false => Err(Status::LBA_OUT_OF_RANGE.do_not_retry()),
        }
    }

    /// Offset and length in bytes of `blocks`, whose data goes between host and controller.
    fn data(&self, blocks: Blocks) -> Result<(u64, u32), Status> {
        self.within(blocks)?;
        let len = self.namespace.len_of(blocks.count);
        if len > u64::from(self.limits.data) {
            return Err(Status::INVALID_FIELD.do_not_retry());
        }
        Ok((blocks.start << self.namespace.block_shift, len as u32))
    }

    /// The entry describes `len` bytes that go to the host, by C2HData alone.
    fn to_host(&self, len: u32) -> Result<(), Status> {
        to_host(self.entry, len)
    }

    /// The entry describes `len` bytes that come from the host, in one of the two ways.
    fn host_data(&self, len: u32) -> Result<Memory, Status> {
        let memory = match self.entry.data {
            DataPointer::InCapsule { offset: 0, .. } => Memory::InCapsule,
            DataPointer::InCapsule { .. } => {
                return Err(Status::SGL_OFFSET_INVALID.do_not_retry());
            }
            DataPointer::Transport { .. } => Memory::Buffer,
            DataPointer::Other(_) => return Err(Status::SGL_TYPE_INVALID.do_not_retry()),
        };
        match self.entry.data.len() == Some(len) {
            true => Ok(memory),
            false => Err(Status::SGL_LENGTH_INVALID.do_not_retry()),
        }
    }
}

/// `entry` describes `len` bytes that go to the host, by C2HData alone (NVMe/TCP 1.0 §3.3.2.1).
pub(super) fn to_host(entry: &SubmissionEntry, len: u32) -> Result<(), Status> {
    match entry.data {
        DataPointer::Transport { len: described } if described == len => Ok(()),
        DataPointer::Transport { .. } => Err(Status::SGL_LENGTH_INVALID.do_not_retry()),
        _ => Err(Status::SGL_TYPE_INVALID.do_not_retry()),
    }
}

/// The ranges of a Dataset Management, as offset and length in bytes of the store; empty ones are left out.
/// `data` holds them one after the other.
///
/// # Errors
/// With the status for the command if one is outside a namespace of `blocks` blocks.
pub fn ranges(
    data: &[u8],
    blocks: u64,
    block_shift: u8,
) -> Result<impl Iterator<Item = (u64, u64)> + '_, Status> {
    let parse = |bytes: &[u8]| Range::parse(bytes.try_into().expect("a chunk is a range"));
    let all = data.chunks_exact(RANGE_LEN).map(parse);
    if all.clone().any(|range| !range.within(blocks)) {
        return Err(Status::LBA_OUT_OF_RANGE.do_not_retry());
    }
    let bytes = move |range: Range| {
        let (offset, len) = (range.start, u64::from(range.count));
        (offset << block_shift, len << block_shift)
    };
    Ok(all.filter(|range| range.count > 0).map(bytes))
}
