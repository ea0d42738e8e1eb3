//! What a controller's user chooses.

use std::time::Duration;

use wire::nvme::{Digests, Nqn};

/// What to connect to, and how.
#[derive(Clone, Debug)]
pub struct Config {
    /// The subsystem; [`Nqn::DISCOVERY`] makes it a discovery controller, whose log is read.
    pub subsystem: Nqn,
    /// Our name.
    pub host: Nqn,
    /// Our UUID.
    pub host_id: [u8; 16],
    /// The digests to ask for. The controller must agree.
    pub digests: Digests,
    /// HPDA: data from the controller is to be aligned to `hpda + 1` dwords; at most 31. Linux's target takes 0 only.
    pub hpda: u8,
    /// R2Ts per command that the controller may have open, at least 1.
    pub max_r2ts: u32,
    /// The most data of one H2CData PDU in bytes, beside the controller's own limit. At least 4,096. Linux's target (seen in 6.1)
    /// takes data digests only if one PDU has all that an R2T asked for.
    pub max_h2c_data: u32,
    /// The most data of a command in bytes, beside the controller's own limit. At least 4,096.
    pub max_transfer: u32,
    /// I/O queues, each of which is a connection; the controller may grant fewer. With 0 the controller is only looked at, as
    /// a discovery controller is.
    pub io_queues: u16,
    /// Commands in flight on one I/O queue; the controller may allow fewer.
    pub depth: u16,
    /// Commands that an application may have outstanding in all.
    pub outstanding: u32,
    /// How long the controller waits for a sign of life before it gives us up; zero: for ever.
    pub keep_alive: Duration,
    /// How long setting up all queues may take.
    pub setup_timeout: Duration,
    /// How long a command may take before the connection is held to be dead.
    pub command_timeout: Duration,
    /// What to do when a connection is lost; `None`: all fails.
    pub reconnect: Option<Reconnect>,
    /// How often a command is tried again after a lost connection or a transient error. With zero, commands in flight
    /// fail when a connection is lost, and are refused until there is another.
    pub retries: u8,
}

/// How to reconnect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reconnect {
    /// The wait before the first attempt; each one doubles it.
    pub first: Duration,
    /// The longest wait between two attempts.
    pub longest: Duration,
    /// Since the loss of the connection, after which no more attempts are made.
    pub give_up: Duration,
}

impl Default for Reconnect {
    /// Half a second, doubling up to ten, for ten minutes, as Linux's host waits.
    fn default() -> Reconnect {
        Reconnect {
            first: Duration::from_millis(500),
            longest: Duration::from_secs(10),
            give_up: Duration::from_secs(600),
        }
    }
}

impl Config {
    /// A connection to `subsystem` with four I/O queues of 128 commands and no digests, that reconnects and retries.
    #[must_use]
    pub fn new(subsystem: Nqn, host: Nqn, host_id: [u8; 16]) -> Config {
        Config {
            subsystem,
            host,
            host_id,
            digests: Digests::NONE,
            hpda: 0,
            max_r2ts: 16,
            max_h2c_data: u32::MAX,
            max_transfer: 1 << 20,
            io_queues: 4,
            depth: 128,
            outstanding: 1024,
            keep_alive: Duration::from_secs(15),
            setup_timeout: Duration::from_secs(20),
            command_timeout: Duration::from_secs(30),
            reconnect: Some(Reconnect::default()),
            retries: 5,
        }
    }

    /// A discovery controller, which is asked once.
    #[must_use]
    pub fn discovery(host: Nqn, host_id: [u8; 16]) -> Config {
        Config {
            io_queues: 0,
            keep_alive: Duration::ZERO,
            reconnect: None,
            retries: 0,
            ..Config::new(Nqn::DISCOVERY, host, host_id)
        }
    }

    pub(super) fn is_discovery(&self) -> bool {
        self.subsystem == Nqn::DISCOVERY
    }

    /// KATO: milliseconds.
    pub(super) fn keep_alive_ms(&self) -> u32 {
        u32::try_from(self.keep_alive.as_millis()).unwrap_or(u32::MAX)
    }
}
