//! SYN cookies: a SYN-ACK whose sequence number and timestamp hold all we must remember (RFC 4987 §3.6).
//!
//! ```text
//! sequence number   parity of the period (1) | class of the peer's MSS (3) | keyed hash (28)
//! TSval, low bits   SACK permitted (1)       | window shift, 15 for none (4)
//! ```
//! The hash covers the flow, the peer's ISN, the period and the class. A cookie is good in the period (64 s) in which it
//! was made and in the next. Without timestamps the peer gets neither SACK nor window scaling.

use std::time::{Duration, Instant};

use wire::tcp::{Header, Options};
use wire::{FlowKey, SeqNum};

use crate::isn::hash_flow;

const MSS_CLASSES: [u16; 8] = [536, 1220, 1300, 1360, 1440, 1460, 4312, 8960];
const PERIOD: Duration = Duration::from_secs(64);
/// How long a cookie can be good.
pub(crate) const LIFETIME: Duration = Duration::from_secs(128);
const HASH_BITS: u32 = 28;
const OPTION_BITS: u32 = 5;
const NO_SHIFT: u32 = 15;

/// Makes and checks cookies.
#[derive(Clone, Debug)]
pub(crate) struct Baker {
    key: [u8; 16],
    origin: Instant,
}

/// What a good cookie says about the SYN that it answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cookie {
    pub(crate) mss: u16,
    pub(crate) window_scale: Option<u8>,
    pub(crate) sack: bool,
}

impl Baker {
    pub(crate) fn new(now: Instant, key: [u8; 16]) -> Self {
        // Not the key of the initial sequence numbers.
        Self {
            key: key.map(|byte| byte ^ 0x5c),
            origin: now,
        }
    }

    /// The sequence number of the SYN-ACK. `flow` goes from the peer to us.
    pub(crate) fn sequence(&self, now: Instant, flow: &FlowKey, syn: &Header) -> SeqNum {
        let announced = syn.options.mss.unwrap_or(MSS_CLASSES[0]);
        let class = MSS_CLASSES
            .iter()
            .rposition(|&mss| mss <= announced)
            .unwrap_or(0) as u32;
        self.sequence_of(self.period(now), flow, syn.seq, class)
    }

    /// The TSval of the SYN-ACK: the latest not after `clock` that holds the peer's options.
    pub(crate) fn timestamp(&self, clock: u32, syn: &Options) -> u32 {
        let shift = syn
            .window_scale
            .map_or(NO_SHIFT, |shift| u32::from(shift.min(14)));
        let bits = u32::from(syn.sack_permitted) << 4 | shift;
        let mask = (1 << OPTION_BITS) - 1;
        let value = clock & !mask | bits;
        if SeqNum(value).after(SeqNum(clock)) {
            value.wrapping_sub(1 << OPTION_BITS)
        } else {
            value
        }
    }

    /// Checks the cookie that the first ACK of a connection brings back.
    pub(crate) fn open(&self, now: Instant, flow: &FlowKey, ack: &Header) -> Option<Cookie> {
        let sequence = ack.ack - 1;
        let class = sequence.0 >> HASH_BITS & 7;
        let current = self.period(now);
        let period = if current & 1 == u64::from(sequence.0 >> 31) {
            current
        } else {
            current.checked_sub(1)?
        };
        if self.sequence_of(period, flow, ack.seq - 1, class) != sequence {
            return None;
        }
        let bits = ack.options.timestamps.map(|timestamps| timestamps.echo);
        let shift = bits.map_or(NO_SHIFT, |bits| bits & 15);
        Some(Cookie {
            mss: MSS_CLASSES[class as usize],
            window_scale: (shift != NO_SHIFT).then_some(shift as u8),
            sack: bits.is_some_and(|bits| bits & 16 != 0),
        })
    }

    fn sequence_of(&self, period: u64, flow: &FlowKey, isn: SeqNum, class: u32) -> SeqNum {
        let more = u64::from(isn.0) << 32 | (period & 0xff_ffff) << 3 | u64::from(class);
        let hash = hash_flow(&self.key, flow, more) as u32 & ((1 << HASH_BITS) - 1);
        SeqNum((period as u32 & 1) << 31 | class << HASH_BITS | hash)
    }

    fn period(&self, now: Instant) -> u64 {
        now.saturating_duration_since(self.origin).as_secs() / PERIOD.as_secs()
    }
}
