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
//! A payload is offloaded as a whole or goes up exactly as it came: it is transformed out of place, from the frame into
//! the host's buffer, and copied again from the frame when a check fails.
//!
//! Cost target beside crypto, checksum and copy: ≤ 150 cycles per packet. Nothing is allocated per packet.

mod buffers;
mod context;
mod open;
mod queue;
pub(crate) mod recovery;
mod search;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod toy;

use std::time::Instant;

use wire::ParseError;
use wire::packet::{Class, Parsed, classify};

pub(crate) use context::ReceiveContext;
pub(crate) use queue::QueueState;
pub(crate) use recovery::{Order, Shared};

use crate::context::Context;
use crate::counters::Counters;
use crate::device::Offloads;
use crate::frame::FrameMeta;
use crate::function::Function;
use crate::ring::{CreateContext, ErrorCode, Protocols, ResyncResponse};
use queue::{Arrival, Host};
use recovery::Answer;

/// Takes a frame for `function`: from the wire, or from another function.
pub(crate) fn handle_frame(
    offloads: &mut Offloads,
    function: &mut Function,
    now: Instant,
    frame: &[u8],
    meta: FrameMeta,
) {
    function.counters.rx_packets += 1;
    function.counters.rx_bytes += frame.len() as u64;
    match classify(frame) {
        Class::Tcp(parsed) => handle_tcp(offloads, function, now, frame, &parsed, meta),
        Class::Malformed(error) => count_malformed(&mut function.counters, error),
        _ => {
            if let Some(mut host) = Host::of(function, 0) {
                host.deliver_other(frame, meta);
            }
        }
    }
}

/// Ends a batch of frames: ends LRO sessions and publishes rings.
pub(crate) fn flush(_offloads: &mut Offloads, function: &mut Function, now: Instant) {
    for queue in 0..function.queues.len() {
        if let Some(mut host) = Host::of(function, queue) {
            host.flush(now);
        }
    }
}

/// When [`flush`] is due without further frames.
pub(crate) fn poll_timeout(function: &Function) -> Option<Instant> {
    let queues = function.queues.iter();
    queues.filter_map(|queue| queue.receive.retry_at()).min()
}

/// Makes a receive context.
pub(crate) fn create_context(
    offloads: &mut Offloads,
    function: &mut Function,
    command: &CreateContext,
) -> Result<(), ErrorCode> {
    let hash = offloads.hasher.hash(&command.flow);
    let flow = command.flow;
    if offloads.flows.find(hash, function.id.0, &flow).is_some() {
        return Err(ErrorCode::ContextExists);
    }
    let Protocols::Tls(crypto) = &command.protocols else {
        return Err(ErrorCode::Unsupported);
    };
    let context = Context::Receive(ReceiveContext::new(command, crypto, hash));
    let counters = &mut function.counters;
    let slot = offloads
        .contexts
        .insert(function.id, command.context, context, counters)?;
    offloads
        .flows
        .insert(hash, function.id.0, flow, slot)
        .map_err(|_| ErrorCode::ContextExists)?;
    function.counters.rx_tls_ctx += 1;
    Ok(())
}

/// Takes the host's answer to a resync request.
pub(crate) fn resync_response(
    offloads: &mut Offloads,
    function: &mut Function,
    response: &ResyncResponse,
) -> Result<(), ErrorCode> {
    let contexts = &mut offloads.contexts;
    let slot = contexts
        .receive_slot(function.id, response.context)
        .ok_or(ErrorCode::NoContext)?;
    let counters = &mut function.counters;
    let flow = contexts
        .receive(slot, counters)
        .ok_or(ErrorCode::NoContext)?;
    let ResyncResponse {
        tcpsn,
        inner,
        confirmed,
        index,
        ..
    } = *response;
    if inner.is_some() {
        return Err(ErrorCode::BadParameters);
    }
    let recovery = &mut flow.context.recovery;
    match recovery.answer(flow.shared, tcpsn, confirmed, index) {
        Answer::Resumed => counters.rx_tls_resync_res_ok += 1,
        Answer::Refused => counters.rx_tls_resync_res_retry += 1,
        Answer::Stale => counters.rx_tls_resync_res_skip += 1,
    }
    Ok(())
}

/// Ends a context, which has been taken out of its slot.
pub(crate) fn destroyed(
    offloads: &mut Offloads,
    function: &mut Function,
    slot: u32,
    mut context: ReceiveContext,
) {
    context.recovery.release(offloads.contexts.shared());
    offloads.flows.remove(context.hash, slot);
    function.counters.rx_tls_del += 1;
}

fn handle_tcp(
    offloads: &mut Offloads,
    function: &mut Function,
    now: Instant,
    frame: &[u8],
    parsed: &Parsed,
    meta: FrameMeta,
) {
    // A frame from a local sender may have its checksum still to be made: it was never on a wire.
    let known_valid = meta.checksum_valid || meta.needs_checksum.is_some();
    if !known_valid && !parsed.verify_checksums(frame) {
        function.counters.rx_csum_bad += 1;
        return;
    }
    function.counters.rx_csum_ok += 1;
    let hash = offloads.hasher.hash(&parsed.flow);
    let slot = offloads.flows.find(hash, function.id.0, &parsed.flow);
    let queue = usize::from(function.rss.queue(hash));
    let arrival = Arrival {
        frame,
        parsed,
        hash,
        segments: segments(parsed, meta),
    };
    if let Some(mut host) = Host::of(function, queue) {
        host.deliver_tcp(now, &arrival, slot, &mut offloads.contexts);
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
