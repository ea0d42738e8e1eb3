//! Figures of sockets.

use crate::info::SocketMemory;
use crate::socket::Socket;
use crate::socket::quasi::Flag;
use crate::stack::Stack;
use crate::transport::Transport;
use crate::{Holder, SocketId, SocketInfo, tls};

impl Stack {
    /// Sockets that there are, without listeners and what is in TIME-WAIT.
    pub fn socket_count(&self) -> u32 {
        self.offload.transport.sockets.len()
    }

    /// Every listener and socket, listeners first, in the order of their tables.
    pub fn sockets(&self) -> impl Iterator<Item = SocketInfo> + '_ {
        let Transport {
            sockets, listeners, ..
        } = &self.offload.transport;
        let listeners = listeners.infos(|id| self.offload.listener_holder(id));
        listeners.chain(sockets.ids().filter_map(|id| self.info(id)))
    }

    /// One socket.
    pub fn info(&self, id: SocketId) -> Option<SocketInfo> {
        match self.offload.transport.sockets.get(id) {
            Some(socket) => Some(self.describe(id, socket)),
            None => self.describe_quasi(id),
        }
    }

    /// Bytes to read up to the end of the urgent data that the peer has told of (RFC 6093; what `SIOCATMARK` is for), whether they have come yet or not.
    /// `None` if the application has read past that, or there are none; urgent data that the peer sends while the NIC runs the connection are data as others,
    /// and those under TLS are not told of.
    pub fn urgent_ahead(&self, id: SocketId) -> Option<u64> {
        self.offload.transport.sockets.get(id)?.tcp.urgent_ahead()
    }

    fn describe(&self, id: SocketId, socket: &Socket) -> SocketInfo {
        SocketInfo {
            id: Some(id),
            state: socket.tcp.state().name(),
            holder: match socket.owner.is_nic() {
                true => Holder::Nic,
                false => Holder::Host,
            },
            spliced: self.offload.spliced_with(socket),
            local: socket.flow.src_addr(),
            remote: socket.flow.dst_addr(),
            receive_queue: socket.stream.len() as usize,
            send_queue: socket.unacknowledged() as usize,
            memory: SocketMemory {
                received: socket.stream.block_bytes(),
                receive_buffer: socket
                    .tcp
                    .info(self.offload.transport.last_poll)
                    .rcv_space
                    .into(),
                queued: socket.unacknowledged().into(),
                send_buffer: socket
                    .send_limit(self.offload.transport.device.queue_limits)
                    .into(),
            },
            tcp: Some(socket.tcp.info(self.offload.transport.last_poll)),
            tls: socket.tls.session().map(tls::Session::info),
        }
    }

    /// A socket with a quasi control block, as the full one would be that it stands for.
    fn describe_quasi(&self, id: SocketId) -> Option<SocketInfo> {
        let transport = &self.offload.transport;
        let now = transport.last_poll;
        let (quasi, held) = transport.sockets.quasi(id)?;
        let flow = transport.sockets.quasis.flow(quasi);
        let (mut connection, segment) = self.offload.revive(now, id)?;
        if held.taken > 0 || quasi.is(Flag::PeerFin) {
            connection.handle_segment(now, &segment, held.taken, 1);
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
            memory: SocketMemory::default(),
            tcp: Some(connection.info(now)),
            tls: None,
        })
    }
}
