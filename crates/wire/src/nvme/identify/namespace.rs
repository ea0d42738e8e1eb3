//! The Identify Namespace data structures (NVM 1.0c §4.1.5.1, Base 2.0c §5.17.2.8).

use super::LEN;
use crate::error::ParseError;
use crate::fields::{Bits, fields, page};

fields! {
    Le:
    /// A format of logical blocks.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
    pub struct LbaFormat {
        /// Metadata bytes per block.
        metadata: u16 = 0,
        /// The block's size is 2^lbads bytes, at least 512; 0: the format is not supported.
        lbads: u8 = 2,
        /// Relative performance, 0 best.
        performance: u8 = Bits(3, 3),
    }
}

fields! {
    Le:
    /// Identify Namespace of the NVM command set, with the LBA format in use.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
    pub struct NamespaceData {
        /// Size, blocks. 0: the namespace is not active.
        nsze: u64 = 0,
        /// Capacity, blocks.
        ncap: u64 = 8,
        /// Blocks in use.
        nuse: u64 = 16,
        /// Features. Bit 0: thin provisioning; bit 4: the preferred sizes below hold.
        nsfeat: u8 = 24,
        /// Bit 0: several controllers may have it at once.
        nmic: u8 = 30,
        /// What a deallocated block reads as. Bits 2:0: 1 is zeroes; bit 3: Write Zeroes may deallocate.
        dlfeat: u8 = 33,
        /// Preferred granularity of writes, blocks less one.
        npwg: u16 = 64,
        /// Preferred alignment of writes, blocks less one.
        npwa: u16 = 66,
        /// Preferred granularity of deallocation, blocks less one.
        npdg: u16 = 68,
        /// Preferred alignment of deallocation, blocks less one.
        npda: u16 = 70,
        /// Optimal size of a write, blocks less one.
        nows: u16 = 72,
        /// ANA group; 0 where ANA is not reported.
        anagrpid: u32 = 92,
        /// Bit 0: write protected now.
        nsattr: u8 = 99,
        /// Globally unique identifier; zero: none.
        nguid: [u8; 16] = 104,
        /// IEEE EUI-64; zero: none.
        eui64: [u8; 8] = 120,
        ;
        /// The format that the namespace has.
        format: LbaFormat,
    }
}

impl NamespaceData {
    /// Parses an answer.
    ///
    /// # Errors
    /// If it is shorter than [`LEN`].
    pub fn parse(b: &[u8]) -> Result<NamespaceData, ParseError> {
        ParseError::require(b, LEN)?;
        let flbas = b[26];
        let index = usize::from(flbas & 0xf | (flbas & 0x60) >> 1);
        let format = LbaFormat::read(&b[128 + 4 * index..]);
        Ok(NamespaceData::read(b, format))
    }

    /// Writes the answer into the first [`LEN`] bytes of `buffer`, with one LBA format.
    pub fn emit(&self, buffer: &mut [u8]) {
        let b = &mut buffer[..LEN];
        b.fill(0);
        self.write(b);
        self.format.write(&mut b[128..]);
    }
}

fields! {
    Le:
    /// What Identify Namespace says whatever the command set (Base 2.0c §5.17.2.8, Figure 280).
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
    pub struct IndependentNamespaceData {
        /// Features. Bit 4: rotational; bit 5: no volatile write cache.
        nsfeat: u8 = 0,
        /// Bit 0: several controllers may have it at once.
        nmic: u8 = 1,
        /// ANA group.
        anagrpid: u32 = 4,
        /// Bit 0: write protected now.
        nsattr: u8 = 8,
        /// Bit 0: ready.
        nstat: u8 = 14,
    }
}

page!(IndependentNamespaceData, LEN);
