//! Ethernet II frames and 802.1Q tags.

use core::fmt;
use core::net::IpAddr;
use core::str::FromStr;

use crate::bytes::{array_at, put_u16, u16_at};
use crate::error::ParseError;

/// Bytes of an untagged header.
pub const HEADER_LEN: usize = 14;
/// Bytes of one 802.1Q tag.
pub const TAG_LEN: usize = 4;
/// Most tags that are passed over.
const MAX_TAGS: usize = 2;
/// Bytes of the type of what an Ethernet header or a tag is before.
const TYPE_LEN: usize = 2;
/// The bits of a tag that number its VLAN, behind its type.
const VLAN_NUMBER: u16 = 0xfff;

/// A 48-bit MAC address.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct MacAddr(pub [u8; 6]);

impl MacAddr {
    /// ff:ff:ff:ff:ff:ff.
    pub const BROADCAST: MacAddr = MacAddr([0xff; 6]);
    /// 00:00:00:00:00:00.
    pub const ZERO: MacAddr = MacAddr([0; 6]);

    /// A locally administered address of one station (IEEE 802-2014 §8.4), made of the lower 46 bits of `seed`.
    #[must_use]
    pub fn local(seed: u64) -> MacAddr {
        let [_, _, a, b, c, d, e, f] = seed.to_be_bytes();
        MacAddr([(a & 0xfc) | 0x02, b, c, d, e, f])
    }

    /// Whether it is the broadcast address.
    #[inline]
    #[must_use]
    pub fn is_broadcast(self) -> bool {
        self == MacAddr::BROADCAST
    }

    /// Whether it addresses a group; the broadcast address does.
    #[inline]
    #[must_use]
    pub fn is_multicast(self) -> bool {
        self.0[0] & 1 != 0
    }

    /// Whether it can be the address of one station.
    #[inline]
    #[must_use]
    pub fn is_unicast(self) -> bool {
        !self.is_multicast() && self != MacAddr::ZERO
    }

    /// The group address of an IP multicast or broadcast address; `None` for a unicast one, which ARP or
    /// neighbour discovery must resolve (RFC 1112 §6.4, RFC 2464 §7).
    #[must_use]
    pub fn of_group(address: IpAddr) -> Option<MacAddr> {
        match address {
            IpAddr::V4(v4) if v4.is_broadcast() => Some(MacAddr::BROADCAST),
            IpAddr::V4(v4) if v4.is_multicast() => {
                let [_, b, c, d] = v4.octets();
                Some(MacAddr([0x01, 0x00, 0x5e, b & 0x7f, c, d]))
            }
            IpAddr::V6(v6) if v6.is_multicast() => {
                let [.., a, b, c, d] = v6.octets();
                Some(MacAddr([0x33, 0x33, a, b, c, d]))
            }
            _ => None,
        }
    }
}

impl MacAddr {
    /// As a number, its first byte the highest.
    #[inline]
    #[must_use]
    pub fn number(self) -> u64 {
        let [a, b, c, d, e, f] = self.0;
        u64::from_be_bytes([0, 0, a, b, c, d, e, f])
    }
}

impl FromStr for MacAddr {
    type Err = ParseMacError;

    /// Six pairs of hexadecimal digits with `:` or `-` between them.
    fn from_str(text: &str) -> Result<MacAddr, ParseMacError> {
        let mut mac = [0; 6];
        let mut pairs = text.split([':', '-']);
        for octet in &mut mac {
            let pair = pairs
                .next()
                .filter(|pair| {
                    pair.len() == 2 && pair.bytes().all(|digit| digit.is_ascii_hexdigit())
                })
                .ok_or(ParseMacError)?;
            *octet = u8::from_str_radix(pair, 16).map_err(|_| ParseMacError)?;
        }
        pairs
            .next()
            .is_none()
            .then_some(MacAddr(mac))
            .ok_or(ParseMacError)
    }
}

/// A text is no MAC address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a MAC address; write six hexadecimal pairs such as 02:00:00:00:00:01")]
pub struct ParseMacError;

impl fmt::Display for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl fmt::Debug for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What a frame carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EtherType(pub u16);

impl EtherType {
    /// IPv4.
    pub const IPV4: EtherType = EtherType(0x0800);
    /// ARP.
    pub const ARP: EtherType = EtherType(0x0806);
    /// IPv6.
    pub const IPV6: EtherType = EtherType(0x86dd);
    /// An 802.1Q tag.
    pub const VLAN: EtherType = EtherType(0x8100);
    /// An 802.1ad service tag.
    pub const SERVICE_VLAN: EtherType = EtherType(0x88a8);

    #[inline]
    fn is_tag(self) -> bool {
        self == EtherType::VLAN || self == EtherType::SERVICE_VLAN
    }
}

/// An Ethernet header. Tags are read over on receive and never sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The station or group that it is for.
    pub destination: MacAddr,
    /// The station that sent it.
    pub source: MacAddr,
    /// What comes after the header and its tags.
    pub ether_type: EtherType,
}

impl Header {
    /// Parses the header, passing over up to two tags. Gives it with its length.
    ///
    /// # Errors
    /// When it is cut short.
    #[inline]
    pub fn parse(frame: &[u8]) -> Result<(Header, usize), ParseError> {
        let (ether_type, len) = parse_ether_type(frame)?;
        let destination = MacAddr(array_at(frame, 0));
        let source = MacAddr(array_at(frame, 6));
        Ok((
            Header {
                destination,
                source,
                ether_type,
            },
            len,
        ))
    }

    /// Writes the header at the front of `buffer`; gives its length.
    #[inline]
    pub fn emit(&self, buffer: &mut [u8]) -> usize {
        buffer[..6].copy_from_slice(&self.destination.0);
        buffer[6..12].copy_from_slice(&self.source.0);
        put_u16(buffer, 12, self.ether_type.0);
        HEADER_LEN
    }
}

/// The EtherType behind up to two tags, and where its payload begins.
#[inline]
pub(crate) fn parse_ether_type(frame: &[u8]) -> Result<(EtherType, usize), ParseError> {
    let mut len = HEADER_LEN;
    loop {
        ParseError::require(frame, len)?;
        let ether_type = EtherType(u16_at(frame, len - 2));
        if !ether_type.is_tag() || len == HEADER_LEN + MAX_TAGS * TAG_LEN {
            return Ok((ether_type, len));
        }
        len += TAG_LEN;
    }
}

/// Whether a frame has a tag, of a VLAN or of a priority alone.
#[inline]
#[must_use]
pub fn is_tagged(frame: &[u8]) -> bool {
    frame.len() >= HEADER_LEN && EtherType(u16_at(frame, HEADER_LEN - TYPE_LEN)).is_tag()
}

/// Whether a frame is of a VLAN, by one of up to two tags. One with the number 0 has a priority alone (IEEE 802.1Q-2018 §9.6): its frame
/// is of no VLAN.
#[inline]
#[must_use]
pub fn is_of_vlan(frame: &[u8]) -> bool {
    let tags = frame.get(HEADER_LEN - TYPE_LEN..).unwrap_or_default();
    let mut tags = (tags.as_chunks::<TAG_LEN>().0.iter())
        .take_while(|tag| EtherType(u16_at(*tag, 0)).is_tag())
        .take(MAX_TAGS);
    tags.any(|tag| u16_at(tag, TYPE_LEN) & VLAN_NUMBER != 0)
}

/// Whether a frame is for one receiver, not for a group of them.
#[inline]
#[must_use]
pub fn is_for_one(frame: &[u8]) -> bool {
    destination(frame).is_some_and(MacAddr::is_unicast)
}

/// The destination of a frame, all that a switch needs. `None` for a frame too short to have one.
#[inline]
#[must_use]
pub fn destination(frame: &[u8]) -> Option<MacAddr> {
    frame.first_chunk().map(|mac| MacAddr(*mac))
}
