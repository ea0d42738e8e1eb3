//! What commands answer.

use core::fmt::{self, Write as _};

use crate::bytes::{array_at, u32_at};

/// ASCII text of a fixed length, with blanks behind it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Text<const N: usize>([u8; N]);

impl<const N: usize> fmt::Display for Text<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.0.trim_ascii().iter();
        shown
            .filter(|byte| matches!(byte, b' '..=b'~'))
            .try_for_each(|byte| f.write_char(char::from(*byte)))
    }
}

impl<const N: usize> fmt::Debug for Text<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

/// Standard INQUIRY data, as far as a host needs it (SPC-5 §6.7.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inquiry {
    /// Peripheral qualifier: 0 when there is a device.
    pub qualifier: u8,
    /// Peripheral device type: 0 for a disk.
    pub device_type: u8,
    /// Vendor.
    pub vendor: Text<8>,
    /// Product.
    pub product: Text<16>,
    /// Revision.
    pub revision: Text<4>,
}

impl Inquiry {
    /// `None` when there are too few bytes.
    #[must_use]
    pub fn parse(data: &[u8]) -> Option<Inquiry> {
        data.get(..36)?;
        Some(Inquiry {
            qualifier: data[0] >> 5,
            device_type: data[0] & 0x1f,
            vendor: Text(array_at(data, 8)),
            product: Text(array_at(data, 16)),
            revision: Text(array_at(data, 32)),
        })
    }

    /// Whether it is a disk, and there.
    #[must_use]
    pub const fn is_disk(&self) -> bool {
        self.qualifier == 0 && self.device_type == 0
    }
}

/// What READ CAPACITY answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// Blocks.
    pub blocks: u64,
    /// Bytes of a block.
    pub block_len: u32,
}

impl Capacity {
    /// That of READ CAPACITY(10). `None` when there are too few bytes; `Some(None)` when there are too many blocks for it to tell.
    #[must_use]
    pub fn parse_10(data: &[u8]) -> Option<Option<Capacity>> {
        data.get(..8)?;
        let capacity = match u32_at(data, 0) {
            u32::MAX => None,
            last => Some(Capacity {
                blocks: u64::from(last) + 1,
                block_len: u32_at(data, 4),
            }),
        };
        Some(capacity)
    }

    /// That of READ CAPACITY(16). `None` when there are too few bytes, or blocks beyond what can be counted.
    #[must_use]
    pub fn parse_16(data: &[u8]) -> Option<Capacity> {
        data.get(..12)?;
        let last = u64::from_be_bytes(array_at(data, 0));
        Some(Capacity {
            blocks: last.checked_add(1)?,
            block_len: u32_at(data, 8),
        })
    }
}

/// What MODE SENSE(6) tells of a disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Modes {
    /// WP: nothing may be written.
    pub is_read_only: bool,
    /// WCE: what is written may be in a cache. `None`: not told.
    pub has_cache: Option<bool>,
}

impl Modes {
    /// `None` when there are too few bytes.
    #[must_use]
    pub fn parse(data: &[u8]) -> Option<Modes> {
        let &[len, _, device, descriptors] = data.first_chunk()?;
        let end = data.len().min(usize::from(len) + 1);
        let mut pages = data.get(4 + usize::from(descriptors)..end).unwrap_or(&[]);
        let mut has_cache = None;
        while let [code, rest @ ..] = pages {
            // A subpage has two bytes of length.
            let (page, later) = match (code & 0x40, rest) {
                (0, [len, rest @ ..]) => (rest, usize::from(*len)),
                (_, [_, high, low, rest @ ..]) => {
                    (rest, usize::from(u16::from_be_bytes([*high, *low])))
                }
                _ => break,
            };
            if code & 0x7f == 8
                && let Some(flags) = page.first()
            {
                has_cache = Some(flags & 0x04 != 0);
            }
            pages = page.get(later..).unwrap_or(&[]);
        }
        Some(Modes {
            is_read_only: device & 0x80 != 0,
            has_cache,
        })
    }
}

/// The page of vital product data that tells limits (SBC-4 §6.6.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockLimits {
    /// The most blocks of one command; 0 when there is no limit.
    pub max_transfer: u32,
}

impl BlockLimits {
    /// Number of the page.
    pub const PAGE: u8 = 0xb0;

    /// `None` when these bytes are not that page.
    #[must_use]
    pub fn parse(data: &[u8]) -> Option<BlockLimits> {
        data.get(..12)?;
        (data[1] == Self::PAGE).then(|| BlockLimits {
            max_transfer: u32_at(data, 8),
        })
    }
}
