//! Initial sequence numbers and timestamp origins (RFC 6528, RFC 7323 §5.4).

mod ahead;

use std::hash::{Hash, Hasher};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use siphasher::sip::SipHasher13;
use wire::{FlowKey, SeqNum};

pub use ahead::Ahead;

/// What a connection starts counting from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Initial {
    /// The initial sequence number.
    pub seq: SeqNum,
    /// TSval of a segment sent now.
    pub timestamp: u32,
}

impl Initial {
    /// The same, above all sequence numbers before `used`, which another connection of the flow had (RFC 9293 §3.6.1, MAY-2).
    #[must_use]
    pub fn above(self, used: SeqNum) -> Self {
        /// As far as the largest unscaled window, beyond which nothing of the old connection's is acceptable.
        const GAP: u32 = 1 << 16;
        let seq = match self.seq.after(used) {
            true => self.seq,
            false => used + GAP,
        };
        Self { seq, ..self }
    }
}

impl From<SeqNum> for Initial {
    /// Timestamps start at the sequence number: good enough where the flow's tuple is not soon used again.
    fn from(seq: SeqNum) -> Self {
        Self {
            seq,
            timestamp: seq.0,
        }
    }
}

/// Makes initial sequence numbers: `M + F(flow, secret)` with a clock of 4 µs (RFC 6528 §3). One per host, whose copies share clock and secret.
#[derive(Clone, Debug)]
pub struct Generator {
    key: [u8; 16],
    origin: Instant,
}

impl Generator {
    /// A generator with a secret key, whose clock starts at `now`.
    pub fn new(now: Instant, key: [u8; 16]) -> Self {
        Self { key, origin: now }
    }

    /// Where a connection starts. `flow` goes from us to the peer.
    pub fn initial(&self, now: Instant, flow: &FlowKey) -> Initial {
        let elapsed = now.saturating_duration_since(self.origin);
        let hash = hash_flow(&self.key, flow, 0);
        let clock = (elapsed.as_nanos() / ISN_TICK.as_nanos()) as u32;
        Initial {
            seq: SeqNum((hash as u32).wrapping_add(clock)),
            timestamp: self.timestamp(now, flow),
        }
    }

    /// TSval of this flow now. It goes on rising from one connection of a flow to the next, so that a peer in TIME-WAIT
    /// takes a new SYN (RFC 6191).
    pub fn timestamp(&self, now: Instant, flow: &FlowKey) -> u32 {
        let elapsed = now.saturating_duration_since(self.origin);
        ((hash_flow(&self.key, flow, 0) >> 32) as u32).wrapping_add(elapsed.as_millis() as u32)
    }
}

const ISN_TICK: Duration = Duration::from_micros(4);

/// A keyed hash of a flow and something more.
pub(crate) fn hash_flow(key: &[u8; 16], flow: &FlowKey, more: u64) -> u64 {
    let mut hasher = SipHasher13::new_with_key(key);
    for (ip, port) in [flow.src, flow.dst] {
        match ip {
            IpAddr::V4(ip) => hasher.write_u32(ip.to_bits()),
            IpAddr::V6(ip) => ip.octets().hash(&mut hasher),
        }
        hasher.write_u16(port);
    }
    hasher.write_u64(more);
    hasher.finish()
}
