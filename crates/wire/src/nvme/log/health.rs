//! The error log and SMART / health (Base 2.0c §5.16.1.2, §5.16.1.3).

use crate::bytes::{array_at, put_u16_le, put_u32_le, put_u64_le, u16_le_at, u32_le_at, u64_le_at};
use crate::error::ParseError;

/// An entry of the error log; all zero where there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ErrorEntry {
    /// Counts errors of the controller from 1; 0: no entry.
    pub count: u64,
    /// The submission queue of the command.
    pub sqid: u16,
    /// The command.
    pub cid: u16,
    /// Its status field, with the phase bit's place: bits 15:1 of the completion's last word.
    pub status: u16,
    /// Where in the command the error is: byte in bits 7:0, bit in bits 10:8; 0xffff: not of a parameter.
    pub location: u16,
    /// The first block of the error.
    pub lba: u64,
    /// The namespace.
    pub nsid: u32,
}

impl ErrorEntry {
    /// Bytes of an entry.
    pub const LEN: usize = 64;

    /// Parses an entry.
    ///
    /// # Errors
    /// If it is shorter than [`ErrorEntry::LEN`].
    pub fn parse(b: &[u8]) -> Result<ErrorEntry, ParseError> {
        ParseError::require(b, ErrorEntry::LEN)?;
        Ok(ErrorEntry {
            count: u64_le_at(b, 0),
            sqid: u16_le_at(b, 8),
            cid: u16_le_at(b, 10),
            status: u16_le_at(b, 12),
            location: u16_le_at(b, 14),
            lba: u64_le_at(b, 16),
            nsid: u32_le_at(b, 24),
        })
    }

    /// Writes the entry into the first [`ErrorEntry::LEN`] bytes of `buffer`.
    pub fn emit(&self, buffer: &mut [u8]) {
        let b = &mut buffer[..ErrorEntry::LEN];
        b.fill(0);
        put_u64_le(b, 0, self.count);
        put_u16_le(b, 8, self.sqid);
        put_u16_le(b, 10, self.cid);
        put_u16_le(b, 12, self.status);
        put_u16_le(b, 14, self.location);
        put_u64_le(b, 16, self.lba);
        put_u32_le(b, 24, self.nsid);
    }
}

/// SMART / Health Information.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct HealthLog {
    /// Bits of what is wrong; 0: nothing.
    pub critical_warning: u8,
    /// Temperature, kelvin.
    pub temperature: u16,
    /// Spare capacity left, percent.
    pub available_spare: u8,
    /// The spare capacity below which a warning is given, percent.
    pub spare_threshold: u8,
    /// Endurance used, percent.
    pub percentage_used: u8,
    /// Data read, in thousands of 512 bytes, rounded up.
    pub data_units_read: u128,
    /// Data written, in thousands of 512 bytes, rounded up.
    pub data_units_written: u128,
    /// Read and Compare commands.
    pub host_reads: u128,
    /// Write commands.
    pub host_writes: u128,
    /// Times it was switched on.
    pub power_cycles: u128,
    /// Hours that it was on.
    pub power_on_hours: u128,
    /// Errors of the media that were not corrected.
    pub media_errors: u128,
    /// Entries ever made in the error log.
    pub error_log_entries: u128,
}

impl HealthLog {
    /// Bytes of the page.
    pub const LEN: usize = 512;

    /// Data units for `bytes`: thousands of 512 bytes, rounded up (§5.16.1.3).
    #[must_use]
    pub const fn data_units(bytes: u128) -> u128 {
        bytes.div_ceil(512_000)
    }

    /// Parses a page.
    ///
    /// # Errors
    /// If it is shorter than [`HealthLog::LEN`].
    pub fn parse(b: &[u8]) -> Result<HealthLog, ParseError> {
        ParseError::require(b, HealthLog::LEN)?;
        let count = |at| u128::from_le_bytes(array_at(b, at));
        Ok(HealthLog {
            critical_warning: b[0],
            temperature: u16_le_at(b, 1),
            available_spare: b[3],
            spare_threshold: b[4],
            percentage_used: b[5],
            data_units_read: count(32),
            data_units_written: count(48),
            host_reads: count(64),
            host_writes: count(80),
            power_cycles: count(112),
            power_on_hours: count(128),
            media_errors: count(160),
            error_log_entries: count(176),
        })
    }

    /// Writes the page into the first [`HealthLog::LEN`] bytes of `buffer`.
    pub fn emit(&self, buffer: &mut [u8]) {
        let b = &mut buffer[..HealthLog::LEN];
        b.fill(0);
        b[0] = self.critical_warning;
        put_u16_le(b, 1, self.temperature);
        b[3] = self.available_spare;
        b[4] = self.spare_threshold;
        b[5] = self.percentage_used;
        for (at, count) in [
            (32, self.data_units_read),
            (48, self.data_units_written),
            (64, self.host_reads),
            (80, self.host_writes),
            (112, self.power_cycles),
            (128, self.power_on_hours),
            (160, self.media_errors),
            (176, self.error_log_entries),
        ] {
            b[at..at + 16].copy_from_slice(&count.to_le_bytes());
        }
    }
}
