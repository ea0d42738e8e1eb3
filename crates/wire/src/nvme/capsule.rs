//! CapsuleCmd and CapsuleResp (NVMe/TCP 1.0 §3.6.2.6, §3.6.2.7).

use crate::fields::fields;

/// Bytes of a submission queue entry.
pub const SQE_LEN: usize = 64;

/// Bytes of a completion queue entry.
pub const CQE_LEN: usize = 16;

fields! {
    Le:
    /// Command Capsule: a command, and its data if that goes with it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct CapsuleCmd {
        /// CCSQE: the submission queue entry.
        sqe: [u8; SQE_LEN] = 8,
        ;
        /// Bytes of in-capsule data.
        data_len: u32,
    }
}

fields! {
    Le:
    /// Response Capsule: a command's completion.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct CapsuleResp {
        /// RCCQE: the completion queue entry.
        cqe: [u8; CQE_LEN] = 8,
    }
}
