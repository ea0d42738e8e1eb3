//! Connections given to the NIC, and frames of theirs that came too late.

use nic::ring::accel::{Splice, SpliceId};

use super::{Command, Driver};
use crate::memory::Buffer;

impl Driver {
    /// Joins two connections. From here on they are the NIC's, unless it refuses; packets of theirs that were posted before go out
    /// before.
    pub fn splice(&mut self, splice: Splice) {
        self.command(Command::Splice(Box::new(splice)));
    }

    /// Takes a splice back.
    pub fn unsplice(&mut self, splice: SpliceId) {
        self.command(Command::Unsplice(splice));
    }

    /// Gives the NIC a frame that came up after its flow had been given away. `gso_size`: payload bytes of each packet on the
    /// wire, if it stands for several.
    pub fn reinject(&mut self, frame: Buffer, gso_size: u16) {
        self.command(Command::Reinject { frame, gso_size });
    }
}
