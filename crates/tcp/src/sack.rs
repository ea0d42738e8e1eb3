//! The sender's scoreboard: what was sent, when, and what became of it (RFC 6675 §3, RFC 8985 §5).
//!
//! A record is a run of bytes sent together, up to a whole Transmit; it is cut only where SACK blocks or
//! retransmissions cut it, and selectively acknowledged neighbours are joined. Records tile `una..nxt` without gaps.
//! Counters and cursors stand in for scans of the window.

use std::collections::VecDeque;

use wire::SeqNum;

use crate::rack::Rack;
use crate::time::{Nanos, Time};

/// More records than this are not cut any further: bounds what a hostile peer's SACK blocks cost.
const MAX_RECORDS: usize = 32_768;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    /// Sent once, and thought to be on its way.
    Sent,
    /// Thought lost and not sent again since.
    Lost,
    /// Sent again, and thought to be on its way.
    Resent,
    /// The peer has it.
    Sacked,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Record {
    pub(crate) start: SeqNum,
    pub(crate) end: SeqNum,
    /// When it was sent last.
    pub(crate) sent_at: Time,
    /// Bytes of each packet but the last, as it was sent last.
    packet: u16,
    pub(crate) status: Status,
    /// It was sent more than once.
    pub(crate) again: bool,
}

impl Record {
    fn len(&self) -> u32 {
        self.start.distance_to(self.end)
    }
}

/// A retransmission, in order of time.
#[derive(Clone, Copy, Debug)]
struct Resent {
    start: SeqNum,
    end: SeqNum,
    sent_at: Time,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Scoreboard {
    /// Sorted; those still in [`Status::Sent`] are in order of time too, since first transmissions go in sequence.
    records: VecDeque<Record>,
    /// Some may be out of date: their records have since been delivered, or resent.
    resent: VecDeque<Resent>,
    sacked: u32,
    lost: u32,
    /// No record before it is in [`Status::Sent`].
    sent_from: SeqNum,
    /// No record before it is in [`Status::Lost`].
    lost_from: SeqNum,
    /// Position after the highest byte that was delivered.
    delivered_to: SeqNum,
}

/// What one ACK tells was delivered.
#[derive(Clone, Debug)]
pub(crate) struct Delivery {
    pub(crate) now: Time,
    pub(crate) min_rtt: Option<Nanos>,
    /// TSval that the ACK echoes, beside ours at the epoch, to tell which transmission is meant (RFC 8985 §6.2 step 2).
    pub(crate) echo: Option<(u32, u32)>,
    /// Bytes that were not delivered before.
    pub(crate) bytes: u32,
    /// Of these, bytes that the cumulative acknowledgment covers.
    pub(crate) in_order: u32,
    /// The one sent last: when, its end, and whether it was a retransmission.
    pub(crate) newest: Option<(Time, SeqNum, bool)>,
    /// When the oldest and the newest of those sent once were sent.
    pub(crate) once: Option<(Time, Time)>,
    /// Something sent once came after something sent later.
    pub(crate) reordered: bool,
    /// Something that was sent again is among these.
    pub(crate) again: bool,
}

impl Delivery {
    pub(crate) fn new(now: Time, min_rtt: Option<Nanos>, echo: Option<(u32, u32)>) -> Self {
        Self {
            now,
            min_rtt,
            echo,
            bytes: 0,
            in_order: 0,
            newest: None,
            once: None,
            reordered: false,
            again: false,
        }
    }

    fn add(&mut self, record: &Record, end: SeqNum, bytes: u32, delivered_to: SeqNum) {
        self.bytes += bytes;
        self.again |= record.again;
        if record.again {
            if self.is_ambiguous(record) {
                return;
            }
        } else {
            self.reordered |= end.before(delivered_to);
            let (oldest, newest) = self.once.unwrap_or((record.sent_at, record.sent_at));
            self.once = Some((oldest.min(record.sent_at), newest.max(record.sent_at)));
        }
        if self.newest.is_none_or(|(at, newest_end, _)| {
            (record.sent_at, true) > (at, newest_end.at_or_after(end))
        }) {
            self.newest = Some((record.sent_at, end, record.again));
        }
    }

    /// The ACK may be for an earlier transmission than the last (RFC 8985 §6.2 step 2).
    fn is_ambiguous(&self, record: &Record) -> bool {
        let echoes_earlier = self.echo.is_some_and(|(echo, origin)| {
            let sent = origin.wrapping_add((record.sent_at.0 / crate::time::MILLISECOND) as u32);
            SeqNum(echo).before(SeqNum(sent))
        });
        echoes_earlier
            || self
                .min_rtt
                .is_some_and(|minimum| self.now.since(record.sent_at) < minimum)
    }
}

impl Scoreboard {
    pub(crate) fn new(start: SeqNum) -> Self {
        Self {
            sent_from: start,
            lost_from: start,
            delivered_to: start,
            ..Self::default()
        }
    }

    /// Bytes that the peer has selectively acknowledged.
    pub(crate) fn sacked(&self) -> u32 {
        self.sacked
    }

    /// Bytes thought lost and not sent again.
    pub(crate) fn lost(&self) -> u32 {
        self.lost
    }

    /// Position after the highest byte that was delivered.
    pub(crate) fn delivered_to(&self) -> SeqNum {
        self.delivered_to
    }

    pub(crate) fn has_resent(&self) -> bool {
        !self.resent.is_empty()
    }

    pub(crate) fn oldest(&self) -> Option<&Record> {
        self.records.front()
    }

    /// What is outstanding longest was sent once, and is thought to be on its way.
    pub(crate) fn begins_as_sent(&self) -> bool {
        self.oldest()
            .is_some_and(|record| record.status == Status::Sent)
    }

    /// The last record that the peer is not known to have.
    pub(crate) fn last_unsacked(&self) -> Option<&Record> {
        self.records
            .iter()
            .rev()
            .find(|record| record.status != Status::Sacked)
    }

    /// `start..end` was sent for the first time, in packets of `mss`.
    pub(crate) fn push(&mut self, start: SeqNum, end: SeqNum, now: Time, mss: u16) {
        if let Some(last) = self.records.back_mut()
            && last.status == Status::Sent
            && last.sent_at == now
            && !last.again
            && last.packet == mss
            && last.len().is_multiple_of(mss.into())
        {
            debug_assert_eq!(last.end, start);
            last.end = end;
            return;
        }
        self.records.push_back(Record {
            start,
            end,
            sent_at: now,
            packet: mss,
            status: Status::Sent,
            again: false,
        });
    }

    /// Has what another owner has sent, in packets of `mss` most likely: when is not known.
    pub(crate) fn adopt(&mut self, start: SeqNum, end: SeqNum, now: Time, mss: u16) {
        self.records.push_back(Record {
            start,
            end,
            sent_at: now,
            packet: mss,
            status: Status::Sent,
            again: true,
        });
    }

    /// Takes a cumulative acknowledgment.
    pub(crate) fn acknowledge(&mut self, una: SeqNum, delivery: &mut Delivery) {
        while let Some(record) = self.records.front_mut() {
            if record.start.at_or_after(una) {
                break;
            }
            let end = record.end.min(una);
            let bytes = record.start.distance_to(end);
            let taken = *record;
            let whole = end == record.end;
            if whole {
                self.records.pop_front();
            } else {
                record.start = una;
            }
            match taken.status {
                Status::Sacked => self.sacked -= bytes,
                Status::Lost => self.lost -= bytes,
                Status::Sent | Status::Resent => {}
            }
            if taken.status != Status::Sacked {
                delivery.add(&taken, end, bytes, self.delivered_to);
                delivery.in_order += bytes;
            }
        }
        while self
            .resent
            .front()
            .is_some_and(|resent| resent.end.at_or_before(una))
        {
            self.resent.pop_front();
        }
        if self.records.is_empty() {
            self.resent.clear();
        }
        self.sent_from = self.sent_from.max(una);
        self.lost_from = self.lost_from.max(una);
        self.delivered_to = self.delivered_to.max(una);
    }

    /// Takes a SACK block that lies within what is outstanding. Only whole packets count, of the size that they were sent in: a cut inside one would
    /// leave pieces that were never sent as such.
    pub(crate) fn sack(&mut self, start: SeqNum, end: SeqNum, delivery: &mut Delivery) {
        let mut index = self.index_from(start);
        while let Some(&record) = self.records.get(index) {
            if record.start.at_or_after(end) {
                break;
            }
            if record.status == Status::Sacked {
                index += 1;
                continue;
            }
            let mss = u32::from(record.packet);
            let mut from = record.start.max(start);
            let mut to = record.end.min(end);
            if from != record.start {
                from = record.start + record.start.distance_to(from).next_multiple_of(mss);
            }
            if to != record.end {
                let len = record.start.distance_to(to);
                to = record.start + (len - len % mss);
            }
            let cuts = usize::from(from != record.start) + usize::from(to != record.end);
            if from.at_or_after(to) || self.records.len() + cuts > MAX_RECORDS {
                index += 1;
                continue;
            }
            let bytes = from.distance_to(to);
            self.sacked += bytes;
            if record.status == Status::Lost {
                self.lost -= bytes;
            }
            delivery.add(&record, to, bytes, self.delivered_to);
            index = self.mark_sacked(index, from, to);
        }
        self.delivered_to = self.delivered_to.max(end);
    }

    /// Marks `from..to` of the record at `index`, joins it with selectively acknowledged neighbours, and returns the
    /// index of the record that follows.
    fn mark_sacked(&mut self, index: usize, from: SeqNum, to: SeqNum) -> usize {
        let record = self.records[index];
        let (cut_front, cut_back) = (from != record.start, to != record.end);
        let joins_before =
            !cut_front && index > 0 && self.records[index - 1].status == Status::Sacked;
        let joins_after = !cut_back
            && self
                .records
                .get(index + 1)
                .is_some_and(|next| next.status == Status::Sacked);
        match (joins_before, joins_after) {
            (true, true) => {
                self.records[index - 1].end = self.records[index + 1].end;
                self.records.drain(index..index + 2);
                index
            }
            (true, false) => {
                self.records[index - 1].end = to;
                if cut_back {
                    self.records[index].start = to;
                } else {
                    self.records.remove(index);
                }
                index
            }
            (false, true) => {
                self.records[index + 1].start = from;
                if cut_front {
                    self.records[index].end = from;
                    index + 2
                } else {
                    self.records.remove(index);
                    index + 1
                }
            }
            (false, false) => {
                let mut middle = index;
                if cut_front {
                    self.records[index].end = from;
                    middle += 1;
                    self.records.insert(middle, record);
                }
                if cut_back {
                    self.records.insert(
                        middle + 1,
                        Record {
                            start: to,
                            ..record
                        },
                    );
                }
                self.records[middle] = Record {
                    start: from,
                    end: to,
                    status: Status::Sacked,
                    ..record
                };
                middle + 1
            }
        }
    }

    /// Finds what RACK holds for lost (RFC 8985 §6.2 step 5). Returns the bytes newly lost, and how long to wait until
    /// the next may be.
    pub(crate) fn detect_losses(
        &mut self,
        rack: &Rack,
        reorder_window: Nanos,
        now: Time,
    ) -> (u32, Option<Nanos>) {
        let lost_before = self.lost;
        let mut wait: Option<Nanos> = None;
        let mut wait_for =
            |remaining: Nanos| wait = Some(wait.map_or(remaining, |w| w.min(remaining)));

        let mut index = self.index_from(self.sent_from);
        while let Some(record) = self.records.get_mut(index) {
            if record.status == Status::Sent {
                if !rack.was_sent_after(record.sent_at, record.end) {
                    break;
                }
                let remaining = rack.remaining(record.sent_at, reorder_window, now);
                if remaining > 0 {
                    wait_for(remaining);
                    break;
                }
                record.status = Status::Lost;
                self.lost += record.len();
                self.lost_from = self.lost_from.min(record.start);
            }
            self.sent_from = record.end;
            index += 1;
        }

        while let Some(&resent) = self.resent.front() {
            let mut index = self.index_from(resent.start);
            let mut current = false;
            while let Some(record) = self.records.get_mut(index) {
                if record.start.at_or_after(resent.end) {
                    break;
                }
                if record.status == Status::Resent && record.sent_at == resent.sent_at {
                    if !rack.was_sent_after(record.sent_at, record.end) {
                        current = true;
                        break;
                    }
                    let remaining = rack.remaining(record.sent_at, reorder_window, now);
                    if remaining > 0 {
                        wait_for(remaining);
                        current = true;
                        break;
                    }
                    record.status = Status::Lost;
                    self.lost += record.len();
                    self.lost_from = self.lost_from.min(record.start);
                }
                index += 1;
            }
            if current {
                break;
            }
            self.resent.pop_front();
        }
        (self.lost - lost_before, wait)
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
                record.status = Status::Lost;
                self.lost += record.len();
                self.lost_from = self.lost_from.min(record.start);
            }
        }
    }

    /// The peer has dropped what it had selectively acknowledged (RFC 2018 §8): holds that for lost.
    pub(crate) fn renege(&mut self) {
        for record in &mut self.records {
            if record.status == Status::Sacked {
                record.status = Status::Lost;
                self.lost += record.len();
                self.lost_from = self.lost_from.min(record.start);
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

    /// Makes a record begin at `seq`, if one holds it.
    fn cut_at(&mut self, seq: SeqNum) {
        let index = self.index_from(seq);
        let Some(record) = self.records.get_mut(index) else {
            return;
        };
        if record.start.before(seq) {
            let rest = Record {
                start: seq,
                ..*record
            };
            record.end = seq;
            self.records.insert(index + 1, rest);
        }
    }

    /// Index of the first record that ends after `seq`.
    fn index_from(&self, seq: SeqNum) -> usize {
        match self.records.front() {
            Some(front) if seq.at_or_after(front.end) => self
                .records
                .partition_point(|record| record.end.at_or_before(seq)),
            _ => 0,
        }
    }

    /// Panics if the counters, the cursors or the tiling are wrong.
    pub(crate) fn assert_invariants(&self, una: SeqNum, nxt: SeqNum) {
        let mut at = una;
        let (mut sacked, mut lost) = (0, 0);
        for record in &self.records {
            assert_eq!(record.start, at, "records tile the window");
            assert!(record.start.before(record.end), "no record is empty");
            at = record.end;
            match record.status {
                Status::Sacked => sacked += record.len(),
                Status::Lost => {
                    lost += record.len();
                    assert!(
                        record.end.after(self.lost_from),
                        "a lost record lies before the cursor"
                    );
                }
                Status::Sent => assert!(
                    record.end.after(self.sent_from),
                    "a sent record lies before the cursor"
                ),
                Status::Resent => {}
            }
        }
        assert_eq!(at, nxt, "records reach snd_nxt");
        assert_eq!((sacked, lost), (self.sacked, self.lost), "counters");
    }
}

#[cfg(test)]
mod tests;
