//! The NICs and the link between them.

use std::time::{Duration, Instant};

use nic::{FunctionId, Nic};
use port::Port;
use port::impair::{Impair, Impairment, Impairments};

/// Sees every frame that a NIC puts on the wire, before the link impairs it: the node that sends it, and its bytes, which
/// it may change, as somebody on the path could.
pub type Observer = Box<dyn FnMut(usize, &mut [u8])>;

type Link = Impair<port::memory::End>;

/// All that is not a host.
pub(super) struct Wires {
    nics: [Nic; 2],
    ports: [Link; 2],
    /// Of each node's NIC, for what it sends and what it receives.
    paces: [[Pace; 2]; 2],
    cycle_counter: fn() -> u64,
    transmit_cycles: [u64; 2],
    receive_cycles: [u64; 2],
}

impl Wires {
    pub(super) fn new(
        nics: [Nic; 2],
        ports: [Link; 2],
        paces: [Duration; 2],
        cycle_counter: fn() -> u64,
    ) -> Self {
        Self {
            nics,
            ports,
            paces: paces.map(|time| [Pace::new(time), Pace::new(time)]),
            cycle_counter,
            transmit_cycles: [0; 2],
            receive_cycles: [0; 2],
        }
    }

    /// Puts on the wire what both hosts have posted, then gives each what has come. Answers whether a frame moved.
    pub(super) fn run(&mut self, now: Instant, observer: &mut Option<Observer>) -> bool {
        let mut moved = false;
        for node in [0, 1] {
            let start = (self.cycle_counter)();
            moved |= self.transmit(now, node, observer);
            self.transmit_cycles[node] += (self.cycle_counter)() - start;
        }
        for node in [0, 1] {
            let start = (self.cycle_counter)();
            moved |= self.receive(now, node);
            self.nics[node].flush(now);
            self.receive_cycles[node] += (self.cycle_counter)() - start;
        }
        moved
    }

    fn transmit(&mut self, now: Instant, node: usize, observer: &mut Option<Observer>) -> bool {
        let (nic, pace) = (&mut self.nics[node], &mut self.paces[node][0]);
        let sent = self.ports[node].transmit(now, &mut |buffer| {
            if pace.is_busy(now) {
                return None;
            }
            let (len, meta) = nic.poll_transmit(now, buffer)?;
            pace.work(now);
            if let Some(observer) = observer {
                observer(node, &mut buffer[..len]);
            }
            Some((len, to_port(meta)))
        });
        sent.expect("a link in memory does not fail") > 0
    }

    fn receive(&mut self, now: Instant, node: usize) -> bool {
        let (nic, pace) = (&mut self.nics[node], &mut self.paces[node][1]);
        let mut moved = false;
        loop {
            if pace.is_busy(now) {
                return moved;
            }
            let received = self.ports[node].receive(now, &mut |frame, meta| {
                pace.work(now);
                nic.handle_frame(now, frame, from_port(meta))
            });
            if received.expect("a link in memory does not fail") == 0 {
                return moved;
            }
            moved = true;
        }
    }

    pub(super) fn impair(&mut self, node: usize, impairment: Impairment) {
        self.ports[node].set_impairments(Impairments::on_transmit(impairment));
    }

    pub(super) fn reset(&mut self, node: usize) {
        // Each NIC has one function, the first.
        let is_there = self.nics[node].reset_function(FunctionId(0));
        assert!(is_there, "the node's function");
    }

    pub(super) fn inject(&mut self, now: Instant, node: usize, frame: &[u8]) {
        let mut frame = Some(frame);
        let sent = self.ports[node].transmit(now, &mut |buffer| {
            let frame = frame.take()?;
            buffer[..frame.len()].copy_from_slice(frame);
            Some((frame.len(), port::Meta::default()))
        });
        sent.expect("a link in memory does not fail");
    }

    pub(super) fn counters(&self, node: usize) -> nic::Counters {
        self.nics[node].counters()
    }

    /// Cycles that a node's NIC has taken to transmit, and to receive.
    pub(super) fn cycles(&self, node: usize) -> (u64, u64) {
        (self.transmit_cycles[node], self.receive_cycles[node])
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        let nics = self.nics.iter().filter_map(Nic::poll_timeout);
        nics.chain(self.ports.iter().filter_map(Port::poll_timeout))
            .chain(self.paces.iter().flatten().filter_map(|pace| pace.free_at))
            .min()
    }
}

/// How fast one direction of a NIC is: one frame after the other, each for a time.
struct Pace {
    frame_time: Duration,
    /// When it has done with what it was last given, if it was asked before that.
    free_at: Option<Instant>,
    busy_until: Option<Instant>,
}

impl Pace {
    /// The clock moves in steps: a NIC that was idle before a step does in the next what it could have done since.
    const SLACK: Duration = Duration::from_micros(2);

    fn new(frame_time: Duration) -> Self {
        Self {
            frame_time,
            free_at: None,
            busy_until: None,
        }
    }

    fn is_busy(&mut self, now: Instant) -> bool {
        self.free_at = self.busy_until.filter(|until| *until > now);
        self.free_at.is_some()
    }

    fn work(&mut self, now: Instant) {
        if !self.frame_time.is_zero() {
            let from = self.busy_until.unwrap_or(now).max(now - Self::SLACK);
            self.busy_until = Some(from + self.frame_time);
        }
    }
}

fn from_port(meta: port::Meta) -> nic::FrameMeta {
    nic::FrameMeta {
        gso_size: meta.gso_size,
        needs_checksum: meta.needs_checksum,
        checksum_valid: meta.checksum_valid,
    }
}

fn to_port(meta: nic::FrameMeta) -> port::Meta {
    port::Meta {
        gso_size: meta.gso_size,
        needs_checksum: meta.needs_checksum,
        checksum_valid: meta.checksum_valid,
    }
}
