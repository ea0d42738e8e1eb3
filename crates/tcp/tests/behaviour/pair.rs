//! Two connections and a link between them in virtual time, moving real bytes.

mod side;
mod trace;

use std::time::{Duration, Instant};

use tcp::{CloseReason, Config, Connection, State, Transmit, reset_for};
use testkit::link::{Faults, Link as Wire};
use wire::SeqNum;

pub use crate::link::Link;
use crate::link::Packet;
use crate::next_segment;
use crate::payload::Stream;
pub use side::{App, Reader, Side};

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

    fn next_wakeup(&self) -> Option<Instant> {
        let sides = self.sides.iter().filter_map(Side::next_wakeup);
        sides.chain(self.wire.next()).min()
    }
}
