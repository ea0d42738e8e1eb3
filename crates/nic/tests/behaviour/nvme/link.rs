//! The two hosts and what is between them.

use std::collections::VecDeque;
use std::time::Instant;

use nic::{FrameMeta, WireCapabilities};

use super::receiver::Receiver;
use super::sender::Sender;
use super::stream::Stream;

/// What the sender does.
#[derive(Debug, Clone, Copy)]
pub enum Action {
    /// Sends so many new bytes.
    New { bytes: u32, mss: u16 },
    /// Sends so many of the first bytes that have not come.
    Missing { bytes: u32, mss: u16 },
    /// Sends bytes again, whether they have come or not.
    Again { from: u32, bytes: u32, mss: u16 },
}

/// What becomes of a frame.
#[derive(Debug, Clone, Copy)]
pub enum Fate {
    Pass,
    Lose,
    Twice,
    /// So many frames overtake it.
    Late(u8),
    /// A byte of data or of a data digest is changed.
    Damage(u16),
}

/// A frame, the byte of the stream that was changed in it, and how many frames are still to overtake it.
type InFlight = (Vec<u8>, FrameMeta, Option<u32>, u8);

pub struct Link {
    pub stream: Stream,
    pub sender: Sender,
    pub receiver: Receiver,
    late: VecDeque<InFlight>,
    /// Bytes that were changed in some frame.
    damaged: Vec<bool>,
    /// The batch whose buffers are mapped.
    batch: usize,
    frames: usize,
}

impl Link {
    pub fn new(stream: Stream, mutable: bool, wire: WireCapabilities, now: Instant) -> Link {
        let sender = Sender::new(&stream, mutable, wire, now);
        let mut receiver = Receiver::new(&stream, now);
        receiver.map(&stream, 0..stream.batches[0].0);
        Link {
            damaged: vec![false; stream.wire.len()],
            sender,
            receiver,
            late: VecDeque::new(),
            batch: 0,
            frames: 0,
            stream,
        }
    }

    /// Does all that; then sends until everything has come.
    pub fn run(&mut self, actions: &[Action], fates: &[Fate]) {
        for action in actions {
            self.act(*action, fates);
        }
        while self.receiver.next < self.stream.len() {
            let bytes = 60_000;
            self.act(Action::Missing { bytes, mss: 1448 }, &[Fate::Pass]);
            self.act(Action::New { bytes, mss: 1448 }, &[Fate::Pass]);
        }
        self.receiver.check_guards();
        self.check_digests();
    }

    fn act(&mut self, action: Action, fates: &[Fate]) {
        let sent = self.sender.sent;
        let (range, mss) = match action {
            Action::New { bytes, mss } => {
                // Data that was not asked for is not sent.
                let end = self
                    .stream
                    .batches
                    .get(self.batch)
                    .map_or(sent, |batch| batch.1);
                (sent..end.min(sent + bytes), mss)
            }
            Action::Missing { bytes, mss } => {
                let from = self.receiver.next;
                let arrived = &self.receiver.arrived[from as usize..sent as usize];
                let missing = arrived.iter().take_while(|arrival| arrival.is_none());
                let missing = missing.take(bytes as usize).count() as u32;
                (from..from + missing, mss)
            }
            Action::Again { from, bytes, mss } => {
                let from = from.checked_rem(sent).unwrap_or(0);
                (from..sent.min(from + bytes), mss)
            }
        };
        self.send(range, mss, fates);
        self.next_batch();
    }

    fn send(&mut self, range: std::ops::Range<u32>, mss: u16, fates: &[Fate]) {
        let frames = self.sender.send(&self.stream, range, mss);
        for (n, (frame, meta)) in frames.into_iter().enumerate() {
            let parsed = wire::packet::parse(&frame).unwrap();
            let at = self.stream.start.distance_to(parsed.tcp.seq);
            let payload = parsed.payload(&frame);
            let expected = &self.stream.wire[at as usize..at as usize + payload.len()];
            assert!(payload == expected, "what software would send at {at}");
            self.carry(frame, meta, fates);
            if n % 17 == 16 {
                self.receiver.flush(&self.stream, &self.damaged);
            }
        }
        self.receiver.flush(&self.stream, &self.damaged);
        if fates.len() == 1 {
            for (frame, meta, ..) in std::mem::take(&mut self.late) {
                self.receiver.handle(&frame, meta);
                self.receiver.flush(&self.stream, &self.damaged);
            }
        }
    }

    fn carry(&mut self, mut frame: Vec<u8>, meta: FrameMeta, fates: &[Fate]) {
        let fate = fates[self.frames % fates.len()];
        self.frames += 1;
        let mut passed = true;
        let mut meta = meta;
        match fate {
            Fate::Pass | Fate::Twice => {}
            Fate::Lose => passed = false,
            Fate::Late(behind) => {
                passed = false;
                self.late.push_back((frame.clone(), meta, None, behind));
            }
            Fate::Damage(at) => {
                if let Some(at) = self.damage(&mut frame, at) {
                    self.damaged[at as usize] = true;
                    (meta.needs_checksum, meta.checksum_valid) = (None, true);
                }
            }
        }
        if passed {
            self.receiver.handle(&frame, meta);
            if let Fate::Twice = fate {
                self.receiver.handle(&frame, meta);
            }
        }
        for waiting in &mut self.late {
            waiting.3 = waiting.3.saturating_sub(1);
        }
        while self.late.front().is_some_and(|waiting| waiting.3 == 0) {
            let (frame, meta, ..) = self.late.pop_front().expect("a frame that waits");
            self.receiver.handle(&frame, meta);
        }
    }

    /// Changes a byte of data or of a data digest, if the frame has one there.
    fn damage(&self, frame: &mut [u8], at: u16) -> Option<u32> {
        let parsed = wire::packet::parse(frame).unwrap();
        let start = self.stream.start.distance_to(parsed.tcp.seq);
        let len = parsed.payload(frame).len();
        let n = usize::from(at) % len.max(1);
        let at = start + n as u32;
        let in_data = self.stream.data(at..at + 1).next().is_some();
        let is_data = in_data || self.stream.has_digest(at..at + 1);
        if !is_data || len == 0 {
            return None;
        }
        let end = frame.len();
        frame[end - len + n] ^= 0x10;
        Some(at)
    }

    /// When all data of a batch have come, the next one's are asked for.
    fn next_batch(&mut self) {
        let Some(&(ios, end)) = self.stream.batches.get(self.batch) else {
            return;
        };
        if self.receiver.next < end {
            return;
        }
        let first = match self.batch {
            0 => 0,
            batch => self.stream.batches[batch - 1].0,
        };
        self.receiver.unmap(&self.stream, first..ios, &self.damaged);
        self.batch += 1;
        if let Some((next, _)) = self.stream.batches.get(self.batch) {
            self.receiver.map(&self.stream, ios..*next);
        }
    }

    /// A PDU all of whose bytes were vouched for is as it was sent.
    fn check_digests(&self) {
        if self.stream.crypto.is_some() {
            return;
        }
        for (pdu, digest) in self.stream.pdus.iter().zip(&self.stream.digests) {
            let bytes = pdu.start as usize..pdu.end as usize;
            let vouched = self.receiver.arrived[bytes.clone()]
                .iter()
                .all(|arrival| arrival.is_some_and(|arrival| arrival.digest_ok));
            let damaged = self.receiver.damaged[bytes].contains(&true);
            assert!(!vouched || !damaged || digest.is_empty(), "PDU at {pdu:?}");
        }
    }
}
