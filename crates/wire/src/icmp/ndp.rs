//! Neighbour discovery for IPv6 (RFC 4861).

mod options;

pub use options::{Options, PrefixInformation};

use core::net::Ipv6Addr;

use crate::bytes::{array_at, put_u16, put_u32, u16_at, u32_at};
use crate::error::ParseError;
use crate::ethernet::MacAddr;

/// What the hop limit of all these messages must be, so that none comes from beyond the link.
pub const HOP_LIMIT: u8 = 255;

/// A message of neighbour discovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// Who has `target`?
    NeighborSolicitation {
        /// The address asked for; never a multicast one.
        target: Ipv6Addr,
        /// The asker's MAC address; none in duplicate address detection.
        source_mac: Option<MacAddr>,
    },
    /// The sender has `target`.
    NeighborAdvertisement {
        /// The address that was asked for.
        target: Ipv6Addr,
        /// Its MAC address.
        target_mac: Option<MacAddr>,
        /// The sender is a router.
        router: bool,
        /// It answers a solicitation.
        solicited: bool,
        /// It replaces what the receiver knows already.
        replaces: bool,
    },
    /// Is there a router?
    RouterSolicitation {
        /// The asker's MAC address.
        source_mac: Option<MacAddr>,
    },
    /// Here is one.
    RouterAdvertisement(RouterAdvertisement),
}

/// What a router says of the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouterAdvertisement {
    /// The hop limit to use; 0: not said.
    pub hop_limit: u8,
    /// Addresses are to be had by DHCPv6.
    pub managed: bool,
    /// Other settings are to be had by DHCPv6.
    pub other_configuration: bool,
    /// Seconds for which it is a default router; 0: it is not one.
    pub router_lifetime: u16,
    /// Milliseconds for which a neighbour counts as reachable; 0: not said.
    pub reachable_time: u32,
    /// Milliseconds between solicitations; 0: not said.
    pub retransmit_timer: u32,
    /// The router's MAC address, the link's MTU, and its prefixes.
    pub options: Options,
}

impl Message {
    /// Parses a message, which is all of `bytes`, ICMP header included. The caller has checked the checksum
    /// and the hop limit.
    ///
    /// # Errors
    /// When it is cut short, of another type, or breaks RFC 4861.
    pub fn parse(bytes: &[u8]) -> Result<Message, ParseError> {
        let kind = *bytes
            .first()
            .ok_or(ParseError::Truncated { needed: 8, have: 0 })?;
        let fixed_len = fixed_len(kind).ok_or(ParseError::BadValue(u32::from(kind)))?;
        ParseError::require(bytes, fixed_len)?;
        let options = Options::parse(&bytes[fixed_len..])?;
        Ok(match kind {
            NEIGHBOR_SOLICITATION => Message::NeighborSolicitation {
                target: parse_target(bytes)?,
                source_mac: options.source_mac,
            },
            NEIGHBOR_ADVERTISEMENT => Message::NeighborAdvertisement {
                target: parse_target(bytes)?,
                target_mac: options.target_mac,
                router: bytes[4] & ROUTER != 0,
                solicited: bytes[4] & SOLICITED != 0,
                replaces: bytes[4] & OVERRIDE != 0,
            },
            ROUTER_SOLICITATION => Message::RouterSolicitation {
                source_mac: options.source_mac,
            },
            _ => Message::RouterAdvertisement(RouterAdvertisement {
                hop_limit: bytes[4],
                managed: bytes[5] & MANAGED != 0,
                other_configuration: bytes[5] & OTHER_CONFIGURATION != 0,
                router_lifetime: u16_at(bytes, 6),
                reachable_time: u32_at(bytes, 8),
                retransmit_timer: u32_at(bytes, 12),
                options,
            }),
        })
    }

    /// Bytes of the message when emitted, ICMP header included.
    #[must_use]
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        fixed_len(self.kind()).expect("a message's own type is known") + self.options().len()
    }

    /// Writes the message at the front of `buffer`, checksum 0; gives its length.
    pub fn emit(&self, buffer: &mut [u8]) -> usize {
        let len = self.len();
        let buffer = &mut buffer[..len];
        buffer[0] = self.kind();
        buffer[1..HEADER_LEN].fill(0);
        match *self {
            Message::NeighborSolicitation { target, .. } => {
                buffer[8..24].copy_from_slice(&target.octets());
            }
            Message::NeighborAdvertisement {
                target,
                router,
                solicited,
                replaces,
                ..
            } => {
                buffer[4] =
                    bit(router, ROUTER) | bit(solicited, SOLICITED) | bit(replaces, OVERRIDE);
                buffer[8..24].copy_from_slice(&target.octets());
            }
            Message::RouterSolicitation { .. } => {}
            Message::RouterAdvertisement(router) => {
                buffer[4] = router.hop_limit;
                buffer[5] = bit(router.managed, MANAGED)
                    | bit(router.other_configuration, OTHER_CONFIGURATION);
                put_u16(buffer, 6, router.router_lifetime);
                put_u32(buffer, 8, router.reachable_time);
                put_u32(buffer, 12, router.retransmit_timer);
            }
        }
        let options = self.options();
        options.emit(&mut buffer[len - options.len()..]);
        len
    }

    pub(super) fn kind(&self) -> u8 {
        match self {
            Message::NeighborSolicitation { .. } => NEIGHBOR_SOLICITATION,
            Message::NeighborAdvertisement { .. } => NEIGHBOR_ADVERTISEMENT,
            Message::RouterSolicitation { .. } => ROUTER_SOLICITATION,
            Message::RouterAdvertisement(_) => ROUTER_ADVERTISEMENT,
        }
    }

    fn options(&self) -> Options {
        match *self {
            Message::NeighborSolicitation { source_mac, .. }
            | Message::RouterSolicitation { source_mac } => Options {
                source_mac,
                ..Options::default()
            },
            Message::NeighborAdvertisement { target_mac, .. } => Options {
                target_mac,
                ..Options::default()
            },
            Message::RouterAdvertisement(router) => router.options,
        }
    }
}

/// Whether an ICMPv6 type is one of this module's.
pub(super) fn is_message(kind: u8) -> bool {
    fixed_len(kind).is_some()
}

/// Bytes before the options.
fn fixed_len(kind: u8) -> Option<usize> {
    match kind {
        ROUTER_SOLICITATION => Some(HEADER_LEN),
        ROUTER_ADVERTISEMENT => Some(HEADER_LEN + 8),
        NEIGHBOR_SOLICITATION | NEIGHBOR_ADVERTISEMENT => Some(HEADER_LEN + 16),
        _ => None,
    }
}

/// RFC 4861 §7.1.1, §7.1.2: the target address is not a multicast address.
fn parse_target(bytes: &[u8]) -> Result<Ipv6Addr, ParseError> {
    let target = Ipv6Addr::from(array_at::<16>(bytes, 8));
    if target.is_multicast() {
        return Err(ParseError::BadValue(u32_at(bytes, 8)));
    }
    Ok(target)
}

fn bit(set: bool, bit: u8) -> u8 {
    if set { bit } else { 0 }
}

const HEADER_LEN: usize = super::HEADER_LEN;
const ROUTER_SOLICITATION: u8 = 133;
const ROUTER_ADVERTISEMENT: u8 = 134;
const NEIGHBOR_SOLICITATION: u8 = 135;
const NEIGHBOR_ADVERTISEMENT: u8 = 136;

const ROUTER: u8 = 0x80;
const SOLICITED: u8 = 0x40;
const OVERRIDE: u8 = 0x20;
const MANAGED: u8 = 0x80;
const OTHER_CONFIGURATION: u8 = 0x40;
