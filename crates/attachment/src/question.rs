//! The NIC's question whether a message of the L5 protocol begins at a position, and the library's answer: three words of a slot.
//!
//! ```text
//!   0   serial, position          NIC ──▶ library
//!   1   serial, whether one does  library ──▶ NIC
//!   2   the message's number      library ──▶ NIC
//! ```

use std::sync::atomic::{AtomicU64, Ordering};

use wire::SeqNum;

const QUESTION: usize = 0;
const ANSWER: usize = 1;
const ANSWER_INDEX: usize = 2;
/// Words that a question and its answer take.
pub(crate) const WORDS: usize = 3;

/// A question of the NIC's, as the library sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question {
    /// Does a message begin here?
    pub tcpsn: SeqNum,
    /// To be given with the answer.
    pub serial: u32,
}

/// The words of a slot that questions are in.
#[derive(Clone, Copy, Debug)]
pub struct Questions<'a>(&'a [AtomicU64]);

impl<'a> Questions<'a> {
    pub(crate) fn new(words: &'a [AtomicU64]) -> Questions<'a> {
        Questions(words)
    }

    /// The question that is there. For the library.
    #[inline]
    pub fn pending(self) -> Option<Question> {
        let word = self.0[QUESTION].load(Ordering::Acquire);
        (word != 0).then_some(Question {
            tcpsn: SeqNum(word as u32),
            serial: (word >> 32) as u32,
        })
    }

    /// Answers a question: message number `index` begins there, or with `None` none does. For the library.
    pub fn answer(self, serial: u32, index: Option<u64>) {
        self.0[ANSWER_INDEX].store(index.unwrap_or(0), Ordering::Relaxed);
        let word = u64::from(serial) << 1 | u64::from(index.is_some());
        self.0[ANSWER].store(word, Ordering::Release);
    }
}

/// The NIC's side.
#[derive(Debug, Default)]
pub struct Asking {
    /// Of the question asked last.
    serial: u32,
    /// What was asked, until it is answered.
    asked: Option<SeqNum>,
}

impl Asking {
    /// Asks whether a message begins at `tcpsn`. What was asked before needs no answer any more.
    pub fn ask(&mut self, questions: Questions<'_>, tcpsn: SeqNum) {
        let Questions(words) = questions;
        // One that was never used, also if another NIC has asked here before; and 0 is no question.
        let last = (words[QUESTION].load(Ordering::Relaxed) >> 32) as u32;
        self.serial = last.max(self.serial).wrapping_add(1).max(1);
        self.asked = Some(tcpsn);
        let word = u64::from(self.serial) << 32 | u64::from(tcpsn.0);
        words[QUESTION].store(word, Ordering::Release);
    }

    /// A question is open.
    #[inline]
    pub fn asks(&self) -> bool {
        self.asked.is_some()
    }

    /// The answer: what was asked about, and the number of the message that begins there, if one does.
    pub fn poll_answer(&mut self, questions: Questions<'_>) -> Option<(SeqNum, Option<u64>)> {
        let Questions(words) = questions;
        let tcpsn = self.asked?;
        let word = words[ANSWER].load(Ordering::Acquire);
        if word >> 1 != u64::from(self.serial) {
            return None;
        }
        self.asked = None;
        let index = words[ANSWER_INDEX].load(Ordering::Relaxed);
        Some((tcpsn, (word & 1 != 0).then_some(index)))
    }

    /// No answer is waited for any more.
    pub fn forget(&mut self) {
        self.asked = None;
    }
}
