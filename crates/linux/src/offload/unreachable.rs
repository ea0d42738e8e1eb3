//! While a connection's library has not come back, the peer can't be reached. Linux is notified as a router would do it: then what its TCP sends again it does
//! not send at ever longer intervals (RFC 6069), and goes on soon after the library is there.

use std::net::IpAddr;

use wire::ethernet::MacAddr;
use wire::icmp::{self, v4, v6};
use wire::ipv4::{self, protocol};
use wire::packet::{self, IpFields, Parsed};

use super::Offload;
use super::answered::{Answered, HOP_LIMIT, macs};

/// Bytes of a segment's headers that are quoted: those of IP without extensions, and of TCP.
const MAX_QUOTED: usize = 100;
/// RFC 4443 §3.1.
const NO_ROUTE: u8 = 0;

impl Offload {
    /// Tells Linux, which has sent this segment, that it has not come to the peer.
    pub(super) fn report_unreachable(&mut self, frame: &[u8], parsed: &Parsed) {
        let end = parsed.payload_offset.min(parsed.l3_offset + MAX_QUOTED);
        let Some(original) = frame.get(parsed.l3_offset..end) else {
            return;
        };
        // Said by the peer's address: that Linux accepts it from here is known.
        let (to, from) = (parsed.flow.src.0, parsed.flow.dst.0);
        let (linux, mac) = macs(frame);
        self.answer(|| Answered::new(|buffer| emit(buffer, (mac, from), (linux, to), original)));
    }
}

fn emit(
    buffer: &mut [u8],
    (from_mac, src): (MacAddr, IpAddr),
    (to_mac, dst): (MacAddr, IpAddr),
    original: &[u8],
) -> usize {
    let (protocol, len) = match dst {
        IpAddr::V4(_) => (protocol::ICMP, icmp::HEADER_LEN + original.len()),
        IpAddr::V6(_) => (protocol::ICMPV6, icmp::HEADER_LEN + original.len()),
    };
    let ip = IpFields {
        src,
        dst,
        protocol,
        hop_limit: HOP_LIMIT,
        ecn: wire::Ecn::NotEct,
    };
    let offset = packet::emit_ip_headers(buffer, from_mac, to_mac, &ip, len as u32);
    let (below, message) = buffer.split_at_mut(offset);
    match (src, dst) {
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            let code = NO_ROUTE;
            v6::Message::Unreachable { code, original }.emit(src, dst, message);
        }
        _ => {
            ipv4::fill_checksum(&mut below[wire::ethernet::HEADER_LEN..]);
            let reason = v4::Unreachable::Host;
            v4::Message::Unreachable { reason, original }.emit(message);
        }
    }
    offset + len
}
