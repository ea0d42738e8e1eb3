//! Loss recovery: when it begins, how much may be sent in it, when it ends (RFC 6675, RFC 6937, RFC 6582, RFC 8985).

mod undo;

use undo::Saved;
use wire::SeqNum;

use crate::Connection;
use crate::frto::Frto;
use crate::rack::Rack;
use crate::time::Time;
use crate::timer::Timer;

/// Duplicate ACKs that stand for a loss without SACK (RFC 5681 §3.2).
const DUPLICATE_THRESHOLD: u32 = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Nothing is thought lost.
    Open,
    /// Fast recovery.
    Recovery,
    /// After a retransmission timeout.
    Loss,
    /// What was too large for the path is sent again, which is no sign of congestion; what else is lost is one.
    Resize,
}

#[derive(Clone, Debug)]
pub(crate) struct Recovery {
    pub(crate) phase: Phase,
    /// `snd_nxt` when recovery began: it ends when that is acknowledged.
    pub(crate) point: SeqNum,
    /// RFC 6937: bytes delivered and sent since recovery began, and outstanding when it began.
    delivered: u32,
    out: u32,
    flight: u32,
    /// Duplicate ACKs in a row; counted only without SACK.
    duplicate_acks: u32,
    undo: Saved,
    pub(crate) frto: Frto,
}

impl Recovery {
    pub(crate) fn new(iss: SeqNum) -> Self {
        Self {
            phase: Phase::Open,
            point: iss,
            delivered: 0,
            out: 0,
            flight: 0,
            duplicate_acks: 0,
            undo: Saved::default(),
            frto: Frto::Off,
        }
    }

    /// Bytes that duplicate ACKs say have left the network, where the peer has no SACK.
    pub(crate) fn inferred_sacked(&self, mss: u32) -> u32 {
        self.duplicate_acks.saturating_mul(mss)
    }

    /// The window of before a reduction says nothing about the path any more.
    pub(crate) fn forget_window(&mut self) {
        self.undo.forget();
    }

    /// Something was sent, first or again.
    pub(crate) fn note_sent(&mut self, bytes: u32) {
        if self.phase == Phase::Recovery {
            self.out = self.out.saturating_add(bytes);
        }
    }

    /// `start..end` was sent again, with this TSval.
    pub(crate) fn note_resent(&mut self, start: SeqNum, end: SeqNum, timestamp: u32) {
        if self.phase == Phase::Open {
            return;
        }
        self.undo.note_resent(start, end, timestamp);
    }
}

/// What an ACK changed, for loss recovery.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Progress {
    /// Bytes by which `una` advanced.
    pub(crate) advanced: u32,
    /// Bytes delivered, in order or not.
    pub(crate) delivered: u32,
    /// Something that was sent once is among these.
    pub(crate) original: bool,
    /// Something that was sent again is among these.
    pub(crate) resent: bool,
    /// The ACK was a duplicate (RFC 5681 §2) and the peer has no SACK.
    pub(crate) duplicate: bool,
    /// A DSACK block.
    pub(crate) reported_twice: Option<(SeqNum, SeqNum)>,
    /// TSecr.
    pub(crate) echo: Option<u32>,
}

impl Connection {
    /// Takes the consequences of an ACK. Returns by how many of the bytes that it delivers the window may grow.
    pub(crate) fn recover(&mut self, now: Time, progress: &Progress) -> u32 {
        let before = self.recovery.phase;
        if before == Phase::Open && self.recovery.point.before(self.snd.una) {
            // Keeps the point comparable however long nothing is lost.
            self.recovery.point = self.snd.una - 1;
        }
        let was_undone = self.was_early(progress) || self.try_undo(progress);
        if !self.options.sack {
            self.count_duplicates(now, progress);
        }
        self.try_end_recovery(progress);
        let newly_lost = self.detect_losses(now);
        if self.recovery.phase == Phase::Recovery {
            let delivered = if progress.duplicate {
                u32::from(self.snd.mss)
            } else {
                progress.delivered
            };
            self.reduce_proportionally(delivered, progress.advanced > 0 && newly_lost == 0);
        }
        // Slow start goes on after a timeout; in and just after fast recovery the window stays.
        match (before, self.recovery.phase) {
            // RFC 5682 §3.1: two new segments, and no more.
            _ if self.recovery.frto == Frto::Probing => 0,
            (_, Phase::Recovery) | (Phase::Recovery, Phase::Open) => 0,
            (_, Phase::Loss | Phase::Resize) | (Phase::Open, Phase::Open) => u32::MAX,
            (Phase::Loss | Phase::Resize, Phase::Open) if was_undone => 0,
            // Of what the last ACK of a timeout's recovery tells, most may have arrived long ago (RFC 3465 §2.3).
            (Phase::Loss | Phase::Resize, Phase::Open) => u32::from(self.snd.mss),
        }
    }

    /// Runs RACK, and enters recovery if something is lost. Returns the bytes newly lost.
    pub(crate) fn detect_losses(&mut self, now: Time) -> u32 {
        let in_recovery = matches!(self.recovery.phase, Phase::Recovery | Phase::Loss);
        let mut newly_lost = 0;
        if self.options.sack && (in_recovery || self.board.sacked() > 0 || self.board.has_resent())
        {
            let mss = u32::from(self.snd.mss);
            let window = self
                .rack
                .reorder_window(&self.rtt, in_recovery, self.board.sacked(), mss);
            let (lost, wait) = self.board.detect_losses(&self.rack, window, now);
            newly_lost = lost;
            match wait {
                Some(wait) => self.timers.set(Timer::Reorder, now.after(wait)),
                None => self.timers.cancel(Timer::Reorder),
            }
        }
        let is_congested = match self.recovery.phase {
            Phase::Open => self.board.lost() > 0 && !self.takes_lost_probe(now),
            Phase::Resize => newly_lost > 0,
            Phase::Recovery | Phase::Loss => false,
        };
        if is_congested {
            self.enter_recovery(now);
        }
        newly_lost
    }

    /// The reordering timer fired (RFC 8985 §6.3).
    pub(crate) fn on_reorder_timeout(&mut self, now: Time) {
        let newly_lost = self.detect_losses(now);
        if newly_lost > 0 && self.recovery.phase == Phase::Recovery {
            self.reduce_proportionally(u32::from(self.snd.mss), false);
        }
    }

    fn enter_recovery(&mut self, now: Time) {
        let flight = self.flight();
        self.path.forget_probe();
        self.save_for_undo();
        self.recovery.phase = Phase::Recovery;
        self.recovery.point = self.snd.nxt;
        self.recovery.delivered = 0;
        self.recovery.out = 0;
        self.recovery.flight = flight.max(1);
        self.reduce(flight);
        self.snd.due.tail_probe = false;
        self.arm_loss_timer(now);
    }

    /// The retransmission timer fired (RFC 5681 §3.1, RFC 6298 §5.4 to §5.6, RFC 8985 §6.3).
    pub(crate) fn enter_loss(&mut self, now: Time) {
        // RFC 2018 §8: the peer may have dropped what it had selectively acknowledged.
        if self
            .board
            .oldest()
            .is_some_and(|record| record.status == crate::sack::Status::Sacked)
        {
            self.board.renege();
        }
        self.recovery.frto = self.begin_frto();
        // In fast recovery the reduction for this window of data has been made already.
        let is_reduced = match self.recovery.phase {
            Phase::Open => false,
            Phase::Recovery => true,
            Phase::Loss | Phase::Resize => self.rtt.backoff.tries() > 0,
        };
        if !is_reduced {
            self.save_for_undo();
            self.reduce(self.flight());
        }
        self.congestion.on_timeout();
        self.recovery.phase = Phase::Loss;
        self.recovery.point = self.snd.nxt;
        self.recovery.duplicate_acks = 0;
        self.rack.probe = None;
        let head = self.snd.una;
        let (rack, rtt, sack) = (&self.rack, &self.rtt, self.options.sack);
        let window = rack.reorder_window(rtt, true, 0, 1);
        self.board.mark_lost_where(|record| {
            !sack || record.start == head || rack.remaining(record.sent_at, window, now) == 0
        });
        self.timers.cancel(Timer::Reorder);
        self.snd.due.resend = true;
    }

    /// RFC 6937: sends in proportion to what is delivered, so that the window arrives at the threshold when a
    /// round-trip time is over, without a pause or a burst.
    fn reduce_proportionally(&mut self, delivered: u32, good_ack: bool) {
        let mss = u32::from(self.snd.mss);
        let pipe = self.pipe();
        let ssthresh = self.congestion.ssthresh();
        let recovery = &mut self.recovery;
        recovery.delivered = recovery.delivered.saturating_add(delivered);
        let mut allowed = if pipe > ssthresh {
            let share = u64::from(recovery.delivered) * u64::from(ssthresh);
            let share = share
                .div_ceil(u64::from(recovery.flight))
                .min(u64::from(u32::MAX)) as u32;
            share.saturating_sub(recovery.out)
        } else {
            let mut limit = recovery
                .delivered
                .saturating_sub(recovery.out)
                .max(delivered);
            if good_ack {
                limit = limit.saturating_add(mss);
            }
            limit.min(ssthresh - pipe)
        };
        if recovery.out == 0 {
            // The first retransmission goes out whatever the pipe says.
            allowed = allowed.max(mss);
        }
        self.congestion.set_cwnd(pipe.saturating_add(allowed));
    }

    fn try_end_recovery(&mut self, progress: &Progress) {
        if self.recovery.phase == Phase::Open || self.snd.una.before(self.recovery.point) {
            return;
        }
        // RFC 6582 §4.1: without SACK, duplicate ACKs of what was resent must not start another recovery.
        if !self.options.sack && progress.advanced == 0 {
            return;
        }
        if self.recovery.phase == Phase::Recovery {
            self.leave_recovery();
        }
        self.recovery.phase = Phase::Open;
        self.recovery.frto = Frto::Off;
        self.recovery.duplicate_acks = 0;
        self.recovery.undo.end_recovery(self.snd.nxt);
        self.rack.note_recovered();
    }

    /// The window is the threshold now. Where the peer's window held back new data in recovery, little is in flight, and
    /// all of it at once would overflow a queue (RFC 6582 §3.2 step 3): slow start makes up the rest.
    fn leave_recovery(&mut self) {
        const BURST_SEGMENTS: u32 = 10;
        let ssthresh = self.congestion.ssthresh();
        let burst = (ssthresh / 4).max(BURST_SEGMENTS * u32::from(self.snd.mss));
        let cwnd = self.pipe().saturating_add(burst).min(ssthresh);
        self.congestion.set_cwnd(cwnd);
    }

    /// Duplicate ACKs in place of SACK (RFC 5681 §3.2, RFC 6582 §3.2).
    fn count_duplicates(&mut self, now: Time, progress: &Progress) {
        let mss = u32::from(self.snd.mss);
        if progress.duplicate {
            let most = (self.flight() / mss).saturating_sub(1);
            self.recovery.duplicate_acks = (self.recovery.duplicate_acks + 1).min(most);
            let fresh = self.snd.una.after(self.recovery.point);
            let enough = self.recovery.duplicate_acks >= DUPLICATE_THRESHOLD;
            if self.recovery.phase == Phase::Open && fresh && enough {
                self.board.mark_head_lost(self.head_packet());
            }
        } else if progress.advanced > 0 {
            let segments = progress.advanced.div_ceil(mss);
            self.recovery.duplicate_acks =
                self.recovery.duplicate_acks.saturating_sub(segments - 1);
            match self.recovery.phase {
                Phase::Open => self.recovery.duplicate_acks = 0,
                // A partial ACK: the next segment is lost too, and is sent whatever the window (RFC 6582 §3.2 step 4).
                Phase::Recovery if self.snd.una.before(self.recovery.point) => {
                    self.board.mark_head_lost(self.head_packet());
                    self.snd.due.resend = true;
                }
                // An ACK of what was sent again would cover what was sent once before that, but for a hole.
                Phase::Resize
                    if progress.resent
                        && self.snd.una.before(self.recovery.point)
                        && self.board.begins_as_sent() =>
                {
                    self.board.mark_head_lost(self.head_packet());
                    self.enter_recovery(now);
                }
                Phase::Recovery | Phase::Loss | Phase::Resize => {}
            }
        }
    }

    /// What the packet that is outstanding longest takes of the sequence space: the FIN too, if that went with it.
    fn head_packet(&self) -> u32 {
        let mss = u32::from(self.snd.mss);
        let bytes = self.probe_at_head().unwrap_or(mss);
        let end = self.snd.una + bytes;
        let has_fin = end == self.snd.write_seq && self.snd.nxt.after(end);
        bytes + u32::from(has_fin)
    }

    /// A tail loss probe was answered (RFC 8985 §7.4). `flight`: what was outstanding before the ACK.
    pub(crate) fn judge_probe(&mut self, reported_twice: bool, news: bool, flight: u32) {
        let Some((end, resent)) = self.rack.probe else {
            return;
        };
        if self.snd.una.before(end) {
            return;
        }
        if !resent || reported_twice {
            self.rack.probe = None;
        } else if self.snd.una.after(end) {
            // The probe repaired a loss that nothing else will tell of: react to it once.
            self.rack.probe = None;
            if self.recovery.phase == Phase::Open {
                self.recovery.undo.forget();
                self.reduce(flight);
                self.congestion.set_cwnd(self.congestion.ssthresh());
            }
        } else if !news {
            self.rack.probe = None;
        }
    }

    /// Sets the timer that watches over what is outstanding: the probe's if a tail loss probe may be sent, or the
    /// retransmission timer (RFC 6298 §5, RFC 8985 §7.2).
    pub(crate) fn arm_loss_timer(&mut self, now: Time) {
        if self.snd.una == self.snd.nxt {
            self.timers.cancel(Timer::Retransmit);
            self.timers.cancel(Timer::Probe);
            self.timers.cancel(Timer::Reorder);
            return;
        }
        let rto = self.retransmission_timeout(now);
        let may_probe = self.options.sack
            && self.recovery.phase == Phase::Open
            && self.rack.probe.is_none()
            && self.board.sacked() == 0
            && self.rtt.backoff.doublings() == 0;
        if may_probe {
            let timeout = Rack::probe_timeout(&self.rtt, self.flight(), u32::from(self.snd.mss));
            // What is sent later does not put off what the oldest segment waits for, unless that is over: then ACKs are late.
            let sent_at = self.board.oldest().map_or(now, |oldest| oldest.sent_at);
            let limit = Some(sent_at.after(rto)).filter(|limit| *limit > now);
            let until = now.after(timeout.min(rto));
            self.timers
                .set(Timer::Probe, limit.map_or(until, |limit| until.min(limit)));
            self.timers.cancel(Timer::Retransmit);
        } else {
            self.timers.set(Timer::Retransmit, now.after(rto));
            self.timers.cancel(Timer::Probe);
        }
    }
}
