//! The worlds in which the benchmark runs: clients of a disk on one host, by mode, and the disk's server on the other.

use std::time::{Duration, Instant};

use host::Stack;
use nic::ring::Slice;
use port::impair::Impairment;
use sim::{World, WorldConfig};

use super::case::{Io, Mode, Offloaded};
use super::load::Pass;
use super::settings::Workload;
use crate::bench::case;
use crate::bench::hosts::{WIRE_BYTES, config, node};
use crate::bench::pcie::{PcieBytes, pcie};

/// The client's host.
pub const HOST: usize = 0;
/// The server's.
pub const SERVER: usize = 1;

/// A protocol of disks, as both sides speak it.
pub trait Protocol: Sized {
    /// The command that measures it.
    const NAME: &'static str;
    /// How the NIC's counters of it are named.
    const COUNTERS: &'static str;
    /// It may be inside TLS.
    const TLS: bool;
    /// It has digests.
    const DIGESTS: bool;
    /// Who uses a disk.
    type Client;
    /// Who has it.
    type Server;

    /// The server of modes that are all inside TLS, or none of which is.
    ///
    /// # Errors
    /// When there can be no keys.
    fn server(
        world: &mut World,
        settings: &Workload,
        modes: &[Mode],
    ) -> anyhow::Result<Self::Server>;

    /// A client that begins to connect.
    fn client(
        now: Instant,
        server: &Self::Server,
        settings: &Workload,
        mode: &Mode,
    ) -> Self::Client;

    /// Whether a client is connected by now.
    ///
    /// # Errors
    /// When it can't be.
    fn is_ready(client: &mut Self::Client) -> anyhow::Result<bool>;

    /// Lets a client do what it can. Whether that was anything. Events of the other ones' sockets, which are at rest, say
    /// nothing new.
    fn poll_client(world: &mut World, client: &mut Self::Client) -> bool;

    /// Lets the server do what it can. Whether that was anything.
    fn poll_server(world: &mut World, server: &mut Self::Server) -> bool;

    /// When a client, or the server, wants to be polled again.
    fn due(client: &Self::Client, server: &Self::Server) -> Option<Instant>;

    /// Begins a command on a chunk, with the memory of a slot; gives its index.
    ///
    /// # Errors
    /// When it is not taken.
    fn submit(
        client: &mut Self::Client,
        pass: Pass,
        chunk: u32,
        memory: Slice,
    ) -> anyhow::Result<usize>;

    /// The index of a command that is complete.
    ///
    /// # Errors
    /// When it failed.
    fn poll_done(client: &mut Self::Client) -> anyhow::Result<Option<usize>>;

    /// Makes the disk zeroes by itself, if it can; if not, commands are to do it.
    fn clear(_server: &mut Self::Server) -> bool {
        false
    }
}

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

/// Clients of some modes and their server. The clock moves by a tick at least.
pub struct DiskWorld<P: Protocol> {
    /// The world.
    pub world: World,
    tick: Duration,
    /// By mode.
    clients: Vec<P::Client>,
    server: P::Server,
}

impl<P: Protocol> DiskWorld<P> {
    /// A world for these modes, all of them inside TLS or none, every client connected.
    ///
    /// # Errors
    /// When there is no connection.
    pub fn new(settings: &Workload, modes: &[Mode], tick: Duration) -> anyhow::Result<Self> {
        let mut node = node();
        node.stack.tcp.rcv_buf = 1 << 20;
        node.stack.send_buffer = 2 << 20;
        let nodes = vec![node; 2];
        let mut world = World::new(WorldConfig {
            wire_bytes: WIRE_BYTES,
            ..config(&settings.run, settings.seed, tick, nodes)
        });
        let server = P::server(&mut world, settings, modes)?;
        let mut made = Self {
            world,
            tick,
            clients: Vec::new(),
            server,
        };
        for (client, mode) in modes.iter().enumerate() {
            let now = made.world.now();
            let connecting = P::client(now, &made.server, settings, mode);
            made.clients.push(connecting);
            let connected = made.connect(client);
            connected.map_err(|error| error.context(case::Mode::label(mode)))?;
        }
        Ok(made)
    }

    fn connect(&mut self, client: usize) -> anyhow::Result<()> {
        loop {
            self.poll_client(client);
            if P::is_ready(&mut self.clients[client])? {
                return Ok(());
            }
            self.poll_server();
            anyhow::ensure!(self.step(client), "the connection is stuck");
        }
    }

    /// See [`Protocol::poll_client`].
    pub fn poll_client(&mut self, client: usize) -> bool {
        P::poll_client(&mut self.world, &mut self.clients[client])
    }

    /// See [`Protocol::poll_server`].
    pub fn poll_server(&mut self) -> bool {
        P::poll_server(&mut self.world, &mut self.server)
    }

    /// See [`Protocol::submit`].
    ///
    /// # Errors
    /// When the command is not taken.
    pub fn submit(
        &mut self,
        client: usize,
        pass: Pass,
        chunk: u32,
        memory: Slice,
    ) -> anyhow::Result<usize> {
        P::submit(&mut self.clients[client], pass, chunk, memory)
    }

    /// See [`Protocol::poll_done`].
    ///
    /// # Errors
    /// When the command failed.
    pub fn poll_done(&mut self, client: usize) -> anyhow::Result<Option<usize>> {
        P::poll_done(&mut self.clients[client])
    }

    /// See [`Protocol::clear`].
    pub fn clear(&mut self) -> bool {
        P::clear(&mut self.server)
    }

    /// One batch, and one tick of the clock. False when nothing is under way any more, nor due.
    pub fn step(&mut self, client: usize) -> bool {
        let now = self.world.now();
        if self.world.step() {
            self.world.advance_to(now + self.tick);
            return true;
        }
        self.wait(client)
    }

    /// Goes to when something is due. False when nothing ever will be.
    pub fn wait(&mut self, client: usize) -> bool {
        let now = self.world.now();
        match P::due(&self.clients[client], &self.server) {
            Some(due) => {
                self.world.advance_to(due.max(now + self.tick));
                true
            }
            None => self.world.advance(),
        }
    }

    /// Steps until all that was under way is done.
    pub fn settle(&mut self, client: usize) {
        loop {
            self.poll_client(client);
            self.poll_server();
            if !self.world.step() {
                return;
            }
            let now = self.world.now();
            self.world.advance_to(now + self.tick);
        }
    }

    /// Loses and delays packets with data from now on, as the settings say: those towards whom the data goes.
    pub fn impair(&mut self, settings: &Workload, io: Io) {
        let impairment = settings.faults.impairment();
        let (from, to) = match io {
            Io::Read => (SERVER, HOST),
            Io::Write => (HOST, SERVER),
        };
        self.world.impair(from, impairment);
        self.world.impair(to, Impairment::default());
    }

    /// Nothing is lost or late from now on.
    pub fn calm(&mut self) {
        for node in [HOST, SERVER] {
            self.world.impair(node, Impairment::default());
        }
    }

    /// What is counted for the client's host, up to now.
    pub fn counters(&self) -> Counters {
        let counters = self.world.nic_counters(HOST);
        let named = |what: &str| counters.named(&format!("rx_{}_{what}", P::COUNTERS));
        let retransmitted = [HOST, SERVER].map(|node| retransmitted(self.world.stack_ref(node)));
        Counters {
            pcie: pcie(&counters),
            offloaded: Offloaded {
                placed_bytes: named("bytes"),
                placed_packets: named("packets"),
                digest_packets: match P::DIGESTS {
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
