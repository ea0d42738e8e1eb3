//! SGL descriptors that NVMe/TCP uses (NVMe Base 2.0 §4.1.2, NVMe/TCP 1.0 §3.3.2).

use crate::bytes::{array_at, put_u32_le, put_u64_le, u32_le_at, u64_le_at};
use crate::fields::{Field, Le};

/// SGL Data Block, subtype Offset: in the capsule.
const IN_CAPSULE: u8 = 0x01;
/// Transport SGL Data Block, subtype A: the transport moves the data.
const TRANSPORT: u8 = 0x5a;

/// Where the data of a command is: the one SGL descriptor in its entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DataPointer {
    /// In the capsule, `offset` bytes behind the in-capsule data offset. From host to controller only.
    InCapsule {
        /// Bytes from the start of the capsule's data.
        offset: u64,
        /// Bytes of data.
        len: u32,
    },
    /// In data PDUs: C2HData, or H2CData after an R2T.
    Transport {
        /// Bytes of data.
        len: u32,
    },
    /// A descriptor that NVMe/TCP doesn't have; the bytes as they are.
    Other([u8; 16]),
}

impl DataPointer {
    /// Bytes of a descriptor.
    pub const LEN: usize = 16;

    /// What a command without data carries: a transport data block of no bytes.
    pub const NONE: DataPointer = DataPointer::Transport { len: 0 };

    /// Reads a descriptor. What is unknown is kept as [`DataPointer::Other`].
    #[must_use]
    pub fn parse(bytes: &[u8; Self::LEN]) -> DataPointer {
        let len = u32_le_at(bytes, 8);
        match bytes[15] {
            IN_CAPSULE => DataPointer::InCapsule {
                offset: u64_le_at(bytes, 0),
                len,
            },
            TRANSPORT => DataPointer::Transport { len },
            _ => DataPointer::Other(*bytes),
        }
    }

    /// The descriptor's bytes.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        match *self {
            DataPointer::InCapsule { offset, len } => {
                put_u64_le(&mut bytes, 0, offset);
                put_u32_le(&mut bytes, 8, len);
                bytes[15] = IN_CAPSULE;
            }
            DataPointer::Transport { len } => {
                put_u32_le(&mut bytes, 8, len);
                bytes[15] = TRANSPORT;
            }
            DataPointer::Other(other) => bytes = other,
        }
        bytes
    }

    /// Bytes of data that it describes; none for a descriptor that NVMe/TCP doesn't have.
    #[must_use]
    pub const fn len(&self) -> Option<u32> {
        match *self {
            DataPointer::InCapsule { len, .. } | DataPointer::Transport { len } => Some(len),
            DataPointer::Other(_) => None,
        }
    }

    /// Whether it describes no data.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        matches!(self.len(), Some(0))
    }
}

impl Field<Le> for DataPointer {
    fn get(bytes: &[u8], at: usize) -> DataPointer {
        DataPointer::parse(&array_at(bytes, at))
    }

    fn put(&self, bytes: &mut [u8], at: usize) {
        bytes[at..at + DataPointer::LEN].copy_from_slice(&self.to_bytes());
    }
}
