//! Two connections and a link between them in virtual time, moving real bytes.

use std::fmt::Write;
use std::time::{Duration, Instant};

use tcp::{
    Chunk, CloseReason, Config, Connection, Event, Reassembly, SendQueue, State, Transmit,
    reset_for,
};
use testkit::link::{Faults, Link as Wire};
use wire::tcp::{Flags, Header};
use wire::{Ecn, SeqNum};

pub use crate::link::Link;
use crate::link::Packet;
use crate::next_segment;
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
    fn new(now: Instant, connection: Connection, app: App, streams: [Stream; 2]) -> Self {
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

    fn is_over(&self) -> bool {
        matches!(self.state(), State::Closed | State::TimeWait)
    }

    fn is_done(&self) -> bool {
        self.is_over() && self.connection.unread() == 0
    }

    /// Writes, reads, closes. Returns whether it did anything.
    fn run_app(&mut self, now: Instant) -> bool {
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

    fn next_wakeup(&self) -> Option<Instant> {
        let paced = match self.app.reader {
            Reader::Paced { .. } if self.connection.unread() > 0 => Some(self.next_read),
            _ => None,
        };
        [self.connection.poll_timeout(), paced]
            .into_iter()
            .flatten()
            .min()
    }

    fn receive(&mut self, now: Instant, packet: &Packet) {
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
    fn segment(&mut self, transmit: &Transmit) -> Vec<Packet> {
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

/// Decides a packet's fate before the link does: `false` drops it.
pub type Filter = Box<dyn FnMut(usize, &Packet) -> bool>;

pub struct Pair {
    pub now: Instant,
    pub start: Instant,
    pub sides: [Side; 2],
    pub links: [Link; 2],
    isns: [u32; 2],
    busy_until: [Instant; 2],
    wire: Wire<(usize, Packet)>,
    pub filter: Option<Filter>,
    pub dropped: u64,
    /// Of each packet so far, if they are wanted.
    pub trace: Option<Vec<String>>,
}

/// What to make a pair of.
#[derive(Clone, Debug)]
pub struct Setup {
    pub configs: [Config; 2],
    pub apps: [App; 2],
    pub links: [Link; 2],
    pub isns: [u32; 2],
    pub seed: u64,
    /// Both open actively at once.
    pub simultaneous_open: bool,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            configs: [Config::default(), Config::default()],
            apps: [App::default(), App::default()],
            links: [Link::default(); 2],
            isns: [0x1000, 0xffff_f000],
            seed: 1,
            simultaneous_open: false,
        }
    }
}

impl Pair {
    /// Both sides send so many bytes over links with these faults, at 20 Mbit/s and 2 ms. The client may read at a pace, and the server close
    /// first.
    pub fn both_send(
        config: &Config,
        totals: (u64, u64),
        faults: Link,
        paced: bool,
        closes_first: bool,
        seed: u64,
    ) -> Self {
        let pace = Reader::Paced {
            bytes: 20_000,
            every: Duration::from_millis(5),
        };
        let client = App {
            total: totals.0,
            reader: if paced { pace } else { Reader::Eager },
            ..App::default()
        };
        let server = App {
            total: totals.1,
            closes_first,
            ..App::default()
        };
        let link = Link {
            rate: 20_000_000,
            delay: Duration::from_millis(2),
            ..faults
        };
        Self::new(Setup {
            configs: [config.clone(), config.clone()],
            apps: [client, server],
            links: [link; 2],
            seed,
            ..Setup::default()
        })
    }

    /// A client, and a server that is made of its SYN.
    pub fn new(setup: Setup) -> Self {
        let now = Instant::now();
        let stream = |side: usize| Stream::new([setup.seed, !setup.seed][side]);
        let [client_config, server_config] = &setup.configs;
        // Its SYN comes now.
        let connected = match setup.simultaneous_open {
            true => now,
            false => now - setup.links[0].delay,
        };
        let mut client =
            Connection::connect(connected, client_config, 40_000, 443, SeqNum(setup.isns[0]));
        let server = if setup.simultaneous_open {
            Connection::connect(now, server_config, 443, 40_000, SeqNum(setup.isns[1]))
        } else {
            let syn = client.poll_transmit(connected).expect("a SYN").header;
            Connection::accept(now, server_config, &syn, SeqNum(setup.isns[1]))
        };
        Self {
            now,
            start: now,
            sides: [
                Side::new(now, client, setup.apps[0], [0, 1].map(stream)),
                Side::new(now, server, setup.apps[1], [1, 0].map(stream)),
            ],
            links: setup.links,
            isns: setup.isns,
            busy_until: [now; 2],
            wire: Wire::new(Faults::none(Duration::ZERO), setup.seed),
            filter: None,
            dropped: 0,
            trace: None,
        }
    }

    /// Steps until nothing more would happen or `limit` of virtual time is over. Returns the time taken.
    pub fn run(&mut self, limit: Duration) -> Duration {
        self.run_until(limit, |_| false)
    }

    pub fn run_until(&mut self, limit: Duration, mut done: impl FnMut(&Pair) -> bool) -> Duration {
        let end = self.now + limit;
        loop {
            self.settle();
            if done(self) {
                break;
            }
            let Some(next) = self.next_wakeup() else {
                break;
            };
            if next > end {
                self.now = end;
                break;
            }
            self.now = self.now.max(next);
            self.deliver();
            for side in &mut self.sides {
                if side
                    .connection
                    .poll_timeout()
                    .is_some_and(|at| at <= self.now)
                {
                    side.connection.handle_timeout(self.now);
                    side.connection.assert_invariants();
                }
            }
        }
        self.now - self.start
    }

    /// Runs until both have ended or rest, and checks that everything arrived.
    pub fn run_to_end(&mut self, limit: Duration) -> Duration {
        let elapsed = self.run_until(limit, |pair| pair.sides.iter().all(Side::is_done));
        self.assert_complete();
        elapsed
    }

    pub fn assert_complete(&self) {
        for (index, side) in self.sides.iter().enumerate() {
            let info = side.connection.info(self.now);
            assert!(
                side.is_over(),
                "side {index} hangs: read {}, {info:#?}\npeer: {:#?}",
                side.read,
                self.sides[1 - index].connection.info(self.now)
            );
            assert_eq!(
                side.read,
                self.sides[1 - index].app.total,
                "side {index} got it all"
            );
            assert!(side.peer_fin, "side {index} saw the end");
            assert!(
                matches!(side.ended, None | Some(CloseReason::Graceful)),
                "{:?}",
                side.ended
            );
        }
    }

    /// Bits per second that side `to` has read so far.
    pub fn goodput(&self, to: usize) -> f64 {
        self.sides[to].read as f64 * 8.0 / (self.now - self.start).as_secs_f64()
    }

    fn settle(&mut self) {
        for from in 0..2 {
            loop {
                let mut progress = self.sides[from].run_app(self.now);
                while let Some(transmit) = next_segment(&mut self.sides[from].connection, self.now)
                {
                    progress = true;
                    self.sides[from].connection.assert_invariants();
                    self.transmit(from, &transmit);
                }
                if !progress {
                    break;
                }
            }
        }
    }

    fn transmit(&mut self, from: usize, transmit: &Transmit) {
        let side = &mut self.sides[from];
        assert!(transmit.mss > 0);
        side.resent_out += u64::from(transmit.retransmit);
        side.acks_out += u64::from(transmit.payload == 0);
        for packet in side.segment(transmit) {
            self.sides[from].packets_out += 1;
            let keep = self
                .filter
                .as_mut()
                .is_none_or(|filter| filter(from, &packet));
            let line = self.trace.is_some().then(|| self.trace_line(from, &packet));
            let dropped = self.dropped;
            if keep {
                self.send_packet(from, packet);
            } else {
                self.dropped += 1;
            }
            if let (Some(trace), Some(line)) = (&mut self.trace, line) {
                let lost = if self.dropped > dropped { " lost" } else { "" };
                trace.push(format!("{line}{lost}"));
            }
        }
    }

    fn send_packet(&mut self, from: usize, packet: Packet) {
        let link = self.links[from];
        let bytes = u64::from(packet.len()) + 78;
        let queued = self.busy_until[from].saturating_duration_since(self.now);
        let backlog = (queued.as_secs_f64() * link.rate as f64 / 8.0) as u64;
        if backlog + bytes > link.queue {
            self.dropped += 1;
            return;
        }
        let begins = self.busy_until[from].max(self.now);
        let on_wire = Duration::from_nanos(bytes * 8 * 1_000_000_000 / link.rate);
        self.busy_until[from] = begins + on_wire;
        if link.loss > 0.0 && self.wire.happens(link.loss) {
            self.dropped += 1;
            return;
        }
        let mut at = begins + on_wire + link.delay;
        if link.duplicate > 0.0 && self.wire.happens(link.duplicate) {
            let late = link.jitter.mul_f64(self.wire.fraction());
            self.wire.send_for(at + late, (1 - from, packet.clone()));
        }
        if link.reorder > 0.0 && self.wire.happens(link.reorder) {
            at += link.jitter.mul_f64(self.wire.fraction());
        }
        if !link.coalesce.is_zero() {
            let step = link.coalesce.as_nanos();
            let late = step - (at - self.start).as_nanos() % step;
            at += Duration::from_nanos(late as u64);
        }
        self.wire.send_for(at, (1 - from, packet));
    }

    fn deliver(&mut self) {
        let mut pending: [Option<Packet>; 2] = [None, None];
        while let Some((to, packet)) = self.wire.arrived(self.now) {
            if let Some(held) = &mut pending[to] {
                if !self.links[1 - to].coalesce.is_zero() && held.join(&packet) {
                    continue;
                }
                let held = pending[to].take().expect("is some");
                self.receive(to, &held);
            }
            pending[to] = Some(packet);
        }
        for (to, packet) in pending.into_iter().enumerate() {
            if let Some(packet) = packet {
                self.receive(to, &packet);
            }
        }
    }

    fn receive(&mut self, to: usize, packet: &Packet) {
        if self.sides[to].state() != State::Closed {
            self.sides[to].receive(self.now, packet);
        } else if let Some(header) = reset_for(&packet.header, packet.len()) {
            // As a host does once it has forgotten the connection.
            self.send_packet(
                to,
                Packet {
                    header,
                    payload: Vec::new(),
                    segments: 1,
                },
            );
        }
    }

    /// A packet as tcpdump has it, and how its sender sees the path.
    fn trace_line(&self, from: usize, packet: &Packet) -> String {
        let Header {
            seq, ack, flags, ..
        } = packet.header;
        let (header, options) = (&packet.header, &packet.header.options);
        let isns = self.isns.map(SeqNum);
        let (isn, other) = (isns[from], isns[1 - from]);
        let at = (self.now - self.start).as_nanos() as f64 / 1e9;
        let mut line = format!(
            "{at:.6} {} {flags:?} {}:{}",
            ["client", "server"][from],
            isn.distance_to(seq),
            isn.distance_to(seq + packet.len())
        );
        if flags.contains(Flags::ACK) {
            write!(line, " ack {}", other.distance_to(ack)).unwrap();
        }
        write!(line, " win {}", header.window).unwrap();
        if header.ecn != Ecn::NotEct {
            write!(line, " {:?}", header.ecn).unwrap();
        }
        if let Some(mss) = options.mss {
            write!(
                line,
                " mss {mss} scale {:?} sack {}",
                options.window_scale, options.sack_permitted
            )
            .unwrap();
        }
        if let Some(timestamps) = options.timestamps {
            write!(line, " ts {} {}", timestamps.val, timestamps.echo).unwrap();
        }
        for (left, right) in options.sack.as_slice() {
            write!(
                line,
                " sack {}:{}",
                other.distance_to(*left),
                other.distance_to(*right)
            )
            .unwrap();
        }
        let info = self.sides[from].connection.info(self.now);
        write!(line, " | {:?} cwnd {}", info.state, info.cwnd).unwrap();
        if let Some(threshold) = info.ssthresh {
            write!(line, " ssthresh {threshold}").unwrap();
        }
        write!(
            line,
            " flight {} rto {:?} {}",
            info.in_flight, info.rto, info.recovery
        )
        .unwrap();
        line
    }

    fn next_wakeup(&self) -> Option<Instant> {
        let sides = self.sides.iter().filter_map(Side::next_wakeup);
        sides.chain(self.wire.next()).min()
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
