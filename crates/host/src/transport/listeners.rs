//! The table of listeners, and the connections that wait at each.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

use nic::ring::accel::ListenRuleId;
use tcp::AckAction;
use wire::FlowKey;
use wire::tcp::Header;

use crate::info::SocketMemory;
use crate::{Holder, ListenerId, SocketId, SocketInfo};

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
    pub waiting: VecDeque<(SocketId, Option<ListenRuleId>)>,
    /// The application has an event in store.
    pub notified: bool,
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

    /// A connection was established at a listener: by the NIC for the rule, or by the peer that has brought the
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

    /// Every listener's figures; `holder` says who answers for one.
    pub fn infos(&self, holder: impl Fn(ListenerId) -> Holder) -> impl Iterator<Item = SocketInfo> {
        self.iter().map(move |(id, listening)| SocketInfo {
            id: None,
            state: "LISTEN",
            holder: holder(id),
            spliced: None,
            local: listening.address,
            remote: match listening.address {
                SocketAddr::V4(_) => SocketAddr::from(([0; 4], 0)),
                SocketAddr::V6(_) => SocketAddr::from(([0; 16], 0)),
            },
            receive_queue: listening.waiting.len(),
            send_queue: listening.backlog,
            memory: SocketMemory::default(),
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

    pub fn get(&self, id: ListenerId) -> Option<&Listening> {
        let slot = self.slots.get(id.index as usize)?;
        slot.listener
            .as_ref()
            .filter(|_| slot.generation == id.generation)
    }

    pub fn get_mut(&mut self, id: ListenerId) -> Option<&mut Listening> {
        let slot = self.slots.get_mut(id.index as usize)?;
        slot.listener
            .as_mut()
            .filter(|_| slot.generation == id.generation)
    }

    pub fn insert(&mut self, listening: Listening) -> ListenerId {
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

    pub fn remove(&mut self, id: ListenerId) -> Option<Listening> {
        let slot = self.slots.get_mut(id.index as usize)?;
        if slot.generation != id.generation {
            return None;
        }
        slot.generation = slot.generation.wrapping_add(1);
        slot.listener.take()
    }
}
