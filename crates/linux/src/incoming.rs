//! From the NIC to Linux: a received packet becomes a frame.

use std::time::Instant;

use driver::PlacedPart;
use nic::FrameMeta;
use nic::ring::{ContextId, Packet, RecvDescriptor};
use wire::ethernet;
use wire::packet::{self, Parsed};

use crate::checksum;
use crate::contexts::Owner;
use crate::function::LinuxFunction;
use crate::memory::{Buffers, Held};
use crate::offload::DriverEnv;
use crate::pdus::Rebuilt;

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
        let (packet, held, segment) = self.next_packet(now)?;
        let held = self.shown.insert(held);
        let (frame, _) = frame_and_parts(&mut self.buffers, &mut self.rebuilt, &packet, held);
        let meta = describe(&packet, segment.as_ref(), frame);
        self.counters.rx_packets += 1;
        self.counters.rx_bytes += frame.len() as u64;
        self.counters.rx_super_frames += u64::from(meta.gso_size != 0);
        Some((frame, meta))
    }

    /// The next packet off the receive ring that is for Linux, with the segment that it is, if it is one; what else is on the ring is dealt with.
    fn next_packet(&mut self, now: Instant) -> Option<(Packet, Held, Option<Parsed>)> {
        loop {
            match self.rings.queues[0].recv.pop()? {
                RecvDescriptor::Packet(packet) => {
                    let is_whole = self
                        .rebuilt
                        .take_parts(&mut self.rings.queues[0].recv, &packet);
                    let Some(held) = self.buffers.reclaim(packet.buffer) else {
                        // The buffer was not posted: the device is faulty.
                        self.counters.driver_errors += 1;
                        continue;
                    };
                    if is_whole && self.rebuild(&packet, &held) {
                        let segment = self.segment(&packet, &held);
                        if self.is_for_linux(now, &packet, &held, segment.as_ref()) {
                            return Some((packet, held, segment));
                        }
                    }
                    self.buffers.give_back(held, &mut self.rings.queues[0]);
                }
                RecvDescriptor::ResyncRequest {
                    context,
                    tcpsn,
                    inner: None,
                } => match self.rings.contexts.get(context) {
                    Some(Owner::Pdus(flow)) => {
                        self.pdus.flows.resync_request(context, *flow, tcpsn)
                    }
                    Some(Owner::Receiver(flow, _)) => {
                        self.receive.flows.resync_request(context, *flow, tcpsn);
                    }
                    Some(Owner::Sender(_)) | None => {}
                },
                RecvDescriptor::Completion { context, .. } => self.refused(context),
                // Of contexts and connections that this driver does not have.
                _ => self.counters.driver_errors += 1,
            }
        }
    }

    /// Something was refused that named this context.
    fn refused(&mut self, context: Option<ContextId>) {
        let rings = &mut self.rings;
        let owner = context.and_then(|context| rings.contexts.get_received(context).copied());
        let (Some(context), Some(owner)) = (context, owner) else {
            self.counters.tx_refused += 1;
            return;
        };
        match owner {
            Owner::Sender(index) => {
                self.counters.tx_refused += 1;
                if rings.contexts.get(context).is_some() {
                    self.offload.lost_context(index, context);
                }
            }
            Owner::Receiver(flow, _) => {
                self.counters.driver_errors += 1;
                self.receive.refused(context, flow, rings);
            }
            Owner::Pdus(flow) => {
                self.counters.driver_errors += 1;
                self.pdus.refused(context, flow, rings);
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

    /// The segment that a packet is; `None` for a packet that is not a segment to the NIC.
    fn segment(&mut self, packet: &Packet, held: &Held) -> Option<Parsed> {
        if packet.header_len == 0 {
            return None;
        }
        let (frame, _) = frame_and_parts(&mut self.buffers, &mut self.rebuilt, packet, held);
        packet::parse(frame).ok()
    }

    /// Whether Linux is to have a packet; what the NIC did to it is reported then.
    fn is_for_linux(
        &mut self,
        now: Instant,
        packet: &Packet,
        held: &Held,
        segment: Option<&Parsed>,
    ) -> bool {
        let Some(segment) = segment else {
            return !packet.processed.is_replaced();
        };
        let (frame, parts) = frame_and_parts(&mut self.buffers, &mut self.rebuilt, packet, held);
        // That is another connection's than the one without a VLAN that it looks like.
        if ethernet::is_of_vlan(frame) {
            return !packet.processed.is_replaced();
        }
        let mut env = DriverEnv {
            rings: &mut self.rings,
            staging: &self.staging,
            receive: &mut self.receive,
            counters: &mut self.counters,
            now,
        };
        // Linux drops what was damaged: it says nothing.
        if packet.checksum_ok && !self.offload.handle_received(frame, segment, &mut env) {
            return false;
        }
        if self.receive.is_empty() && self.pdus.is_empty() {
            return !packet.processed.is_replaced();
        }
        let context = packet.context.filter(|_| packet.processed.is_replaced());
        let counters = &mut self.counters;
        let rings = &mut self.rings;
        self.pdus
            .admit(frame, segment, packet, parts, counters, rings)
            && self.receive.admit(frame, segment, context, counters, rings)
    }
}

/// A packet's frame, and the parts of it that were placed.
fn frame_and_parts<'a>(
    buffers: &'a mut Buffers,
    rebuilt: &'a mut Rebuilt,
    packet: &Packet,
    held: &Held,
) -> (&'a mut [u8], &'a [PlacedPart]) {
    match packet.placed {
        0 => (buffers.frame(held), &[]),
        _ => rebuilt.frame_and_parts(),
    }
}

/// What the virtio-net header says of a packet. A TCP checksum that the NIC has found right, or that is the first segment's of
/// several, is left to Linux as one that never crossed a wire: then the payload is not read for it.
fn describe(packet: &Packet, segment: Option<&Parsed>, frame: &mut [u8]) -> FrameMeta {
    let Some(segment) = segment.filter(|_| packet.checksum_ok) else {
        return FrameMeta {
            checksum_valid: packet.checksum_ok,
            ..FrameMeta::default()
        };
    };
    let segments = u32::from(packet.segments);
    let gso_size = match segments {
        0 | 1 => 0,
        _ => u16::try_from(segment.payload_len.div_ceil(segments)).unwrap_or(u16::MAX),
    };
    FrameMeta {
        gso_size,
        needs_checksum: Some(checksum::leave_tcp(frame, segment)),
        checksum_valid: true,
    }
}
