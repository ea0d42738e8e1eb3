//! Descriptors of connections that the host hands off to the device, which runs TCP for them (Connection handoff policies §2).
//!
//! Commands go to the command ring of a queue, beside its send ring. The device looks at the command ring first, then works the
//! send ring off as far as it is published, and only then the commands that it saw: what a host publishes on its
//! send ring before a command is done before it.

mod command;
mod event;
mod image;
mod reason;

use wire::ethernet::MacAddr;
use wire::{FlowKey, SeqNum};

use super::gather::most_slices;
use super::layout::{self, ContextId};
use super::region::Slice;
use super::send::SendFlags;

pub use event::ToeEvent;
pub use image::{TCB_IMAGE_BYTES, TcbImage, TooManyHeld};
pub use reason::{RefuseReason, RestoreReason, TcbField};

pub(crate) use command::ToeRequest;
pub(super) use command::{decode, post, slices_fit};
pub(super) use event::close_from_byte;

/// Most slices of one [`ToeCommand::Send`].
pub const MAX_TOE_SEND_SLICES: usize = most_slices::<layout::ToeSend>();
/// Most slices that the device keeps of one connection. A slice is gone when all of it has been acknowledged; what would be too
/// many is refused ([`ToeEvent::CommandFailed`]).
pub const MAX_TOE_SLICES: usize = 128;
/// Most ranges received out of order that a control block in memory has.
pub const MAX_HELD: usize = 16;

/// A connection handed off. The host chooses it: an index below [`FunctionConfig::toe_connections`](super::FunctionConfig) that
/// is not in use, and a generation that tells it from what had the index before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ToeId {
    /// Its place.
    pub index: u32,
    /// Which of those that have had the place.
    pub generation: u32,
}

/// A connection that the device is to run from now on, [held](ToeCommand::Begin) already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ToeOffer {
    /// As it was begun.
    pub toe: ToeId,
    /// From us to the peer.
    pub flow: FlowKey,
    /// The next hop's MAC address.
    pub hop: MacAddr,
    /// TTL or hop limit of its packets.
    pub hop_limit: u8,
    /// [`TCB_IMAGE_BYTES`] of writable memory with its [`TcbImage`]. The device reads it when it takes this descriptor, and writes
    /// it before [`ToeEvent::Restored`].
    pub tcb: Slice,
}

/// An option that the application has set: Nagle's algorithm (RFC 9293 §3.7.4) or `TCP_CORK`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToeOption {
    /// `TCP_NODELAY`: no Nagle's algorithm.
    NoDelay(bool),
    /// `TCP_CORK`: only full segments are sent, for at most 200 ms.
    Cork(bool),
}

/// What a host posts of a connection on its command ring. A command for a connection that is no longer there is dropped and
/// counted; `Begin` and `Offer` always get an answer.
#[derive(Debug, Clone, Copy)]
pub enum ToeCommand<'a> {
    /// Hold the flow's received packets from now on: answered by [`ToeEvent::Ready`] or [`ToeEvent::Refused`]. All packets
    /// that come before the answer are the host's. A connection that is not offered within a second is as cancelled.
    Begin {
        /// The connection.
        toe: ToeId,
        /// From us to the peer.
        flow: FlowKey,
    },
    /// Run it: answered by [`ToeEvent::Accepted`] or [`ToeEvent::Refused`], after which the host goes on with the
    /// packets that were held.
    Offer(&'a ToeOffer),
    /// Hold it no longer: the packets held come up as any others.
    Cancel {
        /// The connection.
        toe: ToeId,
    },
    /// Give it back: answered by [`ToeEvent::Restored`], or [`ToeEvent::Closed`].
    Restore {
        /// The connection.
        toe: ToeId,
    },
    /// Send this after all that was queued before.
    Send {
        /// The connection.
        toe: ToeId,
        /// Position of the first byte: that behind the last one queued. With any other the command is dropped.
        seq: SeqNum,
        /// The transmit context that transforms it.
        context: Option<ContextId>,
        /// [`SendFlags::MUTABLE_SOURCE`] or nothing.
        flags: SendFlags,
        /// The bytes, in order; they stay as they are until acknowledged. At most [`MAX_TOE_SEND_SLICES`] of them.
        payload: &'a [Slice],
    },
    /// The application has read so much of what was delivered in order.
    Consumed {
        /// The connection.
        toe: ToeId,
        /// How many bytes more.
        bytes: u32,
    },
    /// Send FIN behind what is queued.
    Close {
        /// The connection.
        toe: ToeId,
    },
    /// Reset it: answered by [`ToeEvent::Closed`].
    Abort {
        /// The connection.
        toe: ToeId,
    },
    /// The application reads no more ([`tcp::Connection::detach`]).
    Detach {
        /// The connection.
        toe: ToeId,
    },
    /// Set an option.
    Option {
        /// The connection.
        toe: ToeId,
        /// Which, and to what.
        option: ToeOption,
    },
    /// The answer to [`ToeEvent::Recover`], behind a [`RecoverContext`](super::SendDescriptor::RecoverContext) on the same ring.
    Resume {
        /// The connection.
        toe: ToeId,
        /// The context asked about.
        context: ContextId,
        /// Where it is now.
        tcpsn: SeqNum,
        /// Bytes from there on that the recovery is good for; 0 for no limit. Behind them the device asks again.
        len: u32,
    },
}

impl ToeCommand<'_> {
    /// The connection.
    pub fn toe(&self) -> ToeId {
        match *self {
            ToeCommand::Offer(offer) => offer.toe,
            ToeCommand::Begin { toe, .. }
            | ToeCommand::Cancel { toe }
            | ToeCommand::Restore { toe }
            | ToeCommand::Send { toe, .. }
            | ToeCommand::Consumed { toe, .. }
            | ToeCommand::Close { toe }
            | ToeCommand::Abort { toe }
            | ToeCommand::Detach { toe }
            | ToeCommand::Option { toe, .. }
            | ToeCommand::Resume { toe, .. } => toe,
        }
    }
}
