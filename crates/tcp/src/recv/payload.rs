//! Takes in a segment's payload and FIN.

use wire::SeqNum;
use wire::tcp::{Flags, Header};

use super::Receiver;
use crate::ranges::Insertion;
use crate::time::Time;
use crate::{Accepted, Connection, Received};

struct Taken {
    accepted: Option<Accepted>,
    /// It followed on, and nothing is missing.
    in_order: bool,
}

impl Receiver {
    /// Takes payload at `seq`. Returns what to keep, and whether it closed a gap or came out of order.
    fn take(&mut self, seq: SeqNum, len: u32) -> Taken {
        let end = seq + len;
        let left = seq.max(self.nxt);
        let mut right = end.min(self.edge);
        if let Some(fin) = self.fin {
            right = right.min(fin);
        }
        // RFC 2883 §4: what had come before is reported, if it is only a part, too.
        let duplicate = match seq.before(self.nxt) {
            true => Some((seq, end.min(self.nxt))),
            false => self.ranges.overlap(left, right),
        };
        if let Some((start, end)) = duplicate {
            self.ranges.note_duplicate(start, end);
        }
        if right.at_or_before(left) {
            return Taken {
                accepted: None,
                in_order: false,
            };
        }
        let accepted = Accepted {
            skip: seq.distance_to(left),
            len: left.distance_to(right),
            seq: left,
        };
        if left == self.nxt {
            let in_order = self.ranges.is_empty() && seq == left && right == end;
            self.nxt = self.ranges.advance(right);
            return Taken {
                accepted: Some(accepted),
                in_order,
            };
        }
        let accepted = match self.ranges.insert(left, right) {
            Insertion::New => Some(accepted),
            Insertion::Duplicate | Insertion::Refused => None,
        };
        Taken {
            accepted,
            in_order: false,
        }
    }

    /// Takes a FIN at `seq`.
    fn take_fin(&mut self, seq: SeqNum) {
        let fits = seq.at_or_after(self.nxt) && seq.at_or_before(self.edge);
        if fits && self.fin.is_none() && self.ranges.end().is_none_or(|end| end.at_or_before(seq)) {
            self.fin = Some(seq);
        }
    }
}

impl Connection {
    /// Takes a segment's payload and FIN (RFC 9293 §3.10.7.4, seventh and eighth).
    pub(crate) fn take_payload(
        &mut self,
        now: Time,
        segment: &Header,
        len: u32,
        packets: u16,
    ) -> Received {
        let fin = segment.flags.contains(Flags::FIN);
        let mut received = Received {
            counts_urgent: self.state.may_receive(),
            ..Received::default()
        };
        if len == 0 && !fin {
            return received;
        }
        if !self.state.may_receive() {
            // After the peer's FIN nothing more can come but what came before.
            self.rcv.ack.now = true;
            return received;
        }
        let before = self.rcv.nxt;
        let mut in_order = true;
        if len > 0 {
            let taken = self.rcv.take(segment.seq, len);
            received.data = taken.accepted;
            in_order = taken.in_order;
            self.note_packet_size(len, packets);
            if self.ecn.is_on() {
                self.take_marks(segment);
            }
        }
        if fin {
            self.rcv.take_fin(segment.seq + len);
            in_order &= self.rcv.fin == Some(self.rcv.nxt);
        }
        let advanced = before.distance_to(self.rcv.nxt);
        received.advanced = advanced > 0;
        self.rcv.note_in_order(advanced);
        self.stats.bytes_received += u64::from(advanced);
        if self.rcv.fin == Some(self.rcv.nxt) {
            self.rcv.nxt += 1;
            self.rcv.fin_taken = true;
            received.fin = true;
            self.rcv.ack.now = true;
            self.on_peer_fin(now);
        }
        if received.advanced {
            self.sample_receiver_rtt(now, segment);
        }
        self.owe_ack(now, packets, in_order);
        received
    }

    fn note_packet_size(&mut self, len: u32, packets: u16) {
        let per_packet = len.div_ceil(u32::from(packets.max(1)));
        let announced = self.settings.adv_mss;
        if per_packet > u32::from(self.rcv.mss) {
            self.rcv.mss = per_packet.min(u32::from(announced)) as u16;
        }
    }

    fn sample_receiver_rtt(&mut self, now: Time, segment: &Header) {
        if let Some(timestamps) = segment
            .options
            .timestamps
            .filter(|t| self.options.timestamps && t.echo != 0)
        {
            let elapsed = self.timestamps.value(now).wrapping_sub(timestamps.echo);
            self.rcv.tuning.note_rtt(elapsed);
        }
    }
}
