//! A wire from one machine to another.

use std::time::Instant;

use port::Port;
use port::impair::Impair;
use port::memory::End;

use super::super::config::mac;
use super::fate::{Fates, decide};
use super::held::Held;
use super::worker::Worker;

/// From one host to another, and back.
pub(super) struct Wire {
    pub(super) to: usize,
    pub(super) port: Impair<End>,
    pub(super) held: Held,
}

impl Wire {
    /// Whether a frame is for the host at the other end.
    pub(super) fn is_for_it(&self, frame: &[u8]) -> bool {
        frame.len() < 6 || frame[0] & 1 == 1 || frame[..6] == mac(self.to).0
    }

    /// Carries what the NIC has for the only other host: it is written where it lies on the wire. Answers whether there was anything.
    pub(super) fn carry(
        &mut self,
        now: Instant,
        from: usize,
        worker: &mut Worker,
        fates: &mut Option<Fates>,
    ) -> bool {
        let Self { to, port, held } = self;
        let (nic, pace) = (&mut worker.nic, &mut worker.transmit_pace);
        let mut moved = false;
        let sent = port.transmit(now, &mut |buffer| {
            if let Some(frame) = held.take_due(now, buffer) {
                return Some(frame);
            }
            loop {
                if pace.is_busy(now) {
                    return None;
                }
                let (len, meta) = nic.poll_transmit(now, buffer)?;
                pace.work(now);
                moved = true;
                let frame = &mut buffer[..len];
                let fate = decide(fates, from, *to, frame);
                if let Some(later) = fate.later() {
                    held.admit(now + later, frame, to_port(meta));
                }
                if let Some(len) = fate.passes(len) {
                    return Some((len, to_port(meta)));
                }
            }
        });
        sent.expect("a link in memory does not fail") > 0 || moved
    }

    /// Sends what was held until now. Answers whether there was anything.
    pub(super) fn send_held(&mut self, now: Instant) -> bool {
        let Self { port, held, .. } = self;
        let sent = port.transmit(now, &mut |buffer| held.take_due(now, buffer));
        sent.expect("a link in memory does not fail") > 0
    }
}

pub(super) fn to_port(meta: nic::FrameMeta) -> port::Meta {
    port::Meta {
        gso_size: meta.gso_size,
        needs_checksum: meta.needs_checksum,
        checksum_valid: meta.checksum_valid,
    }
}
