//! What may go wrong, for callers to act on and for users to read.

mod pdu;

use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};

use l5p::tls::Alert;

pub use pdu::PduError;

/// Why a call on the stack did not do what was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SocketError {
    /// Nothing to read, or no room to write; an event follows when there is.
    #[error("the call would block; wait for the socket's next event")]
    WouldBlock,
    /// The id was closed before, or never given by this stack.
    #[error("no such socket: it was closed")]
    NotFound,
    /// The connection is not established yet.
    #[error("the socket is not connected yet; wait for its `Connected` event")]
    NotConnected,
    /// This side has shut its direction down.
    #[error("the socket was shut down for writing")]
    SendClosed,
    /// The connection is over.
    #[error("{0}")]
    Closed(CloseReason),
    /// Another listener has the address.
    #[error("address {0} is in use by another listener; choose another port")]
    AddressInUse(SocketAddr),
    /// The address is not one of this host's.
    #[error("{0} is not an address of this stack; add it to its addresses (--ip)")]
    AddressNotLocal(IpAddr),
    /// No address of this host's can reach it.
    #[error("no route to {0}; give an address of its family (--ip), or a gateway (--gateway)")]
    NoRoute(IpAddr),
    /// Every ephemeral port towards this peer is taken.
    #[error("no free local port towards {0}; wait until connections end")]
    NoPort(SocketAddr),
    /// The stack has all the sockets that it may have.
    #[error("the stack is at its limit of {0} sockets; raise `max_sockets`")]
    TooManySockets(u32),
    /// The socket already has TLS on it.
    #[error("TLS was already started on this socket")]
    AlreadySecured,
    /// The NIC has the connection, or is about to.
    #[error("the socket is spliced; take the splice back with `unsplice` first")]
    Spliced,
    /// The call needs TLS on the socket.
    #[error("the socket has no TLS session; call `start_tls` and wait for `Secured`")]
    NotSecured,
    /// What was asked does not exist in this version of TLS, or not with keys installed from outside.
    #[error("{0}")]
    Unsupported(&'static str),
    /// The TLS configuration cannot be used.
    #[error("TLS can't start: {0}")]
    TlsConfig(String),
    /// A slice names memory that is not registered, or lies outside of it.
    #[error(
        "{len} bytes at {offset} of region {region} are not registered memory; register them first"
    )]
    BadSlice {
        /// The region's number.
        region: u16,
        /// Offset inside of it.
        offset: u64,
        /// Bytes asked for.
        len: u32,
    },
    /// The NIC has no room for another memory region.
    #[error("the NIC has no room for another memory region; unregister one first")]
    TooManyRegions,
    /// The system has no memory to share with the NIC.
    #[error("no memory: {0} bytes to share with the NIC")]
    NoMemory(usize),
    /// The NIC refused the memory.
    #[error(transparent)]
    RegionRefused(nic::ring::RegisterError),
}

/// Why a connection ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CloseReason {
    /// Both sides closed in order.
    #[error("connection closed")]
    Graceful,
    /// The peer sent a reset.
    #[error("connection reset by peer")]
    Reset,
    /// The peer does not listen there.
    #[error("connection refused")]
    Refused,
    /// The peer did not answer in time.
    #[error("connection timed out")]
    TimedOut,
    /// A router or the peer said that the peer can't be reached, or no neighbour has its address.
    #[error("host unreachable")]
    Unreachable,
    /// Another host on the link has this side's address (RFC 4862 §5.4).
    #[error("another host on the link has this one's address {0}")]
    DuplicateAddress(IpAddr),
    /// This side aborted it.
    #[error("connection aborted")]
    Aborted,
    /// This side aborted it since memory had run out, and the peer or the application had not got on for long.
    #[error("connection reset for want of memory: it made no progress")]
    NoMemory,
    /// The TLS session failed on this side; the alert was sent to the peer.
    #[error("TLS record {record} from the peer: {what}; sent alert {alert}")]
    Tls {
        /// Sent to the peer.
        alert: Alert,
        /// Number of the record under its key.
        record: u64,
        /// The failure in words.
        what: String,
    },
    /// The TLS handshake failed on this side.
    #[error("{0}")]
    Handshake(String),
    /// The peer ended the TLS session with an alert.
    #[error("the peer sent the TLS alert {}", Alert::from(*.0))]
    PeerAlert(u8),
    /// A PDU of the peer's breaks its protocol; the peer was told so if the protocol has a PDU for that.
    #[error("the peer sent a PDU that breaks {}: {}", .0.protocol(), .0)]
    Pdu(PduError),
    /// The peer has ended the connection by a PDU that says why, as NVMe/TCP's TermReq.
    #[error("the peer ended the {} connection: {}", .0.protocol(), .0)]
    PeerRefusedPdu(PduError),
    /// The peer ended TCP without close_notify: what was read may be cut short (RFC 8446 §6.1).
    #[error("the peer closed without close_notify; the data may be cut short")]
    Truncated,
    /// Memory of a zero-copy send changed between its transmission and its retransmission. Nothing of the changed
    /// plaintext was sent.
    #[error("{name} changed at offset {offset} while it was being sent")]
    SourceChanged {
        /// The region's name, as given when it was registered: a file's path.
        name: String,
        /// Where in the region the record begins that differs.
        offset: u64,
    },
    /// Memory of a zero-copy send went away: the file was cut short or its device failed.
    #[error("{name} became unreadable at or after offset {offset} while it was being sent")]
    SourceGone {
        /// The region's name.
        name: String,
        /// Where in the region the first byte lies that was not yet acknowledged.
        offset: u64,
    },
    /// The NIC refused a descriptor of this connection, and no software path could take its place.
    #[error("the NIC refused a descriptor: {0}")]
    Device(String),
    /// The NIC was reset while it had the connection, and the host does not know enough to go on.
    #[error("the NIC was reset while it had the connection")]
    NicReset,
}

impl SocketError {
    /// Whether this stack lacks something that it may have again later: memory, a port, a socket. It says nothing of the peer.
    pub fn is_shortage(&self) -> bool {
        matches!(
            self,
            Self::NoPort(_) | Self::TooManySockets(_) | Self::NoMemory(_)
        )
    }

    /// The kind that a socket of the operating system's would give.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::WouldBlock => ErrorKind::WouldBlock,
            Self::NotFound | Self::NotConnected => ErrorKind::NotConnected,
            Self::SendClosed => ErrorKind::BrokenPipe,
            Self::Closed(reason) => reason.kind(),
            Self::AddressInUse(_) => ErrorKind::AddrInUse,
            Self::AddressNotLocal(_) | Self::NoPort(_) => ErrorKind::AddrNotAvailable,
            Self::NoRoute(_) => ErrorKind::NetworkUnreachable,
            Self::TooManySockets(_) | Self::TooManyRegions => ErrorKind::QuotaExceeded,
            Self::NoMemory(_) => ErrorKind::OutOfMemory,
            Self::Unsupported(_) => ErrorKind::Unsupported,
            Self::AlreadySecured
            | Self::Spliced
            | Self::NotSecured
            | Self::TlsConfig(_)
            | Self::BadSlice { .. }
            | Self::RegionRefused(_) => ErrorKind::InvalidInput,
        }
    }
}

impl CloseReason {
    /// The kind that a socket of the operating system's would give.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Graceful => ErrorKind::BrokenPipe,
            Self::Reset => ErrorKind::ConnectionReset,
            Self::Refused => ErrorKind::ConnectionRefused,
            Self::TimedOut => ErrorKind::TimedOut,
            Self::Unreachable => ErrorKind::HostUnreachable,
            Self::DuplicateAddress(_) => ErrorKind::AddrNotAvailable,
            Self::Aborted | Self::NoMemory | Self::NicReset => ErrorKind::ConnectionAborted,
            Self::Truncated => ErrorKind::UnexpectedEof,
            Self::Tls { .. }
            | Self::Handshake(_)
            | Self::PeerAlert(_)
            | Self::Pdu(_)
            | Self::PeerRefusedPdu(_) => ErrorKind::InvalidData,
            Self::SourceChanged { .. } | Self::SourceGone { .. } | Self::Device(_) => {
                ErrorKind::Other
            }
        }
    }
}

impl From<tcp::CloseReason> for CloseReason {
    fn from(reason: tcp::CloseReason) -> CloseReason {
        match reason {
            tcp::CloseReason::Graceful => CloseReason::Graceful,
            tcp::CloseReason::Reset => CloseReason::Reset,
            tcp::CloseReason::Refused => CloseReason::Refused,
            tcp::CloseReason::TimedOut => CloseReason::TimedOut,
            tcp::CloseReason::Aborted => CloseReason::Aborted,
        }
    }
}

/// With the error itself inside: [`io::Error::get_ref`] gives it back.
impl From<SocketError> for io::Error {
    fn from(error: SocketError) -> io::Error {
        io::Error::new(error.kind(), error)
    }
}

/// As [`SocketError::Closed`].
impl From<CloseReason> for io::Error {
    fn from(reason: CloseReason) -> io::Error {
        SocketError::Closed(reason).into()
    }
}
