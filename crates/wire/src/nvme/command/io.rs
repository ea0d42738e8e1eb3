//! I/O commands of the NVM command set (NVM Command Set 1.0 §3.2).

use super::status::Status;
use super::submission::{SubmissionEntry, opcode};
use crate::fields::{entry, fields};

/// The most logical blocks of one command: NLB has 16 bits and counts from zero.
pub const MAX_BLOCKS: u32 = 1 << 16;
/// The most ranges of one Dataset Management.
pub const MAX_RANGES: u16 = 256;
/// Bytes of a [`Range`].
pub const RANGE_LEN: usize = 16;

const FUA: u32 = 1 << 30;
const PROTECTION: u32 = 0x0f << 26;
/// Dword 12 of Write Zeroes: the blocks may be deallocated (DEAC).
const DEAC: u32 = 1 << 25;
/// Dword 11 of Dataset Management: deallocate the ranges (AD).
pub const DEALLOCATE: u32 = 1 << 2;

/// Logical blocks: where and how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Blocks {
    /// The first one.
    pub start: u64,
    /// How many: 1 to [`MAX_BLOCKS`].
    pub count: u32,
}

impl Blocks {
    /// The block behind the last one; none if there is no such number.
    #[must_use]
    pub const fn end(self) -> Option<u64> {
        self.start.checked_add(self.count as u64)
    }

    /// Whether all of them are in a namespace of `blocks` blocks.
    #[must_use]
    pub const fn within(self, blocks: u64) -> bool {
        matches!(self.end(), Some(end) if end <= blocks)
    }
}

/// What an I/O command asks for. The namespace is in the entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Io {
    /// Reads blocks.
    Read {
        /// Which.
        blocks: Blocks,
        /// From the medium, not from a volatile cache (FUA).
        fua: bool,
    },
    /// Writes blocks.
    Write {
        /// Which.
        blocks: Blocks,
        /// Completes when the blocks are on the medium (FUA).
        fua: bool,
    },
    /// Compares blocks with the host's data.
    Compare {
        /// Which.
        blocks: Blocks,
        /// From the medium, not from a volatile cache (FUA).
        fua: bool,
    },
    /// Makes blocks read as zeroes.
    WriteZeroes {
        /// Which.
        blocks: Blocks,
        /// Completes when they are zeroes on the medium (FUA).
        fua: bool,
        /// The controller may deallocate them (DEAC).
        deallocate: bool,
    },
    /// What was written before it and completed is on the medium when it completes.
    Flush,
    /// Says something of ranges, which are the command's data.
    DatasetManagement {
        /// How many: 1 to [`MAX_RANGES`].
        ranges: u16,
        /// They may be deallocated (AD). Otherwise it is a hint only.
        deallocate: bool,
    },
}

impl Io {
    /// What `entry` asks for, or the status that answers it. The caller has looked for [`opcode::FABRICS`] before.
    /// Protection information is refused: no namespace here is formatted with it.
    ///
    /// # Errors
    /// The status for the command.
    pub fn parse(entry: &SubmissionEntry) -> Result<Io, Status> {
        let dword12 = entry.cdw10[2];
        let blocks = Blocks {
            start: entry.quad(0),
            count: (dword12 & 0xffff) + 1,
        };
        let fua = dword12 & FUA != 0;
        let io = match entry.opcode {
            opcode::READ => Io::Read { blocks, fua },
            opcode::WRITE => Io::Write { blocks, fua },
            opcode::COMPARE => Io::Compare { blocks, fua },
            opcode::WRITE_ZEROES => Io::WriteZeroes {
                blocks,
                fua,
                deallocate: dword12 & DEAC != 0,
            },
            opcode::FLUSH => return Ok(Io::Flush),
            opcode::DATASET_MANAGEMENT => {
                return Ok(Io::DatasetManagement {
                    ranges: (entry.cdw10[0] & 0xff) as u16 + 1,
                    deallocate: entry.cdw10[1] & DEALLOCATE != 0,
                });
            }
            _ => return Err(Status::INVALID_OPCODE.do_not_retry()),
        };
        if dword12 & PROTECTION != 0 {
            return Err(Status::INVALID_FIELD.do_not_retry());
        }
        Ok(io)
    }

    /// The entry for it on namespace `nsid`, without data.
    #[must_use]
    pub fn entry(&self, cid: u16, nsid: u32) -> SubmissionEntry {
        let on_blocks = |opcode, blocks: Blocks, flags: u32| {
            let mut entry = SubmissionEntry::new(opcode, cid, nsid);
            entry.set_quad(0, blocks.start);
            entry.cdw10[2] = (blocks.count.clamp(1, MAX_BLOCKS) - 1) | flags;
            entry
        };
        let unit = |fua| if fua { FUA } else { 0 };
        match *self {
            Io::Read { blocks, fua } => on_blocks(opcode::READ, blocks, unit(fua)),
            Io::Write { blocks, fua } => on_blocks(opcode::WRITE, blocks, unit(fua)),
            Io::Compare { blocks, fua } => on_blocks(opcode::COMPARE, blocks, unit(fua)),
            Io::WriteZeroes {
                blocks,
                fua,
                deallocate,
            } => {
                let deac = if deallocate { DEAC } else { 0 };
                on_blocks(opcode::WRITE_ZEROES, blocks, unit(fua) | deac)
            }
            Io::Flush => SubmissionEntry::new(opcode::FLUSH, cid, nsid),
            Io::DatasetManagement { ranges, deallocate } => {
                let mut entry = SubmissionEntry::new(opcode::DATASET_MANAGEMENT, cid, nsid);
                entry.cdw10[0] = u32::from(ranges.clamp(1, MAX_RANGES) - 1);
                entry.cdw10[1] = if deallocate { DEALLOCATE } else { 0 };
                entry
            }
        }
    }
}

fields! {
    Le:
    /// One range of Dataset Management (NVM Command Set 1.0 §3.2.3, Figure 37).
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Range {
        /// Hints about how it is used.
        attributes: u32 = 0,
        /// Logical blocks; may be zero.
        count: u32 = 4,
        /// The first one.
        start: u64 = 8,
    }
}

entry!(Range, RANGE_LEN);

impl Range {
    /// Whether all of it is in a namespace of `blocks` blocks.
    #[must_use]
    pub const fn within(self, blocks: u64) -> bool {
        matches!(self.start.checked_add(self.count as u64), Some(end) if end <= blocks)
    }
}
