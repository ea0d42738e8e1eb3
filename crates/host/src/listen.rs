//! Listeners, and the connections that wait at them.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

use nic::ring::accel::ListenRuleId;
use tcp::{AckAction, Connection, Cookies, ListenConfig, SynAction};
use wire::FlowKey;
use wire::packet::Parsed;
use wire::tcp::Header;

use crate::accel::Rules;
use crate::events::{Pending, Source};
use crate::socket::{Socket, User};
use crate::stack::{Stack, derive};
use crate::{Holder, ListenOptions, ListenerId, SocketError, SocketId, SocketInfo};

/// Every listener of the stack.
#[derive(Debug, Default)]
pub(crate) struct Listeners {
    slots: Vec<Slot>,
}

#[derive(Debug)]
struct Slot {
    generation: u32,
    listener: Option<Listening>,
}

#[derive(Debug)]
pub(crate) struct Listening {
    pub address: SocketAddr,
    pub tcp: tcp::Listener,
    pub backlog: usize,
    /// The NIC may answer for it, and hands connections up with their first bytes only.
    pub accel: bool,
    pub defer: bool,
    /// Established and not accepted, oldest first; with the rule by which the NIC has handed them up.
    waiting: VecDeque<(SocketId, Option<ListenRuleId>)>,
    /// The application has an event in store.
    notified: bool,
}

impl Listeners {
    /// The listener of a local address: one of the very address before one of all.
    pub fn find(&self, local: (IpAddr, u16)) -> Option<ListenerId> {
        let (ip, port) = local;
        let matching = |exact: bool| {
            self.iter().find(|(_, listening)| {
                let address = listening.address;
                let all = address.ip().is_unspecified() && address.is_ipv4() == ip.is_ipv4();
                address.port() == port && if exact { address.ip() == ip } else { all }
            })
        };
        matching(true).or_else(|| matching(false)).map(|(id, _)| id)
    }

    pub fn handle_syn(
        &mut self,
        now: Instant,
        id: ListenerId,
        flow: &FlowKey,
        syn: &Header,
    ) -> SynAction {
        match self.get_mut(id) {
            Some(listening) => listening.tcp.handle_syn(now, flow, syn),
            None => SynAction::Drop,
        }
    }

    pub fn handle_ack(
        &mut self,
        now: Instant,
        id: ListenerId,
        flow: &FlowKey,
        ack: &Header,
        has_room: bool,
    ) -> AckAction {
        match self.get_mut(id) {
            Some(listening) => listening.tcp.handle_ack(now, flow, ack, has_room),
            None => AckAction::Refuse,
        }
    }

    /// A connection became established. Answers whether the application must be told.
    pub fn established(&mut self, id: ListenerId, socket: SocketId) -> bool {
        let Some(listening) = self.get_mut(id) else {
            return false;
        };
        listening.tcp.established();
        listening.waiting.push_back((socket, None));
        !std::mem::replace(&mut listening.notified, true)
    }

    /// A connection was established at a listener by somebody else: by the NIC for the rule, or by the peer that has brought the
    /// listener's own cookie back, which the listener counts itself. Answers whether the application must be told.
    pub fn admit(&mut self, id: ListenerId, socket: SocketId, rule: Option<ListenRuleId>) -> bool {
        let Some(listening) = self.get_mut(id) else {
            return false;
        };
        if rule.is_some() {
            listening.tcp.admitted();
        }
        listening.waiting.push_back((socket, rule));
        !std::mem::replace(&mut listening.notified, true)
    }

    /// Whether another connection that the NIC has set up may wait at a listener. It has answered SYNs before it heard that the
    /// backlog is full; so as many more are taken, rather than peers left waiting that believe to be connected.
    pub fn has_room(&self, id: ListenerId) -> bool {
        self.get(id)
            .is_some_and(|listening| listening.waiting.len() < 2 * listening.backlog.max(1))
    }

    /// Settings of a listener's connections.
    pub fn connection_config(&self, id: ListenerId) -> Option<&tcp::Config> {
        self.get(id).map(|listening| listening.tcp.connection())
    }

    /// A connection ended before it was accepted. Gives the rule by which the NIC has handed it up.
    pub fn ended(&mut self, id: ListenerId, socket: SocketId) -> Option<ListenRuleId> {
        let listening = self.get_mut(id)?;
        let mut waiting = listening.waiting.iter();
        match waiting.position(|(waiting, _)| *waiting == socket) {
            Some(at) => {
                listening.tcp.accepted();
                listening.waiting.remove(at)?.1
            }
            None => {
                listening.tcp.failed();
                None
            }
        }
    }

    /// Takes the event in store. False if it is obsolete.
    pub fn take_notification(&mut self, id: ListenerId) -> bool {
        let Some(listening) = self.get_mut(id) else {
            return false;
        };
        std::mem::replace(&mut listening.notified, false) && !listening.waiting.is_empty()
    }

    pub fn infos(&self, rules: &Rules) -> impl Iterator<Item = SocketInfo> {
        self.iter().map(|(id, listening)| SocketInfo {
            id: None,
            state: "LISTEN",
            holder: if rules.answers_for(id) {
                Holder::Nic
            } else {
                Holder::Host
            },
            spliced: None,
            local: listening.address,
            remote: match listening.address {
                SocketAddr::V4(_) => SocketAddr::from(([0; 4], 0)),
                SocketAddr::V6(_) => SocketAddr::from(([0; 16], 0)),
            },
            receive_queue: listening.waiting.len(),
            send_queue: listening.backlog,
            tcp: None,
            tls: None,
        })
    }

    pub fn iter(&self) -> impl Iterator<Item = (ListenerId, &Listening)> {
        self.slots.iter().enumerate().filter_map(|(index, slot)| {
            let id = ListenerId {
                index: index as u32,
                generation: slot.generation,
            };
            slot.listener.as_ref().map(|listening| (id, listening))
        })
    }

    fn get(&self, id: ListenerId) -> Option<&Listening> {
        let slot = self.slots.get(id.index as usize)?;
        slot.listener
            .as_ref()
            .filter(|_| slot.generation == id.generation)
    }

    fn get_mut(&mut self, id: ListenerId) -> Option<&mut Listening> {
        let slot = self.slots.get_mut(id.index as usize)?;
        slot.listener
            .as_mut()
            .filter(|_| slot.generation == id.generation)
    }

    fn insert(&mut self, listening: Listening) -> ListenerId {
        let index = match self.slots.iter().position(|slot| slot.listener.is_none()) {
            Some(free) => free,
            None => {
                self.slots.push(Slot {
                    generation: 0,
                    listener: None,
                });
                self.slots.len() - 1
            }
        };
        let slot = &mut self.slots[index];
        slot.listener = Some(listening);
        ListenerId {
            index: index as u32,
            generation: slot.generation,
        }
    }

    fn remove(&mut self, id: ListenerId) -> Option<Listening> {
        let slot = self.slots.get_mut(id.index as usize)?;
        if slot.generation != id.generation {
            return None;
        }
        slot.generation = slot.generation.wrapping_add(1);
        slot.listener.take()
    }
}

impl Stack {
    /// Listens on an address of this host, or on all of a family with the unspecified address.
    ///
    /// # Errors
    /// [`AddressNotLocal`](SocketError::AddressNotLocal), [`AddressInUse`](SocketError::AddressInUse).
    pub fn listen(
        &mut self,
        address: SocketAddr,
        options: ListenOptions,
    ) -> Result<ListenerId, SocketError> {
        if !address.ip().is_unspecified() && !self.core.interface.is_local(address.ip()) {
            return Err(SocketError::AddressNotLocal(address.ip()));
        }
        if self
            .listeners
            .iter()
            .any(|(_, listening)| listening.address == address)
        {
            return Err(SocketError::AddressInUse(address));
        }
        let mut connection = self.core.config.tcp.clone();
        connection.mss = self.core.interface.mss(address.is_ipv4());
        let config = ListenConfig {
            connection,
            backlog: u32::try_from(options.backlog).unwrap_or(u32::MAX),
            cookies: if options.always_cookies {
                Cookies::Always
            } else {
                Cookies::OnOverflow
            },
        };
        let id = self.listeners.insert(Listening {
            address,
            tcp: tcp::Listener::new(
                self.core.last_poll,
                config,
                derive(&self.core.config.secret, 3),
            ),
            backlog: options.backlog,
            accel: options.accel,
            defer: options.defer,
            waiting: VecDeque::new(),
            notified: false,
        });
        self.sync_rules();
        Ok(id)
    }

    /// Where it listens.
    pub fn listener_address(&self, id: ListenerId) -> Option<SocketAddr> {
        self.listeners.get(id).map(|listening| listening.address)
    }

    /// The next established connection of a listener.
    pub fn accept(&mut self, id: ListenerId) -> Option<SocketId> {
        let listening = self.listeners.get_mut(id)?;
        let (accepted, rule) = listening.waiting.pop_front()?;
        listening.tcp.accepted();
        if let Some(rule) = rule {
            self.core.accel.rules.give_back(rule, Some(id));
        }
        if self.sockets.is_quasi(accepted) {
            self.accept_quasi(accepted);
            return Some(accepted);
        }
        if let Some(socket) = self.sockets.get_mut(accepted) {
            socket.user = User::Application;
            socket.listener = None;
            // What has come before it had an owner is told now.
            self.core.mark_ready(accepted, socket);
            if socket.ended.is_some() {
                self.core.tell(accepted, socket, Pending::CLOSED);
            }
        }
        Some(accepted)
    }

    /// Stops listening; connections not yet accepted are reset.
    ///
    /// # Errors
    /// [`NotFound`](SocketError::NotFound).
    pub fn close_listener(&mut self, id: ListenerId) -> Result<(), SocketError> {
        let listening = self.listeners.remove(id).ok_or(SocketError::NotFound)?;
        self.sync_rules();
        for (waiting, _) in listening.waiting {
            self.promote(self.core.last_poll, waiting);
        }
        let orphans: Vec<SocketId> = self
            .sockets
            .iter()
            .filter(|(_, socket)| socket.listener == Some(id))
            .map(|(socket_id, _)| socket_id)
            .collect();
        for orphan in orphans {
            if let Some(socket) = self.sockets.get_mut(orphan) {
                socket.user = User::Released;
                socket.listener = None;
                socket.tcp.abort();
                self.core.mark_ready(orphan, socket);
            }
        }
        Ok(())
    }

    /// Adds a connection that a peer has opened.
    pub(crate) fn add_passive(
        &mut self,
        listener: ListenerId,
        connection: Connection,
        parsed: &Parsed,
        next_hop: IpAddr,
    ) -> SocketId {
        let flow = parsed.flow.reversed();
        let mut socket = Socket::new(connection, flow, next_hop, User::Listener);
        socket.listener = Some(listener);
        socket.is_anchored = true;
        let id = self.sockets.insert(socket);
        self.core.demux.insert(&flow, id.index);
        if let Some(socket) = self.sockets.get_mut(id) {
            self.core.mark_ready(id, socket);
        }
        id
    }

    /// A connection of a listener's became established.
    pub(crate) fn connection_waits(&mut self, listener: ListenerId, id: SocketId) {
        self.core.counters.tcp_passive_opens += 1;
        if self.listeners.established(listener, id) {
            self.core.events.push(Source::Listener(listener));
        }
    }

    /// A connection was established at a listener by somebody else, as [`Listeners::admit`] has it.
    pub(crate) fn connection_admitted(
        &mut self,
        listener: ListenerId,
        id: SocketId,
        rule: Option<ListenRuleId>,
    ) {
        self.core.counters.tcp_passive_opens += 1;
        if let Some(socket) = self.sockets.get_mut(id) {
            let now = self.core.last_poll;
            self.core.established_for_policy(now, id, socket);
        }
        if self.listeners.admit(listener, id, rule) {
            self.core.events.push(Source::Listener(listener));
        }
    }
}
