//! The size of packets that the path takes (RFC 1191, RFC 8201), also where no router tells (RFC 4821, RFC 8899).

use std::time::Instant;

use wire::SeqNum;

use crate::options::MIN_MSS;
use crate::recovery::Phase;
use crate::time::{Nanos, SECOND, Time};
use crate::{Connection, Counted, Transmit};

/// Larger packets are tried again after so long (RFC 1191 §6.3, RFC 8201 §4; PMTU_RAISE_TIMER of RFC 8899 §5.1.1).
const RAISE_AFTER: Nanos = 600 * SECOND;
/// Timeouts without an acknowledgment that make a path suspect (`tcp_retries1`).
const SUSPECT_TIMEOUTS: u8 = 3;
/// Payload and options of the packets that a suspect path is tried with: the most at first, in the end the least (RFC 4821 §7.2, §7.7).
const BASE_MSS: u16 = 1024;
const LEAST_MSS: u16 = 512;
/// The search ends when no more than so many bytes are left to be gained (`tcp_probe_threshold`).
const SEARCH_ENDS: u16 = 8;
/// Full segments behind a probe, whose acknowledgments tell that it is lost.
const BEHIND_PROBE: u32 = 3;

/// The search for larger packets that the path takes. All sizes are those of payload and options.
#[derive(Clone, Debug)]
pub(crate) struct PathSearch {
    /// When the path was last found to take smaller packets, or the search has ended.
    since: Time,
    /// What is larger has been tried in vain, or is more than both ends take; 0 while nothing is searched for.
    ceiling: u16,
    /// Size of the probe under way; 0 if there is none.
    probe: u16,
    /// Its first byte.
    start: SeqNum,
}

impl PathSearch {
    pub(crate) fn new() -> Self {
        Self {
            since: Time(0),
            ceiling: 0,
            probe: 0,
            start: SeqNum(0),
        }
    }

    /// Nothing can be told from the probe under way: what else was lost may have had the same cause (RFC 4821 §7.6.3).
    pub(crate) fn forget_probe(&mut self) {
        self.probe = 0;
    }
}

impl Connection {
    /// The path takes only smaller packets than thought (ICMP "fragmentation needed" or "packet too big"): `mss` bytes of
    /// TCP payload and options. What was sent too large is sent again.
    pub fn handle_path_mss(&mut self, now: Instant, mss: u16) {
        let now = self.time(now);
        // RFC 1191 §3: no path is narrower than 68 bytes; a forged report can't shrink packets to nothing.
        let mss = mss.max(MIN_MSS);
        if self.path.probe > mss && mss >= self.settings.mss {
            // It is about the probe, which is found lost by itself.
            self.path.ceiling = self.path.ceiling.min(mss);
        }
        self.shrink(now, mss);
    }

    fn shrink(&mut self, now: Time, mss: u16) {
        if mss >= self.settings.mss || self.state == crate::State::Closed {
            return;
        }
        self.settings.mss = mss;
        self.path = PathSearch {
            since: now,
            ..PathSearch::new()
        };
        let old = u32::from(self.snd.mss);
        self.apply_mss();
        let new = u32::from(self.snd.mss);
        self.board
            .mark_lost_where(|record| record.start.distance_to(record.end) > new.min(old));
        if self.recovery.phase == Phase::Open && self.board.lost() > 0 {
            self.resend_for_size(now);
        }
    }

    /// What was too large is sent again. It is not lost to congestion (RFC 1191 §6.4, RFC 4821 §7.6.2).
    fn resend_for_size(&mut self, now: Time) {
        self.recovery.phase = Phase::Resize;
        self.recovery.point = self.snd.nxt;
        self.arm_loss_timer(now);
    }

    /// The retransmission timer has fired, and what it watched is to be sent again: in smaller packets, if full ones were sent in vain
    /// too often (RFC 4821 §7.7). Larger ones are searched for from there on.
    pub(crate) fn suspect_path(&mut self, now: Time) {
        if self.path.probe > 0 {
            self.rule_out_probe(now);
        }
        let mss = u32::from(self.snd.mss);
        let is_full = |head: &crate::sack::Record| head.start.distance_to(head.end) >= mss;
        let is_suspect = self.settings.mtu_probing
            && self.rtt.backoff.tries() >= SUSPECT_TIMEOUTS
            && self.board.oldest().is_some_and(is_full);
        let smaller = (self.settings.mss / 2).clamp(LEAST_MSS, BASE_MSS);
        if is_suspect && smaller < self.settings.mss {
            self.events.counted.add(Counted::BlackHole);
            self.shrink(now, smaller);
            // One packet, of the size that packets have now.
            self.congestion.on_timeout();
            self.path.ceiling = self.settings.full_mss;
        }
    }

    /// Some minutes are over: a path that took smaller packets only is tried with larger ones now and then; with full ones at once, where routers
    /// are trusted to tell.
    #[cold]
    pub(crate) fn reconsider_path(&mut self, now: Time) {
        let is_small = self.settings.mss < self.settings.full_mss;
        let is_at_rest = self.path.ceiling <= self.settings.mss;
        if !is_small || !is_at_rest || now.since(self.path.since) < RAISE_AFTER {
            return;
        }
        if self.settings.mtu_probing {
            self.path.forget_probe();
            self.path.ceiling = self.settings.full_mss;
        } else {
            self.settings.mss = self.settings.full_mss;
            self.apply_mss();
        }
    }

    /// Larger packets are searched for.
    #[inline]
    pub(crate) fn searches_path(&self) -> bool {
        self.settings.mss < self.path.ceiling
    }

    /// The next probe of the path (RFC 4821 §7.3, §7.4): new data in one packet that is larger than all others, if so much is there that its loss
    /// would be seen.
    #[cold]
    pub(crate) fn poll_path_probe(&mut self, now: Time, queued: u32) -> Option<Transmit> {
        if self.path.probe > 0 && !self.take_arrived_probe(now) {
            return None;
        }
        let is_steady = self.recovery.phase == Phase::Open
            && self.board.sacked() == 0
            && self.rtt.backoff.doublings() == 0;
        if !is_steady || !self.searches_path() {
            return None;
        }
        // Full packets first: what dropped them may be gone. Then half of what is left.
        let (low, high) = (self.settings.mss, self.path.ceiling);
        let size = match high == self.settings.full_mss {
            true => high,
            false => low + (high - low).div_ceil(2),
        };
        let options = self.settings.mss - self.snd.mss;
        let payload = size - options;
        let (bytes, behind) = (u32::from(payload), BEHIND_PROBE * u32::from(self.snd.mss));
        let budget = self.congestion.cwnd().saturating_sub(self.pipe());
        let is_seen = queued
            .min(self.snd.window_room())
            .min(self.congestion.cwnd())
            >= bytes + behind;
        if !is_seen || budget < bytes {
            return None;
        }
        self.path.probe = size;
        self.path.start = self.snd.nxt;
        let mss = std::mem::replace(&mut self.snd.mss, payload);
        let transmit = self.send_new(now, bytes, false);
        self.snd.mss = mss;
        Some(transmit)
    }

    /// Takes what the acknowledgment of the probe tells: the path takes packets of its size. Answers whether it has come.
    fn take_arrived_probe(&mut self, now: Time) -> bool {
        let (start, end) = self.probe_range();
        // Positions are compared while they are near: it is looked at with each new segment.
        let is_old = self.snd.una.before(start);
        if is_old || self.snd.una.before(end) {
            return false;
        }
        self.settings.mss = std::mem::take(&mut self.path.probe);
        self.apply_mss();
        self.events.counted.add(Counted::PathRaised);
        self.narrow_search(now);
        true
    }

    /// Whether the probe under way, and nothing else, is lost: then it was too large, and is sent again in packets that are not. The window stays
    /// (RFC 4821 §7.6.2).
    pub(crate) fn takes_lost_probe(&mut self, now: Time) -> bool {
        if self.path.probe == 0 {
            return false;
        }
        let (start, end) = self.probe_range();
        let bytes = start.distance_to(end);
        let is_alone =
            self.board.lost() == bytes && self.board.next_lost(bytes) == Some((start, end));
        if is_alone {
            self.rule_out_probe(now);
            self.resend_for_size(now);
        }
        is_alone
    }

    /// Bytes of the probe, if it is what is outstanding longest.
    pub(crate) fn probe_at_head(&self) -> Option<u32> {
        let (start, end) = self.probe_range();
        (self.path.probe > 0 && start == self.snd.una).then(|| start.distance_to(end))
    }

    fn probe_range(&self) -> (SeqNum, SeqNum) {
        let options = self.settings.mss - self.snd.mss;
        let bytes = self.path.probe.saturating_sub(options);
        (self.path.start, self.path.start + u32::from(bytes))
    }

    /// The path takes no packets of the probe's size.
    fn rule_out_probe(&mut self, now: Time) {
        self.events.counted.add(Counted::BlackHole);
        let below = std::mem::take(&mut self.path.probe) - 1;
        self.path.ceiling = self.path.ceiling.min(below);
        self.narrow_search(now);
    }

    /// Ends the search if there is little left to be gained.
    fn narrow_search(&mut self, now: Time) {
        if self.path.ceiling < self.settings.mss + SEARCH_ENDS {
            self.path.ceiling = 0;
            self.path.since = now;
        }
    }
}
