//! Command descriptor blocks.

use crate::bytes::{put_u16, put_u32};

/// A command descriptor block of up to 16 bytes; what is behind a shorter one is zero.
pub type Cdb = [u8; 16];

/// Makes command descriptor blocks.
pub mod command {
    use super::{Cdb, put_u16, put_u32};

    /// TEST UNIT READY.
    #[must_use]
    pub const fn test_unit_ready() -> Cdb {
        [0; 16]
    }

    /// INQUIRY, of the standard data or of a page of vital product data.
    #[must_use]
    pub fn inquiry(page: Option<u8>, room: u16) -> Cdb {
        let mut cdb = [0; 16];
        cdb[0] = 0x12;
        if let Some(page) = page {
            (cdb[1], cdb[2]) = (1, page);
        }
        put_u16(&mut cdb, 3, room);
        cdb
    }

    /// MODE SENSE(6) of all pages, without block descriptors.
    #[must_use]
    pub fn mode_sense(room: u8) -> Cdb {
        let mut cdb = [0; 16];
        (cdb[0], cdb[1], cdb[2], cdb[4]) = (0x1a, 0x08, 0x3f, room);
        cdb
    }

    /// READ CAPACITY(10), whose answer has 8 bytes.
    #[must_use]
    pub const fn read_capacity_10() -> Cdb {
        let mut cdb = [0; 16];
        cdb[0] = 0x25;
        cdb
    }

    /// READ CAPACITY(16).
    #[must_use]
    pub fn read_capacity_16(room: u32) -> Cdb {
        let mut cdb = [0; 16];
        (cdb[0], cdb[1]) = (0x9e, 0x10);
        put_u32(&mut cdb, 10, room);
        cdb
    }

    /// READ of so many blocks from `block` on: READ(10) where that can name them, else READ(16).
    #[must_use]
    pub fn read(block: u64, count: u32) -> Cdb {
        transfer(0x28, 0x88, block, count)
    }

    /// WRITE of so many blocks from `block` on: WRITE(10) where that can name them, else WRITE(16).
    #[must_use]
    pub fn write(block: u64, count: u32) -> Cdb {
        transfer(0x2a, 0x8a, block, count)
    }

    /// SYNCHRONIZE CACHE(10) of all blocks.
    #[must_use]
    pub const fn synchronize_cache() -> Cdb {
        let mut cdb = [0; 16];
        cdb[0] = 0x35;
        cdb
    }

    fn transfer(short: u8, long: u8, block: u64, count: u32) -> Cdb {
        let mut cdb = [0; 16];
        match (u32::try_from(block), u16::try_from(count)) {
            (Ok(block), Ok(count)) => {
                cdb[0] = short;
                put_u32(&mut cdb, 2, block);
                put_u16(&mut cdb, 7, count);
            }
            _ => {
                cdb[0] = long;
                cdb[2..10].copy_from_slice(&block.to_be_bytes());
                put_u32(&mut cdb, 10, count);
            }
        }
        cdb
    }
}
