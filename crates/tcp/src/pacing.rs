//! Pacing: what is sent leaves at a rate and not as a burst, as Linux's `tcp_internal_pacing` has it (RFC 9002 §7.7 says why).
//!
//! The rate is cwnd / SRTT, times two in slow start, so that the window can double in a round trip, and a fifth more afterwards, so that the
//! window is what limits. A burst lasts a millisecond at that rate (`tcp_tso_autosize`). The first window, before the peer has acknowledged
//! anything, leaves at once as RFC 6928 has it: most answers are no longer, and would take half a round trip more.

use crate::Connection;
use crate::time::{MICROSECOND, Nanos, SECOND, Time};
use crate::timer::Timer;

/// Per cent of cwnd / SRTT (`tcp_pacing_ss_ratio`, `tcp_pacing_ca_ratio`).
const SLOW_START_RATIO: u64 = 200;
const AVOIDANCE_RATIO: u64 = 120;
/// What is to leave within this time leaves now: who sleeps until then is woken so much later (the timer slack of Linux).
const GRAIN: Nanos = 50 * MICROSECOND;
/// A burst lasts for a second, halved so often: a millisecond (`sk_pacing_shift`).
const BURST_SHIFT: u32 = 10;
/// For each 512 µs of round-trip time half as much more may leave at once (`tcp_tso_rtt_log`): to a near peer all.
const NEAR_SHIFT: u32 = 9;
/// Packets of the smallest burst (`tcp_min_tso_segs`).
const LEAST_PACKETS: u32 = 2;

impl Connection {
    /// Has what is sent leave at a rate and not as a burst, or no more (see [`Config::pacing`](crate::Config::pacing)).
    pub fn set_pacing(&mut self, on: bool) {
        self.settings.pacing = on;
        if !on {
            self.stop_pacing();
        }
    }

    /// Bytes of payload per second, if they are paced now.
    pub(crate) fn pacing_rate(&self) -> Option<u64> {
        if !self.settings.pacing || self.congestion.is_first_window() {
            return None;
        }
        let rtt = self.rtt.smoothed()?;
        let ratio = match self.congestion.cwnd() < self.congestion.ssthresh() / 2 {
            true => SLOW_START_RATIO,
            false => AVOIDANCE_RATIO,
        };
        // In recovery the window shrinks to what is left in the network, whose rate is the one before.
        let window = u64::from(self.congestion.cwnd().max(self.flight()));
        Some((window * SECOND / rtt * ratio / 100).max(1))
    }

    /// Data of so many bytes leave now: says when more may.
    #[cold]
    pub(crate) fn pace(&mut self, now: Time, bytes: u32) {
        let Some(rate) = self.pacing_rate() else {
            self.stop_pacing();
            return;
        };
        let lasts = u64::from(bytes) * SECOND / rate;
        // Who came late makes up for it, with half of a burst at most.
        let late = now.since(self.snd.paced_until.after(GRAIN));
        let due = now.max(self.snd.paced_until.after(GRAIN));
        let next = due.after(lasts - late.min(lasts / 2));
        self.snd.paced_until = next.before(GRAIN);
        self.snd.most_at_once = self.paced_burst(rate);
    }

    /// What leaves at once of what is paced.
    fn paced_burst(&self, rate: u64) -> u32 {
        let rtt = self.rtt.minimum().unwrap_or(Nanos::MAX) / MICROSECOND;
        let halvings = (rtt >> NEAR_SHIFT).min(31) as u32;
        let near = u64::from(self.settings.tso_max >> halvings);
        let least = LEAST_PACKETS * u32::from(self.snd.mss);
        let burst = u32::try_from((rate >> BURST_SHIFT) + near).unwrap_or(u32::MAX);
        burst.max(least).min(self.settings.tso_max)
    }

    /// Whether data must wait for the pacer, which then says so.
    #[inline]
    pub(crate) fn waits_for_pacer(&mut self, now: Time) -> bool {
        let waits = now < self.snd.paced_until;
        if waits {
            let until = self.snd.paced_until.after(GRAIN);
            self.timers.set(Timer::Pace, until);
        }
        waits
    }

    fn stop_pacing(&mut self) {
        self.snd.paced_until = Time(0);
        self.snd.most_at_once = self.settings.tso_max;
        self.timers.cancel(Timer::Pace);
    }
}
