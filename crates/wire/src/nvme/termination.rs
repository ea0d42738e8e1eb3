//! H2CTermReq and C2HTermReq, which end a connection, and the errors that they tell of (NVMe/TCP 1.0 §3.6.2.4, §3.6.2.5).

use std::fmt;
use std::ops::Range;

use super::Layout;
use crate::fields::{field, fields, part};

/// Most bytes of the refused PDU's header that a TermReq carries.
pub const MAX_TERM_REQ_DATA: u32 = 128;

/// FES: why a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FatalErrorStatus(pub u16);

impl FatalErrorStatus {
    /// Invalid PDU Header Field.
    pub const INVALID_HEADER_FIELD: FatalErrorStatus = FatalErrorStatus(1);
    /// PDU Sequence Error: a PDU that may not come now.
    pub const SEQUENCE: FatalErrorStatus = FatalErrorStatus(2);
    /// Header Digest Error.
    pub const HEADER_DIGEST: FatalErrorStatus = FatalErrorStatus(3);
    /// Data Transfer Out of Range: data beyond the command's, or beyond what was asked for.
    pub const DATA_OUT_OF_RANGE: FatalErrorStatus = FatalErrorStatus(4);
    /// R2T Limit Exceeded when a host says it; Data Transfer Limit Exceeded when a controller does.
    pub const LIMIT_EXCEEDED: FatalErrorStatus = FatalErrorStatus(5);
    /// Unsupported Parameter.
    pub const UNSUPPORTED_PARAMETER: FatalErrorStatus = FatalErrorStatus(6);
}

field!(FatalErrorStatus(u16));

impl fmt::Display for FatalErrorStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match *self {
            FatalErrorStatus::INVALID_HEADER_FIELD => "invalid PDU header field",
            FatalErrorStatus::SEQUENCE => "PDU out of sequence",
            FatalErrorStatus::HEADER_DIGEST => "wrong header digest",
            FatalErrorStatus::DATA_OUT_OF_RANGE => "data out of range",
            FatalErrorStatus::LIMIT_EXCEEDED => "limit on R2Ts or data exceeded",
            FatalErrorStatus::UNSUPPORTED_PARAMETER => "unsupported parameter",
            FatalErrorStatus(other) => return write!(f, "fatal error status {other}"),
        })
    }
}

fields! {
    Le:
    /// Why a PDU ends its connection: what a TermReq tells.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
    #[error("{fes} (FEI {fei:#x})")]
    pub struct FatalError {
        /// FES: what is wrong.
        fes: FatalErrorStatus = 8,
        /// FEI: for an invalid field or an unsupported parameter, its first byte, counted from the PDU's first byte. For a wrong header digest, the
        /// one that was received. Else 0.
        fei: u32 = 10,
    }
}

impl FatalError {
    /// The field that begins at byte `offset` of the header has an invalid value.
    #[inline]
    #[must_use]
    pub const fn field(offset: u32) -> FatalError {
        FatalError {
            fes: FatalErrorStatus::INVALID_HEADER_FIELD,
            fei: offset,
        }
    }

    /// An error that has no further information.
    #[inline]
    #[must_use]
    pub const fn of(fes: FatalErrorStatus) -> FatalError {
        FatalError { fes, fei: 0 }
    }

    /// The header's digest was received as `digest`, and that is wrong.
    #[must_use]
    pub const fn header_digest(digest: u32) -> FatalError {
        FatalError {
            fes: FatalErrorStatus::HEADER_DIGEST,
            fei: digest,
        }
    }

    /// An invalid field, unless the reserved bytes of this range are zeros.
    #[inline]
    pub(super) fn unless_zero(header: &[u8], range: Range<usize>) -> Result<(), FatalError> {
        if header[range.clone()].iter().any(|byte| *byte != 0) {
            return Err(FatalError::field(range.start as u32));
        }
        Ok(())
    }
}

fields! {
    Le:
    /// Terminate Connection Request, of either side. The beginning of the PDU that was refused follows as its data.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct TermReq {
        /// FES and FEI.
        error: FatalError = 0,
        ;
        /// How many bytes of the refused PDU's header follow, at most [`MAX_TERM_REQ_DATA`].
        data_len: u32,
    }
}

part!(Le: FatalError);

impl TermReq {
    pub(super) fn parse(header: &[u8], layout: &Layout) -> Result<TermReq, FatalError> {
        FatalError::unless_zero(header, 14..24)?;
        Ok(TermReq::read(header, layout.data_len))
    }
}
