//! The sender's scoreboard: what was sent, when, and what became of it (RFC 6675 §3, RFC 8985 §5).
//!
//! A record is a run of bytes sent together, up to a whole Transmit; it is cut only where SACK blocks or
//! retransmissions cut it, and selectively acknowledged neighbours are joined. Records tile `una..nxt` without gaps.
//! Counters and cursors stand in for scans of the window.

mod delivery;
mod losses;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use wire::SeqNum;

use crate::time::Time;

pub(crate) use delivery::Delivery;

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
                let middle = index + usize::from(self.cut_record(index, from));
                self.cut_record(middle, to);
                self.records[middle].status = Status::Sacked;
                middle + 1
            }
        }
    }

    /// Makes a record begin at `seq`, if one holds it.
    fn cut_at(&mut self, seq: SeqNum) {
        self.cut_record(self.index_from(seq), seq);
    }

    /// Cuts the record at `index` in two where one is to begin at `seq`, if that is inside of it. Returns whether it is.
    #[inline]
    fn cut_record(&mut self, index: usize, seq: SeqNum) -> bool {
        let Some(record) = self.records.get_mut(index) else {
            return false;
        };
        let is_inside = record.start.before(seq) && seq.before(record.end);
        if is_inside {
            let rest = Record {
                start: seq,
                ..*record
            };
            record.end = seq;
            self.records.insert(index + 1, rest);
        }
        is_inside
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
