//! How a retransmission of an offloaded flow is prepared.

use l5p::MsgState;
use nic::ring::toe::ToeId;
use nic::ring::{ContextId, InnerRecover, RecoverContext, SendDescriptor, Slice, Verify};
use wire::SeqNum;

/// What must be named to the NIC before it can send from some position on (Autonomous NIC offloads §4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recovery {
    /// The message that holds the position: what `l5o_get_tx_msgstate` gives.
    pub message: MsgState,
    /// Bytes from the message's start that the NIC reads.
    pub prefix: u32,
    /// What it proves of them.
    pub verify: Verify,
}

impl Recovery {
    /// How to get a context to `resume`, inside of `message`. Of a message whose source others may change, all that
    /// was ever sent of it is read and compared with what was sent.
    pub fn plan(message: MsgState, resume: SeqNum, frontier: SeqNum, mutable: bool) -> Recovery {
        let before = message.start.distance_to(resume);
        let sent = message.start.distance_to(frontier).min(message.len);
        if !mutable || frontier.at_or_before(message.start) {
            return Recovery {
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
        Recovery {
            message,
            prefix: sent,
            verify,
        }
    }

    /// For bytes of the message that were sent before and can be made again without those in front of them.
    pub fn seek(message: MsgState) -> Recovery {
        Recovery {
            message,
            prefix: 0,
            verify: Verify::Seek,
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
            recover: RecoverContext {
                context,
                start: self.message.start,
                index: self.message.index,
                len: self.message.len,
                resume,
                verify: self.verify,
                inner,
                toe,
            },
            prefix,
        }
    }
}

#[cfg(test)]
mod tests;
