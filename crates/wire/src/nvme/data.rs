//! H2CData, C2HData and R2T (NVMe/TCP 1.0 §3.6.2.8 to §3.6.2.10).

use super::{FatalError, FatalErrorStatus, Flags, Layout};
use crate::bytes::u32_le_at;
use crate::fields::{Bits, fields};

fields! {
    Le:
    /// Host to Controller Data Transfer: a part of what an R2T asked for.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct H2CData {
        /// CCCID: the command's identifier.
        cccid: u16 = 8,
        /// TTAG: the tag of the R2T.
        ttag: u16 = 10,
        /// DATAO: where in the command's data it belongs, in bytes.
        data_offset: u32 = 12,
        /// DATAL: bytes of data, at least one.
        data_len: u32 = 16,
        /// LAST_PDU: no more data follows for this R2T.
        last: bool = Bits(1, Flags::LAST_PDU.0),
    }
}

fields! {
    Le:
    /// Controller to Host Data Transfer: a part of a command's result.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct C2HData {
        /// CCCID: the command's identifier.
        cccid: u16 = 8,
        /// DATAO: where in the command's data it belongs, in bytes.
        data_offset: u32 = 12,
        /// DATAL: bytes of data, at least one.
        data_len: u32 = 16,
        /// LAST_PDU: no more data follows for this command.
        last: bool = Bits(1, Flags::LAST_PDU.0),
        /// SUCCESS: the command succeeded and no response capsule follows. Only with `last`.
        success: bool = Bits(1, Flags::SUCCESS.0),
    }
}

fields! {
    Le:
    /// Ready to Transfer: the controller has room for a part of a command's data.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct R2T {
        /// CCCID: the command's identifier.
        cccid: u16 = 8,
        /// TTAG: names this R2T in the data that answers it.
        ttag: u16 = 10,
        /// R2TO: where in the command's data the part begins, in bytes.
        offset: u32 = 12,
        /// R2TL: bytes asked for, at least one.
        len: u32 = 16,
    }
}

impl H2CData {
    #[inline]
    pub(super) fn parse(header: &[u8], layout: &Layout) -> Result<H2CData, FatalError> {
        check_extent_of(header, layout)?;
        FatalError::unless_zero(header, 20..24)?;
        Ok(H2CData::read(header))
    }
}

impl C2HData {
    #[inline]
    pub(super) fn parse(header: &[u8], layout: &Layout) -> Result<C2HData, FatalError> {
        FatalError::unless_zero(header, 10..12)?;
        check_extent_of(header, layout)?;
        FatalError::unless_zero(header, 20..24)?;
        Ok(C2HData::read(header))
    }
}

impl R2T {
    #[inline]
    pub(super) fn parse(header: &[u8]) -> Result<R2T, FatalError> {
        check_extent(header)?;
        let parsed = R2T::read(header);
        if parsed.len == 0 {
            return Err(FatalError::field(16));
        }
        FatalError::unless_zero(header, 20..24)?;
        Ok(parsed)
    }
}

/// Checks offset and length of a PDU's data. The length must be what PLEN leaves for it.
#[inline]
fn check_extent_of(header: &[u8], layout: &Layout) -> Result<(), FatalError> {
    check_extent(header)?;
    if u32_le_at(header, 16) != layout.data_len {
        return Err(FatalError::field(16));
    }
    Ok(())
}

/// Checks offset and length, whose sum is within 32 bits for any command.
#[inline]
fn check_extent(header: &[u8]) -> Result<(), FatalError> {
    match u32_le_at(header, 12).checked_add(u32_le_at(header, 16)) {
        Some(_) => Ok(()),
        None => Err(FatalError::of(FatalErrorStatus::DATA_OUT_OF_RANGE)),
    }
}
