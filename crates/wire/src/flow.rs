//! The four-tuple that names a TCP flow.

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, SocketAddr};

/// Source and destination of a packet, or local and remote end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowKey {
    /// Where the packets come from.
    pub src: (IpAddr, u16),
    /// Where they go.
    pub dst: (IpAddr, u16),
}

impl FlowKey {
    /// A flow from `src` to `dst`.
    #[inline]
    #[must_use]
    pub fn new(src: SocketAddr, dst: SocketAddr) -> FlowKey {
        FlowKey {
            src: (src.ip(), src.port()),
            dst: (dst.ip(), dst.port()),
        }
    }

    /// The flow of the other direction.
    #[inline]
    #[must_use]
    pub fn reversed(self) -> FlowKey {
        FlowKey {
            src: self.dst,
            dst: self.src,
        }
    }

    /// Whether both ends are IPv6 addresses.
    #[inline]
    #[must_use]
    pub fn is_ipv6(&self) -> bool {
        self.src.0.is_ipv6() && self.dst.0.is_ipv6()
    }

    /// The source as a socket address.
    #[must_use]
    pub fn src_addr(&self) -> SocketAddr {
        self.src.into()
    }

    /// The destination as a socket address.
    #[must_use]
    pub fn dst_addr(&self) -> SocketAddr {
        self.dst.into()
    }
}

impl fmt::Display for FlowKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} -> {}", self.src_addr(), self.dst_addr())
    }
}

/// Whether an address is of one host: not a group's, nor that of no host. A connection has two such ends (RFC 9293 §3.9.2.3).
#[must_use]
pub fn is_of_one_host(address: IpAddr) -> bool {
    !address.is_multicast()
        && !address.is_unspecified()
        && address != IpAddr::V4(Ipv4Addr::BROADCAST)
}
