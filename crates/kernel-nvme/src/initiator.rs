//! A controller with its connections.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use attachment::{ClientError, Errno};
use l5p::nvme::initiator::{
    self as machine, Access, Action, CommandId, Completion, Config, Controller, Event,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use wire::nvme::command::{Io, RANGE_LEN};

use crate::commands::Commands;
use crate::counters::Counters;
use crate::link::{Link, LinkEnv, Wanted};
use crate::memory::{BlockPool, Memory, NoMemory, Slice};
use crate::nic::Nic;
use crate::receive::Stopped;
use crate::socket;

/// How an initiator reaches its controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Where the controller listens.
    pub address: SocketAddr,
    /// Control socket of the NIC that is to help, if any.
    pub nic: Option<PathBuf>,
    /// Have the NIC place data; without it, it checks digests only.
    pub placement: bool,
    /// Reads of fewer bytes are not shown to the NIC: a copy of so little costs less.
    pub map_threshold: u32,
    /// Bytes of memory for data at most. They are taken as they are used.
    pub memory: u64,
}

impl Options {
    /// Without a NIC; with one it places data for reads of 16 KiB and more. 2 GiB of memory at most.
    #[must_use]
    pub fn new(address: SocketAddr) -> Options {
        Options {
            address,
            nic: None,
            placement: true,
            map_threshold: 16 << 10,
            memory: 2 << 30,
        }
    }
}

/// Why there is no initiator.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// The system gives no memory.
    #[error("{bytes} bytes of memory for data can't be had: {error}")]
    Memory {
        /// What was asked for.
        bytes: u64,
        /// Why.
        error: Errno,
    },
    /// The NIC does not answer, or does not want.
    #[error("the NIC behind {path} can't be used: {error}")]
    Nic {
        /// Its control socket.
        path: PathBuf,
        /// Why.
        error: ClientError,
    },
}

/// Why a command was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubmitError {
    /// The controller says why.
    #[error(transparent)]
    Controller(#[from] machine::SubmitError),
    /// The memory is shorter than the command's data.
    #[error("the command moves {needed} bytes, its memory has {given}")]
    Memory {
        /// Bytes of data.
        needed: u64,
        /// Bytes of memory.
        given: u32,
    },
}

/// When to look again at what the NIC is still to let go of.
const SETTLE: Duration = Duration::from_micros(20);

/// A controller with its connections. See the crate's documentation for the order of calls.
pub struct Initiator {
    controller: Controller,
    options: Options,
    memory: Arc<Memory>,
    nic: Option<Nic>,
    /// By queue number.
    links: Vec<Option<Link>>,
    commands: Commands,
    /// Commands whose memory is not touched any more, and whether it holds what was sent.
    settled: VecDeque<(CommandId, bool)>,
    counters: Counters,
}

impl Initiator {
    /// Begins to connect: the first [`Initiator::poll`] opens the first connection.
    ///
    /// # Errors
    /// When there is no memory, or the NIC does not answer.
    pub fn new(now: Instant, config: Config, options: Options) -> Result<Initiator, StartError> {
        let memory = Memory::new(options.memory).map_err(|error| StartError::Memory {
            bytes: options.memory,
            error,
        })?;
        let nic = match &options.nic {
            None => None,
            Some(path) => {
                let nic = Nic::attach(path, &memory).map_err(|error| StartError::Nic {
                    path: path.clone(),
                    error,
                })?;
                Some(nic)
            }
        };
        let mut controller = Controller::new(config);
        controller.start(now);
        Ok(Initiator {
            controller,
            options,
            memory: Arc::new(memory),
            nic,
            links: Vec::new(),
            commands: Commands::default(),
            settled: VecDeque::new(),
            counters: Counters::default(),
        })
    }

    /// The controller: what it is, its namespaces, its limits.
    #[must_use]
    pub fn controller(&self) -> &Controller {
        &self.controller
    }

    /// What connections are made with.
    #[must_use]
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// What was done with what came.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// `count` blocks of `block_len` bytes each for commands' data. They are not given back.
    ///
    /// # Errors
    /// When they are more than [`Options::memory`] has left.
    pub fn blocks(&self, block_len: u32, count: u32) -> Result<BlockPool, NoMemory> {
        BlockPool::new(&self.memory, block_len, count)
    }

    /// Takes a command on a namespace. `memory` is where the data of a read goes, or where that of a write, a compare or a dataset
    /// management comes from: of a [block](Self::blocks) of this initiator's, of at least the data's length, and not to be touched until
    /// the completion.
    ///
    /// # Errors
    /// Why it was not taken.
    pub fn submit(&mut self, access: Access, memory: Slice) -> Result<CommandId, SubmitError> {
        let needed = self.data_len(&access);
        if needed > u64::from(memory.len) {
            let given = memory.len;
            return Err(SubmitError::Memory { needed, given });
        }
        let id = self.controller.submit(access)?;
        let is_read = matches!(access.io, Io::Read { .. });
        let data = memory.part(0, needed as u32);
        self.commands.insert(id, data, is_read);
        Ok(id)
    }

    /// A command that is complete. Its memory is the caller's again, and its place ([`CommandId::index`]) another command's from
    /// now on.
    pub fn poll_completion(&mut self) -> Option<Completion> {
        loop {
            let (id, intact) = self.settled.pop_front()?;
            // Some are tried again.
            if let Some(completion) = self.controller.release(id, intact) {
                return Some(completion);
            }
        }
    }

    /// What happened to the controller.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.controller.poll_event()
    }

    /// Ends it: commands in flight end, the controller is told, connections are closed. [`Event::Ended`] follows.
    pub fn shutdown(&mut self, now: Instant) {
        self.controller.shutdown(now);
    }

    /// Moves what can be moved: takes in PDUs, sends PDUs, runs timers. Whether anything was done.
    pub fn poll(&mut self, now: Instant) -> bool {
        let mut progress = false;
        if self.controller.poll_timeout().is_some_and(|at| at <= now) {
            self.controller.handle_timeout(now);
            progress = true;
        }
        self.look_for_nic(now);
        for queue in 0..self.links.len() {
            progress |= self.receive(now, queue);
        }
        progress |= self.settle();
        while let Some(action) = self.controller.poll_action() {
            progress = true;
            self.act(now, action);
        }
        for queue in 0..self.links.len() {
            progress |= self.send(now, queue);
        }
        progress
    }

    /// Sleeps until a connection has something, a timer is due, `until` has come or one of `fds` is readable.
    ///
    /// # Errors
    /// What `poll(2)` says.
    pub fn wait(
        &mut self,
        now: Instant,
        until: Option<Instant>,
        fds: &[BorrowedFd<'_>],
    ) -> Result<(), Errno> {
        let settling = self.commands.is_settling().then(|| now + SETTLE);
        let nic = self.nic.as_ref().and_then(Nic::poll_timeout);
        let timers = [until, settling, nic, self.controller.poll_timeout()];
        let timer = timers.into_iter().flatten().min();
        let timeout = timer.map(|at| at.saturating_duration_since(now));
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        let links = self.links.iter().flatten();
        let mut polled: Vec<PollFd<'_>> = links
            .map(|link| PollFd::new(&link.socket, link.interest()))
            .chain(fds.iter().map(|fd| PollFd::new(fd, PollFlags::IN)))
            .collect();
        match poll(&mut polled, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
        let found: Vec<PollFlags> = polled.iter().map(PollFd::revents).collect();
        for (link, found) in self.links.iter_mut().flatten().zip(found) {
            let has_ended = found.intersects(PollFlags::ERR | PollFlags::HUP);
            link.readable |= found.contains(PollFlags::IN) || has_ended;
            link.writable |= found.contains(PollFlags::OUT) || has_ended;
        }
        Ok(())
    }

    /// A NIC that was restarted helps again.
    fn look_for_nic(&mut self, now: Instant) {
        if let Some(nic) = &mut self.nic
            && nic.is_another(now, &self.memory)
        {
            let links = self.links.iter_mut().flatten();
            links.for_each(|link| link.has_another_nic(nic));
        }
    }

    fn act(&mut self, now: Instant, action: Action) {
        match action {
            Action::Connect { queue } => self.connect(now, queue),
            Action::Negotiated { queue, negotiated } => {
                let depth = self.controller.queue(queue).map(|it| it.config().depth);
                let wanted = depth.filter(|_| queue > 0).map(|depth| Wanted {
                    placement: self.options.placement,
                    depth,
                });
                let wanted = wanted.filter(|_| self.nic.is_some());
                self.with_link(now, queue.into(), |link, env| {
                    link.negotiated(&negotiated, wanted, env);
                });
            }
            Action::Close { queue, how } => {
                // Commands that end with the connection are unmapped while it is there.
                self.settle();
                let link = self.links.get_mut(usize::from(queue));
                if let Some(link) = link.and_then(Option::take) {
                    link.close(how, &mut self.env(now));
                }
            }
        }
    }

    fn connect(&mut self, now: Instant, queue: u16) {
        if self.links.len() <= usize::from(queue) {
            self.links.resize_with(usize::from(queue) + 1, || None);
        }
        match Link::connect(queue, self.options.address) {
            Ok(link) => self.links[usize::from(queue)] = Some(link),
            Err(error) => self.controller.handle_lost(now, queue, error.to_string()),
        }
    }

    fn receive(&mut self, now: Instant, queue: usize) -> bool {
        let received = self.with_link(now, queue, |link, env| {
            let stopped = link.receive(env);
            if let Err(Stopped::Refused(error)) = &stopped {
                link.terminate(*error, env);
            }
            stopped
        });
        let number = queue as u16;
        match received {
            None => false,
            Some(Ok(progress)) => progress,
            Some(Err(Stopped::Refused(error))) => {
                self.stop(queue);
                self.controller.handle_malformed(now, number, error);
                true
            }
            Some(Err(Stopped::Lost(reason))) => {
                self.stop(queue);
                self.controller.handle_lost(now, number, reason);
                true
            }
        }
    }

    fn send(&mut self, now: Instant, queue: usize) -> bool {
        let threshold = self.options.map_threshold;
        let sent = self.with_link(now, queue, |link, env| {
            if link.is_open || !link.writable {
                return link.send(threshold, env);
            }
            socket::connected(link.socket.as_fd())?;
            link.is_open = true;
            env.controller.handle_connected(now, link.queue);
            link.send(threshold, env)
        });
        match sent {
            None => false,
            Some(Ok(progress)) => progress,
            Some(Err(Errno::PIPE | Errno::CONNRESET)) if self.is_open(queue) => {
                // What came before the end may be the reason for it.
                if let Some(Some(link)) = self.links.get_mut(queue) {
                    (link.readable, link.writable) = (true, false);
                }
                true
            }
            Some(Err(error)) => {
                self.stop(queue);
                let reason = match error {
                    Errno::CONNREFUSED => "refused".to_owned(),
                    error => error.to_string(),
                };
                self.controller.handle_lost(now, queue as u16, reason);
                true
            }
        }
    }

    /// The connection is of no more use; its end is the controller's to order.
    fn stop(&mut self, queue: usize) {
        if let Some(Some(link)) = self.links.get_mut(queue) {
            (link.readable, link.writable) = (false, false);
        }
    }

    fn is_open(&self, queue: usize) -> bool {
        let link = self.links.get(queue).and_then(Option::as_ref);
        link.is_some_and(|link| link.is_open)
    }

    /// Reports the commands that are through and whose memory is not touched any more.
    fn settle(&mut self) -> bool {
        let mut progress = false;
        let mut asked = Vec::new();
        while let Some(id) = self.controller.poll_ended() {
            progress = true;
            let (Some((slot, tag)), Some(nic)) = (self.commands.end(id), &self.nic) else {
                continue;
            };
            let links = self.links.iter_mut().flatten();
            let of_slot = |link: &&mut Link| {
                let offload = link.offload.as_ref();
                offload.is_some_and(|offload| offload.slot == slot)
            };
            if let Some(link) = links.into_iter().find(|link| of_slot(link)) {
                link.unmap(tag, nic);
                if !asked.contains(&slot) {
                    asked.push(slot);
                }
            }
        }
        if let Some(nic) = &mut self.nic {
            asked.into_iter().for_each(|slot| nic.settle(slot));
        }
        if self.commands.is_settling() {
            let settled = &mut self.settled;
            let (nic, counters) = (self.nic.as_mut(), &mut self.counters);
            self.commands.settled(nic, counters, |id, intact| {
                progress = true;
                settled.push_back((id, intact));
            });
            if let Some(nic) = &self.nic {
                let links = self.links.iter_mut().flatten();
                links.for_each(|link| link.tags_ended(nic));
            }
        }
        progress
    }

    fn with_link<R>(
        &mut self,
        now: Instant,
        queue: usize,
        call: impl FnOnce(&mut Link, &mut LinkEnv<'_>) -> R,
    ) -> Option<R> {
        let mut link = self.links.get_mut(queue)?.take()?;
        let result = call(&mut link, &mut self.env(now));
        self.links[queue] = Some(link);
        Some(result)
    }

    fn env(&mut self, now: Instant) -> LinkEnv<'_> {
        LinkEnv {
            now,
            controller: &mut self.controller,
            commands: &mut self.commands,
            memory: &self.memory,
            nic: self.nic.as_mut(),
            counters: &mut self.counters,
        }
    }

    /// Bytes that a command moves.
    fn data_len(&self, access: &Access) -> u64 {
        let mut namespaces = self.controller.namespaces().iter();
        let namespace = namespaces.find(|namespace| namespace.nsid == access.nsid);
        let block = namespace.map_or(0, |namespace| u64::from(namespace.block_size()));
        match access.io {
            Io::Read { blocks, .. } | Io::Write { blocks, .. } | Io::Compare { blocks, .. } => {
                u64::from(blocks.count) * block
            }
            Io::DatasetManagement { ranges, .. } => u64::from(ranges) * RANGE_LEN as u64,
            Io::WriteZeroes { .. } | Io::Flush => 0,
        }
    }
}
