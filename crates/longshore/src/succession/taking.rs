//! The successor's side.

use std::io::ErrorKind;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use attachment::peer;
use handshake::TicketKey;
use port::{Passing, Share};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair, sockopt};
use rustix::process::{Pid, geteuid};
use wire::FlowKey;

use super::giving::{share, share_whole};
use super::line::Line;
use super::words::Word;
use super::{All, Claim, Estate, PATIENCE};
use crate::attach::Inheritance;
use crate::background::announce;
use crate::control::{Answer, Request};
use crate::shards::Shard;

/// Bytes that may wait on the way to each worker of the predecessor, if the system allows it.
const WAITING: usize = 4 << 20;

/// A place that is offered to this process. Dropped, it stays the other one's.
#[derive(Debug)]
pub struct Taking {
    line: Line,
    pid: Pid,
    estate: Estate,
    queues: Vec<OwnedFd>,
    /// Both ends of the way to each worker.
    ways: Vec<(OwnedFd, OwnedFd)>,
}

impl Taking {
    /// Asks the process that listens at a control socket for its place, which may be had by what `claim` says; gives the control socket too. `None` if
    /// no process listens there. It must be root's, this user's, or that of the user with the number `account`, whom this process is to become.
    ///
    /// # Errors
    /// It refuses, is another user's, or does not answer.
    pub fn begin(
        control: &Path,
        claim: Claim,
        account: Option<u32>,
    ) -> Result<Option<(Taking, UnixListener)>> {
        let at = control.display();
        let stream = match UnixStream::connect(control) {
            Ok(stream) => stream,
            Err(error) => match error.kind() {
                ErrorKind::NotFound | ErrorKind::ConnectionRefused => return Ok(None),
                _ => bail!("can't take over from the process at {at}: {error}"),
            },
        };
        let uid = peer::uid(&stream)?;
        ensure!(
            account == Some(uid) || peer::judge(uid, geteuid().as_raw()).is_ok(),
            "can't take over from the process at {at}, which is user {uid}'s: run as that user, or with its --user"
        );
        let pid = peer::pid(&stream)?.context("the process is in another PID namespace")?;
        let count = claim.queues;
        let mut line = Line::new(stream)?;
        line.say(&Request::TakeOver(claim), &[])?;
        let answer = line
            .hear(PATIENCE)
            .with_context(|| format!("{at} does not hand over"))?;
        let estate = match answer {
            Answer::Estate(estate) => *estate,
            Answer::Error(why) => {
                bail!("process {} does not hand over: {why}", pid.as_raw_nonzero())
            }
            _ => bail!("{at} answered with something else"),
        };
        let mut descriptors = line.take_descriptors().into_iter();
        let listener = descriptors.next().context("no control socket came")?;
        let queues: Vec<OwnedFd> = descriptors.collect();
        ensure!(
            queues.len() == count,
            "{} queues came, not {count}",
            queues.len()
        );
        let taking = Taking {
            line,
            pid,
            estate,
            queues,
            ways: (0..count).map(|_| way()).collect::<Result<_>>()?,
        };
        Ok(Some((taking, UnixListener::from(listener))))
    }

    /// How long the service manager lets the main process be silent.
    pub fn watchdog(&self) -> Option<Duration> {
        self.estate.watchdog
    }

    /// The keys of TLS's tickets that the other process has given.
    pub fn tickets(&self) -> Vec<TicketKey> {
        let tickets = self.estate.tickets.iter().cloned();
        tickets.map(TicketKey::from).collect()
    }

    /// What stacks and NICs are to be made of.
    pub fn inheritance(&mut self) -> Inheritance {
        Inheritance {
            estate: self.estate.clone(),
            queues: std::mem::take(&mut self.queues),
        }
    }

    /// Takes the place, with stacks that can serve: from here on they get all frames but those of connections that the other process has.
    ///
    /// # Errors
    /// The other process keeps the place.
    pub fn commit<S: Shard>(mut self, all: &mut All<'_, S>) -> Result<Predecessor> {
        let theirs: Vec<_> = self.ways.iter().map(|(_, theirs)| theirs.as_fd()).collect();
        self.line.say(&Word::Ready, &theirs)?;
        let Word::Flows(flows) = self.line.hear(PATIENCE)? else {
            bail!("process {} said something else", self.pid.as_raw_nonzero());
        };
        ensure!(
            flows.len() == self.ways.len(),
            "connections of other workers came"
        );
        let left: usize = flows.iter().map(Vec::len).sum();
        let flows = flows.into_iter().map(|of_one| {
            let flows = of_one.into_iter();
            flows
                .map(|(local, remote)| FlowKey::new(local, remote))
                .collect()
        });
        let ways = self.ways.into_iter().map(|(ours, _)| ours);
        let passing = Arc::new(Passing::new(ways.zip(flows).collect()));
        let shared = Arc::clone(&passing);
        all.try_with_each(move |_, attached| share(attached, Share::Divided(Arc::clone(&shared))))?;
        let number = self.pid.as_raw_nonzero();
        announce(format_args!(
            "took over from process {number}; {left} connections end there"
        ));
        Ok(Predecessor {
            line: Some(self.line),
            pid: self.pid,
        })
    }
}

/// A way by which frames go to a worker of the predecessor: our end and its end.
fn way() -> Result<(OwnedFd, OwnedFd)> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    // The system may allow less, or with CAP_NET_ADMIN more than to others.
    sockopt::set_socket_send_buffer_size(&ours, WAITING)?;
    Ok((ours, theirs))
}

/// The process whose place this one has, and which has connections left.
#[derive(Debug)]
pub struct Predecessor {
    line: Option<Line>,
    pid: Pid,
}

impl Predecessor {
    /// The other process.
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// Hears whether its connections are over, and has the queues for this process alone if so, or if it has ended. Whether it is one of both.
    ///
    /// # Errors
    /// A thread of this process has ended, or does not answer.
    pub fn poll<S: Shard>(&mut self, now: Instant, all: &mut All<'_, S>) -> Result<Option<Left>> {
        let Some(line) = &mut self.line else {
            return Ok(None);
        };
        let left = match line.try_hear() {
            Ok(Some(Word::Over(resting))) => {
                let resting = Arc::new(resting);
                all.with_each(move |_, attached| {
                    let stack = attached.runtime.stack();
                    for it in resting.get(stack.worker()).into_iter().flatten() {
                        let (flow, entry) = it.entry();
                        stack.rest(now, flow, entry);
                    }
                })?;
                Left::InOrder
            }
            Ok(None) => return Ok(None),
            Ok(Some(_)) | Err(_) => Left::Early,
        };
        share_whole(all)?;
        // It goes on only if it does not hear this.
        let _ = line.say(&Word::Taken, &[]);
        self.line = None;
        Ok(Some(left))
    }

    /// Tells it that the service is to end as a whole.
    pub fn end(&mut self) {
        if let Some(mut line) = self.line.take()
            && line.say(&Word::Ended, &[]).is_ok()
        {
            line.await_end(PATIENCE);
        }
    }

    /// Becomes readable when it has said something, until it has ended.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.line.as_ref().map(AsFd::as_fd)
    }
}

/// How the predecessor has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// After its last connection.
    InOrder,
    /// Before: connections of its were lost.
    Early,
}
