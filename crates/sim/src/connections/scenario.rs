//! What to drive through a world.

use std::time::Duration;

use nic::AccelConfig;
use port::impair::Impairment;
use rand::{Rng as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;

use crate::oracle::{Family, Side};

/// What one side does next. It goes through its list in order, and closes at the end; reading goes on all the time beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Writes that many bytes, copied.
    Write(u32),
    /// Sends that many bytes of registered memory, not copied.
    Send(u32),
    /// Lets virtual time go by.
    Wait(Duration),
    /// Waits until it has read so many bytes in all, or the stream has ended.
    Await(u32),
    /// Waits until it has read to the end of the stream.
    AwaitEnd,
    /// Ends its direction; reading goes on.
    Shutdown,
    /// Gives the connection up.
    Close,
    /// Resets it.
    Abort,
}

/// How one side reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reads {
    /// Into a buffer of that many bytes.
    Copied(usize),
    /// In place.
    InPlace,
    /// It does not; nor does it await anything.
    Never,
}

/// What one side does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    /// How it reads.
    pub reads: Reads,
    /// What it does.
    pub operations: Vec<Operation>,
}

impl Script {
    /// Bytes that it writes at most.
    pub fn written(&self) -> usize {
        let bytes = |operation: &Operation| match *operation {
            Operation::Write(bytes) | Operation::Send(bytes) => bytes as usize,
            _ => 0,
        };
        self.operations.iter().map(bytes).sum()
    }

    /// Whether it leaves only when it has read all of the `expected` bytes that the peer writes.
    fn is_gentle(&self, expected: usize) -> bool {
        let waits = self.operations.iter().any(|operation| match *operation {
            Operation::AwaitEnd => true,
            Operation::Await(bytes) => bytes as usize >= expected,
            _ => false,
        });
        let reads = self.reads != Reads::Never && waits;
        (expected == 0 || reads) && !self.operations.contains(&Operation::Abort)
    }
}

/// A listener's settings, each of which is at a port of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Door {
    /// The NIC may answer SYNs.
    pub accel: bool,
    /// Connections are told of when their first bytes have come.
    pub defer: bool,
}

impl Door {
    /// All that there are.
    pub const ALL: [Self; 3] = [
        Self {
            accel: true,
            defer: false,
        },
        Self {
            accel: true,
            defer: true,
        },
        Self {
            accel: false,
            defer: false,
        },
    ];
}

/// How a relay in the middle goes about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Relayed {
    /// Bytes that it relays by itself, in both directions together, before it splices.
    pub after: u32,
    /// The splice ends when nothing was sent for so long.
    pub idle: Option<Duration>,
    /// It is taken back after so long.
    pub take_back: Option<Duration>,
    /// It splices again after that.
    pub again: bool,
}

/// One connection, or two with a relay between them.
#[derive(Clone, Debug)]
pub struct Life {
    /// IPv4 or IPv6.
    pub family: Family,
    /// The listener that the client connects to.
    pub door: Door,
    /// When the client connects.
    pub start: Duration,
    /// It goes through a relay.
    pub relayed: Option<Relayed>,
    /// What the client does, and the server.
    pub scripts: [Script; 2],
}

impl Life {
    /// Whether both sides must read all that the other one writes, whatever happens to packets.
    pub fn is_gentle(&self) -> bool {
        let [client, server] = &self.scripts;
        client.is_gentle(server.written()) && server.is_gentle(client.written())
    }

    /// Whether a side reads to the end of the stream before it leaves.
    pub fn reads_end(&self, side: Side) -> bool {
        let script = &self.scripts[side as usize];
        script.operations.contains(&Operation::AwaitEnd) && script.reads != Reads::Never
    }
}

/// What a host's TCP offers and accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpOptions {
    /// Timestamps (RFC 7323).
    pub timestamps: bool,
    /// Selective acknowledgements (RFC 2018).
    pub sack: bool,
    /// Window scaling (RFC 7323).
    pub window_scale: bool,
    /// Bytes of the receive buffer at most.
    pub receive_buffer: u32,
}

impl Default for TcpOptions {
    fn default() -> Self {
        Self {
            timestamps: true,
            sack: true,
            window_scale: true,
            receive_buffer: 1 << 20,
        }
    }
}

/// Connections, and what they go through.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Seeds secrets, payload and impairments.
    pub seed: u64,
    /// Largest IP packet, in bytes.
    pub mtu: u16,
    /// What the link does, both ways.
    pub link: Impairment,
    /// Each host's TCP.
    pub tcp: [TcpOptions; 2],
    /// Room in the NICs.
    pub limits: AccelConfig,
    /// Stacks and NICs of each host, over which flows are spread.
    pub workers: u16,
    /// The connections.
    pub lives: Vec<Life>,
}

impl Scenario {
    /// What the two sides of each connection write.
    pub(super) fn streams(&self) -> Vec<[Vec<u8>; 2]> {
        let mut rng = Pcg64Mcg::seed_from_u64(self.seed ^ 0x11fe);
        let mut stream = |script: &Script| {
            let mut bytes = vec![0; script.written()];
            rng.fill_bytes(&mut bytes);
            bytes
        };
        let lives = self.lives.iter();
        lives
            .map(|life| [stream(&life.scripts[0]), stream(&life.scripts[1])])
            .collect()
    }
}
