//! The stack: its parts and the order in which a poll runs them.

use std::net::SocketAddr;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Instant;

use l5p::tls::CryptoInfo;
use nic::ring::{HostFunction, Region, RegionId, Slice};

use crate::{Event, ListenOptions, ListenerId, Offload, SocketError, SocketId, SocketInfo, StackConfig, TlsRole};

/// A host's TCP/IP and TLS on one function of the NIC. See the crate's root for the order of calls.
pub struct Stack {}

impl Stack {
    /// A stack on the function, with its memory registered and its receive buffers posted.
    pub fn new(_config: StackConfig, _function: HostFunction) -> Self { todo!() }
    /// Takes input, runs timers and posts output; answers whether it did anything.
    pub fn poll(&mut self, _now: Instant) -> bool { todo!() }
    /// When to poll again, if the NIC has nothing new before.
    pub fn poll_timeout(&self) -> Option<Instant> { todo!() }
    /// The next thing for the application to look at.
    pub fn poll_event(&mut self) -> Option<Event> { todo!() }
    /// Whether the NIC has put something on a receive ring that [`poll`](Self::poll) has not taken yet.
    pub fn has_input(&self) -> bool { todo!() }

    /// Listens on an address of this host, or on all of a family with the unspecified address.
    pub fn listen(&mut self, _address: SocketAddr, _options: ListenOptions) -> Result<ListenerId, SocketError> { todo!() }
    /// Stops listening; connections not yet accepted are reset.
    pub fn close_listener(&mut self, _now: Instant, _id: ListenerId) -> Result<(), SocketError> { todo!() }
    /// Where it listens.
    pub fn listener_address(&self, _id: ListenerId) -> Option<SocketAddr> { todo!() }
    /// The next established connection of a listener.
    pub fn accept(&mut self, _id: ListenerId) -> Option<SocketId> { todo!() }
    /// Opens a connection from an ephemeral port; `Connected` or `Closed` follows.
    pub fn connect(&mut self, _now: Instant, _remote: SocketAddr) -> Result<SocketId, SocketError> { todo!() }

    /// Copies bytes into the send queue; answers how many.
    pub fn write(&mut self, _now: Instant, _id: SocketId, _data: &[u8]) -> Result<usize, SocketError> { todo!() }
    /// Queues registered memory without a copy; answers how many bytes of it, from the front. The memory must not
    /// change until the peer has acknowledged it; if it does, the connection ends with
    /// [`CloseReason::SourceChanged`](crate::CloseReason::SourceChanged) and nothing of the change is sent.
    pub fn send_slices(&mut self, _now: Instant, _id: SocketId, _slices: &[Slice]) -> Result<usize, SocketError> { todo!() }
    /// Copies received bytes out; 0 is the end of the stream.
    pub fn read(&mut self, _now: Instant, _id: SocketId, _out: &mut [u8]) -> Result<usize, SocketError> { todo!() }
    /// The next received bytes in place; `None` is the end of the stream.
    pub fn read_chunk(&mut self, _now: Instant, _id: SocketId) -> Result<Option<ReadChunk>, SocketError> { todo!() }
    /// Ends this side's direction after what is queued (with close_notify under TLS); reading goes on.
    pub fn shutdown(&mut self, _now: Instant, _id: SocketId) -> Result<(), SocketError> { todo!() }
    /// Gives the socket up: what is queued is still sent, then the connection is closed; the id is invalid at once.
    pub fn close(&mut self, _now: Instant, _id: SocketId) -> Result<(), SocketError> { todo!() }
    /// Resets the connection; the id is invalid at once.
    pub fn abort(&mut self, _now: Instant, _id: SocketId) -> Result<(), SocketError> { todo!() }

    /// Starts a TLS handshake on a connected socket; `Secured` or `Closed` follows.
    pub fn start_tls(&mut self, _now: Instant, _id: SocketId, _role: TlsRole, _offload: Offload) -> Result<(), SocketError> { todo!() }
    /// Installs a TLS session whose keys both ends have agreed on elsewhere, from the next byte in each direction.
    pub fn install_tls(&mut self, _now: Instant, _id: SocketId, _transmit: CryptoInfo, _receive: CryptoInfo, _offload: Offload) -> Result<(), SocketError> { todo!() }
    /// Sends a KeyUpdate and goes over to a new transmit key (RFC 8446 §4.6.3); with `request_peer` the peer is
    /// asked to do the same.
    pub fn key_update(&mut self, _now: Instant, _id: SocketId, _request_peer: bool) -> Result<(), SocketError> { todo!() }
    /// Changes what the NIC does for this session, from the next record on.
    pub fn set_offload(&mut self, _now: Instant, _id: SocketId, _offload: Offload) -> Result<(), SocketError> { todo!() }

    /// Registers memory with the NIC for [`send_slices`](Self::send_slices), under a name for errors (a file's path).
    pub fn register(&mut self, _region: Arc<Region>, _name: &str) -> Result<RegionId, SocketError> { todo!() }
    /// Gives the region back once nothing in flight names it.
    pub fn unregister(&mut self, _id: RegionId) { todo!() }

    /// Every listener and socket, in the order of the table.
    pub fn sockets(&self) -> impl Iterator<Item = SocketInfo> + '_ { std::iter::empty() }
    /// One socket.
    pub fn info(&self, _id: SocketId) -> Option<SocketInfo> { todo!() }
    /// Payload that [`write`](Self::write) would take now, before framing, in bytes.
    pub fn send_space(&self, _id: SocketId) -> usize { todo!() }
    /// The stack's counters, named as in Linux where it has one.
    pub fn counters(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ { std::iter::empty() }
}

/// Received bytes in place, in a buffer that goes back to the NIC when this is dropped.
#[derive(Debug)]
pub struct ReadChunk {}

impl Deref for ReadChunk {
    type Target = [u8];
    fn deref(&self) -> &[u8] { todo!() }
}
