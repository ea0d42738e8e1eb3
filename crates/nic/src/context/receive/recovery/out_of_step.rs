//! Getting back in step: search, tracking, and the late header.

use l5p::{AnyOrder, Integrity, Walker};
use wire::SeqNum;

use super::super::observer::Observer;
use super::super::search::{Lost, MAX_MESSAGE, Scanner, Tracker};
use super::in_step::MAX_UNCHECKED;
use super::{ArrivalOrder, MAX_JUMP, Phase, Recovery, RequestBackoff, Shared};

/// Packets of the past in a row, while searching, after which `newest` is no longer believed: a forged packet may have
/// set it.
const REANCHOR_AFTER: u8 = 64;
/// How far the newest data may be beyond the frontier: with another [`MAX_JUMP`] they are still in order.
const MAX_LAG: u32 = 1 << 29;
/// Stream bytes that must pass per resync request.
pub(super) const BYTES_PER_REQUEST: u32 = 32 << 10;
/// Stream bytes for which a context has one credit; so a packet's worth counts in few bits.
const BYTES_PER_CREDIT: u32 = 16;
/// Headers that are found before those that are missing are given up.
const PATIENCE: u32 = 2;
const REQUEST_COST: u16 = (BYTES_PER_REQUEST / BYTES_PER_CREDIT) as u16;
/// Most credit that may be saved up.
pub(super) const REQUEST_BURST: u16 = 16 * REQUEST_COST;

impl<L: AnyOrder, P: Observer> Recovery<L, P> {
    pub(super) fn see(&mut self, end: SeqNum) {
        if end.after(self.newest) {
            let earned = (self.newest.distance_to(end) / BYTES_PER_CREDIT).max(1);
            let earned = earned.min(u32::from(REQUEST_BURST)) as u16;
            self.credit = self.credit.saturating_add(earned).min(REQUEST_BURST);
            self.newest = end;
        }
    }

    /// After the frontier has moved: is the NIC back in step with the newest data?
    pub(super) fn settle(&mut self, shared: &mut Shared<L::Message, P>) {
        if self.is_in_step() {
            return;
        }
        // In the middle of a header nothing is known of the bytes behind it.
        let rest = self.walker.to_next_header().unwrap_or(0);
        let next_header = self.tcpsn + rest.min(MAX_MESSAGE);
        if next_header.at_or_after(self.newest) {
            // The missing header came before the one after it.
            self.phase = Phase::InStep;
            self.hurries = false;
            shared.counts.late_headers += 1;
            return;
        }
        if let Phase::Tracking(tracker, _) = &self.phase
            && tracker.guess() == next_header
            && self.walker.to_next_header().is_some()
        {
            // The chain from the missing header leads to the guess: that is the confirmation.
            let passed = tracker.messages().saturating_add(u32::from(rest > 0));
            let Ok(passed) = u8::try_from(passed.saturating_add(self.unchecked.into())) else {
                return;
            };
            let tracker = tracker.clone();
            self.unchecked = passed;
            self.give_up_message(shared);
            let index = self.walker.index().saturating_add(u64::from(rest > 0));
            self.resume(&tracker, index);
            self.hurries = false;
            shared.counts.late_headers += 1;
        }
    }

    /// Goes on at the guess if the messages that are missing before it can be counted, because they and those that were followed from there have
    /// one length. The check of the first whole one decides, and nothing is transformed for the host before it holds. The packet that has come has
    /// `fresh`, which begins at `start`.
    ///
    /// The missing header is lost with that, and with it the messages around it. So it is waited for up to the next header, unless that was in vain
    /// before.
    fn count_missing(&mut self, shared: &mut Shared<L::Message, P>, start: SeqNum, fresh: &[u8]) {
        let Phase::Tracking(tracker, _) = &self.phase else {
            return;
        };
        let Some((before, unchecked)) = self.missing_before(tracker) else {
            return;
        };
        if !self.hurries && tracker.messages() < PATIENCE {
            return;
        }
        let (tracker, index) = (tracker.clone(), self.walker.index());
        let index = index.saturating_add(before.into());
        self.give_up_message(shared);
        (self.proven, self.unchecked, self.hurries) = (false, unchecked, true);
        let last = tracker.last_message();
        if last.before(start) {
            shared.counts.counted_headers += 1;
            return self.resume(&tracker, index);
        }
        let passed = u64::from(tracker.messages() - 1);
        (self.walker, self.tcpsn) = (Walker::new(index.saturating_add(passed)), last);
        self.observer.end();
        let bytes = &fresh[start.distance_to(last) as usize..];
        match self.walker.absorb(&mut self.engine, bytes) {
            Ok(walked) if walked.integrity == Integrity::Good => {
                shared.counts.counted_headers += 1;
                self.proven = walked.messages_finished > 0;
                self.tcpsn += bytes.len() as u32;
                self.phase = Phase::InStep;
            }
            // A whole one was another: the host is to be asked.
            _ => self.chained = false,
        }
        self.observer.set_seen_from(self.tcpsn);
    }

    /// The messages before the tracker's guess from the one at the frontier on, and how many are unchecked if these are passed.
    fn missing_before(&self, tracker: &Tracker<L::Header>) -> Option<(u32, u8)> {
        let (rest, len) = (self.walker.to_next_header()?, tracker.one_len()?);
        let missing_header = self.tcpsn + rest;
        if !missing_header.before(tracker.guess()) || !self.engine.check_tells_number() {
            return None;
        }
        let missing = missing_header.distance_to(tracker.guess());
        let before = missing / len + u32::from(rest > 0);
        let unchecked = before.saturating_add(tracker.messages() + u32::from(self.unchecked));
        let is_so = missing.is_multiple_of(len) && unchecked < MAX_UNCHECKED.into();
        is_so.then_some((before, unchecked as u8))
    }

    /// Continues where the tracker is, whose guess is message number `index`.
    pub(super) fn resume(&mut self, tracker: &Tracker<L::Header>, index: u64) {
        self.walker = Walker::new(index.saturating_add(u64::from(tracker.messages())));
        self.tcpsn = tracker.next();
        self.chained = true;
        self.phase = Phase::InStep;
        self.observer.end();
        // The tracker found nothing in these bytes that contradicts a header.
        if self
            .walker
            .absorb(&mut self.engine, tracker.partial())
            .is_ok()
        {
            self.tcpsn += tracker.partial().len() as u32;
        }
        self.observer.set_seen_from(self.tcpsn);
    }

    /// A packet in step was not what it had to be: nothing that was known of the stream counts any longer. Its own bytes may
    /// hold the next header.
    pub(super) fn derail(
        &mut self,
        shared: &mut Shared<L::Message, P>,
        seq: SeqNum,
        payload: &[u8],
    ) {
        self.lose_chain(shared);
        self.phase = Phase::Searching(Scanner::default());
        shared.counts.searches += 1;
        self.look_out(shared, seq, payload);
    }

    /// Searches or tracks in what is new of a packet.
    pub(super) fn look_out(
        &mut self,
        shared: &mut Shared<L::Message, P>,
        seq: SeqNum,
        payload: &[u8],
    ) {
        let end = seq + payload.len() as u32;
        if end.at_or_before(self.newest) {
            self.past += 1;
            if self.past < REANCHOR_AFTER {
                return;
            }
            self.lose_chain(shared);
            self.phase = Phase::Searching(Scanner::default());
            // What lies before the frontier may have been offloaded, and must not be a second time: the host might put
            // bytes of both together, of which no check has seen all.
            self.newest = seq.max(self.tcpsn);
            if end.at_or_before(self.newest) {
                self.past = 0;
                return;
            }
        }
        self.past = 0;
        let start = seq.max(self.newest);
        let contiguous = start == self.newest;
        let fresh = &payload[seq.distance_to(start) as usize..];
        self.chained &= shared.order == ArrivalOrder::Any;
        match &mut self.phase {
            Phase::InStep => {
                self.phase = Phase::Searching(Scanner::default());
                shared.counts.searches += 1;
                self.search(shared, start, fresh);
            }
            Phase::Searching(scanner) => {
                if !contiguous {
                    scanner.interrupt();
                }
                self.search(shared, start, fresh);
            }
            Phase::Tracking(tracker, _) => {
                if let Err(lost) = tracker.follow(&self.engine, start, fresh, contiguous) {
                    shared.counts.guesses_lost += 1;
                    self.phase = Phase::Searching(Scanner::default());
                    self.search(
                        shared,
                        start + lost.search_from as u32,
                        &fresh[lost.search_from..],
                    );
                }
            }
        }
        self.see(end);
        if self.chained {
            self.settle(shared);
            self.count_missing(shared, start, fresh);
        }
    }

    /// Nothing that was known of the stream's messages counts any longer.
    pub(super) fn lose_chain(&mut self, shared: &mut Shared<L::Message, P>) {
        self.chained = false;
        self.gapped = false;
        self.observer.end();
        self.open.clear(&mut shared.pool);
    }

    /// Searches the next bytes of the stream until a guess holds to their end.
    fn search(&mut self, shared: &mut Shared<L::Message, P>, mut start: SeqNum, mut bytes: &[u8]) {
        loop {
            let Phase::Searching(scanner) = &mut self.phase else {
                return;
            };
            let Some((mut tracker, at)) = scanner.find(&self.engine, start, bytes) else {
                return;
            };
            match tracker.follow(&self.engine, start + at as u32, &bytes[at..], true) {
                Ok(()) if self.credit >= REQUEST_COST => {
                    self.credit -= REQUEST_COST;
                    self.phase = Phase::Tracking(tracker, RequestBackoff::default());
                    return;
                }
                Ok(()) => {
                    shared.counts.requests_skipped += 1;
                    scanner.interrupt();
                    return;
                }
                Err(Lost { search_from }) => {
                    scanner.interrupt();
                    let skipped = at + search_from;
                    start += skipped as u32;
                    bytes = &bytes[skipped..];
                }
            }
        }
    }

    /// Forgets what is so far behind that sequence numbers would soon come around to it.
    pub(super) fn drop_distant(&mut self, shared: &mut Shared<L::Message, P>) {
        if self.chained
            && self.tcpsn.before(self.newest)
            && self.tcpsn.distance_to(self.newest) > MAX_LAG
        {
            self.give_up_message(shared);
            self.chained = false;
        }
        self.open.expire(&mut shared.pool, self.newest, MAX_JUMP);
    }
}
