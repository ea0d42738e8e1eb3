//! Receive buffer auto-tuning: dynamic right-sizing. The buffer is to hold twice what the application consumes in a
//! round-trip time, and more while that still grows, so that it never is what limits the peer.

use wire::SeqNum;

use crate::time::{MILLISECOND, Nanos, Time};

#[derive(Clone, Debug, Default)]
pub(crate) struct Tuning {
    round_start: Time,
    round_read: SeqNum,
    /// The most that was consumed in one round.
    space: u32,
    /// A round has ended since this was forgotten last.
    has_round: bool,
    /// Smoothed round-trip time in eighths of a millisecond, from echoed timestamps; 0 before the first.
    rtt_eighths: u32,
}

impl Tuning {
    pub(crate) fn start(&mut self, now: Time, read: SeqNum) {
        self.round_start = now;
        self.round_read = read;
    }

    /// The buffer that lets the peer send on while as much is consumed as in the best round, if one has ended since this was called last.
    pub(crate) fn take_proven(&mut self, mss: u16) -> Option<u32> {
        if !self.has_round {
            return None;
        }
        let base = 2 * u64::from(self.space) + 16 * u64::from(mss);
        self.forget();
        Some(u32::try_from(base).unwrap_or(u32::MAX))
    }

    /// What was consumed until now says nothing of the buffer to have.
    pub(crate) fn forget(&mut self) {
        self.space = 0;
        self.has_round = false;
    }

    /// A timestamp came back after so many milliseconds.
    pub(crate) fn note_rtt(&mut self, elapsed_ms: u32) {
        /// The peer may echo a timestamp that has long been superseded.
        const IMPLAUSIBLE: u32 = 10_000;
        if elapsed_ms > IMPLAUSIBLE {
            return;
        }
        let sample = elapsed_ms.max(1);
        if self.rtt_eighths == 0 {
            self.rtt_eighths = sample * 8;
        } else {
            self.rtt_eighths = self.rtt_eighths - self.rtt_eighths / 8 + sample;
        }
    }

    /// The application has consumed up to `read`. Returns the buffer to have, if a round is over and it should grow.
    pub(crate) fn on_consumed(
        &mut self,
        now: Time,
        read: SeqNum,
        smoothed_rtt: Option<Nanos>,
        mss: u16,
    ) -> Option<u32> {
        let rtt = match self.rtt_eighths {
            0 => smoothed_rtt?.max(MILLISECOND),
            eighths => u64::from(eighths) * MILLISECOND / 8,
        };
        if now.since(self.round_start) < rtt {
            return None;
        }
        let copied = self.round_read.distance_to(read);
        self.round_start = now;
        self.round_read = read;
        self.has_round = true;
        if copied <= self.space {
            return None;
        }
        let base = 2 * u64::from(copied) + 16 * u64::from(mss);
        // While the peer doubles its window each round, be ahead of it. One round is no growth yet.
        let growth = match self.space {
            0 => 0,
            before => u64::from(copied - before) * base / u64::from(before.max(u32::from(mss))),
        };
        self.space = copied;
        Some(u32::try_from(base + 2 * growth.min(base)).unwrap_or(u32::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u16 = 1000;

    /// Whether a round is over when so many milliseconds have passed since it began.
    fn is_over(tuning: &Tuning, milliseconds: u64) -> bool {
        let mut tuning = tuning.clone();
        let now = Time(milliseconds * MILLISECOND);
        tuning.on_consumed(now, SeqNum(5000), None, MSS).is_some()
    }

    #[test]
    fn a_round_is_as_long_as_the_path_as_its_timestamps_tell() {
        let mut tuning = Tuning::default();
        assert!(!is_over(&tuning, 1000), "nothing is known of the path");
        tuning.note_rtt(80);
        assert!(!is_over(&tuning, 79) && is_over(&tuning, 80));
        // RFC 6298 §2: an eighth of what is new.
        tuning.note_rtt(40);
        assert!(!is_over(&tuning, 74) && is_over(&tuning, 75));
        tuning.note_rtt(10_001);
        assert!(is_over(&tuning, 75), "an old timestamp");
        tuning.note_rtt(10_000);
        assert!(!is_over(&tuning, 1314) && is_over(&tuning, 1316));
    }

    #[test]
    fn the_buffer_is_ahead_of_a_peer_that_sends_more_each_round() {
        let mut tuning = Tuning::default();
        tuning.note_rtt(10);
        let mut consumed =
            |ms: u64, read| tuning.on_consumed(Time(ms * MILLISECOND), SeqNum(read), None, MSS);
        // Twice what was consumed, and sixteen segments.
        assert_eq!(consumed(10, 10_000), Some(2 * 10_000 + 16_000));
        assert_eq!(consumed(15, 20_000), None, "the round is not over");
        assert_eq!(consumed(20, 20_000), None, "no more than before");
        // Twice as much as before: and twice as much as that again is to come.
        assert_eq!(consumed(30, 40_000), Some((2 * 20_000 + 16_000) * 3));
        assert_eq!(tuning.take_proven(MSS), Some(2 * 20_000 + 16_000));
        assert_eq!(tuning.take_proven(MSS), None);
    }
}
