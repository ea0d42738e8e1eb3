//! What to drive through a world.

use std::time::Duration;

use host::Offload;
use port::impair::Impairment;

use super::Plant;
use crate::Suite;

/// One side of the connection. The client is host 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Opens the connection.
    Client = 0,
    /// Accepts it.
    Server = 1,
}

impl Side {
    /// The client, then the server.
    pub const BOTH: [Self; 2] = [Self::Client, Self::Server];

    /// The peer.
    pub fn other(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }
}

/// What one side does next. Each side goes through its list in order; reading goes on all the time beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Writes that many bytes, copied.
    Write(u32),
    /// Sends that many bytes of registered memory, not copied.
    Send(u32),
    /// Changes its key (TLS 1.3 after a handshake; nothing otherwise), and may ask the peer to do the same.
    KeyUpdate {
        /// Whether the peer is asked.
        request_peer: bool,
    },
    /// Changes what the NIC does; nothing in a run that is all software.
    SetOffload(Offload),
    /// Lets virtual time go by.
    Wait(Duration),
    /// Waits until it has read so many bytes in all.
    Await(u32),
    /// Ends its direction; reading goes on.
    Shutdown,
}

/// How the application reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reads {
    /// Into a buffer of that many bytes.
    Copied(usize),
    /// In place.
    InPlace,
}

/// Where the keys come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keys {
    /// A handshake on the connection.
    Handshake,
    /// Drawn from the seed and installed.
    Installed,
}

/// Version of IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// A connection's life. It ends when both sides have gone through their lists, shut down, and read to the end.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Seeds secrets, keys, payload and impairments.
    pub seed: u64,
    /// Version and cipher.
    pub suite: Suite,
    /// Where the keys come from.
    pub keys: Keys,
    /// IPv4 or IPv6.
    pub family: Family,
    /// Largest IP packet, in bytes.
    pub mtu: u16,
    /// What the link does, both ways.
    pub link: Impairment,
    /// Starts the client's sequence numbers at most so many bytes before they wrap.
    pub wrap_within: Option<u32>,
    /// Records' headers forged into the ciphertext, by a peer who knows the keys ([`Keys::Installed`]).
    pub plant: Vec<Plant>,
    /// Stacks and NICs of each side, over which flows are spread; the client connects from any.
    pub workers: u16,
    /// Room for contexts in the NICs' memory model, in bytes.
    pub context_memory: u64,
    /// How each side reads.
    pub reads: [Reads; 2],
    /// What each side does, the client first.
    pub operations: [Vec<Operation>; 2],
}

impl Scenario {
    /// Bytes that a side writes in all.
    pub fn written(&self, side: Side) -> usize {
        let bytes = |operation: &Operation| match *operation {
            Operation::Write(bytes) | Operation::Send(bytes) => bytes as usize,
            _ => 0,
        };
        self.operations[side as usize].iter().map(bytes).sum()
    }
}
