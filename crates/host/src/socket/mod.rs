//! Sockets: full control blocks, and the table that they and the quasi ones live in.

mod owner;
mod recv;
mod segment;
mod send;
mod stream;
mod table;

use std::net::IpAddr;
use std::time::Instant;

use tcp::{Connection, SendQueue};
use wire::FlowKey;

use crate::driver::Payload;
use crate::events::Pending;
use crate::handoff::policy;
use crate::layer5::Noted;
use crate::neighbour::Hop;
use crate::pdus::PduStream;
use crate::tls::Tls;
use crate::{CloseReason, ListenerId};

pub(crate) use owner::{Owner, TeardownPhase};
pub use recv::ReadChunk;
pub(crate) use segment::{Marks, Placed, Segment};
pub(crate) use send::{LEAST_SEND_BUFFER, queue_bytes, queue_slices};
pub(crate) use stream::Stream;
pub(crate) use table::Sockets;

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
    /// What reads its content, if that takes notes of the NIC's.
    pub noted: Option<Noted>,
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
    pub user: User,
    /// Who runs the connection.
    pub owner: Owner,
    /// In the queue of sockets that may have something to send.
    pub is_ready: bool,
    /// The application has found nothing to read since the last `Readable`.
    pub wants_read: bool,
    /// The application has found no room to write since the last `Writable`.
    pub wants_write: bool,
    /// The application wants no more from the peer, or cannot use it: what comes is thrown away.
    pub discards_input: bool,
    /// The application has closed its direction.
    pub write_closed: bool,
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
    /// What the handoff policy knows of it.
    pub record: policy::Record,
    /// The application protocol that the TLS handshake agreed on.
    pub alpn: Option<Vec<u8>>,
}

/// Who has the use of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum User {
    /// A listener: not established, or not accepted yet.
    Listener,
    /// The application.
    Application,
    /// The application has given it up: it goes when TCP is done.
    Released,
}

impl Socket {
    pub fn new(tcp: Connection, flow: FlowKey, next_hop: IpAddr, user: User) -> Self {
        let start = tcp.write_seq();
        Self {
            stream: Stream::new(tcp.rcv_nxt()),
            tcp,
            flow,
            send: SendQueue::new(start),
            tls: Tls::None,
            pdus: None,
            noted: None,
            next_hop,
            hop: None,
            armed: None,
            listener: None,
            pending: Pending::default(),
            ended: None,
            user,
            owner: Owner::Host,
            is_ready: false,
            wants_read: true,
            wants_write: false,
            discards_input: false,
            write_closed: false,
            is_anchored: false,
            peer_fin: false,
            is_unhooked: false,
            lingers: false,
            awaits_hop: false,
            is_starved: false,
            record: policy::Record::default(),
            alpn: None,
        }
    }
}
