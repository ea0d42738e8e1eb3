//! What a connection in teardown sends next (RFC 9293 §3.8, §3.10.7).

use tcp::State;
use wire::SeqNum;
use wire::tcp::{Flags, Header, Options, Timestamps};

use super::Nanos;
use super::entry::{Entry, NEVER, OPEN, millis};

/// A segment to send.
#[derive(Debug, Clone, Copy)]
pub(super) struct Segment {
    pub(super) header: Header,
    /// Bytes of data, from `header.seq` on.
    pub(super) payload: u32,
    /// Some of it was sent before.
    pub(super) again: bool,
}

/// A range of the sequence space, the FIN perhaps included.
#[derive(Debug, Clone, Copy)]
struct Range {
    start: SeqNum,
    payload: u32,
    fin: bool,
}

impl Range {
    fn end(&self) -> SeqNum {
        self.start + self.payload + u32::from(self.fin)
    }
}

impl Entry {
    /// Whether [`next_segment`](Self::next_segment) may give one.
    pub(super) fn may_send(&self) -> bool {
        let owes = &self.owes;
        if self.state == State::Closed {
            return owes.reset;
        }
        self.send.at_or_before(self.fin) || owes.ack || owes.probe || owes.oldest
    }

    /// The next segment; larger than a packet if the wire can `cut` it.
    pub(super) fn next_segment(&mut self, now: Nanos, cut: bool) -> Option<Segment> {
        if std::mem::take(&mut self.owes.reset) {
            return Some(self.reset_segment());
        }
        if self.state == State::Closed {
            return None;
        }
        if std::mem::take(&mut self.owes.oldest) && self.is_anything_outstanding() {
            let range = self.oldest();
            return Some(self.data_segment(now, range));
        }
        if let Some(range) = self.sendable(cut) {
            self.send = range.end();
            return Some(self.data_segment(now, range));
        }
        self.watch_window(now);
        if std::mem::take(&mut self.owes.probe) {
            // An empty segment that the peer must answer.
            return Some(self.empty_segment(now, self.una - 1));
        }
        self.owes
            .ack
            .then(|| self.empty_segment(now, self.acceptable_seq()))
    }

    /// Where the peer takes a segment without payload: behind all that was sent, or at the edge of its window if that was
    /// taken back.
    fn acceptable_seq(&self) -> SeqNum {
        let edge = self.una + self.wnd;
        // What a peer takes is not told exactly when windows are scaled.
        let rounding = (1 << self.snd_shift) - 1;
        if self.nxt.after(edge + rounding) {
            edge
        } else {
            self.nxt
        }
    }

    /// The first segment that is not acknowledged, as it may have been lost.
    fn oldest(&self) -> Range {
        let sent = self.una.distance_to(self.nxt.min(self.fin));
        let payload = sent.min(self.mss.into());
        let end = self.una + payload;
        Range {
            start: self.una,
            payload,
            fin: end == self.fin && self.nxt.after(self.fin),
        }
    }

    /// What the windows let go.
    fn sendable(&mut self, cut: bool) -> Option<Range> {
        if self.send.after(self.fin) {
            return None;
        }
        let mss = u32::from(self.mss);
        let left = self.send.distance_to(self.fin);
        let offered = self.offered();
        let room = match self.cwnd {
            OPEN => offered,
            cwnd => offered.min(self.room_until(self.una + u32::from(cwnd) * mss)),
        };
        let payload = if left <= room {
            left
        } else if room >= mss {
            room - room % mss
        } else if self.may_send_small(room) {
            room
        } else {
            0
        };
        // The FIN takes room in the peer's window too.
        let fin = payload == left && offered > left;
        if payload == 0 && !fin {
            return None;
        }
        let payload = if cut { payload } else { payload.min(mss) };
        Some(Range {
            start: self.send,
            payload,
            fin: fin && payload == left,
        })
    }

    /// What the peer's window takes from `send` on.
    fn offered(&self) -> u32 {
        let offered = self.room_until(self.una + self.wnd);
        if self.send == self.una && self.send.before(self.nxt) {
            // RFC 9293 §3.8.6: a peer that has taken back its window is probed with what is oldest.
            let oldest = self.send.distance_to(self.nxt);
            return offered.max(oldest.min(u32::from(self.mss) + 1));
        }
        offered
    }

    fn room_until(&self, edge: SeqNum) -> u32 {
        if edge.after(self.send) {
            self.send.distance_to(edge)
        } else {
            0
        }
    }

    /// A window smaller than a segment is used only if it is half of the largest ever, or the override timer says so
    /// (RFC 9293 §3.8.6.2.1).
    fn may_send_small(&self, room: u32) -> bool {
        let again = self.send.before(self.nxt);
        let worth_it = room >= self.max_wnd / 2 || self.owes.fill;
        room > 0 && (again || (!self.is_anything_outstanding() && worth_it))
    }

    /// Data waits, nothing is in flight and the window does not let it go: probe the window from time to time.
    fn watch_window(&mut self, now: Nanos) {
        let waits = self.send.at_or_before(self.fin) && !self.is_anything_outstanding();
        if waits && self.deadline == NEVER {
            self.deadline = now + self.rto();
        }
    }

    fn data_segment(&mut self, now: Nanos, range: Range) -> Segment {
        let again = range.start.before(self.nxt);
        if again {
            self.recover = self.recover.max(range.end());
        } else if !self.is_anything_outstanding() {
            // The window has opened.
            if std::mem::take(&mut self.tries) > 0 {
                self.backoff = 0;
            }
            self.owes.fill = false;
            self.deadline = NEVER;
        }
        self.nxt = self.nxt.max(range.end());
        if self.deadline == NEVER {
            self.deadline = now + self.rto();
        }
        let mut flags = Flags::ACK;
        if range.fin {
            flags |= Flags::FIN;
        }
        if range.payload > 0 && range.start + range.payload == self.fin {
            flags |= Flags::PSH;
        }
        Segment {
            header: self.header(now, range.start, flags),
            payload: range.payload,
            again,
        }
    }

    fn empty_segment(&mut self, now: Nanos, seq: SeqNum) -> Segment {
        Segment {
            header: self.header(now, seq, Flags::ACK),
            payload: 0,
            again: false,
        }
    }

    fn header(&mut self, now: Nanos, seq: SeqNum, flags: Flags) -> Header {
        self.owes.ack = false;
        self.fin_unacknowledged = false;
        Header {
            src_port: self.flow.src.1,
            dst_port: self.flow.dst.1,
            seq,
            ack: self.rcv_nxt,
            flags,
            window: self.window,
            options: Options {
                timestamps: self.has_timestamps.then(|| Timestamps {
                    val: self.clock.wrapping_add(millis(now)),
                    echo: self.recent,
                }),
                ..Options::default()
            },
        }
    }

    fn reset_segment(&self) -> Segment {
        Segment {
            header: Header {
                src_port: self.flow.src.1,
                dst_port: self.flow.dst.1,
                seq: self.nxt,
                flags: Flags::RST,
                ..Header::default()
            },
            payload: 0,
            again: false,
        }
    }
}
