//! TCP sequence numbers and their arithmetic modulo 2^32 (RFC 9293 §3.4).

use core::fmt;
use core::ops::{Add, AddAssign, Sub, SubAssign};

/// A TCP sequence number (the paper's `tcpsn`).
///
/// It has no `Ord`: order holds only between numbers less than 2^31 apart, and is asked for by name
/// ([`before`](Self::before), [`at_or_after`](Self::at_or_after), …).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(transparent)]
pub struct SeqNum(pub u32);

impl SeqNum {
    /// Bytes from `self` on to `later`, modulo 2^32.
    #[inline]
    #[must_use]
    pub const fn distance_to(self, later: SeqNum) -> u32 {
        later.0.wrapping_sub(self.0)
    }

    /// `self - other` as a signed number: negative if `self` is before `other`.
    #[inline]
    #[must_use]
    pub const fn diff(self, other: SeqNum) -> i32 {
        self.0.wrapping_sub(other.0) as i32
    }

    /// `self < other` in the sequence space.
    #[inline]
    #[must_use]
    pub const fn before(self, other: SeqNum) -> bool {
        self.diff(other) < 0
    }

    /// `self <= other` in the sequence space.
    #[inline]
    #[must_use]
    pub const fn at_or_before(self, other: SeqNum) -> bool {
        !other.before(self)
    }

    /// `self > other` in the sequence space.
    #[inline]
    #[must_use]
    pub const fn after(self, other: SeqNum) -> bool {
        other.before(self)
    }

    /// `self >= other` in the sequence space.
    #[inline]
    #[must_use]
    pub const fn at_or_after(self, other: SeqNum) -> bool {
        !self.before(other)
    }

    /// Whether `self` is one of the `len` numbers from `start` on.
    #[inline]
    #[must_use]
    pub const fn is_within(self, start: SeqNum, len: u32) -> bool {
        start.distance_to(self) < len
    }

    /// The later of the two.
    #[inline]
    #[must_use]
    pub const fn max(self, other: SeqNum) -> SeqNum {
        if self.before(other) { other } else { self }
    }

    /// The earlier of the two.
    #[inline]
    #[must_use]
    pub const fn min(self, other: SeqNum) -> SeqNum {
        if other.before(self) { other } else { self }
    }
}

impl Add<u32> for SeqNum {
    type Output = SeqNum;
    #[inline]
    fn add(self, bytes: u32) -> SeqNum {
        SeqNum(self.0.wrapping_add(bytes))
    }
}

impl AddAssign<u32> for SeqNum {
    #[inline]
    fn add_assign(&mut self, bytes: u32) {
        *self = *self + bytes;
    }
}

impl Sub<u32> for SeqNum {
    type Output = SeqNum;
    #[inline]
    fn sub(self, bytes: u32) -> SeqNum {
        SeqNum(self.0.wrapping_sub(bytes))
    }
}

impl SubAssign<u32> for SeqNum {
    #[inline]
    fn sub_assign(&mut self, bytes: u32) {
        *self = *self - bytes;
    }
}

impl From<u32> for SeqNum {
    fn from(value: u32) -> SeqNum {
        SeqNum(value)
    }
}

impl From<SeqNum> for u32 {
    fn from(value: SeqNum) -> u32 {
        value.0
    }
}

impl fmt::Debug for SeqNum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

impl fmt::Display for SeqNum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
