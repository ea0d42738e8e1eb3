//! Where received data goes.

use l5p::iscsi::initiator::{CommandError, Incoming, Initiator};
use l5p::iscsi::{Framing, ProtocolError};
use nic::ring::Slice;
use wire::iscsi::Pdu;

use crate::disk::Commands;
use crate::pdus::{DataDigest, Destination, PduSink};

/// Takes the PDUs of one call.
pub(super) struct Sink<'a> {
    pub(super) initiator: &'a mut Initiator,
    pub(super) commands: &'a Commands<CommandError>,
    pub(super) slices: &'a mut Vec<Slice>,
}

impl PduSink<Framing> for Sink<'_> {
    fn header(&mut self, pdu: &Pdu) -> Result<Destination<'_>, ProtocolError> {
        Ok(match self.initiator.handle_header(pdu)? {
            Incoming::Nothing => Destination::Nothing,
            Incoming::Inline => Destination::Inline,
            Incoming::Data { tag, range } => {
                self.commands.part(tag, range, self.slices);
                Destination::Slices(self.slices)
            }
        })
    }

    fn end(&mut self, digest: DataDigest, data: &[u8]) -> Result<(), ProtocolError> {
        self.initiator.handle_end(digest == DataDigest::Good, data)
    }
}
