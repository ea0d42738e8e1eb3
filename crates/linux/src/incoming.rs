//! From the NIC to Linux: a received packet becomes a frame.

use std::time::Instant;

use nic::FrameMeta;
use nic::ring::{Packet, RecvDescriptor};
use wire::packet;

use crate::checksum;
use crate::function::LinuxFunction;
use crate::memory::Held;
use crate::offload::Around;

impl LinuxFunction {
    /// The next frame for Linux, with what its virtio-net header is to say. It is valid until the next call.
    pub fn poll_frame(&mut self, now: Instant) -> Option<(&[u8], FrameMeta)> {
        self.return_shown();
        self.answered = self.offload.poll_answer();
        if self.answered.is_some() {
            let meta = FrameMeta {
                checksum_valid: true,
                ..FrameMeta::default()
            };
            self.counters.rx_packets += 1;
            return Some((self.answered.as_ref()?.frame(), meta));
        }
        let (packet, held) = self.next_packet(now)?;
        let held = self.shown.insert(held);
        let frame = match packet.placed {
            0 => self.buffers.frame(held),
            _ => self.rebuilt.frame_and_parts().0,
        };
        let meta = describe(&packet, frame);
        self.counters.rx_packets += 1;
        self.counters.rx_bytes += frame.len() as u64;
        self.counters.rx_super_frames += u64::from(meta.gso_size != 0);
        Some((frame, meta))
    }

    /// The next packet off the receive ring that is for Linux; what else is on it is dealt with.
    fn next_packet(&mut self, now: Instant) -> Option<(Packet, Held)> {
        loop {
            match self.queue.recv.pop()? {
                RecvDescriptor::Packet(packet) => {
                    let is_whole = self.rebuilt.take_parts(&mut self.queue.recv, &packet);
                    match self.buffers.reclaim(packet.buffer) {
                        Some(held)
                            if is_whole
                                && self.rebuild(&packet, &held)
                                && self.is_for_linux(now, &packet, &held) =>
                        {
                            return Some((packet, held));
                        }
                        Some(held) => self.buffers.give_back(held, &mut self.queue),
                        // A buffer that was not lent: there is nothing to look at.
                        None => self.counters.driver_errors += 1,
                    }
                }
                RecvDescriptor::ResyncRequest {
                    context,
                    tcpsn,
                    inner: None,
                } => {
                    if !self.pdus.resync_request(context, tcpsn) {
                        self.receive.resync_request(context, tcpsn);
                    }
                }
                RecvDescriptor::Completion {
                    context: Some(context),
                    ..
                } if self.receive.refused(context) || self.pdus.refused(context) => {
                    self.counters.driver_errors += 1;
                }
                RecvDescriptor::Completion { context, .. } => {
                    self.counters.tx_refused += 1;
                    if let Some(context) = context {
                        self.offload.lost_context(context);
                    }
                }
                // Of contexts and connections that this driver has none of.
                _ => self.counters.driver_errors += 1,
            }
        }
    }

    /// Puts a packet together of which parts were placed. False when it can't be.
    fn rebuild(&mut self, packet: &Packet, held: &Held) -> bool {
        if packet.placed == 0 {
            return true;
        }
        let stored = self.buffers.frame(held);
        let pdus = &self.pdus;
        let header_len = usize::from(packet.header_len);
        let built = self.rebuilt.build(header_len, stored, |id| pdus.memory(id));
        self.counters.driver_errors += u64::from(!built);
        built
    }

    /// Whether Linux is to have a packet; what the NIC did to it is told then.
    fn is_for_linux(&mut self, now: Instant, packet: &Packet, held: &Held) -> bool {
        let (frame, parts) = match packet.placed {
            0 => (self.buffers.frame(held), &[][..]),
            _ => self.rebuilt.frame_and_parts(),
        };
        let context = packet.context.filter(|_| packet.offloaded);
        match packet::parse(frame) {
            Ok(parsed) if packet.header_len > 0 => {
                let mut around = Around {
                    queue: &mut self.queue,
                    staging: &self.staging,
                    receive: &mut self.receive,
                    counters: &mut self.counters,
                    now,
                };
                // Linux drops what was damaged: it says nothing.
                if packet.checksum_ok && !self.offload.handle_received(frame, &parsed, &mut around)
                {
                    return false;
                }
                if self.receive.is_empty() && self.pdus.is_empty() {
                    return !packet.offloaded;
                }
                let counters = &mut self.counters;
                self.pdus.admit(frame, &parsed, packet, parts, counters)
                    && self.receive.admit(frame, &parsed, context, counters)
            }
            _ => !packet.offloaded,
        }
    }
}

/// What the virtio-net header says of a packet. A TCP checksum that the NIC has found right, or that is the first segment's of
/// several, is left to Linux as one that never crossed a wire: then nobody looks at the payload for it.
fn describe(packet: &Packet, frame: &mut [u8]) -> FrameMeta {
    let is_verified_tcp = packet.checksum_ok && packet.header_len > 0;
    let parsed = match is_verified_tcp {
        true => packet::parse(frame).ok(),
        false => None,
    };
    let Some(parsed) = parsed else {
        return FrameMeta {
            checksum_valid: packet.checksum_ok,
            ..FrameMeta::default()
        };
    };
    let segments = u32::from(packet.segments);
    let gso_size = match segments {
        0 | 1 => 0,
        _ => u16::try_from(parsed.payload_len.div_ceil(segments)).unwrap_or(u16::MAX),
    };
    FrameMeta {
        gso_size,
        needs_checksum: Some(checksum::leave_tcp(frame, &parsed)),
        checksum_valid: true,
    }
}
