//! One side of a pair: a connection, and the application on it.

use std::time::{Duration, Instant};

use tcp::{Chunk, CloseReason, Connection, Event, Reassembly, SendQueue, State, Transmit};
use wire::Ecn;
use wire::tcp::{Flags, Header};

use crate::link::Packet;
use crate::payload::{Slice, Stream};

/// How an application reads.
#[derive(Clone, Copy, Debug)]
pub enum Reader {
    /// Everything at once.
    Eager,
    /// So many bytes each time the interval is over.
    Paced { bytes: u32, every: Duration },
}

/// What one side's application does.
#[derive(Clone, Copy, Debug)]
pub struct App {
    /// Bytes to send before closing.
    pub total: u64,
    /// The most bytes written at once.
    pub write: u32,
    pub reader: Reader,
    /// Close when all is written; otherwise when the peer has closed too.
    pub closes_first: bool,
}

impl App {
    /// Sends so many bytes, and closes.
    pub fn sends(total: u64) -> App {
        App {
            total,
            ..App::default()
        }
    }
}

impl Default for App {
    fn default() -> Self {
        Self {
            total: 0,
            write: 1 << 18,
            reader: Reader::Eager,
            closes_first: true,
        }
    }
}

pub struct Side {
    pub connection: Connection,
    pub app: App,
    send: SendQueue<Slice>,
    reassembly: Reassembly<Slice>,
    outgoing: Stream,
    incoming: Stream,
    pub written: u64,
    pub read: u64,
    next_read: Instant,
    closed: bool,
    pub peer_fin: bool,
    pub connected: bool,
    pub ended: Option<CloseReason>,
    /// Segments given to the wire, for tests that look at them.
    pub packets_out: u64,
    pub acks_out: u64,
    pub resent_out: u64,
}

impl Side {
    /// `streams` are what it sends, and what it is to receive.
    pub(super) fn new(
        now: Instant,
        connection: Connection,
        app: App,
        streams: [Stream; 2],
    ) -> Self {
        let [outgoing, incoming] = streams;
        let send = SendQueue::new(connection.write_seq());
        Self {
            connection,
            app,
            send,
            reassembly: Reassembly::new(),
            outgoing,
            incoming,
            written: 0,
            read: 0,
            next_read: now,
            closed: false,
            peer_fin: false,
            connected: false,
            ended: None,
            packets_out: 0,
            acks_out: 0,
            resent_out: 0,
        }
    }

    pub fn state(&self) -> State {
        self.connection.state()
    }

    pub(super) fn is_over(&self) -> bool {
        matches!(self.state(), State::Closed | State::TimeWait)
    }

    pub(super) fn is_done(&self) -> bool {
        self.is_over() && self.connection.unread() == 0
    }

    /// Writes, reads, closes. Returns whether it did anything.
    pub(super) fn run_app(&mut self, now: Instant) -> bool {
        let mut progress = false;
        while let Some(event) = self.connection.poll_event() {
            progress = true;
            match event {
                Event::Connected => self.connected = true,
                Event::Acked(una) => self.send.release(una).for_each(drop),
                Event::PeerFin => self.peer_fin = true,
                Event::TimeWait | Event::Counted(_) => {}
                Event::Closed(reason) => self.ended = Some(reason),
            }
        }
        while self.written < self.app.total && self.connection.state().may_send() {
            let want = (self.app.total - self.written).min(u64::from(self.app.write)) as u32;
            let room = self.connection.send_space().min(want);
            if room == 0 {
                break;
            }
            let piece = self.outgoing.take(room);
            let len = piece.len();
            assert_eq!(self.send.end(), self.connection.write_seq());
            assert_eq!(self.connection.queue(now, len), len);
            self.send.push(piece);
            self.written += u64::from(len);
            progress = true;
        }
        let may_close = self.written == self.app.total
            && self.connected
            && (self.app.closes_first || self.peer_fin);
        if may_close && !self.closed {
            self.connection.close(now);
            self.closed = true;
            progress = true;
        }
        progress | self.run_reader(now)
    }

    fn run_reader(&mut self, now: Instant) -> bool {
        let mut budget = match self.app.reader {
            Reader::Eager => u32::MAX,
            Reader::Paced { bytes, every } => {
                if now < self.next_read || self.connection.unread() == 0 {
                    return false;
                }
                self.next_read = now + every;
                bytes
            }
        };
        let mut taken = 0;
        // What is in order and not read yet begins where reading stopped.
        let edge = self.connection.rcv_nxt() - u32::from(self.peer_fin);
        let limit = (edge - self.connection.unread()) + self.connection.unread().min(budget);
        while budget > 0 {
            let Some((_, chunk)) = self.reassembly.pop_in_order(limit) else {
                break;
            };
            self.incoming.expect(chunk.bytes());
            taken += chunk.len();
            budget = budget.saturating_sub(chunk.len());
        }
        self.read += u64::from(taken);
        if taken > 0 {
            self.connection.consumed(now, taken);
        }
        taken > 0
    }

    pub(super) fn next_wakeup(&self) -> Option<Instant> {
        let paced = match self.app.reader {
            Reader::Paced { .. } if self.connection.unread() > 0 => Some(self.next_read),
            _ => None,
        };
        [self.connection.poll_timeout(), paced]
            .into_iter()
            .flatten()
            .min()
    }

    pub(super) fn receive(&mut self, now: Instant, packet: &Packet) {
        let header = through_the_wire(&packet.header);
        let received = self
            .connection
            .handle_segment(now, &header, packet.len(), packet.segments);
        self.connection.assert_invariants();
        if let Some(accepted) = received.data {
            assert!(accepted.skip + accepted.len <= packet.len());
            assert_eq!(header.seq + accepted.skip, accepted.seq);
            let mut skip = accepted.skip;
            let mut left = accepted.len;
            let mut seq = accepted.seq;
            for piece in &packet.payload {
                let offset = skip.min(piece.len());
                let len = (piece.len() - offset).min(left);
                skip -= offset;
                if len > 0 {
                    self.reassembly.insert(seq, piece.part(offset, len));
                    seq += len;
                    left -= len;
                }
            }
        }
    }

    /// Cuts a Transmit into packets, as a NIC does.
    pub(super) fn segment(&mut self, transmit: &Transmit) -> Vec<Packet> {
        let mss = u32::from(transmit.mss);
        let mut packets = Vec::new();
        let mut offset = 0;
        loop {
            let len = (transmit.payload - offset).min(mss);
            let last = offset + len == transmit.payload;
            let mut header = transmit.header;
            header.seq += offset;
            if offset > 0 {
                header.flags.remove(Flags::CWR);
            }
            let may_be_marked = header.ecn != Ecn::NotEct;
            assert!(!may_be_marked || len > 0 && !transmit.retransmit);
            if may_be_marked && header.seq.0.is_multiple_of(7) {
                header.ecn = Ecn::Ce;
            }
            if !last {
                header.flags.remove(Flags::FIN | Flags::PSH);
            }
            let mut payload = Vec::new();
            if len > 0 {
                let held = self.send.slices(header.seq, len, |chunk, at, n| {
                    payload.push(chunk.part(at, n))
                });
                assert_eq!(held, len, "what is sent is held");
            }
            packets.push(Packet {
                header,
                payload,
                segments: 1,
            });
            offset += len;
            if last {
                return packets;
            }
        }
    }
}

/// Headers go over the wire as bytes.
fn through_the_wire(header: &Header) -> Header {
    let mut buffer = [0; 60];
    let len = header.emit(&mut buffer);
    let (parsed, parsed_len) = Header::parse(&buffer[..len]).expect("what we send parses");
    assert_eq!(len, parsed_len);
    let parsed = Header {
        ecn: header.ecn,
        ..parsed
    };
    assert_eq!(parsed, *header, "all options fit");
    parsed
}
