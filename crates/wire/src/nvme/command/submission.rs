//! The submission queue entry (NVMe Base 2.0 §3.3.3.1, Figure 86; NVMe over Fabrics §4.2).

use super::sgl::DataPointer;
use crate::bytes::{array_at, put_u16_le, put_u32_le, put_u64_le, u16_le_at, u32_le_at, u64_le_at};

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

/// PSDT 01b: SGLs describe the data, and metadata is one contiguous buffer. The only value over fabrics.
const PSDT_SGL: u8 = 0x40;

/// A submission queue entry, before anything is known of its meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SubmissionEntry {
    /// The opcode; see [`opcode`].
    pub opcode: u8,
    /// FUSE in bits 1:0, PSDT in bits 7:6.
    pub flags: u8,
    /// The command identifier, unique among the commands in flight of a queue.
    pub cid: u16,
    /// The namespace; in a fabrics command its low byte is the command type.
    pub nsid: u32,
    /// Command dwords 2 and 3.
    pub cdw2: [u32; 2],
    /// The metadata pointer.
    pub metadata: u64,
    /// Where the data is.
    pub data: DataPointer,
    /// Command dwords 10 to 15.
    pub cdw10: [u32; 6],
}

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

    /// Reads an entry. It judges nothing.
    #[must_use]
    pub fn parse(bytes: &[u8; Self::LEN]) -> SubmissionEntry {
        let mut cdw10 = [0; 6];
        for (i, dword) in cdw10.iter_mut().enumerate() {
            *dword = u32_le_at(bytes, 40 + 4 * i);
        }
        SubmissionEntry {
            opcode: bytes[0],
            flags: bytes[1],
            cid: u16_le_at(bytes, 2),
            nsid: u32_le_at(bytes, 4),
            cdw2: [u32_le_at(bytes, 8), u32_le_at(bytes, 12)],
            metadata: u64_le_at(bytes, 16),
            data: DataPointer::parse(&array_at(bytes, 24)),
            cdw10,
        }
    }

    /// The entry's bytes.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        bytes[0] = self.opcode;
        bytes[1] = self.flags;
        put_u16_le(&mut bytes, 2, self.cid);
        put_u32_le(&mut bytes, 4, self.nsid);
        put_u32_le(&mut bytes, 8, self.cdw2[0]);
        put_u32_le(&mut bytes, 12, self.cdw2[1]);
        put_u64_le(&mut bytes, 16, self.metadata);
        bytes[24..40].copy_from_slice(&self.data.to_bytes());
        for (i, dword) in self.cdw10.iter().enumerate() {
            put_u32_le(&mut bytes, 40 + 4 * i, *dword);
        }
        bytes
    }

    /// Whether it is one half of a fused operation.
    #[must_use]
    pub const fn is_fused(&self) -> bool {
        self.flags & 0x03 != 0
    }

    /// Whether PSDT says that SGLs describe the data, as fabrics require (NVMe over Fabrics §4.2.1).
    #[must_use]
    pub const fn uses_sgl(&self) -> bool {
        self.flags & 0xc0 == PSDT_SGL
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
