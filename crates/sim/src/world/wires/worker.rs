//! A NIC on its wires.

use std::time::{Duration, Instant};

use nic::Nic;

use super::pace::Pace;

/// A NIC, how fast it is, and what it has taken of the processor.
pub(super) struct Worker {
    pub(super) nic: Nic,
    pub(super) transmit_pace: Pace,
    pub(super) receive_pace: Pace,
    pub(super) transmit_cycles: u64,
    pub(super) receive_cycles: u64,
}

impl Worker {
    pub(super) fn new(nic: Nic, frame_time: Duration) -> Self {
        Self {
            nic,
            transmit_pace: Pace::new(frame_time),
            receive_pace: Pace::new(frame_time),
            transmit_cycles: 0,
            receive_cycles: 0,
        }
    }

    /// Takes a frame from the wire.
    pub(super) fn take(&mut self, now: Instant, frame: &[u8], meta: port::Meta) {
        self.receive_pace.work(now);
        self.nic.handle_frame(now, frame, from_port(meta));
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        let paces = [&self.transmit_pace, &self.receive_pace];
        let free = paces.into_iter().filter_map(|pace| pace.free_at);
        free.chain(self.nic.poll_timeout()).min()
    }
}

fn from_port(meta: port::Meta) -> nic::FrameMeta {
    nic::FrameMeta {
        gso_size: meta.gso_size,
        needs_checksum: meta.needs_checksum,
        checksum_valid: meta.checksum_valid,
    }
}
