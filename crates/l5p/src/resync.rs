//! Answers to a NIC context that asks whether a message begins where it thinks (Autonomous NIC offloads §4.3).

use std::collections::VecDeque;

use wire::SeqNum;

/// Message starts remembered for requests that come after the stream has passed them.
const HISTORY: usize = 16;

/// Requests open at a time; a context asks again only when it has an answer or has given up.
pub(crate) const OPEN_REQUESTS: usize = 16;

/// The answer to one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answer<Q, M> {
    /// What was asked about.
    pub(crate) tcpsn: SeqNum,
    /// What came with the request.
    pub(crate) asked: Q,
    /// The message that begins there, if one does.
    pub(crate) found: Option<M>,
}

/// Requests, each with a `Q`, and the starts of messages that settle them, each with an `M`.
#[derive(Debug)]
pub(crate) struct Resync<Q, M> {
    /// Not settled yet, as they came.
    requests: VecDeque<(SeqNum, Q)>,
    answers: VecDeque<Answer<Q, M>>,
    /// The latest message starts, oldest first.
    history: VecDeque<(SeqNum, M)>,
}

impl<Q: Copy, M: Copy> Resync<Q, M> {
    /// Asks whether a message begins at `tcpsn`.
    pub(crate) fn request(&mut self, tcpsn: SeqNum, asked: Q) {
        let newest = self.history.back();
        if newest.is_some_and(|(newest, _)| tcpsn.at_or_before(*newest)) {
            self.settle(tcpsn, asked);
            return;
        }
        if self.requests.len() == OPEN_REQUESTS
            && let Some((tcpsn, asked)) = self.requests.pop_front()
        {
            self.answer(tcpsn, asked, None);
        }
        self.requests.push_back((tcpsn, asked));
    }

    /// Answers at once that nothing begins there.
    pub(crate) fn refuse(&mut self, tcpsn: SeqNum, asked: Q) {
        self.answer(tcpsn, asked, None);
    }

    /// A message begins at `tcpsn`, and nothing that was not noted begins before.
    pub(crate) fn note(&mut self, tcpsn: SeqNum, message: M) {
        if self.history.len() == HISTORY {
            self.history.pop_front();
        }
        self.history.push_back((tcpsn, message));
        for _ in 0..self.requests.len() {
            if let Some((request, asked)) = self.requests.pop_front() {
                if request.at_or_before(tcpsn) {
                    self.settle(request, asked);
                } else {
                    self.requests.push_back((request, asked));
                }
            }
        }
    }

    /// The context that asked is gone: its requests get no answer any more.
    pub(crate) fn forget_requests(&mut self) {
        self.requests.clear();
        self.answers.clear();
    }

    /// The next answer. Every request gets one, once the stream has passed what it asks about.
    pub(crate) fn poll_answer(&mut self) -> Option<Answer<Q, M>> {
        self.answers.pop_front()
    }

    #[cfg(test)]
    pub(crate) fn open_requests(&self) -> usize {
        self.requests.len()
    }

    /// Answers a request that the stream has reached.
    fn settle(&mut self, tcpsn: SeqNum, asked: Q) {
        let start = self.history.iter().rev().find(|(start, _)| *start == tcpsn);
        self.answer(tcpsn, asked, start.map(|(_, message)| *message));
    }

    fn answer(&mut self, tcpsn: SeqNum, asked: Q, found: Option<M>) {
        self.answers.push_back(Answer {
            tcpsn,
            asked,
            found,
        });
    }
}

impl<Q, M> Default for Resync<Q, M> {
    fn default() -> Resync<Q, M> {
        Resync {
            requests: VecDeque::new(),
            answers: VecDeque::new(),
            history: VecDeque::new(),
        }
    }
}
