//! Takes a reduction back when an ACK proves that nothing was lost (RFC 4015, RFC 3522, RFC 3708).

use wire::SeqNum;

use super::{Phase, Progress};
use crate::congestion::Before;
use crate::frto::Frto;
use crate::unreported::Unreported;
use crate::{Backoff, Connection, Counted};

/// What to go back to if nothing was lost after all.
#[derive(Clone, Debug)]
struct Undo {
    before: Before,
    proof: Proof,
    /// Of what was resent.
    resent: Unreported,
}

/// The last [`Undo`]. Its memory stays for the next one: only the first loss of a connection takes some.
#[derive(Clone, Debug, Default)]
pub(super) struct Saved {
    undo: Option<Box<Undo>>,
    is_over: bool,
}

impl Saved {
    fn get(&mut self) -> Option<&mut Undo> {
        self.undo.as_deref_mut().filter(|_| !self.is_over)
    }

    fn set(&mut self, undo: Undo) {
        self.is_over = false;
        match &mut self.undo {
            Some(memory) => **memory = undo,
            None => self.undo = Some(Box::new(undo)),
        }
    }

    /// `start..end` was sent again, with this TSval.
    pub(super) fn note_resent(&mut self, start: SeqNum, end: SeqNum, timestamp: u32) {
        if let Some(undo) = self.get() {
            if let Proof::Echo(first) = &mut undo.proof {
                first.get_or_insert(timestamp);
            }
            undo.resent.add(start, end);
        }
    }

    /// Recovery is over, and nothing beyond `until` was sent by then.
    pub(super) fn end_recovery(&mut self, until: SeqNum) {
        if let Some(undo) = self.get() {
            undo.proof = Proof::Reports { until };
        }
    }

    pub(super) fn forget(&mut self) {
        self.is_over = true;
    }
}

/// What may still show that nothing was lost.
#[derive(Clone, Copy, Debug)]
enum Proof {
    /// In recovery: an ACK older than the first retransmission, whose TSval this is (RFC 3522); DSACKs too.
    Echo(Option<u32>),
    /// Recovery is over: DSACKs alone, and only until an ACK goes beyond what was sent by then. Later ones are about
    /// something else, and the window of long ago says nothing about the path.
    Reports { until: SeqNum },
}

impl Connection {
    pub(super) fn save_for_undo(&mut self) {
        self.recovery.undo.set(Undo {
            before: self.congestion.before(),
            proof: Proof::Echo(None),
            resent: Unreported::default(),
        });
    }

    /// Takes back the reduction if the ACK proves that nothing was lost: it answers an original transmission
    /// (RFC 4015, by timestamps), or everything resent has been reported as a duplicate (RFC 3708). Answers whether it has.
    pub(crate) fn try_undo(&mut self, progress: &Progress) -> bool {
        let Some(undo) = self.recovery.undo.get() else {
            return false;
        };
        if let Proof::Reports { until } = undo.proof
            && self.snd.una.after(until)
        {
            self.recovery.undo.forget();
            return false;
        }
        let twice = progress.reported_twice;
        let all_twice = twice.is_some_and(|twice| undo.resent.report(twice));
        let answers_original = progress.advanced > 0
            && (self.recovery.phase == Phase::Loss
                || self.recovery.phase == Phase::Recovery
                    && self.snd.una.at_or_after(self.recovery.point))
            && match (undo.proof, progress.echo) {
                (Proof::Echo(Some(first)), Some(echo)) => SeqNum(echo).before(SeqNum(first)),
                _ => false,
            };
        if !(answers_original || all_twice) {
            return false;
        }
        self.take_reduction_back();
        true
    }

    pub(crate) fn take_reduction_back(&mut self) {
        let Some(undo) = self.recovery.undo.get() else {
            return;
        };
        self.congestion.undo(&undo.before);
        self.recovery.undo.forget();
        if self.recovery.phase == Phase::Loss {
            self.events.counted.add(Counted::SpuriousTimeout);
        }
        self.board.unmark_lost();
        self.recovery.phase = Phase::Open;
        self.recovery.frto = Frto::Off;
        self.recovery.duplicate_acks = 0;
        self.snd.due.resend = false;
        self.rtt.backoff = Backoff::default();
        self.stats.undos += 1;
    }
}
