//! What is asked of a tenant's socket, and by whom.

use std::net::{IpAddr, Ipv6Addr};
use std::os::fd::BorrowedFd;

use rustix::io::Errno;
use wire::FlowKey;
use zerocopy::byteorder::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

/// What Linux tells any holder of a connected TCP socket of it, all at one moment. Sequence numbers are not among it: they are the NIC's to add, which
/// saw the connection's beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketFacts {
    /// The user id of the process that shows the socket.
    pub tenant: u32,
    /// Index of the interface by which the peer is reached.
    pub interface: u32,
    /// From the socket to its peer, as the socket has them: packets may bear other addresses.
    pub flow: FlowKey,
    /// What tells the socket from all others that there were and will be (`SO_COOKIE`).
    pub cookie: u64,
    /// Sequence numbers that the peer has acknowledged (`tcpi_bytes_acked`): a client's SYN counts, a server's does not.
    pub acknowledged: u64,
    /// Bytes written beyond those (`SIOCOUTQ`).
    pub unacknowledged: u32,
    /// Sequence numbers received in order (`tcpi_bytes_received`), without the peer's SYN.
    pub received: u64,
    /// Bytes of those that the program has not read (`SIOCINQ`).
    pub unread: u32,
    /// Bytes beyond those received in order that the peer has been told there is room for (`tcpi_rcv_wnd`); 0 where Linux does not say (before 6.2).
    pub window: u32,
    /// Bytes came beyond a gap at some time.
    pub reordered: bool,
    /// The peer has ended its direction: nothing more comes.
    pub peer_has_ended: bool,
    /// What the socket would put into a segment's timestamp now (`TCP_TIMESTAMP`), if it uses timestamps.
    pub timestamp: Option<u32>,
}

/// Asks Linux about sockets that tenants show. It may wait as long as a tenant likes: another thread of the tenant's may have the socket locked.
pub trait Examine {
    /// Looks at a socket, and binds it to the interface by which its peer is reached.
    ///
    /// # Errors
    /// `ENODEV` for a peer that is not behind an interface of the NIC's; `EPERM` for a socket of another network namespace; `ENOTCONN`, `EINVAL`,
    /// `ENOTSOCK`; `EBUSY` for one whose numbers change faster than they can be asked for.
    fn examine(&mut self, socket: BorrowedFd<'_>, tenant: u32) -> Result<SocketFacts, Errno>;
}

const REORDERED: u8 = 1;
const PEER_HAS_ENDED: u8 = 2;
const HAS_TIMESTAMP: u8 = 4;
const IS_IPV4: u8 = 8;

/// The facts' bytes.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct FactsBytes {
    tenant: U32,
    interface: U32,
    addresses: [[u8; 16]; 2],
    ports: [U16; 2],
    cookie: U64,
    acknowledged: U64,
    received: U64,
    unacknowledged: U32,
    unread: U32,
    timestamp: U32,
    window: U32,
    flags: u8,
    _reserved: [u8; 3],
}

impl SocketFacts {
    pub(crate) fn to_bytes(self) -> FactsBytes {
        let mut bytes = FactsBytes::new_zeroed();
        let octets = |address: IpAddr| match address {
            IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
            IpAddr::V6(address) => address.octets(),
        };
        bytes.tenant = self.tenant.into();
        bytes.interface = self.interface.into();
        bytes.addresses = [octets(self.flow.src.0), octets(self.flow.dst.0)];
        bytes.ports = [self.flow.src.1.into(), self.flow.dst.1.into()];
        bytes.cookie = self.cookie.into();
        bytes.acknowledged = self.acknowledged.into();
        bytes.received = self.received.into();
        bytes.unacknowledged = self.unacknowledged.into();
        bytes.unread = self.unread.into();
        bytes.window = self.window.into();
        bytes.timestamp = self.timestamp.unwrap_or(0).into();
        for (flag, holds) in [
            (REORDERED, self.reordered),
            (PEER_HAS_ENDED, self.peer_has_ended),
            (HAS_TIMESTAMP, self.timestamp.is_some()),
            (IS_IPV4, self.flow.src.0.is_ipv4()),
        ] {
            bytes.flags |= if holds { flag } else { 0 };
        }
        bytes
    }

    pub(crate) fn from_bytes(bytes: &FactsBytes) -> SocketFacts {
        let has = |flag: u8| bytes.flags & flag != 0;
        let address = |octets: [u8; 16]| {
            let address = Ipv6Addr::from(octets);
            match address.to_ipv4_mapped().filter(|_| has(IS_IPV4)) {
                Some(v4) => IpAddr::V4(v4),
                None => IpAddr::V6(address),
            }
        };
        let [src, dst] = bytes.addresses.map(address);
        SocketFacts {
            tenant: bytes.tenant.get(),
            interface: bytes.interface.get(),
            flow: FlowKey {
                src: (src, bytes.ports[0].get()),
                dst: (dst, bytes.ports[1].get()),
            },
            cookie: bytes.cookie.get(),
            acknowledged: bytes.acknowledged.get(),
            unacknowledged: bytes.unacknowledged.get(),
            received: bytes.received.get(),
            unread: bytes.unread.get(),
            window: bytes.window.get(),
            reordered: has(REORDERED),
            peer_has_ended: has(PEER_HAS_ENDED),
            timestamp: has(HAS_TIMESTAMP).then(|| bytes.timestamp.get()),
        }
    }
}
