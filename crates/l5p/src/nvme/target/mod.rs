//! An NVMe/TCP target: subsystems with namespaces, and a discovery controller, for any number of hosts.
//!
//! [`Target`] is a pure machine. It reads no clock, holds no data and does no I/O: it takes in the headers of PDUs, answers
//! where their data belongs, asks for memory and for the work of stores, and gives the PDUs that go to the hosts.
//!
//! # How to drive it
//! 1. [`Target::accept`] for each TCP connection, [`Target::handle_closed`] when one is gone.
//! 2. For each PDU that came: [`Target::handle_pdu`] with its header, which must have been checked against the framing of the
//!    connection, then [`Target::handle_pdu_end`] when all of it is there, and [`Target::handle_data`] when a part is. Data goes
//!    where the answered [`Place`] says.
//! 3. [`Target::poll_action`] until it gives `None`: memory to find ([`Target::handle_buffer`]), stores to put to work
//!    ([`Target::handle_stored`]), memory that is free again, connections to close. All of it may be answered in any order.
//! 4. [`Target::peek_pdu`] and [`Target::pdu_sent`] for each connection, as long as it takes more. Behind the ICResp the
//!    framing is that of [`Target::negotiated`].
//! 5. [`Target::handle_timeout`] when the time of [`Target::poll_timeout`] has come.
//!
//! # On several threads
//! [`Target::several`] makes machines that are one target together: each has connections of its own, and a controller may have its admin queue on
//! one and I/O queues on others. They share controllers and who has which queue, behind a lock that Connect, properties, resets and ends of queues
//! take; an I/O command takes no lock and writes nothing that another machine writes. What one wants of another ([`Action::Wake`]: to close queues,
//! to take over a changed namespace) lies in the other's mailbox, at which it looks before each PDU and whenever it is asked for actions. A controller
//! that is reset is ready, and its host refused as busy, until all machines have closed what it had. Abort gives up commands of queues
//! of its own machine alone.
//!
//! # What it holds a host to
//! The queue's entries, MAXH2CDATA, the order of the data of an R2T and its LAST_PDU flag, tags that it gave itself, one command
//! per identifier. Whatever a host does, memory is bounded by [`Limits`]; a host that stays silent for its keep-alive time-out
//! loses all of its connections.

mod action;
mod admin;
mod answer;
mod capsule;
mod cids;
mod clock;
mod command;
mod config;
mod connection;
mod control;
mod controller;
mod events;
mod fabrics;
mod features;
mod ids;
mod info;
mod io;
mod machine;
mod mail;
mod output;
mod reset;
mod shared;
mod slab;
mod storing;
mod subsystem;
mod traffic;
mod transfer;

pub use action::{
    Action, CloseReason, FilledBy, Memory, Operation, Outgoing, Owner, Place, Source, StoreRequest,
};
pub use config::{
    ADMIN_IN_CAPSULE, Config, ConfigError, Hosts, Limits, Namespace, Portal, StoreId, Subsystem,
};
pub use connection::{Host, PskIdentity};
pub use ids::{CommandRef, ConnectionId, ControllerRef};
pub use info::{Counters, QueueInfo};
pub use io::ranges;
pub use machine::Target;
pub use output::Negotiated;

use wire::nvme::command::Version;

/// The version of NVM Express that controllers follow.
pub(crate) const VERSION: Version = Version::new(1, 4, 0);
