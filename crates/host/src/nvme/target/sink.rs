//! Where received data goes.

use std::time::Instant;

use l5p::nvme::target::{ConnectionId, Place, Target as Machine};
use nic::ring::Slice;
use wire::nvme::{FatalError, Framing, Pdu};

use super::memory::Memories;
use crate::pdus::{DataDigest, Destination, PduSink};

/// Takes the PDUs of one connection.
pub(super) struct Sink<'a> {
    pub(super) now: Instant,
    pub(super) connection: ConnectionId,
    pub(super) machine: &'a mut Machine,
    pub(super) memories: &'a Memories,
    pub(super) slice: &'a mut Option<Slice>,
}

impl PduSink<Framing> for Sink<'_> {
    fn header(&mut self, pdu: &Pdu) -> Result<Destination<'_>, FatalError> {
        let place = self.machine.handle_pdu(self.now, self.connection, pdu)?;
        *self.slice = match place {
            Place::None => return Ok(Destination::Nothing),
            Place::Inline => return Ok(Destination::Inline),
            Place::Discard => return Ok(Destination::Discard),
            Place::InCapsule { command, len } => Some(self.memories.in_capsule(command, len)),
            Place::Command {
                command,
                offset,
                len,
            } => Some(self.memories.slice(command, offset, len)),
        };
        Ok(Destination::Slices(self.slice.as_slice()))
    }

    fn part(&mut self) {
        self.machine.handle_data(self.now, self.connection);
    }

    fn end(&mut self, digest: DataDigest, data: &[u8]) -> Result<(), FatalError> {
        let intact = digest == DataDigest::Good;
        self.machine
            .handle_pdu_end(self.now, self.connection, intact, data);
        Ok(())
    }
}
