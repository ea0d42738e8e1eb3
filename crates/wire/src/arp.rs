//! ARP for IPv4 over Ethernet (RFC 826).

use core::net::Ipv4Addr;

use crate::bytes::{array_at, put_u16, u16_at};
use crate::error::ParseError;
use crate::ethernet::{EtherType, MacAddr};

/// Bytes of a packet.
pub const PACKET_LEN: usize = 28;

/// What an ARP packet is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Who has the target's address?
    Request,
    /// The sender has it.
    Reply,
}

/// An ARP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Request or reply.
    pub operation: Operation,
    /// The sender's MAC address.
    pub sender_mac: MacAddr,
    /// The sender's IPv4 address; 0.0.0.0 in a probe (RFC 5227).
    pub sender_ip: Ipv4Addr,
    /// The target's MAC address; zero in a request.
    pub target_mac: MacAddr,
    /// The target's IPv4 address.
    pub target_ip: Ipv4Addr,
}

impl Packet {
    /// Parses the packet at the front of `bytes`; padding may follow.
    ///
    /// # Errors
    /// When it is cut short, or is not about IPv4 over Ethernet.
    pub fn parse(bytes: &[u8]) -> Result<Packet, ParseError> {
        ParseError::require(bytes, PACKET_LEN)?;
        for (at, expected) in FIXED_FIELDS {
            if u16_at(bytes, at) != expected {
                return Err(ParseError::BadValue(u32::from(u16_at(bytes, at))));
            }
        }
        let operation = match u16_at(bytes, 6) {
            REQUEST => Operation::Request,
            REPLY => Operation::Reply,
            other => return Err(ParseError::BadValue(u32::from(other))),
        };
        Ok(Packet {
            operation,
            sender_mac: MacAddr(array_at(bytes, 8)),
            sender_ip: Ipv4Addr::from(array_at::<4>(bytes, 14)),
            target_mac: MacAddr(array_at(bytes, 18)),
            target_ip: Ipv4Addr::from(array_at::<4>(bytes, 24)),
        })
    }

    /// Writes the packet at the front of `buffer`; gives its length.
    pub fn emit(&self, buffer: &mut [u8]) -> usize {
        for (at, value) in FIXED_FIELDS {
            put_u16(buffer, at, value);
        }
        let operation = match self.operation {
            Operation::Request => REQUEST,
            Operation::Reply => REPLY,
        };
        put_u16(buffer, 6, operation);
        buffer[8..14].copy_from_slice(&self.sender_mac.0);
        buffer[14..18].copy_from_slice(&self.sender_ip.octets());
        buffer[18..24].copy_from_slice(&self.target_mac.0);
        buffer[24..28].copy_from_slice(&self.target_ip.octets());
        PACKET_LEN
    }
}

const REQUEST: u16 = 1;
const REPLY: u16 = 2;

/// Hardware type Ethernet, protocol type IPv4, their address lengths.
const FIXED_FIELDS: [(usize, u16); 3] = [(0, 1), (2, EtherType::IPV4.0), (4, 0x0604)];
