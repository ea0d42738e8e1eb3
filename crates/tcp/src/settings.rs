//! What a connection keeps of its [`Config`].

use std::num::NonZeroU32;
use std::time::Duration;

use crate::time::{MILLISECOND, Nanos};
use crate::{Config, KeepAlive};

#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// Payload and options per packet: ours until the SYNs have agreed, then of both.
    pub(crate) mss: u16,
    /// What we announce.
    pub(crate) adv_mss: u16,
    /// What both ends take, whatever the path does.
    pub(crate) full_mss: u16,
    pub(crate) nagle: bool,
    pub(crate) mtu_probing: bool,
    pub(crate) pacing: bool,
    /// Of our SYN or our SYN-ACK.
    pub(crate) syn_retries: u8,
    pub(crate) retries: u8,
    pub(crate) orphan_retries: u8,
    pub(crate) snd_buf: u32,
    pub(crate) tso_max: u32,
    /// Milliseconds, as are those below.
    delayed_ack: Option<NonZeroU32>,
    user_timeout: Option<NonZeroU32>,
    orphan_timeout: u32,
    time_wait: u32,
    fin_wait_2: u32,
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
            full_mss: mss,
            mtu_probing: config.mtu_probing,
            pacing: config.pacing,
            nagle: config.nagle,
            syn_retries: config.syn_retries,
            retries: config.retries,
            orphan_retries: config.orphan_retries.min(config.retries),
            snd_buf: config.snd_buf.min(1 << 30),
            tso_max: config.tso_max.min(65_536),
            delayed_ack: config
                .delayed_ack
                .and_then(|delay| NonZeroU32::new(millis(delay))),
            user_timeout: config.user_timeout.map(at_least_one),
            orphan_timeout: millis(config.orphan_timeout),
            time_wait: millis(config.time_wait),
            fin_wait_2: millis(config.fin_wait_2),
            keep_alive: config.keep_alive.map(Probing::from),
        }
    }

    /// How long an ACK may wait; `None` if it may not.
    pub(crate) fn delayed_ack(&self) -> Option<Nanos> {
        self.delayed_ack
            .map(|millis| u64::from(millis.get()) * MILLISECOND)
    }

    pub(crate) fn user_timeout(&self) -> Option<Nanos> {
        self.user_timeout
            .map(|millis| u64::from(millis.get()) * MILLISECOND)
    }

    pub(crate) fn set_user_timeout(&mut self, limit: Option<Duration>) {
        self.user_timeout = limit.map(at_least_one);
    }

    /// The peer is waited for no longer than one of an orphan.
    pub(crate) fn limit_user_timeout(&mut self) {
        let limit = NonZeroU32::new(self.orphan_timeout).unwrap_or(NonZeroU32::MIN);
        self.user_timeout = Some(self.user_timeout.map_or(limit, |own| own.min(limit)));
    }

    pub(crate) fn orphan_timeout(&self) -> Nanos {
        u64::from(self.orphan_timeout) * MILLISECOND
    }

    pub(crate) fn time_wait(&self) -> Nanos {
        u64::from(self.time_wait) * MILLISECOND
    }

    pub(crate) fn fin_wait_2(&self) -> Nanos {
        u64::from(self.fin_wait_2) * MILLISECOND
    }
}

fn at_least_one(duration: Duration) -> NonZeroU32 {
    NonZeroU32::new(millis(duration)).unwrap_or(NonZeroU32::MIN)
}

fn millis(duration: Duration) -> u32 {
    u32::try_from(duration.as_millis()).unwrap_or(u32::MAX)
}

impl From<KeepAlive> for Probing {
    fn from(keep_alive: KeepAlive) -> Self {
        Self {
            idle: millis(keep_alive.idle).max(1),
            interval: millis(keep_alive.interval).max(1),
            probes: keep_alive.probes,
        }
    }
}

impl From<Probing> for KeepAlive {
    fn from(probing: Probing) -> Self {
        Self {
            idle: Duration::from_millis(probing.idle.into()),
            interval: Duration::from_millis(probing.interval.into()),
            probes: probing.probes,
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
