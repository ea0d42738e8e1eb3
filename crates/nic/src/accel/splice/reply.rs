//! Acknowledgements that the device makes itself, as the end of the connection that the peer takes it for.

use wire::ethernet::MacAddr;
use wire::packet::{self, MAX_TCP_HEADERS_LEN};
use wire::tcp::{self, Flags, Header, Options, Timestamps};
use wire::{ethernet, ipv4};

use super::half::Half;
use super::pair::Pair;
use super::translate::l4_offset;
use crate::ring::accel::Side;

/// At most one challenge ACK to a peer in so many units of time (RFC 5961 §7).
const CHALLENGE_INTERVAL: u16 = 16;
/// Milliseconds of a unit.
const UNIT: u32 = 32;

/// Room for an acknowledgement.
pub(super) const MAX_LEN: usize = MAX_TCP_HEADERS_LEN;

/// Whether the peer of a half may be sent a challenge ACK now; if so, the next has to wait.
pub(super) fn may_challenge(half: &mut Half, now: u32) -> bool {
    let now = (now / UNIT) as u16;
    let may = now.wrapping_sub(half.challenged) >= CHALLENGE_INTERVAL;
    if may {
        half.challenged = now;
    }
    may
}

/// Lets a challenge ACK go out at once.
pub(super) fn never_challenged(now: u32) -> u16 {
    ((now / UNIT) as u16).wrapping_sub(CHALLENGE_INTERVAL)
}

/// Writes an acknowledgement to the peer of `side` of all that the other one has acknowledged, with the window that it was
/// last announced. Gives its length.
pub(super) fn acknowledgement(pair: &Pair, side: Side, mac: MacAddr, out: &mut [u8]) -> usize {
    let (half, other) = pair.legs(side);
    let flow = half.flow();
    let header = Header {
        src_port: half.ends.our_port,
        dst_port: half.ends.peer_port,
        seq: other.stream.nxt + other.deltas.seq,
        ack: half.stream.una,
        flags: Flags::ACK | half.echo_flag(),
        window: half.windows.sent,
        options: Options {
            timestamps: half.timestamps().then(|| Timestamps {
                val: half.our_value(other),
                echo: half.recent,
            }),
            ..Options::default()
        },
        ecn: wire::Ecn::NotEct,
    };
    let len = packet::emit_tcp_headers(out, mac, half.hop, &flow, &header, 0, half.hop_limit);
    let l4 = l4_offset(half.is_ipv6());
    if !half.is_ipv6() {
        ipv4::fill_checksum(&mut out[ethernet::HEADER_LEN..l4]);
    }
    tcp::fill_checksum(flow.src.0, flow.dst.0, &mut out[l4..len]);
    len
}
