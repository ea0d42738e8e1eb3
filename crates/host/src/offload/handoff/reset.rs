//! The NIC was reset: what it had is gone, and the host goes on from what it was told last.

use std::time::Instant;

use probes::HandoffOutcome;

use super::ConnectionOffload;
use crate::{SocketId, probing};

impl ConnectionOffload {
    /// Takes back what the NIC had: connections that were handed off go on from their last agreed state, contexts' work is done by
    /// software, listeners are installed anew. Where spliced connections stand is unknown: the application is told.
    pub fn take_nic_reset(&mut self, now: Instant) {
        self.handle_transport_events();
        self.transport.device.counters.nic_resets += 1;
        self.transport.device.driver.fail_contexts();
        self.lose_splices();
        let ids: Vec<SocketId> = self.transport.sockets.iter().map(|(id, _)| id).collect();
        for id in ids {
            self.leave_contexts(id);
            self.take_over_offloaded(now, id);
        }
        self.handoff.forget_nic();
        self.take_back_teardowns(now);
        let counters = &mut self.transport.device.counters;
        self.accel.rules.forgotten(counters);
    }

    /// Software does from here on what the socket's contexts have done.
    fn leave_contexts(&mut self, id: SocketId) {
        let Some(socket) = self.transport.sockets.get_mut(id) else {
            return;
        };
        socket.leave_contexts(&mut self.transport.device);
    }

    /// A connection that the NIC had, or was to have, is the host's.
    fn take_over_offloaded(&mut self, now: Instant, id: SocketId) {
        let Some(socket) = self.transport.sockets.get_mut(id) else {
            return;
        };
        let Some(offloaded) = socket.owner.end_handoff() else {
            return;
        };
        self.handoff.table.release(offloaded.toe);
        self.handoff.left(&mut socket.record);
        if offloaded.is_away() {
            if let Some(slice) = offloaded.image {
                self.transport.device.driver.reclaim_image(slice);
            }
            self.transport.device.counters.handoff_curr -= u64::from(offloaded.is_accepted());
            self.transport.device.counters.handoff_recovered += 1;
            probing::handoff(&socket.flow, HandoffOutcome::NicReset);
            let held = socket.stream.held();
            let known = socket.known_to_nic(&offloaded);
            socket
                .tcp
                .take_over(now, known, offloaded.requested.fin, held);
            if let Some(mss) = offloaded.path_mss {
                socket.tcp.handle_path_mss(now, mss);
            }
            // It may have sent all that it was told of: none of it may be encrypted anew if it can have changed since.
            let driver = &mut self.transport.device.driver;
            socket.transmit_contexts(&mut |context| driver.context_came_back(context, known));
        }
        self.transport.schedule.mark_ready(id, socket);
    }
}
