//! Asking the policy (Connection handoff policies §3.3): when a connection is established, and at each enqueue to its send buffer.

use std::time::Instant;

use super::{ConnectionOffload, HandoffState};
use crate::SocketId;
use crate::handoff::HandoffRefused;
use crate::handoff::policy::{Choice, Record};
use crate::socket::Socket;

/// What a policy has chosen.
#[derive(Clone, Copy, Debug)]
pub(super) enum Due {
    /// This connection is to be handed off.
    HandOff(SocketId),
    /// This one is to make room for another one.
    Restore(SocketId),
}

impl HandoffState {
    /// A connection is established, with a full control block.
    #[inline]
    pub fn established(&mut self, now: Instant, id: SocketId, socket: &mut Socket) {
        if !self.is_on {
            return;
        }
        let port = socket.flow.src.1;
        let selector = &mut self.selector;
        let choice = selector.established(now, port, id, &mut socket.record);
        self.note_choice(id, choice);
    }

    /// The application has enqueued so many bytes.
    #[inline]
    pub fn sent(&mut self, now: Instant, id: SocketId, socket: &mut Socket, bytes: usize) {
        if !self.is_on {
            return;
        }
        let port = socket.flow.src.1;
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        let selector = &mut self.selector;
        let choice = selector.sent(now, port, id, &mut socket.record, bytes, 0);
        self.note_choice(id, choice);
    }

    fn note_choice(&mut self, id: SocketId, choice: Choice<SocketId>) {
        match choice {
            Choice::Stay => {}
            Choice::HandOff => self.due.push_back(Due::HandOff(id)),
            Choice::Instead(other) => {
                self.due.push_back(Due::Restore(other));
                // The place is free once the NIC has given that one back.
                self.waiting.push_back(id);
            }
        }
    }

    /// A connection that was to be handed off stays.
    pub(super) fn stays(&mut self, now: Instant, socket: &mut Socket) {
        let port = socket.flow.src.1;
        self.selector.refused(now, port, &mut socket.record);
    }

    /// A connection is not on the NIC any more.
    pub fn left(&mut self, record: &mut Record) {
        self.selector.left(record);
    }
}

impl ConnectionOffload {
    /// Begins to hand off what was chosen since the last poll, and restores those whose place it is to take.
    pub(super) fn begin_chosen(&mut self, now: Instant) -> bool {
        let mut any = false;
        if self.handoff.may_go_on()
            && let Some(id) = self.handoff.waiting.pop_front()
        {
            self.handoff.due.push_back(Due::HandOff(id));
        }
        while let Some(due) = self.handoff.due.pop_front() {
            let id = match due {
                Due::HandOff(id) => id,
                Due::Restore(id) => {
                    self.make_way(now, id);
                    any = true;
                    continue;
                }
            };
            let socket = self.transport.sockets.get(id);
            if socket.is_none_or(|socket| !socket.record.is_held()) {
                // Gone, or another one has its seat.
                continue;
            }
            if !self.transport.device.driver.has_toe_room() {
                // The NIC has not come to the commands that are there.
                self.handoff.due.push_front(due);
                break;
            }
            any = true;
            match self.hand_off(id) {
                Ok(()) => {}
                // Those who are on the way back have places still.
                Err(HandoffRefused::Full) => self.handoff.waiting.push_back(id),
                Err(_) => {
                    self.transport.device.counters.handoff_withheld += 1;
                    if let Some(socket) = self.transport.sockets.get_mut(id) {
                        self.handoff.stays(now, socket);
                    }
                }
            }
        }
        any
    }

    /// Another connection is to have this one's place.
    fn make_way(&mut self, now: Instant, id: SocketId) {
        match self.transport.sockets.get_mut(id) {
            None => {}
            // It has not come there yet.
            Some(socket) if socket.owner.handoff().is_none() => self.handoff.stays(now, socket),
            Some(_) => {
                self.recall(now, id);
            }
        }
    }
}
