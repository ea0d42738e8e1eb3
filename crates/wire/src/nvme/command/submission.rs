//! The submission queue entry (NVMe Base 2.0 §3.3.3.1, Figure 86; NVMe over Fabrics §4.2).

use super::sgl::DataPointer;
use crate::fields::{entry, fields};

/// Opcodes (NVMe Base 2.0 Figures 138 and 390, NVM Command Set 1.0 Figure 16).
pub mod opcode {
    /// Fabrics commands, on any queue; the type is in byte 4.
    pub const FABRICS: u8 = 0x7f;

    /// Admin: Get Log Page.
    pub const GET_LOG_PAGE: u8 = 0x02;
    /// Admin: Identify.
    pub const IDENTIFY: u8 = 0x06;
    /// Admin: Abort.
    pub const ABORT: u8 = 0x08;
    /// Admin: Set Features.
    pub const SET_FEATURES: u8 = 0x09;
    /// Admin: Get Features.
    pub const GET_FEATURES: u8 = 0x0a;
    /// Admin: Asynchronous Event Request.
    pub const ASYNC_EVENT_REQUEST: u8 = 0x0c;
    /// Admin: Keep Alive.
    pub const KEEP_ALIVE: u8 = 0x18;

    /// I/O: Flush.
    pub const FLUSH: u8 = 0x00;
    /// I/O: Write.
    pub const WRITE: u8 = 0x01;
    /// I/O: Read.
    pub const READ: u8 = 0x02;
    /// I/O: Compare.
    pub const COMPARE: u8 = 0x05;
    /// I/O: Write Zeroes.
    pub const WRITE_ZEROES: u8 = 0x08;
    /// I/O: Dataset Management.
    pub const DATASET_MANAGEMENT: u8 = 0x09;
}

/// PSDT, in the flags.
const PSDT: u8 = 0xc0;
/// PSDT 01b: SGLs describe the data, and metadata is one contiguous buffer. The only value over fabrics.
const PSDT_SGL: u8 = 0x40;
/// PSDT 11b is reserved.
const PSDT_RESERVED: u8 = 0xc0;

fields! {
    Le:
    /// A submission queue entry, before anything is known of its meaning.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct SubmissionEntry {
        /// The opcode; see [`opcode`].
        opcode: u8 = 0,
        /// FUSE in bits 1:0, PSDT in bits 7:6.
        flags: u8 = 1,
        /// The command identifier, unique among the commands in flight of a queue.
        cid: u16 = 2,
        /// The namespace; in a fabrics command its low byte is the command type.
        nsid: u32 = 4,
        /// Command dwords 2 and 3.
        cdw2: [u32; 2] = 8,
        /// The metadata pointer.
        metadata: u64 = 16,
        /// Where the data is.
        data: DataPointer = 24,
        /// Command dwords 10 to 15.
        cdw10: [u32; 6] = 40,
    }
}

entry!(SubmissionEntry, 64);

impl SubmissionEntry {
    /// Bytes of an entry.
    pub const LEN: usize = 64;

    /// An entry without data and with all dwords zero.
    #[must_use]
    pub const fn new(opcode: u8, cid: u16, nsid: u32) -> SubmissionEntry {
        SubmissionEntry {
            opcode,
            flags: PSDT_SGL,
            cid,
            nsid,
            cdw2: [0; 2],
            metadata: 0,
            data: DataPointer::NONE,
            cdw10: [0; 6],
        }
    }

    /// The same entry, with its data at `data`.
    #[must_use]
    pub const fn with_data(mut self, data: DataPointer) -> SubmissionEntry {
        self.data = data;
        self
    }

    /// Whether it is one half of a fused operation.
    #[must_use]
    pub const fn is_fused(&self) -> bool {
        self.flags & 0x03 != 0
    }

    /// Whether PSDT says that SGLs describe the data, as fabrics require (NVMe over Fabrics §4.2.1). The data of a fabrics
    /// command is described so whatever its PSDT says, unless that is the reserved value (Base 2.0 Figure 390).
    #[must_use]
    pub const fn uses_sgl(&self) -> bool {
        match self.flags & PSDT {
            PSDT_SGL => true,
            PSDT_RESERVED => false,
            _ => self.opcode == opcode::FABRICS,
        }
    }

    /// The 64-bit value of the dwords `n` and `n + 1` of [`SubmissionEntry::cdw10`], the lower one first.
    pub(super) const fn quad(&self, n: usize) -> u64 {
        self.cdw10[n] as u64 | (self.cdw10[n + 1] as u64) << 32
    }

    /// Sets the dwords `n` and `n + 1` of [`SubmissionEntry::cdw10`].
    pub(super) const fn set_quad(&mut self, n: usize, value: u64) {
        self.cdw10[n] = value as u32;
        self.cdw10[n + 1] = (value >> 32) as u32;
    }
}
