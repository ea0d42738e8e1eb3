//! The connections that the device runs. This one runs none: it refuses them all.

use std::time::Instant;

use wire::{FlowKey, SeqNum};

use super::room::Room;
use super::rx_queue::NicPacket;
use super::{After, Around, Segment, Taken, ToeConfig};
use crate::function::{Function, FunctionId};
use crate::ring::toe::{RefuseReason, ToeEvent, ToeId};
use crate::ring::{Gather, RecvDescriptor, ToeRequest};
use crate::transmit::Stopped;

/// The engine.
#[derive(Debug)]
pub(crate) struct Toe {
    pub(crate) room: Room,
}

impl Toe {
    pub(crate) fn new(config: &ToeConfig) -> Toe {
        Toe {
            room: Room::new(config),
        }
    }

    /// Makes room for the next function.
    pub(crate) fn add_function(&mut self) {
        self.room.add_function();
    }

    /// Whether no connection is begun or run.
    pub(crate) fn is_idle(&self) -> bool {
        true
    }

    /// Whether the connection at `at` is this function's, and has this flow; the flow is from the peer to us.
    pub(crate) fn owns(&self, _at: u32, _function: FunctionId, _flow: &FlowKey) -> bool {
        false
    }

    /// The number of the connection at `at` in its function ([`ToeId::index`]).
    pub(crate) fn connection(&self, at: u32) -> u32 {
        at
    }

    /// Carries a command out, whose slices are in `gather`. Each receive ring of the function has room for two events.
    pub(crate) fn command(
        &mut self,
        around: &mut Around<'_>,
        queue: usize,
        request: &ToeRequest,
        _gather: &Gather,
    ) -> After {
        let counters = &mut around.function.counters;
        counters.toe_commands += 1;
        let ToeRequest::Begin { toe, .. } = *request else {
            counters.toe_stale_commands += 1;
            return After::Next;
        };
        counters.toe_refused_unsupported += 1;
        let reason = RefuseReason::Unsupported;
        let event = RecvDescriptor::Toe(ToeEvent::Refused { toe, reason });
        let told = around.function.tell(queue, event);
        debug_assert!(told, "there is room");
        After::Next
    }

    /// Takes a packet of a connection to TCP.
    pub(crate) fn handle_packet(
        &mut self,
        _around: &mut Around<'_>,
        connection: u32,
        _packet: &NicPacket,
    ) -> Taken {
        Taken {
            toe: ToeId {
                index: connection,
                generation: 0,
            },
            accepted: None,
            rcv_nxt: SeqNum(0),
        }
    }

    /// Does what is due.
    pub(crate) fn handle_time(&mut self, _now: Instant, _functions: &mut [Function]) {}

    /// When [`handle_time`](Self::handle_time) is to be called.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    /// Whether a connection of this function's may have something to send.
    pub(crate) fn has_segments(&self, _function: FunctionId) -> bool {
        false
    }

    /// The next segment of a connection of this function's; its slices go to `gather`.
    pub(crate) fn poll_segment(
        &mut self,
        _around: &mut Around<'_>,
        _gather: &mut Gather,
    ) -> Option<Segment> {
        None
    }

    /// A segment was refused by the transmit side.
    pub(crate) fn refused(&mut self, _around: &mut Around<'_>, _stopped: &Stopped) {}

    /// Tells a function's host what it does not know yet. False when some of that waits for room in a receive ring.
    pub(crate) fn tell(&mut self, _around: &mut Around<'_>) -> bool {
        true
    }
}
