//! HAProxy on Linux's TCP, with the very same clients and server on our side of the TAP.
//!
//! What Linux takes is HAProxy's processor time, user and system, as the scheduler counts it in nanoseconds, and what Linux's
//! TCP does on the packets that come. HAProxy has one thread, on the same processor as everything else here: what it waits
//! for is not in its time, and its data does not wander between caches.

mod process;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use hdrhistogram::Histogram;
use host::{Stack, StackConfig};
use port::tap::Tap;
use rustix::event::{PollFd, PollFlags, Timespec};

use super::settings::Settings;
use super::world::{BACK_PORT, FRONT_PORT, ends};
use crate::bench::cycles_per_second;
use crate::bench::exchange::Ends;
use crate::bench::hosts::node;
use crate::bench::tap::{Applications, Measured, Rig, TapHost, Turns, namespace};
use process::Haproxy;

/// Clients and server, the TAP and HAProxy.
pub struct HaproxyRig {
    turns: Turns,
    ends: Ends,
    haproxy: Haproxy,
}

impl HaproxyRig {
    /// Starts HAProxy on Linux's side of the TAP.
    ///
    /// # Errors
    /// When there is no HAProxy, or it does not start.
    pub fn new(settings: &Settings, tap: Tap) -> anyhow::Result<Self> {
        let front = SocketAddr::from((namespace::LINUX, FRONT_PORT));
        let back = SocketAddr::from((namespace::OURS, BACK_PORT));
        // The process that is started from here inherits it.
        namespace::pin(0);
        let haproxy = Haproxy::start(front, back, settings.connections)?;
        let config = StackConfig {
            meter: false,
            ..node().stack
        };
        let mut turns = Turns::new(tap, config, settings.message_bytes as usize)?;
        let ends = ends(settings, turns.stack(), front, back)?;
        Ok(Self {
            turns,
            ends,
            haproxy,
        })
    }
}

impl Rig for HaproxyRig {
    fn round(&mut self, connections: u64) -> anyhow::Result<Measured> {
        self.ends.client.ask_for(connections);
        let before = self.haproxy.processor_time()?;
        let received = self.turns.run(&mut self.ends)?;
        let took = self.haproxy.processor_time().context("HAProxy has ended")? - before;
        Ok(Measured {
            cycles: received + took.as_secs_f64() * cycles_per_second(),
            verified: self.ends.verified(),
        })
    }

    fn take_latency(&mut self) -> Histogram<u64> {
        let latency = self.ends.client.latency().clone();
        self.ends.client.latency().reset();
        latency
    }
}

impl Applications for Ends {
    fn run_ours(&mut self, now: Instant, stack: &mut Stack) -> anyhow::Result<()> {
        self.client.open(now, stack)?;
        self.run(now, stack)
    }

    fn run_linux(&mut self) -> anyhow::Result<Option<u64>> {
        Ok(None)
    }

    /// Lets HAProxy have the processor.
    fn wait(&mut self, host: &TapHost<Tap>) {
        const LONGEST: Duration = Duration::from_millis(1);
        let time_out = Timespec {
            tv_sec: 0,
            tv_nsec: LONGEST.as_nanos() as i64,
        };
        match host.fd() {
            Some(fd) => {
                let mut fds = [PollFd::new(&fd, PollFlags::IN)];
                // Whether there was anything is seen by the next read.
                let _ = rustix::event::poll(&mut fds, Some(&time_out));
            }
            None => std::thread::sleep(LONGEST),
        }
    }

    fn is_done(&self) -> bool {
        self.client.is_done()
    }
}
