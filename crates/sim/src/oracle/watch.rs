//! What a run's frames say.

use wire::tcp::Flags;
use wire::{SeqNum, packet};

use super::Side;
use crate::assembly::Assembly;
use crate::{Leak, Plaintext};

/// Watches the wire.
pub(super) struct Wire {
    plaintext: Plaintext,
    pub(super) frames: u64,
    pub(super) leak: Option<(Side, u64, Leak)>,
    pub(super) changed: Option<(Side, u64)>,
    pub(super) streams: [Option<Assembly>; 2],
}

impl Wire {
    pub(super) fn new(streams: &[Vec<u8>; 2]) -> Self {
        Self {
            plaintext: Plaintext::of(streams.iter().map(Vec::as_slice)),
            frames: 0,
            leak: None,
            changed: None,
            streams: Default::default(),
        }
    }

    /// The first sequence number of the client's, if it came so far.
    pub(super) fn client_isn(&self) -> Option<SeqNum> {
        self.streams[0].as_ref().map(|stream| stream.isn)
    }

    pub(super) fn handle_frame(&mut self, node: usize, frame: &[u8]) {
        self.frames += 1;
        if self.leak.is_none() {
            self.leak = self
                .plaintext
                .find(frame)
                .map(|leak| (Side::BOTH[node], self.frames, leak));
        }
        let Ok(parsed) = packet::parse(frame) else {
            return;
        };
        let stream = &mut self.streams[node];
        if parsed.tcp.flags.contains(Flags::SYN) {
            stream.get_or_insert(Assembly::new(parsed.tcp.seq)).isn = parsed.tcp.seq;
            return;
        }
        let Some(stream) = stream else { return };
        // The SYN takes a sequence number; keep-alive probes stand before the first byte of data.
        let at = stream.isn.distance_to(parsed.tcp.seq).wrapping_sub(1) as usize;
        if at < 1 << 31 && !stream.take(at, parsed.payload(frame)) && self.changed.is_none() {
            self.changed = Some((Side::BOTH[node], self.frames));
        }
    }
}
