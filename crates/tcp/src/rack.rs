//! Loss detection by time: RACK (RFC 8985 §6) and tail loss probes (§7).

use wire::SeqNum;

use crate::rtt::Rtt;
use crate::sack::Delivery;
use crate::time::{MILLISECOND, Nanos, SECOND, Time};

/// The reordering window never grows beyond so many quarters of the smallest RTT.
const MAX_MULTIPLIER: u8 = 40;
/// Recoveries without a DSACK after which the reordering window shrinks again (RFC 8985 §6.2 step 4).
const PERSISTENCE: u8 = 16;
/// A probe is not sent sooner: below, a peer's scheduling looks like loss.
const MIN_PROBE_TIMEOUT: Nanos = 2 * MILLISECOND;
/// What a peer may take to acknowledge a lone segment (RFC 8985 §7.2, WCDelAckT).
const MAX_ACK_DELAY: Nanos = 200 * MILLISECOND;

#[derive(Clone, Debug)]
pub(crate) struct Rack {
    /// When the segment sent last, of those delivered, was sent; and its end.
    sent_at: Time,
    end: SeqNum,
    rtt: Nanos,
    multiplier: u8,
    persistence: u8,
    /// The next widening waits until this is acknowledged.
    widened_until: Option<SeqNum>,
    pub(crate) reordering_seen: bool,
    /// The probe in flight: `snd_nxt` when it was sent, and whether it was a retransmission.
    pub(crate) probe: Option<(SeqNum, bool)>,
}

impl Rack {
    pub(crate) fn new(start: SeqNum) -> Self {
        Self {
            sent_at: Time(0),
            end: start,
            rtt: 0,
            multiplier: 1,
            persistence: 0,
            widened_until: None,
            reordering_seen: false,
            probe: None,
        }
    }

    /// Takes what an ACK tells was delivered (RFC 8985 §6.2 steps 2 and 3).
    pub(crate) fn update(&mut self, delivery: &Delivery) {
        self.reordering_seen |= delivery.reordered;
        let Some((sent_at, end, _)) = delivery.newest else {
            return;
        };
        self.rtt = delivery.now.since(sent_at);
        if sent_at > self.sent_at || (sent_at == self.sent_at && end.after(self.end)) {
            self.sent_at = sent_at;
            self.end = end;
        }
    }

    /// The latest delivered segment was sent after this one.
    pub(crate) fn was_sent_after(&self, sent_at: Time, end: SeqNum) -> bool {
        self.sent_at > sent_at || (self.sent_at == sent_at && self.end.after(end))
    }

    /// Time until a segment counts as lost; zero if it does.
    pub(crate) fn remaining(&self, sent_at: Time, reorder_window: Nanos, now: Time) -> Nanos {
        sent_at.after(self.rtt + reorder_window).since(now)
    }

    /// How long to wait for what may only be reordered (RFC 8985 §6.2 step 4).
    pub(crate) fn reorder_window(
        &self,
        rtt: &Rtt,
        in_recovery: bool,
        sacked: u32,
        mss: u32,
    ) -> Nanos {
        // RFC 8985 §6.2: without reordering seen, three duplicate ACKs are enough.
        if !self.reordering_seen && (in_recovery || sacked > 2 * mss) {
            return 0;
        }
        let minimum = rtt.minimum().or(rtt.smoothed()).unwrap_or(0);
        (minimum / 4 * u64::from(self.multiplier)).min(rtt.smoothed().unwrap_or(minimum))
    }

    /// The peer got something twice: what was thought lost was late (RFC 8985 §6.2 step 4).
    pub(crate) fn widen(&mut self, una: SeqNum, nxt: SeqNum) {
        if self.widened_until.is_some_and(|until| until.after(una)) {
            return;
        }
        self.widened_until = Some(nxt);
        self.reordering_seen = true;
        self.multiplier = (self.multiplier + 1).min(MAX_MULTIPLIER);
        self.persistence = PERSISTENCE;
    }

    /// `una` moved on.
    pub(crate) fn note_acknowledged(&mut self, una: SeqNum) {
        if self
            .widened_until
            .is_some_and(|until| until.at_or_before(una))
        {
            self.widened_until = None;
        }
        if self.end.before(una) {
            self.end = una;
        }
    }

    /// A recovery is over.
    pub(crate) fn note_recovered(&mut self) {
        self.persistence = self.persistence.saturating_sub(1);
        if self.persistence == 0 {
            self.multiplier = 1;
        }
    }

    /// When to probe after sending (RFC 8985 §7.2, TLP_calc_PTO).
    pub(crate) fn probe_timeout(rtt: &Rtt, flight: u32, mss: u32) -> Nanos {
        let Some(smoothed) = rtt.smoothed() else {
            return SECOND;
        };
        let mut timeout = 2 * smoothed;
        if flight <= mss {
            timeout += MAX_ACK_DELAY;
        }
        timeout.max(MIN_PROBE_TIMEOUT)
    }
}
