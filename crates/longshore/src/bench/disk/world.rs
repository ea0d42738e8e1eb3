//! The worlds in which the benchmark runs: clients of a disk on one host, by mode, and the disk's server on the other.

use std::time::{Duration, Instant};

use host::Stack;
use nic::ring::Slice;
use port::impair::Impairment;
use sim::{World, WorldConfig};

use super::case::{Io, Mode, Offloaded};
use super::load::Pass;
use super::settings::Workload;
use crate::bench::hosts::{WIRE_BYTES, config, node};
use crate::bench::pcie::{PcieBytes, pcie};

/// The client's host.
pub const HOST: usize = 0;
/// The server's.
pub const SERVER: usize = 1;

/// What is counted, up to now.
#[derive(Clone, Copy, Debug)]
pub struct Counters {
    /// What the client's NIC moved.
    pub pcie: PcieBytes,
    /// What it did for the protocol.
    pub offloaded: Offloaded,
    /// Payload bytes that were sent again, both ways.
    pub retransmitted: u64,
}

/// A world, the clock of which moves by a tick at least.
pub struct Clocked {
    /// The world.
    pub world: World,
    tick: Duration,
}

impl Clocked {
    /// A world as the settings say.
    pub fn new(settings: &Workload, tick: Duration) -> Self {
        let mut node = node();
        node.stack.tcp.rcv_buf = 1 << 20;
        node.stack.send_buffer = 2 << 20;
        let nodes = vec![node; 2];
        let world = World::new(WorldConfig {
            wire_bytes: WIRE_BYTES,
            ..config(&settings.run, settings.seed, tick, nodes)
        });
        Self { world, tick }
    }

    /// One batch, and one tick of the clock. False when nothing is under way any more, nor due.
    pub fn step_until(&mut self, due: Option<Instant>) -> bool {
        let now = self.world.now();
        if self.world.step() {
            self.world.advance_to(now + self.tick);
            return true;
        }
        self.wait_until(due)
    }

    /// Goes to when something is due. False when nothing ever will be.
    pub fn wait_until(&mut self, due: Option<Instant>) -> bool {
        let now = self.world.now();
        match due {
            Some(due) => {
                self.world.advance_to(due.max(now + self.tick));
                true
            }
            None => self.world.advance(),
        }
    }
}

/// Clients of some modes and their server.
pub trait Disks: Sized {
    /// The command that measures them.
    const NAME: &'static str;

    /// How the NIC's counters of the protocol are named.
    const COUNTERS: &'static str;

    /// The protocol may be inside TLS.
    const TLS: bool;

    /// It has digests.
    const DIGESTS: bool;

    /// A world for these modes, all of them inside TLS or none, every client connected. Its clock moves by `tick` at least.
    ///
    /// # Errors
    /// When there is no connection.
    fn new(settings: &Workload, modes: &[Mode], tick: Duration) -> anyhow::Result<Self>;

    /// The world that they are in.
    fn clocked(&mut self) -> &mut Clocked;

    /// The same, to look at.
    fn world(&self) -> &World;

    /// Lets a client do what it can. Whether that was anything. Events of the other ones' sockets, which are at rest, say
    /// nothing new.
    fn poll_client(&mut self, client: usize) -> bool;

    /// Lets the server do what it can. Whether that was anything.
    fn poll_server(&mut self) -> bool;

    /// When a client, or the server, wants to be polled again.
    fn due(&self, client: usize) -> Option<Instant>;

    /// Begins a command on a chunk, with the memory of a slot; gives its index.
    ///
    /// # Errors
    /// When it is not taken.
    fn submit(
        &mut self,
        client: usize,
        pass: Pass,
        chunk: u32,
        memory: Slice,
    ) -> anyhow::Result<usize>;

    /// The index of a command that is complete.
    ///
    /// # Errors
    /// When it failed.
    fn poll_done(&mut self, client: usize) -> anyhow::Result<Option<usize>>;

    /// Makes the disk zeroes by itself, if it can; if not, commands are to do it.
    fn clear(&mut self) -> bool {
        false
    }

    /// One batch, and one tick of the clock. False when nothing is under way any more.
    fn step(&mut self, client: usize) -> bool {
        let due = self.due(client);
        self.clocked().step_until(due)
    }

    /// Goes to when something is due. False when nothing ever will be.
    fn wait(&mut self, client: usize) -> bool {
        let due = self.due(client);
        self.clocked().wait_until(due)
    }

    /// Steps until all that was under way is done.
    fn settle(&mut self, client: usize) {
        loop {
            self.poll_client(client);
            self.poll_server();
            let clocked = self.clocked();
            if !clocked.world.step() {
                return;
            }
            let now = clocked.world.now();
            clocked.world.advance_to(now + clocked.tick);
        }
    }

    /// Loses and delays packets with data from now on, as the settings say: those towards whom the data goes.
    fn impair(&mut self, settings: &Workload, io: Io) {
        let impairment = Impairment {
            loss: settings.loss,
            reorder: settings.reorder,
            ..Impairment::default()
        };
        let (from, to) = match io {
            Io::Read => (SERVER, HOST),
            Io::Write => (HOST, SERVER),
        };
        let world = &mut self.clocked().world;
        world.impair(from, impairment);
        world.impair(to, Impairment::default());
    }

    /// Nothing is lost or late from now on.
    fn calm(&mut self) {
        for node in [HOST, SERVER] {
            self.clocked().world.impair(node, Impairment::default());
        }
    }

    /// What is counted for the client's host, up to now.
    fn counters(&self) -> Counters {
        let counters = self.world().nic_counters(HOST);
        let named = |what: &str| counters.named(&format!("rx_{}_{what}", Self::COUNTERS));
        let retransmitted = [HOST, SERVER].map(|node| retransmitted(self.world().stack_ref(node)));
        Counters {
            pcie: pcie(&counters),
            offloaded: Offloaded {
                placed_bytes: named("bytes"),
                placed_packets: named("packets"),
                digest_packets: match Self::DIGESTS {
                    true => named("digest_packets"),
                    false => 0,
                },
                packets: counters.rx_packets,
                resyncs: named("resync"),
            },
            retransmitted: retransmitted.iter().sum(),
        }
    }
}

fn retransmitted(stack: &Stack) -> u64 {
    let tcp = stack.sockets().filter_map(|socket| socket.tcp);
    tcp.map(|tcp| tcp.bytes_retrans).sum()
}
