//! How much of a stack's memory is taken, in the three levels that Linux's `tcp_mem` has.

use std::fmt;

/// How short a stack is of memory for packets and payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MemoryLevel {
    /// Connections take what speeds them up.
    #[default]
    Free,
    /// Connections take what they have proved to use: send queues and receive windows shrink towards it.
    Pressure,
    /// Connections take what reserves and minimums give them, and those that make no progress are given up.
    Exhausted,
}

impl fmt::Display for MemoryLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Free => "free",
            Self::Pressure => "pressure",
            Self::Exhausted => "exhausted",
        })
    }
}

impl MemoryLevel {
    /// The level with `used` bytes of `limit`, when it was `self` before. Pressure begins at three quarters, and ends at five eighths;
    /// exhaustion begins with the last sixteenth, and ends at seven eighths.
    #[must_use]
    pub fn with(self, used: u64, limit: u64) -> MemoryLevel {
        let sixteenths = |count: u64| limit / 16 * count;
        let exhausted = sixteenths(if self == Self::Exhausted { 14 } else { 15 });
        let pressure = sixteenths(if self == Self::Free { 12 } else { 10 });
        match used {
            _ if used > exhausted => Self::Exhausted,
            _ if used > pressure => Self::Pressure,
            _ => Self::Free,
        }
    }
}

/// What a connection is for, which says what memory it may have when that is short.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum MemoryClass {
    /// It carries data.
    #[default]
    Data,
    /// It controls others, or checks a server's health: it has a part in the reserve, as a socket of Linux's with `SOCK_MEMALLOC`, and is not
    /// given up for want of memory.
    Control,
}

/// What a stack has in use of its memory for packets and payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryInfo {
    /// How short it is.
    pub level: MemoryLevel,
    /// Bytes that it may use.
    pub limit: u64,
    /// Bytes in use, by whole blocks: the sum of those below.
    pub used: u64,
    /// Of these, those that the NIC has to receive into, or that wait for it.
    pub posted: u64,
    /// Those that hold what was received.
    pub received: u64,
    /// Those that hold what is queued, until it is acknowledged and the NIC has read it.
    pub queued: u64,
    /// Those taken for handshakes, control connections and others that [`Purpose::Control`](super::Purpose::Control) names.
    pub control: u64,
    /// Bytes of the machine's memory that the stack's has at most: what is in use, and what is free and was not given back yet.
    pub resident: u64,
}

#[cfg(test)]
mod tests {
    use super::MemoryLevel::{Exhausted, Free, Pressure};

    #[test]
    fn levels_change_at_other_places_on_the_way_down() {
        let way =
            |level: super::MemoryLevel, used: [u64; 4]| used.map(|used| level.with(used, 1600));
        assert_eq!(
            way(Free, [0, 1200, 1201, 1501]),
            [Free, Free, Pressure, Exhausted]
        );
        assert_eq!(
            way(Pressure, [1000, 1001, 1500, 1501]),
            [Free, Pressure, Pressure, Exhausted]
        );
        assert_eq!(
            way(Exhausted, [1000, 1400, 1401, 1600]),
            [Free, Pressure, Exhausted, Exhausted]
        );
    }
}
