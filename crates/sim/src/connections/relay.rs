//! An application that relays between two connections, and splices them when it can.

use std::time::Instant;

use host::{CloseReason, SocketId, SpliceEnd, SpliceHandle, SpliceOptions, SpliceReport, Stack};

use super::Relayed;

/// Bytes that are read and not yet written, each way, at most.
const ROOM: usize = 16 << 10;

pub(super) struct Relay {
    plan: Relayed,
    /// The node that has both legs.
    pub(super) node: usize,
    /// The client's connection, and that to the server.
    pub(super) legs: [SocketId; 2],
    pub(super) is_connected: bool,
    /// By the leg that they were read from.
    pending: [Vec<u8>; 2],
    eof: [bool; 2],
    shut: [bool; 2],
    /// Bytes read, by the leg.
    relayed: [u64; 2],
    /// Bytes that splices told of.
    pub(super) spliced: Option<[u64; 2]>,
    state: State,
    is_done: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// It relays, and splices later.
    Relaying,
    /// It relays, and that's that.
    Settled,
    Asked(SpliceHandle),
    Spliced(SpliceHandle, Option<Instant>),
}

impl Relay {
    pub(super) fn new(plan: Relayed, node: usize, legs: [SocketId; 2]) -> Self {
        Self {
            plan,
            node,
            legs,
            is_connected: false,
            pending: Default::default(),
            eof: [false; 2],
            shut: [false; 2],
            relayed: [0; 2],
            spliced: None,
            state: State::Relaying,
            is_done: false,
        }
    }

    pub(super) fn is_done(&self) -> bool {
        self.is_done
    }

    pub(super) fn relayed(&self) -> [u64; 2] {
        self.relayed
    }

    pub(super) fn splice(&self) -> Option<SpliceHandle> {
        match self.state {
            State::Asked(handle) | State::Spliced(handle, _) => Some(handle),
            State::Relaying | State::Settled => None,
        }
    }

    /// When it takes the splice back.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        match self.state {
            State::Spliced(_, at) => at.filter(|_| !self.is_done),
            _ => None,
        }
    }

    pub(super) fn position(&self) -> String {
        format!(
            "relay: {:?}, {:?} relayed, {:?} spliced, ends {:?} {:?}",
            self.state, self.relayed, self.spliced, self.eof, self.shut
        )
    }

    pub(super) fn handle_spliced(&mut self, now: Instant) {
        if let State::Asked(handle) = self.state {
            let back = self.plan.take_back.map(|after| now + after);
            self.state = State::Spliced(handle, back);
        }
    }

    pub(super) fn handle_refused(&mut self) {
        self.state = State::Settled;
    }

    pub(super) fn handle_ended(&mut self, now: Instant, stack: &mut Stack, report: &SpliceReport) {
        let sum = self.spliced.get_or_insert([0; 2]);
        for (sum, bytes) in sum.iter_mut().zip(report.bytes) {
            *sum += bytes;
        }
        match report.reason {
            SpliceEnd::Finished
            | SpliceEnd::Reset { .. }
            | SpliceEnd::TimedOut
            | SpliceEnd::NicReset => self.end(now, stack),
            SpliceEnd::Idle | SpliceEnd::TakenBack => {
                let again = std::mem::replace(&mut self.plan.again, false);
                self.state = if again {
                    State::Relaying
                } else {
                    State::Settled
                };
            }
        }
    }

    /// A leg is over.
    pub(super) fn handle_closed(
        &mut self,
        now: Instant,
        stack: &mut Stack,
        leg: usize,
        why: &CloseReason,
    ) {
        if self.is_done {
            return;
        }
        if *why == CloseReason::Graceful {
            self.poll(now, stack);
            return;
        }
        // What came before it is passed on, as far as there is room for it.
        if self.is_connected {
            self.relay(now, stack);
        }
        let _ = stack.abort(now, self.legs[1 - leg]);
        let _ = stack.close(now, self.legs[leg]);
        self.is_done = true;
    }

    pub(super) fn poll(&mut self, now: Instant, stack: &mut Stack) -> bool {
        if self.is_done || !self.is_connected {
            return false;
        }
        match self.state {
            State::Asked(_) | State::Spliced(_, None) => return false,
            State::Spliced(_, Some(at)) if now < at => return false,
            State::Spliced(handle, Some(_)) => {
                let _ = stack.unsplice(now, handle);
                self.state = State::Spliced(handle, None);
                return true;
            }
            State::Relaying | State::Settled => {}
        }
        let moved = self.relay(now, stack);
        if self.eof == [true; 2] && self.shut == [true; 2] {
            self.end(now, stack);
            return true;
        }
        self.try_to_splice(now, stack) || moved
    }

    fn try_to_splice(&mut self, now: Instant, stack: &mut Stack) -> bool {
        let is_drained = self.pending.iter().all(Vec::is_empty) && self.eof == [false; 2];
        let relayed: u64 = self.relayed.iter().sum();
        if self.state != State::Relaying || !is_drained || relayed < self.plan.after.into() {
            return false;
        }
        let options = SpliceOptions {
            idle: self.plan.idle,
        };
        let [front, back] = self.legs;
        self.state = match stack.splice(now, front, back, options) {
            Ok(handle) => State::Asked(handle),
            Err(_) => State::Settled,
        };
        true
    }

    fn relay(&mut self, now: Instant, stack: &mut Stack) -> bool {
        let mut moved = false;
        for from in 0..2 {
            let to = 1 - from;
            while self.pending[from].len() < ROOM && !self.eof[from] {
                let mut buffer = [0; 4096];
                match stack.read(now, self.legs[from], &mut buffer) {
                    Ok(0) => self.eof[from] = true,
                    Ok(len) => {
                        self.relayed[from] += len as u64;
                        self.pending[from].extend_from_slice(&buffer[..len]);
                    }
                    Err(_) => break,
                }
                moved = true;
            }
            while !self.pending[from].is_empty() {
                let Ok(written) = stack.write(now, self.legs[to], &self.pending[from]) else {
                    break;
                };
                self.pending[from].drain(..written);
                moved = true;
            }
            if self.eof[from] && self.pending[from].is_empty() && !self.shut[to] {
                let _ = stack.shutdown(now, self.legs[to]);
                self.shut[to] = true;
                moved = true;
            }
        }
        moved
    }

    /// Resets both connections, if they are under way.
    pub(super) fn give_up(&mut self, now: Instant, stack: &mut Stack) -> bool {
        for leg in self.legs {
            let _ = stack.abort(now, leg);
        }
        !std::mem::replace(&mut self.is_done, true)
    }

    fn end(&mut self, now: Instant, stack: &mut Stack) {
        for leg in self.legs {
            let _ = stack.close(now, leg);
        }
        self.is_done = true;
    }
}
