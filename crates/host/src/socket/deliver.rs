//! What a segment brings a socket.

use std::time::Instant;

use nic::ring::ContextId;
use tcp::{Accepted, Chunk, Received};
use wire::packet::Parsed;

use super::{ReceiveSide, Socket};
use crate::SocketId;
use crate::device::Device;
use crate::driver::FrameInfo;
use crate::memory::{Buffer, MemoryLevel, SizeClass};
use crate::stream::{Placed, RxStatus, Segment};
use crate::tls::Tls;

/// Payload so short that keeping it in a packet's buffer would waste it.
const COPY_BELOW: u32 = 256;
/// Payload that goes behind what came before it, if there is room, so that many short segments don't take a block each.
const APPEND_BELOW: u32 = 1024;

/// Where the urgent pointer is in a TCP header (RFC 9293 §3.1).
const URGENT_POINTER: usize = 18;

impl Socket {
    /// Takes the urgent pointer of a segment with URG that TCP has taken. Answers whether that is news to the application; there is nothing urgent
    /// inside TLS.
    #[cold]
    pub fn takes_urgent(&mut self, frame: &[u8], parsed: &Parsed, received: &Received) -> bool {
        let pointer = frame.get(parsed.l4_offset + URGENT_POINTER..);
        let pointer = pointer.and_then(<[u8]>::first_chunk);
        let pointer = pointer.filter(|_| matches!(self.tls, Tls::None));
        pointer.is_some_and(|pointer| {
            let pointer = u16::from_be_bytes(*pointer);
            self.tcp.handle_urgent(&parsed.tcp, pointer, received)
        })
    }

    /// Keeps what TCP has taken of a packet's payload.
    #[inline]
    pub fn keep_payload(
        &mut self,
        id: SocketId,
        mut payload: Buffer,
        data: Option<Accepted>,
        info: &FrameInfo,
        device: &mut Device,
    ) {
        let discards = self.receive == ReceiveSide::Discarding;
        let data = data.filter(|_| !discards);
        if let Some(context) = info.context.filter(|_| info.is_placed) {
            let taken = data.map_or(0..0, |data| data.skip..data.skip + data.len);
            self.note_placed(context, device.driver.placed(), taken);
        }
        let Some(data) = data else { return };
        let context = info.context;
        let shadow = context.and_then(|context| device.driver.contexts().get_received(context));
        let shadow = shadow.filter(|shadow| shadow.socket == id);
        if let Some(noted) = &mut self.noted {
            // What the NIC has seen of bytes that came before, in another packet, need not be what they were there.
            let is_first = !self.stream.holds_any(data.seq, data.len);
            let has_notes = info.has_notes && shadow.is_some() && is_first;
            let notes = has_notes.then(|| device.driver.notes());
            noted.arrived(data, info.payload_len, notes.unwrap_or_default());
        }
        let status = RxStatus {
            replaced: shadow
                .filter(|_| info.processed.is_replaced())
                .and_then(|shadow| shadow.tag),
            checked: shadow.is_some_and(|shadow| shadow.layers.has_checked(info.processed)),
        };
        if info.is_placed {
            return self.insert_parts(data, payload, status, device);
        }
        payload.advance(data.skip);
        payload.truncate(data.len);
        let collapses = data.len <= payload.class().bytes() / 2
            && (device.level != MemoryLevel::Free || self.would_crowd(payload.class()));
        device.counters.tcp_rcv_collapsed += u64::from(collapses);
        let is_copied = collapses || data.len <= APPEND_BELOW;
        let next = self.tcp.rcv_nxt();
        if is_copied && self.stream.append(data, next, &payload, status) {
            return;
        }
        let buffer = if data.len <= COPY_BELOW || collapses {
            device.driver.arena().shrink(payload)
        } else {
            payload
        };
        device.supply.keep();
        let segment = Segment::new(buffer, status);
        self.stream.insert(data, next, segment);
    }

    /// Whether the blocks of what is unread would with another one be more than the receive buffer, as Linux counts them against `SO_RCVBUF`.
    fn would_crowd(&self, class: SizeClass) -> bool {
        let bytes = self.stream.block_bytes() + u64::from(class.bytes());
        bytes > u64::from(self.tcp.receive_buffer())
    }

    /// Where the peer's stream begins is known once its SYN has come. `data` is what TCP has taken of the segment that has come.
    #[inline]
    pub fn anchor(&mut self, data: Option<Accepted>) {
        if self.receive != ReceiveSide::Unanchored || !self.tcp.state().is_synchronized() {
            return;
        }
        let next = self.tcp.rcv_nxt();
        let start = match data {
            Some(data) if data.seq + data.len == next => data.seq,
            _ => next,
        };
        self.stream.restart(start);
        self.receive = ReceiveSide::Open;
    }

    /// The peer's FIN was taken.
    pub fn peer_closed(&mut self) {
        if self.receive != ReceiveSide::Discarding {
            self.receive = ReceiveSide::PeerClosed;
        }
    }

    /// TCP need not count on a read of what is thrown away.
    #[inline]
    pub fn consume_discarded(&mut self, now: Instant) {
        if self.receive == ReceiveSide::Discarding {
            let unread = self.tcp.unread();
            self.tcp.consumed(now, unread);
        }
    }

    /// Whether a packet's context is one of the connection's, and that has buffers for data.
    pub fn may_be_placed(&self, id: SocketId, context: Option<ContextId>, device: &Device) -> bool {
        let contexts = device.driver.contexts();
        let shadow = context.and_then(|context| contexts.get_received(context));
        shadow.is_some_and(|shadow| shadow.socket == id) && self.places()
    }

    /// Puts a payload together again of which `stored` is in a buffer and the rest where the NIC has put it, as far as TCP has taken it.
    fn insert_parts(
        &mut self,
        data: Accepted,
        mut stored: Buffer,
        status: RxStatus,
        device: &mut Device,
    ) {
        if stored.len() as u32 <= COPY_BELOW {
            stored = device.driver.arena().shrink(stored);
        } else {
            device.supply.keep();
        }
        let mut insert = |at: u32, mut segment: Segment| {
            let len = segment.len();
            let from = data.skip.max(at);
            let to = (data.skip + data.len).min(at + len);
            if from >= to {
                return;
            }
            if to < at + len {
                segment.split_off(to - at);
            }
            if from > at {
                segment.advance(from - at);
            }
            let accepted = Accepted {
                seq: data.seq + (from - data.skip),
                len: to - from,
                skip: 0,
            };
            self.stream.hold(accepted, segment);
        };
        let mut at = 0;
        for part in device.driver.placed() {
            let before = part.at - at;
            if before > 0 {
                let rest = stored.split_off(before);
                insert(
                    at,
                    Segment::new(std::mem::replace(&mut stored, rest), status),
                );
            }
            insert(
                part.at,
                Segment::placed(Placed::new(part.slice, part.tag), status),
            );
            at = part.at + part.slice.len;
        }
        if !stored.is_empty() {
            insert(at, Segment::new(stored, status));
        }
        self.stream.join(self.tcp.rcv_nxt());
    }
}
