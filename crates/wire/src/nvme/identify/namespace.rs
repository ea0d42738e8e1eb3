//! The Identify Namespace data structures (NVM 1.0c §4.1.5.1, Base 2.0c §5.17.2.8).

use super::LEN;
use crate::bytes::{array_at, put_u16_le, put_u32_le, put_u64_le, u16_le_at, u32_le_at, u64_le_at};
use crate::error::ParseError;

/// A format of logical blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct LbaFormat {
    /// Metadata bytes per block.
    pub metadata: u16,
    /// The block's size is 2^lbads bytes; at least 9.
    pub lbads: u8,
    /// Relative performance, 0 best.
    pub performance: u8,
}

/// Identify Namespace of the NVM command set, with the LBA format in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct NamespaceData {
    /// Size, blocks. 0: the namespace is not active.
    pub nsze: u64,
    /// Capacity, blocks.
    pub ncap: u64,
    /// Blocks in use.
    pub nuse: u64,
    /// Features. Bit 0: thin provisioning; bit 4: the preferred sizes below hold.
    pub nsfeat: u8,
    /// Bit 0: several controllers may have it at once.
    pub nmic: u8,
    /// What a deallocated block reads as. Bits 2:0: 1 is zeroes; bit 3: Write Zeroes may deallocate.
    pub dlfeat: u8,
    /// Preferred granularity of writes, blocks less one.
    pub npwg: u16,
    /// Preferred alignment of writes, blocks less one.
    pub npwa: u16,
    /// Preferred granularity of deallocation, blocks less one.
    pub npdg: u16,
    /// Preferred alignment of deallocation, blocks less one.
    pub npda: u16,
    /// Optimal size of a write, blocks less one.
    pub nows: u16,
    /// ANA group; 0 where ANA is not reported.
    pub anagrpid: u32,
    /// Bit 0: write protected now.
    pub nsattr: u8,
    /// Globally unique identifier; zero: none.
    pub nguid: [u8; 16],
    /// IEEE EUI-64; zero: none.
    pub eui64: [u8; 8],
    /// The format that the namespace has.
    pub format: LbaFormat,
}

impl NamespaceData {
    /// Parses an answer.
    ///
    /// # Errors
    /// If it is shorter than [`LEN`], and, for an active namespace, if its block size is below 512 bytes or above
    /// 2^31 (NVM 1.0c, Figure 98).
    pub fn parse(b: &[u8]) -> Result<NamespaceData, ParseError> {
        ParseError::require(b, LEN)?;
        let flbas = b[26];
        let index = usize::from(flbas & 0xf | (flbas & 0x60) >> 1);
        let at = 128 + 4 * index;
        let namespace = NamespaceData {
            nsze: u64_le_at(b, 0),
            ncap: u64_le_at(b, 8),
            nuse: u64_le_at(b, 16),
            nsfeat: b[24],
            nmic: b[30],
            dlfeat: b[33],
            npwg: u16_le_at(b, 64),
            npwa: u16_le_at(b, 66),
            npdg: u16_le_at(b, 68),
            npda: u16_le_at(b, 70),
            nows: u16_le_at(b, 72),
            anagrpid: u32_le_at(b, 92),
            nsattr: b[99],
            nguid: array_at(b, 104),
            eui64: array_at(b, 120),
            format: LbaFormat {
                metadata: u16_le_at(b, at),
                lbads: b[at + 2],
                performance: b[at + 3] & 3,
            },
        };
        if namespace.nsze > 0 && !(9..=31).contains(&namespace.format.lbads) {
            return Err(ParseError::BadValue(namespace.format.lbads.into()));
        }
        Ok(namespace)
    }

    /// Writes the answer into the first [`LEN`] bytes of `buffer`, with one LBA format.
    pub fn emit(&self, buffer: &mut [u8]) {
        let b = &mut buffer[..LEN];
        b.fill(0);
        put_u64_le(b, 0, self.nsze);
        put_u64_le(b, 8, self.ncap);
        put_u64_le(b, 16, self.nuse);
        b[24] = self.nsfeat;
        b[30] = self.nmic;
        b[33] = self.dlfeat;
        put_u16_le(b, 64, self.npwg);
        put_u16_le(b, 66, self.npwa);
        put_u16_le(b, 68, self.npdg);
        put_u16_le(b, 70, self.npda);
        put_u16_le(b, 72, self.nows);
        put_u32_le(b, 92, self.anagrpid);
        b[99] = self.nsattr;
        b[104..120].copy_from_slice(&self.nguid);
        b[120..128].copy_from_slice(&self.eui64);
        put_u16_le(b, 128, self.format.metadata);
        b[130] = self.format.lbads;
        b[131] = self.format.performance;
    }
}

/// What Identify Namespace says whatever the command set (Base 2.0c §5.17.2.8, Figure 280).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct IndependentNamespaceData {
    /// Features. Bit 4: rotational; bit 5: no volatile write cache.
    pub nsfeat: u8,
    /// Bit 0: several controllers may have it at once.
    pub nmic: u8,
    /// ANA group.
    pub anagrpid: u32,
    /// Bit 0: write protected now.
    pub nsattr: u8,
    /// Bit 0: ready.
    pub nstat: u8,
}

impl IndependentNamespaceData {
    /// Parses an answer.
    ///
    /// # Errors
    /// If it is shorter than [`LEN`].
    pub fn parse(b: &[u8]) -> Result<IndependentNamespaceData, ParseError> {
        ParseError::require(b, LEN)?;
        Ok(IndependentNamespaceData {
            nsfeat: b[0],
            nmic: b[1],
            anagrpid: u32_le_at(b, 4),
            nsattr: b[8],
            nstat: b[14],
        })
    }

    /// Writes the answer into the first [`LEN`] bytes of `buffer`.
    pub fn emit(&self, buffer: &mut [u8]) {
        let b = &mut buffer[..LEN];
        b.fill(0);
        b[0] = self.nsfeat;
        b[1] = self.nmic;
        put_u32_le(b, 4, self.anagrpid);
        b[8] = self.nsattr;
        b[14] = self.nstat;
    }
}
