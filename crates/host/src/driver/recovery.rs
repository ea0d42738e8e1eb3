//! What the L5 protocol offers the driver, and how a retransmission of an offloaded flow is cut.

use nic::ring::toe::ToeId;
use nic::ring::{ContextId, InnerRecover, SendDescriptor, Slice, Verify};
use wire::SeqNum;

/// A message of an offloaded flow: what `l5o_get_tx_msgstate` answers (Autonomous NIC offloads, Listing 2).
pub(crate) use l5p::MsgState;

/// The L5 protocol's side of transmit recovery.
pub(crate) trait MessageSource {
    /// The message that contains the byte at `tcpsn`, if it is kept still.
    fn l5o_get_tx_msgstate(&self, tcpsn: SeqNum) -> Option<MsgState>;

    /// Where the inner protocol of a stack is at the beginning of a message of the outer one.
    fn inner(&self, message: &MsgState) -> Option<InnerRecover> {
        let _ = message;
        None
    }

    /// Calls `f(tcpsn, bytes)` for each run of what the inner message had before that. False when some of it is not known any more.
    fn inner_prefix(&self, message: &MsgState, f: &mut dyn FnMut(SeqNum, u32)) -> bool {
        let _ = (message, f);
        true
    }
}

/// What must be named to the NIC before it can send from some position on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Recovery {
    pub message: MsgState,
    /// Bytes from the message's start that the NIC reads.
    pub prefix: u32,
    pub verify: Verify,
}

impl Recovery {
    /// How to get a context to `resume`, inside of `message`. Of a message whose source others may change, all that
    /// was ever sent of it is read and compared with what was sent.
    pub fn plan(message: MsgState, resume: SeqNum, frontier: SeqNum, mutable: bool) -> Self {
        let before = message.start.distance_to(resume);
        let sent = message.start.distance_to(frontier).min(message.len);
        if !mutable || frontier.at_or_before(message.start) {
            return Self {
                message,
                prefix: before,
                verify: Verify::None,
            };
        }
        let verify = if sent == message.len {
            Verify::WholeMessage
        } else {
            Verify::Frontier
        };
        Self {
            message,
            prefix: sent,
            verify,
        }
    }

    /// The descriptor that brings `context` to `resume`, on the send ring, or on the command ring for a connection on the NIC.
    pub fn descriptor<'a>(
        &self,
        (context, resume): (ContextId, SeqNum),
        toe: Option<ToeId>,
        prefix: &'a [Slice],
        inner: Option<InnerRecover>,
    ) -> SendDescriptor<'a> {
        SendDescriptor::RecoverContext {
            context,
            start: self.message.start,
            index: self.message.index,
            len: self.message.len,
            resume,
            prefix,
            verify: self.verify,
            inner,
            toe,
        }
    }
}
