//! What the thread of one connection does: all that its host can make wait.

use std::io::IoSliceMut;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};

use nic::Features;
use nic::ring::{Block, DeviceFunction, FunctionConfig};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::{Errno, ReadWriteFlags, preadv2};
use rustix::net::{AddressFamily, Shutdown, SocketFlags, SocketType, shutdown, socketpair};
use wire::ethernet::MacAddr;

use super::limits::Limits;
use super::mailbox::{Closed, Message, Offer, Reply, Sender};
use super::pace::Pace;
use super::regions::Shown;
use crate::connection::{Connection, Ended, Framed};
use crate::fault::Share;
use crate::memory;
use crate::message::{Answer, Identity, Refusal, Request};
use crate::threads::Place;

/// How often regions are looked at that the data thread has not let go of yet.
const SWEEP: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 10_000_000,
};
/// How often the data thread counts connections for a host.
const COUNT: Duration = Duration::from_millis(10);

/// What every connection of a socket begins with.
#[derive(Clone, Debug)]
pub(super) struct Terms {
    /// For messages.
    pub(super) path: PathBuf,
    pub(super) mac: MacAddr,
    pub(super) limits: Limits,
    pub(super) data_thread: Sender,
    /// Of virtual machines.
    pub(super) pace: Arc<Pace>,
    /// What all of them, former ones too, have of the files that can be mapped.
    pub(super) files: Arc<Share>,
}

/// Serves a connection to its end.
pub(super) fn run(place: &Place, terms: &Terms) {
    let mut connection = Connection::new(place.socket());
    let agreed = match agree(terms, &mut connection) {
        Ok(agreed) => agreed,
        Err(why) => {
            tracing::debug!("a connection at {} ended: {why}", terms.path.display());
            return;
        }
    };
    let begun = agreed.and_then(|(config, rings)| begin(terms, config, rings));
    let (mut host, answer, bell) = match begun {
        Ok(begun) => begun,
        Err(refusal) => {
            tracing::info!("refused a host at {}: {refusal}", terms.path.display());
            // It is let go of, whether it hears that or not.
            let _ = connection.answer(Answer::Refused(refusal), &[]);
            return;
        }
    };
    place.keep();
    let answered = connection.answer(answer, &[bell.as_fd(), host.bell.as_fd()]);
    drop(bell);
    let served = answered.and_then(|()| host.serve(&mut connection));
    drop(host);
    if let Err(why) = served {
        tracing::info!("the host at {} is gone: {why}", terms.path.display());
    }
}

/// A host. When it goes, however that comes, the data thread lets go of its function first; the fields are the last references then.
struct Host<'a> {
    /// The data thread has its function.
    is_attached: bool,
    terms: &'a Terms,
    regions: Shown,
    _rings: Arc<Block>,
    /// The NIC's, an eventfd, which is read here.
    bell: OwnedFd,
    /// Our end of the host's, which the data thread rings.
    _theirs: Arc<OwnedFd>,
    replies: Receiver<Reply>,
    counted: Option<Instant>,
}

/// Says what there is, until the host asks for a function. Gives its settings and what came along.
fn agree(
    terms: &Terms,
    connection: &mut Connection<'_>,
) -> Result<Result<(FunctionConfig, Option<OwnedFd>), Refusal>, Ended> {
    let (mut identity, mut features) = (None, Features::NONE);
    loop {
        let framed = connection.next()?;
        let request = match framed.request() {
            Ok(Request::SetUp(config)) => {
                let (mac, config) = (terms.mac, FunctionConfig { features, ..config });
                return Ok(Ok((FunctionConfig { mac, ..config }, framed.descriptor)));
            }
            Ok(request @ (Request::Identify(_) | Request::Features(_))) => request,
            Ok(_) => return Ok(Err(Refusal::Meaningless)),
            Err(refusal) => return Ok(Err(refusal)),
        };
        let identity = match identity {
            Some(identity) => identity,
            None => *identity.insert(terms.identity()?),
        };
        let answer = match request {
            Request::Features(asked) => {
                let missing = asked.without(Features::from_bits(identity.features));
                if !missing.is_empty() {
                    return Ok(Err(Refusal::Features(missing)));
                }
                features = asked;
                Answer::Agreed
            }
            Request::Identify(at) => identity.answer(at),
            _ => Answer::Refused(Refusal::Meaningless),
        };
        connection.answer(answer, &[])?;
    }
}

impl Terms {
    /// What is reported to the host of the NIC.
    pub(super) fn identity(&self) -> Result<Identity, Ended> {
        let (sender, replies) = sync_channel(1);
        let sent = self.data_thread.send(Message::Identify(sender));
        match sent.map(|()| replies.recv()) {
            Ok(Ok(Reply::Identity(identity))) => Ok(self.limits.identity(&identity)),
            _ => Err(Ended::Over),
        }
    }
}

/// Offers the data thread the function that a host asks for. Gives it with the answer, and the host's end of its bell.
fn begin(
    terms: &Terms,
    config: FunctionConfig,
    rings: Option<OwnedFd>,
) -> Result<(Host<'_>, Answer, OwnedFd), Refusal> {
    let mac = terms.mac;
    if config.check().is_err() || !terms.limits.allow(&config) {
        return Err(Refusal::BadConfig);
    }
    let rings = rings.ok_or(Refusal::BadMemory)?;
    let bytes = config.block_bytes();
    if !memory::keeps(rings.as_fd(), bytes as u64) {
        return Err(Refusal::BadMemory);
    }
    let rings = memory::map_block(rings.as_fd(), bytes).map_err(|_| Refusal::BadMemory)?;
    let (rings, regions) = (Arc::new(rings), Shown::new(&terms.files));
    let device = DeviceFunction::over(&rings, config, regions.registry());
    let (ours, theirs) = hosts_bell().map_err(|_| Refusal::NoRoom)?;
    let flags = EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC;
    let (ours, bell) = (
        Arc::new(ours),
        eventfd(0, flags).map_err(|_| Refusal::NoRoom)?,
    );
    let (sender, replies) = sync_channel(1);
    let mut host = Host {
        is_attached: false,
        terms,
        regions,
        _rings: rings,
        bell,
        _theirs: Arc::clone(&ours),
        replies,
        counted: None,
    };
    let offer = Offer {
        device: device.map_err(|_| Refusal::NotEmpty)?,
        bells: vec![ours],
        replies: sender,
    };
    match host.ask(Message::Attach(Box::new(offer))) {
        Ok(Reply::Attached { mtu }) => {
            host.is_attached = true;
            Ok((host, Answer::SetUp { mac, mtu }, theirs))
        }
        Ok(Reply::Refused(refusal)) => Err(refusal),
        _ => Err(Refusal::Draining),
    }
}

/// A bell to ring, and the end where it is heard. Nothing can be sent on that one: descriptors would come to this process.
pub(super) fn hosts_bell() -> Result<(OwnedFd, OwnedFd), Errno> {
    let flags = SocketFlags::CLOEXEC;
    let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    shutdown(&ours, Shutdown::Read)?;
    Ok((ours, theirs))
}

/// Silences the NIC's bell, without waiting, whatever a host has made of its flags, and wakes the data thread.
pub(super) fn hear(bell: &OwnedFd, data_thread: &Sender) -> Result<(), Ended> {
    let mut count = [0; 8];
    let mut into = [IoSliceMut::new(&mut count)];
    match preadv2(bell, &mut into, u64::MAX, ReadWriteFlags::NOWAIT) {
        Ok(_) => data_thread.wake(),
        Err(Errno::AGAIN | Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

impl Host<'_> {
    /// Does what the host asks for, and wakes the data thread when it rings, until it is to be let go of.
    fn serve(&mut self, connection: &mut Connection<'_>) -> Result<(), Ended> {
        loop {
            let mut fds = [
                PollFd::new(&self.bell, PollFlags::IN),
                PollFd::new(connection, PollFlags::IN),
            ];
            let sweep = self.regions.has_retired().then_some(&SWEEP);
            let _ = poll(&mut fds, sweep);
            let [has_rung, has_asked] = fds.map(|fd| !fd.revents().is_empty());
            if has_rung {
                hear(&self.bell, &self.terms.data_thread)?;
            }
            if has_asked && let Some(framed) = connection.poll()? {
                self.answer(connection, framed)?;
            }
            self.regions.sweep();
        }
    }

    fn answer(&mut self, connection: &Connection<'_>, framed: Framed) -> Result<(), Ended> {
        let limits = &self.terms.limits;
        let request = framed.request();
        let (file, wake) = (framed.descriptor, || self.terms.data_thread.wake());
        let answer = match request {
            Ok(Request::Register(extent)) => {
                match self.regions.register(extent, file, limits, wake) {
                    Ok(()) => Answer::Registered,
                    Err(refusal) => Answer::Refused(refusal),
                }
            }
            Ok(Request::Unregister(id)) => {
                self.regions.unregister(id);
                wake();
                return Ok(());
            }
            Ok(Request::Unfinished) => Answer::Unfinished(self.unfinished()?),
            Ok(Request::SetUp(_) | Request::Identify(_) | Request::Features(_)) => {
                Answer::Refused(Refusal::Meaningless)
            }
            Err(refusal) => Answer::Refused(refusal),
        };
        connection.answer(answer, &[])
    }

    /// Has the data thread count, which looks at every connection: not more often than it has time for.
    fn unfinished(&mut self) -> Result<u64, Ended> {
        if let Some(counted) = self.counted {
            std::thread::sleep(COUNT.saturating_sub(counted.elapsed()));
        }
        self.counted = Some(Instant::now());
        match self.ask(Message::CountUnfinished) {
            Ok(Reply::Unfinished(count)) => Ok(count),
            _ => Err(Ended::Over),
        }
    }

    fn ask(&self, message: Message) -> Result<Reply, Closed> {
        self.terms.data_thread.send(message)?;
        self.replies.recv().map_err(|_| Closed)
    }
}

impl Drop for Host<'_> {
    fn drop(&mut self) {
        if self.is_attached {
            let _ = self.ask(Message::Detach);
        }
    }
}
