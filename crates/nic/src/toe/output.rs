//! Segments of connections that the device runs.

use tcp::{CloseReason, Transmit};
use wire::SeqNum;
use wire::packet::emit_tcp_headers;
use wire::tcp::Flags;

use super::entry::{Entry, Farewell, Phase};
use super::pieces::Passes;
use super::{Segment, Toe, ToeEnv};
use crate::ring::toe::{RestoreReason, ToeId};
use crate::ring::{ContextId, ErrorCode, Gather, MAX_HEADER_LEN, Send};
use crate::send::Stopped;
use crate::switch::FunctionId;

/// Payload that was found for a segment.
struct Gathered {
    bytes: u32,
    passes: Option<Passes>,
}

impl Toe {
    /// Whether a connection of a function may have something to send.
    pub(crate) fn has_segments(&self, function: FunctionId) -> bool {
        let lines = self.lines.get(usize::from(function.0));
        lines.is_some_and(|lines| !lines.segments.is_empty())
    }

    /// Whether a connection of a function waits for this context.
    pub(crate) fn waits_for(&self, function: FunctionId, toe: ToeId, context: ContextId) -> bool {
        let at = self.table.find(function.0, toe);
        let waiting = at.and_then(|at| self.table.get(at)?.sending.waiting);
        waiting.is_some_and(|(waiting, _)| waiting == context)
    }

    /// The next segment of a function's connections.
    pub(crate) fn poll_segment(
        &mut self,
        env: &mut ToeEnv<'_>,
        gather: &mut Gather,
    ) -> Option<Segment> {
        let function = env.function.id.0;
        loop {
            let at = self.lines_of(function).segments.pop_front()?;
            let made = self.next_segment(env, at, gather);
            if made.is_some() {
                self.lines_of(function).segments.push_back(at);
            } else if let Some(entry) = self.table.get_mut(at) {
                entry.in_segments = false;
            }
            self.take_notice(at);
            match made {
                Some(send) => {
                    return Some(Segment {
                        connection: self.connection(at),
                        send,
                    });
                }
                None => self.end(env, at),
            }
        }
    }

    /// The next segment of a connection.
    fn next_segment(&mut self, env: &mut ToeEnv<'_>, at: u32, gather: &mut Gather) -> Option<Send> {
        let entry = self.table.get_mut(at)?;
        let running = matches!(entry.phase, Phase::Running | Phase::Ending(_));
        let connection = entry.connection.as_mut().filter(|_| running)?;
        let sending = &mut entry.sending;
        // What was in flight at the offer is still being posted.
        let posted = sending.queue.end().at_or_after(connection.write_seq());
        let ended = matches!(entry.phase, Phase::Ending(_));
        if sending.waiting.is_some() || !(posted || ended) {
            return None;
        }
        let una = connection.snd_una();
        let left = sending.rest.take().and_then(|rest| not_before(rest, una));
        let transmit = match left {
            Some(mut left) => {
                // It may have waited for a context.
                connection.bring_up_to_date(env.now, &mut left);
                left
            }
            None => connection.poll_transmit(env.now)?,
        };
        let Gathered { bytes, passes } = self.gather(env, at, transmit, gather)?;
        let entry = self.table.get_mut(at)?;
        let sending = &mut entry.sending;
        let (first, rest) = cut(transmit, bytes);
        sending.rest = rest;
        sending.last = Some(first);
        let counters = &mut env.function.counters;
        counters.toe_tx_segments += 1;
        counters.toe_tx_retrans += u64::from(first.retransmit);
        let mut send = Send {
            header: [0; MAX_HEADER_LEN],
            header_len: 0,
            mss: if first.payload > u32::from(first.mss) {
                first.mss
            } else {
                0
            },
            context: passes.and_then(|passes| passes.context),
            flags: Toe::flags_of(passes),
            payload_len: first.payload,
        };
        let source = env.function.config.mac;
        send.header_len = write_headers(entry, source, &first, &mut send.header);
        Some(send)
    }

    /// Finds what a segment carries. `None` when it waits for its context.
    fn gather(
        &mut self,
        env: &mut ToeEnv<'_>,
        at: u32,
        transmit: Transmit,
        gather: &mut Gather,
    ) -> Option<Gathered> {
        gather.clear();
        let (from, payload) = (transmit.header.seq, transmit.payload);
        if payload == 0 {
            return Some(Gathered {
                bytes: 0,
                passes: None,
            });
        }
        let entry = self.table.get_mut(at)?;
        let sending = &mut entry.sending;
        let found = self.pool.gather(&mut sending.queue, from, payload, gather);
        let Some((mut bytes, passes)) = found else {
            // It was acknowledged, or never posted: what TCP sends again of it comes again.
            debug_assert!(false, "{from} is not queued");
            return None;
        };
        if let Some(end) = sending.good_until.filter(|_| passes.context.is_some()) {
            let ahead = from.distance_to(end);
            if end == from {
                sending.good_until = None;
                sending.rest = Some(transmit);
                sending.waiting = passes.context.map(|context| (context, from));
                entry.unreported.recover = true;
                env.function.counters.toe_tx_recoveries += 1;
                return None;
            }
            if end.after(from) && ahead < bytes {
                bytes = ahead;
                shorten(gather, bytes);
            }
        }
        Some(Gathered {
            bytes,
            passes: Some(passes),
        })
    }

    /// Of a segment given out nothing from its `tcpsn` on has left.
    pub(crate) fn refused(&mut self, env: &mut ToeEnv<'_>, stopped: &Stopped) {
        let Stopped {
            connection,
            tcpsn,
            error,
        } = *stopped;
        let Some(at) = self.table.by_index(env.function.id.0, connection) else {
            return;
        };
        let Some(entry) = self.table.get_mut(at) else {
            return;
        };
        let sending = &mut entry.sending;
        let context = self
            .pool
            .passes_at(&sending.queue, tcpsn)
            .and_then(|passes| passes.context);
        let last = sending.last.take();
        if let Phase::Ending(_) = entry.phase {
            // Its last segment is lost, as it might be on the wire.
            sending.rest = None;
            return;
        }
        if let Some(last) = last {
            sending.rest = Some(rejoin(last, sending.rest.take(), tcpsn));
        }
        match (error, context) {
            (ErrorCode::OutOfSequence | ErrorCode::Unverified, Some(context)) => {
                sending.waiting = Some((context, tcpsn));
                entry.unreported.recover = true;
                env.function.counters.toe_tx_recoveries += 1;
                self.wants_events(at);
            }
            _ => self.give_back(env, at, RestoreReason::Transmit { error, context }),
        }
    }

    /// A connection that has ended and has nothing more to send leaves.
    fn end(&mut self, env: &mut ToeEnv<'_>, at: u32) {
        let Some(entry) = self.table.get(at) else {
            return;
        };
        let Phase::Ending(reason) = entry.phase else {
            return;
        };
        let connection = entry.connection.as_ref();
        let time_wait = connection.and_then(|connection| connection.time_wait(env.now));
        let counters = &mut env.function.counters;
        counters.toe_closed += 1;
        counters.toe_time_wait += u64::from(time_wait.is_some());
        let reason = match time_wait {
            Some(_) => CloseReason::Graceful,
            None => reason,
        };
        self.leave(env.function, at, Farewell::Closed(reason, time_wait));
    }
}

/// What of a segment is not acknowledged.
fn not_before(mut transmit: Transmit, una: SeqNum) -> Option<Transmit> {
    let seq = transmit.header.seq;
    if una.after(seq) {
        let gone = seq.distance_to(una);
        let fin = u32::from(transmit.header.flags.contains(Flags::FIN));
        if gone >= transmit.payload + fin {
            return None;
        }
        transmit.header.seq += gone;
        transmit.payload -= gone.min(transmit.payload);
    }
    Some(transmit)
}

/// The first bytes of a segment, and the others. FIN and PSH are the last ones'.
fn cut(transmit: Transmit, bytes: u32) -> (Transmit, Option<Transmit>) {
    if bytes >= transmit.payload {
        return (transmit, None);
    }
    let (mut first, mut rest) = (transmit, transmit);
    first.payload = bytes;
    first.header.flags.remove(Flags::FIN | Flags::PSH);
    rest.header.flags.remove(Flags::CWR);
    rest.payload -= bytes;
    rest.header.seq += bytes;
    (first, Some(rest))
}

/// What was not sent of a segment, from `from` on, and what was to follow it.
fn rejoin(last: Transmit, rest: Option<Transmit>, from: SeqNum) -> Transmit {
    let sent = last.header.seq.distance_to(from).min(last.payload);
    let mut joined = last;
    joined.header.seq += sent;
    joined.payload -= sent;
    if let Some(rest) = rest {
        joined.payload += rest.payload;
        let reduced = match sent {
            0 => Flags(last.header.flags.0 & Flags::CWR.0),
            _ => Flags::NONE,
        };
        joined.header.flags = rest.header.flags | reduced;
    }
    joined
}

/// Keeps the first bytes of a gather.
fn shorten(gather: &mut Gather, bytes: u32) {
    let whole = gather.clone();
    gather.clear();
    let mut left = bytes;
    for slice in whole.slices() {
        let len = slice.len.min(left);
        if len == 0 {
            break;
        }
        gather.push(crate::ring::Slice { len, ..*slice });
        left -= len;
    }
}

/// Writes the headers of a segment's first packet; gives their length.
fn write_headers(
    entry: &Entry,
    source: wire::ethernet::MacAddr,
    transmit: &Transmit,
    header: &mut [u8; MAX_HEADER_LEN],
) -> u8 {
    let len = emit_tcp_headers(
        header,
        source,
        entry.hop,
        &entry.flow.reversed(),
        &transmit.header,
        transmit.payload,
        entry.hop_limit,
    );
    len as u8
}
