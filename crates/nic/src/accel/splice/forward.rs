//! What leaves for a peer.

use probes::DropReason;
use wire::SeqNum;
use wire::packet::{IpVersion, Parsed};
use wire::tcp::{self, Flags};

use super::half::Half;
use super::pair::Pair;
use super::reply;
use super::translate::{
    Incoming, Part, l4_offset, scaled_window, translate, translate_part, translated_len,
};
use crate::accel::AccelEnv;
use crate::frame::FrameMeta;
use crate::frame::Segment;
use crate::ring::accel::Side;

/// Forwards a segment whole; one that is too large for the other leg, or whose checksum is not known, in packets.
#[inline]
pub(super) fn segment(pair: &mut Pair, side: Side, env: &mut AccelEnv<'_>, segment: &Segment<'_>) {
    if !leaves(pair, side, env, segment) {
        return;
    }
    let pair = &*pair;
    let (meta, parsed) = (segment.meta, segment.parsed);
    let (_, to) = pair.legs(side);
    let room = payload_room(to, parsed);
    let per_packet = match meta.gso_size {
        0 => parsed.payload_len,
        size => parsed.payload_len.min(size.into()),
    };
    let partial = meta.needs_checksum.is_some();
    let wire = env.nic.wire;
    // A super-frame stays one on a wire that cuts it; its packets may become smaller.
    let is_super = meta.gso_size != 0 && u32::from(meta.gso_size) < parsed.payload_len;
    let as_it_is = match is_super {
        true => partial && wire.tso && wire.checksum && room > 0,
        false => per_packet <= room && (!partial || wire.checksum),
    };
    if !as_it_is {
        return in_packets(pair, side, env, segment, per_packet.min(room));
    }
    let (len, _) = translated_len(parsed);
    let mac = env.function.config.mac;
    let incoming = incoming(segment, partial);
    let l4 = l4_offset(parsed.ip_version == IpVersion::V6) as u16;
    let meta = FrameMeta {
        gso_size: if is_super {
            per_packet.min(room) as u16
        } else {
            0
        },
        needs_checksum: partial.then_some((l4, tcp::CHECKSUM_OFFSET as u16)),
        checksum_valid: false,
    };
    let left = env.egress.push(env.function, len, |out| {
        translate(pair, side, mac, &incoming, out);
        Some((len, meta))
    });
    if left {
        env.function.counters.accel_splice_packets += u64::from(segment.segments);
        env.function.counters.accel_splice_bytes += u64::from(parsed.payload_len);
    }
}

/// Forwards what of a segment lies before `end`, and in any case its acknowledgement.
#[cold]
pub(super) fn up_to(
    pair: &mut Pair,
    side: Side,
    end: SeqNum,
    env: &mut AccelEnv<'_>,
    segment: &Segment<'_>,
) {
    if !leaves(pair, side, env, segment) {
        return;
    }
    let (_, to) = pair.legs(side);
    let parsed = segment.parsed;
    let seq = parsed.tcp.seq;
    let bytes = match seq.before(end) {
        true => seq.distance_to(end).min(parsed.payload_len),
        false => 0,
    };
    cut(
        pair,
        side,
        env,
        segment,
        &Cut {
            seq: seq.min(end),
            bytes,
            per_packet: payload_room(to, parsed),
            // What is left out has the end.
            whole: false,
        },
    );
}

/// A segment is not forwarded.
#[cold]
pub(super) fn drop_segment(env: &mut AccelEnv<'_>) {
    env.function.drop_packet(DropReason::AccelSpliceDropped);
}

/// Sends a challenge ACK, unless there was one just now.
#[cold]
pub(super) fn challenge(pair: &mut Pair, side: Side, env: &mut AccelEnv<'_>, now: u32) {
    let (half, _) = pair.legs_mut(side);
    drop_segment(env);
    if reply::may_challenge(half, now) {
        env.function.counters.accel_splice_challenges += 1;
        acknowledge(pair, side, env);
    }
}

/// Sends an acknowledgement to the peer of `side`.
#[cold]
pub(super) fn acknowledge(pair: &Pair, side: Side, env: &mut AccelEnv<'_>) {
    let mac = env.function.config.mac;
    env.egress.push(env.function, reply::MAX_LEN, |out| {
        let len = reply::acknowledgement(pair, side, mac, out);
        Some((len, FrameMeta::default()))
    });
}

/// Tells each peer whose window is nearly closed that the other one has room: the host's buffer, which was full, is in
/// between no more.
pub(super) fn open_windows(pair: &mut Pair, env: &mut AccelEnv<'_>) {
    for side in [Side::A, Side::B] {
        let (half, other) = pair.legs_mut(side);
        let window = scaled_window(other.windows.heard, other, half);
        let small =
            u32::from(half.windows.sent) << half.windows.our_shift < 2 * u32::from(other.room);
        if small && window > half.windows.sent {
            half.note_acknowledged(half.stream.una, window);
            acknowledge(pair, side, env);
        }
    }
}

/// Whether a segment's hop limit lets it go on, and its mark. A splice is a hop: without that, two functions could build a loop.
fn leaves(pair: &mut Pair, side: Side, env: &mut AccelEnv<'_>, segment: &Segment<'_>) -> bool {
    let (from, _) = pair.legs_mut(side);
    let may_go_on = !from.heeds_marks() || from.take_marks(&segment.parsed.tcp);
    let leaves = segment.parsed.hop_limit > 1 && may_go_on;
    if !leaves {
        drop_segment(env);
    }
    leaves
}

/// Payload bytes of a packet to a peer with the options of this one.
fn payload_room(to: &Half, parsed: &Parsed) -> u32 {
    let options = parsed.payload_offset - parsed.l4_offset - tcp::HEADER_LEN;
    u32::from(to.room).saturating_sub(options as u32)
}

#[cold]
fn in_packets(
    pair: &Pair,
    side: Side,
    env: &mut AccelEnv<'_>,
    segment: &Segment<'_>,
    per_packet: u32,
) {
    cut(
        pair,
        side,
        env,
        segment,
        &Cut {
            seq: segment.parsed.tcp.seq,
            bytes: segment.parsed.payload_len,
            per_packet,
            whole: true,
        },
    );
}

/// How a segment is cut.
struct Cut {
    /// Sequence number of the first packet.
    seq: SeqNum,
    /// Payload bytes in all.
    bytes: u32,
    /// Payload bytes of a packet.
    per_packet: u32,
    /// The end of the last packet is that of the segment.
    whole: bool,
}

/// Packets that a segment may become: more would keep the device from other functions' work. The peer sends again what is behind them.
const MOST_PACKETS: u32 = 128;

/// Makes packets of a segment. Flags as Linux's GSO has them (`tcp_gso_segment`).
fn cut(pair: &Pair, side: Side, env: &mut AccelEnv<'_>, segment: &Segment<'_>, cut: &Cut) {
    let parsed = segment.parsed;
    let reset = parsed.tcp.flags.contains(Flags::RST);
    if cut.bytes > 0 && (cut.per_packet == 0 || reset) {
        drop_segment(env);
        return;
    }
    let bytes = cut.bytes.min(cut.per_packet.saturating_mul(MOST_PACKETS));
    let incoming = incoming(segment, false);
    let mac = env.function.config.mac;
    let (_, headers) = translated_len(parsed);
    let (mut skip, mut packets) = (0, 0);
    loop {
        let len = (bytes - skip).min(cut.per_packet);
        let part = Part {
            seq: cut.seq + skip,
            skip,
            len,
            packets,
            last: cut.whole && skip + len == cut.bytes,
        };
        let frame_len = headers + len as usize;
        let left = env.egress.push(env.function, frame_len, |out| {
            translate_part(pair, side, mac, &incoming, &part, out);
            Some((frame_len, FrameMeta::default()))
        });
        if left {
            env.function.counters.accel_splice_packets += 1;
            env.function.counters.accel_splice_bytes += u64::from(len);
        }
        skip += len;
        packets += 1;
        if skip == bytes {
            break;
        }
    }
}

fn incoming<'a>(segment: &Segment<'a>, partial: bool) -> Incoming<'a> {
    Incoming {
        frame: segment.frame,
        parsed: segment.parsed,
        partial,
    }
}
