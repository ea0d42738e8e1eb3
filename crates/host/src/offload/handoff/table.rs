//! The places that the NIC has for this host's connections, and which socket has which.

use nic::ring::toe::ToeId;

use crate::SocketId;

/// Places by number. An id names a place and which of its owners is meant, so that what the NIC says of a former one is not taken
/// for the present one's.
#[derive(Debug, Default)]
pub(super) struct Table {
    places: Vec<Place>,
    free: Vec<u32>,
    quota: u32,
    taken: u32,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    generation: u32,
    socket: Option<SocketId>,
}

impl Table {
    pub fn new(quota: u32) -> Self {
        Self {
            quota,
            ..Self::default()
        }
    }

    /// Places, taken or not.
    pub fn quota(&self) -> u32 {
        self.quota
    }

    /// Places taken.
    pub fn taken(&self) -> u32 {
        self.taken
    }

    /// Whether there is a place left.
    pub fn has_room(&self) -> bool {
        self.taken < self.quota
    }

    /// A place for a socket; `None` when all are taken.
    pub fn take(&mut self, socket: SocketId) -> Option<ToeId> {
        let index = match self.free.pop() {
            Some(index) => index,
            None if (self.places.len() as u64) < u64::from(self.quota) => {
                self.places.push(Place {
                    generation: 0,
                    socket: None,
                });
                self.places.len() as u32 - 1
            }
            None => return None,
        };
        let place = &mut self.places[index as usize];
        place.socket = Some(socket);
        self.taken += 1;
        Some(ToeId {
            index,
            generation: place.generation,
        })
    }

    /// Whose the place is, if it is that owner's still.
    #[inline]
    pub fn find(&self, toe: ToeId) -> Option<SocketId> {
        let place = self.places.get(toe.index as usize)?;
        place.socket.filter(|_| place.generation == toe.generation)
    }

    /// The NIC is done with the connection, or never had it: the place is free.
    pub fn release(&mut self, toe: ToeId) {
        let Some(place) = self.places.get_mut(toe.index as usize) else {
            return;
        };
        if place.generation == toe.generation && place.socket.take().is_some() {
            place.generation = place.generation.wrapping_add(1);
            self.free.push(toe.index);
            self.taken -= 1;
        }
    }

    /// The NIC knows of none of them any more.
    pub fn release_all(&mut self) {
        for index in 0..self.places.len() as u32 {
            let generation = self.places[index as usize].generation;
            self.release(ToeId { index, generation });
        }
    }

    /// Every socket that has a place, from place `from` on.
    pub fn sockets_from(&self, from: u32) -> impl Iterator<Item = (u32, SocketId)> + '_ {
        let places = self.places.iter().enumerate().skip(from as usize);
        places.filter_map(|(index, place)| Some((index as u32, place.socket?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn socket(index: u32) -> SocketId {
        SocketId {
            index,
            generation: 7,
        }
    }

    #[test]
    fn a_former_owner_is_not_taken_for_the_present_one() {
        let mut table = Table::new(2);
        let first = table.take(socket(1)).expect("room");
        let second = table.take(socket(2)).expect("room");
        assert_eq!((table.take(socket(3)), table.taken()), (None, 2));
        assert_eq!(table.find(first), Some(socket(1)));
        table.release(first);
        table.release(first);
        assert_eq!((table.find(first), table.taken()), (None, 1));
        let third = table.take(socket(3)).expect("room");
        assert_eq!(third.index, first.index);
        assert_ne!(third, first);
        table.release(first);
        assert_eq!(table.find(third), Some(socket(3)));
        let all: Vec<_> = table.sockets_from(0).collect();
        assert_eq!(all, [(0, socket(3)), (1, socket(2))]);
        assert_eq!(table.find(second), Some(socket(2)));
        let unknown = ToeId {
            index: 9,
            generation: 0,
        };
        assert_eq!(table.find(unknown), None);
        table.release(unknown);
    }
}
