//! The receive side: from a frame to a packet in a host's buffer.
//!
//! ```text
//! frame ─▶ parse, checksum ─▶ flow hash ─▶ queue (RSS)
//!                                 │
//!                                 └─▶ flow table ─▶ context ─▶ recovery ─▶ engine ─┐ one pass, frame to buffer
//!                                                                                 ▼
//!                                     LRO session or a buffer of its own ◀────────┘ or a copy
//! ```
//!
//! A payload is decrypted as a whole or goes up exactly as it came: it is transformed out of place, from the frame into
//! the host's buffer, and copied again from the frame when a check fails. Data of NVMe/TCP PDUs are copied from the frame
//! into the buffers that the host has [mapped](rr_table), and only the rest into a receive buffer ([`delivery`]).
//!
//! Cost target beside crypto, checksum and copy: ≤ 150 cycles per packet. Nothing is allocated per packet.

mod buffers;
mod command;
mod contents;
mod delivery;
mod established;
mod nested;
mod nic_packets;
mod notes;
mod observer;
mod open;
mod placing;
mod queue;
pub(crate) mod recovery;
mod rr_table;
mod search;
mod table;
#[cfg(test)]
mod toy;

use std::time::Instant;

use wire::ParseError;
use wire::packet::{Class, Parsed, Prediction, classify};
use wire::tcp::{self, Flags};

pub(crate) use command::{add_rr_state, create_context, del_rr_state, destroyed, resync_response};
pub(crate) use nic_packets::{Sender, end_session, pass_to_host};
pub(crate) use nic_packets::{end_own_sessions, reset, settle};
pub(crate) use notes::NoteList;
pub(crate) use placing::{Attached, MAX_PLACED, Placed, PlacedList};
pub(crate) use queue::QueueState;
pub(crate) use table::{ReceiveTable, table};

use crate::accel::{Handled, Heard, Segment};
use crate::counters::Counters;
use crate::device::Offloads;
use crate::frame::FrameMeta;
use crate::function::Function;
use crate::ring::{ErrorCode, Slice};
use queue::{Arrival, Host};

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
    if let Some((parsed, hash)) = recent.parse(frame) {
        return handle_tcp(offloads, function, now, frame, parsed, hash, meta);
    }
    match &classify(frame) {
        Class::Tcp(parsed) => {
            let hash = offloads.hasher.hash(&parsed.flow);
            recent.learn(frame, parsed, hash);
            handle_tcp(offloads, function, now, frame, parsed, hash, meta);
        }
        Class::Malformed(error) => count_malformed(&mut function.counters, *error),
        class => {
            if !offloads.accel.is_idle() {
                let (accel, device) = offloads.accel(now);
                match accel.handle_packet_too_big(&device, function, frame, class) {
                    Heard::Forged => return,
                    Heard::OfToe(at, seq, mtu) => {
                        if !offloads.toe.path_shrank(now, at, seq, mtu) {
                            return;
                        }
                    }
                    Heard::ForTheHost => {}
                }
            }
            if let Some(mut host) = Host::of(function, 0) {
                host.deliver_other(frame, meta);
            }
        }
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
    let region = function.regions.get(frame.region);
    let mut bytes = std::mem::take(offloads.accel.scratch());
    bytes.resize(frame.len as usize, 0);
    let read = region.is_some_and(|region| region.read(frame.offset, &mut bytes));
    let result = match classify(&bytes) {
        _ if !read => Err(ErrorCode::BadMemory),
        Class::Tcp(parsed) => {
            // It was right when the frame came, and may not be there: nobody makes that of merged packets, or of what comes
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
            handle_tcp(offloads, function, now, &bytes, &parsed, hash, meta);
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
    frame: &[u8],
    parsed: &Parsed,
    hash: u64,
    meta: FrameMeta,
) {
    offloads.accel.expect(hash);
    // A frame from a local sender may have its checksum still to be made: it was never on a wire.
    let known_valid = meta.checksum_valid || meta.needs_checksum.is_some();
    if !known_valid && !parsed.verify_checksums(frame) {
        function.counters.rx_csum_bad += 1;
        return;
    }
    function.counters.rx_csum_ok += 1;
    let (mut established, mut connection) = (None, None);
    if !offloads.accel.is_idle() {
        let is_syn = parsed.tcp.flags.contains(Flags::SYN);
        let is_hosts = is_syn
            && offloads
                .flows
                .find(hash, function.id.0, &parsed.flow)
                .is_some();
        let (accel, device) = offloads.accel(now);
        let segment = Segment {
            frame,
            parsed,
            meta,
            hash,
            segments: segments(parsed, meta),
            is_hosts,
        };
        match accel.receive(&device, function, &segment) {
            Handled::Taken => return,
            Handled::Pass(opened) => established = opened,
            Handled::Run(number) => connection = Some(number),
        }
    }
    let slot = offloads.flows.find(hash, function.id.0, &parsed.flow);
    let queue = usize::from(function.rss.queue(hash));
    let arrival = Arrival {
        frame,
        parsed,
        hash,
        segments: segments(parsed, meta),
        connection,
    };
    let id = function.id;
    if let Some(mut host) = Host::of(function, queue) {
        if let Some(established) = established {
            if !host.deliver_established(&arrival, established) {
                offloads.accel.not_told(id, &established);
            }
            return;
        }
        host.deliver_tcp(now, &arrival, slot, &mut offloads.contexts);
    }
    if connection.is_some() {
        let room = &mut offloads.toe.room;
        room.packet_arrived(id, function.nic_packets.len());
    }
}

/// Packets on the wire that a frame stands for.
fn segments(parsed: &Parsed, meta: FrameMeta) -> u32 {
    match u32::from(meta.gso_size) {
        0 => 1,
        size => parsed.payload_len.div_ceil(size).max(1),
    }
}

fn count_malformed(counters: &mut Counters, error: ParseError) {
    counters.rx_malformed += 1;
    let reason = match error {
        ParseError::Truncated { .. } => &mut counters.rx_malformed_truncated,
        ParseError::BadHeaderLength(_) | ParseError::BadLength(_) => {
            &mut counters.rx_malformed_length
        }
        ParseError::BadOption { .. } => &mut counters.rx_malformed_option,
        _ => &mut counters.rx_malformed_value,
    };
    *reason += 1;
}
