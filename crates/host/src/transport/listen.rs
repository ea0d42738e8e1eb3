//! Listening, and the connections that peers open.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

use nic::ring::accel::ListenRuleId;
use probes::Opener;
use tcp::{Connection, Cookies, ListenConfig};
use wire::packet::Parsed;

use super::{Listening, Transport, TransportEvent};
use crate::events::{EventKinds, Source};
use crate::keyed::derive;
use crate::socket::{ReceiveSide, Socket, User};
use crate::{ListenOptions, ListenerId, SocketError, SocketId, probing};

impl Transport {
    /// Listens on an address of this host, or on all of a family with the unspecified address.
    ///
    /// # Errors
    /// When the address is not the host's, or in use.
    pub fn listen(
        &mut self,
        address: SocketAddr,
        options: ListenOptions,
    ) -> Result<ListenerId, SocketError> {
        if !address.ip().is_unspecified() && !self.link.interface.is_own(address.ip()) {
            return Err(SocketError::AddressNotLocal(address.ip()));
        }
        if self
            .listeners
            .iter()
            .any(|(_, listening)| listening.address == address)
        {
            return Err(SocketError::AddressInUse(address));
        }
        let mut connection = self.config.tcp.clone();
        connection.mss = self.link.interface.mss(address.is_ipv4());
        let config = ListenConfig {
            connection,
            backlog: u32::try_from(options.backlog).unwrap_or(u32::MAX),
            cookies: if options.always_cookies {
                Cookies::Always
            } else {
                Cookies::OnOverflow
            },
        };
        let mut tcp = tcp::Listener::new(
            self.config.epoch.unwrap_or(self.last_poll),
            config,
            derive(&self.config.secret, 3),
            self.isn.clone(),
        );
        if self.config.epoch.is_some() {
            tcp.expect_cookies(self.last_poll);
        }
        let id = self.listeners.insert(Listening {
            address,
            tcp,
            backlog: options.backlog,
            accel: options.accel,
            defer: options.defer,
            waiting: VecDeque::new(),
            notified: false,
        });
        Ok(id)
    }

    /// The next established connection of a listener, with the rule by which the NIC has handed it up.
    pub fn accept(&mut self, id: ListenerId) -> Option<(SocketId, Option<ListenRuleId>)> {
        let listening = self.listeners.get_mut(id)?;
        let (accepted, rule) = listening.waiting.pop_front()?;
        listening.tcp.accepted();
        if let Some(socket) = self.sockets.get_mut(accepted) {
            socket.user = User::Application;
            // What has come before it had an owner is told now.
            self.schedule.mark_ready(accepted, socket);
            if socket.tcp.urgent_ahead().is_some() {
                self.schedule.tell(accepted, socket, EventKinds::URGENT);
            }
            if socket.ended.is_some() {
                self.schedule.tell(accepted, socket, EventKinds::CLOSED);
            }
        }
        Some((accepted, rule))
    }

    /// Resets the connections that wait at a listener.
    pub fn abort_waiting(&mut self, listener: ListenerId) {
        let of_it = self.sockets.iter();
        let of_it = of_it.filter(|(_, socket)| socket.user == User::Listener(listener));
        let orphans: Vec<SocketId> = of_it.map(|(id, _)| id).collect();
        for orphan in orphans {
            if let Some(socket) = self.sockets.get_mut(orphan) {
                socket.user = User::Released;
                socket.tcp.abort();
                self.schedule.mark_ready(orphan, socket);
            }
        }
    }

    /// Adds a connection that a peer has opened.
    pub fn add_passive(
        &mut self,
        now: Instant,
        listener: ListenerId,
        mut connection: Connection,
        parsed: &Parsed,
        next_hop: IpAddr,
    ) -> SocketId {
        let flow = parsed.flow.reversed();
        if let Some(mss) = self.link.path_mtus.mss(now, flow.dst.0) {
            connection.handle_path_mss(now, mss);
        }
        let mut socket = Socket::new(connection, flow, next_hop, User::Listener(listener));
        socket.receive = ReceiveSide::Open;
        let most = self.device.queue_limits.window();
        socket.tcp.limit_receive_buffer(most);
        let id = self.sockets.insert(socket);
        self.demux.insert(&flow, id.index);
        self.mark_ready(id);
        id
    }

    /// A connection of a listener's became established.
    pub fn connection_waits(&mut self, listener: ListenerId, id: SocketId) {
        self.device.counters.tcp_passive_opens += 1;
        if let Some(socket) = self.sockets.get(id) {
            probing::connection_opened(|| socket.flow, Opener::Peer);
        }
        if self.listeners.established(listener, id) {
            self.schedule.events.push(Source::Listener(listener));
        }
    }

    /// A connection was established at a listener, by the NIC or by a cookie, as [`Listeners::admit`](super::Listeners::admit) has it.
    pub fn connection_admitted(
        &mut self,
        listener: ListenerId,
        id: SocketId,
        rule: Option<ListenRuleId>,
    ) {
        self.device.counters.tcp_passive_opens += 1;
        if let Some(socket) = self.sockets.get(id) {
            probing::connection_opened(|| socket.flow, Opener::PeerByCookie);
            self.events.push_back(TransportEvent::Established(id));
        } else if let Some((quasi, _)) = self.sockets.quasi(id) {
            let flow = || self.sockets.quasis.flow(quasi);
            probing::connection_opened(flow, Opener::PeerByCookie);
        }
        if self.listeners.admit(listener, id, rule) {
            self.schedule.events.push(Source::Listener(listener));
        }
    }
}
