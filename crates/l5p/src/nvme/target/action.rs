//! What a target asks of its driver.

use wire::nvme::Pdu;

use super::config::StoreId;
use super::ids::{CommandRef, ConnectionId, ControllerRef};

/// Something to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Find memory for the data of a command, and say so with [`super::Target::handle_buffer`]. Commands may wait for it
    /// as long as need be; every one that was granted goes on without another grant.
    Buffer {
        /// Whose.
        command: CommandRef,
        /// Bytes.
        len: u32,
        /// Who fills it.
        filled_by: FilledBy,
    },
    /// Do it, and say how it went with [`super::Target::handle_stored`], in any order.
    Store(StoreRequest),
    /// The command has no more use for the memory that it was given or waits for. The bytes may still be on their way to the
    /// host; that is for the connection to know.
    Release(CommandRef),
    /// Close the connection. Nothing more is said of it but [`Action::Release`].
    Close {
        /// Which.
        connection: ConnectionId,
        /// Why.
        why: CloseReason,
    },
    /// Another machine of this target has something to do: have its driver ask for [actions](super::Target::poll_action).
    Wake {
        /// Which one, as [`ConnectionId::machine`] counts them.
        machine: usize,
    },
}

/// Who fills a command's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FilledBy {
    /// The host, by H2CData PDUs that name the command's slot as TTAG.
    Host,
    /// The store.
    Store,
}

/// What a store is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreRequest {
    /// For whom.
    pub owner: Owner,
    /// Which store.
    pub store: StoreId,
    /// What.
    pub operation: Operation,
}

/// For whom a store works.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Owner {
    /// A command.
    Command(CommandRef),
    /// A controller that shuts down.
    Controller(ControllerRef),
}

/// What a store is to do. Offsets are bytes of the store; the data is the command's, from its first byte on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Read into the command's memory.
    Read {
        /// Where.
        offset: u64,
        /// Bytes.
        len: u32,
        /// What is read must survive a loss of power: what was written there is made durable first.
        fua: bool,
    },
    /// Write from the command's memory.
    Write {
        /// Where.
        offset: u64,
        /// Bytes.
        len: u32,
        /// Done only when it would survive a loss of power.
        fua: bool,
        /// Where the data is.
        memory: Memory,
    },
    /// Compare with the command's data. The memory given for [`Action::Buffer`] has `len` bytes of room for what is read:
    /// behind the data if that is there too, else from its first byte on.
    Compare {
        /// Where.
        offset: u64,
        /// Bytes.
        len: u32,
        /// What it is compared with must survive a loss of power, as for `Read`.
        fua: bool,
        /// Where the data is.
        memory: Memory,
    },
    /// Make bytes read as zeroes.
    WriteZeroes {
        /// Where.
        offset: u64,
        /// Bytes.
        len: u64,
        /// Done only when it would survive a loss of power.
        fua: bool,
        /// The room may be given back.
        deallocate: bool,
    },
    /// The command's memory holds so many ranges of Dataset Management; give their room back. Those that [`super::ranges`]
    /// refuses fail the command.
    Deallocate {
        /// How many.
        ranges: u16,
        /// Where they are.
        memory: Memory,
        /// Blocks of the namespace.
        blocks: u64,
        /// A block's size, as a power of two.
        block_shift: u8,
    },
    /// Everything written that was acknowledged before is to survive a loss of power.
    Flush,
}

/// Where the data of a command is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Memory {
    /// Where [`Place::InCapsule`] put it.
    InCapsule,
    /// In the memory given for [`Action::Buffer`].
    Buffer,
}

/// Where the data behind a header belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The PDU has no data.
    None,
    /// It is to be given to [`super::Target::handle_pdu_end`]; at most 8 KiB.
    Inline,
    /// In the memory for in-capsule data that the command's connection and slot have, from its first byte on.
    InCapsule {
        /// The command.
        command: CommandRef,
        /// Bytes.
        len: u32,
    },
    /// In the memory given to a command.
    Command {
        /// The command.
        command: CommandRef,
        /// From which byte on.
        offset: u32,
        /// Bytes.
        len: u32,
    },
    /// It is discarded.
    Discard,
}

/// A PDU to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outgoing<'a> {
    /// Its header.
    pub pdu: Pdu,
    /// Its data.
    pub data: Source<'a>,
}

/// What a PDU carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source<'a> {
    /// No data.
    None,
    /// Bytes of a command's memory.
    Command {
        /// The command.
        command: CommandRef,
        /// From which byte on.
        offset: u32,
        /// Bytes.
        len: u32,
    },
    /// These bytes.
    Bytes(&'a [u8]),
}

/// Why the target closes a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum CloseReason {
    /// The host was silent for longer than it said it would be.
    #[error("the host was silent for longer than its keep-alive time-out")]
    KeepAlive,
    /// The connection did not become a queue in time.
    #[error("the connection did not become a queue in time")]
    Handshake,
    /// It is the oldest of those that are no queue yet, and there is one more of them than there may be.
    #[error("it was no queue yet, and others came")]
    Evicted,
    /// The host was sent an R2T, and sends no data.
    #[error("the host sent no data for an R2T in time")]
    R2t,
    /// The admin queue of its controller is gone.
    #[error("its controller is gone")]
    ControllerGone,
    /// The host has reset its controller.
    #[error("the host has reset its controller")]
    ControllerReset,
    /// The host ended it with an H2CTermReq.
    #[error("the host ended it: {0}")]
    HostTerminated(wire::nvme::FatalError),
}
