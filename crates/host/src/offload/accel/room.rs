//! The resource watch: the host stops asking before the NIC is full (AccelTCP, "AccelTCP Host Stack").

use std::time::{Duration, Instant};

use nic::ring::accel::AccelRoom;

/// What the NIC has told of its room for connections in teardown.
///
/// The NIC tells when its room has changed by an eighth; so what it has told last may be off by as much. The host stops when an
/// eighth of the most that there ever was is left beside what it has asked for since and not heard of, and goes on
/// when it is told of more.
#[derive(Debug, Default)]
pub(crate) struct Room {
    latest: Option<AccelRoom>,
    most: AccelRoom,
    /// It was full: not before this, unless it tells of room.
    pause: Option<Instant>,
}

/// How long a NIC is left alone that has refused and does not tell of room.
const PAUSE: Duration = Duration::from_millis(100);
/// The part of the NIC's room that is not asked for.
const RESERVE: u32 = 8;

impl Room {
    /// Takes what the NIC tells.
    pub fn told(&mut self, room: AccelRoom) {
        self.most.closing = self.most.closing.max(room.closing);
        self.most.packet_memory = self.most.packet_memory.max(room.packet_memory);
        self.latest = Some(room);
        self.pause = None;
    }

    /// The NIC has refused a connection for want of room.
    pub fn refused(&mut self, now: Instant) {
        self.pause = Some(now + PAUSE);
    }

    /// Whether to ask for another connection while `asked` of them wait for the NIC.
    #[inline]
    pub fn allows(&self, now: Instant, asked: usize) -> bool {
        if self.pause.is_some_and(|until| now < until) {
            return false;
        }
        let Some(latest) = self.latest else {
            return true;
        };
        let left = latest.closing.saturating_sub(asked as u32);
        left > self.most.closing / RESERVE
            && latest.packet_memory > self.most.packet_memory / u64::from(RESERVE)
    }
}

#[cfg(test)]
mod tests;
