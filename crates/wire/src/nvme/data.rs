//! H2CData, C2HData and R2T (NVMe/TCP 1.0 §3.6.2.8 to §3.6.2.10).

use super::{FatalError, FatalErrorStatus, Flags, Layout};
use crate::bytes::{put_u16_le, put_u32_le, u16_le_at, u32_le_at};

/// Host to Controller Data Transfer: a part of what an R2T asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct H2CData {
    /// CCCID: the command's identifier.
    pub cccid: u16,
    /// TTAG: the tag of the R2T.
    pub ttag: u16,
    /// DATAO: where in the command's data it belongs, in bytes.
    pub data_offset: u32,
    /// DATAL: bytes of data, at least one.
    pub data_len: u32,
    /// LAST_PDU: no more data follows for this R2T.
    pub last: bool,
}

/// Controller to Host Data Transfer: a part of a command's result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct C2HData {
    /// CCCID: the command's identifier.
    pub cccid: u16,
    /// DATAO: where in the command's data it belongs, in bytes.
    pub data_offset: u32,
    /// DATAL: bytes of data, at least one.
    pub data_len: u32,
    /// LAST_PDU: no more data follows for this command.
    pub last: bool,
    /// SUCCESS: the command succeeded and no response capsule follows. Only with `last`.
    pub success: bool,
}

/// Ready to Transfer: the controller has room for a part of a command's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct R2T {
    /// CCCID: the command's identifier.
    pub cccid: u16,
    /// TTAG: names this R2T in the data that answers it.
    pub ttag: u16,
    /// R2TO: where in the command's data the part begins, in bytes.
    pub offset: u32,
    /// R2TL: bytes asked for, at least one.
    pub len: u32,
}

impl H2CData {
    #[inline]
    pub(super) fn parse(header: &[u8], layout: &Layout) -> Result<H2CData, FatalError> {
        let (data_offset, data_len) = extent_of(header, layout)?;
        FatalError::unless_zero(header, 20..24)?;
        Ok(H2CData {
            cccid: u16_le_at(header, 8),
            ttag: u16_le_at(header, 10),
            data_offset,
            data_len,
            last: Flags(header[1]).contains(Flags::LAST_PDU),
        })
    }

    pub(super) fn emit(&self, header: &mut [u8]) {
        put_u16_le(header, 8, self.cccid);
        put_u16_le(header, 10, self.ttag);
        put_u32_le(header, 12, self.data_offset);
        put_u32_le(header, 16, self.data_len);
    }
}

impl C2HData {
    #[inline]
    pub(super) fn parse(header: &[u8], layout: &Layout) -> Result<C2HData, FatalError> {
        FatalError::unless_zero(header, 10..12)?;
        let (data_offset, data_len) = extent_of(header, layout)?;
        FatalError::unless_zero(header, 20..24)?;
        let flags = Flags(header[1]);
        Ok(C2HData {
            cccid: u16_le_at(header, 8),
            data_offset,
            data_len,
            last: flags.contains(Flags::LAST_PDU),
            success: flags.contains(Flags::SUCCESS),
        })
    }

    pub(super) fn emit(&self, header: &mut [u8]) {
        put_u16_le(header, 8, self.cccid);
        put_u32_le(header, 12, self.data_offset);
        put_u32_le(header, 16, self.data_len);
    }
}

impl R2T {
    #[inline]
    pub(super) fn parse(header: &[u8]) -> Result<R2T, FatalError> {
        let (offset, len) = extent(header)?;
        if len == 0 {
            return Err(FatalError::field(16));
        }
        FatalError::unless_zero(header, 20..24)?;
        Ok(R2T {
            cccid: u16_le_at(header, 8),
            ttag: u16_le_at(header, 10),
            offset,
            len,
        })
    }

    pub(super) fn emit(&self, header: &mut [u8]) {
        put_u16_le(header, 8, self.cccid);
        put_u16_le(header, 10, self.ttag);
        put_u32_le(header, 12, self.offset);
        put_u32_le(header, 16, self.len);
    }
}

/// Offset and length of a PDU's data. The length must be what PLEN leaves for it.
#[inline]
fn extent_of(header: &[u8], layout: &Layout) -> Result<(u32, u32), FatalError> {
    let (offset, len) = extent(header)?;
    if len != layout.data_len {
        return Err(FatalError::field(16));
    }
    Ok((offset, len))
}

/// Offset and length, of which no command has data as large that their sum exceeds 32 bits.
#[inline]
fn extent(header: &[u8]) -> Result<(u32, u32), FatalError> {
    let (offset, len) = (u32_le_at(header, 12), u32_le_at(header, 16));
    match offset.checked_add(len) {
        Some(_) => Ok((offset, len)),
        None => Err(FatalError::of(FatalErrorStatus::DATA_OUT_OF_RANGE)),
    }
}
