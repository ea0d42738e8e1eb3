//! The search in what one socket receives.

use std::collections::VecDeque;
use std::sync::Arc;

use l5p::pattern::{Match, Parameters, Patterns, Scanner};
use l5p::{HostEvent, Listed, Note};
use nic::ring::ContextId;
use tcp::Accepted;
use wire::SeqNum;

use crate::counters::Counters;
use crate::driver::Place;
use crate::layer5::{ContentFront, ContentReader};
use crate::memory::Buffer;
use crate::stream::{Segment, Stream};

/// Most matches that are kept until they are taken. The others are counted only.
const MAX_MATCHES: usize = 4096;

/// The search in what a socket receives.
#[derive(Debug)]
pub(crate) struct Scan {
    scanner: Scanner,
    /// The NIC's context, where the search is not inside of another protocol's.
    pub context: Option<ContextId>,
    /// TCP has taken bytes up to here.
    seen: SeqNum,
    matches: VecDeque<Match>,
    found: Vec<Match>,
    counts: Counts,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    by_nic: u64,
    by_software: u64,
    found: u64,
    requests: u64,
}

/// Where content goes that is read.
pub(crate) enum Target<'a> {
    /// It is copied.
    Bytes {
        /// To here.
        buffer: &'a mut [u8],
        /// Bytes so far.
        done: usize,
    },
    /// It is given as it lies.
    Chunk(Option<Buffer>),
}

impl Target<'_> {
    /// Bytes that it still takes.
    fn room(&self) -> u32 {
        match self {
            Target::Bytes { buffer, done } => (buffer.len() - done) as u32,
            Target::Chunk(None) => u32::MAX,
            Target::Chunk(Some(_)) => 0,
        }
    }

    /// Takes the first `len` bytes of the stream, which lie in one segment.
    fn put(&mut self, stream: &mut Stream, len: u32) {
        match self {
            Target::Bytes { buffer, done } => {
                *done += stream.read(&mut buffer[*done..*done + len as usize]);
            }
            Target::Chunk(chunk) => *chunk = stream.take_front(len),
        }
    }

    /// Bytes that were copied.
    pub fn done(&self) -> usize {
        match self {
            Target::Bytes { done, .. } => *done,
            Target::Chunk(_) => 0,
        }
    }

    /// What was given as it lies.
    pub fn into_chunk(self) -> Option<Buffer> {
        match self {
            Target::Bytes { .. } => None,
            Target::Chunk(chunk) => chunk,
        }
    }
}

impl Scan {
    /// For what is read from now on. TCP has taken bytes up to `seen`.
    pub fn new(patterns: Arc<Patterns>, seen: SeqNum) -> Scan {
        Scan {
            scanner: Scanner::new(patterns),
            context: None,
            seen,
            matches: VecDeque::new(),
            found: Vec::new(),
            counts: Counts::default(),
        }
    }

    /// TCP has taken this of a packet's payload of `len` bytes, of which the NIC has said this.
    pub fn arrived(&mut self, taken: Accepted, len: u32, notes: &[Note]) {
        self.seen = self.seen.max(taken.seq + taken.len);
        // What the NIC has seen of a packet and TCP has not taken, was not in the stream.
        if taken.skip == 0 && taken.len == len {
            self.scanner.note(taken.seq, len, notes);
        }
    }

    /// Gives content to `to`, as much as it takes. Answers how many bytes.
    pub fn take(&mut self, stream: &mut Stream, content: ContentFront, to: &mut Target<'_>) -> u32 {
        let mut taken = 0;
        while taken < content.len
            && to.room() > 0
            && let Some(front) = stream.front().and_then(Segment::as_buffer)
        {
            let left = content.len - taken;
            let len = (front.len() as u32).min(left).min(to.room());
            let bytes = &front[..len as usize];
            let known = if content.is_agreed { left } else { 0 };
            let scanned = self
                .scanner
                .take(stream.start(), bytes, known, &mut self.found);
            self.counts.by_software += scanned as u64;
            self.counts.by_nic += u64::from(len) - scanned as u64;
            to.put(stream, len);
            taken += len;
        }
        self.counts.found += self.found.len() as u64;
        let room = MAX_MATCHES.saturating_sub(self.matches.len());
        self.matches.extend(self.found.drain(..).take(room));
        taken
    }

    pub fn take_match(&mut self) -> Option<Match> {
        self.matches.pop_front()
    }

    /// Counts what was done since this was called last.
    pub fn count(&mut self, counters: &mut Counters) {
        let counts = std::mem::take(&mut self.counts);
        for (event, count) in [
            (HostEvent::RxBytesByNic, counts.by_nic),
            (HostEvent::RxBytesBySoftware, counts.by_software),
            (HostEvent::RxFound, counts.found),
            (HostEvent::RxRequests, counts.requests),
        ] {
            counters.protocols.add(Parameters::ID, event, count);
        }
    }
}

impl ContentReader for Scan {
    fn context(&self) -> Option<ContextId> {
        self.context
    }

    fn context_mut(&mut self) -> &mut Option<ContextId> {
        &mut self.context
    }

    /// A window may begin anywhere. But the NIC must not go to where TCP has not been: there it would wait for the stream to come.
    fn resync(&mut self, place: Place) -> Option<u64> {
        self.counts.requests += 1;
        place.tcpsn.at_or_before(self.seen).then_some(0)
    }
}
