//! A controller: its admin queue and I/O queues, from the first connection to the last (NVMe Base 2.0 §3.5, §3.6).
//!
//! ```text
//!           start                all steps done             connection lost
//! Idle ──────────▶ Setup ───────────────────▶ Ready ─────────────────────────┐
//!                    ▲  └─ failed ─▶ Ended ◀────┘ │ shutdown   ▲             │
//!                    │                 ▲──────────┴─ done ─────┘             ▼
//!                    │                 └──── given up, final ───────────  Lost
//!                    └────────────────────── back-off is over ──────────────┘
//! ```

mod admin;
mod config;
mod discovery;
mod failure;
mod identities;
mod info;
mod link;
mod namespaces;
mod recovery;
mod service;
mod setup;
mod submit;

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::time::Instant;

use wire::nvme::FatalError;
use wire::nvme::command::AsyncEvent;
use wire::nvme::log::DiscoveryEntry;

pub use config::{Config, Reconnect};
pub use failure::Failure;
pub use info::{ControllerInfo, Limits, Namespace};
pub use submit::{Access, SubmitError};

use super::queue::{Negotiated, Queue};
use super::requests::{CommandId, Completion, Requests};
use admin::Admin;
use service::Service;
use setup::Setup;

/// What the owner of the connections must do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Make a connection for this queue, then call [`Controller::handle_connected`].
    Connect {
        /// The queue.
        queue: u16,
    },
    /// From the next PDU of each direction on, what was agreed on holds.
    Negotiated {
        /// The queue.
        queue: u16,
        /// What was agreed on.
        negotiated: Negotiated,
    },
    /// Close the connection of this queue, or stop making it. Nothing may be handed in for it any more.
    Close {
        /// The queue.
        queue: u16,
        /// How.
        how: Closing,
    },
}

/// How a connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closing {
    /// In order: nothing is under way, and the peer is told nothing.
    InOrder,
    /// The controller is to be told by H2CTermReq what it did wrong.
    Reported(FatalError),
    /// At once, with whatever is under way: the connection is good for nothing.
    Lost,
}

/// What an application may want to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// All queues are connected: commands may go. Comes again after each reconnect.
    Ready,
    /// The namespaces were read again, because the controller said that they changed.
    NamespacesChanged,
    /// This namespace is not the one that it was: other identifiers, or another block size. Commands for it are refused, and those that
    /// waited have ended.
    NamespaceReplaced(u32),
    /// The discovery log was read again, because the controller said that it changed.
    DiscoveryChanged,
    /// The controller tells of something else.
    Notice(AsyncEvent),
    /// The connection is lost; it will be tried again.
    Lost(Failure),
    /// There is no controller any more, and no attempt will be made. `None`: it was shut down.
    Ended(Option<Failure>),
}

#[derive(Debug)]
enum Phase {
    Idle,
    Setup(Setup),
    Ready,
    /// Shutting down: until CSTS says that it is done.
    Shutdown {
        until: Instant,
    },
    /// Waiting to reconnect.
    Lost {
        retry_at: Instant,
    },
    Ended,
}

/// A controller of a subsystem, and the host's end of all its queues.
///
/// 1. [`Controller::start`], then whenever something happened [`Controller::poll_action`],
///    [`Controller::poll_event`], [`Controller::poll_ended`] until each gives `None`, and [`Controller::poll_pdu`] of
///    each queue as long as its connection takes PDUs.
/// 2. Of what a connection receives, each header goes to [`Controller::handle_header`], its data where that says, and
///    then [`Controller::handle_end`] is called.
/// 3. A command that [`Controller::poll_ended`] names is through on the wire. When nothing writes to its memory any
///    more, [`Controller::release`] gives its completion, or tries it again.
/// 4. [`Controller::poll_timeout`] says when to call [`Controller::handle_timeout`].
///
/// It holds no data of commands: that is named by [`CommandId`], offset and length.
pub struct Controller {
    config: Config,
    phase: Phase,
    /// By queue number; the admin queue is the first one.
    queues: Vec<Option<Queue>>,
    /// Where the search for a queue with room begins.
    next_queue: usize,
    requests: Requests,
    admin: Admin,
    service: Service,
    recovery: recovery::Recovery,
    /// The controller ID that Connect gave.
    id: u16,
    info: Option<ControllerInfo>,
    limits: Limits,
    namespaces: Vec<Namespace>,
    identities: identities::Identities,
    discovery: Vec<DiscoveryEntry>,
    actions: VecDeque<Action>,
    events: VecDeque<Event>,
}

impl Controller {
    /// A controller that nothing was done for yet.
    #[must_use]
    pub fn new(config: Config) -> Controller {
        Controller {
            phase: Phase::Idle,
            queues: Vec::new(),
            next_queue: 0,
            requests: Requests::new(config.outstanding),
            admin: Admin::default(),
            service: Service::default(),
            recovery: recovery::Recovery::default(),
            id: 0,
            info: None,
            limits: Limits {
                max_transfer: config.max_transfer,
                max_write_zeroes: 0,
                max_ranges: 0,
                max_range_blocks: 0,
                in_capsule: 0,
                depth: 0,
                io_queues: 0,
            },
            namespaces: Vec::new(),
            identities: identities::Identities::default(),
            discovery: Vec::new(),
            actions: VecDeque::new(),
            events: VecDeque::new(),
            config,
        }
    }

    /// What to do next with the connections.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// What happened.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// A command that is through on the wire, and waits for [`Controller::release`].
    pub fn poll_ended(&mut self) -> Option<CommandId> {
        self.requests.poll_ended()
    }

    /// Whether commands may go now.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        matches!(self.phase, Phase::Ready)
    }

    /// Whether the controller is gone for good.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        matches!(self.phase, Phase::Ended)
    }

    /// What the controller said of itself, once it was [`Event::Ready`].
    #[must_use]
    pub fn info(&self) -> Option<&ControllerInfo> {
        self.info.as_ref()
    }

    /// The controller ID.
    #[must_use]
    pub fn id(&self) -> u16 {
        self.id
    }

    /// What commands must keep to.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The active namespaces, ascending.
    #[must_use]
    pub fn namespaces(&self) -> &[Namespace] {
        &self.namespaces
    }

    /// The subsystems that a discovery controller told of. Those of other transports than TCP are left out.
    #[must_use]
    pub fn discovery_log(&self) -> &[DiscoveryEntry] {
        &self.discovery
    }

    /// Commands that were submitted and are not complete.
    #[must_use]
    pub fn outstanding(&self) -> usize {
        self.requests.outstanding()
    }

    /// A queue, if there is a connection for it.
    #[must_use]
    pub fn queue(&self, queue: u16) -> Option<&Queue> {
        self.queues.get(usize::from(queue))?.as_ref()
    }

    /// The configuration.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    fn queue_mut(&mut self, queue: u16) -> Option<&mut Queue> {
        self.queues.get_mut(usize::from(queue))?.as_mut()
    }
}
