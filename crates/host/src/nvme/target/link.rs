//! Connections: from accept to close.

use std::time::Instant;

use handshake::nvme_psk::Identity;
use l5p::nvme::target::{ConnectionId, PskIdentity, Source};
use nic::ring::Slice;
use wire::nvme::{FatalError, FatalErrorStatus, Pdu, Role, TermReq};

use super::sink::Sink;
use super::{Client, LIMITED, Target};
use crate::nvme::{Framing, Negotiated, opening};
use crate::pdus::PduData;
use crate::stack::Stack;
use crate::{CloseReason, ListenerId, SocketError, SocketId, TlsRole};

/// A connection on which PDUs flow.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) socket: SocketId,
    pub(super) connection: ConnectionId,
    pub(super) writable: bool,
    /// Where the data that is coming goes.
    slice: Option<Slice>,
}

impl Link {
    /// Ends the connection of a host that does not send what was asked of it. There is no status for that but this one
    /// (NVMe/TCP 1.0 §3.5.1). The host is to close the connection when it has read that; if it does not in time, it is reset.
    pub(super) fn terminate(&self, now: Instant, stack: &mut Stack) -> Result<(), SocketError> {
        let request = Pdu::C2HTermReq(TermReq {
            error: FatalError::of(FatalErrorStatus::SEQUENCE),
            data_len: 0,
        });
        match stack.send_pdu::<Framing>(now, self.socket, &request, PduData::None) {
            Ok(()) => stack.close_when_delivered(now, self.socket),
            Err(_) => stack.abort(now, self.socket),
        }
    }
}

impl Target {
    pub(super) fn accept(&mut self, now: Instant, stack: &mut Stack, listener: ListenerId) {
        while let Some(socket) = stack.accept(listener) {
            if self.sockets.len() <= socket.index() {
                self.sockets.resize_with(socket.index() + 1, || None);
            }
            let Some(tls) = &self.options.tls else {
                self.open(now, stack, socket, None);
                continue;
            };
            let role = TlsRole::PskServer {
                config: tls.clone(),
            };
            match stack.start_tls(now, socket, role, self.options.tls_offload) {
                Ok(()) => {
                    let deadline = now + self.machine.config().limits.handshake;
                    self.sockets[socket.index()] = Some(Client::Securing(socket));
                    self.securing.push_back((deadline, socket));
                    self.end_oldest_handshake(now, stack);
                }
                Err(error) => {
                    tracing::info!(%error, "no TLS");
                    let _ = stack.abort(now, socket);
                }
            }
        }
    }

    /// The TLS handshake is done: the key says who the host is.
    pub(super) fn secured(&mut self, now: Instant, stack: &mut Stack, socket: SocketId) {
        // Whatever becomes of it now, its handshake has not failed.
        self.end_handshake(socket);
        let identity = stack.psk_identity(socket).and_then(Identity::parse);
        match identity {
            Some(Identity {
                host, subsystem, ..
            }) => self.open(now, stack, socket, Some(PskIdentity { host, subsystem })),
            None => {
                tracing::info!("a host has no identity");
                self.forget(now, stack, socket);
            }
        }
    }

    /// The handshake is over, however it went: nothing is kept of it, so those that are under way are all that is looked at.
    fn end_handshake(&mut self, socket: SocketId) {
        self.sockets[socket.index()] = None;
        self.securing.retain(|(_, other)| *other != socket);
    }

    /// Ends the oldest TLS handshake, if there are more of them under way than there may be.
    fn end_oldest_handshake(&mut self, now: Instant, stack: &mut Stack) {
        if self.securing.len() > self.machine.config().limits.pending
            && let Some(&(_, oldest)) = self.securing.front()
        {
            self.counters.handshakes_evicted += 1;
            tracing::warn!(target: LIMITED, "a connection is closed in its TLS handshake, and others came");
            self.end_handshake(oldest);
            let _ = stack.abort(now, oldest);
        }
    }

    /// Ends the connections of hosts that were silent in the handshake. Whether there were any.
    pub(super) fn end_slow_handshakes(&mut self, now: Instant, stack: &mut Stack) -> bool {
        let mut progress = false;
        while let Some(&(deadline, socket)) = self.securing.front() {
            if deadline > now {
                break;
            }
            self.counters.handshakes_timed_out += 1;
            tracing::info!("a connection is closed: its TLS handshake was not done in time");
            self.end_handshake(socket);
            let _ = stack.abort(now, socket);
            progress = true;
        }
        progress
    }

    fn open(
        &mut self,
        now: Instant,
        stack: &mut Stack,
        socket: SocketId,
        identity: Option<PskIdentity>,
    ) {
        let Some(connection) = self.machine.accept(now, identity) else {
            self.counters.refused += 1;
            tracing::warn!(target: LIMITED, "a connection is reset: stores still work for too many that are gone");
            let _ = stack.abort(now, socket);
            return;
        };
        // Another one may be closed for it.
        self.act(now, stack);
        // Responses must not wait for the acknowledgement of what was sent before.
        let started = stack
            .set_nodelay(socket, true)
            .and_then(|()| stack.start_pdus(now, socket, opening(Role::Controller)));
        if let Err(error) = started {
            tracing::debug!(%error, "no PDUs");
            self.machine.handle_closed(connection);
            let _ = stack.abort(now, socket);
            return;
        }
        self.sockets[socket.index()] = Some(Client::Open(socket, connection));
        self.links[connection.index()] = Some(Link {
            socket,
            connection,
            writable: true,
            slice: None,
        });
        self.receive(now, stack, connection);
    }

    /// Takes in what came.
    pub(super) fn receive(&mut self, now: Instant, stack: &mut Stack, connection: ConnectionId) {
        let link = self.links[connection.index()].as_mut();
        let Some(link) = link.filter(|link| link.connection == connection) else {
            return;
        };
        let mut sink = Sink {
            now,
            connection,
            machine: &mut self.machine,
            memories: &self.memories,
            slice: &mut link.slice,
        };
        match stack.receive_pdus(now, link.socket, &mut sink) {
            Ok(_) | Err(SocketError::WouldBlock) => {}
            Err(SocketError::Closed(CloseReason::Graceful)) => {
                self.lose(now, stack, connection, "the host closed it");
            }
            Err(error) => self.lose(now, stack, connection, &error.to_string()),
        }
    }

    /// Sends what there is to send on the connection of this place, as far as there is room.
    pub(super) fn send(&mut self, now: Instant, stack: &mut Stack, index: usize) -> bool {
        let Some(link) = &mut self.links[index] else {
            return false;
        };
        let (socket, connection) = (link.socket, link.connection);
        if !link.writable || !self.machine.has_pdu(connection) {
            return false;
        }
        let mut progress = false;
        while let Some(outgoing) = self.machine.peek_pdu(now, connection) {
            let pdu = outgoing.pdu;
            let mut of_command = None;
            let slice;
            let data = match outgoing.data {
                Source::None => PduData::None,
                Source::Bytes(bytes) => PduData::Bytes(bytes),
                Source::Command {
                    command,
                    offset,
                    len,
                } => {
                    of_command = Some(command);
                    slice = [self.memories.slice(command, offset, len)];
                    PduData::Slices(&slice)
                }
            };
            match stack.send_pdu::<Framing>(now, socket, &pdu, data) {
                Ok(()) => {}
                Err(SocketError::WouldBlock) => {
                    link.writable = false;
                    return progress;
                }
                Err(error) => {
                    self.lose(now, stack, connection, &error.to_string());
                    return true;
                }
            }
            progress = true;
            if let Some(command) = of_command {
                self.memories.sent(command, pdu.data_len());
            }
            self.machine.pdu_sent(connection);
            if matches!(pdu, Pdu::ICResp(_)) {
                self.negotiated(now, stack, connection);
                return true;
            }
        }
        progress
    }

    /// The ICResp is on its way: what it says holds from now on.
    fn negotiated(&mut self, now: Instant, stack: &mut Stack, connection: ConnectionId) {
        let Some(agreed) = self.machine.negotiated(connection) else {
            return;
        };
        let limits = &self.machine.config().limits;
        let negotiated = Negotiated {
            digests: agreed.digests,
            hpda: agreed.alignment,
            cpda: 0,
            max_pdu: limits.max_pdu(),
            commands: limits.queue_entries as u16,
            offload: self.options.offload,
        };
        let Some(link) = &self.links[connection.index()] else {
            return;
        };
        match stack.pdus_negotiated(now, link.socket, negotiated.seen_by(Role::Controller)) {
            // What came meanwhile may be taken in now.
            Ok(()) => self.receive(now, stack, connection),
            Err(error) => self.lose(now, stack, connection, &error.to_string()),
        }
    }

    /// The connection is gone, or is to go.
    pub(super) fn lose(
        &mut self,
        now: Instant,
        stack: &mut Stack,
        connection: ConnectionId,
        why: &str,
    ) {
        self.machine.handle_closed(connection);
        // The NIC is told to leave the memory of its commands alone while the socket is there.
        self.act(now, stack);
        if let Some(link) = self.take_link(connection) {
            tracing::debug!("a connection ended: {why}");
            let _ = stack.close(now, link.socket);
        }
    }

    /// Lets go of a socket that is no queue.
    pub(super) fn forget(&mut self, now: Instant, stack: &mut Stack, socket: SocketId) {
        self.end_handshake(socket);
        let _ = stack.close(now, socket);
    }

    /// Takes the link of a connection out of the tables.
    pub(super) fn take_link(&mut self, connection: ConnectionId) -> Option<Link> {
        let place = &mut self.links[connection.index()];
        let link = place.take_if(|link| link.connection == connection)?;
        let client = &mut self.sockets[link.socket.index()];
        if matches!(client, Some(Client::Open(socket, _)) if *socket == link.socket) {
            *client = None;
        }
        Some(link)
    }
}
