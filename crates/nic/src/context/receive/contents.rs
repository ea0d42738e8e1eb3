//! The contents of TLS records as a stream of their own, for the protocol inside.

use std::ops::Range;

use l5p::{MsgState, Placement};
use wire::SeqNum;

use super::observer::Observer;

/// Parts of records that one packet can have. What would be more is missing to the protocol inside.
const MAX_RUNS: usize = 32;

/// Tells which parts of which records the bytes of a packet are.
///
/// Positions in the stream of contents are counted in plaintext bytes, and begin anywhere. Every record has as many bytes
/// around its content as any other, so that the position of its content follows from where the record begins and from its
/// number alone; nothing is lost when records are. What is not so, a record that is padded or of another content type,
/// is found when its type is seen.
#[derive(Debug)]
pub(crate) struct Contents {
    record: Option<Record>,
    /// Bytes around each record's content.
    overhead: u32,
    seen_from: SeqNum,
}

/// A record whose header is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    /// `tcpsn` of its first byte.
    pub(super) start: SeqNum,
    pub(super) len: u32,
    /// Position of its content's first byte.
    pub(super) content: SeqNum,
}

/// Bytes `from..to` of a record, behind its header, which are the packet's from its byte `at` on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    pub(super) record: Record,
    pub(super) from: u32,
    pub(super) to: u32,
    pub(super) at: u32,
}

/// The parts of records in a packet, ascending.
#[derive(Debug)]
pub(crate) struct Runs {
    runs: [Run; MAX_RUNS],
    count: u8,
    /// The packet had more than there is room for.
    overflowed: bool,
}

impl Contents {
    /// For records with so many bytes around their content.
    pub(super) fn new(overhead: u32) -> Contents {
        Contents {
            record: None,
            overhead,
            seen_from: SeqNum(0),
        }
    }

    /// Position of the content of record `index`, which begins at `start`.
    pub(super) fn position(&self, start: SeqNum, index: u64) -> SeqNum {
        start - self.overhead.wrapping_mul(index as u32)
    }
}

impl Default for Runs {
    fn default() -> Self {
        let record = Record {
            start: SeqNum(0),
            len: 0,
            content: SeqNum(0),
        };
        let run = Run {
            record,
            from: 0,
            to: 0,
            at: 0,
        };
        Runs {
            runs: [run; MAX_RUNS],
            count: 0,
            overflowed: false,
        }
    }
}

impl Runs {
    pub(super) fn as_slice(&self) -> &[Run] {
        &self.runs[..usize::from(self.count)]
    }

    /// Whether these are not all.
    pub(super) fn have_overflowed(&self) -> bool {
        self.overflowed
    }
}

impl Observer for Contents {
    type Snapshot = Record;
    type List = Runs;
    const OBSERVES: bool = true;
    const TRUSTS: bool = false;

    fn begin(&mut self, _: &mut Runs, message: MsgState, _: Option<Placement>) {
        self.record = Some(Record {
            start: message.start,
            len: message.len,
            content: self.position(message.start, message.index),
        });
    }

    fn snapshot(&self) -> Option<Record> {
        self.record
    }

    fn end(&mut self) {
        self.record = None;
    }

    fn note(&mut self, list: &mut Runs, record: &Record, range: Range<u32>, at: u32) {
        let Some(free) = list.runs.get_mut(usize::from(list.count)) else {
            list.overflowed = true;
            return;
        };
        *free = Run {
            record: *record,
            from: range.start,
            to: range.end,
            at,
        };
        list.count += 1;
    }

    fn clear(list: &mut Runs) {
        list.count = 0;
        list.overflowed = false;
    }

    fn seen_from(&self) -> SeqNum {
        self.seen_from
    }

    fn set_seen_from(&mut self, seq: SeqNum) {
        self.seen_from = seq;
    }
}
