//! What a connection keeps of its [`Config`].

use std::time::Duration;

use crate::time::{MILLISECOND, Nanos, nanos};
use crate::{Config, KeepAlive};

#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// Payload and options per packet: ours until the SYNs have agreed, then of both.
    pub(crate) mss: u16,
    /// What we announce.
    pub(crate) adv_mss: u16,
    pub(crate) nagle: bool,
    pub(crate) syn_retries: u8,
    pub(crate) retries: u8,
    pub(crate) snd_buf: u32,
    pub(crate) tso_max: u32,
    pub(crate) delayed_ack: Option<Nanos>,
    pub(crate) min_rto: Nanos,
    pub(crate) user_timeout: Option<Nanos>,
    pub(crate) time_wait: Nanos,
    pub(crate) fin_wait_2: Nanos,
    pub(crate) keep_alive: Option<Probing>,
}

/// [`KeepAlive`] in milliseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Probing {
    idle: u32,
    interval: u32,
    pub(crate) probes: u8,
}

impl Settings {
    pub(crate) fn new(config: &Config) -> Self {
        let mss = config.mss.max(64);
        Self {
            mss,
            adv_mss: mss,
            nagle: config.nagle,
            syn_retries: config.syn_retries,
            retries: config.retries,
            snd_buf: config.snd_buf.min(1 << 30),
            tso_max: config.tso_max.min(65_536),
            delayed_ack: config.delayed_ack.map(nanos),
            min_rto: nanos(config.min_rto).max(MILLISECOND),
            user_timeout: config.user_timeout.map(nanos),
            time_wait: nanos(config.time_wait),
            fin_wait_2: nanos(config.fin_wait_2),
            keep_alive: config.keep_alive.map(Probing::from),
        }
    }
}

impl From<KeepAlive> for Probing {
    fn from(keep_alive: KeepAlive) -> Self {
        let millis = |duration: Duration| {
            u32::try_from(duration.as_millis())
                .unwrap_or(u32::MAX)
                .max(1)
        };
        Self {
            idle: millis(keep_alive.idle),
            interval: millis(keep_alive.interval),
            probes: keep_alive.probes,
        }
    }
}

impl Probing {
    pub(crate) fn idle(&self) -> Nanos {
        u64::from(self.idle) * MILLISECOND
    }

    pub(crate) fn interval(&self) -> Nanos {
        u64::from(self.interval) * MILLISECOND
    }
}
