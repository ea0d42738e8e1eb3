//! Disks over a network: what a client of one does, whatever protocol it speaks.
//!
//! A [`Client`] is driven as [`nvme::initiator::Initiator`](crate::nvme::initiator::Initiator) is. No call blocks, and in steady state none
//! allocates.

mod commands;
mod link;
mod memory;

use std::error::Error;
use std::time::Instant;

use nic::ring::Slice;

use crate::stack::Stack;

pub(crate) use commands::{Again, Commands};
pub(crate) use link::Link;
pub(crate) use memory::{CommandKey, Memories};

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Bytes of the disk go to memory.
    Read,
    /// Memory goes to the disk.
    Write,
    /// What was written is brought to the medium.
    Flush,
}

/// Something to do with a range of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// What.
    pub operation: Operation,
    /// The first byte.
    pub offset: u64,
    /// Bytes; 0 for a flush.
    pub len: u32,
}

/// Names a request until its completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RequestId(u16);

impl RequestId {
    /// Its place in a table: below the number of requests that may be in flight, and its own until it is complete.
    #[must_use]
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// A request that is complete. `E` is what the peer may say of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion<E> {
    /// Which one.
    pub id: RequestId,
    /// What became of it.
    pub result: Result<(), RequestFailure<E>>,
}

/// Why a request was not done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestFailure<E> {
    /// The peer says so.
    #[error(transparent)]
    Peer(#[from] E),
    /// The connection ended before the answer.
    #[error("the connection ended before the answer")]
    Lost,
}

/// Why a request was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubmitError {
    /// The connection is not ready, or has ended.
    #[error("there is no connection")]
    NotConnected,
    /// As many as there may be are in flight.
    #[error("all requests are in flight")]
    Full,
    /// The range is not inside of the disk, or not of whole blocks, or too long.
    #[error("{len} bytes at {offset} can't be one request to this disk")]
    Range {
        /// The first byte.
        offset: u64,
        /// Bytes.
        len: u32,
    },
    /// Nothing may be written.
    #[error("the disk is read-only")]
    ReadOnly,
    /// The memory is shorter than the data.
    #[error("the request moves {needed} bytes, its memory has {given}")]
    Memory {
        /// Bytes of data.
        needed: u32,
        /// Bytes of memory.
        given: u64,
    },
}

/// What there is to know of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Bytes.
    pub size: u64,
    /// Offsets and lengths are multiples of it.
    pub block_len: u32,
    /// The most bytes of one request.
    pub max_request: u32,
    /// Nothing may be written.
    pub is_read_only: bool,
    /// What is written may be in a cache before a flush.
    pub has_cache: bool,
}

/// What happened to the connection of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event<F> {
    /// Requests can be submitted.
    Ready,
    /// It has ended; `None` when that was asked for.
    Ended(Option<F>),
}

/// One connection to one disk.
pub trait Client {
    /// Why the peer does not do what it is asked for.
    type Error: Error;

    /// Why a connection ends.
    type Failure: Error;

    /// What there is to know of the disk, once requests can be submitted.
    fn geometry(&self) -> Option<Geometry>;

    /// Requests that may be in flight.
    fn depth(&self) -> u16;

    /// Takes a request. `memory` is where the data of a read goes, or where that of a write comes from: registered with the stack, of at
    /// least the data's length, and not to be touched until the completion. At most
    /// [`MAX_RR_SLICES`](nic::ring::MAX_RR_SLICES) slices can be placed into by the NIC.
    ///
    /// # Errors
    /// Why it was not taken.
    fn submit(&mut self, access: Access, memory: &[Slice]) -> Result<RequestId, SubmitError>;

    /// A request that is complete. Its memory is the caller's again.
    fn poll_completion(&mut self) -> Option<Completion<Self::Error>>;

    /// What happened to the connection.
    fn poll_event(&mut self) -> Option<Event<Self::Failure>>;

    /// Whether the connection has ended, or was never there.
    fn is_ended(&self) -> bool;

    /// Ends the connection once the requests in flight are answered; [`Event::Ended`] follows.
    fn shutdown(&mut self);

    /// When to call [`poll`](Self::poll) again, if the stack has no event before.
    fn poll_timeout(&self) -> Option<Instant>;

    /// Takes in an event of the stack. Whether it was about this connection.
    fn handle_event(&mut self, now: Instant, stack: &mut Stack, event: &crate::Event) -> bool;

    /// Moves what can be moved. Whether anything was done.
    fn poll(&mut self, now: Instant, stack: &mut Stack) -> bool;
}
