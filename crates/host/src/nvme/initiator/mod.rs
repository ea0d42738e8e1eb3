//! An NVMe/TCP host on a stack: connections, and the memory of commands.
//!
//! [`Initiator`] joins a [`Controller`] with a [`Stack`]: it makes a connection per queue (under TLS if it is told to), moves PDUs,
//! maps the memory of reads to their command identifiers before they are sent, so that the NIC places their data, and
//! reports a command only when neither the NIC nor TCP will touch its memory again.
//!
//! ```text
//! loop {
//!     let mut progress = runtime.poll(now)?;
//!     while let Some(event) = runtime.stack().poll_event() { initiator.handle_event(now, runtime.stack(), &event); }
//!     progress |= initiator.poll(now, runtime.stack());
//!     while let Some(event) = initiator.poll_event() { … }
//!     while let Some(completion) = initiator.poll_completion() { …; initiator.submit(…)?; }
//!     if !progress { runtime.wait(now, initiator.poll_timeout(), &fds)?; }
//! }
//! ```
//!
//! No call blocks, and in steady state none allocates.

mod link;
mod sink;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use l5p::nvme::initiator::{Action, Controller};
use nic::ring::Slice;

pub use l5p::nvme::initiator::{
    Access, CommandId, Completion, Config, ControllerInfo, Event, Failure, Limits, Namespace,
    Reconnect,
};
pub use wire::nvme::command::{Blocks, Io, Status};

use super::PduOffload;
use crate::deadlines::earliest;
use crate::disk::{CommandKey, Memories};
use crate::stack::Stack;
use crate::{Offload, TlsRole};
use link::Link;

/// How an initiator reaches its controller, and what the NIC is to do for it.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where the controller listens.
    pub address: SocketAddr,
    /// TLS on all connections, if any.
    pub tls: Option<TlsRole>,
    /// What the NIC does of TLS.
    pub tls_offload: Offload,
    /// What the NIC does of NVMe/TCP, on I/O queues.
    pub offload: PduOffload,
    /// Reads of fewer bytes are not mapped: a copy of so little costs less than the mapping.
    pub map_threshold: u32,
}

impl Options {
    /// A plain connection on which the NIC does all that it can, for reads of 16 KiB and more.
    #[must_use]
    pub fn new(address: SocketAddr) -> Options {
        Options {
            address,
            tls: None,
            tls_offload: Offload::Both,
            offload: PduOffload::ALL,
            map_threshold: 16 << 10,
        }
    }
}

/// Why a command was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubmitError {
    /// The controller says why.
    #[error(transparent)]
    Controller(#[from] l5p::nvme::initiator::SubmitError),
    /// The memory is shorter than the command's data.
    #[error("the command moves {needed} bytes, its memory has {given}")]
    Memory {
        /// Bytes of data.
        needed: u64,
        /// Bytes of memory.
        given: u64,
    },
}

/// When to look again at what the NIC or TCP is still to let go of.
const SETTLE: Duration = Duration::from_micros(20);

/// A controller with its connections.
pub struct Initiator {
    controller: Controller,
    options: Options,
    /// By queue number.
    links: Vec<Option<Link>>,
    memories: Memories<CommandId>,
    /// Commands whose memory is in use no longer, and whether it holds what was sent.
    settled: VecDeque<(CommandId, bool)>,
    last_poll: Instant,
}

impl Initiator {
    /// Begins to connect: the first [`Initiator::poll`] opens the first connection.
    #[must_use]
    pub fn new(now: Instant, config: Config, options: Options) -> Initiator {
        let mut controller = Controller::new(config);
        controller.start(now);
        Initiator {
            controller,
            options,
            links: Vec::new(),
            memories: Memories::default(),
            settled: VecDeque::new(),
            last_poll: now,
        }
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

    /// Takes a command on a namespace. `memory` is where the data of a read goes, or where that of a write, a compare or a dataset
    /// management comes from: registered with the stack, of at least the data's length, and not to be touched until the
    /// completion. At most [`MAX_RR_SLICES`](nic::ring::MAX_RR_SLICES) slices can be placed into by the NIC.
    ///
    /// # Errors
    /// Why it was not taken.
    pub fn submit(&mut self, access: Access, memory: &[Slice]) -> Result<CommandId, SubmitError> {
        let given = memory.iter().map(|slice| u64::from(slice.len)).sum();
        let needed = self.data_len(&access);
        if needed > given {
            return Err(SubmitError::Memory { needed, given });
        }
        let id = self.controller.submit(access)?;
        let is_read = matches!(access.io, Io::Read { .. });
        self.memories.insert(id, memory, needed as u32, is_read);
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

    /// When to call [`Initiator::poll`] again, if the stack has no event before.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        let settling = self.memories.is_settling().then(|| self.last_poll + SETTLE);
        earliest([settling, self.controller.poll_timeout()])
    }

    /// Takes in an event of the stack. Whether it was about a connection of this initiator.
    pub fn handle_event(&mut self, now: Instant, stack: &mut Stack, event: &crate::Event) -> bool {
        use crate::Event;
        let Some(id) = event.socket() else {
            return false;
        };
        let mut links = self.links.iter().flatten();
        let Some(queue) = links.find(|link| link.socket == id).map(|link| link.queue) else {
            return false;
        };
        match event {
            Event::Connected(_) => self.handle_connected(now, stack, queue),
            Event::Secured(_) => self.open(now, stack, queue),
            Event::Closed(_, reason) => {
                // What came before the end may be the reason for it.
                self.receive(now, stack, queue);
                self.lose(now, queue, reason.to_string());
            }
            Event::Readable(_) => self.with_link(queue, |link| link.readable = true),
            Event::Writable(_) => self.with_link(queue, |link| link.writable = true),
            Event::Accepted(_)
            | Event::Urgent(_)
            | Event::Spliced(_)
            | Event::SpliceRefused(..)
            | Event::SpliceProgress(..)
            | Event::SpliceEnded(..) => {}
        }
        true
    }

    /// Moves what can be moved: takes in PDUs, sends PDUs, runs timers. Whether anything was done.
    pub fn poll(&mut self, now: Instant, stack: &mut Stack) -> bool {
        self.last_poll = now;
        let mut progress = false;
        if self.controller.poll_timeout().is_some_and(|at| at <= now) {
            self.controller.handle_timeout(now);
            progress = true;
        }
        for queue in 0..self.links.len() as u16 {
            progress |= self.receive(now, stack, queue);
        }
        progress |= self.settle(stack);
        while let Some(action) = self.controller.poll_action() {
            progress = true;
            self.act(now, stack, action);
        }
        for queue in 0..self.links.len() as u16 {
            progress |= self.send(now, stack, queue);
        }
        progress
    }

    fn act(&mut self, now: Instant, stack: &mut Stack, action: Action) {
        match action {
            Action::Connect { queue } => self.connect(now, stack, queue),
            Action::Negotiated { queue, negotiated } => {
                self.negotiated(now, stack, queue, &negotiated);
            }
            Action::Close { queue, how } => {
                // Commands that end with the connection are unmapped while it is there.
                self.settle(stack);
                self.close(now, stack, queue, how);
            }
        }
    }

    /// Reports the commands that are through and whose memory is in use no longer.
    fn settle(&mut self, stack: &mut Stack) -> bool {
        let mut progress = false;
        while let Some(id) = self.controller.poll_ended() {
            self.memories.end(id, stack);
            progress = true;
        }
        self.memories.settled(stack, |id, intact| {
            progress = true;
            self.settled.push_back((id, intact));
        });
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
            Io::DatasetManagement { ranges, .. } => {
                u64::from(ranges) * wire::nvme::command::RANGE_LEN as u64
            }
            Io::WriteZeroes { .. } | Io::Flush => 0,
        }
    }

    fn with_link(&mut self, queue: u16, change: impl FnOnce(&mut Link)) {
        if let Some(link) = self.link_mut(queue) {
            change(link);
        }
    }

    fn link_mut(&mut self, queue: u16) -> Option<&mut Link> {
        self.links.get_mut(usize::from(queue))?.as_mut()
    }
}

impl CommandKey for CommandId {
    fn index(self) -> usize {
        CommandId::index(self)
    }
}

#[cfg(test)]
impl Initiator {
    /// As if the NIC had written into a command's memory what the stream does not bring.
    pub(crate) fn taint(&mut self, id: CommandId) {
        self.memories.taint(id);
    }

    /// Whether a PDU with data waits for room, and whether all such data is held until it has been sent.
    pub(crate) fn waiting_data(&self) -> (bool, bool) {
        let waiting = self.links.iter().flatten().map(Link::waiting_data);
        let found = waiting
            .flatten()
            .map(|(id, in_stream)| self.memories.get(id).unacknowledged > in_stream);
        found.fold((false, true), |(_, all), held| (true, all && held))
    }
}
