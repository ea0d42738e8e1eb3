//! How a retransmission timeout backs off (RFC 6298 §5).

use crate::time::SECOND;

/// The longest timeout, in nanoseconds (RFC 6298 §2.5).
pub(crate) const MAX_RTO: u64 = 120 * SECOND;

/// Timeouts in a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backoff {
    /// Doublings of the timeout since the last round-trip time was measured.
    doublings: u8,
    /// Timeouts since the peer last acknowledged something new.
    tries: u8,
}

impl Backoff {
    /// Goes on where another owner of the connection has stopped.
    pub fn resumed(doublings: u8, tries: u8) -> Backoff {
        Backoff { doublings, tries }
    }

    /// The timeout, in nanoseconds, of one that is `base` at first.
    #[inline]
    pub fn timeout(&self, base: u64) -> u64 {
        (base.min(MAX_RTO) << self.doublings.min(16)).min(MAX_RTO)
    }

    /// The timer has expired (RFC 6298 §5.5).
    pub fn back_off(&mut self) {
        self.doublings = self.doublings.saturating_add(1);
        self.tries = self.tries.saturating_add(1);
    }

    /// The peer acknowledged something new. The timeout stays as long as it is: what was acknowledged may be what took so
    /// long (Karn's algorithm).
    pub fn progressed(&mut self) {
        self.tries = 0;
    }

    /// A measurement, and nothing less, collapses a timeout that has backed off (RFC 6298 §5).
    pub fn measured(&mut self) {
        self.doublings = 0;
    }

    /// Doublings of the timeout.
    pub fn doublings(&self) -> u8 {
        self.doublings
    }

    /// Timeouts since the peer last acknowledged something new.
    pub fn tries(&self) -> u8 {
        self.tries
    }
}
