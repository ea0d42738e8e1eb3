//! CapsuleCmd and CapsuleResp (NVMe/TCP 1.0 §3.6.2.6, §3.6.2.7).

use super::Layout;
use crate::bytes::array_at;

/// Bytes of a submission queue entry.
pub const SQE_LEN: usize = 64;

/// Bytes of a completion queue entry.
pub const CQE_LEN: usize = 16;

/// Command Capsule: a command, and its data if that goes with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CapsuleCmd {
    /// CCSQE: the submission queue entry.
    pub sqe: [u8; SQE_LEN],
    /// Bytes of in-capsule data.
    pub data_len: u32,
}

/// Response Capsule: a command's completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CapsuleResp {
    /// RCCQE: the completion queue entry.
    pub cqe: [u8; CQE_LEN],
}

impl CapsuleCmd {
    #[inline]
    pub(super) fn parse(header: &[u8], layout: &Layout) -> CapsuleCmd {
        CapsuleCmd {
            sqe: array_at(header, 8),
            data_len: layout.data_len,
        }
    }

    pub(super) fn emit(&self, header: &mut [u8]) {
        header[8..8 + SQE_LEN].copy_from_slice(&self.sqe);
    }
}

impl CapsuleResp {
    #[inline]
    pub(super) fn parse(header: &[u8]) -> CapsuleResp {
        CapsuleResp {
            cqe: array_at(header, 8),
        }
    }

    pub(super) fn emit(&self, header: &mut [u8]) {
        header[8..8 + CQE_LEN].copy_from_slice(&self.cqe);
    }
}
