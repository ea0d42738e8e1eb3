//! How a function's received packets are hashed and spread over its queues, as its host sets it.

use zerocopy::{FromZeros, IntoBytes};

use super::error::ErrorCode;
use super::layout;

/// Bytes of the key of a Toeplitz hash: 32 bits more than its longest input has.
pub const RSS_KEY_BYTES: usize = 40;
/// Entries of the indirection table.
pub const RSS_ENTRIES: usize = 128;
/// Bytes of [`RssSettings`] in memory.
pub const RSS_BYTES: usize = size_of::<layout::RssSettings>();

/// What a Toeplitz hash covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum HashType {
    /// IPv4 addresses.
    Ipv4 = 1,
    /// These, and the ports of TCP.
    TcpIpv4 = 2,
    /// These, and the ports of UDP.
    UdpIpv4 = 4,
    /// IPv6 addresses.
    Ipv6 = 8,
    /// These, and the ports of TCP.
    TcpIpv6 = 16,
    /// These, and the ports of UDP.
    UdpIpv6 = 32,
}

impl HashType {
    /// The type of this number.
    #[inline]
    pub fn from_byte(byte: u8) -> Option<HashType> {
        Some(match byte {
            1 => HashType::Ipv4,
            2 => HashType::TcpIpv4,
            4 => HashType::UdpIpv4,
            8 => HashType::Ipv6,
            16 => HashType::TcpIpv6,
            32 => HashType::UdpIpv6,
            _ => return None,
        })
    }
}

/// Types of hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HashTypes(u32);

impl HashTypes {
    /// All of them.
    pub const ALL: HashTypes = HashTypes(63);
    /// Not one: nothing is hashed.
    pub const NONE: HashTypes = HashTypes(0);

    /// These, and that one.
    #[must_use]
    pub const fn with(self, of: HashType) -> HashTypes {
        HashTypes(self.0 | of as u32)
    }

    /// Whether it is among them.
    #[inline]
    #[must_use]
    pub const fn contains(self, of: HashType) -> bool {
        self.0 & of as u32 != 0
    }
}

/// Key of a Toeplitz hash. With it a peer can choose flows that share a queue, so it is not printed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct RssKey(pub [u8; RSS_KEY_BYTES]);

impl std::fmt::Debug for RssKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RssKey(secret)")
    }
}

/// How a function's received packets are hashed and spread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RssSettings {
    /// Types of hash that are made. A packet of TCP or UDP whose ports are not hashed counts as any of its IP version.
    pub types: HashTypes,
    /// Key of the hash.
    pub key: RssKey,
    /// Queues, by the lowest bits of the hash.
    pub table: [u16; RSS_ENTRIES],
}

impl RssSettings {
    /// As bytes in memory.
    #[must_use]
    pub fn encode(&self) -> [u8; RSS_BYTES] {
        let image = layout::RssSettings {
            types: self.types.0,
            key: self.key.0,
            table: self.table,
            ..FromZeros::new_zeroed()
        };
        zerocopy::transmute!(image)
    }

    /// What a host has written.
    ///
    /// # Errors
    /// A type of hash that there is not, bytes that are not zero, or an entry that is not below `queues`.
    pub(crate) fn decode(bytes: &[u8; RSS_BYTES], queues: u16) -> Result<RssSettings, ErrorCode> {
        let mut image: layout::RssSettings = FromZeros::new_zeroed();
        image.as_mut_bytes().copy_from_slice(bytes);
        let is_known = image.types & !HashTypes::ALL.0 == 0 && image._0 == [0; 4];
        if !is_known || image.table.iter().any(|queue| *queue >= queues) {
            return Err(ErrorCode::BadParameters);
        }
        Ok(RssSettings {
            types: HashTypes(image.types),
            key: RssKey(image.key),
            table: image.table,
        })
    }
}
