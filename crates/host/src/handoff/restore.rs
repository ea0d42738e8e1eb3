//! The way back: the host goes on where the NIC has stopped.

use std::time::Instant;

use nic::ring::toe::{RestoreReason, TcbImage, ToeId};
use nic::ring::{ContextId, ErrorCode};
use tcp::Tcb;
use wire::SeqNum;

use super::offloaded::{OffloadedConnection, Phase};
use crate::driver::bytes_of;
use crate::socket::Socket;
use crate::stack::{Core, Stack};
use crate::{CloseReason, SocketError, SocketId};

impl Stack {
    /// Asks the NIC for a connection that was [handed off](Self::hand_off); nothing happens if the host has it. Reads and writes go on
    /// meanwhile. Answers whether it is on its way back.
    ///
    /// # Errors
    /// [`SocketError::NotFound`] when there is no such socket.
    pub fn restore(&mut self, now: Instant, id: SocketId) -> Result<bool, SocketError> {
        if self.sockets.get(id).is_none() && !self.sockets.is_quasi(id) {
            return Err(SocketError::NotFound);
        }
        Ok(self.recall(now, id))
    }

    /// The host is to run a connection again. Answers whether the NIC is asked for it.
    pub(crate) fn recall(&mut self, now: Instant, id: SocketId) -> bool {
        let Some(socket) = self.sockets.get_mut(id) else {
            return false;
        };
        let Some(offloaded) = socket.owner.handoff_mut() else {
            return false;
        };
        if !offloaded.is_away() {
            self.cancel_handoff(now, id);
            return false;
        }
        offloaded.phase = Phase::Restoring;
        self.core.mark_ready(id, socket);
        true
    }

    /// The NIC gives a connection back.
    pub(super) fn take_restored(&mut self, now: Instant, toe: ToeId, reason: RestoreReason) {
        let Some(id) = self.core.handoff.table.find(toe) else {
            self.core.counters.handoff_stale += 1;
            return;
        };
        self.core.handoff.table.release(toe);
        let core = &mut self.core;
        let Some(socket) = self.sockets.get_mut(id) else {
            return;
        };
        let Some(offloaded) = socket.owner.end_handoff() else {
            return;
        };
        core.counters.handoff_curr -= u64::from(offloaded.accepted);
        match reason {
            RestoreReason::Asked => core.counters.handoff_restored += 1,
            _ => core.counters.handoff_given_back += 1,
        }
        core.left_nic(socket);
        let brought = core.bring_back(now, socket, &offloaded);
        core.mark_ready(id, socket);
        match brought {
            Ok(()) => self.settle_contexts(&offloaded, reason),
            Err(what) => {
                core.counters.driver_errors += 1;
                let held = socket.stream.held();
                let known = socket.known_to_nic(&offloaded);
                socket.tcp.take_over(now, known, offloaded.told.fin, held);
                self.reset(id, CloseReason::Device(what));
            }
        }
    }

    /// Software does what a context of a connection could not do on the NIC.
    fn settle_contexts(&mut self, offloaded: &OffloadedConnection, reason: RestoreReason) {
        if let Some((context, error)) = offloaded.failed {
            self.context_erred(context, error);
        }
        if let RestoreReason::Transmit { error, context } = reason
            && let Some(context) = context.filter(|_| offloaded.failed.is_none())
        {
            self.context_erred(context, error);
        }
    }

    fn context_erred(&mut self, context: ContextId, error: ErrorCode) {
        // What has changed or gone is found out when it is sent again.
        if !matches!(error, ErrorCode::SourceChanged | ErrorCode::SourceFaulted) {
            self.take_refusal(Some(context), SeqNum(0), error);
        }
    }
}

impl Core {
    /// Puts the control block back that the NIC has left.
    fn bring_back(
        &mut self,
        now: Instant,
        socket: &mut Socket,
        offloaded: &OffloadedConnection,
    ) -> Result<(), String> {
        let slice = offloaded.image.ok_or("it gave back what it never had")?;
        let buffer = self.driver.reclaim_image(slice);
        let mut buffer = buffer.ok_or("it gave a connection back twice")?;
        let bytes = bytes_of(&mut buffer).ok_or("a control block was cut short")?;
        let image = TcbImage::decode(bytes)
            .map_err(|field| format!("the control block that came back is wrong: {field}"))?;
        let tcb = &image.tcb;
        if tcb.write_seq.after(socket.known_to_nic(offloaded)) {
            return Err("the control block that came back is wrong: write_seq".into());
        }
        socket
            .tcp
            .bring_back(now, tcb)
            .map_err(|wrong| wrong.to_string())?;
        // The window is the host's again, and may be another one.
        socket.tcp.consumed(now, 0);
        if let Some(mss) = offloaded.path_mss {
            socket.tcp.handle_path_mss(now, mss);
        }
        self.contexts_came_back(socket, tcb);
        Ok(())
    }

    /// The driver's shadows follow what the NIC has sent.
    fn contexts_came_back(&mut self, socket: &Socket, tcb: &Tcb) {
        socket.transmit_contexts(&mut |context| {
            self.driver.context_came_back(context, tcb.snd_nxt);
        });
    }
}

impl Socket {
    /// What the NIC may know to be queued: what was posted, and what the host had sent before.
    pub(super) fn known_to_nic(&self, offloaded: &OffloadedConnection) -> SeqNum {
        offloaded.posted.max(self.tcp.snd_nxt())
    }
}
