//! The path of a received frame, one for all owners of connections.
//!
//! ```text
//! frame ─▶ parse, checksum ─▶ flow hash ─▶ owner ─┬─▶ accel: closing, spliced, a SYN
//!                                                 └─▶ flow table ─▶ queue (RSS) ─▶ delivery
//! ```
//!
//! A segment of a VLAN has neither owner nor context: these are of flows without one.
//!
//! Cost target beside crypto, checksum and copy: ≤ 150 cycles per packet. Nothing is allocated per packet.

mod command;

use std::time::Instant;

use probes::DropReason;
use wire::ParseError;
use wire::ethernet;
use wire::packet::{Class, Parsed, Prediction, classify};
use wire::tcp::{self, Flags};

pub(crate) use command::{
    add_rr_state, answer_late, create_context, del_rr_state, destroyed, resync_response,
};

use crate::accel::{self, Handled, Owned};
use crate::delivery::Host;
use crate::frame::{FrameMeta, Segment};
use crate::function::Function;
use crate::offloads::Offloads;
use crate::ring::accel::Established;
use crate::ring::{ErrorCode, Slice};

/// What is known of the segment that came last, and holds for the next one if that is of the same flow.
#[derive(Debug, Default)]
pub(crate) struct Recent {
    prediction: Option<Prediction>,
    hash: u64,
}

impl Recent {
    /// A frame with a payload that is as predicted, and its flow's hash.
    #[inline]
    fn parse(&mut self, frame: &[u8]) -> Option<(&Parsed, u64)> {
        Some((self.prediction.as_mut()?.parse(frame)?, self.hash))
    }

    fn learn(&mut self, frame: &[u8], parsed: &Parsed, hash: u64) {
        if parsed.payload_len > 0 {
            self.prediction = Prediction::of(frame, parsed);
            self.hash = hash;
        }
    }
}

/// Takes a frame for `function`: from the wire, or from another function.
pub(crate) fn handle_frame(
    offloads: &mut Offloads,
    function: &mut Function,
    recent: &mut Recent,
    now: Instant,
    frame: &[u8],
    meta: FrameMeta,
) {
    function.counters.rx_packets += 1;
    function.counters.rx_bytes += frame.len() as u64;
    if function.faults.drops() {
        return function.drop_packet(DropReason::RxFaultDropped);
    }
    if let Some((parsed, hash)) = recent.parse(frame) {
        offloads.accel.expect(hash);
        if is_whole(function, frame, parsed, meta) {
            let segment = Segment::new(frame, parsed, meta, hash);
            handle_tcp(offloads, function, now, segment);
        }
        return;
    }
    match &classify(frame) {
        Class::Tcp(parsed) => {
            let hash = offloads.hasher.hash(&parsed.flow);
            recent.learn(frame, parsed, hash);
            offloads.accel.expect(hash);
            if is_whole(function, frame, parsed, meta) {
                let segment = Segment::new(frame, parsed, meta, hash);
                handle_tcp(offloads, function, now, segment);
            }
        }
        Class::Malformed(error) => drop_malformed(function, *error),
        class => {
            if !is_credible(offloads, function, now, frame, class) {
                return;
            }
            let steering = function.rss.steer_other(frame, class);
            if let Some(mut host) = Host::of(function, steering.queue.into()) {
                host.deliver_other(frame, meta, steering);
            }
        }
    }
}

/// Whether the checksums of a segment that has come are right. One that is not whole is dropped.
#[inline(always)]
fn is_whole(function: &mut Function, frame: &[u8], parsed: &Parsed, meta: FrameMeta) -> bool {
    // A frame from a local sender may have TCP's checksum still to be made: it was never on a wire. The port speaks of that one only.
    let is_right = match meta.checksum_valid || meta.needs_checksum.is_some() {
        true => parsed.verify_ip_checksum(frame),
        false => parsed.verify_checksums(frame),
    };
    match is_right {
        true => function.counters.rx_csum_ok += 1,
        false => function.drop_packet(DropReason::RxCsumBad),
    }
    is_right
}

/// Takes notice of a report that a segment of ours was too big for its path, if the device owns its flow. False when nothing like that
/// segment is on its way, as only the device can tell: the host is not to believe it (RFC 5927 §4.1).
fn is_credible(
    offloads: &mut Offloads,
    function: &mut Function,
    now: Instant,
    frame: &[u8],
    class: &Class,
) -> bool {
    if offloads.accel.is_idle() || ethernet::is_of_vlan(frame) {
        return true;
    }
    let Some((quoted, mtu)) = accel::too_big(frame, class) else {
        return true;
    };
    match offloads.owner_of_ours(function.id, &quoted.flow) {
        Some(Owned::Toe(at)) => offloads.toe.path_shrank(now, at, quoted.seq, mtu),
        Some(owner) => (offloads.accel).path_shrank(function, owner, quoted.seq, mtu),
        None => true,
    }
}

/// Takes a frame from memory of the host's that the function had passed up before, as if it came just now.
pub(crate) fn reinject(
    offloads: &mut Offloads,
    function: &mut Function,
    now: Instant,
    frame: Slice,
    gso_size: u16,
) -> Result<(), ErrorCode> {
    if frame.len as usize > MAX_REINJECTED {
        return Err(ErrorCode::TooLarge);
    }
    let located = function.regions.locate(frame);
    let mut bytes = std::mem::take(offloads.accel.scratch());
    bytes.resize(frame.len as usize, 0);
    let read = located.is_some_and(|(region, offset)| region.read(offset, &mut bytes));
    let result = match classify(&bytes) {
        _ if !read => Err(ErrorCode::BadMemory),
        Class::Tcp(parsed) => {
            // It was right when the frame came, and may not be there: it is not made for merged packets, or for what comes
            // from another function.
            let Parsed { flow, .. } = &parsed;
            let segment = parsed.l4_offset..parsed.payload_offset + parsed.payload_len as usize;
            tcp::fill_checksum(flow.src.0, flow.dst.0, &mut bytes[segment]);
            let meta = FrameMeta {
                gso_size,
                needs_checksum: None,
                checksum_valid: true,
            };
            let hash = offloads.hasher.hash(&parsed.flow);
            let segment = Segment::new(&bytes, &parsed, meta, hash);
            handle_tcp(offloads, function, now, segment);
            Ok(())
        }
        _ => Err(ErrorCode::BadHeader),
    };
    *offloads.accel.scratch() = bytes;
    result
}

/// Most bytes of a frame that is put back.
const MAX_REINJECTED: usize = (64 << 10) + 256;

/// Ends a batch of frames: ends LRO sessions and publishes rings. False when completions wait for room in a ring.
pub(crate) fn flush(function: &mut Function) -> bool {
    let mut all = true;
    for queue in 0..function.queues.len() {
        if let Some(mut host) = Host::of(function, queue) {
            all &= host.flush();
        }
    }
    // The host takes a descriptor that comes back as settled when it has seen what is on all receive rings then.
    for queue in &mut function.queues {
        queue.give_back(&function.nic_packets);
    }
    all
}

fn handle_tcp(
    offloads: &mut Offloads,
    function: &mut Function,
    now: Instant,
    mut segment: Segment<'_>,
) {
    let Segment { parsed, hash, .. } = segment;
    let mut established = None;
    let is_of_vlan = segment.is_of_vlan();
    if !offloads.accel.is_idle() && !is_of_vlan {
        match offloads.owner(hash, function.id, &parsed.flow) {
            Some(Owned::Toe(at)) => segment.connection = Some(offloads.toe.connection(at)),
            owner => {
                let flows = &offloads.flows;
                let has_context = parsed.tcp.flags.contains(Flags::SYN)
                    && flows.find(hash, function.id.0, &parsed.flow).is_some();
                let (accel, device) = offloads.accel(now);
                match accel.receive(&device, function, owner, has_context, &segment) {
                    Handled::Taken => return,
                    Handled::Pass(opened) => established = opened,
                }
            }
        }
    }
    segment.steering = function.rss.steer_tcp(hash, &parsed.flow);
    let slot = match is_of_vlan {
        false => offloads.flows.find(hash, function.id.0, &parsed.flow),
        true => None,
    };
    deliver(offloads, function, now, &segment, slot, established);
}

/// Delivers a segment that is not for the device alone; `slot` is its flow's context.
fn deliver(
    offloads: &mut Offloads,
    function: &mut Function,
    now: Instant,
    segment: &Segment<'_>,
    slot: Option<u32>,
    established: Option<Established>,
) {
    let id = function.id;
    let queue = match segment.connection {
        None => segment.steering.queue.into(),
        Some(connection) => function.nic_packets.queue_of(connection),
    };
    if let Some(mut host) = Host::of(function, queue) {
        if let Some(established) = established {
            if !host.deliver_established(segment, established) {
                offloads.accel.not_reported(id, &established);
            }
            return;
        }
        host.deliver_tcp(now, segment, slot, &mut offloads.contexts);
    }
    if segment.connection.is_some() {
        let room = &mut offloads.toe.room;
        room.packet_arrived(id, function.nic_packets.len());
    }
}

fn drop_malformed(function: &mut Function, error: ParseError) {
    let reason = match error {
        ParseError::Truncated { .. } => DropReason::RxMalformedTruncated,
        ParseError::BadHeaderLength(_) | ParseError::BadLength(_) => DropReason::RxMalformedLength,
        ParseError::BadOption { .. } => DropReason::RxMalformedOption,
        _ => DropReason::RxMalformedValue,
    };
    function.drop_packet(reason);
}
