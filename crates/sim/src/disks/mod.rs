//! Servers of one disk in memory, on host 1 of a world, for clients of NBD and iSCSI on host 0.
//!
//! They do what a client needs to be measured, and answer everything in the order in which it comes. The data of reads is sent from where it
//! lies, that of writes is received where it belongs.

mod iscsi;
mod nbd;

use std::net::SocketAddr;
use std::sync::Arc;

use host::pdus::PduProtocol;
use host::{Event, ListenOptions, ListenerId, SocketId, Stack};
use nic::ring::{Region, RegionId, Slice};

pub use iscsi::Iscsi;
pub use nbd::Nbd;

use crate::World;

/// Where servers listen.
const PORT: u16 = 3260;
/// Bytes of a block.
pub const BLOCK_LEN: u32 = 4096;

/// How a protocol serves a disk on one connection.
pub trait Serve: Sized {
    /// A connection has been accepted.
    fn new(stack: &mut Stack, socket: SocketId, now: std::time::Instant, disk: Disk) -> Self;

    /// Does what there is to do. Whether that was anything.
    fn poll(&mut self, stack: &mut Stack, now: std::time::Instant) -> bool;
}

/// The disk's memory.
#[derive(Clone, Debug)]
pub struct Disk {
    region: Arc<Region>,
    id: RegionId,
}

impl Disk {
    /// Bytes.
    pub fn size(&self) -> u64 {
        self.region.len() as u64
    }

    /// Some of its bytes. `None` where it has none.
    fn slice(&self, offset: u64, len: u32) -> Option<Slice> {
        let end = offset.checked_add(len.into())?;
        (end <= self.size()).then_some(Slice {
            region: self.id,
            offset,
            len,
        })
    }
}

/// A server with its connections.
pub struct DiskServer<S> {
    listener: ListenerId,
    disk: Disk,
    connections: Vec<S>,
}

impl<S: Serve> DiskServer<S> {
    /// A server of a disk of zeroes.
    ///
    /// # Panics
    /// When there is not so much memory.
    pub fn new(world: &mut World, bytes: u64) -> DiskServer<S> {
        let region = Arc::new(Region::anonymous(bytes as usize));
        let stack = world.stack(1);
        let id = stack.register(Arc::clone(&region), "the disk");
        let listener = stack.listen(Self::address(), ListenOptions::default());
        DiskServer {
            listener: listener.expect("the port is free"),
            disk: Disk {
                region,
                id: id.expect("there is memory"),
            },
            connections: Vec::new(),
        }
    }

    /// Where it listens.
    pub fn address() -> SocketAddr {
        SocketAddr::new(World::address(1, false), PORT)
    }

    /// Makes all of the disk zeroes.
    pub fn clear(&self) {
        let zeroes = vec![0; 1 << 20];
        for at in (0..self.disk.size()).step_by(zeroes.len()) {
            let len = zeroes.len().min((self.disk.size() - at) as usize);
            let written = self.disk.region.write(at, &zeroes[..len]);
            assert!(written, "inside of the region");
        }
    }

    /// Lets it do what it can now. Whether that was anything.
    pub fn poll(&mut self, world: &mut World) -> bool {
        let now = world.now();
        let stack = world.stack(1);
        while stack.poll_event().is_some() {}
        while let Some(socket) = stack.accept(self.listener) {
            let disk = self.disk.clone();
            self.connections.push(S::new(stack, socket, now, disk));
        }
        let mut moved = false;
        for connection in &mut self.connections {
            moved |= connection.poll(stack, now);
        }
        moved
    }
}

/// Lets a client on host 0, which has no other sockets, do what it can now. Whether that was anything.
pub fn poll_client(world: &mut World, client: &mut impl host::disk::Client) -> bool {
    let now = world.now();
    let stack = world.stack(0);
    let mut moved = false;
    while let Some(event) = stack.poll_event() {
        if let Event::Accepted(_) = event {
            continue;
        }
        moved |= client.handle_event(now, stack, &event);
    }
    moved | client.poll(now, stack)
}

/// PDUs that wait to be sent, in order.
struct Outbox<P: PduProtocol> {
    waiting: std::collections::VecDeque<(P::Pdu, Content)>,
}

/// Their data.
enum Content {
    None,
    Disk(Slice),
    Bytes(Vec<u8>),
}

impl<P: PduProtocol> Outbox<P> {
    fn new() -> Self {
        Self {
            waiting: std::collections::VecDeque::new(),
        }
    }

    fn push(&mut self, pdu: P::Pdu, content: Content) {
        self.waiting.push_back((pdu, content));
    }

    /// Sends what there is room for. Whether anything was sent.
    fn send(&mut self, stack: &mut Stack, socket: SocketId, now: std::time::Instant) -> bool {
        use host::pdus::PduData;
        let before = self.waiting.len();
        while let Some((pdu, content)) = self.waiting.front() {
            let sent = match content {
                Content::None => stack.send_pdu::<P>(now, socket, pdu, PduData::None),
                Content::Disk(slice) => {
                    stack.send_pdu::<P>(now, socket, pdu, PduData::Slices(&[*slice]))
                }
                Content::Bytes(bytes) => {
                    stack.send_pdu::<P>(now, socket, pdu, PduData::Bytes(bytes))
                }
            };
            if sent.is_err() {
                break;
            }
            self.waiting.pop_front();
        }
        self.waiting.len() < before
    }
}
