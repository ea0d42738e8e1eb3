//! Values that tests agree on.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use l5p::nvme::{Parameters, Role};
use l5p::tls::{Algorithm, CryptoInfo, Version};
use wire::FlowKey;
use wire::ethernet::MacAddr;

/// The host's address, and that of its peer.
pub const HOST: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
/// The peer, or the router before it.
pub const PEER: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);
/// TCP payload of a full Ethernet frame, with timestamps.
pub const MSS: usize = 1448;
/// What memory around buffers holds.
pub const GUARD: u8 = 0xa5;

/// Every version of TLS with every cipher.
pub const SUITES: [(Version, Algorithm); 6] = [
    (Version::Tls12, Algorithm::Aes128Gcm),
    (Version::Tls12, Algorithm::Aes256Gcm),
    (Version::Tls12, Algorithm::ChaCha20Poly1305),
    (Version::Tls13, Algorithm::Aes128Gcm),
    (Version::Tls13, Algorithm::Aes256Gcm),
    (Version::Tls13, Algorithm::ChaCha20Poly1305),
];

/// From port 443 of the host to this port of its peer.
pub fn flow(port: u16) -> FlowKey {
    let address = |last| IpAddr::V4(Ipv4Addr::new(10, 0, 0, last));
    FlowKey {
        src: (address(1), 443),
        dst: (address(2), port),
    }
}

/// As [`flow`], in IPv6.
pub fn flow_v6(port: u16) -> FlowKey {
    let address = |last| IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, last));
    FlowKey {
        src: (address(1), 443),
        dst: (address(2), port),
    }
}

/// Keys of a connection from its first record on.
pub fn crypto((version, algorithm): (Version, Algorithm)) -> CryptoInfo {
    CryptoInfo {
        version,
        algorithm,
        key: [3; 32],
        iv: [4; 12],
        sequence: 0,
    }
}

/// Keys of TLS 1.3 with AES-128-GCM.
pub fn aes_128_gcm() -> CryptoInfo {
    crypto((Version::Tls13, Algorithm::Aes128Gcm))
}

/// NVMe/TCP with 32 tags, without padding.
pub fn nvme(sender: Role, header_digest: bool, data_digest: bool) -> Parameters {
    Parameters {
        sender,
        header_digest,
        data_digest,
        alignment: 0,
        max_pdu: 1 << 20,
        commands: 32,
    }
}

/// The byte at a place of a stream: places near each other have different neighbours.
pub fn byte(stream: usize, at: usize) -> u8 {
    let word = (at as u64 ^ (stream as u64) << 40).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (word >> 32) as u8 ^ (word >> 56) as u8
}
