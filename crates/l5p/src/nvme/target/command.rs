//! A command in flight.
//!
//! ```text
//!  capsule ─┬─ data in the capsule ────▶ InCapsule ──┐ digest right
//!           │                                        ├─────────────▶ Storing ──▶ Responding ──▶ gone
//!           ├─ data by R2T ─▶ Waiting ─▶ Receiving ──┘                  │ ▲
//!           ├─ read ────────▶ Waiting ──────────────────────────────────┘ │ read: Sending ─▶ Responding
//!           ├─ admin answer ▶ Sending                                     │
//!           └─ event request▶ Parked ─────────────────────────────────────┘ (Responding)
//! ```

use wire::nvme::command::Status;

use super::action::{Memory, Operation};
use super::answer::Answer;
use super::config::StoreId;
use super::transfer::Transfer;

/// A command from its capsule until its response has been sent.
#[derive(Debug)]
pub(super) struct Command {
    pub cid: u16,
    /// Whether the identifier is taken by this command. It is not if the host gave it to two.
    pub owns_cid: bool,
    pub work: Work,
    pub state: State,
    /// Whether it has memory of [`super::Action::Buffer`], or waits for it.
    pub buffer: bool,
    /// Whether it is among those that have something to send.
    pub queued: bool,
    /// Dword 0 and 1 of the completion.
    pub result: u64,
    pub status: Status,
    /// The namespace, for the error log.
    pub nsid: u32,
}

/// What a command does.
#[derive(Debug)]
pub(super) enum Work {
    /// Nothing but its response.
    Reply,
    /// Connect: acts on the data of its capsule.
    Connect(ConnectRequest),
    /// An answer made when it is sent.
    Answer(Answer),
    /// What a store does.
    Store(StoreWork),
}

/// Connect's own fields (Base 2.0c §6.3).
#[derive(Clone, Copy, Debug)]
pub(super) struct ConnectRequest {
    pub queue: u16,
    pub entries: u32,
    pub no_flow_control: bool,
    pub keep_alive: u32,
}

/// An I/O command.
#[derive(Clone, Copy, Debug)]
pub(super) struct StoreWork {
    pub store: StoreId,
    /// Bytes between the host and the controller; 0 if there are none.
    pub len: u32,
    pub operation: Operation,
}

impl StoreWork {
    /// Bytes of memory it needs beside the capsule's.
    pub(super) fn buffer_len(&self) -> u32 {
        match self.operation {
            Operation::Compare {
                memory: Memory::Buffer,
                ..
            } => 2 * self.len,
            _ => self.len,
        }
    }
}

/// How far a command is.
#[derive(Debug)]
pub(super) enum State {
    /// The data of its capsule is coming.
    InCapsule,
    /// It waits for memory.
    Waiting,
    /// Its data comes as R2Ts ask for it.
    Receiving(Transfer),
    /// The store works on it.
    Storing,
    /// Its data goes to the host.
    Sending {
        /// Bytes that have gone.
        sent: u32,
        /// Bytes in all.
        len: u32,
    },
    /// Its response goes to the host.
    Responding,
    /// It waits for an event.
    Parked,
}
