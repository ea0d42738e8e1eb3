//! The place of a server, which another process may have before and behind it.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::{Options, Sweeping};
use crate::attach::{Attached, takes_packets_only};
use crate::control;
use crate::cores::Cores;
use crate::succession::{Claim, Drains, Taking, VERSION};

/// The place of the process that has it, if this one is to have it; and the control socket, which is that process's then.
pub(super) fn take_or_bind(
    options: &Options,
    claim: &Claim,
) -> Result<(Option<Taking>, Option<control::Server>)> {
    let Some(path) = &options.control else {
        return Ok((None, None));
    };
    if options.take_over
        && let Some((taking, theirs)) = Taking::begin(path, claim.clone(), options.account.uid()?)?
    {
        let control = control::Server::adopt(path, theirs).context("the control socket")?;
        return Ok((Some(taking), Some(control)));
    }
    Ok((None, Some(control::Server::bind(path)?)))
}

/// What another process must say of itself that takes this one's place.
pub(super) fn claim(options: &Options, cores: &Cores) -> Claim {
    Claim {
        version: VERSION,
        service: "serve".to_owned(),
        tap: options.wire.tap.clone().unwrap_or_default(),
        queues: cores.count().into(),
        packets_only: takes_packets_only(&options.wire),
    }
}

/// How long connections may go on when another process serves, if there is a limit.
pub(super) fn drain_time(options: &Options) -> Option<Duration> {
    let limit = Duration::from_secs(options.drain.into());
    (!limit.is_zero()).then_some(limit)
}

impl Drains for Sweeping {
    fn drain(&mut self, now: Instant, attached: &mut Attached, drains: bool) {
        self.server.drain(now, attached.runtime.stack(), drains);
    }

    fn abort_all(&mut self, now: Instant, attached: &mut Attached) {
        self.server.abort_all(now, attached.runtime.stack());
    }
}
