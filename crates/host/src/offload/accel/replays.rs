//! Handshakes that have been used up.
//!
//! A NIC without state per handshake takes a cookie as often as it comes: also on a copy of the first data that comes after the
//! connection is over, or that an attacker has kept. The host remembers the numbers of the handshakes that have opened
//! connections, as many as fit.

/// Positions of both sides' first bytes, of the handshakes used last.
///
/// Direct-mapped: a newer handshake takes the place of an older one. When about as many have come as there are places, a copy of an
/// older one's data may open a second connection, if its cookie is still good. Ours is a
/// keyed hash, which no peer can choose. Nothing expires: the numbers of another handshake are the same once in 2⁶⁰.
#[derive(Debug)]
pub(crate) struct Replays {
    /// None before the first.
    used: Box<[u64]>,
    /// How many they are to be, a power of two; 0 to remember nothing.
    places: usize,
}

impl Replays {
    /// Remembers at least so many handshakes once they have come.
    pub fn new(handshakes: u32) -> Self {
        /// 8 GiB: beyond it nothing is gained.
        const MOST: u32 = 1 << 30;
        let places = match handshakes.min(MOST) {
            0 => 0,
            handshakes => handshakes.next_power_of_two() as usize,
        };
        Self {
            used: Box::default(),
            places,
        }
    }

    /// Notes that a handshake opens a connection. False when it has done so before.
    #[inline]
    pub fn spend(&mut self, peers: wire::SeqNum, ours: wire::SeqNum) -> bool {
        if self.used.is_empty() {
            self.used = vec![0; self.places].into_boxed_slice();
        }
        let key = u64::from(peers.0) << 32 | u64::from(ours.0);
        let mixed = key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let at = mixed as usize & self.places.wrapping_sub(1);
        match self.used.get_mut(at) {
            Some(place) => std::mem::replace(place, key) != key,
            None => true,
        }
    }
}

#[cfg(test)]
mod tests;
