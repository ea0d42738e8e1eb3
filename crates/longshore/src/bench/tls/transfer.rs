//! One round: every connection sends its share, and everything is counted meanwhile.

use std::collections::VecDeque;

use host::{Event, SocketError, SocketId, Stack, read_cycles};
use nic::ring::RegionId;

use super::row::resyncs;
use super::source::Source;
use super::world::{BenchWorld, Pair, RECEIVER, SENDER};
use super::{Mode, Records, Resyncs};
use crate::bench::cycle_sum::CycleSum;
use crate::bench::cycles::Taken;
use crate::bench::pcie::{PcieBytes, pcie};

/// Connections that send at the same time at most; each of the others has its turn as one of them ends.
const ACTIVE: usize = 64;
/// Bytes that the sending application writes before it lets the stack run.
const WRITTEN_AT_ONCE: usize = 512 << 10;

/// What a round came to.
#[derive(Clone, Debug)]
pub struct Round {
    /// Payload that went over.
    pub bytes: u64,
    /// The sender's cycles and the receiver's.
    pub taken: [Taken; 2],
    /// What the two NICs moved over PCIe.
    pub pcie: [PcieBytes; 2],
    /// What the receiver's NIC asked.
    pub resyncs: Resyncs,
    /// Records as the receiver found them.
    pub records: Records,
    /// Payload bytes that the sender sent again.
    pub retransmitted: u64,
    /// Whether every byte was the right one.
    pub verified: bool,
}

/// The connections of one kind, plain or with TLS, and how far each is.
pub struct Connections {
    pairs: Vec<Pair>,
    ends: Vec<Progress>,
    /// From a socket's index to its connection, on each host.
    numbers: [Vec<u32>; 2],
}

#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    sent: u64,
    received: u64,
}

impl Connections {
    /// Connections at rest.
    pub fn new(pairs: Vec<Pair>) -> Self {
        let index = |end: fn(&Pair) -> SocketId| {
            let mut numbers = Vec::new();
            for (number, pair) in pairs.iter().enumerate() {
                let at = end(pair).index();
                if numbers.len() <= at {
                    numbers.resize(at + 1, u32::MAX);
                }
                numbers[at] = number as u32;
            }
            numbers
        };
        Self {
            numbers: [index(|pair| pair.sender), index(|pair| pair.receiver)],
            ends: vec![Progress::default(); pairs.len()],
            pairs,
        }
    }

    /// Both ends of each.
    pub fn pairs(&self) -> &[Pair] {
        &self.pairs
    }

    fn number(&self, node: usize, socket: SocketId) -> Option<u32> {
        self.numbers[node]
            .get(socket.index())
            .copied()
            .filter(|&number| number != u32::MAX)
    }
}

/// Settings of a round.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// How the bytes go.
    pub mode: Mode,
    /// Bytes that each connection sends.
    pub share: u64,
    /// Bytes of a write.
    pub message: usize,
    /// The source's memory, registered with the sender.
    pub region: RegionId,
}

/// Sends every connection's share.
///
/// # Errors
/// When a connection ends, or nothing moves any more.
pub fn transfer(
    world: &mut BenchWorld,
    connections: &mut Connections,
    source: &Source,
    load: Load,
) -> anyhow::Result<Round> {
    let before = Before::take(world, connections);
    let mut sender = Sender::new(connections, load);
    let mut receiver = Receiver::new(connections, load);
    let mut cycles = CycleSum::start(&world.world);
    while receiver.finished < connections.pairs.len() {
        let now = world.world.now();
        let start = read_cycles();
        sender.run(
            now,
            world.world.stack(SENDER),
            connections,
            source,
            receiver.finished,
        )?;
        let written = read_cycles();
        let aside = receiver.run(now, world.world.stack(RECEIVER), connections, source)?;
        let app = [written - start, read_cycles() - written - aside];
        anyhow::ensure!(
            world.step(),
            "{} stalled: nothing is under way any more",
            load.mode.label()
        );
        cycles.step(&world.world, app);
    }
    // The last acknowledgements belong to the round.
    world.settle();
    cycles.step(&world.world, [0; 2]);
    Ok(before.until_now(world, connections, cycles.sum(), receiver.verified))
}

/// The sending application: writes message by message, to each connection in turn.
struct Sender {
    load: Load,
    /// Connections that may have room.
    ready: VecDeque<u32>,
    /// The next connection to start.
    next: usize,
    /// What every connection has sent when the round is over.
    until: u64,
}

impl Sender {
    fn new(connections: &Connections, load: Load) -> Self {
        let until = connections.ends[0].sent + load.share;
        Self {
            load,
            ready: VecDeque::with_capacity(ACTIVE),
            next: 0,
            until,
        }
    }

    fn run(
        &mut self,
        now: std::time::Instant,
        stack: &mut Stack,
        connections: &mut Connections,
        source: &Source,
        finished: usize,
    ) -> anyhow::Result<()> {
        while let Some(event) = stack.poll_event() {
            match event {
                Event::Writable(socket) => self.ready.extend(connections.number(SENDER, socket)),
                Event::Closed(_, reason) => {
                    anyhow::bail!("the sender's connection ended: {reason}")
                }
                _ => {}
            }
        }
        while self.next < connections.pairs.len() && self.next - finished < ACTIVE {
            self.ready.push_back(self.next as u32);
            self.next += 1;
        }
        let mut written = 0;
        while written < WRITTEN_AT_ONCE
            && let Some(number) = self.ready.pop_front()
        {
            written += self.message(now, stack, connections, source, number)?;
        }
        Ok(())
    }

    /// Writes one message, or the rest of one, as far as there is room.
    fn message(
        &mut self,
        now: std::time::Instant,
        stack: &mut Stack,
        connections: &mut Connections,
        source: &Source,
        number: u32,
    ) -> anyhow::Result<usize> {
        let socket = connections.pairs[number as usize].sender;
        let sent = &mut connections.ends[number as usize].sent;
        let into_message = (*sent % self.load.message as u64) as usize;
        let message = (self.load.message - into_message).min((self.until - *sent) as usize);
        let mut written = 0;
        while written < message {
            let left = message - written;
            let result = if self.load.mode.zero_copy() {
                let slice = source.slice(self.load.region, number, *sent, left as u32);
                stack.send_slices(now, socket, &[slice])
            } else {
                stack.write(now, socket, source.bytes(number, *sent, left))
            };
            match result {
                Ok(len) => {
                    *sent += len as u64;
                    written += len;
                }
                Err(SocketError::WouldBlock) => return Ok(written),
                Err(error) => anyhow::bail!("a write failed: {error}"),
            }
        }
        if *sent < self.until {
            self.ready.push_back(number);
        }
        Ok(written)
    }
}

/// The receiving application: reads what there is, and checks it, which is not counted.
struct Receiver {
    load: Load,
    buffer: Vec<u8>,
    finished: usize,
    verified: bool,
    until: u64,
}

impl Receiver {
    fn new(connections: &Connections, load: Load) -> Self {
        Self {
            load,
            buffer: vec![0; load.message.clamp(1 << 16, 1 << 18)],
            finished: 0,
            verified: true,
            until: connections.ends[0].received + load.share,
        }
    }

    /// Answers the cycles that the check took.
    fn run(
        &mut self,
        now: std::time::Instant,
        stack: &mut Stack,
        connections: &mut Connections,
        source: &Source,
    ) -> anyhow::Result<u64> {
        let mut aside = 0;
        while let Some(event) = stack.poll_event() {
            match event {
                Event::Readable(socket) => {
                    if let Some(number) = connections.number(RECEIVER, socket) {
                        aside += self.read(now, stack, connections, source, number)?;
                    }
                }
                Event::Closed(_, reason) => {
                    anyhow::bail!("the receiver's connection ended: {reason}")
                }
                _ => {}
            }
        }
        Ok(aside)
    }

    fn read(
        &mut self,
        now: std::time::Instant,
        stack: &mut Stack,
        connections: &mut Connections,
        source: &Source,
        number: u32,
    ) -> anyhow::Result<u64> {
        let socket = connections.pairs[number as usize].receiver;
        let received = &mut connections.ends[number as usize].received;
        let mut aside = 0;
        loop {
            let before = *received;
            if self.load.mode.zero_copy() {
                match stack.read_chunk(now, socket) {
                    Ok(Some(chunk)) => {
                        let start = read_cycles();
                        self.verified &= source.verify(number, *received, &chunk);
                        aside += read_cycles() - start;
                        *received += chunk.len() as u64;
                    }
                    Ok(None) => anyhow::bail!("the sender closed"),
                    Err(SocketError::WouldBlock) => return Ok(aside),
                    Err(error) => anyhow::bail!("a read failed: {error}"),
                }
            } else {
                match stack.read(now, socket, &mut self.buffer) {
                    Ok(0) => anyhow::bail!("the sender closed"),
                    Ok(len) => {
                        let start = read_cycles();
                        self.verified &= source.verify(number, *received, &self.buffer[..len]);
                        aside += read_cycles() - start;
                        *received += len as u64;
                    }
                    Err(SocketError::WouldBlock) => return Ok(aside),
                    Err(error) => anyhow::bail!("a read failed: {error}"),
                }
            }
            if before < self.until && *received >= self.until {
                self.finished += 1;
            }
        }
    }
}

/// All counters as they stood when the round began.
struct Before {
    received: u64,
    pcie: [PcieBytes; 2],
    resyncs: Resyncs,
    records: Records,
    retransmitted: u64,
}

impl Before {
    fn take(world: &BenchWorld, connections: &Connections) -> Self {
        Self {
            received: connections.ends.iter().map(|end| end.received).sum(),
            pcie: [SENDER, RECEIVER].map(|node| pcie(&world.world.nic_counters(node))),
            resyncs: resyncs(&world.world.nic_counters(RECEIVER)),
            records: records(world, connections),
            retransmitted: retransmitted(world, connections),
        }
    }

    fn until_now(
        self,
        world: &BenchWorld,
        connections: &Connections,
        taken: [Taken; 2],
        verified: bool,
    ) -> Round {
        let after = Self::take(world, connections);
        Round {
            bytes: after.received - self.received,
            taken,
            pcie: [SENDER, RECEIVER].map(|node| after.pcie[node].since(&self.pcie[node])),
            resyncs: after.resyncs.since(&self.resyncs),
            records: after.records.since(&self.records),
            retransmitted: after.retransmitted - self.retransmitted,
            verified,
        }
    }
}

fn records(world: &BenchWorld, connections: &Connections) -> Records {
    let mut sum = Records::default();
    for pair in &connections.pairs {
        if let Some(tls) = world
            .world
            .stack_ref(RECEIVER)
            .info(pair.receiver)
            .and_then(|info| info.tls)
        {
            sum.full += tls.records_full;
            sum.partial += tls.records_partial;
            sum.none += tls.records_none;
        }
    }
    sum
}

fn retransmitted(world: &BenchWorld, connections: &Connections) -> u64 {
    let of = |pair: &Pair| {
        world
            .world
            .stack_ref(SENDER)
            .info(pair.sender)?
            .tcp
            .map(|tcp| tcp.bytes_retrans)
    };
    connections.pairs.iter().filter_map(of).sum()
}
