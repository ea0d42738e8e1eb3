//! ICReq and ICResp, the PDUs that open a connection (NVMe/TCP 1.0 §3.6.2.2, §3.6.2.3).

use super::{FatalError, FatalErrorStatus, MAX_ALIGNMENT};
use crate::bytes::u16_le_at;
use crate::fields::{Field, Le, fields};

/// The least that a controller may give for MAXH2CDATA.
pub const MIN_MAXH2CDATA: u32 = 4096;

/// Which digests one side asks for, or both have agreed on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Digests {
    /// Over headers: HDGST_ENABLE.
    pub header: bool,
    /// Over data: DDGST_ENABLE.
    pub data: bool,
}

impl Digests {
    /// Neither.
    pub const NONE: Digests = Digests {
        header: false,
        data: false,
    };

    /// Both.
    pub const BOTH: Digests = Digests {
        header: true,
        data: true,
    };
}

impl Field<Le> for Digests {
    fn get(bytes: &[u8], at: usize) -> Digests {
        Digests {
            header: bytes[at] & 1 != 0,
            data: bytes[at] & 2 != 0,
        }
    }

    fn put(&self, bytes: &mut [u8], at: usize) {
        bytes[at] = u8::from(self.header) | u8::from(self.data) << 1;
    }
}

fields! {
    Le:
    /// Initialize Connection Request, the first PDU of a host.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct ICReq {
        /// PFV: the version of the PDU formats; 0 is the only one.
        pfv: u16 = 8,
        /// HPDA: to how many dwords, and one more, the host wants data aligned that it gets.
        hpda: u8 = 10,
        /// DGST: the digests that the host wants.
        digests: Digests = 11,
        /// MAXR2T: how many R2Ts per command, and one more, the host has room for.
        max_r2t: u32 = 12,
    }
}

fields! {
    Le:
    /// Initialize Connection Response, the first PDU of a controller.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct ICResp {
        /// PFV: the version of the PDU formats; 0 is the only one.
        pfv: u16 = 8,
        /// CPDA: to how many dwords, and one more, the controller wants data aligned that it gets.
        cpda: u8 = 10,
        /// DGST: the digests that are used from now on, in both directions.
        digests: Digests = 11,
        /// MAXH2CDATA: the most data in bytes that one H2CData may carry.
        max_h2c_data: u32 = 12,
    }
}

impl ICReq {
    pub(super) fn parse(header: &[u8]) -> Result<ICReq, FatalError> {
        check(header)?;
        Ok(ICReq::read(header))
    }
}

impl ICResp {
    pub(super) fn parse(header: &[u8]) -> Result<ICResp, FatalError> {
        check(header)?;
        let parsed = ICResp::read(header);
        let limit = parsed.max_h2c_data;
        if limit < MIN_MAXH2CDATA || !limit.is_multiple_of(4) {
            return Err(FatalError::field(12));
        }
        Ok(parsed)
    }
}

/// Checks the fields that have the same place in both.
fn check(header: &[u8]) -> Result<(), FatalError> {
    if u16_le_at(header, 8) != 0 {
        return Err(FatalError {
            fes: FatalErrorStatus::UNSUPPORTED_PARAMETER,
            fei: 8,
        });
    }
    if header[10] > MAX_ALIGNMENT {
        return Err(FatalError::field(10));
    }
    if header[11] & !3 != 0 {
        return Err(FatalError::field(11));
    }
    FatalError::unless_zero(header, 16..128)
}
