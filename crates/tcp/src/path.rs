//! The size of packets that the path takes (RFC 1191, RFC 8201), also where no router tells (RFC 4821).

use std::time::Instant;

use crate::options::MIN_MSS;
use crate::recovery::Phase;
use crate::time::{Nanos, SECOND, Time};
use crate::{Connection, Counted};

/// Larger packets are tried again after so long (RFC 1191 §6.3, RFC 8201 §4).
const RAISE_AFTER: Nanos = 600 * SECOND;
/// Timeouts without an acknowledgment that make a path suspect (`tcp_retries1`).
const SUSPECT_TIMEOUTS: u8 = 3;
/// Payload and options of the packets that a suspect path is tried with: the most at first, in the end the least (RFC 4821 §7.2, §7.7).
const BASE_MSS: u16 = 1024;
const LEAST_MSS: u16 = 512;

impl Connection {
    /// The path takes only smaller packets than thought (ICMP "fragmentation needed" or "packet too big"): `mss` bytes of
    /// TCP payload and options. What was sent too large is sent again.
    pub fn handle_path_mss(&mut self, now: Instant, mss: u16) {
        let now = self.time(now);
        // RFC 1191 §3: no path is narrower than 68 bytes; a forged report can't shrink packets to nothing.
        self.shrink(now, mss.max(MIN_MSS));
    }

    fn shrink(&mut self, now: Time, mss: u16) {
        if mss >= self.settings.mss || self.state == crate::State::Closed {
            return;
        }
        self.settings.mss = mss;
        self.path_shrank_at = now;
        let old = u32::from(self.snd.mss);
        self.apply_mss();
        let new = u32::from(self.snd.mss);
        self.board
            .mark_lost_where(|record| record.start.distance_to(record.end) > new.min(old));
        // What is sent again for this is not lost to congestion (RFC 1191 §6.4).
        if self.recovery.phase == Phase::Open && self.board.lost() > 0 {
            self.recovery.phase = Phase::Loss;
            self.recovery.point = self.snd.nxt;
            self.arm_loss_timer(now);
        }
    }

    /// The retransmission timer has fired, and what it watched is to be sent again: in smaller packets, if full ones were sent in vain
    /// too often (RFC 4821 §7.7).
    pub(crate) fn suspect_path(&mut self, now: Time) {
        let mss = u32::from(self.snd.mss);
        let is_full = |head: &crate::sack::Record| head.start.distance_to(head.end) >= mss;
        let is_suspect = self.settings.mtu_probing
            && self.rtt.backoff.tries() >= SUSPECT_TIMEOUTS
            && self.board.oldest().is_some_and(is_full);
        let smaller = (self.settings.mss / 2).clamp(LEAST_MSS, BASE_MSS);
        if is_suspect && smaller < self.settings.mss {
            self.events.counted.add(Counted::BlackHole);
            self.shrink(now, smaller);
        }
    }

    /// Some minutes are over: a path that took smaller packets only is tried with full ones now and then.
    #[cold]
    pub(crate) fn reconsider_path(&mut self, now: Time) {
        let is_small = self.settings.mss < self.settings.full_mss;
        if is_small && now.since(self.path_shrank_at) >= RAISE_AFTER {
            self.settings.mss = self.settings.full_mss;
            self.apply_mss();
        }
    }
}
