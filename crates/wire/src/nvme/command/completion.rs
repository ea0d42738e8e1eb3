//! The completion queue entry (NVMe Base 2.0 §3.3.3.2, Figure 90; NVMe over Fabrics §4.3).

use super::status::Status;
use crate::fields::{entry, fields};

fields! {
    Le:
    /// A completion queue entry. The phase bit and the queue identifier are reserved over fabrics, and are not looked at.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct CompletionEntry {
        /// Dwords 0 (low half) and 1: the command's result, where it has one.
        result: u64 = 0,
        /// The submission queue's head: how far the controller has taken entries. Meaningless without flow control.
        sq_head: u16 = 8,
        /// The command that completes.
        cid: u16 = 12,
        /// How it went.
        status: Status = 14,
    }
}

entry!(CompletionEntry, 16);

impl CompletionEntry {
    /// Bytes of an entry.
    pub const LEN: usize = 16;

    /// Dword 0.
    #[must_use]
    pub const fn dword0(&self) -> u32 {
        self.result as u32
    }
}
