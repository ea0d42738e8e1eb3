//! The first checks of a segment that arrives on a synchronized connection (RFC 9293 §3.10.7.4), as functions of numbers. The
//! NIC's table of closing connections, which has no room for a [`Connection`](crate::Connection) each, uses them too.

use wire::SeqNum;
use wire::tcp::{Flags, Header};

/// What a connection has received and offered.
#[derive(Clone, Copy, Debug)]
pub struct ReceiveSpace {
    /// RCV.NXT.
    pub nxt: SeqNum,
    /// The acknowledgment number that was sent last (RFC 7323 §4.3, Last.ACK.sent).
    pub last_ack_sent: SeqNum,
    /// Right edge of the largest window that was ever offered.
    pub edge: SeqNum,
    /// Timestamps are in use.
    pub timestamps: bool,
    /// TS.Recent, unless it is too old to say anything (RFC 7323 §5.5).
    pub recent: Option<u32>,
}

/// What the first checks say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acceptance {
    /// The segment is acceptable.
    Acceptable,
    /// It is dropped without an answer.
    Ignored,
    /// It is older than what has come (PAWS, RFC 7323 §5.3): it is answered and dropped.
    Stale,
    /// All of it has come before: it is answered, and its ACK field may count ([`SendSpace::takes_ack_of_old`]).
    Old,
    /// It lies beyond what was offered: it is answered and dropped.
    Beyond,
}

impl ReceiveSpace {
    /// PAWS (RFC 7323 §5.3) and the sequence number (RFC 9293 §3.10.7.4, first).
    #[inline]
    pub fn check(&self, segment: &Header, payload_len: u32) -> Acceptance {
        let is_reset = segment.flags.contains(Flags::RST);
        if self.timestamps && !is_reset {
            match segment.options.timestamps {
                // RFC 7323 §3.2: every segment has them once both SYNs had.
                None => return Acceptance::Ignored,
                Some(timestamps) if self.is_older(timestamps.val) => return Acceptance::Stale,
                Some(_) => {}
            }
        }
        let len = segment.sequence_len(payload_len);
        let end = segment.seq + len;
        // An ACK that was overtaken by data counts until that data was acknowledged; a full window may be sent to up to its
        // edge, and what does not fit it still brings its ACK.
        let not_old = match len {
            0 => end.at_or_after(self.last_ack_sent),
            _ => end.after(self.nxt),
        };
        let not_beyond = segment.seq.at_or_before(self.edge.max(self.nxt));
        match (not_beyond, not_old) {
            (true, true) => Acceptance::Acceptable,
            _ if is_reset => Acceptance::Ignored,
            (true, false) => Acceptance::Old,
            (false, _) => Acceptance::Beyond,
        }
    }

    /// Whether a segment that is not acceptable is a probe of the window or a keep-alive (RFC 9293 §3.8.4, §3.8.6.1). Every one is answered: its
    /// sender counts those that are not, and two ends can't both take the other's answers for probes.
    #[inline]
    pub fn is_probe(&self, segment: &Header) -> bool {
        !segment.flags.intersects(Flags::SYN | Flags::FIN) && segment.seq + 1 == self.nxt
    }

    /// Whether TS.Recent becomes the segment's TSval (RFC 7323 §4.3).
    #[inline]
    pub fn takes_timestamp(&self, segment: &Header) -> Option<u32> {
        let value = segment.options.timestamps?.val;
        let is_current = segment.seq.at_or_before(self.last_ack_sent) && !self.is_older(value);
        (self.timestamps && is_current).then_some(value)
    }

    fn is_older(&self, value: u32) -> bool {
        self.recent
            .is_some_and(|recent| SeqNum(value).before(SeqNum(recent)))
    }
}

/// What a connection has sent.
#[derive(Clone, Copy, Debug)]
pub struct SendSpace {
    /// SND.UNA.
    pub una: SeqNum,
    /// SND.NXT.
    pub nxt: SeqNum,
    /// The largest window that the peer has offered.
    pub largest_window: u32,
}

impl SendSpace {
    /// Whether an ACK can be the peer's (RFC 5961 §5.2): neither of what was never sent, nor older than its largest window.
    #[inline]
    pub fn is_credible(&self, ack: SeqNum) -> bool {
        let oldest = self.una - self.largest_window;
        ack.at_or_before(self.nxt) && ack.at_or_after(oldest)
    }

    /// Whether the ACK field of a segment whose payload is old counts, as in BSD: of two ends that have both sent beyond what
    /// the other takes, or that both probe, each would else wait for an acceptable segment of the other (RFC 9293 §3.10.7.4).
    /// Blind attackers gain little: the segment has to lie where the peer may have stood, which is not before `oldest`, and the
    /// ACK where RFC 5961 §5 wants it.
    pub fn takes_ack_of_old(&self, segment: &Header, oldest: SeqNum) -> bool {
        let flags = segment.flags;
        let brings_news = segment.ack.after(self.una) && segment.ack.at_or_before(self.nxt);
        let is_ack = flags.contains(Flags::ACK) && !flags.contains(Flags::SYN);
        is_ack && brings_news && segment.seq.at_or_after(oldest)
    }
}

/// When challenge ACKs may go out (RFC 5961 §7), in milliseconds of a clock that may wrap.
#[derive(Clone, Copy, Debug)]
pub struct ChallengeLimit {
    last: u32,
}

impl ChallengeLimit {
    /// At most one challenge ACK in this many milliseconds.
    const INTERVAL: u32 = 500;

    /// Lets a challenge ACK go out at once.
    pub fn new(now: u32) -> ChallengeLimit {
        ChallengeLimit {
            last: now.wrapping_sub(Self::INTERVAL),
        }
    }

    /// Whether a challenge ACK may go out now; if so the next has to wait.
    pub fn admits(&mut self, now: u32) -> bool {
        let admits = now.wrapping_sub(self.last) >= Self::INTERVAL;
        if admits {
            self.last = now;
        }
        admits
    }
}
