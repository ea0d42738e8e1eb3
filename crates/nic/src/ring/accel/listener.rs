//! `InstallListener`: which SYNs the device answers, and with which offer.

use std::net::IpAddr;

use wire::tcp::MAX_WINDOW_SCALE;
use zerocopy::FromZeros;

use super::super::layout::{self, Head, address, flags, octets};

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

/// What a SYN-ACK offers: the same as the host's own would (RFC 9293 §3.7.1, RFC 7323, RFC 2018 §2).
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
    /// TTL or hop limit of SYN-ACKs; not 0.
    pub hop_limit: u8,
}

impl InstallListener {
    pub(in crate::ring) fn encode(&self) -> layout::InstallListener {
        let options = &self.options;
        let head = Head::flagged(flags([
            (self.address.is_ipv6(), V6),
            (options.window_scale.is_some(), WINDOW_SCALE),
            (options.sack, SACK),
            (options.defer, DEFER),
        ]));
        layout::InstallListener {
            head,
            rule: self.rule.0,
            backlog: options.backlog,
            address: octets(self.address),
            port: self.port,
            mss: options.mss,
            window: options.window,
            window_shift: options.window_scale.unwrap_or(0),
            hop_limit: options.hop_limit,
            ..FromZeros::new_zeroed()
        }
    }

    pub(super) fn decode(slot: &layout::InstallListener) -> Option<InstallListener> {
        let has = |flag: u8| slot.head.flags & flag != 0;
        let install = InstallListener {
            rule: ListenRuleId(slot.rule),
            address: address(slot.address, has(V6))?,
            port: slot.port,
            options: ListenerOptions {
                mss: slot.mss,
                window: slot.window,
                window_scale: has(WINDOW_SCALE).then_some(slot.window_shift),
                sack: has(SACK),
                backlog: slot.backlog,
                defer: has(DEFER),
                hop_limit: slot.hop_limit,
            },
        };
        let right = slot.port != 0
            && slot.mss != 0
            && slot.hop_limit != 0
            && (install.options.window_scale).is_none_or(|shift| shift <= MAX_WINDOW_SCALE)
            && slot.backlog <= i32::MAX as u32;
        right.then_some(install)
    }
}

const V6: u8 = layout::InstallListener::V6;
const WINDOW_SCALE: u8 = layout::InstallListener::WINDOW_SCALE;
const SACK: u8 = layout::InstallListener::SACK;
const DEFER: u8 = layout::InstallListener::DEFER;
