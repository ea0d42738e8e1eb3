//! The table of all sockets: ids stay the same when a quasi control block becomes a full one.

use wire::FlowKey;

use super::quasi::{Held, Opening, Quasi, Quasis};
use super::{Socket, User};
use crate::{SocketError, SocketId};

/// Every socket of the stack, by id.
#[derive(Debug, Default)]
pub(crate) struct Sockets {
    slots: Vec<Slot>,
    free: Vec<u32>,
    len: u32,
    /// The quasi control blocks of those that have no full one.
    pub quasis: Quasis,
}

/// Taken, if it has either.
#[derive(Debug)]
struct Slot {
    generation: u32,
    /// Index of a quasi control block, or [`NO_QUASI`].
    quasi: u32,
    socket: Option<Box<Socket>>,
}

const NO_QUASI: u32 = u32::MAX;

// What the table adds to a quasi control block.
const _: () = assert!(size_of::<Slot>() == 16);

impl Sockets {
    /// Sockets of either kind.
    pub fn len(&self) -> u32 {
        self.len
    }

    pub fn insert(&mut self, socket: Socket) -> SocketId {
        let id = self.take_slot();
        self.slots[id.index as usize].socket = Some(Box::new(socket));
        id
    }

    /// Adds a connection with a quasi control block. Gives its buffers back when it can't be said in one.
    #[inline]
    pub fn insert_quasi(&mut self, opening: &Opening, held: Held) -> Option<SocketId> {
        let quasi = self.quasis.insert(opening, held)?;
        let id = self.take_slot();
        self.slots[id.index as usize].quasi = quasi;
        Some(id)
    }

    #[inline]
    fn take_slot(&mut self) -> SocketId {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot {
                generation: 0,
                quasi: NO_QUASI,
                socket: None,
            });
            self.slots.len() as u32 - 1
        });
        self.len += 1;
        SocketId {
            index,
            generation: self.slots[index as usize].generation,
        }
    }

    /// The socket, if it has a full control block.
    #[inline]
    pub fn get(&self, id: SocketId) -> Option<&Socket> {
        let slot = self.slots.get(id.index as usize)?;
        slot.socket
            .as_deref()
            .filter(|_| slot.generation == id.generation)
    }

    /// The socket, if it has a full control block.
    #[inline]
    pub fn get_mut(&mut self, id: SocketId) -> Option<&mut Socket> {
        let slot = self.slots.get_mut(id.index as usize)?;
        slot.socket
            .as_deref_mut()
            .filter(|_| slot.generation == id.generation)
    }

    /// The application's socket of this id, which has a full control block.
    ///
    /// # Errors
    /// [`SocketError::NotFound`], and [`SocketError::Spliced`].
    pub fn owned(&mut self, id: SocketId) -> Result<&mut Socket, SocketError> {
        let socket = self.get_mut(id);
        let socket = socket.filter(|socket| socket.user == User::Application);
        let socket = socket.ok_or(SocketError::NotFound)?;
        match socket.owner.splice() {
            Some(_) => Err(SocketError::Spliced),
            None => Ok(socket),
        }
    }

    /// Says that this socket is needed soon.
    #[inline]
    pub fn expect(&self, id: SocketId) {
        if let Some(socket) = self.get(id) {
            nic::prefetch(socket);
        }
    }

    #[inline]
    fn quasi_index(&self, id: SocketId) -> Option<u32> {
        let slot = self.slots.get(id.index as usize)?;
        (slot.quasi != NO_QUASI && slot.generation == id.generation).then_some(slot.quasi)
    }

    /// Whether the socket has a quasi control block.
    #[inline]
    pub fn is_quasi(&self, id: SocketId) -> bool {
        self.quasi_index(id).is_some()
    }

    /// The quasi control block, if the socket has one.
    #[inline]
    pub fn quasi(&self, id: SocketId) -> Option<(&Quasi, &Held)> {
        self.quasi_index(id).map(|index| self.quasis.get(index))
    }

    /// The quasi control block, if the socket has one.
    #[inline]
    pub fn quasi_mut(&mut self, id: SocketId) -> Option<(&mut Quasi, &mut Held)> {
        let index = self.quasi_index(id)?;
        Some(self.quasis.get_mut(index))
    }

    /// The flow of a socket of either kind, from us to the peer.
    pub fn flow(&self, id: SocketId) -> Option<FlowKey> {
        match self.quasi(id) {
            Some((quasi, _)) => Some(self.quasis.flow(quasi)),
            None => self.get(id).map(|socket| socket.flow),
        }
    }

    /// Puts a full control block in the place of a quasi one.
    pub fn promote(&mut self, id: SocketId, socket: Box<Socket>) {
        if let Some(index) = self.quasi_index(id) {
            self.quasis.remove(index);
            let slot = &mut self.slots[id.index as usize];
            slot.quasi = NO_QUASI;
            slot.socket = Some(socket);
        }
    }

    /// The id of the socket at a place, which must be taken.
    #[inline]
    pub fn id_at(&self, index: u32) -> Option<SocketId> {
        let slot = self.slots.get(index as usize)?;
        (slot.socket.is_some() || slot.quasi != NO_QUASI).then_some(SocketId {
            index,
            generation: slot.generation,
        })
    }

    /// Takes a full socket out.
    pub fn remove(&mut self, id: SocketId) -> Option<Box<Socket>> {
        let slot = self.slots.get_mut(id.index as usize)?;
        if slot.generation != id.generation {
            return None;
        }
        let socket = slot.socket.take()?;
        self.release(id.index);
        Some(socket)
    }

    /// Takes a socket with a quasi control block out.
    #[inline]
    pub fn remove_quasi(&mut self, id: SocketId) -> Option<(Quasi, Held)> {
        let index = self.quasi_index(id)?;
        self.slots[id.index as usize].quasi = NO_QUASI;
        self.release(id.index);
        Some(self.quasis.remove(index))
    }

    #[inline]
    fn release(&mut self, index: u32) {
        let slot = &mut self.slots[index as usize];
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(index);
        self.len -= 1;
    }

    /// Places in the table, taken or not.
    pub fn slots(&self) -> u32 {
        self.slots.len() as u32
    }

    /// The socket at a place, if it has a full control block.
    #[inline]
    pub fn at_mut(&mut self, index: u32) -> Option<(SocketId, &mut Socket)> {
        let slot = self.slots.get_mut(index as usize)?;
        let generation = slot.generation;
        let id = SocketId { index, generation };
        slot.socket.as_deref_mut().map(|socket| (id, socket))
    }

    /// Every socket that has a full control block with its id, in the order of the table.
    pub fn iter(&self) -> impl Iterator<Item = (SocketId, &Socket)> {
        self.slots.iter().enumerate().filter_map(|(index, slot)| {
            let id = SocketId {
                index: index as u32,
                generation: slot.generation,
            };
            slot.socket.as_deref().map(|socket| (id, socket))
        })
    }

    /// The id of every socket, in the order of the table.
    pub fn ids(&self) -> impl Iterator<Item = SocketId> + '_ {
        (0..self.slots.len() as u32).filter_map(|index| self.id_at(index))
    }
}
