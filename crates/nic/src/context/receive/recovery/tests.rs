//! The cases of Autonomous NIC offloads, Figure 8, and properties over arbitrary arrivals.

mod counting;
mod figure8;
mod hostile;
mod pdus;
mod placed_shares;
mod properties;
mod shares;

use std::ops::{Deref, DerefMut};

use wire::SeqNum;

use super::*;
use crate::context::receive::toy::{self, Toy};

const KEY: u64 = 0x5eed;

/// A context with all that it shares.
struct Context {
    recovery: Recovery<Toy>,
    shared: Shared<u64>,
}

impl Context {
    fn new(engine: Toy, tcpsn: SeqNum, order: ArrivalOrder) -> Self {
        Self {
            recovery: Recovery::new(engine, (), tcpsn, 0),
            shared: Shared::new(order, 1),
        }
    }

    fn receive(&mut self, seq: SeqNum, payload: &[u8], output: &mut [u8]) -> Verdict {
        self.recovery
            .receive(&mut self.shared, seq, payload, Some(output.into()))
    }

    fn answer(&mut self, tcpsn: SeqNum, confirmed: bool, index: u64) -> Answer {
        self.recovery
            .answer(&mut self.shared, tcpsn, confirmed, index)
    }
}

impl Deref for Context {
    type Target = Recovery<Toy>;

    fn deref(&self) -> &Recovery<Toy> {
        &self.recovery
    }
}

impl DerefMut for Context {
    fn deref_mut(&mut self) -> &mut Recovery<Toy> {
        &mut self.recovery
    }
}

/// A stream of messages as it is on the wire, and as offloaded packets show it.
struct Stream {
    first: SeqNum,
    wire: Vec<u8>,
    opened: Vec<u8>,
    /// Offsets of the messages, and of the end.
    starts: Vec<usize>,
}

impl Stream {
    fn new(first: SeqNum, messages: &[Vec<u8>]) -> Self {
        let mut stream = Self {
            first,
            wire: Vec::new(),
            opened: Vec::new(),
            starts: vec![0],
        };
        for (index, plaintext) in messages.iter().enumerate() {
            let sealed = toy::seal(KEY, index as u64, plaintext);
            stream
                .opened
                .extend_from_slice(&toy::opened(plaintext, &sealed));
            stream.wire.extend_from_slice(&sealed);
            stream.starts.push(stream.wire.len());
        }
        stream
    }

    fn seq(&self, at: usize) -> SeqNum {
        self.first + at as u32
    }

    /// Index of the message that begins at `tcpsn`, if one does.
    fn index_at(&self, tcpsn: SeqNum) -> Option<u64> {
        let at = self.first.distance_to(tcpsn) as usize;
        self.starts
            .binary_search(&at)
            .ok()
            .map(|index| index as u64)
    }

    fn context(&self, order: ArrivalOrder) -> Context {
        Context::new(Toy::new(KEY, true), self.first, order)
    }

    /// One that may count missing messages.
    fn counting_context(&self, order: ArrivalOrder) -> Context {
        let engine = Toy::new(KEY, true).that_tells_numbers();
        Context::new(engine, self.first, order)
    }

    /// Gives a packet to the context and checks what an offloaded one must hold.
    fn receive(&self, context: &mut Context, from: usize, to: usize) -> Verdict {
        let mut output = vec![0xee; to - from];
        let verdict = context.receive(self.seq(from), &self.wire[from..to], &mut output);
        if verdict == Verdict::Offloaded {
            assert_eq!(output, self.opened[from..to], "packet {from}..{to}");
        }
        verdict
    }

    /// Answers the request that is due, truthfully.
    fn answer(&self, context: &mut Context) -> Option<Answer> {
        let guess = context.due_request(0)?;
        context.request_sent(0);
        let index = self.index_at(guess);
        Some(context.answer(guess, index.is_some(), index.unwrap_or(0)))
    }
}
