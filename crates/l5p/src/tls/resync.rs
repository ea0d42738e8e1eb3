//! Answers to a NIC context that asks whether a record begins where it thinks (Autonomous NIC offloads §4.3).

use wire::SeqNum;

use crate::resync;

#[cfg(test)]
mod tests;

/// The answer to one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResyncAnswer {
    /// What was asked about.
    pub tcpsn: SeqNum,
    /// Whether a record begins there.
    pub confirmed: bool,
    /// That record's sequence number; 0 without a record.
    pub index: u64,
    /// The epoch whose keys it is under. A context of another epoch cannot use it.
    pub epoch: u16,
}

#[derive(Clone, Copy, Debug)]
struct Record {
    index: u64,
    epoch: u16,
}

/// Requests, and the record starts that settle them.
#[derive(Debug, Default)]
pub(super) struct Resync {
    records: resync::Resync<(), Record>,
}

impl Resync {
    pub(super) fn request(&mut self, tcpsn: SeqNum) {
        self.records.request(tcpsn, ());
    }

    pub(super) fn forget_requests(&mut self) {
        self.records.forget_requests();
    }

    pub(super) fn note_record(&mut self, tcpsn: SeqNum, index: u64, epoch: u16) {
        self.records.note(tcpsn, Record { index, epoch });
    }

    pub(super) fn poll_answer(&mut self) -> Option<ResyncAnswer> {
        let answer = self.records.poll_answer()?;
        let found = answer.found;
        Some(ResyncAnswer {
            tcpsn: answer.tcpsn,
            confirmed: found.is_some(),
            index: found.map_or(0, |record| record.index),
            epoch: found.map_or(0, |record| record.epoch),
        })
    }
}
