//! A controller with its connections.

mod links;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use attachment::{ClientError, Errno};
use l5p::nvme::initiator::{
    self as machine, Access, CommandId, Completion, Config, Controller, Event,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use wire::nvme::command::{Io, RANGE_LEN};

use crate::commands::Commands;
use crate::counters::Counters;
use crate::link::Link;
use crate::memory::{BlockPool, Memory, NoMemory, Slice};
use crate::nic::Nic;

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
