//! Where received data goes.

use l5p::nbd::{Framing, Incoming, NbdError, Pdu, Requests};
use nic::ring::Slice;

use super::RequestId;
use crate::pdus::{DataDigest, Destination, Memories, PduSink};

/// Takes the replies of one call.
pub(super) struct Sink<'a> {
    pub(super) requests: &'a mut Requests,
    pub(super) memories: &'a Memories<RequestId>,
    pub(super) by_tag: &'a [RequestId],
    pub(super) slices: &'a mut Vec<Slice>,
    /// Parts of memory that are to be zeroes.
    pub(super) zeroes: &'a mut Vec<Slice>,
}

impl Sink<'_> {
    /// The memory of `len` bytes of a read's data from `at` on.
    fn part(&mut self, tag: u16, at: u32, len: u32) {
        let id = self.by_tag[usize::from(tag)];
        self.memories.get(id).part(at, len, self.slices);
    }
}

impl PduSink<Framing> for Sink<'_> {
    fn header(&mut self, pdu: &Pdu) -> Result<Destination<'_>, NbdError> {
        let Pdu::Reply(reply) = pdu else {
            return Err(NbdError::NotARequest);
        };
        Ok(match self.requests.handle_reply(reply)? {
            Incoming::Nothing => Destination::Nothing,
            Incoming::Text => Destination::Inline,
            Incoming::Data { tag, at, len } => {
                self.part(tag, at, len);
                Destination::Slices(self.slices)
            }
            Incoming::Zeroes { tag, at, len } => {
                self.part(tag, at, len);
                self.zeroes.append(self.slices);
                Destination::Nothing
            }
        })
    }

    fn end(&mut self, _: DataDigest, data: &[u8]) -> Result<(), NbdError> {
        self.requests.end(data);
        Ok(())
    }
}
