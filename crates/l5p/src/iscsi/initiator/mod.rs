//! An initiator: one session with a target, on one connection, at error recovery level 0 (RFC 7143).
//!
//! [`Initiator`] says which PDUs are to be sent, and takes in those that come; it holds no data of commands and knows no clock. A session
//! begins with the [login](Initiator::new). What follows depends on its kind: a discovery session asks for the names of targets; one with a
//! target finds out what its unit is, and then takes commands.
//!
//! ```text
//! loop {
//!     for each header that comes:     initiator.handle_header(&pdu)?  → where its data goes
//!     for each PDU with data:         initiator.handle_end(intact, &data)?
//!     initiator.poll_event()          → Negotiated: the rules from the next PDU on; Ready: commands may be submitted
//!     initiator.poll_outgoing()       → what is to be sent
//!     initiator.poll_ended()          → commands that are through; release() gives their tags back
//! }
//! ```

mod chap;
mod discovery;
mod login;
mod negotiation;
mod numbers;
mod probe;
mod session;
mod tasks;
#[cfg(test)]
mod tests;

use std::ops::Range;

use thiserror::Error;
use wire::iscsi::{Framing, LoginStatus, Lun, Pdu, RejectReason, Role};
use wire::scsi::{Cdb, Inquiry, Sense, SenseKey, Status};

pub use chap::Chap;
pub use session::Initiator;

/// What a session is begun with.
#[derive(Clone, Debug)]
pub struct Config {
    /// The initiator's own name: an IQN, an EUI or a NAA name.
    pub name: String,
    /// The target's name; `None` for a discovery session.
    pub target: Option<String>,
    /// The logical unit.
    pub lun: Lun,
    /// Tells the sessions of this initiator with one target apart (RFC 7143 §11.12.5).
    pub isid: [u8; 6],
    /// How the initiator proves who it is, if the target asks for it.
    pub chap: Option<Chap>,
    /// Asks for digests of headers.
    pub header_digest: bool,
    /// Asks for digests of data.
    pub data_digest: bool,
    /// Commands in flight at most: at least 1.
    pub depth: u16,
    /// MaxRecvDataSegmentLength: the most bytes of data in a PDU that the target sends; 512 to 2^24 - 1.
    pub max_data: u32,
}

/// What the login has agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Agreed {
    /// For PDUs of the target.
    pub incoming: Framing,
    /// For PDUs of the initiator.
    pub outgoing: Framing,
    /// ImmediateData: data of a write may come with its command.
    pub immediate_data: bool,
    /// FirstBurstLength: the most bytes of that.
    pub first_burst: u32,
    /// MaxBurstLength: the most bytes that an R2T asks for.
    pub max_burst: u32,
}

impl Agreed {
    /// What holds when nothing is said: the keys' defaults (RFC 7143 §13).
    const DEFAULT: Agreed = Agreed {
        incoming: Framing::login(Role::Target),
        outgoing: Framing::login(Role::Initiator),
        immediate_data: true,
        first_burst: 65_536,
        max_burst: 262_144,
    };
}

/// What a unit is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unit {
    /// Bytes of a block.
    pub block_len: u32,
    /// Blocks.
    pub blocks: u64,
    /// The most bytes of one command.
    pub max_transfer: u32,
    /// Nothing may be written.
    pub is_read_only: bool,
    /// What is written may be in a cache before a flush. `None`: it does not tell.
    pub has_cache: Option<bool>,
    /// Who made it.
    pub inquiry: Inquiry,
}

/// A target that a discovery session has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Its name.
    pub name: String,
    /// Where it is: an address with a port, and the number of its portal group. Empty when it is where the question was asked.
    pub portals: Vec<String>,
}

/// Something to do with a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command {
    /// What.
    pub cdb: Cdb,
    /// Which way data goes.
    pub transfer: Transfer,
    /// Bytes of data.
    pub len: u32,
    /// All bytes must have moved when it is done.
    pub is_exact: bool,
}

/// Which way the data of a command goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transfer {
    /// No connection.
    None,
    /// To the initiator.
    Read,
    /// To the target.
    Write,
}

/// A PDU to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// Its header.
    pub pdu: Pdu,
    /// Its data.
    pub payload: Payload,
}

/// The data of a PDU to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Payload {
    /// It has none.
    None,
    /// These bytes.
    Bytes(Vec<u8>),
    /// A range of a command's data.
    Data {
        /// The command's tag.
        tag: u16,
        /// Which bytes.
        range: Range<u32>,
    },
}

/// Where the data of a PDU goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Incoming {
    /// It has none.
    Nothing,
    /// A range of a command's data.
    Data {
        /// The command's tag.
        tag: u16,
        /// Which bytes.
        range: Range<u32>,
    },
    /// To [`Initiator::handle_end`].
    Inline,
}

/// A command that is through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Its tag.
    pub tag: u16,
    /// Bytes that moved, or why it was not done.
    pub result: Result<u32, CommandError>,
}

/// Why a command was not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum CommandError {
    /// The unit says why.
    #[error("{0}")]
    Sense(Sense),
    /// The unit does not say why.
    #[error("{0}")]
    Status(Status),
    /// The target could not do it.
    #[error("the target failed (response {0:#04x})")]
    Target(u8),
    /// The digest of some of its data was wrong.
    #[error("data came with a wrong digest")]
    DataDigest,
    /// Less data moved than was asked for.
    #[error("{moved} of {len} bytes were moved")]
    Incomplete {
        /// Bytes that moved.
        moved: u32,
        /// Bytes asked for.
        len: u32,
    },
}

impl CommandError {
    /// Whether the same command may succeed when it is sent again.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        const ABORTED: SenseKey = SenseKey(0x0b);
        match self {
            CommandError::Sense(sense) => {
                let passes = sense.key == SenseKey::UNIT_ATTENTION || sense.key == ABORTED;
                passes && !sense.is_deferred
            }
            CommandError::Status(status) => self.is_busy() || *status == Status::TASK_ABORTED,
            CommandError::DataDigest => true,
            CommandError::Target(_) | CommandError::Incomplete { .. } => false,
        }
    }

    /// Whether the target has no room for the command now (SAM-5 §5.3.1).
    #[must_use]
    pub fn is_busy(&self) -> bool {
        let busy = [Status::BUSY, Status::TASK_SET_FULL];
        matches!(self, CommandError::Status(status) if busy.contains(status))
    }

    /// Whether the unit does not know the command.
    #[must_use]
    pub fn is_unknown_command(&self) -> bool {
        matches!(self, CommandError::Sense(sense) if sense.is_unknown_command())
    }

    /// Whether the unit does not know the command, or not with such fields.
    fn is_unsupported(&self) -> bool {
        matches!(self, CommandError::Sense(sense)
            if sense.key == SenseKey::ILLEGAL_REQUEST && !sense.is_deferred)
    }
}

/// What happened to a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The login is over: these rules hold from the next PDU of each direction on.
    Negotiated(Agreed),
    /// Commands may be submitted.
    Ready(Unit),
    /// The targets that a discovery session has found.
    Targets(Vec<Target>),
    /// It is over; `None` when that was asked for. The connection is to be closed.
    Ended(Option<Failure>),
}

/// Why a session has ended.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Failure {
    /// The target refuses the login.
    #[error("login refused: {0}")]
    Refused(LoginStatus),
    /// The target is elsewhere.
    #[error("the target is to be found at {0}")]
    Redirected(String),
    /// The target wants a proof, and no secret is configured.
    #[error("the target demands authentication by {0}")]
    Authentication(String),
    /// What the target answers to a key makes no sense.
    #[error("the target answers {key}={value}, which makes no sense")]
    Key {
        /// The key.
        key: String,
        /// The answer.
        value: String,
    },
    /// The login does not come to an end.
    #[error("the login does not come to an end")]
    Endless,
    /// A text that is longer than any that makes sense.
    #[error("the target sends a text without end")]
    TextTooLong,
    /// The unit is missing, or not a disk.
    #[error("unit {lun} is no disk (type {device_type:#04x}, qualifier {qualifier})")]
    NotADisk {
        /// Which one.
        lun: Lun,
        /// Peripheral device type.
        device_type: u8,
        /// Peripheral qualifier.
        qualifier: u8,
    },
    /// What the unit is can't be found out.
    #[error("unit {lun} fails on {command}: {error}")]
    Probe {
        /// Which one.
        lun: Lun,
        /// What it was asked.
        command: &'static str,
        /// What it said.
        error: CommandError,
    },
    /// What the unit says of itself makes no sense.
    #[error("unit {lun} answers {command} with what makes no sense")]
    Answer {
        /// Which one.
        lun: Lun,
        /// What it was asked.
        command: &'static str,
    },
    /// The target has refused a PDU.
    #[error("the target rejects a PDU: {0}")]
    Rejected(RejectReason),
    /// The target ends the session.
    #[error("the target ends the session (event {0})")]
    TargetEnded(u8),
}
