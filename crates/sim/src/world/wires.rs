//! The NICs and the wires between them: one from each host to each other one.

mod fate;
mod held;
mod pace;
mod queue;
mod wire;
mod worker;

use std::time::Instant;

use ::wire::packet::{Destination, Steering};
use nic::{FunctionId, Nic};
use port::Port;
use port::exchange::{Exchange, ExchangeConfig};
use port::impair::{Impair, Impairments};
use port::memory::End;

use super::config::WorldConfig;
use fate::decide;
pub use fate::{Fate, Fates};
use held::Held;
use queue::Queue;
use wire::{Wire, to_port};
use worker::Worker;

/// More bytes than any frame of a NIC's has.
const MOST_BYTES: usize = (1 << 16) + 64;

/// Frames that come to one of several workers before they come to the next.
const FRAMES_ON_QUEUE: u64 = 100;

/// All that is not a host.
pub(super) struct Wires {
    machines: Vec<Machine>,
    cycle_counter: fn() -> u64,
}

/// The NICs of one address, and their ends of the wires to all others.
struct Machine {
    workers: Vec<Worker>,
    /// By worker, how it passes frames on; empty where there is one.
    exchanges: Vec<Exchange>,
    /// By worker, what has come by its queue of the wires.
    queues: Vec<Queue>,
    /// Whose queue a frame comes by; `None` where that does not depend on the frame.
    steering: Option<Steering>,
    /// To all others: by worker where each has wires of its own, else those of all workers.
    wires: Vec<Vec<Wire>>,
    /// Frames that have come to one of several workers.
    came: u64,
    /// Where a frame lies that may go to more than one host.
    frame: Vec<u8>,
}

impl Wires {
    /// By node, its NIC.
    pub(super) fn new(nics: Vec<Nic>, config: &WorldConfig) -> Self {
        let count = config.nodes.len();
        let mut workers: Vec<Vec<Worker>> = std::iter::repeat_with(Vec::new).take(count).collect();
        for (node, nic) in nics.into_iter().enumerate() {
            let machine = node % count;
            workers[machine].push(Worker::new(nic, config.nodes[machine].nic_frame_time));
        }
        let mut wires: Vec<Vec<Vec<Wire>>> = std::iter::repeat_with(Vec::new).take(count).collect();
        for set in 0..if config.own_queues { config.workers } else { 1 } {
            for (at, wires) in wires.iter_mut().zip(set_of_wires(set, config)) {
                at.push(wires);
            }
        }
        let machines = workers.into_iter().zip(wires).enumerate();
        let machines = machines.map(|(at, (workers, wires))| Machine {
            exchanges: exchanges(at, config),
            queues: workers.iter().map(|_| Queue::default()).collect(),
            steering: config.own_queues.then(|| config.steering(at)),
            workers,
            wires,
            came: 0,
            frame: Vec::new(),
        });
        Self {
            machines: machines.collect(),
            cycle_counter: config.cycle_counter.unwrap_or(|| 0),
        }
    }

    /// Puts on the wires what all hosts have posted, then gives each what has come. Answers whether a frame moved.
    pub(super) fn run(&mut self, now: Instant, fates: &mut Option<Fates>) -> bool {
        let count = self.cycle_counter;
        let mut moved = false;
        for (at, machine) in self.machines.iter_mut().enumerate() {
            moved |= machine.transmit(now, at, fates, count);
        }
        for machine in &mut self.machines {
            moved |= match machine.exchanges.is_empty() {
                true => machine.receive(now, count),
                false => machine.receive_and_exchange(now, count),
            };
        }
        moved
    }

    pub(super) fn impair(&mut self, node: usize, impairments: Impairments) {
        for wire in self.machine(node).wires.iter_mut().flatten() {
            wire.port.set_impairments(impairments);
        }
    }

    pub(super) fn reset(&mut self, node: usize) {
        // Each NIC has one function, the first.
        let is_there = self.nic(node).reset_function(FunctionId(0));
        assert!(is_there, "the node's function");
    }

    pub(super) fn replace(&mut self, node: usize, nic: Nic) {
        *self.nic(node) = nic;
    }

    pub(super) fn inject(&mut self, now: Instant, node: usize, frame: &[u8]) {
        let wires = &mut self.machine(node).wires[0];
        let is_only = wires.len() == 1;
        for wire in wires {
            if is_only || wire.is_for_it(frame) {
                wire.held.admit(now, frame, port::Meta::default());
                wire.send_held(now);
            }
        }
    }

    pub(super) fn deliver(&mut self, now: Instant, node: usize, frame: &[u8]) {
        let nic = self.nic(node);
        nic.handle_frame(now, frame, nic::FrameMeta::default());
        nic.flush(now);
    }

    pub(super) fn nic(&mut self, node: usize) -> &mut Nic {
        let worker = node / self.machines.len();
        &mut self.machine(node).workers[worker].nic
    }

    pub(super) fn counters(&self, node: usize) -> nic::Counters {
        self.worker(node).nic.counters()
    }

    /// Frames that the impairments, or full rings between workers, have kept from the host they were for, or changed.
    pub(super) fn harmed(&self) -> u64 {
        let wires = self.machines.iter().flat_map(|machine| &machine.wires);
        let wires = wires.flatten();
        let counters = wires.map(|wire| wire.port.transmit_counters());
        let mut harmed = counters
            .map(|it| it.lost + it.queue_dropped + it.corrupted)
            .sum();
        for exchange in self.machines.iter().flat_map(|it| &it.exchanges) {
            exchange.counters(&mut |name, value| {
                harmed += if name == "rx_pass_dropped" { value } else { 0 };
            });
        }
        harmed
    }

    /// Cycles that a node's NIC has taken to transmit, and to receive.
    pub(super) fn cycles(&self, node: usize) -> (u64, u64) {
        let worker = self.worker(node);
        (worker.transmit_cycles, worker.receive_cycles)
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.machines.iter().filter_map(Machine::poll_timeout).min()
    }

    fn machine(&mut self, node: usize) -> &mut Machine {
        let count = self.machines.len();
        &mut self.machines[node % count]
    }

    fn worker(&self, node: usize) -> &Worker {
        let count = self.machines.len();
        &self.machines[node % count].workers[node / count]
    }
}

/// How the workers of a machine pass frames on to each other.
fn exchanges(machine: usize, config: &WorldConfig) -> Vec<Exchange> {
    if config.workers == 1 {
        return Vec::new();
    }
    let exchange = ExchangeConfig {
        max_frame: MOST_BYTES,
        capacity: config.wire_bytes.min(1 << 19),
        eventfd: false,
    };
    Exchange::between(config.steering(machine), exchange).expect("no descriptor is asked for")
}

/// By machine, a wire to each other one.
fn set_of_wires(set: u16, config: &WorldConfig) -> impl Iterator<Item = Vec<Wire>> {
    let count = config.nodes.len();
    let directions = count as u64 * (count as u64 - 1);
    let seed = config.seed.wrapping_mul(directions) ^ u64::from(set) << 48;
    let machines = ends(count, config).into_iter().enumerate();
    machines.map(move |(at, ends)| {
        let impairment = config.links.get(at).copied().unwrap_or_default();
        let impairments = Impairments::on_transmit(impairment);
        let wires = ends.into_iter().enumerate().map(|(nth, (to, end))| {
            let direction = (at * (count - 1) + nth) as u64;
            Wire {
                to,
                port: Impair::new(end, impairments, seed.wrapping_add(direction)),
                held: Held::default(),
            }
        });
        wires.collect()
    })
}

/// By machine, its end of a link to each other one.
fn ends(count: usize, config: &WorldConfig) -> Vec<Vec<(usize, End)>> {
    let link = port::memory::LinkConfig {
        capacity: config.wire_bytes,
        ..port::memory::LinkConfig::for_mtu(config.mtu)
    };
    let mut ends: Vec<Vec<_>> = std::iter::repeat_with(Vec::new).take(count).collect();
    for far in 1..count {
        for near in 0..far {
            let (one, other) = port::memory::link(link);
            ends[near].push((far, one));
            ends[far].push((near, other));
        }
    }
    ends
}

impl Machine {
    /// Puts on the wires what the hosts have posted. Answers whether a NIC had anything.
    fn transmit(
        &mut self,
        now: Instant,
        at: usize,
        fates: &mut Option<Fates>,
        count: fn() -> u64,
    ) -> bool {
        let mut moved = false;
        let sets = self.wires.len();
        for (nth, worker) in self.workers.iter_mut().enumerate() {
            let start = count();
            moved |= match &mut self.wires[nth % sets][..] {
                [wire] => wire.carry(now, at, worker, fates),
                wires => distribute(wires, &mut self.frame, now, at, worker, fates),
            };
            worker.transmit_cycles += count() - start;
        }
        moved
    }

    /// Gives the only worker what has come. Answers whether there was anything.
    fn receive(&mut self, now: Instant, count: fn() -> u64) -> bool {
        let (wires, worker) = (&mut self.wires[0], &mut self.workers[0]);
        let start = count();
        let mut moved = false;
        for wire in wires {
            while !worker.receive_pace.is_busy(now) {
                let take = &mut |frame: &[u8], meta| worker.take(now, frame, meta);
                let received = wire.port.receive(now, take);
                if received.expect("a link in memory does not fail") == 0 {
                    break;
                }
                moved = true;
            }
        }
        worker.nic.flush(now);
        worker.receive_cycles += count() - start;
        moved
    }

    /// The same for several: each takes what has come by its queue, and passes on what is another's.
    fn receive_and_exchange(&mut self, now: Instant, count: fn() -> u64) -> bool {
        let mut moved = self.fill_queues(now);
        for ((exchange, worker), queue) in self
            .exchanges
            .iter_mut()
            .zip(&mut self.workers)
            .zip(&mut self.queues)
        {
            let start = count();
            moved |= queue.give(|frame, meta| {
                exchange.sort(frame, meta, &mut |frame, meta| {
                    worker.take(now, frame, meta);
                });
                !worker.receive_pace.is_busy(now)
            });
            exchange.publish();
            worker.receive_cycles += count() - start;
        }
        for (exchange, worker) in self.exchanges.iter_mut().zip(&mut self.workers) {
            let start = count();
            while !worker.receive_pace.is_busy(now)
                && exchange.receive(&mut |frame, meta| worker.take(now, frame, meta)) > 0
            {
                moved = true;
            }
            worker.nic.flush(now);
            worker.receive_cycles += count() - start;
        }
        moved
    }

    /// Takes from the wires what has come, unless something is still in a queue. Answers whether there was anything.
    fn fill_queues(&mut self, now: Instant) -> bool {
        let Self {
            workers,
            queues,
            steering,
            wires,
            came,
            ..
        } = self;
        let mut moved = false;
        let is_free = |worker: &mut Worker| !worker.receive_pace.is_busy(now);
        if !queues.iter().all(Queue::is_empty) || !workers.iter_mut().all(is_free) {
            return false;
        }
        for wire in wires.iter_mut().flatten() {
            while wire
                .port
                .receive(now, &mut |frame, meta| {
                    let in_turns = (*came / FRAMES_ON_QUEUE) as usize % queues.len();
                    let own = steering.map(|it| it.destination(frame));
                    let queue = match own {
                        None => in_turns,
                        Some(Destination::Worker(worker)) => worker,
                        Some(Destination::All | Destination::Any) => 0,
                    };
                    *came += 1;
                    queues[queue].push(frame, meta);
                })
                .expect("a link in memory does not fail")
                > 0
            {
                moved = true;
            }
        }
        moved
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let wires = self.wires.iter().flatten();
        let due = wires.flat_map(|wire| [wire.port.poll_timeout(), wire.held.poll_timeout()]);
        let workers = self.workers.iter().filter_map(Worker::poll_timeout);
        due.flatten().chain(workers).min()
    }
}

/// Puts on the wires what a NIC has, where frames may be for any of several hosts, or for all. Answers whether it had anything.
fn distribute(
    wires: &mut [Wire],
    frame: &mut Vec<u8>,
    now: Instant,
    from: usize,
    worker: &mut Worker,
    fates: &mut Option<Fates>,
) -> bool {
    let mut moved = false;
    frame.resize(MOST_BYTES, 0);
    while !worker.transmit_pace.is_busy(now)
        && let Some((len, meta)) = worker.nic.poll_transmit(now, frame)
    {
        worker.transmit_pace.work(now);
        moved = true;
        let frame = &frame[..len];
        for wire in wires.iter_mut().filter(|wire| wire.is_for_it(frame)) {
            let mut frame = frame.to_vec();
            let fate = decide(fates, from, wire.to, &mut frame);
            if let Some(len) = fate.passes(len) {
                wire.held.admit(now, &frame[..len], to_port(meta));
            }
            if let Some(later) = fate.later() {
                wire.held.admit(now + later, &frame, to_port(meta));
            }
        }
    }
    for wire in wires {
        moved |= wire.send_held(now);
    }
    moved
}
