//! The discovery log (Base 2.0c §5.16.1.23; for TCP, NVMe/TCP 1.0 §3.1).

use core::net::IpAddr;

use crate::bytes::{put_u64_le, u16_le_at, u64_le_at};
use crate::error::ParseError;
use crate::fields::{Bits, field, fields};
use crate::nvme::Nqn;

const TRSVCID: core::ops::Range<usize> = 32..64;
const TRADDR: core::ops::Range<usize> = 512..768;

/// What stands before the entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiscoveryHeader {
    /// Changes whenever the log does; a reader that took several commands compares it (§5.16.1.23).
    pub generation: u64,
    /// Entries that follow.
    pub records: u64,
}

impl DiscoveryHeader {
    /// Bytes of the header.
    pub const LEN: usize = 1024;

    /// Parses a header.
    ///
    /// # Errors
    /// If it is shorter than 16 bytes, or with [`ParseError::BadValue`] if the entries have another format than ours
    /// (0).
    pub fn parse(b: &[u8]) -> Result<DiscoveryHeader, ParseError> {
        ParseError::require(b, 18)?;
        match u16_le_at(b, 16) {
            0 => Ok(DiscoveryHeader {
                generation: u64_le_at(b, 0),
                records: u64_le_at(b, 8),
            }),
            format => Err(ParseError::BadValue(format.into())),
        }
    }

    /// Writes the header into the first [`DiscoveryHeader::LEN`] bytes of `buffer`.
    pub fn emit(&self, buffer: &mut [u8]) {
        let b = &mut buffer[..DiscoveryHeader::LEN];
        b.fill(0);
        put_u64_le(b, 0, self.generation);
        put_u64_le(b, 8, self.records);
    }
}

/// What an entry names: the SUBTYPE field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SubsystemType(pub u8);

impl SubsystemType {
    /// Another discovery subsystem.
    pub const REFERRAL: SubsystemType = SubsystemType(1);
    /// A subsystem with namespaces.
    pub const NVM: SubsystemType = SubsystemType(2);
    /// The discovery subsystem that gives this log.
    pub const CURRENT: SubsystemType = SubsystemType(3);
}

/// The family of an entry's address: the ADRFAM field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AddressFamily(pub u8);

impl AddressFamily {
    /// IPv4.
    pub const IPV4: AddressFamily = AddressFamily(1);
    /// IPv6.
    pub const IPV6: AddressFamily = AddressFamily(2);
}

/// Whether a secure channel is asked for: bits 1:0 of the TREQ field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SecureChannel(pub u8);

impl SecureChannel {
    /// Not specified.
    pub const NOT_SPECIFIED: SecureChannel = SecureChannel(0);
    /// Required.
    pub const REQUIRED: SecureChannel = SecureChannel(1);
    /// Not required.
    pub const NOT_REQUIRED: SecureChannel = SecureChannel(2);
}

/// What secures a TCP connection: the SECTYPE field (NVMe/TCP 1.0 §3.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SecurityType(pub u8);

impl SecurityType {
    /// Nothing.
    pub const NONE: SecurityType = SecurityType(0);
    /// TLS 1.2.
    pub const TLS12: SecurityType = SecurityType(1);
    /// TLS 1.3.
    pub const TLS13: SecurityType = SecurityType(2);
}

field!(SubsystemType(u8));
field!(SecurityType(u8));

fields! {
    Le:
    /// A subsystem that can be reached over TCP.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct DiscoveryEntry {
        /// What is named.
        subtype: SubsystemType = 2,
        /// Whether the subsystem can do without SQ flow control (TREQ bit 2).
        sq_flow_control_disable: bool = Bits(3, 4),
        /// The port of the subsystem.
        portid: u16 = 4,
        /// Controller that a Connect may name; 0xffff: any (dynamic model).
        cntlid: u16 = 6,
        /// The most entries of an admin queue.
        asqsz: u16 = 8,
        /// Entry flags.
        eflags: u16 = 10,
        /// What secures the connection.
        security: SecurityType = 768,
        ;
        /// Whether a secure channel is asked for.
        secure_channel: SecureChannel,
        /// TCP port.
        port: u16,
        /// The subsystem.
        subnqn: Nqn,
        /// Its address.
        address: IpAddr,
    }
}

impl DiscoveryEntry {
    /// Bytes of an entry.
    pub const LEN: usize = 1024;
    /// The transport type of TCP.
    pub const TRTYPE_TCP: u8 = 3;

    /// Parses an entry.
    ///
    /// # Errors
    /// If it is shorter than [`DiscoveryEntry::LEN`], and with [`ParseError::BadValue`] if it is of another transport
    /// than TCP, or its address or port cannot be read.
    pub fn parse(b: &[u8]) -> Result<DiscoveryEntry, ParseError> {
        ParseError::require(b, DiscoveryEntry::LEN)?;
        if b[0] != DiscoveryEntry::TRTYPE_TCP {
            return Err(ParseError::BadValue(b[0].into()));
        }
        let address = text(&b[TRADDR]).and_then(|t| t.parse().ok());
        let port = text(&b[TRSVCID]).and_then(|t| t.parse().ok());
        Ok(DiscoveryEntry::read(
            b,
            SecureChannel(b[3] & 3),
            port.ok_or(ParseError::BadValue(b[TRSVCID.start].into()))?,
            Nqn::parse(&b[256..512])?,
            address.ok_or(ParseError::BadValue(b[TRADDR.start].into()))?,
        ))
    }

    /// Writes the entry into the first [`DiscoveryEntry::LEN`] bytes of `buffer`.
    pub fn emit(&self, buffer: &mut [u8]) {
        let b = &mut buffer[..DiscoveryEntry::LEN];
        b.fill(0);
        b[0] = DiscoveryEntry::TRTYPE_TCP;
        b[1] = match self.address {
            IpAddr::V4(_) => AddressFamily::IPV4.0,
            IpAddr::V6(_) => AddressFamily::IPV6.0,
        };
        self.write(b);
        b[3] |= self.secure_channel.0;
        Text {
            field: &mut b[TRSVCID],
            at: 0,
        }
        .put(format_args!("{}", self.port));
        self.subnqn.emit(&mut b[256..512]);
        Text {
            field: &mut b[TRADDR],
            at: 0,
        }
        .put(format_args!("{}", self.address));
    }
}

/// The ASCII text of a field that NULs or blanks pad.
fn text(field: &[u8]) -> Option<&str> {
    let len = field.iter().position(|&b| b == 0).unwrap_or(field.len());
    core::str::from_utf8(&field[..len]).ok().map(str::trim)
}

/// Writes text into a field: NUL-terminated as all of today's hosts expect it.
struct Text<'a> {
    field: &'a mut [u8],
    at: usize,
}

impl Text<'_> {
    fn put(&mut self, text: core::fmt::Arguments<'_>) {
        core::fmt::Write::write_fmt(self, text).expect("addresses and ports fit their fields");
    }
}

impl core::fmt::Write for Text<'_> {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        let room = self.field.get_mut(self.at..self.at + text.len());
        room.ok_or(core::fmt::Error)?
            .copy_from_slice(text.as_bytes());
        self.at += text.len();
        Ok(())
    }
}
