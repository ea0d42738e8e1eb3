//! A socket's figures, as `ss -ti` shows them.

use std::net::SocketAddr;

use crate::accel::quasi::Flag;
use crate::socket::Socket;
use crate::{Holder, Offload, SocketId, Stack};

/// Whether one direction of a TLS session is offloaded now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OffloadState {
    /// Not asked for.
    Software,
    /// The NIC has a context for it.
    Device,
    /// Asked for, but the NIC has no room for a context or gave it up: software does it.
    FellBack,
}

/// The TLS session of a socket.
#[derive(Clone, Debug)]
pub struct TlsInfo {
    /// `TLSv1.2` or `TLSv1.3`.
    pub version: &'static str,
    /// Name of the AEAD, such as `AES-128-GCM`.
    pub cipher: &'static str,
    /// What the application asked for.
    pub asked: Offload,
    /// The state of transmit.
    pub transmit: OffloadState,
    /// The state of receive.
    pub receive: OffloadState,
    /// Records sent.
    pub records_sent: u64,
    /// Records received of which the NIC decrypted all.
    pub records_full: u64,
    /// Records received of which the NIC decrypted a part.
    pub records_partial: u64,
    /// Records received that software decrypted.
    pub records_none: u64,
    /// The NIC's questions whether there is a record at a sequence number.
    pub resync_requests: u64,
    /// Key updates done, of both directions.
    pub key_updates: u32,
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
    /// TCP's own figures; `None` for a listener.
    pub tcp: Option<tcp::ConnectionInfo>,
    /// The TLS session, if there is one.
    pub tls: Option<TlsInfo>,
}

impl Stack {
    /// Every listener and socket, listeners first, in the order of their tables.
    pub fn sockets(&self) -> impl Iterator<Item = SocketInfo> + '_ {
        let listeners = self.listeners.infos(&self.core.accel.rules);
        listeners.chain(self.sockets.ids().filter_map(|id| self.info(id)))
    }

    /// One socket.
    pub fn info(&self, id: SocketId) -> Option<SocketInfo> {
        match self.sockets.get(id) {
            Some(socket) => Some(self.describe(id, socket)),
            None => self.describe_quasi(id),
        }
    }

    fn describe(&self, id: SocketId, socket: &Socket) -> SocketInfo {
        SocketInfo {
            id: Some(id),
            state: socket.tcp.state().name(),
            holder: match socket.owner.is_nic() {
                true => Holder::Nic,
                false => Holder::Host,
            },
            spliced: self.spliced_with(socket),
            local: socket.flow.src_addr(),
            remote: socket.flow.dst_addr(),
            receive_queue: socket.stream.len() as usize,
            send_queue: socket.unacknowledged() as usize,
            tcp: Some(socket.tcp.info(self.core.last_poll)),
            tls: socket.tls.session().map(crate::tls::Session::info),
        }
    }

    /// A socket with a quasi control block, as the full one would be that it stands for.
    fn describe_quasi(&self, id: SocketId) -> Option<SocketInfo> {
        let (quasi, held) = self.sockets.quasi(id)?;
        let flow = self.sockets.quasis.flow(quasi);
        let (mut connection, segment) = self.revive(self.core.last_poll, id)?;
        if held.taken > 0 || quasi.is(Flag::PeerFin) {
            connection.handle_segment(self.core.last_poll, &segment, held.taken, 1);
        }
        Some(SocketInfo {
            id: Some(id),
            state: connection.state().name(),
            holder: if quasi.is(Flag::Handed) {
                Holder::Nic
            } else {
                Holder::HostQuasi
            },
            spliced: None,
            local: flow.src_addr(),
            remote: flow.dst_addr(),
            receive_queue: held.received.as_ref().map_or(0, |it| it.len()),
            send_queue: held.written.as_ref().map_or(0, |it| it.len()),
            tcp: Some(connection.info(self.core.last_poll)),
            tls: None,
        })
    }
}

impl Socket {
    /// Bytes queued that the peer has not acknowledged, without the FIN.
    fn unacknowledged(&self) -> u32 {
        let end = self.send.end();
        self.tcp.snd_una().min(end).distance_to(end)
    }
}
