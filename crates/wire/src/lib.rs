//! What is on the wire: parsers and builders of Ethernet, ARP, IPv4, IPv6, ICMP, TCP and TLS record
//! headers, the PDUs of NVMe/TCP and iSCSI, SCSI's commands, the messages of NBD, the Internet checksum, and TCP sequence numbers.
//!
//! Everything here is a pure function of bytes: no I/O, no clock, no allocation. A parser takes any bytes
//! and gives an owned, `Copy` representation or a [`ParseError`]; it never panics. An emitter writes a
//! representation into a buffer that must be long enough, and panics if it is not, since the caller chose it.
//!
//! The way in for a received frame is [`packet::classify`], or [`packet::parse`] where only TCP counts.

#![deny(unsafe_code)]
#![warn(missing_docs)]

mod bytes;
mod ecn;
mod error;
mod fields;
mod seq;

pub mod arp;
pub mod bulk;
pub mod checksum;
pub mod ethernet;
pub mod flow;
pub mod icmp;
pub mod ipv4;
pub mod ipv6;
pub mod iscsi;
pub mod nbd;
pub mod nvme;
pub mod packet;
pub mod scsi;
pub mod tcp;
pub mod tls;

pub use ecn::Ecn;
pub use error::ParseError;
pub use flow::{FlowKey, is_of_one_host};
pub use seq::SeqNum;
