//! What the two SYNs agree on, and timestamps.

use wire::tcp::{MAX_WINDOW_SCALE, Options, SackBlocks, Timestamps};

use crate::{Config, TcbTimestamps};
use std::time::Duration;

use crate::time::{MILLISECOND, Time, nanos};

/// Smallest MSS that we honour, of a peer or a path: less would make us send headers only.
pub const MIN_MSS: u16 = 64;
/// The MSS of a peer that does not announce its own (RFC 9293 §3.7.1).
const DEFAULT_MSS: u16 = 536;
/// Bytes of the timestamps option, padded (RFC 7323, appendix A).
pub const TIMESTAMPS_LEN: u16 = 12;

/// What the connection uses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Negotiated {
    /// Shift of the windows that the peer announces.
    pub(crate) snd_shift: u8,
    /// Shift of the windows that we announce.
    pub(crate) rcv_shift: u8,
    pub(crate) window_scale: bool,
    pub(crate) timestamps: bool,
    pub(crate) sack: bool,
}

impl Negotiated {
    /// What we offer in our SYN. Shifts are in force only once the peer's SYN has one too.
    pub(crate) fn offer(config: &Config) -> Self {
        Self {
            snd_shift: 0,
            rcv_shift: if config.window_scale {
                shift_for(config.rcv_buf_max.clamp(4, 1 << 30))
            } else {
                0
            },
            window_scale: config.window_scale,
            timestamps: config.timestamps,
            sack: config.sack,
        }
    }

    /// Keeps of our offer what the peer's SYN offers too (RFC 7323 §2.2 and §3.2, RFC 2018 §2).
    pub(crate) fn settle(&mut self, syn: &Options) {
        self.window_scale &= syn.window_scale.is_some();
        self.snd_shift = if self.window_scale {
            syn.window_scale.unwrap_or(0).min(MAX_WINDOW_SCALE)
        } else {
            0
        };
        if !self.window_scale {
            self.rcv_shift = 0;
        }
        self.timestamps &= syn.timestamps.is_some();
        self.sack &= syn.sack_permitted;
    }

    /// Options of our SYN or SYN-ACK.
    pub(crate) fn syn_options(&self, mss: u16, timestamps: Timestamps) -> Options {
        Options {
            mss: Some(mss),
            window_scale: self.window_scale.then_some(self.rcv_shift),
            sack_permitted: self.sack,
            timestamps: self.timestamps.then_some(timestamps),
            sack: SackBlocks::EMPTY,
        }
    }
}

/// Smallest shift that can announce a window of `bytes` (RFC 7323 §2.3).
pub(crate) fn shift_for(bytes: u32) -> u8 {
    (0..MAX_WINDOW_SCALE)
        .find(|shift| u32::from(u16::MAX) << shift >= bytes)
        .unwrap_or(MAX_WINDOW_SCALE)
}

/// Bytes of payload and options per packet that both ends take.
pub(crate) fn agreed_mss(ours: u16, syn: &Options) -> u16 {
    ours.min(syn.mss.unwrap_or(DEFAULT_MSS)).max(MIN_MSS)
}

/// State of the timestamps option (RFC 7323 §4.3 and §5).
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimestampClock {
    /// TSval at the connection's epoch.
    origin: u32,
    /// TS.Recent.
    pub(crate) recent: u32,
    recent_at: Time,
}

/// After so long an idle time TS.Recent says nothing (RFC 7323 §5.5).
const STALE: u64 = 24 * 24 * 3600 * 1000 * MILLISECOND;

impl TimestampClock {
    pub(crate) fn new(origin: u32) -> Self {
        Self {
            origin,
            recent: 0,
            recent_at: Time(0),
        }
    }

    /// For another owner.
    pub(crate) fn take_out(&self, now: Time) -> TcbTimestamps {
        TcbTimestamps {
            recent: self.recent,
            recent_age: Duration::from_nanos(now.since(self.recent_at)),
            val: self.value(now),
        }
    }

    /// Goes on where another owner has stopped.
    pub(crate) fn put_back(now: Time, timestamps: &TcbTimestamps) -> Self {
        let age = nanos(timestamps.recent_age);
        Self {
            origin: timestamps.val.wrapping_sub(now.millis()),
            recent: timestamps.recent,
            recent_at: Time(now.0.saturating_sub(age)),
        }
    }

    /// TSval of a segment sent at `time`: milliseconds.
    pub(crate) fn value(&self, time: Time) -> u32 {
        self.origin.wrapping_add(time.millis())
    }

    pub(crate) fn option(&self, now: Time) -> Timestamps {
        Timestamps {
            val: self.value(now),
            echo: self.recent,
        }
    }

    pub(crate) fn set(&mut self, now: Time, value: u32) {
        self.recent = value;
        self.recent_at = now;
    }

    /// TS.Recent, unless it says nothing any more.
    #[inline]
    pub(crate) fn current(&self, now: Time) -> Option<u32> {
        (now.since(self.recent_at) < STALE).then_some(self.recent)
    }
}
