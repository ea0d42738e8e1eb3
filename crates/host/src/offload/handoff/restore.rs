//! The way back: the host goes on where the NIC has stopped.

use std::time::Instant;

use nic::ring::toe::{RestoreReason, TcbImage, ToeId};
use nic::ring::{ContextId, ErrorCode};
use wire::SeqNum;

use super::ConnectionOffload;
use crate::device::Device;
use crate::driver::bytes_of;
use crate::socket::{OffloadedConnection, Socket};
use crate::{CloseReason, SocketError, SocketId, probing};

impl ConnectionOffload {
    /// Asks the NIC for a connection that was handed off. Answers whether it is on its way back.
    ///
    /// # Errors
    /// [`SocketError::NotFound`] when there is no such socket.
    pub fn restore(&mut self, now: Instant, id: SocketId) -> Result<bool, SocketError> {
        if self.transport.sockets.get(id).is_none() && !self.transport.sockets.is_quasi(id) {
            return Err(SocketError::NotFound);
        }
        Ok(self.recall(now, id))
    }

    /// The host is to run a connection again. Answers whether the NIC is asked for it.
    pub fn recall(&mut self, now: Instant, id: SocketId) -> bool {
        let Some(socket) = self.transport.sockets.get_mut(id) else {
            return false;
        };
        let Some(offloaded) = socket.owner.handoff_mut() else {
            return false;
        };
        if !offloaded.is_away() {
            self.cancel_handoff(now, id);
            return false;
        }
        offloaded.recall();
        self.transport.schedule.mark_ready(id, socket);
        true
    }

    /// The NIC gives a connection back.
    pub(super) fn take_restored(&mut self, now: Instant, toe: ToeId, reason: RestoreReason) {
        let Some(id) = self.handoff.table.find(toe) else {
            self.transport.device.counters.handoff_stale += 1;
            return;
        };
        self.handoff.table.release(toe);
        let Some(socket) = self.transport.sockets.get_mut(id) else {
            return;
        };
        let Some(offloaded) = socket.owner.end_handoff() else {
            return;
        };
        self.transport.device.counters.handoff_curr -= u64::from(offloaded.is_accepted());
        match reason {
            RestoreReason::Asked => self.transport.device.counters.handoff_restored += 1,
            _ => self.transport.device.counters.handoff_given_back += 1,
        }
        probing::handoff(&socket.flow, probing::returned(reason));
        self.handoff.left(&mut socket.record);
        let device = &mut self.transport.device;
        let brought = bring_back(now, socket, &offloaded, device);
        socket.limit_lingering(now);
        self.transport.schedule.mark_ready(id, socket);
        match brought {
            Ok(()) => self.settle_contexts(&offloaded, reason),
            Err(what) => {
                self.transport.device.counters.driver_errors += 1;
                let held = socket.stream.held();
                let known = socket.known_to_nic(&offloaded);
                socket
                    .tcp
                    .take_over(now, known, offloaded.requested.fin, held);
                self.transport.reset(id, CloseReason::Device(what));
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
            self.transport
                .handle_refusal(Some(context), SeqNum(0), error);
        }
    }
}

/// Puts the control block back that the NIC has left.
fn bring_back(
    now: Instant,
    socket: &mut Socket,
    offloaded: &OffloadedConnection,
    device: &mut Device,
) -> Result<(), String> {
    let slice = offloaded.image.ok_or("it gave back what it never had")?;
    let buffer = device.driver.reclaim_image(slice);
    let mut buffer = buffer.ok_or("it gave a connection back twice")?;
    let bytes = bytes_of(&mut buffer).ok_or("a control block was cut short")?;
    let image = TcbImage::decode(bytes)
        .map_err(|field| format!("the control block that came back is wrong: {field}"))?;
    let tcb = &image.tcb;
    if tcb.write_seq.after(socket.known_to_nic(offloaded)) {
        return Err("the control block that came back is wrong: write_seq".into());
    }
    let brought = socket.tcp.bring_back(now, tcb);
    brought.map_err(|wrong| wrong.to_string())?;
    // The window is the host's again, and may be another one.
    socket.tcp.consumed(now, 0);
    if let Some(mss) = offloaded.path_mss {
        socket.tcp.handle_path_mss(now, mss);
    }
    // The driver's shadows follow what the NIC has sent.
    socket.transmit_contexts(&mut |context| {
        device.driver.context_came_back(context, tcb.snd_nxt);
    });
    Ok(())
}

impl Socket {
    /// What the NIC may know to be queued: what was posted, and what the host had sent before.
    pub(super) fn known_to_nic(&self, offloaded: &OffloadedConnection) -> SeqNum {
        offloaded.posted.max(self.tcp.snd_nxt())
    }
}
