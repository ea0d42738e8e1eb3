//! The options of a service that takes another process's place, and how it begins.

use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use handshake::TicketKeys;

use super::{All, Claim, Drains, Shards, Succession, Taking};
use crate::attach::{Attached, Inheritance};
use crate::background::announce;
use crate::control;
use crate::sandbox::Account;
use crate::shards::Threads;

/// Whether it takes one, and how it leaves its own.
#[derive(Clone, Debug, Args)]
pub struct TakeOver {
    /// Take the place of the process that listens at --control: it ends its connections, this one serves. If none listens there, only serve
    #[arg(long, requires = "control", conflicts_with_all = ["nic", "pcap"])]
    pub take_over: bool,
    /// When another process takes over, reset the connections that have not ended here after so long; 0 for no limit
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    pub drain: u32,
}

impl TakeOver {
    /// Asks the process that has the place, if this one is to have it; else listens at the control socket.
    ///
    /// # Errors
    /// The process does not hand over; the socket can't be had.
    pub fn begin(
        &self,
        claim: Claim,
        control: Option<&Path>,
        account: &Account,
    ) -> Result<Candidate> {
        let (taking, control) = match control {
            None => (None, None),
            Some(path) => self.take_or_bind(&claim, path, account)?,
        };
        let tickets = taking.as_ref().map(Taking::tickets).unwrap_or_default();
        let limit = Duration::from_secs(self.drain.into());
        Ok(Candidate {
            claim,
            drain: (!limit.is_zero()).then_some(limit),
            taking,
            control,
            tickets: Arc::new(TicketKeys::of(tickets)?),
        })
    }

    fn take_or_bind(
        &self,
        claim: &Claim,
        path: &Path,
        account: &Account,
    ) -> Result<(Option<Taking>, Option<control::Server>)> {
        if self.take_over
            && let Some((taking, theirs)) = Taking::begin(path, claim.clone(), account.uid()?)?
        {
            let control = control::Server::adopt(path, theirs).context("the control socket")?;
            return Ok((Some(taking), Some(control)));
        }
        Ok((None, Some(control::Server::bind(path)?)))
    }
}

/// A service that gets ready for its place, which another process may have.
#[derive(Debug)]
pub struct Candidate {
    /// The keys of TLS's tickets: that process's, if there is one.
    pub tickets: Arc<TicketKeys>,
    claim: Claim,
    drain: Option<Duration>,
    taking: Option<Taking>,
    control: Option<control::Server>,
}

impl Candidate {
    /// How long the service manager lets the main process be silent, which it has told the first one only.
    pub fn watchdog(&self) -> Option<Duration> {
        self.taking.as_ref().and_then(Taking::watchdog)
    }

    /// What stacks and NICs are to be made of.
    pub fn inheritance(&mut self) -> Option<Inheritance> {
        self.taking.as_mut().map(Taking::inheritance)
    }

    /// Where the path of the control socket is.
    pub fn control_directory(&self) -> Option<BorrowedFd<'_>> {
        self.control.as_ref().map(control::Server::directory)
    }

    /// Takes the place, with shards on stacks that can serve; gives the control socket, too.
    ///
    /// # Errors
    /// The other process keeps it.
    pub fn commit<S: Drains>(
        self,
        mut own: S,
        mut others: Threads<S>,
        attached: &mut Attached,
    ) -> Result<(Shards<S>, Option<control::Server>)> {
        let mut all = All {
            own: &mut own,
            attached,
            others: &mut others,
        };
        let taking = self.taking.map(|taking| taking.commit(&mut all));
        let taken = taking.transpose()?;
        let mut control = self.control;
        if let Some(control) = &mut control {
            control.come_back().context("the control socket")?;
            control.set_heir(taken.is_some());
        }
        // Not before clients of the control socket see this process.
        let predecessor = taken.map(|(predecessor, left)| {
            let number = predecessor.pid().as_raw_nonzero();
            announce(format_args!(
                "took over from process {number}; {left} connections end there"
            ));
            predecessor
        });
        let shards = Shards {
            own,
            others,
            succession: Succession::new(self.claim, self.drain, predecessor),
            tickets: self.tickets,
        };
        Ok((shards, control))
    }
}
