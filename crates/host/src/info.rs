//! A socket's figures, as `ss -ti` shows them.

use std::fmt;
use std::net::SocketAddr;

use crate::{SocketId, TlsInfo};

/// Who holds a connection, or answers for a listener, and in what form.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Holder {
    /// The host, with a full control block.
    #[default]
    Host,
    /// The host, with a quasi control block: the NIC has set the connection up and it has not needed more since (AccelTCP,
    /// "Lazy TCB Creation").
    HostQuasi,
    /// The NIC: it answers a listener's SYNs, or finishes or relays a connection.
    Nic,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Host => "host",
            Self::HostQuasi => "host-quasi",
            Self::Nic => "nic",
        })
    }
}

/// A socket's memory in bytes, named as in the `skmem` of `ss -m`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SocketMemory {
    /// `r`: blocks that hold what was received and not read, in order or not.
    pub received: u64,
    /// `rb`: the receive buffer as it stands.
    pub receive_buffer: u64,
    /// `t`: queued and not acknowledged.
    pub queued: u64,
    /// `tb`: what may be queued as the path and the stack's memory stand.
    pub send_buffer: u64,
}

/// One socket or listener, as `ss -ti` shows it.
#[derive(Clone, Debug)]
pub struct SocketInfo {
    /// The socket; `None` for a listener.
    pub id: Option<SocketId>,
    /// State by its name in RFC 9293, as `ss` writes it: `ESTAB`, `LISTEN`, `FIN-WAIT-1`, ….
    pub state: &'static str,
    /// Who holds it: the host or the NIC.
    pub holder: Holder,
    /// The other socket of its splice, if it is, or is about to be, part of one.
    pub spliced: Option<SocketId>,
    /// This side's address.
    pub local: SocketAddr,
    /// The peer's address; unspecified for a listener.
    pub remote: SocketAddr,
    /// Bytes received that the application has not read; for a listener, connections to accept.
    pub receive_queue: usize,
    /// Bytes queued that the peer has not acknowledged; for a listener, its backlog.
    pub send_queue: usize,
    /// What it has of the stack's memory, and may have.
    pub memory: SocketMemory,
    /// TCP's own figures; `None` for a listener.
    pub tcp: Option<tcp::ConnectionInfo>,
    /// The TLS session, if there is one.
    pub tls: Option<TlsInfo>,
}
