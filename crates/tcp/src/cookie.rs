//! SYN cookies: a SYN-ACK whose sequence number and timestamp hold all we must remember (RFC 4987 §3.6).
//!
//! ```text
//! sequence number   parity of the period (1) | class of the peer's MSS (3) | keyed hash (28)
//!   filtered        parity of the period (1) | class of the peer's MSS (3) | keyed hash (20) | filter (8)
//! TSval, low bits   SACK permitted (1)       | window shift, 15 for none (4)
//! ```
//! The hash (SipHash-2-4) covers the flow, the peer's ISN and the class, under a key that is the period's own. A cookie is good
//! in the period (64 s) in which it was made and in the next. Without timestamps the peer gets neither SACK nor window
//! scaling.
//!
//! # The secret
//! Each period has a key of its own, derived from a master key by SipHash-2-4. It is derived rather than drawn because nothing
//! here has a source of randomness, and because time may jump: no state has to be brought forward step by step. What
//! rotation is for it does all the same: a cookie of an old period is as good as a guess, and what can be learnt of a
//! period's key from its cookies is worth nothing after 128 s. The master key makes all cookies.
//!
//! # Filtered cookies
//! A NIC sees all segments of a port, and can't tell by a table of connections which of them bring a cookie back. So a few
//! bits of its cookies are a keyed multiplication of the peer's ISN only, which [`might_open`](SynCookies::might_open) checks in a
//! few cycles: of other segments it lets one in 256 through. These bits are not to be relied on against forgers. In their
//! place such a cookie is good only together with a TSecr that is one of the last 128 s of this connection's clock, which
//! is worth 15 bits: a forger has to guess 2^35, whatever he learns. That clock can begin at the other half of the same hash.

use std::hash::Hasher;
use std::time::{Duration, Instant};

use siphasher::sip::SipHasher24;
use wire::SeqNum;
use wire::tcp::{Header, Options};

const MSS_CLASSES: [u16; 8] = [536, 1220, 1300, 1360, 1440, 1460, 4312, 8960];
const PERIOD: Duration = Duration::from_secs(64);
/// How long a cookie can be good.
pub const LIFETIME: Duration = Duration::from_secs(128);
const HASH_BITS: u32 = 28;
const FILTER_BITS: u32 = 8;
const OPTION_BITS: u32 = 5;
const NO_SHIFT: u32 = 15;

/// Makes and checks cookies. A flow is a keyed hash of its addresses and ports, as the peer's segments have them.
#[derive(Clone)]
pub struct SynCookies {
    master: [u8; 16],
    origin: Instant,
    is_filtered: bool,
    /// The newest period that there are keys for, and its end.
    newest: u64,
    until: Instant,
    /// Its keys and those of the period before, each at the parity of its number.
    periods: [Period; 2],
}

/// What a good cookie says about the SYN that it answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cookie {
    /// The MSS, rounded down to one of eight.
    pub mss: u16,
    /// The window shift.
    pub window_scale: Option<u8>,
    /// Whether SACK was permitted.
    pub sack: bool,
}

/// The keys of one period.
#[derive(Clone, Copy)]
struct Period {
    hash: [u64; 2],
    filter: [u64; 2],
}

impl SynCookies {
    /// Cookies whose hash is as long as can be. `key` is secret.
    pub fn new(now: Instant, key: [u8; 16]) -> Self {
        Self::with(now, key, false)
    }

    /// Cookies that [`might_open`](Self::might_open) knows quickly. `key` is secret.
    pub fn filtered(now: Instant, key: [u8; 16]) -> Self {
        Self::with(now, key, true)
    }

    fn with(now: Instant, key: [u8; 16], is_filtered: bool) -> Self {
        // Not the key of the initial sequence numbers.
        let master = key.map(|byte| byte ^ 0x5c);
        Self {
            origin: now,
            is_filtered,
            newest: 0,
            until: now + PERIOD,
            periods: [Period::new(&master, 0), Period::new(&master, u64::MAX)],
            master,
        }
    }

    /// Brings the keys up to `now`. Call it before anything is made or checked.
    #[inline]
    pub fn advance(&mut self, now: Instant) {
        if now >= self.until {
            self.enter(now);
        }
    }

    #[cold]
    fn enter(&mut self, now: Instant) {
        let since = now.saturating_duration_since(self.origin);
        let period = since.as_secs() / PERIOD.as_secs();
        self.newest = period;
        self.until = self.origin + Duration::from_secs((period + 1) * PERIOD.as_secs());
        for number in [period - 1, period] {
            self.periods[(number & 1) as usize] = Period::new(&self.master, number);
        }
    }

    /// The sequence number of the SYN-ACK.
    pub fn sequence(&self, flow: u64, syn: &Header) -> SeqNum {
        self.bake(flow, syn).0
    }

    /// The sequence number of the SYN-ACK, and where a clock of the connection's own can begin: a number that only the
    /// [opened](Self::open_timed) cookie tells again.
    pub fn bake(&self, flow: u64, syn: &Header) -> (SeqNum, u32) {
        let announced = syn.options.mss.unwrap_or(MSS_CLASSES[0]);
        let class = MSS_CLASSES
            .iter()
            .rposition(|&mss| mss <= announced)
            .unwrap_or(0) as u32;
        self.made_of((self.newest & 1) as u32, flow, syn.seq, class)
    }

    /// The TSval of the SYN-ACK: the latest not after `clock` that holds the peer's options.
    pub fn timestamp(&self, clock: u32, syn: &Options) -> u32 {
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

    /// Whether a segment can be one that brings a filtered cookie: all that do, and one in 256 of others.
    #[inline]
    pub fn might_open(&self, ack: &Header) -> bool {
        let sequence = (ack.ack - 1).0;
        let period = &self.periods[(sequence >> 31) as usize];
        let filter = (1 << FILTER_BITS) - 1;
        sequence & filter == period.filter_of(ack.seq - 1)
    }

    /// Checks the cookie that the first segments of a connection bring back. `clock` is the TSval of this flow now;
    /// filtered cookies are good with timestamps only.
    pub fn open(&self, flow: u64, clock: u32, ack: &Header) -> Option<Cookie> {
        self.open_at(flow, ack, |_| clock).map(|(cookie, _)| cookie)
    }

    /// As [`open`](Self::open), where the connection's clock [began](Self::bake) so many milliseconds ago at the origin that all
    /// have. Gives its value now too.
    pub fn open_timed(&self, flow: u64, since: u32, ack: &Header) -> Option<(Cookie, u32)> {
        self.open_at(flow, ack, |beginning| beginning.wrapping_add(since))
    }

    fn open_at(
        &self,
        flow: u64,
        ack: &Header,
        clock: impl FnOnce(u32) -> u32,
    ) -> Option<(Cookie, u32)> {
        let sequence = ack.ack - 1;
        let class = sequence.0 >> HASH_BITS & 7;
        let (right, beginning) = self.made_of(sequence.0 >> 31, flow, ack.seq - 1, class);
        if right != sequence {
            return None;
        }
        let clock = clock(beginning);
        let echo = ack.options.timestamps.map(|timestamps| timestamps.echo);
        if self.is_filtered {
            let age = clock.wrapping_sub(echo?);
            if age >= LIFETIME.as_millis() as u32 + (1 << OPTION_BITS) {
                return None;
            }
        }
        let shift = echo.map_or(NO_SHIFT, |bits| bits & 15);
        let cookie = Cookie {
            mss: MSS_CLASSES[class as usize],
            window_scale: (shift != NO_SHIFT).then_some(shift as u8),
            sack: echo.is_some_and(|bits| bits & 16 != 0),
        };
        Some((cookie, clock))
    }

    /// The sequence number, and the half of the hash that is not in it.
    fn made_of(&self, parity: u32, flow: u64, isn: SeqNum, class: u32) -> (SeqNum, u32) {
        let period = &self.periods[parity as usize];
        let full = period.hash_of(flow, isn, class);
        let mut hash = full as u32 & ((1 << HASH_BITS) - 1);
        if self.is_filtered {
            hash = hash & !((1 << FILTER_BITS) - 1) | period.filter_of(isn);
        }
        let sequence = SeqNum(parity << 31 | class << HASH_BITS | hash);
        (sequence, (full >> 32) as u32)
    }
}

impl std::fmt::Debug for SynCookies {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SynCookies(secret)")
    }
}

impl Period {
    fn new(master: &[u8; 16], number: u64) -> Self {
        let hasher = SipHasher24::new_with_key(master);
        let key = |purpose: u8| {
            let mut input = [purpose; 9];
            input[..8].copy_from_slice(&number.to_le_bytes());
            hasher.hash(&input)
        };
        Self {
            hash: [key(0), key(1)],
            filter: [key(2), key(3) | 1],
        }
    }

    fn hash_of(&self, flow: u64, isn: SeqNum, class: u32) -> u64 {
        let mut hasher = SipHasher24::new_with_keys(self.hash[0], self.hash[1]);
        hasher.write_u64(flow);
        hasher.write_u32(isn.0);
        hasher.write_u8(class as u8);
        hasher.finish()
    }

    #[inline]
    fn filter_of(&self, isn: SeqNum) -> u32 {
        let mixed = (u64::from(isn.0) ^ self.filter[0]).wrapping_mul(self.filter[1]);
        (mixed >> (64 - FILTER_BITS)) as u32
    }
}

#[cfg(test)]
mod tests;
