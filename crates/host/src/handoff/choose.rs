//! Asking the policy (seed 003 §3.3): when a connection is established, and at each enqueue to its send buffer.

use std::time::Instant;

use super::policy::Choice;
use crate::SocketId;
use crate::socket::Socket;
use crate::stack::{Core, Stack};

impl Core {
    /// A connection is established, with a full control block.
    #[inline]
    pub(crate) fn established_for_policy(
        &mut self,
        now: Instant,
        id: SocketId,
        socket: &mut Socket,
    ) {
        if !self.handoff.is_on {
            return;
        }
        let port = socket.flow.src.1;
        let selector = &mut self.handoff.selector;
        let choice = selector.established(now, port, id, &mut socket.record);
        self.note_choice(id, choice);
    }

    /// The application has enqueued so many bytes.
    #[inline]
    pub(crate) fn sent_for_policy(
        &mut self,
        now: Instant,
        id: SocketId,
        socket: &mut Socket,
        bytes: usize,
    ) {
        if !self.handoff.is_on {
            return;
        }
        let port = socket.flow.src.1;
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        let selector = &mut self.handoff.selector;
        let choice = selector.sent(now, port, id, &mut socket.record, bytes, 0);
        self.note_choice(id, choice);
    }

    fn note_choice(&mut self, id: SocketId, choice: Choice<SocketId>) {
        match choice {
            Choice::Stay => {}
            Choice::HandOff => self.handoff.due.push_back(id),
            Choice::Instead(other) => {
                self.handoff.due.push_back(other);
                self.handoff.due.push_back(id);
            }
        }
    }

    /// A connection that was to be handed off stays.
    pub(super) fn stays(&mut self, now: Instant, socket: &mut Socket) {
        let port = socket.flow.src.1;
        self.handoff.selector.refused(now, port, &mut socket.record);
    }

    /// A connection is not on the NIC any more.
    pub(crate) fn left_nic(&mut self, socket: &mut Socket) {
        self.handoff.selector.left(&mut socket.record);
    }
}

impl Stack {
    /// Begins to hand off what was chosen since the last poll, and restores those whose place it is to take.
    pub(super) fn begin_chosen(&mut self, now: Instant) -> bool {
        let mut any = false;
        while let Some(id) = self.core.handoff.due.pop_front() {
            let Some(socket) = self.sockets.get(id) else {
                continue;
            };
            if !socket.record.is_held() {
                // Another one has its seat.
                let restored = self.restore(now, id);
                debug_assert!(restored.is_ok(), "{restored:?}");
                any = true;
                continue;
            }
            if !self.core.driver.has_toe_room() {
                // The NIC has not come to the commands that are there.
                self.core.handoff.due.push_front(id);
                break;
            }
            any = true;
            if self.hand_off(now, id).is_err() {
                self.core.counters.handoff_withheld += 1;
                if let Some(socket) = self.sockets.get_mut(id) {
                    self.core.stays(now, socket);
                }
            }
        }
        any
    }
}
