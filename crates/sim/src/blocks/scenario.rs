//! What to drive through a world.

use handshake::nvme_psk::Hash;
use port::impair::Impairment;
use wire::nvme::Digests;

/// Bytes of a block of the namespace.
pub const BLOCK: u32 = 512;

/// A command. One that touches blocks which another one, not yet complete, changes, or changes blocks which another one
/// touches, waits for that; all others go out at once, as far as the queues have room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Reads blocks to memory in so many slices.
    Read {
        /// The first block.
        start: u32,
        /// How many.
        count: u32,
        /// Slices of memory.
        slices: u8,
    },
    /// Writes random blocks from memory in so many slices.
    Write {
        /// The first block.
        start: u32,
        /// How many.
        count: u32,
        /// Slices of memory.
        slices: u8,
        /// Only done when it is durable.
        fua: bool,
    },
    /// Compares blocks with what they hold, or with something else.
    Compare {
        /// The first block.
        start: u32,
        /// How many.
        count: u32,
        /// With what they hold.
        equal: bool,
    },
    /// Makes blocks zeroes.
    WriteZeroes {
        /// The first block.
        start: u32,
        /// How many.
        count: u32,
    },
    /// Deallocates blocks, which read as zeroes then (Dataset Management).
    Deallocate {
        /// The first block.
        start: u32,
        /// How many.
        count: u32,
    },
    /// Makes what was written durable.
    Flush,
    /// No command: one side changes its keys on all connections, if they are inside TLS.
    KeyUpdate {
        /// The controller does, not the initiator.
        controller: bool,
        /// Whether it asks the other side to do the same.
        request_peer: bool,
    },
}

impl Command {
    /// The blocks that it touches.
    pub fn blocks(&self) -> std::ops::Range<u32> {
        match *self {
            Self::Read { start, count, .. }
            | Self::Write { start, count, .. }
            | Self::Compare { start, count, .. }
            | Self::WriteZeroes { start, count }
            | Self::Deallocate { start, count } => start..start + count,
            Self::Flush | Self::KeyUpdate { .. } => 0..0,
        }
    }

    /// Whether it changes them.
    pub fn changes(&self) -> bool {
        matches!(
            self,
            Self::Write { .. } | Self::WriteZeroes { .. } | Self::Deallocate { .. }
        )
    }

    /// Whether both may be under way at the same time.
    pub fn commutes_with(&self, other: &Self) -> bool {
        let (a, b) = (self.blocks(), other.blocks());
        let apart = a.end <= b.start || b.end <= a.start;
        apart || !(self.changes() || other.changes())
    }
}

/// Into how large pieces the controller cuts data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pieces {
    /// Bytes of data in a command capsule at most, a multiple of 16.
    pub in_capsule: u32,
    /// Bytes of data in one C2HData at most, a multiple of 4 from 4,096.
    pub c2h_data: u32,
    /// Bytes of data in one H2CData at most, a multiple of 4 from 4,096.
    pub h2c_data: u32,
    /// Bytes that one R2T asks for at most, a multiple of 4 from 4,096.
    pub r2t_data: u32,
}

/// A namespace, how it is reached, and what is done with it.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Seeds secrets, data and impairments.
    pub seed: u64,
    /// Inside TLS, with a pre-shared key of this hash.
    pub tls: Option<Hash>,
    /// Digests.
    pub digests: Digests,
    /// Largest IP packet, in bytes.
    pub mtu: u16,
    /// What the link does, both ways.
    pub link: Impairment,
    /// Starts the sequence numbers of this side of the first I/O queue at most about so many bytes before they wrap: the
    /// initiator's if `false`, the controller's if `true`.
    pub wrap_within: Option<(bool, u32)>,
    /// What is written contains headers of PDUs, as the NICs look for them.
    pub planted: bool,
    /// Room for contexts in the NICs' memory model, in bytes.
    pub context_memory: u64,
    /// I/O queues.
    pub queues: u16,
    /// Commands in flight on each of them.
    pub depth: u16,
    /// How the controller cuts data.
    pub pieces: Pieces,
    /// Reads of fewer bytes are not mapped.
    pub map_threshold: u32,
    /// Blocks of the namespace.
    pub blocks: u32,
    /// What is done, in this order; at the end all of the namespace is read.
    pub commands: Vec<Command>,
}
