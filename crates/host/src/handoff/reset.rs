//! The NIC was reset: what it had is gone, and the host goes on from what it was told last.

use std::time::Instant;

use crate::SocketId;
use crate::stack::Stack;

impl Stack {
    /// The NIC's process is gone. Takes in what it had told, goes on as after a reset, and leaves the rings empty for the next one. Until
    /// that has come, nothing reaches anybody.
    pub fn leave_nic(&mut self, now: Instant) {
        while let Some(received) = self.core.driver.poll_receive(&mut self.core.counters) {
            self.take_in(now, received);
        }
        self.core.driver.clear();
        self.take_nic_reset(now);
    }

    /// Takes back what the NIC had: connections that were handed off go on from their last agreed state, contexts' work is done by
    /// software, listeners are installed anew. Of what was spliced nobody knows where it stands: the application is told.
    pub(crate) fn take_nic_reset(&mut self, now: Instant) {
        self.core.counters.nic_resets += 1;
        self.core.driver.fail_contexts();
        self.lose_splices();
        let ids: Vec<SocketId> = self.sockets.iter().map(|(id, _)| id).collect();
        for id in ids {
            self.leave_contexts(id);
            self.take_over_offloaded(now, id);
        }
        self.core.handoff.cancels.clear();
        // Those too whose end the NIC was still to tell.
        self.core.handoff.table.release_all();
        self.take_back_teardowns(now);
        self.core.accel.rules.forgotten();
        self.core.reload_pattern_sets();
    }

    /// Software does from here on what the socket's contexts have done.
    fn leave_contexts(&mut self, id: SocketId) {
        let core = &mut self.core;
        let Some(socket) = self.sockets.get_mut(id) else {
            return;
        };
        socket.leave_contexts(&mut core.driver, &mut core.counters);
    }

    /// A connection that the NIC had, or was to have, is the host's.
    fn take_over_offloaded(&mut self, now: Instant, id: SocketId) {
        let core = &mut self.core;
        let Some(socket) = self.sockets.get_mut(id) else {
            return;
        };
        let Some(offloaded) = socket.owner.end_handoff() else {
            return;
        };
        core.handoff.table.release(offloaded.toe);
        core.left_nic(socket);
        if offloaded.is_away() {
            if let Some(slice) = offloaded.image {
                core.driver.reclaim_image(slice);
            }
            core.counters.handoff_curr -= u64::from(offloaded.accepted);
            core.counters.handoff_recovered += 1;
            let held = socket.stream.held();
            let known = socket.known_to_nic(&offloaded);
            socket.tcp.take_over(now, known, offloaded.told.fin, held);
            if let Some(mss) = offloaded.path_mss {
                socket.tcp.handle_path_mss(now, mss);
            }
        }
        core.mark_ready(id, socket);
    }
}
