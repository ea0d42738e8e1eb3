//! Spreading received flows over a function's queues.
//!
//! One keyed hash per packet serves the flow table, LRO and the choice of the queue. The key is secret, so that a
//! peer can't choose addresses and ports that fall into one bucket or onto one queue.

use std::hash::Hasher;
use std::net::IpAddr;

use siphasher::sip::SipHasher13;
use wire::flow::FlowKey;

/// Entries of the indirection table, as NICs commonly have.
const INDIRECTIONS: usize = 128;

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

/// The indirection table of one function: flow hash to queue.
#[derive(Clone, Debug)]
pub struct Rss {
    queues: [u16; INDIRECTIONS],
}

impl Rss {
    /// Spreads evenly over `queues` queues, at least one.
    pub fn new(queues: u16) -> Self {
        let queues = queues.max(1);
        Self {
            queues: std::array::from_fn(|at| (at % usize::from(queues)) as u16),
        }
    }

    /// The queue of the flow with this hash.
    pub fn queue(&self, hash: u64) -> u16 {
        // The upper bits: the flow table takes the lower ones.
        self.queues[(hash >> 57) as usize]
    }
}

#[cfg(test)]
mod tests;
