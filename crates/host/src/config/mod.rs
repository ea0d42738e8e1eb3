//! Settings of a stack and of a listener.

mod accel;

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;
use std::time::Instant;

use wire::FlowKey;
use wire::packet::Steering;

use crate::handoff::Handoff;

pub use accel::{Accel, AccelError};

/// An address of the host with the length of its network's prefix, as in `10.0.0.2/24` or `fd00::2/64`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cidr {
    /// The host's own address.
    pub address: IpAddr,
    /// Leading bits that every neighbour on the link shares.
    pub prefix: u8,
}

impl Cidr {
    /// An address with its prefix length; a length beyond the family's is cut to it.
    pub fn new(address: IpAddr, prefix: u8) -> Self {
        let most = if address.is_ipv4() { 32 } else { 128 };
        Self {
            address,
            prefix: prefix.min(most),
        }
    }

    /// Whether `other` is on this network, so that it is reached without a gateway.
    pub fn contains(&self, other: IpAddr) -> bool {
        match (self.address, other) {
            (IpAddr::V4(a), IpAddr::V4(b)) => {
                let shift = 32 - u32::from(self.prefix);
                (u32::from(a) ^ u32::from(b))
                    .checked_shr(shift)
                    .unwrap_or(0)
                    == 0
            }
            (IpAddr::V6(a), IpAddr::V6(b)) => {
                let shift = 128 - u32::from(self.prefix);
                (u128::from(a) ^ u128::from(b))
                    .checked_shr(shift)
                    .unwrap_or(0)
                    == 0
            }
            _ => false,
        }
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

/// A text that is not an address with a prefix length.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an address with a prefix length; write it like 10.0.0.2/24 or fd00::2/64")]
pub struct CidrError(String);

impl FromStr for Cidr {
    type Err = CidrError;

    fn from_str(text: &str) -> Result<Self, CidrError> {
        let wrong = || CidrError(text.to_owned());
        let (address, prefix) = text.split_once('/').ok_or_else(wrong)?;
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let prefix: u8 = prefix.parse().map_err(|_| wrong())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        if prefix > most {
            return Err(wrong());
        }
        Ok(Self { address, prefix })
    }
}

/// Duplicate address detection: what is done about IPv6 addresses of this host's until a second has passed in which no other host on the link has
/// said that it has them (RFC 4862 §5.4). Those that another one has are not used: a warning names both, `NeighbourDuplicates` counts them, and connections from
/// there end with [`CloseReason::DuplicateAddress`](crate::CloseReason::DuplicateAddress).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dad {
    /// Addresses are used at once, and no probe is sent.
    Off,
    /// They are used meanwhile, but no neighbour is asked for from there, and none that knows better believes it (RFC 4429): who is asked by its peers, as a server is,
    /// answers at once; who opens a connection waits.
    #[default]
    Optimistic,
    /// They are not used meanwhile.
    Wait,
}

/// Settings of a [`Stack`](crate::Stack).
#[derive(Clone, Debug)]
pub struct StackConfig {
    /// The host's addresses. The stack adds an IPv6 link-local address when none is given.
    pub addresses: Vec<Cidr>,
    /// Whether the IPv6 addresses are tried for being another host's.
    pub dad: Dad,
    /// Whether the link is told of the multicast groups of these addresses (MLDv2, RFC 3810), so that switches that look after groups do not cut the
    /// host off.
    pub mld: bool,
    /// Where IPv4 packets for other networks go.
    pub gateway_v4: Option<Ipv4Addr>,
    /// Where IPv6 packets for other networks go, until a router advertises itself.
    pub gateway_v6: Option<Ipv6Addr>,
    /// Largest IP packet on the link, in bytes.
    pub mtu: u16,
    /// Settings of every connection; `mss` is set by the stack from the MTU and the family.
    pub tcp: tcp::Config,
    /// Bytes for packets, for payload that the stack copies, and for receive buffers, at most. Those that the NIC's rings hold are part of it;
    /// there is always half a mebibyte beside them. Memory that is not in use takes addresses alone.
    pub memory: u64,
    /// Payload that one socket may hold in its send queue, in bytes; less where the path needs less.
    pub send_buffer: u32,
    /// Content bytes of a TLS record that we make, at most; 16,384 is the protocol's own limit.
    pub record_bytes: u16,
    /// Sockets at most, of all states but TIME_WAIT.
    pub max_sockets: u32,
    /// Orphans at most: connections that the application has closed and whose peers have not acknowledged everything. Beyond that those
    /// are reset that have made no progress for longest.
    pub max_orphans: u32,
    /// Neighbours remembered at most, of each family.
    pub max_neighbours: usize,
    /// Seeds every keyed hash, the ISNs and the SYN cookies. Draw it at random; a simulation fixes it.
    pub secret: [u8; 16],
    /// What the clocks of ISNs and SYN cookies count from; the stack's beginning by default. With the same secret and the same epoch the
    /// stack of a process that takes another's place takes the cookies that the other has given.
    pub epoch: Option<Instant>,
    /// What the NIC is asked to do for whole connections (AccelTCP); nothing by default.
    pub accel: Accel,
    /// Which connections are handed off to the NIC (Connection handoff policies); none by default.
    pub handoff: Handoff,
    /// Handshakes of the NIC's that are remembered, so that a copy of a connection's first data opens no second one: 8 bytes each,
    /// from the first one on, rounded up to a power of two; 0 for none. A cookie is good for up to 128 s, so the default of 65,536
    /// is for some 512 connections a second; a busy server in front of peers that may replay wants more.
    pub accel_handshakes: u32,
    /// Which of several stacks with the same addresses it is, if there are several.
    pub shard: Option<Shard>,
    /// Whether to take time-stamp readings at component boundaries ([`Stack::meter`](crate::Stack::meter)).
    pub meter: bool,
}

impl Default for StackConfig {
    fn default() -> Self {
        Self {
            addresses: Vec::new(),
            dad: Dad::default(),
            mld: true,
            gateway_v4: None,
            gateway_v6: None,
            mtu: 1500,
            tcp: tcp::Config::default(),
            memory: 128 << 20,
            send_buffer: 16 << 20,
            record_bytes: 16_384,
            max_sockets: 262_144,
            max_orphans: 16_384,
            max_neighbours: 1024,
            secret: [0; 16],
            epoch: None,
            accel: Accel::NONE,
            handoff: Handoff::default(),
            accel_handshakes: 1 << 16,
            shard: None,
            meter: false,
        }
    }
}

/// One of several stacks with the same MAC and IP addresses, each of which has the flows of its own NIC, its worker.
///
/// All of them learn who their neighbours are; the first one answers who asks for the addresses, and asks for routers. Each opens
/// connections only from ports whose flows are its own.
#[derive(Clone, Copy, Debug)]
pub struct Shard {
    /// How flows are spread over the workers.
    pub steering: Steering,
    /// The stack's own worker, counted from 0.
    pub worker: usize,
}

impl Shard {
    /// Whether packets of the flow come to this stack.
    pub fn has(&self, flow: &FlowKey) -> bool {
        self.steering.worker(flow) == self.worker
    }
}

/// Settings of a listener.
#[derive(Clone, Debug)]
pub struct ListenOptions {
    /// Connections whose handshake is under way or which wait to be accepted. Beyond that the listener answers
    /// with SYN cookies (RFC 4987 §3.6).
    pub backlog: usize,
    /// Answers every SYN with a cookie and keeps no state for it.
    pub always_cookies: bool,
    /// Whether the NIC may answer SYNs in the host's place, if [`Accel::setup`] is on. It answers by cookies, and hands a
    /// connection up when its handshake is complete.
    pub accel: bool,
    /// A connection that the NIC sets up is told of when its first bytes have come, or its end, instead of at the end of its handshake
    /// (as `TCP_DEFER_ACCEPT` has it). Right where the client speaks first. Where the host sets connections up, it has no
    /// effect.
    pub defer: bool,
}

impl Default for ListenOptions {
    fn default() -> Self {
        Self {
            backlog: 1024,
            always_cookies: false,
            accel: true,
            defer: false,
        }
    }
}
