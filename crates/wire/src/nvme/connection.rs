//! ICReq and ICResp, the PDUs that open a connection (NVMe/TCP 1.0 §3.6.2.2, §3.6.2.3).

use super::{FatalError, FatalErrorStatus, MAX_ALIGNMENT};
use crate::bytes::{put_u16_le, put_u32_le, u16_le_at, u32_le_at};

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

    fn from_bits(bits: u8) -> Digests {
        Digests {
            header: bits & 1 != 0,
            data: bits & 2 != 0,
        }
    }

    fn bits(self) -> u8 {
        u8::from(self.header) | u8::from(self.data) << 1
    }
}

/// Initialize Connection Request, the first PDU of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ICReq {
    /// PFV: the version of the PDU formats; 0 is the only one.
    pub pfv: u16,
    /// HPDA: to how many dwords, and one more, the host wants data aligned that it gets.
    pub hpda: u8,
    /// DGST: the digests that the host wants.
    pub digests: Digests,
    /// MAXR2T: how many R2Ts per command, and one more, the host has room for.
    pub max_r2t: u32,
}

/// Initialize Connection Response, the first PDU of a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ICResp {
    /// PFV: the version of the PDU formats; 0 is the only one.
    pub pfv: u16,
    /// CPDA: to how many dwords, and one more, the controller wants data aligned that it gets.
    pub cpda: u8,
    /// DGST: the digests that are used from now on, in both directions.
    pub digests: Digests,
    /// MAXH2CDATA: the most data in bytes that one H2CData may carry.
    pub max_h2c_data: u32,
}

impl ICReq {
    pub(super) fn parse(header: &[u8]) -> Result<ICReq, FatalError> {
        let common = Common::parse(header)?;
        Ok(ICReq {
            pfv: common.pfv,
            hpda: common.alignment,
            digests: common.digests,
            max_r2t: common.limit,
        })
    }

    pub(super) fn emit(&self, header: &mut [u8]) {
        Common {
            pfv: self.pfv,
            alignment: self.hpda,
            digests: self.digests,
            limit: self.max_r2t,
        }
        .emit(header);
    }
}

impl ICResp {
    pub(super) fn parse(header: &[u8]) -> Result<ICResp, FatalError> {
        let common = Common::parse(header)?;
        if common.limit < MIN_MAXH2CDATA || !common.limit.is_multiple_of(4) {
            return Err(FatalError::field(12));
        }
        Ok(ICResp {
            pfv: common.pfv,
            cpda: common.alignment,
            digests: common.digests,
            max_h2c_data: common.limit,
        })
    }

    pub(super) fn emit(&self, header: &mut [u8]) {
        Common {
            pfv: self.pfv,
            alignment: self.cpda,
            digests: self.digests,
            limit: self.max_h2c_data,
        }
        .emit(header);
    }
}

/// The fields that have the same place in both.
struct Common {
    pfv: u16,
    alignment: u8,
    digests: Digests,
    limit: u32,
}

impl Common {
    fn parse(header: &[u8]) -> Result<Common, FatalError> {
        let pfv = u16_le_at(header, 8);
        if pfv != 0 {
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
        FatalError::unless_zero(header, 16..128)?;
        Ok(Common {
            pfv,
            alignment: header[10],
            digests: Digests::from_bits(header[11]),
            limit: u32_le_at(header, 12),
        })
    }

    fn emit(&self, header: &mut [u8]) {
        put_u16_le(header, 8, self.pfv);
        header[10] = self.alignment;
        header[11] = self.digests.bits();
        put_u32_le(header, 12, self.limit);
    }
}
