//! What becomes of a segment of a spliced flow, and what it says of the splice.
//!
//! Between the two legs the device is no end of a connection: whether data, or a FIN, has come is for the peers to say, and
//! it follows their acknowledgements. What only someone who does not see the connection would send, it keeps from both
//! (RFC 5961).

use tcp::is_new_incarnation;
use wire::SeqNum;
use wire::packet::Parsed;
use wire::tcp::Flags;

use super::pair::{Pair, Phase};
use super::translate::scaled_window;
use crate::ring::accel::Side;

/// What to do with a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It goes to the other peer.
    Forward,
    /// It goes there without what lies behind this, which is no byte of before. The host gets it whole.
    ForwardUpTo(SeqNum),
    /// It goes there, and the splice ends by it.
    Reset,
    /// Its sender gets an acknowledgement from us, now and then.
    Challenge,
    /// Its sender gets one now: it has sent again what it had sent before the splice.
    Acknowledge,
    /// Nothing.
    Drop,
    /// It opens another connection between the same ends; this one is over.
    Reopens,
}

impl Pair {
    /// Judges a segment from the peer of `side`. Nothing is changed by that.
    #[inline]
    pub(super) fn judge(&self, side: Side, parsed: &Parsed) -> Verdict {
        let (half, other) = self.legs(side);
        let segment = &parsed.tcp;
        let flags = segment.flags;
        if flags.intersects(Flags::SYN.union(Flags::RST)) {
            return self.judge_control(side, parsed);
        }
        // RFC 7323 §3.2: every segment has timestamps once both SYNs had.
        if !flags.contains(Flags::ACK) || half.timestamps() && segment.options.timestamps.is_none()
        {
            return Verdict::Drop;
        }
        let end = segment.seq + segment.sequence_len(parsed.payload_len);
        // What is sent to a closed window, to see whether it is closed still, begins at its edge.
        let limit = match end == segment.seq {
            true => half.stream.nxt.max(half.stream.edge),
            false => half.stream.edge + 1,
        };
        let ahead = segment.seq.after(limit);
        let behind = end.before(half.oldest());
        if ahead || behind || half.is_finished() && end.after(half.stream.nxt) {
            return Verdict::Challenge;
        }
        // RFC 5961 §5.2: neither of what was never sent, nor older than the largest window.
        let ack = segment.ack - other.deltas.seq;
        if ack.after(other.stream.nxt) || ack.before(other.oldest()) {
            return Verdict::Challenge;
        }
        if end != segment.seq && half.is_before_splice(end) {
            return Verdict::Acknowledge;
        }
        if end.after(half.stream.nxt) && matches!(self.phase, Phase::Draining { .. }) {
            return Verdict::ForwardUpTo(half.stream.nxt);
        }
        Verdict::Forward
    }

    #[cold]
    fn judge_control(&self, side: Side, parsed: &Parsed) -> Verdict {
        let (half, _) = self.legs(side);
        let segment = &parsed.tcp;
        if !segment.flags.contains(Flags::RST) {
            let recent = half.timestamps().then_some(half.recent);
            let is_new = || is_new_incarnation(segment, recent, half.stream.nxt);
            return match self.phase {
                Phase::Lingering { .. } if is_new() => Verdict::Reopens,
                // RFC 5961 §4.2.
                _ => Verdict::Challenge,
            };
        }
        // RFC 5961 §3.2 asks for RCV.NXT. Here that is between what the other peer has acknowledged and what was forwarded
        // to it: a peer that gives up sends its RST there, and answers a challenge with one at the former.
        if segment.seq == half.stream.una || segment.seq == half.stream.nxt {
            return Verdict::Reset;
        }
        let inside =
            segment.seq.after(half.stream.una) && segment.seq.at_or_before(half.stream.edge);
        if inside {
            Verdict::Challenge
        } else {
            Verdict::Drop
        }
    }

    /// Takes note of a TSval that is forwarded. To the host, which is to take the data of a segment that was not forwarded
    /// whole, that one must not seem old (RFC 7323 §5.3).
    #[inline]
    fn note_value(&mut self, side: Side, value: u32, whole: bool) {
        let later = |than: u32| {
            if SeqNum(value).after(SeqNum(than)) {
                value
            } else {
                than
            }
        };
        if let Phase::Draining { latest, .. } = &mut self.phase {
            let latest = &mut latest[side.index()];
            *latest = later(*latest);
        }
        if whole {
            let (half, _) = self.legs_mut(side);
            half.recent = later(half.recent);
        }
    }

    /// Takes note of a segment that is forwarded, without what lies behind `end`.
    #[inline]
    pub(super) fn note(
        &mut self,
        side: Side,
        parsed: &Parsed,
        end: SeqNum,
        packets: u32,
        now: u32,
    ) {
        let segment = &parsed.tcp;
        let whole = segment.seq + segment.sequence_len(parsed.payload_len);
        if let Phase::Open { heard, .. } = &mut self.phase {
            *heard = now;
        }
        if let Some(timestamps) = segment.options.timestamps {
            self.note_value(side, timestamps.val, end == whole);
        }
        let (half, other) = self.legs_mut(side);
        half.count_packets(packets);
        half.windows.heard = segment.window;
        if segment.flags.contains(Flags::RST) {
            return;
        }
        if whole != segment.seq {
            half.note_sent(end, end == whole && segment.flags.contains(Flags::FIN));
        } else {
            half.note_empty(segment.seq);
        }
        half.note_reduced(segment.flags);
        let ack = segment.ack - other.deltas.seq;
        other.note_echo(ack, segment.flags);
        let window = scaled_window(segment.window, half, other);
        other.note_acknowledged(ack, window);
    }
}
