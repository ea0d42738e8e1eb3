//! One queue pair, which is one connection (NVMe/TCP 1.0 §3.1 to §3.4).

mod negotiate;
mod receive;
mod send;

#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use wire::nvme::command::{ConnectData, ConnectReply, Status, SubmissionEntry};
use wire::nvme::{Digests, FatalError, Framing, Phase, Role};

use super::commands::{Command, Commands, Transfer};
use super::requests::CommandId;

/// In-capsule data that every controller takes on its admin queue, in bytes (NVMe/TCP 1.0 §3.3.2.3).
pub const ADMIN_IN_CAPSULE: u32 = 8192;

/// What a queue is to be.
#[derive(Clone, Debug)]
pub struct QueueConfig {
    /// Its number: 0 for the admin queue.
    pub id: u16,
    /// Commands in flight at most, 1 to 65,535.
    pub depth: u16,
    /// The digests to ask for; the controller must agree to just these.
    pub digests: Digests,
    /// How data from the controller is to be aligned: to `hpda + 1` dwords.
    pub hpda: u8,
    /// R2Ts per command that the controller may have open, at least 1.
    pub max_r2ts: u32,
    /// The most data of one H2CData PDU, in bytes; the controller's MAXH2CDATA counts too. At least 4,096.
    pub max_h2c_data: u32,
    /// Writes up to so many bytes carry their data in the capsule.
    pub in_capsule: u32,
    /// The most data of a command, in bytes.
    pub max_transfer: u32,
    /// Ask to go without submission queue flow control, so that reads may complete with their last data PDU.
    pub no_flow_control: bool,
    /// Milliseconds that the controller waits for a sign of life; 0: for ever. For the admin queue.
    pub keep_alive: u32,
    /// Who connects to what.
    pub identity: ConnectData,
}

/// What both sides agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Negotiated {
    /// The digests, in both directions.
    pub digests: Digests,
    /// Data to the controller is aligned to `cpda + 1` dwords.
    pub cpda: u8,
    /// Data from the controller is aligned to `hpda + 1` dwords.
    pub hpda: u8,
    /// The most data of one H2CData PDU, in bytes, as the controller gave it.
    pub max_h2c_data: u32,
    /// The longest PDU that the controller may send, in bytes.
    pub max_pdu: u32,
}

/// What happened to a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueueEvent {
    /// ICResp came: digests and alignment hold from the next PDU of each direction on.
    Negotiated(Negotiated),
    /// Connect succeeded: commands may go.
    Connected {
        /// The controller that this queue belongs to.
        controller: u16,
    },
    /// Connect failed.
    Refused {
        /// How.
        status: Status,
        /// What is wrong, where the status says that something is.
        reply: ConnectReply,
    },
    /// The controller wants in-band authentication, which is not supported.
    AuthenticationRequired,
    /// The controller ended the connection by C2HTermReq.
    Terminated(FatalError),
    /// A command is through on the wire.
    Ended(Ended),
}

/// A command that is through on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The submitter's name for it.
    pub token: CommandId,
    /// Its identifier, free again.
    pub cid: u16,
    /// How it went. A wrong data digest makes it [`Status::TRANSIENT_TRANSPORT_ERROR`].
    pub status: Status,
    /// The completion's dwords 0 and 1.
    pub result: u64,
}

/// What to do with the data of a PDU whose header came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Incoming {
    /// The PDU has no data.
    Nothing,
    /// It belongs to a command.
    Data {
        /// The command's identifier.
        cid: u16,
        /// The submitter's name for it.
        token: CommandId,
        /// Where in the command's data, in bytes.
        offset: u32,
        /// How many bytes.
        len: u32,
    },
    /// It is to be given to [`Controller::handle_end`](super::Controller::handle_end): the answer to an admin command. At
    /// most 4 KiB.
    Inline,
    /// It is discarded: what follows a C2HTermReq.
    Discard,
}

/// A PDU to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// The header.
    pub pdu: wire::nvme::Pdu,
    /// What follows it.
    pub payload: Payload,
    /// The command that it begins, if it is a capsule of the submitter's.
    pub begins: Option<Begins>,
}

/// A command whose capsule is about to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Begins {
    /// Its identifier.
    pub cid: u16,
    /// Counts the commands that had this identifier.
    pub generation: u32,
    /// The submitter's name for it.
    pub token: CommandId,
}

/// The data of a PDU to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Payload {
    /// None.
    None,
    /// The data of Connect.
    Connect(Box<ConnectData>),
    /// Bytes of a command's data.
    Command {
        /// The submitter's name for the command.
        token: CommandId,
        /// Where they begin, in bytes.
        offset: u32,
        /// How many.
        len: u32,
    },
}

/// How far a queue is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// ICReq is to be sent.
    Fresh,
    /// ICReq is out.
    Initializing,
    /// Connect is to be sent.
    Negotiated,
    /// Connect is out.
    Connecting,
    /// Commands may go.
    Live,
    /// Nothing may go any more.
    Closed,
}

/// The identifier of Connect, which is alone on the queue while it is out.
const CONNECT_CID: u16 = 0;

/// Data that an R2T asked for and that is not handed out yet.
#[derive(Clone, Copy, Debug)]
struct Grant {
    cid: u16,
    generation: u32,
    ttag: u16,
    offset: u32,
    len: u32,
}

/// One queue pair, from its connection's first PDU on.
pub struct Queue {
    config: QueueConfig,
    state: State,
    negotiated: Option<Negotiated>,
    commands: Commands,
    /// Commands whose capsules are to be sent, in the order of their submission.
    capsules: VecDeque<u16>,
    grants: VecDeque<Grant>,
    events: VecDeque<QueueEvent>,
    /// What [`Queue::handle_end`] has to do.
    current: receive::Current,
    tick: u32,
}

impl Queue {
    /// A queue whose connection is there and has carried nothing yet.
    #[must_use]
    pub fn new(config: QueueConfig) -> Queue {
        Queue {
            state: State::Fresh,
            negotiated: None,
            commands: Commands::new(config.depth),
            capsules: VecDeque::with_capacity(usize::from(config.depth)),
            grants: VecDeque::new(),
            events: VecDeque::new(),
            current: receive::Current::Nothing,
            tick: 0,
            config,
        }
    }

    /// Submits a command. Its identifier is chosen here; `token` comes back with all that happens to it. The entry's
    /// data pointer is set as the data will go. `false`: the queue is full or not connected.
    ///
    /// # Panics
    /// When the transfer is longer than [`QueueConfig::max_transfer`].
    #[must_use]
    pub fn submit(&mut self, entry: SubmissionEntry, transfer: Transfer, token: CommandId) -> bool {
        if self.state != State::Live {
            return false;
        }
        let data = self.data_pointer(transfer);
        let command = Command {
            entry: entry.with_data(data),
            transfer,
            token,
            tick: self.tick,
            sent: false,
            last: false,
            damaged: false,
            r2ts: 0,
        };
        match self.commands.insert(command) {
            Some((cid, _)) => {
                self.capsules.push_back(cid);
                true
            }
            None => false,
        }
    }

    /// Whether commands may be submitted.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.state == State::Live && self.commands.has_room()
    }

    /// Commands that are submitted and not through.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.commands.in_flight()
    }

    /// What happened next; `None`: nothing more.
    pub fn poll_event(&mut self) -> Option<QueueEvent> {
        self.events.pop_front()
    }

    /// What the two sides agreed on, once they have.
    #[must_use]
    pub fn negotiated(&self) -> Option<&Negotiated> {
        self.negotiated.as_ref()
    }

    /// The rules for the PDUs of `sender`, as they hold for its next one.
    #[must_use]
    pub fn framing(&self, sender: Role) -> Framing {
        let Some(negotiated) = self.negotiated else {
            let mut framing = Framing::initializing(sender);
            if sender == Role::Host && self.state != State::Fresh {
                framing.phase = Phase::Established;
            }
            return framing;
        };
        Framing {
            sender,
            phase: Phase::Established,
            header_digest: negotiated.digests.header,
            data_digest: negotiated.digests.data,
            alignment: match sender {
                Role::Host => negotiated.cpda,
                Role::Controller => negotiated.hpda,
            },
            max_pdu: negotiated.max_pdu,
        }
    }

    /// Counts one tick of the owner's clock, and answers whether a command has waited for its completion for more than
    /// `limit` ticks.
    pub fn tick(&mut self, limit: u32) -> bool {
        self.tick = self.tick.wrapping_add(1);
        let tick = self.tick;
        let mut commands = self.commands.iter();
        commands
            .any(|(_, command)| !command.is_patient() && tick.wrapping_sub(command.tick) > limit)
    }

    /// The connection is gone, or is about to be: no PDU goes any more, and all commands end with `status`.
    pub fn close(&mut self, status: Status) {
        if self.state == State::Closed {
            return;
        }
        self.state = State::Closed;
        self.capsules.clear();
        self.grants.clear();
        self.current = receive::Current::Nothing;
        let cids: Vec<u16> = self.commands.iter().map(|(cid, _)| cid).collect();
        for cid in cids {
            self.end(cid, status, 0);
        }
    }

    /// The configuration.
    #[must_use]
    pub fn config(&self) -> &QueueConfig {
        &self.config
    }

    /// Takes a command out and tells.
    fn end(&mut self, cid: u16, status: Status, result: u64) {
        let Some(command) = self.commands.remove(cid) else {
            return;
        };
        let status = match command.damaged && status.is_success() {
            true => Status::TRANSIENT_TRANSPORT_ERROR,
            false => status,
        };
        self.events.push_back(QueueEvent::Ended(Ended {
            token: command.token,
            cid,
            status,
            result,
        }));
    }
}
