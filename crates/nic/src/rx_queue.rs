//! The queue of NIC packets: what was received for connections that the NIC runs, or is about to run, until it is their turn
//! (Connection handoff policies §3.1).
//!
//! ```text
//! receive ─▶ push ─▶ list of the connection ─┬─ released: in the round ─▶ pop ─▶ TCP ─▶ Delivered + Packet, or the buffer back
//!                                            └─ held: waits            ─▶ drain ─▶ host, as any packet
//! ```
//!
//! Each function has its own, so that a function does not fill another's. Packets lie in one slab of bounded size, each in the list of its
//! connection; what was placed of a packet follows it there. Within a connection the order is that of arrival; between
//! connections it is a round, one packet each. Payload is not here, it is in the host's buffers already; a packet
//! without payload has no buffer at all.

mod epochs;
mod list;
mod packet;

use crate::context::receive::placing::Placed;
use epochs::Epochs;
use list::{Item, List, NO_PACKETS, NONE, Round, Slot, Turn};
pub(crate) use packet::{NicPacket, Stored, Taken};

/// The queue of one function.
#[derive(Debug)]
pub(crate) struct RxQueue {
    /// Packets that it takes. As many slots again are for what was placed of them.
    limit: u32,
    /// Grows up to its capacity, which is reserved with the first connection.
    slots: Vec<Slot>,
    free: u32,
    used: u32,
    packets: u32,
    /// Packets and slots that packets in the making will take.
    promised: (u32, u32),
    /// By connection.
    lists: Vec<List>,
    round: Round,
    epochs: Epochs,
}

impl RxQueue {
    /// For at most `packets` at a time.
    pub(crate) fn new(packets: u32) -> RxQueue {
        RxQueue {
            limit: packets,
            slots: Vec::new(),
            free: NONE,
            used: 0,
            packets: 0,
            promised: (0, 0),
            lists: Vec::new(),
            round: Round {
                first: NONE,
                last: NONE,
            },
            epochs: Epochs::default(),
        }
    }

    /// The epoch of all that names a context or was placed and is in the queue now, which ends with that; `None` when there is nothing.
    pub(crate) fn end_epoch(&mut self) -> Option<u64> {
        self.epochs.end()
    }

    /// Whether all that names a context or was placed, up to the end of this epoch, has left the queue.
    pub(crate) fn has_passed(&self, epoch: u64) -> bool {
        self.epochs.has_passed(epoch)
    }

    /// The most packets that it takes from now on.
    pub(crate) fn set_limit(&mut self, packets: u32) {
        self.limit = packets;
    }

    /// Connections that it has places for.
    pub(crate) fn connections(&self) -> u32 {
        self.lists.len() as u32
    }

    /// Packets in it (Connection handoff policies: Qlen).
    pub(crate) fn len(&self) -> u32 {
        self.packets
    }

    /// Packets of one connection in it.
    pub(crate) fn len_of(&self, connection: u32) -> u32 {
        self.lists
            .get(connection as usize)
            .map_or(0, |list| list.packets)
    }

    /// Takes a connection in, by its number below the function's quota, whose flow is this queue's; its packets wait.
    pub(crate) fn open(&mut self, connection: u32, queue: u16) {
        let at = connection as usize;
        if self.slots.capacity() == 0 {
            self.slots.reserve_exact(self.slot_limit() as usize);
        }
        if self.lists.len() <= at {
            self.lists.resize(at + 1, NO_PACKETS);
        }
        debug_assert_eq!(self.lists[at].turn, Turn::Closed);
        self.lists[at].turn = Turn::Held;
        self.lists[at].queue = queue;
    }

    /// The queue of a connection's flow.
    pub(crate) fn queue_of(&self, connection: u32) -> usize {
        self.lists
            .get(connection as usize)
            .map_or(0, |list| list.queue.into())
    }

    /// Whether packets of this connection are taken.
    pub(crate) fn is_open(&self, connection: u32) -> bool {
        let list = self.lists.get(connection as usize);
        list.is_some_and(|list| list.turn != Turn::Closed)
    }

    /// Whether packets of this connection wait for it to be released.
    pub(crate) fn holds(&self, connection: u32) -> bool {
        let list = self.lists.get(connection as usize);
        list.is_some_and(|list| list.turn == Turn::Held)
    }

    /// From now on a connection's packets are worked off.
    pub(crate) fn release(&mut self, connection: u32) {
        let Some(list) = self.lists.get_mut(connection as usize) else {
            return;
        };
        if list.turn == Turn::Held {
            list.turn = Turn::Empty;
            if list.packets > 0 {
                self.enqueue(connection);
            }
        }
    }

    /// From now on they wait.
    pub(crate) fn hold(&mut self, connection: u32) {
        let Some(list) = self.lists.get_mut(connection as usize) else {
            return;
        };
        match std::mem::replace(&mut list.turn, Turn::Held) {
            Turn::Closed => list.turn = Turn::Closed,
            Turn::Queued => self.leave_round(connection),
            Turn::Held | Turn::Empty => {}
        }
    }

    /// Lets a connection go that has no more packets here.
    pub(crate) fn close(&mut self, connection: u32) {
        debug_assert_eq!(self.len_of(connection), 0, "they are somebody's");
        self.hold(connection);
        if let Some(list) = self.lists.get_mut(connection as usize) {
            list.turn = Turn::Closed;
        }
    }

    /// Whether there is room for one more packet, beside those that were promised room.
    pub(crate) fn has_room(&self) -> bool {
        let (packets, slots) = self.promised;
        self.packets + packets < self.limit && self.used + slots < self.slot_limit()
    }

    /// Parts that may be placed of the next packet.
    pub(crate) fn room_for_placed(&self) -> u32 {
        let taken = self.used + self.promised.1 + 1;
        self.slot_limit().saturating_sub(taken)
    }

    /// Keeps room for a packet with so many parts.
    pub(crate) fn promise(&mut self, placed: u32) {
        self.promised.0 += 1;
        self.promised.1 += 1 + placed;
    }

    /// Keeps room for more parts of a packet that was promised room.
    pub(crate) fn promise_placed(&mut self, placed: u32) {
        self.promised.1 += placed;
    }

    /// The packet with so many parts that was promised room comes now, or never.
    pub(crate) fn redeem(&mut self, placed: u32) {
        self.promised.0 -= 1;
        self.promised.1 -= 1 + placed;
    }

    /// Appends a packet and what was placed of it. False when there is no room, or its connection is not here.
    #[must_use]
    pub(crate) fn push(
        &mut self,
        connection: u32,
        packet: NicPacket,
        placed: impl Iterator<Item = Placed>,
    ) -> bool {
        let slots = 1 + u32::from(packet.placed());
        if !self.is_open(connection)
            || self.packets >= self.limit
            || self.used + slots > self.slot_limit()
        {
            return false;
        }
        let entered = packet.context().map(|_| self.epochs.enter());
        self.append(connection, Item::Packet(packet, entered));
        for part in placed.take(slots as usize - 1) {
            let entered = self.epochs.enter();
            self.append(connection, Item::Placed(part, entered));
        }
        self.packets += 1;
        let list = &mut self.lists[connection as usize];
        list.packets += 1;
        if list.turn == Turn::Empty {
            self.enqueue(connection);
        }
        true
    }

    /// Whether a packet may be worked off.
    pub(crate) fn has_work(&self) -> bool {
        self.round.first != NONE
    }

    /// The connection whose turn it is, and its next packet.
    pub(crate) fn peek(&self) -> Option<(u32, &NicPacket)> {
        let connection = self.round.first;
        let packet = self.front(connection)?;
        Some((connection, packet))
    }

    /// It is the next connection's turn.
    pub(crate) fn pass(&mut self) {
        let connection = self.round.first;
        if connection != NONE {
            self.leave_round(connection);
            self.enqueue(connection);
        }
    }

    /// The next packet of a connection, held or not.
    pub(crate) fn front(&self, connection: u32) -> Option<&NicPacket> {
        let list = self.lists.get(connection as usize)?;
        match &self.slots.get(list.first as usize)?.item {
            Item::Packet(packet, _) => Some(packet),
            _ => None,
        }
    }

    /// Takes the next packet of a connection out, held or not; `placed` gets what was placed of it. If it was this connection's
    /// turn, it is the next one's.
    pub(crate) fn take(
        &mut self,
        connection: u32,
        mut placed: impl FnMut(Placed),
    ) -> Option<NicPacket> {
        let list = self.lists.get(connection as usize)?;
        let Item::Packet(packet, entered) = self.slots.get(list.first as usize)?.item else {
            return None;
        };
        if let Some(entered) = entered {
            self.epochs.leave(entered);
        }
        self.drop_first(connection);
        for _ in 0..packet.placed() {
            let at = self.lists[connection as usize].first;
            let Some(Slot {
                item: Item::Placed(part, entered),
                ..
            }) = self.slots.get(at as usize).copied()
            else {
                break;
            };
            placed(part);
            self.epochs.leave(entered);
            self.drop_first(connection);
        }
        self.packets -= 1;
        let list = &mut self.lists[connection as usize];
        list.packets -= 1;
        if list.turn == Turn::Queued {
            let is_empty = list.packets == 0;
            if is_empty {
                list.turn = Turn::Empty;
            }
            self.leave_round(connection);
            if !is_empty {
                self.enqueue(connection);
            }
        }
        Some(packet)
    }

    /// Throws everything away, connections too.
    pub(crate) fn clear(&mut self) {
        *self = RxQueue::new(self.limit);
    }

    /// Slots for packets and for what was placed of them.
    fn slot_limit(&self) -> u32 {
        self.limit.saturating_mul(2)
    }

    fn append(&mut self, connection: u32, item: Item) {
        let slot = Slot { next: NONE, item };
        let at = match self.slots.get_mut(self.free as usize) {
            Some(free) => {
                let at = self.free;
                self.free = free.next;
                *free = slot;
                at
            }
            None => {
                self.slots.push(slot);
                self.slots.len() as u32 - 1
            }
        };
        self.used += 1;
        let list = &mut self.lists[connection as usize];
        match self.slots.get_mut(list.last as usize) {
            Some(last) => last.next = at,
            None => list.first = at,
        }
        list.last = at;
    }

    fn drop_first(&mut self, connection: u32) {
        let list = &mut self.lists[connection as usize];
        let at = list.first;
        let Some(slot) = self.slots.get_mut(at as usize) else {
            return;
        };
        list.first = slot.next;
        if list.first == NONE {
            list.last = NONE;
        }
        *slot = Slot {
            next: self.free,
            item: Item::Free,
        };
        self.free = at;
        self.used -= 1;
    }

    /// Gives a connection the last place in the round.
    fn enqueue(&mut self, connection: u32) {
        let last = self.round.last;
        match self.lists.get_mut(last as usize) {
            Some(last) => last.next = connection,
            None => self.round.first = connection,
        }
        self.round.last = connection;
        let list = &mut self.lists[connection as usize];
        list.turn = Turn::Queued;
        list.next = NONE;
    }

    /// Takes a connection out of the round; most often it is the first one.
    fn leave_round(&mut self, connection: u32) {
        let mut before = NONE;
        let mut at = self.round.first;
        while at != connection {
            let Some(list) = self.lists.get(at as usize) else {
                return;
            };
            (before, at) = (at, list.next);
        }
        let next = std::mem::replace(&mut self.lists[connection as usize].next, NONE);
        match self.lists.get_mut(before as usize) {
            Some(before) => before.next = next,
            None => self.round.first = next,
        }
        if next == NONE {
            self.round.last = before;
        }
    }
}

#[cfg(test)]
mod tests;
