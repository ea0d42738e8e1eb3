//! Where received data goes.

use l5p::nbd::{Framing, Incoming, NbdError, Pdu, RequestError, Requests};
use nic::ring::Slice;

use crate::disk::Commands;
use crate::pdus::{DataDigest, Destination, PduSink};

/// Takes the replies of one call.
pub(super) struct Sink<'a> {
    pub(super) requests: &'a mut Requests,
    pub(super) commands: &'a Commands<RequestError>,
    pub(super) slices: &'a mut Vec<Slice>,
    /// Parts of memory that are to be zeroes.
    pub(super) zeroes: &'a mut Vec<Slice>,
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
                self.commands.part(tag, at..at + len, self.slices);
                Destination::Slices(self.slices)
            }
            Incoming::Zeroes { tag, at, len } => {
                self.commands.part(tag, at..at + len, self.slices);
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
