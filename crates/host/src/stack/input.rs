//! What becomes of what the NIC says.

use std::time::Instant;

use wire::ethernet;
use wire::packet::{self, Class};

use super::Stack;
use crate::driver::Received;

impl Stack {
    /// Takes what the NIC has to say.
    pub(super) fn take_in(&mut self, now: Instant, received: Received) {
        let offload = &mut self.offload;
        match received {
            // A host that is in no VLAN has neither addresses nor connections there.
            Received::Frame { frame, .. } if ethernet::is_of_vlan(&frame) => {}
            Received::Frame { frame, info, .. } if info.is_placed => {
                match packet::parse_headers(&frame) {
                    Ok(parsed) if parsed.payload_len == info.payload_len && info.checksum_ok => {
                        offload.handle_segment(now, frame, &parsed, info, None);
                    }
                    // No device of ours takes the payload of such a packet away.
                    _ => offload.transport.device.counters.driver_errors += 1,
                }
            }
            Received::Frame {
                frame,
                info,
                opening,
            } => match packet::classify(&frame) {
                Class::Tcp(ref parsed) => {
                    offload.handle_segment(now, frame, parsed, info, opening);
                }
                class => offload.handle_other_frame(now, &frame, class),
            },
            Received::Delivered { frame, info, taken } => {
                offload.take_delivered(now, frame, info, taken);
            }
            Received::Toe(event) => offload.take_toe_event(now, event),
            Received::Reset => self.take_nic_reset(now),
            Received::Room(room) => offload.accel.take_room(room),
            Received::Resource { resource, error } => {
                self.pattern_sets.answered(resource, error.is_none());
            }
            Received::ResyncRequest { context, place } => {
                offload.transport.handle_resync_request(context, place);
            }
            Received::Refused {
                context: None,
                tcpsn,
                error,
                index,
            } => offload.handle_refusal(now, tcpsn, error, index),
            Received::Refused {
                context,
                tcpsn,
                error,
                ..
            } => offload.transport.handle_refusal(context, tcpsn, error),
            Received::SpliceEnded(ended) => offload.take_splice_ended(ended),
            Received::SpliceState(state) => offload.take_splice_state(now, state),
        }
    }

    /// The NIC was reset: the host goes on with what that had.
    pub(super) fn take_nic_reset(&mut self, now: Instant) {
        self.offload.take_nic_reset(now);
        let device = &mut self.offload.transport.device;
        self.pattern_sets.reload(device);
    }
}
