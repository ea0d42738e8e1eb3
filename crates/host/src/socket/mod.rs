//! Sockets, and the table that they live in.

mod recv;
mod segment;
mod send;
mod stream;

use std::net::IpAddr;
use std::time::Instant;

use tcp::{Connection, SendQueue};
use wire::FlowKey;

use crate::accel::Part;
use crate::driver::Payload;
use crate::events::Pending;
use crate::neighbour::Hop;
use crate::nvme::PduStream;
use crate::tls::Tls;
use crate::{CloseReason, ListenerId, SocketId};

pub use recv::ReadChunk;
pub(crate) use segment::{Marks, Placed, Segment};
pub(crate) use stream::Stream;

/// One connection and what the application has of it.
#[derive(Debug)]
pub(crate) struct Socket {
    pub tcp: Connection,
    /// From this host to the peer.
    pub flow: FlowKey,
    pub send: SendQueue<Payload>,
    pub stream: Stream,
    pub tls: Tls,
    /// The PDUs that it carries, if it does.
    pub pdus: Option<Box<PduStream>>,
    /// Where packets go on the link.
    pub next_hop: IpAddr,
    pub hop: Option<Hop>,
    /// The earliest entry that [`Timers`](crate::timers::Timers) has of this socket.
    pub armed: Option<Instant>,
    /// The listener that it waits at for `accept`.
    pub listener: Option<ListenerId>,
    pub pending: Pending,
    /// The connection's end, once it has come.
    pub ended: Option<Box<CloseReason>>,
    pub owner: Owner,
    /// In the queue of sockets that may have something to send.
    pub is_ready: bool,
    /// The application has found nothing to read since the last `Readable`.
    pub wants_read: bool,
    /// The application has found no room to write since the last `Writable`.
    pub wants_write: bool,
    /// The application wants no more from the peer, or cannot use it: what comes is thrown away.
    pub deaf: bool,
    /// The application has closed its direction.
    pub shut: bool,
    /// The position of the peer's first byte is known.
    pub is_anchored: bool,
    /// The peer will send no more.
    pub peer_fin: bool,
    /// TCP is done: segments of the flow are no longer for this socket.
    pub is_unhooked: bool,
    /// An alert must reach the peer before what it still sends may be answered by a reset.
    pub lingers: bool,
    /// Waits for the next hop's address.
    pub awaits_hop: bool,
    /// Waits for memory.
    pub is_starved: bool,
    /// The splice that it is a part of.
    pub splice: Option<Part>,
    /// The application protocol that the TLS handshake agreed on.
    pub alpn: Option<Vec<u8>>,
}

/// Who holds a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// A listener: not established, or not accepted yet.
    Listener,
    /// The application.
    Application,
    /// Nobody: it goes when TCP is done.
    Nobody,
}

impl Socket {
    pub fn new(tcp: Connection, flow: FlowKey, next_hop: IpAddr, owner: Owner) -> Self {
        let start = tcp.write_seq();
        Self {
            stream: Stream::new(tcp.rcv_nxt()),
            tcp,
            flow,
            send: SendQueue::new(start),
            tls: Tls::None,
            pdus: None,
            next_hop,
            hop: None,
            armed: None,
            listener: None,
            pending: Pending::default(),
            ended: None,
            owner,
            is_ready: false,
            wants_read: true,
            wants_write: false,
            deaf: false,
            shut: false,
            is_anchored: false,
            peer_fin: false,
            is_unhooked: false,
            lingers: false,
            awaits_hop: false,
            is_starved: false,
            splice: None,
            alpn: None,
        }
    }

    /// The NIC has the connection, or is about to: nothing is sent for it, and no timer runs.
    #[inline]
    pub fn is_given_away(&self) -> bool {
        self.splice.is_some_and(|part| part.is_given_away)
    }
}

/// Every socket of the stack, by id.
#[derive(Debug, Default)]
pub(crate) struct Sockets {
    slots: Vec<Slot>,
    free: Vec<u32>,
    len: u32,
}

#[derive(Debug)]
struct Slot {
    generation: u32,
    socket: Option<Box<Socket>>,
}

impl Sockets {
    pub fn len(&self) -> u32 {
        self.len
    }

    pub fn insert(&mut self, socket: Socket) -> SocketId {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot {
                generation: 0,
                socket: None,
            });
            self.slots.len() as u32 - 1
        });
        let slot = &mut self.slots[index as usize];
        slot.socket = Some(Box::new(socket));
        self.len += 1;
        SocketId {
            index,
            generation: slot.generation,
        }
    }

    #[inline]
    pub fn get(&self, id: SocketId) -> Option<&Socket> {
        let slot = self.slots.get(id.index as usize)?;
        slot.socket
            .as_deref()
            .filter(|_| slot.generation == id.generation)
    }

    #[inline]
    pub fn get_mut(&mut self, id: SocketId) -> Option<&mut Socket> {
        let slot = self.slots.get_mut(id.index as usize)?;
        slot.socket
            .as_deref_mut()
            .filter(|_| slot.generation == id.generation)
    }

    /// The id of the socket at a place, which must be taken.
    #[inline]
    pub fn id_at(&self, index: u32) -> Option<SocketId> {
        let slot = self.slots.get(index as usize)?;
        slot.socket.is_some().then_some(SocketId {
            index,
            generation: slot.generation,
        })
    }

    pub fn remove(&mut self, id: SocketId) -> Option<Box<Socket>> {
        let slot = self.slots.get_mut(id.index as usize)?;
        if slot.generation != id.generation {
            return None;
        }
        let socket = slot.socket.take()?;
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(id.index);
        self.len -= 1;
        Some(socket)
    }

    /// Every socket with its id, in the order of the table.
    pub fn iter(&self) -> impl Iterator<Item = (SocketId, &Socket)> {
        self.slots.iter().enumerate().filter_map(|(index, slot)| {
            let id = SocketId {
                index: index as u32,
                generation: slot.generation,
            };
            slot.socket.as_deref().map(|socket| (id, socket))
        })
    }
}
