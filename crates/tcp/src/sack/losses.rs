//! What is thought lost (RFC 8985 §6.2, RFC 6675 §4), and what is sent again.

use wire::SeqNum;

use super::{Record, Resent, Scoreboard, Status};
use crate::rack::Rack;
use crate::time::{Nanos, Time};

impl Scoreboard {
    /// Finds what RACK holds for lost (RFC 8985 §6.2 step 5). Returns the bytes newly lost, and how long to wait until
    /// the next may be.
    pub(crate) fn detect_losses(
        &mut self,
        rack: &Rack,
        reorder_window: Nanos,
        now: Time,
    ) -> (u32, Option<Nanos>) {
        let lost_before = self.lost;
        let until_lost = |record: &Record| {
            let is_older = rack.was_sent_after(record.sent_at, record.end);
            is_older.then(|| rack.remaining(record.sent_at, reorder_window, now))
        };
        let waits = [
            self.detect_lost_sent(until_lost),
            self.detect_lost_resent(until_lost),
        ];
        (self.lost - lost_before, waits.into_iter().flatten().min())
    }

    /// Finds what is lost of what was sent once: `until_lost` gives how long to wait until a record is, if something sent later has arrived. Returns
    /// the first such time that is not over.
    #[inline]
    fn detect_lost_sent(&mut self, until_lost: impl Fn(&Record) -> Option<Nanos>) -> Option<Nanos> {
        let mut index = self.index_from(self.sent_from);
        while let Some(record) = self.records.get_mut(index) {
            if record.status == Status::Sent {
                match until_lost(record) {
                    Some(0) => record.lose(&mut self.lost, &mut self.lost_from),
                    wait => return wait,
                }
            }
            self.sent_from = record.end;
            index += 1;
        }
        None
    }

    /// The same of what was sent again.
    #[inline]
    fn detect_lost_resent(
        &mut self,
        until_lost: impl Fn(&Record) -> Option<Nanos>,
    ) -> Option<Nanos> {
        while let Some(&resent) = self.resent.front() {
            let mut index = self.index_from(resent.start);
            while let Some(record) = self.records.get_mut(index)
                && record.start.before(resent.end)
            {
                if record.status == Status::Resent && record.sent_at == resent.sent_at {
                    match until_lost(record) {
                        Some(0) => record.lose(&mut self.lost, &mut self.lost_from),
                        wait => return wait,
                    }
                }
                index += 1;
            }
            self.resent.pop_front();
        }
        None
    }

    /// Holds for lost the first `len` bytes outstanding, unless they were already (NewReno without SACK).
    pub(crate) fn mark_head_lost(&mut self, len: u32) {
        let Some(&head) = self.records.front() else {
            return;
        };
        if !matches!(head.status, Status::Sent | Status::Resent) {
            return;
        }
        let end = if head.len() > len {
            head.start + len
        } else {
            head.end
        };
        self.cut_at(end);
        self.records[0].status = Status::Lost;
        self.lost += head.start.distance_to(end);
        self.lost_from = head.start;
    }

    /// Holds for lost all that is outstanding and for which `is_lost(sent_at)`.
    pub(crate) fn mark_lost_where(&mut self, mut is_lost: impl FnMut(&Record) -> bool) {
        for record in &mut self.records {
            if matches!(record.status, Status::Sent | Status::Resent) && is_lost(record) {
                record.lose(&mut self.lost, &mut self.lost_from);
            }
        }
    }

    /// The peer has dropped what it had selectively acknowledged (RFC 2018 §8): holds that for lost.
    pub(crate) fn renege(&mut self) {
        for record in &mut self.records {
            if record.status == Status::Sacked {
                record.lose(&mut self.lost, &mut self.lost_from);
            }
        }
        self.sacked = 0;
    }

    /// What was thought lost was not: it is on its way.
    pub(crate) fn unmark_lost(&mut self) {
        for record in &mut self.records {
            if record.status == Status::Lost {
                record.status = Status::Sent;
                self.sent_from = self.sent_from.min(record.start);
            }
        }
        self.lost = 0;
    }

    /// The byte at `seq` is outstanding, thought lost and not sent again since.
    pub(crate) fn is_lost(&self, seq: SeqNum) -> bool {
        let record = self.records.get(self.index_from(seq));
        record.is_some_and(|record| record.status == Status::Lost && record.start.at_or_before(seq))
    }

    /// The first run of lost bytes, at most `limit` long (RFC 6675 §4, NextSeg rule 1).
    pub(crate) fn next_lost(&mut self, limit: u32) -> Option<(SeqNum, SeqNum)> {
        if self.lost == 0 {
            return None;
        }
        let mut index = self.index_from(self.lost_from);
        while self.records.get(index)?.status != Status::Lost {
            index += 1;
        }
        let Record { start, mut end, .. } = self.records[index];
        self.lost_from = start;
        while start.distance_to(end) < limit {
            index += 1;
            match self.records.get(index) {
                Some(next) if next.status == Status::Lost => end = next.end,
                _ => break,
            }
        }
        Some((
            start,
            if start.distance_to(end) > limit {
                start + limit
            } else {
                end
            },
        ))
    }

    /// `start..end` was sent again, in packets of `mss`: it becomes one record.
    pub(crate) fn mark_resent(&mut self, start: SeqNum, end: SeqNum, now: Time, mss: u16) {
        self.cut_at(start);
        self.cut_at(end);
        let first = self.index_from(start);
        let mut past = first;
        while let Some(record) = self.records.get(past) {
            if record.start.at_or_after(end) {
                break;
            }
            debug_assert_ne!(record.status, Status::Sacked);
            if record.status == Status::Lost {
                self.lost -= record.len();
            }
            past += 1;
        }
        debug_assert!(first < past, "what is sent again is outstanding");
        if first == past {
            return;
        }
        self.records[first] = Record {
            start,
            end,
            sent_at: now,
            packet: mss,
            status: Status::Resent,
            again: true,
        };
        self.records.drain(first + 1..past);
        self.resent.push_back(Resent {
            start,
            end,
            sent_at: now,
        });
    }
}

impl Record {
    /// It is thought lost: counts its bytes to `lost`, and has none before `lost_from`.
    #[inline]
    fn lose(&mut self, lost: &mut u32, lost_from: &mut SeqNum) {
        self.status = Status::Lost;
        *lost += self.len();
        *lost_from = (*lost_from).min(self.start);
    }
}
