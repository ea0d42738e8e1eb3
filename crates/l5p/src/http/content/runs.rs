//! What the NIC says of bytes that have not been taken yet.

use std::collections::VecDeque;

use wire::SeqNum;

use crate::Note;
use crate::http::code;

/// Most runs that are kept of bytes that have not been taken: more than a window of TCP's has packets.
const MAX_RUNS: usize = 4096;

/// What the NIC says of bytes that it has taken one after the other.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    pub(super) from: SeqNum,
    pub(super) to: SeqNum,
    /// Bytes of the response before it.
    pub(super) before: u64,
    /// Bytes of content that were decoded, with it.
    pub(super) made: u64,
    pub(super) is_whole: bool,
}

/// Runs, ascending.
#[derive(Debug, Default)]
pub(super) struct Runs(VecDeque<Run>);

impl Runs {
    /// The first run, which is taken out.
    pub(super) fn pop_front(&mut self) -> Option<Run> {
        self.0.pop_front()
    }

    /// Takes in the notes on a packet, as [`Content::note`](super::Content::note) has them.
    pub(super) fn note(&mut self, at: SeqNum, len: u32, notes: &[Note]) {
        for pair in notes.chunks(2) {
            let [begin, end] = pair else { return };
            let is_end = [code::END, code::WHOLE].contains(&end.code);
            if begin.code != code::BEGIN || !is_end || begin.at >= end.at || end.at > len {
                return;
            }
            let run = Run {
                from: at + begin.at,
                to: at + end.at,
                before: begin.value,
                made: end.value,
                is_whole: end.code == code::WHOLE,
            };
            let follows = self.0.back().is_none_or(|last| {
                let behind = run.from.after(last.to) || run.from == last.to;
                behind && last.made <= run.made && last.before < run.before
            });
            if !follows || self.0.len() == MAX_RUNS {
                return;
            }
            self.0.push_back(run);
        }
    }
}
