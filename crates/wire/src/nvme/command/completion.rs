//! The completion queue entry (NVMe Base 2.0 §3.3.3.2, Figure 90; NVMe over Fabrics §4.3).

use super::status::Status;
use crate::bytes::{put_u16_le, put_u64_le, u16_le_at, u64_le_at};

/// A completion queue entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CompletionEntry {
    /// Dwords 0 (low half) and 1: the command's result, where it has one.
    pub result: u64,
    /// The submission queue's head: how far the controller has taken entries. Meaningless without flow control.
    pub sq_head: u16,
    /// The command that completes.
    pub cid: u16,
    /// How it went.
    pub status: Status,
}

impl CompletionEntry {
    /// Bytes of an entry.
    pub const LEN: usize = 16;

    /// Reads an entry. The phase bit and the queue identifier are reserved over fabrics, and are not looked at.
    #[must_use]
    pub fn parse(bytes: &[u8; Self::LEN]) -> CompletionEntry {
        CompletionEntry {
            result: u64_le_at(bytes, 0),
            sq_head: u16_le_at(bytes, 8),
            cid: u16_le_at(bytes, 12),
            status: Status::from_bits(u16_le_at(bytes, 14) >> 1),
        }
    }

    /// The entry's bytes.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        put_u64_le(&mut bytes, 0, self.result);
        put_u16_le(&mut bytes, 8, self.sq_head);
        put_u16_le(&mut bytes, 12, self.cid);
        put_u16_le(&mut bytes, 14, self.status.bits() << 1);
        bytes
    }

    /// Dword 0.
    #[must_use]
    pub const fn dword0(&self) -> u32 {
        self.result as u32
    }
}
