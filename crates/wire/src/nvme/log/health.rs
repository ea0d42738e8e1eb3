//! The error log and SMART / health (Base 2.0c §5.16.1.2, §5.16.1.3).

use crate::fields::{fields, page};

fields! {
    Le:
    /// An entry of the error log; all zero for an empty one.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
    pub struct ErrorEntry {
        /// Counts errors of the controller from 1; 0: no entry.
        count: u64 = 0,
        /// The submission queue of the command.
        sqid: u16 = 8,
        /// The command.
        cid: u16 = 10,
        /// Its status field, with the phase bit's place: bits 15:1 of the completion's last word.
        status: u16 = 12,
        /// Where in the command the error is: byte in bits 7:0, bit in bits 10:8; 0xffff: not of a parameter.
        location: u16 = 14,
        /// The first block of the error.
        lba: u64 = 16,
        /// The namespace.
        nsid: u32 = 24,
    }
}

impl ErrorEntry {
    /// Bytes of an entry.
    pub const LEN: usize = 64;
}

page!(ErrorEntry, ErrorEntry::LEN);

fields! {
    Le:
    /// SMART / Health Information.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
    pub struct HealthLog {
        /// Bits of what is wrong; 0: nothing.
        critical_warning: u8 = 0,
        /// Temperature, kelvin.
        temperature: u16 = 1,
        /// Spare capacity left, percent.
        available_spare: u8 = 3,
        /// The spare capacity below which a warning is given, percent.
        spare_threshold: u8 = 4,
        /// Endurance used, percent.
        percentage_used: u8 = 5,
        /// Data read, in thousands of 512 bytes, rounded up.
        data_units_read: u128 = 32,
        /// Data written, in thousands of 512 bytes, rounded up.
        data_units_written: u128 = 48,
        /// Read and Compare commands.
        host_reads: u128 = 64,
        /// Write commands.
        host_writes: u128 = 80,
        /// Times it was switched on.
        power_cycles: u128 = 112,
        /// Hours that it was on.
        power_on_hours: u128 = 128,
        /// Errors of the media that were not corrected.
        media_errors: u128 = 160,
        /// Entries ever made in the error log.
        error_log_entries: u128 = 176,
    }
}

impl HealthLog {
    /// Bytes of the page.
    pub const LEN: usize = 512;

    /// Data units for `bytes`: thousands of 512 bytes, rounded up (§5.16.1.3).
    #[must_use]
    pub const fn data_units(bytes: u128) -> u128 {
        bytes.div_ceil(512_000)
    }
}

page!(HealthLog, HealthLog::LEN);
