//! Spreading received flows over a function's queues.
//!
//! One keyed hash per packet serves the flow table, LRO and the choice of the queue. The key is secret, so that a
//! peer can't choose addresses and ports that fall into one bucket or onto one queue.
//!
//! A function with [`Features::RSS`](crate::Features::RSS) has its queues chosen by a Toeplitz hash, whose key and table its host may set.
//! That one is linear: two flows that share a queue tell of others, so that it serves nothing else.

mod toeplitz;

use std::hash::Hasher;
use std::net::IpAddr;

use siphasher::sip::{SipHasher13, SipHasher24};
use wire::flow::FlowKey;
use wire::ipv4::protocol;
use wire::packet::{Class, IpPacket};

use crate::ring::{HashType, HashTypes, RSS_ENTRIES, RSS_KEY_BYTES, RssKey, RssSettings};
use toeplitz::Toeplitz;

/// The NIC's secret key for hashing flows.
#[derive(Clone, Copy)]
pub struct FlowHasher {
    keys: (u64, u64),
}

impl FlowHasher {
    /// Hashes with `secret`, which no peer may know.
    pub fn new(secret: &[u8; 16]) -> Self {
        let word = |at: usize| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&secret[at..at + 8]);
            u64::from_le_bytes(bytes)
        };
        Self {
            keys: (word(0), word(8)),
        }
    }

    /// Hash of a number that hosts choose.
    pub fn hash_number(&self, number: u64) -> u64 {
        // Not the keys that flows are hashed with.
        let mut hasher = SipHasher13::new_with_keys(!self.keys.0, self.keys.1);
        hasher.write_u64(number);
        hasher.finish()
    }

    /// The Toeplitz key of this number, which tells nothing of those of others.
    pub fn rss_key(&self, number: u64) -> RssKey {
        let mut key = [0; RSS_KEY_BYTES];
        for (n, word) in (0..).zip(key.as_chunks_mut().0) {
            let mut hasher = SipHasher24::new_with_keys(self.keys.0, !self.keys.1);
            hasher.write_u64(number);
            hasher.write_u8(n);
            *word = hasher.finish().to_le_bytes();
        }
        RssKey(key)
    }

    /// Hash of a flow (SipHash-1-3; about 50 cycles for IPv4, 90 for IPv6).
    pub fn hash(&self, flow: &FlowKey) -> u64 {
        let mut hasher = SipHasher13::new_with_keys(self.keys.0, self.keys.1);
        let (src, dst) = (flow.src, flow.dst);
        hasher.write_u32(u32::from(src.1) << 16 | u32::from(dst.1));
        match (src.0, dst.0) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                hasher.write_u32(src.to_bits());
                hasher.write_u32(dst.to_bits());
            }
            (src, dst) => {
                hasher.write_u128(wide(src));
                hasher.write_u128(wide(dst));
            }
        }
        hasher.finish()
    }
}

impl std::fmt::Debug for FlowHasher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FlowHasher(secret)")
    }
}

fn wide(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

/// Where a received packet goes, and what its host is told of its hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Steering {
    /// The queue.
    pub queue: u16,
    /// What the hash covers, if it is a Toeplitz hash.
    pub hash_type: Option<HashType>,
    /// The hash.
    pub hash: u32,
}

/// How a function's packets are spread over its queues: by the NIC's own hash and evenly, or by a Toeplitz hash with a key and a table that
/// the host may set.
#[derive(Debug)]
pub struct Rss {
    queues: u16,
    keyed: Option<Box<Keyed>>,
}

/// What a host may set, and what is made of it.
#[derive(Debug)]
struct Keyed {
    /// The key of a function whose host has set no other.
    first_key: RssKey,
    settings: RssSettings,
    toeplitz: Toeplitz,
    /// The flow of the last segment, by its own hash, and where it goes: segments of a flow come together.
    recent: Option<(u64, Steering)>,
}

impl Rss {
    /// Spreads evenly over `queues` queues, at least one, by the NIC's own hash.
    pub fn new(queues: u16) -> Self {
        Self {
            queues: queues.max(1),
            keyed: None,
        }
    }

    /// Spreads by the Toeplitz hash of this key, evenly until the host sets something else.
    pub fn keyed(queues: u16, key: RssKey) -> Self {
        let mut rss = Rss::new(queues);
        let settings = rss.even(key);
        rss.keyed = Some(Box::new(Keyed {
            first_key: key,
            settings,
            toeplitz: Toeplitz::new(&key),
            recent: None,
        }));
        rss
    }

    fn even(&self, key: RssKey) -> RssSettings {
        RssSettings {
            types: HashTypes::ALL,
            key,
            table: std::array::from_fn(|at| (at % usize::from(self.queues)) as u16),
        }
    }

    /// Spreads as at first.
    pub fn reset(&mut self) {
        if let Some(keyed) = &self.keyed {
            self.set(self.even(keyed.first_key));
        }
    }

    /// Spreads as the host wants, all of whose table's queues there are.
    pub fn set(&mut self, settings: RssSettings) {
        let Some(keyed) = &mut self.keyed else { return };
        if keyed.settings.key != settings.key {
            keyed.toeplitz = Toeplitz::new(&settings.key);
        }
        keyed.settings = settings;
        keyed.recent = None;
    }

    /// What the host has set, or would find.
    pub fn settings(&self) -> RssSettings {
        match &self.keyed {
            Some(keyed) => keyed.settings,
            None => self.even(RssKey([0; RSS_KEY_BYTES])),
        }
    }

    /// Where a TCP segment goes, whose flow has this hash of the NIC's own.
    #[inline]
    pub fn steer_tcp(&mut self, hash: u64, flow: &FlowKey) -> Steering {
        let Some(keyed) = &mut self.keyed else {
            // The upper bits: the flow table takes the lower ones.
            let share = (hash >> 32) * u64::from(self.queues);
            return Steering {
                queue: (share >> 32) as u16,
                hash_type: None,
                hash: hash as u32,
            };
        };
        match keyed.recent {
            Some((recent, steering)) if recent == hash => steering,
            _ => {
                let steering = keyed.steer(protocol::TCP, flow, true);
                keyed.recent = Some((hash, steering));
                steering
            }
        }
    }

    /// Where a packet goes that is not of TCP, of what a host can reassemble only, or of another protocol of IP.
    pub fn steer_other(&self, frame: &[u8], class: &Class) -> Steering {
        let (Some(keyed), Some(ip)) = (&self.keyed, ip_packet(class)) else {
            return Steering::default();
        };
        let ports = udp_ports(frame, ip);
        let (src, dst) = ports.unwrap_or_default();
        let flow = FlowKey {
            src: (ip.src, src),
            dst: (ip.dst, dst),
        };
        keyed.steer(ip.protocol, &flow, ports.is_some())
    }
}

impl Keyed {
    /// Where a packet between these addresses goes, with these ports if it `has_ports`.
    fn steer(&self, protocol: u8, flow: &FlowKey, has_ports: bool) -> Steering {
        let (addresses, tcp, udp) = match flow.is_ipv6() {
            false => (HashType::Ipv4, HashType::TcpIpv4, HashType::UdpIpv4),
            true => (HashType::Ipv6, HashType::TcpIpv6, HashType::UdpIpv6),
        };
        let with_ports = if protocol == protocol::TCP { tcp } else { udp };
        let types = self.settings.types;
        let (hash_type, hash) = if has_ports && types.contains(with_ports) {
            (with_ports, self.toeplitz.of_ports(flow))
        } else if types.contains(addresses) {
            (addresses, self.toeplitz.of_addresses(flow))
        } else {
            return Steering::default();
        };
        Steering {
            queue: self.settings.table[hash as usize % RSS_ENTRIES],
            hash_type: Some(hash_type),
            hash,
        }
    }
}

/// The IP layer of what is not TCP.
fn ip_packet(class: &Class) -> Option<&IpPacket> {
    match class {
        Class::IcmpV4(ip) | Class::IcmpV6(ip) | Class::Fragment(ip) | Class::OtherIp(ip) => {
            Some(ip)
        }
        _ => None,
    }
}

/// Ports of a UDP datagram that is whole.
fn udp_ports(frame: &[u8], ip: &IpPacket) -> Option<(u16, u16)> {
    let is_udp = ip.protocol == protocol::UDP && !ip.is_fragment && ip.l4_len >= UDP_HEADER_LEN;
    let ports = frame.get(ip.l4_offset..).filter(|_| is_udp)?;
    let [a, b, c, d] = *ports.first_chunk()?;
    Some((u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])))
}

const UDP_HEADER_LEN: usize = 8;

#[cfg(test)]
mod tests;
