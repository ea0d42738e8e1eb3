//! Timeouts that came too early (F-RTO, RFC 5682), where no timestamps tell them (RFC 4015).

use crate::Connection;
use crate::recovery::{Phase, Progress};

/// Where F-RTO stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Frto {
    /// The timeout was real, or there was none.
    Off,
    /// The first segment was sent again, and no ACK has moved `una` since (§3.1 step 2).
    Resent,
    /// New segments were let go, and nothing else is sent again before an ACK tells (§3.1 step 3).
    Probing,
}

/// New segments that are let go to find out (§3.1 step 2b).
const NEW_SEGMENTS: u32 = 2;
/// The window, in segments, if they show that the timeout was real (§3.1 step 3a).
const REAL_SEGMENTS: u32 = 3;

impl Connection {
    /// The retransmission timer has fired; the phase is that of before (§3.1 step 1). Timestamps tell more, and sooner. A timeout
    /// that is followed by another one before any ACK is judged with it, as Linux does.
    pub(crate) fn begin_frto(&self) -> Frto {
        match (self.recovery.phase, self.recovery.frto) {
            (Phase::Open, _) | (Phase::Loss, Frto::Resent) if !self.options.timestamps => {
                Frto::Resent
            }
            _ => Frto::Off,
        }
    }

    /// Whether an ACK shows that the timeout came too early; if so, what was done for it is taken back.
    pub(crate) fn was_early(&mut self, progress: &Progress) -> bool {
        match self.recovery.frto {
            Frto::Off => false,
            Frto::Resent => {
                self.probe_timeout(progress);
                false
            }
            Frto::Probing => self.judge_timeout(progress),
        }
    }

    /// The first ACK behind a timeout (§3.1 step 2). Without something new to send nothing can be found out.
    fn probe_timeout(&mut self, progress: &Progress) {
        if progress.advanced == 0 && !progress.duplicate {
            return;
        }
        let mss = u32::from(self.snd.mss);
        let is_partial = progress.advanced > 0 && self.snd.una.before(self.recovery.point);
        let can_probe = self.snd.unsent().min(self.snd.window_room()) >= mss;
        if !(is_partial && can_probe) {
            self.recovery.frto = Frto::Off;
            return;
        }
        self.recovery.frto = Frto::Probing;
        let cwnd = self.pipe().saturating_add(NEW_SEGMENTS * mss);
        self.congestion.set_cwnd(cwnd);
    }

    /// The ACKs that follow (§3.1 step 3): new segments that arrive before those of before the timeout show that these are lost.
    fn judge_timeout(&mut self, progress: &Progress) -> bool {
        let is_real = self.board.delivered_to().after(self.recovery.point) || progress.duplicate;
        if is_real {
            let most = REAL_SEGMENTS * u32::from(self.snd.mss);
            self.recovery.frto = Frto::Off;
            self.congestion.set_cwnd(self.congestion.cwnd().min(most));
            return false;
        }
        if progress.original {
            self.take_reduction_back();
        }
        progress.original
    }
}
