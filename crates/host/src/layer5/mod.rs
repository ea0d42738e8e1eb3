//! What a layer-5 protocol is to the stack: a [`Session`], which may be inside of another one.
//!
//! Protocols by name are in modules of their own (`tls`, `pdus`, `pattern`, `http`). A socket has its sessions, and is what TCP, the driver and
//! the offload of connections ask about them.

mod contexts;
mod nested;
mod reader;
mod session;

use l5p::MsgState;
use nic::ring::InnerRecover;
use wire::SeqNum;

use crate::driver::MessageSource;

pub(crate) use contexts::TransmitContexts;
pub(crate) use nested::{Nested, Spans};
pub(crate) use reader::{ContentFront, ContentReader};
pub(crate) use session::{Fallback, Outgoing, Refused, Session};

/// The messages of a socket's protocols, for transmit recovery.
pub(crate) enum Messages<'a> {
    /// One protocol.
    Single(&'a dyn Session),
    /// One inside another.
    Nested(Nested<'a>),
}

impl MessageSource for Messages<'_> {
    fn l5o_get_tx_msgstate(&self, tcpsn: SeqNum) -> Option<MsgState> {
        match self {
            Messages::Single(session) => session.l5o_get_tx_msgstate(tcpsn),
            Messages::Nested(nested) => nested.outer.l5o_get_tx_msgstate(tcpsn),
        }
    }

    fn inner(&self, message: &MsgState) -> Option<InnerRecover> {
        match self {
            Messages::Single(_) => None,
            Messages::Nested(nested) => nested.inner(message),
        }
    }

    fn inner_prefix(&self, message: &MsgState, f: &mut dyn FnMut(SeqNum, u32)) -> bool {
        match self {
            Messages::Single(_) => true,
            Messages::Nested(nested) => nested.inner_prefix(message, f),
        }
    }
}
