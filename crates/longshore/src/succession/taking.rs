//! The successor's side.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use attachment::{dial, peer};
use handshake::TicketKey;
use port::{Foreign, Passing, Ports, Share};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair, sockopt};
use rustix::process::{Pid, geteuid};
use wire::FlowKey;
use wire::packet::Steering;

use super::line::Line;
use super::other::{Heard, Other};
use super::queues::{have_whole, share};
use super::words::{Resting, Word};
use super::{All, Claim, Drains, Estate, HAND_OVER, PATIENCE};
use crate::attach::{Attached, Inheritance};
use crate::control::{Answer, Request};

/// Bytes that may wait on the way to each worker of the predecessor, if the system allows it.
const WAITING: usize = 4 << 20;

/// A place that is offered to this process. Dropped, it stays the other one's.
#[derive(Debug)]
pub struct Taking {
    other: Other,
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
        let stream = match dial(control, PATIENCE) {
            Ok(stream) => UnixStream::from(stream),
            Err(Errno::NOENT | Errno::CONNREFUSED) => return Ok(None),
            Err(error) => bail!("can't take over from the process at {at}: {error}"),
        };
        let uid = peer::uid(&stream)?;
        ensure!(
            account == Some(uid) || peer::judge(uid, geteuid().as_raw()).is_ok(),
            "can't take over from the process at {at}, which is user {uid}'s: run as that user, or with its --user"
        );
        let mut other = Other::at(stream)
            .with_context(|| format!("can't take over from the process at {at}"))?;
        let number = other.pid().as_raw_nonzero();
        let count = claim.queues;
        let line = other.line()?;
        let until = Instant::now() + PATIENCE;
        line.say(until, &Request::TakeOver(claim), &[])?;
        let answer = line
            .hear(until)
            .with_context(|| format!("{at} does not hand over"))?;
        let estate = match answer {
            Answer::Estate(estate) => *estate,
            Answer::Error(why) => bail!("process {number} does not hand over: {why}"),
            _ => bail!("{at} answered with something else"),
        };
        let mut descriptors = line.take_descriptors().into_iter();
        let listener = descriptors.next().context("no control socket came")?;
        ensure!(
            sockopt::socket_acceptconn(&listener).is_ok_and(|listens| listens),
            "what came as the control socket does not listen"
        );
        let queues: Vec<OwnedFd> = descriptors.collect();
        ensure!(
            queues.len() == count,
            "{} queues came, not {count}",
            queues.len()
        );
        let taking = Taking {
            other,
            estate,
            queues,
            ways: (0..count).map(|_| way()).collect::<Result<_>>()?,
        };
        let listener = UnixListener::from(listener);
        listener.set_nonblocking(true)?;
        Ok(Some((taking, listener)))
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

    /// Takes the place, with stacks that can serve: from here on they get all frames but those of connections that the other process has. Gives how many
    /// these are, too.
    ///
    /// # Errors
    /// The other process keeps the place.
    pub fn commit<S: Drains>(mut self, all: &mut All<'_, S>) -> Result<(Predecessor, usize)> {
        let theirs: Vec<_> = self.ways.iter().map(|(_, theirs)| theirs.as_fd()).collect();
        let listens = all.attached.runtime.stack().listened_ports();
        let until = Instant::now() + HAND_OVER;
        let line = self.other.line()?;
        line.say(until, &Word::Ready { listens }, &theirs)?;
        let Given { flows, news, ports } = hear_what_is_given(line, self.ways.len(), until)?;
        let left: usize = flows.iter().map(Vec::len).sum();
        let steering = Steering::new(&self.estate.steering_secret, self.ways.len() as u16);
        let foreign = Arc::new(Foreign::new(flows, ports, steering));
        let ways = self.ways.into_iter().map(|(ours, _)| ours);
        let passing = Arc::new(Passing::new(Arc::clone(&foreign), ways.collect()));
        let news = Arc::new(news);
        all.try_with_each(move |shard, attached| {
            let stack = attached.runtime.stack();
            stack.set_foreign(Some(Arc::clone(&foreign)));
            let now = Instant::now();
            news.iter().for_each(|it| shard.hear(now, attached, it));
            share(attached, Share::Divided(Arc::clone(&passing)))
        })?;
        Ok((Predecessor(self.other), left))
    }
}

/// What the other process gives.
#[derive(Debug)]
pub(super) struct Given {
    /// The connections that it has, by worker.
    pub(super) flows: Vec<Vec<FlowKey>>,
    /// What its service has to say.
    news: Vec<serde_json::Value>,
    /// From which it opens other connections.
    ports: Ports,
}

/// Hears what a process with so many workers gives, until then at most, however many words it says.
pub(super) fn hear_what_is_given(line: &mut Line, workers: usize, until: Instant) -> Result<Given> {
    let mut flows = vec![Vec::new(); workers];
    let mut news = Vec::new();
    loop {
        match line.hear(until)? {
            Word::Flows { worker, ends } => {
                let of_it = flows.get_mut(worker);
                let of_it = of_it.context("connections of other workers came")?;
                let ends = ends.into_iter();
                of_it.extend(ends.map(|(local, remote)| FlowKey::new(local, remote)));
            }
            Word::News { news: piece } => news.push(piece),
            Word::Given { ports } => {
                let ports = ports.into();
                return Ok(Given { flows, news, ports });
            }
            _ => bail!("the other process said something else than what it gives"),
        }
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
pub struct Predecessor(Other);

impl Predecessor {
    #[cfg(test)]
    pub(super) fn new(other: Other) -> Predecessor {
        Predecessor(other)
    }

    /// The other process.
    pub fn pid(&self) -> Pid {
        self.0.pid()
    }

    /// Hears whether its connections are over, and has the queues for this process alone if so, or if it has ended. Which of both it is, if any: there is no
    /// predecessor any more then.
    pub fn poll<S: Drains>(&mut self, now: Instant, all: &mut All<'_, S>) -> Option<Left> {
        let left = match self.0.hear() {
            // Clients are served before the next word is heard.
            Heard::Word(Word::Resting { worker, flows }) => {
                let flows = Arc::new(flows);
                all.tell_each(move |_, attached| rest(now, attached, worker, &flows));
                return None;
            }
            Heard::Nothing => return None,
            Heard::Word(Word::Over) => Left::InOrder,
            Heard::End => Left::Early,
            // It reads what is passed on to it until it ends.
            Heard::Word(_) => {
                self.0.hang_up("it said a word that means nothing now");
                return None;
            }
        };
        // A thread that is late has its queue for itself as soon as it can.
        all.tell_each(|_, attached| {
            attached.runtime.stack().set_foreign(None);
            have_whole(attached);
        });
        if let Ok(line) = self.0.line() {
            // It goes on only if it does not hear this.
            let _ = line.say(Instant::now() + PATIENCE, &Word::Taken, &[]);
        }
        Some(left)
    }

    /// When to poll again although nothing comes: at once, if something has come that was not heard.
    pub fn poll_timeout(&self, now: Instant) -> Option<Instant> {
        self.0.has_more().then_some(now)
    }

    /// Tells it that the service is to end as a whole.
    pub fn end(mut self) {
        let until = Instant::now() + PATIENCE;
        let Ok(line) = self.0.line() else { return };
        if line.say(until, &Word::Ended, &[]).is_ok() {
            line.await_end(until);
        }
    }
}

/// Readable when it has said something, or has ended.
impl AsFd for Predecessor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Takes connections in TIME-WAIT over, if they are this worker's.
fn rest(now: Instant, attached: &mut Attached, worker: usize, flows: &[Resting]) {
    let stack = attached.runtime.stack();
    if stack.worker() == worker {
        for (flow, entry) in flows.iter().map(Resting::entry) {
            stack.rest(now, flow, entry);
        }
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
