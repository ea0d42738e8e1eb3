//! One round: every connection sends its share, and everything is counted meanwhile.

use std::collections::VecDeque;

use host::{Event, ReadChunks, SocketError, SocketId, read_cycles};
use nic::ring::RegionId;

use super::source::Source;
use super::world::{BenchWorld, Pair, RECEIVER, SENDER};
use super::{Counted, Mode, Records, Resyncs};
use crate::bench::case::Round;
use crate::bench::cycle_sum::CycleSum;
use crate::bench::cycles::Taken;
use crate::bench::pcie::{PcieBytes, pcie};
use crate::bench::turn::Talk;

/// Connections that send at the same time at most; each of the others has its turn as one of them ends.
const ACTIVE: usize = 64;
/// Bytes that the sending application writes before it lets the stack run.
const WRITTEN_AT_ONCE: usize = 512 << 10;

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

/// Sends every connection's share. Answers the sender's round and the receiver's.
///
/// # Errors
/// When a connection ends, or nothing moves any more.
pub fn transfer(
    world: &mut BenchWorld,
    connections: &mut Connections,
    source: &Source,
    load: Load,
) -> anyhow::Result<Vec<Round<Counted>>> {
    let before = Snapshot::take(world, connections);
    let mut sender = Sender::new(connections, load);
    let mut receiver = Receiver::new(connections, load);
    let mut cycles = CycleSum::start(&world.world);
    while receiver.finished < connections.pairs.len() {
        let now = world.world.now();
        let start = read_cycles();
        let mut talk = Talk {
            now,
            stack: world.world.stack(SENDER),
            messages: source,
        };
        sender.run(&mut talk, connections, receiver.finished)?;
        let written = read_cycles();
        let mut talk = Talk {
            now,
            stack: world.world.stack(RECEIVER),
            messages: source,
        };
        let aside = receiver.run(&mut talk, connections)?;
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
    let after = Snapshot::take(world, connections);
    Ok(before.rounds(&after, load.mode, cycles.sum(), receiver.verified))
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
        talk: &mut Talk<'_, Source>,
        connections: &mut Connections,
        finished: usize,
    ) -> anyhow::Result<()> {
        while let Some(event) = talk.stack.poll_event() {
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
            written += self.message(talk, connections, number)?;
        }
        Ok(())
    }

    /// Writes one message, or the rest of one, as far as there is room.
    fn message(
        &mut self,
        talk: &mut Talk<'_, Source>,
        connections: &mut Connections,
        number: u32,
    ) -> anyhow::Result<usize> {
        let (now, source) = (talk.now, talk.messages);
        let socket = connections.pairs[number as usize].sender;
        let sent = &mut connections.ends[number as usize].sent;
        let into_message = (*sent % self.load.message as u64) as usize;
        let message = (self.load.message - into_message).min((self.until - *sent) as usize);
        let mut written = 0;
        while written < message {
            let left = message - written;
            let result = if self.load.mode.zero_copy() {
                let slice = source.slice(self.load.region, number, *sent, left as u32);
                talk.stack.send_slices(now, socket, &[slice])
            } else {
                talk.stack
                    .write(now, socket, source.bytes(number, *sent, left))
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
    chunks: ReadChunks,
    finished: usize,
    verified: bool,
    until: u64,
}

impl Receiver {
    fn new(connections: &Connections, load: Load) -> Self {
        Self {
            load,
            buffer: vec![0; load.message.clamp(1 << 16, 1 << 18)],
            chunks: ReadChunks::default(),
            finished: 0,
            verified: true,
            until: connections.ends[0].received + load.share,
        }
    }

    /// Answers the cycles that the check took.
    fn run(
        &mut self,
        talk: &mut Talk<'_, Source>,
        connections: &mut Connections,
    ) -> anyhow::Result<u64> {
        let mut aside = 0;
        while let Some(event) = talk.stack.poll_event() {
            match event {
                Event::Readable(socket) => {
                    if let Some(number) = connections.number(RECEIVER, socket) {
                        aside += self.read(talk, connections, number)?;
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
        talk: &mut Talk<'_, Source>,
        connections: &mut Connections,
        number: u32,
    ) -> anyhow::Result<u64> {
        let Talk {
            now,
            stack,
            messages: source,
        } = talk;
        let socket = connections.pairs[number as usize].receiver;
        let received = &mut connections.ends[number as usize].received;
        let mut aside = 0;
        loop {
            let before = *received;
            let read = if self.load.mode.zero_copy() {
                stack.read_chunks(*now, socket, &mut self.chunks)
            } else {
                stack.read(*now, socket, &mut self.buffer)
            };
            let len = match read {
                Ok(0) => anyhow::bail!("the sender closed"),
                Ok(len) => len,
                Err(SocketError::WouldBlock) => return Ok(aside),
                Err(error) => anyhow::bail!("a read failed: {error}"),
            };
            let start = read_cycles();
            if self.load.mode.zero_copy() {
                for chunk in self.chunks.iter() {
                    self.verified &= source.verify(number, *received, chunk);
                    *received += chunk.len() as u64;
                }
            } else {
                self.verified &= source.verify(number, *received, &self.buffer[..len]);
                *received += len as u64;
            }
            aside += read_cycles() - start;
            if before < self.until && *received >= self.until {
                self.finished += 1;
            }
        }
    }
}

/// All counters as they stand.
struct Snapshot {
    received: u64,
    pcie: [PcieBytes; 2],
    resyncs: Resyncs,
    records: Records,
    retransmitted: u64,
}

impl Snapshot {
    fn take(world: &BenchWorld, connections: &Connections) -> Self {
        let world = &world.world;
        let counters = [SENDER, RECEIVER].map(|node| world.nic_counters(node));
        let mut records = Records::default();
        let mut retransmitted = 0;
        for pair in &connections.pairs {
            let received = world.stack_ref(RECEIVER).info(pair.receiver);
            if let Some(tls) = received.and_then(|info| info.tls) {
                records = records + Records::of(&tls);
            }
            let sent = world.stack_ref(SENDER).info(pair.sender);
            let tcp = sent.and_then(|info| info.tcp);
            retransmitted += tcp.map_or(0, |tcp| tcp.bytes_retrans);
        }
        Self {
            received: connections.ends.iter().map(|end| end.received).sum(),
            pcie: [pcie(&counters[SENDER]), pcie(&counters[RECEIVER])],
            resyncs: Resyncs::of(&counters[RECEIVER]),
            records,
            retransmitted,
        }
    }

    /// The rounds of both hosts between this and a later one.
    fn rounds(
        &self,
        after: &Self,
        mode: Mode,
        taken: [Taken; 2],
        verified: bool,
    ) -> Vec<Round<Counted>> {
        let round = |node: usize, counted| Round {
            count: after.received - self.received,
            taken: taken[node],
            counted: Counted {
                pcie_bytes: after.pcie[node] - self.pcie[node],
                ..counted
            },
            verified,
        };
        let sent = Counted {
            retransmitted_bytes: after.retransmitted - self.retransmitted,
            ..Counted::default()
        };
        let received = Counted {
            records: mode.secured().then(|| after.records - self.records),
            resyncs: mode.offloaded().then(|| after.resyncs - self.resyncs),
            ..Counted::default()
        };
        vec![round(SENDER, sent), round(RECEIVER, received)]
    }
}
