//! Requests that are being carried out, each by one or several NVMe commands.

use host::nvme::initiator::{Blocks, Io, Status};
use l5p::nvme::initiator::{Access, CommandId};
use wire::nvme::command::{RANGE_LEN, Range};

use super::export::Export;
use crate::disk::Block;
use crate::log::LIMITED;
use crate::nvme::initiator::{Initiator, SubmitError};
use wire::nbd::{Errno, Kind, Request};

/// A request under way.
#[derive(Debug)]
pub(super) struct Job {
    /// The place of the client, and how many clients had it before.
    pub(super) client: (usize, u64),
    pub(super) request: Request,
    /// The memory of its data, in the order of the data: with each block the bytes that are used.
    pub(super) blocks: Vec<(Block, u32)>,
    /// What is to be asked for next: a byte of the export.
    next: u64,
    /// The part that `next` begins.
    next_block: usize,
    /// Commands in flight.
    pub(super) in_flight: u32,
    /// A flush is to follow.
    flush: bool,
    pub(super) error: Option<Errno>,
}

/// What one command does of a request.
struct Part<'a> {
    io: Io,
    /// Bytes of the export.
    len: u64,
    /// The memory of its data, if it has any, and the bytes that are used.
    memory: Option<(&'a Block, u32)>,
}

impl Job {
    /// A job for a request that the export has found to be in order.
    pub(super) fn new(
        client: (usize, u64),
        request: Request,
        mut blocks: Vec<(Block, u32)>,
        export: &Export,
    ) -> Job {
        if let (Kind::Trim, Some((block, _))) = (request.kind, blocks.first_mut()) {
            // SAFETY: no command names the block yet.
            let bytes = unsafe { block.bytes_mut() };
            for (range, place) in ranges(&request, export).zip(bytes.chunks_exact_mut(RANGE_LEN)) {
                place.copy_from_slice(&range.to_bytes());
            }
        }
        // Deallocating knows no FUA.
        let flush = match request.kind {
            Kind::Flush => export.has_cache,
            Kind::Trim => request.fua && export.has_cache,
            _ => false,
        };
        Job {
            client,
            request,
            blocks,
            next: request.offset,
            next_block: 0,
            in_flight: 0,
            flush,
            error: None,
        }
    }

    /// Bytes of memory that a request takes.
    pub(super) fn memory_len(request: &Request, export: &Export) -> u32 {
        match request.kind {
            Kind::Read | Kind::Write => request.len,
            Kind::Trim => (ranges(request, export).count() * RANGE_LEN) as u32,
            _ => 0,
        }
    }

    /// Whether nothing more is to be asked for.
    pub(super) fn is_asked(&self) -> bool {
        self.error.is_some() || (self.next == self.end() && !self.flush)
    }

    pub(super) fn is_done(&self) -> bool {
        self.is_asked() && self.in_flight == 0
    }

    /// Submits the next command. `Ok(None)`: it is not its turn yet.
    pub(super) fn submit(
        &mut self,
        initiator: &mut Initiator,
        export: &Export,
        zeroes: &Block,
    ) -> Result<Option<CommandId>, SubmitError> {
        let left = self.end() - self.next;
        if left == 0 {
            if self.in_flight > 0 {
                return Ok(None);
            }
            let id = ask(initiator, export, Io::Flush, None)?;
            self.flush = false;
            self.in_flight += 1;
            return Ok(Some(id));
        }
        let Part { io, len, memory } = self.next_part(left, export, zeroes);
        let id = ask(initiator, export, io, memory)?;
        self.next += len;
        self.next_block += 1;
        self.in_flight += 1;
        Ok(Some(id))
    }

    /// What is to be asked for next, of so many bytes that are left.
    fn next_part<'a>(&'a self, left: u64, export: &Export, zeroes: &'a Block) -> Part<'a> {
        let fua = self.request.fua;
        let blocks = |len: u64| Blocks {
            start: self.next / u64::from(export.block_size),
            count: (len / u64::from(export.block_size)) as u32,
        };
        let (io, len, memory) = match self.request.kind {
            Kind::Read | Kind::Write => {
                let (block, len) = &self.blocks[self.next_block];
                let blocks = blocks(u64::from(*len));
                let io = match self.request.kind {
                    Kind::Read => Io::Read { blocks, fua: false },
                    _ => Io::Write { blocks, fua },
                };
                (io, u64::from(*len), Some((block, *len)))
            }
            Kind::WriteZeroes if export.can_zero => {
                let len = left.min(export.most_zeroes);
                let io = Io::WriteZeroes {
                    blocks: blocks(len),
                    fua,
                    deallocate: !self.request.no_hole,
                };
                (io, len, None)
            }
            Kind::WriteZeroes => {
                let len = left.min(u64::from(export.most_data));
                let blocks = blocks(len);
                let io = Io::Write { blocks, fua };
                (io, len, Some((zeroes, len as u32)))
            }
            _ => {
                let (block, len) = &self.blocks[0];
                let io = Io::DatasetManagement {
                    ranges: (*len as usize / RANGE_LEN) as u16,
                    deallocate: true,
                };
                (io, left, Some((block, *len)))
            }
        };
        Part { io, len, memory }
    }

    /// A command of it is complete.
    pub(super) fn complete(&mut self, status: Status) {
        self.in_flight -= 1;
        if let Err(status) = status.ok() {
            tracing::warn!(target: LIMITED, request = ?self.request, %status, "a command failed");
            self.error.get_or_insert(errno(status));
        }
    }

    /// Where the data ends; where it begins, if there is none.
    fn end(&self) -> u64 {
        match self.request.kind {
            Kind::Flush => self.request.offset,
            _ => self.request.offset + u64::from(self.request.len),
        }
    }
}

/// The ranges of a trim, as many as one command takes: the rest stays as it is, which a trim allows.
fn ranges(request: &Request, export: &Export) -> impl Iterator<Item = Range> + use<> {
    let (end, most) = (request.offset + u64::from(request.len), export.most_trim);
    let block_size = u64::from(export.block_size);
    (request.offset..end)
        .step_by(most.max(1) as usize)
        .take(usize::from(export.most_ranges))
        .map(move |start| Range {
            attributes: 0,
            count: ((end - start).min(most) / block_size) as u32,
            start: start / block_size,
        })
}

fn ask(
    initiator: &mut Initiator,
    export: &Export,
    io: Io,
    memory: Option<(&Block, u32)>,
) -> Result<CommandId, SubmitError> {
    let access = Access {
        nsid: export.nsid,
        io,
    };
    initiator.submit(access, memory)
}

fn errno(status: Status) -> Errno {
    let is = |others: &[Status]| others.iter().any(|other| status.is(*other));
    if is(&[Status::LBA_OUT_OF_RANGE, Status::CAPACITY_EXCEEDED]) {
        Errno::NoSpace
    } else if is(&[Status::WRITE_PROTECTED, Status::ACCESS_DENIED]) {
        Errno::NotPermitted
    } else if is(&[Status::INVALID_FIELD]) {
        Errno::Invalid
    } else if is(&[Status::ABORTED_BY_HOST]) {
        Errno::ShuttingDown
    } else {
        Errno::Io
    }
}
