//! Choices that are the same everywhere and at any time.

/// A linear congruential generator: what it gives depends on the seed alone.
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    /// Other numbers for each seed.
    #[must_use]
    pub fn new(seed: u64) -> Dice {
        Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5bd1_e995)
    }

    /// A number below `most`.
    ///
    /// # Panics
    /// When `most` is 0.
    pub fn below(&mut self, most: u64) -> u64 {
        let next = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d);
        self.0 = next.wrapping_add(0x1405_7b7e_f767_814f);
        (self.0 >> 33) % most
    }

    /// One of the values.
    ///
    /// # Panics
    /// When there is no value.
    pub fn of<T: Copy>(&mut self, values: &[T]) -> T {
        values[self.below(values.len() as u64) as usize]
    }

    /// True once in so many times.
    pub fn rarely(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }
}
