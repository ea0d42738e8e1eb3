//! Answers to a NIC context that asks whether a record begins where it thinks (seed 000 §4.3).

use std::collections::VecDeque;

use wire::SeqNum;

#[cfg(test)]
mod tests;

/// Record starts remembered for requests that come after the stream has passed them.
const HISTORY: usize = 16;

/// Requests open at a time; a context asks again only when it has an answer or has given up.
const OPEN_REQUESTS: usize = 16;

/// The answer to one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResyncAnswer {
    /// What was asked about.
    pub tcpsn: SeqNum,
    /// Whether a record begins there.
    pub confirmed: bool,
    /// That record's sequence number; 0 when there is none.
    pub index: u64,
    /// The epoch whose keys it is under. A context of another epoch cannot use it.
    pub epoch: u16,
}

#[derive(Clone, Copy, Debug)]
struct RecordStart {
    tcpsn: SeqNum,
    index: u64,
    epoch: u16,
}

/// Requests, and the record starts that settle them.
#[derive(Debug, Default)]
pub(super) struct Resync {
    /// Not settled yet, as they came.
    requests: VecDeque<SeqNum>,
    answers: VecDeque<ResyncAnswer>,
    /// The latest record starts, oldest first.
    history: VecDeque<RecordStart>,
}

impl Resync {
    pub(super) fn request(&mut self, tcpsn: SeqNum) {
        let newest = self.history.back();
        if newest.is_some_and(|newest| tcpsn.at_or_before(newest.tcpsn)) {
            self.settle(tcpsn);
            return;
        }
        if self.requests.len() == OPEN_REQUESTS
            && let Some(oldest) = self.requests.pop_front()
        {
            self.answers.push_back(refusal(oldest));
        }
        self.requests.push_back(tcpsn);
    }

    pub(super) fn note_record(&mut self, tcpsn: SeqNum, index: u64, epoch: u16) {
        if self.history.len() == HISTORY {
            self.history.pop_front();
        }
        self.history.push_back(RecordStart {
            tcpsn,
            index,
            epoch,
        });
        for _ in 0..self.requests.len() {
            if let Some(request) = self.requests.pop_front() {
                if request.at_or_before(tcpsn) {
                    self.settle(request);
                } else {
                    self.requests.push_back(request);
                }
            }
        }
    }

    pub(super) fn poll_answer(&mut self) -> Option<ResyncAnswer> {
        self.answers.pop_front()
    }

    /// Answers a request that the stream has reached.
    fn settle(&mut self, tcpsn: SeqNum) {
        let start = self.history.iter().rev().find(|start| start.tcpsn == tcpsn);
        self.answers.push_back(match start {
            Some(start) => ResyncAnswer {
                tcpsn,
                confirmed: true,
                index: start.index,
                epoch: start.epoch,
            },
            None => refusal(tcpsn),
        });
    }
}

fn refusal(tcpsn: SeqNum) -> ResyncAnswer {
    ResyncAnswer {
        tcpsn,
        confirmed: false,
        index: 0,
        epoch: 0,
    }
}
