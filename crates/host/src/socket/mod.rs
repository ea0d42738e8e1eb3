//! Sockets: full control blocks, and the table that they and the quasi ones live in.

mod content;
mod deliver;
mod noted;
mod owner;
mod progress;
mod protocols;
pub(crate) mod quasi;
mod recv;
mod send;
mod state;
mod table;
mod transmit;

use std::net::IpAddr;
use std::time::Instant;

use tcp::{Connection, SendQueue};
use wire::FlowKey;

use crate::driver::Payload;
use crate::events::EventKinds;
use crate::handoff::policy;
use crate::link::Hop;
use crate::memory::MemoryClass;
use crate::pdus::PduStream;
use crate::stream::Stream;
use crate::tls::Tls;
use crate::{CloseReason, ListenerId, probing};

pub(crate) use content::Read;
pub(crate) use noted::Noted;
pub(crate) use owner::{OffloadedConnection, Owner, Phase, PostedRequests, Recover};
pub(crate) use owner::{SplicePart, TeardownPhase};
pub(crate) use progress::Progress;
pub(crate) use state::{Membership, ReceiveSide, SendSide};
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
    /// Where its packets go on the link.
    pub route: Route,
    /// The earliest entry that the stack's timers have of this socket.
    pub armed: Option<Instant>,
    pub membership: Membership,
    /// Events that its application has not been given yet.
    pub pending: EventKinds,
    /// Events that its application waits for.
    pub awaited: EventKinds,
    /// The connection's end, once it has come.
    pub ended: Option<Box<CloseReason>>,
    pub user: User,
    /// Who runs the connection.
    pub owner: Owner,
    pub receive: ReceiveSide,
    pub sending: SendSide,
    /// A router has said so while the connection was being opened.
    pub is_unreachable: bool,
    /// What the handoff policy knows of it.
    pub record: policy::Record,
    /// What memory it may have when that is short.
    pub memory_class: MemoryClass,
    /// Where it stood when it had last got on, as far as that was looked at.
    pub progress: Option<Progress>,
    /// The application protocol that the TLS handshake agreed on.
    pub alpn: Option<Vec<u8>>,
}

/// Where packets go on the link.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Route {
    pub next_hop: IpAddr,
    /// The neighbour, once it was looked up.
    pub hop: Option<Hop>,
}

/// Who has the use of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum User {
    /// A listener: not established, or not accepted yet.
    Listener(ListenerId),
    /// The application.
    Application,
    /// The application has given it up: it goes when TCP is done.
    Released,
}

impl User {
    /// Where it waits for `accept`.
    pub fn listener(self) -> Option<ListenerId> {
        match self {
            User::Listener(listener) => Some(listener),
            User::Application | User::Released => None,
        }
    }
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
            route: Route {
                next_hop,
                hop: None,
            },
            armed: None,
            membership: Membership::FLOW,
            pending: EventKinds::default(),
            awaited: EventKinds::READABLE,
            ended: None,
            user,
            owner: Owner::Host,
            receive: ReceiveSide::Unanchored,
            sending: SendSide::Open,
            is_unreachable: false,
            record: policy::Record::default(),
            memory_class: MemoryClass::default(),
            progress: None,
            alpn: None,
        }
    }

    /// It is over, for this reason.
    pub fn end(&mut self, reason: CloseReason) {
        if self.ended.is_none() {
            probing::connection_closed(&self.flow, || (&reason).into());
        }
        self.ended = Some(Box::new(reason));
    }

    /// What comes from now on is thrown away; so is what has come. Answers how many bytes of that were in order.
    pub fn discard_input(&mut self) -> u32 {
        self.receive = ReceiveSide::Discarding;
        self.stream.clear()
    }
}
