//! `InstallListener`: which SYNs the device answers, and with which offer.

use std::net::IpAddr;

use wire::tcp::MAX_WINDOW_SCALE;

use super::super::layout::{Head, SLOT_WORDS, decode_address, encode_address, pair, unpair};

/// A listening rule of a function. The host chooses it, below the device's limit
/// ([`AccelConfig::listeners`](crate::AccelConfig::listeners)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ListenRuleId(pub u16);

/// A listening rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InstallListener {
    /// A number that is not in use.
    pub rule: ListenRuleId,
    /// The local address; unspecified for all of its family. A rule with the exact address comes before.
    pub address: IpAddr,
    /// The local port; not 0.
    pub port: u16,
    /// What is offered to peers, and what becomes of those that accept.
    pub options: ListenerOptions,
}

/// What a SYN-ACK offers: the same as the host's own would.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListenerOptions {
    /// The MSS that we announce; not 0.
    pub mss: u16,
    /// The receive window in the SYN-ACK, unscaled (RFC 7323 §2.2).
    pub window: u16,
    /// The shift of our windows, at most 14 (RFC 7323 §2.3); `None`: no window scaling.
    pub window_scale: Option<u8>,
    /// Whether we take selective acknowledgements (RFC 2018).
    pub sack: bool,
    /// Connections handed up of which the host has not said by a
    /// [`ListenerCredit`](super::super::SendDescriptor::ListenerCredit) that they wait no longer: with so many SYNs are
    /// dropped. At most `i32::MAX`.
    pub backlog: u32,
    /// The pure ACK of a handshake is not passed up: the first segment with data or FIN opens the connection. It must come
    /// before the cookie expires.
    pub defer: bool,
    /// TTL or hop limit of SYN-ACKs.
    pub hop_limit: u8,
}

const V6: u8 = 1;
const SCALES: u8 = 2;
const SACK: u8 = 4;
const DEFER: u8 = 8;

impl InstallListener {
    /// Writes the words behind the first; gives the flags.
    pub(in crate::ring) fn encode(&self, words: &mut [u64; SLOT_WORDS]) -> u8 {
        let options = &self.options;
        words[1] = pair(self.rule.0.into(), options.backlog);
        encode_address(self.address, &mut words[2..4]);
        words[4] = u64::from(self.port)
            | u64::from(options.mss) << 16
            | u64::from(options.window) << 32
            | u64::from(options.window_scale.unwrap_or(0)) << 48
            | u64::from(options.hop_limit) << 56;
        let flag = |set: bool, flag: u8| if set { flag } else { 0 };
        flag(self.address.is_ipv6(), V6)
            | flag(options.window_scale.is_some(), SCALES)
            | flag(options.sack, SACK)
            | flag(options.defer, DEFER)
    }

    pub(super) fn decode(
        rule: ListenRuleId,
        head: Head,
        words: &[u64; SLOT_WORDS],
    ) -> Option<InstallListener> {
        let word = words[4];
        let set = |flag: u8| head.flags & flag != 0;
        let scale = (word >> 48) as u8;
        let install = InstallListener {
            rule,
            address: decode_address(&words[2..4], set(V6))?,
            port: word as u16,
            options: ListenerOptions {
                mss: (word >> 16) as u16,
                window: (word >> 32) as u16,
                window_scale: set(SCALES).then_some(scale),
                sack: set(SACK),
                backlog: unpair(words[1]).1,
                defer: set(DEFER),
                hop_limit: (word >> 56) as u8,
            },
        };
        let right = install.port != 0
            && install.options.mss != 0
            && scale <= MAX_WINDOW_SCALE
            && install.options.backlog <= i32::MAX as u32
            && head.flags & !(V6 | SCALES | SACK | DEFER) == 0;
        right.then_some(install)
    }
}
