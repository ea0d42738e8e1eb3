//! Where received data goes.

use std::time::Instant;

use l5p::nvme::initiator::{CommandId, Controller, Incoming};
use nic::ring::Slice;
use wire::nvme::{FatalError, Framing, Pdu};

use crate::disk::Memories;
use crate::pdus::{DataDigest, Destination, PduSink};

/// Takes the PDUs of one queue.
pub(super) struct Sink<'a> {
    pub(super) now: Instant,
    pub(super) queue: u16,
    pub(super) controller: &'a mut Controller,
    pub(super) memories: &'a Memories<CommandId>,
    pub(super) slices: &'a mut Vec<Slice>,
}

impl PduSink<Framing> for Sink<'_> {
    fn header(&mut self, pdu: &Pdu) -> Result<Destination<'_>, FatalError> {
        let incoming = self.controller.handle_header(self.now, self.queue, pdu)?;
        if pdu.data_len() == 0 {
            self.controller.handle_end(self.now, self.queue, true, &[]);
        }
        Ok(match incoming {
            Incoming::Nothing => Destination::Nothing,
            Incoming::Data {
                token, offset, len, ..
            } => {
                self.memories.get(token).part(offset, len, self.slices);
                Destination::Slices(self.slices)
            }
            Incoming::Inline => Destination::Inline,
            Incoming::Discard => Destination::Discard,
        })
    }

    fn end(&mut self, digest: DataDigest, data: &[u8]) -> Result<(), FatalError> {
        let intact = digest == DataDigest::Good;
        self.controller
            .handle_end(self.now, self.queue, intact, data);
        Ok(())
    }
}
