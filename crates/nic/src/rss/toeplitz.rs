//! The Toeplitz hash of flows (Microsoft, "RSS hashing functions"), by half bytes.

use std::net::IpAddr;

use wire::flow::FlowKey;

use crate::ring::RssKey;

/// Bytes of the longest input: two IPv6 addresses and two ports.
const INPUT: usize = 36;

/// A key made into tables: what each half byte of the input adds to the hash, by its place. 4,608 bytes, of which a flow of IPv4 takes
/// a third: about 25 cycles for IPv4, 70 for IPv6, and 1000 to make them.
pub(super) struct Toeplitz {
    tables: [[[u32; 16]; 2]; INPUT],
}

impl Toeplitz {
    pub(super) fn new(RssKey(key): &RssKey) -> Toeplitz {
        let mut tables = [[[0; 16]; 2]; INPUT];
        for (at, halves) in tables.iter_mut().enumerate() {
            // The 32 bits of the key that begin at each bit of this byte are among 40.
            let bits = (key[at..at + 5].iter()).fold(0, |bits, byte| bits << 8 | u64::from(*byte));
            for (half, table) in [bits >> 5, bits >> 1].into_iter().zip(halves) {
                for value in 1..16_usize {
                    let lowest = (half >> value.trailing_zeros()) as u32;
                    table[value] = table[value & (value - 1)] ^ lowest;
                }
            }
        }
        Toeplitz { tables }
    }

    /// Of source and destination address and port.
    pub(super) fn of_ports(&self, flow: &FlowKey) -> u32 {
        let addresses = if flow.is_ipv6() { 32 } else { 8 };
        let (src, dst) = (flow.src.1.to_be_bytes(), flow.dst.1.to_be_bytes());
        self.of_addresses(flow) ^ self.add(addresses, &[src[0], src[1], dst[0], dst[1]])
    }

    /// Of source and destination address.
    pub(super) fn of_addresses(&self, flow: &FlowKey) -> u32 {
        match (flow.src.0, flow.dst.0) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                self.add(0, &src.octets()) ^ self.add(4, &dst.octets())
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                self.add(0, &src.octets()) ^ self.add(16, &dst.octets())
            }
            // No packet has both.
            _ => 0,
        }
    }

    /// What `N` bytes of the input add, from byte `at` on.
    #[inline]
    fn add<const N: usize>(&self, at: usize, input: &[u8; N]) -> u32 {
        let tables = self.tables[at..at + N].iter().zip(input);
        tables.fold(0, |hash, ([high, low], byte)| {
            hash ^ high[usize::from(byte >> 4)] ^ low[usize::from(byte & 15)]
        })
    }
}

impl std::fmt::Debug for Toeplitz {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Toeplitz(secret)")
    }
}

#[cfg(test)]
mod tests;
