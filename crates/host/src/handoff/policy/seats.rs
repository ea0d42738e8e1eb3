//! The places on the NIC, and who has them.

use super::activity::Activity;

/// Seats looked at to find one worth taking.
const LOOKS: usize = 6;

#[derive(Clone, Copy, Debug)]
pub(super) struct Seat<K> {
    key: K,
    activity: Activity,
    /// Its connection has been asked to leave.
    leaving: bool,
}

impl<K> Seat<K> {
    pub fn new(key: K, activity: Activity) -> Self {
        Self {
            key,
            activity,
            leaving: false,
        }
    }
}

/// A slab, and a hand that goes round it. There are as many seats as were ever taken at once: the Soft_limits told, and those
/// leaving.
#[derive(Debug)]
pub(super) struct Seats<K> {
    seats: Vec<Option<Seat<K>>>,
    free: Vec<u32>,
    /// Without those leaving.
    taken: u32,
    hand: usize,
    /// The worst seat that the hand has come by.
    worst: usize,
}

impl<K: Copy> Seats<K> {
    pub fn new() -> Self {
        Self {
            seats: Vec::new(),
            free: Vec::new(),
            taken: 0,
            hand: 0,
            worst: 0,
        }
    }

    pub fn taken(&self) -> u32 {
        self.taken
    }

    /// Where it is now.
    pub fn take(&mut self, seat: Seat<K>) -> u32 {
        self.taken += 1;
        if let Some(at) = self.free.pop() {
            self.seats[at as usize] = Some(seat);
            return at;
        }
        self.seats.push(Some(seat));
        (self.seats.len() - 1) as u32
    }

    pub fn update(&mut self, at: u32, activity: Activity) {
        if let Some(seat) = &mut self.seats[at as usize] {
            seat.activity = activity;
        }
    }

    /// Its connection is asked to leave: the seat counts no more.
    pub fn vacate(&mut self, at: usize) {
        if let Some(seat) = &mut self.seats[at] {
            self.taken -= u32::from(!seat.leaving);
            seat.leaving = true;
        }
    }

    pub fn leave(&mut self, at: u32) {
        self.vacate(at as usize);
        if self.seats[at as usize].take().is_some() {
            self.free.push(at);
        }
    }

    /// A seat of little worth: the least of some that come next, and of those seen before.
    pub fn worst(&mut self, tick: u64) -> Option<(usize, K, f32)> {
        let mut worst = self.worth(self.worst, tick);
        for _ in 0..LOOKS.min(self.seats.len()) {
            self.hand = (self.hand + 1) % self.seats.len();
            let next = self.worth(self.hand, tick);
            if next.is_some_and(|(_, _, worth)| worst.is_none_or(|(_, _, least)| worth < least)) {
                worst = next;
            }
        }
        self.worst = worst.map_or(0, |(at, ..)| at);
        worst
    }

    fn worth(&self, at: usize, tick: u64) -> Option<(usize, K, f32)> {
        let seat = self.seats.get(at)?.as_ref()?;
        (!seat.leaving).then(|| (at, seat.key, seat.activity.worth(tick)))
    }
}
