//! What the NIC asks about contexts, and what it could not do.

use nic::ring::{ContextId, ErrorCode};
use wire::SeqNum;

use super::Transport;
use crate::driver::{Part, Place};
use crate::{CloseReason, SocketId};

/// Most bytes around a position that are looked at: no TLS record is longer, with all around it.
const MAX_RECORD: u32 = 1 << 15;

impl Transport {
    /// The NIC asks whether a message begins at a place.
    pub fn handle_resync_request(&mut self, context: ContextId, place: Place) {
        let Some(shadow) = self.device.driver.contexts().get(context) else {
            return;
        };
        let id = shadow.socket;
        let Some(socket) = self.sockets.get_mut(id) else {
            return;
        };
        socket.l5o_resync_rx_req(context, place, &mut self.device);
        self.schedule.mark_ready(id, socket);
    }

    /// The NIC did not do what a descriptor asked for.
    pub fn handle_refusal(&mut self, context: Option<ContextId>, tcpsn: SeqNum, error: ErrorCode) {
        let Some(context) = context else {
            if error == ErrorCode::SourceFaulted {
                self.end_faulted();
            }
            return;
        };
        let Some(shadow) = self.device.driver.contexts_mut().get_mut(context) else {
            return;
        };
        let id = shadow.socket;
        shadow.expected = None;
        let hopeless = shadow.count_error();
        let for_good = matches!(
            error,
            ErrorCode::NoContext
                | ErrorCode::ContextExists
                | ErrorCode::OverQuota
                | ErrorCode::BadParameters
                | ErrorCode::Unsupported
                | ErrorCode::WrongFlow
        );
        if for_good || hopeless {
            shadow.failed = true;
        }
        let failed = shadow.failed;
        let Some(socket) = self.sockets.get_mut(id) else {
            return;
        };
        if failed {
            socket.context_failed(context, &mut self.device);
        }
        match error {
            ErrorCode::SourceChanged => {
                self.device.counters.tls_source_changed += 1;
                let reason = self.source_reason(id, tcpsn, |name, offset| {
                    CloseReason::SourceChanged { name, offset }
                });
                self.reset(id, reason);
            }
            ErrorCode::SourceFaulted => {
                let reason = self.source_gone(id, tcpsn);
                self.reset(id, reason);
            }
            _ => {}
        }
    }

    /// The registered memory around a position of a connection's stream is gone.
    pub fn source_gone(&self, id: SocketId, tcpsn: SeqNum) -> CloseReason {
        self.source_reason(id, tcpsn, |name, offset| CloseReason::SourceGone {
            name,
            offset,
        })
    }

    /// Names the registered memory around a position of a connection's stream.
    fn source_reason(
        &self,
        id: SocketId,
        tcpsn: SeqNum,
        reason: impl FnOnce(String, u64) -> CloseReason,
    ) -> CloseReason {
        let mut source = None;
        if let Some(socket) = self.sockets.get(id) {
            let left = tcpsn.diff(socket.send.end()).unsigned_abs();
            socket
                .send
                .slices(tcpsn, left.min(MAX_RECORD), |payload, offset, len| {
                    payload.parts(offset, len, |part| match part {
                        Part::Region(slice) if source.is_none() => source = Some(slice),
                        Part::Region(_) | Part::Buffer(..) => {}
                    });
                });
        }
        match source {
            Some(slice) => reason(
                self.device.driver.regions.name(slice.region).to_owned(),
                slice.offset,
            ),
            None => reason("registered memory".to_owned(), 0),
        }
    }

    /// Ends every connection that sends from memory which is gone.
    fn end_faulted(&mut self) {
        let regions = &self.device.driver.regions;
        regions.look_for_lost();
        let faulted: Vec<(SocketId, SeqNum)> = self
            .sockets
            .iter()
            .filter_map(|(id, socket)| {
                let mut chunks = socket.send.iter();
                chunks
                    .find(|(_, payload)| {
                        payload
                            .as_region()
                            .is_some_and(|slice| regions.is_faulted(slice.region))
                    })
                    .map(|(seq, _)| (id, seq))
            })
            .collect();
        for (id, seq) in faulted {
            let reason = self.source_gone(id, seq);
            self.reset(id, reason);
        }
    }
}
