//! What a connection in teardown sends next (RFC 9293 §3.8, §3.10.7).

use tcp::{Backoff, State};
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
        self.snd.send.at_or_before(self.snd.fin) || owes.ack || owes.probe || owes.oldest
    }

    /// The next segment; larger than a packet if the wire can `cut` it.
    pub(super) fn next_segment(&mut self, now: Nanos, cut: bool) -> Option<Segment> {
        if std::mem::take(&mut self.owes.reset) {
            return Some(self.reset_segment(now));
        }
        if self.state == State::Closed {
            return None;
        }
        if std::mem::take(&mut self.owes.oldest) && self.is_anything_outstanding() {
            let range = self.oldest();
            return Some(self.data_segment(now, range));
        }
        if let Some(range) = self.sendable(cut) {
            self.snd.send = range.end();
            return Some(self.data_segment(now, range));
        }
        self.watch_window(now);
        if std::mem::take(&mut self.owes.probe) {
            // An empty segment that the peer must answer.
            return Some(self.empty_segment(now, self.snd.una - 1));
        }
        self.owes
            .ack
            .then(|| self.empty_segment(now, self.acceptable_seq()))
    }

    fn acceptable_seq(&self) -> SeqNum {
        let snd = &self.snd;
        snd.window.acceptable_seq(snd.una, snd.nxt, snd.shift)
    }

    /// The first segment that is not acknowledged, as it may have been lost.
    fn oldest(&self) -> Range {
        let sent = self.snd.una.distance_to(self.snd.nxt.min(self.snd.fin));
        let payload = sent.min(self.snd.mss.into());
        let end = self.snd.una + payload;
        Range {
            start: self.snd.una,
            payload,
            fin: end == self.snd.fin && self.snd.nxt.after(self.snd.fin),
        }
    }

    /// What the windows let go.
    fn sendable(&mut self, cut: bool) -> Option<Range> {
        if self.snd.send.after(self.snd.fin) {
            return None;
        }
        let mss = u32::from(self.snd.mss);
        let left = self.snd.send.distance_to(self.snd.fin);
        let offered = self.offered();
        let room = match self.snd.cwnd {
            OPEN => offered,
            cwnd => offered.min(self.room_until(self.snd.una + u32::from(cwnd) * mss)),
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
            start: self.snd.send,
            payload,
            fin: fin && payload == left,
        })
    }

    /// What the peer's window takes from `send` on.
    fn offered(&self) -> u32 {
        let offered = self.room_until(self.snd.una + self.snd.window.bytes());
        if self.snd.send == self.snd.una && self.snd.send.before(self.snd.nxt) {
            // RFC 9293 §3.8.6: a peer that has taken back its window is probed with what is oldest.
            let oldest = self.snd.send.distance_to(self.snd.nxt);
            return offered.max(oldest.min(u32::from(self.snd.mss) + 1));
        }
        offered
    }

    fn room_until(&self, edge: SeqNum) -> u32 {
        if edge.after(self.snd.send) {
            self.snd.send.distance_to(edge)
        } else {
            0
        }
    }

    /// A window smaller than a segment is used only if it is half of the largest ever, or the override timer says so
    /// (RFC 9293 §3.8.6.2.1).
    fn may_send_small(&self, room: u32) -> bool {
        let again = self.snd.send.before(self.snd.nxt);
        let worth_it = self.snd.window.is_worth(room) || self.owes.fill;
        room > 0 && (again || (!self.is_anything_outstanding() && worth_it))
    }

    /// Data waits, nothing is in flight and the window does not let it go: probe the window from time to time.
    fn watch_window(&mut self, now: Nanos) {
        let waits = self.snd.send.at_or_before(self.snd.fin) && !self.is_anything_outstanding();
        if waits && self.deadline == NEVER {
            self.deadline = now + self.rto();
        }
    }

    fn data_segment(&mut self, now: Nanos, range: Range) -> Segment {
        let again = range.start.before(self.snd.nxt);
        if again {
            self.snd.recover = self.snd.recover.max(range.end());
        } else if !self.is_anything_outstanding() {
            // The window has opened.
            if self.snd.backoff.tries() > 0 {
                self.snd.backoff = Backoff::default();
            }
            self.owes.fill = false;
            self.deadline = NEVER;
        }
        self.snd.nxt = self.snd.nxt.max(range.end());
        if self.deadline == NEVER {
            self.deadline = now + self.rto();
        }
        let mut flags = Flags::ACK;
        if range.fin {
            flags |= Flags::FIN;
        }
        if range.payload > 0 && range.start + range.payload == self.snd.fin {
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
        self.rcv.fin_unacknowledged = false;
        Header {
            src_port: self.flow.src.1,
            dst_port: self.flow.dst.1,
            seq,
            ack: self.rcv.nxt,
            flags,
            window: self.rcv.window,
            options: self.options(now),
            ecn: wire::Ecn::NotEct,
        }
    }

    fn options(&self, now: Nanos) -> Options {
        Options {
            timestamps: self.rcv.has_timestamps.then(|| Timestamps {
                val: self.rcv.clock.wrapping_add(millis(now)),
                echo: self.rcv.recent,
            }),
            ..Options::default()
        }
    }

    /// With timestamps, where they are in use (RFC 7323 §3.2).
    fn reset_segment(&self, now: Nanos) -> Segment {
        Segment {
            header: Header {
                src_port: self.flow.src.1,
                dst_port: self.flow.dst.1,
                seq: self.snd.nxt,
                flags: Flags::RST,
                options: self.options(now),
                ..Header::default()
            },
            payload: 0,
            again: false,
        }
    }
}
