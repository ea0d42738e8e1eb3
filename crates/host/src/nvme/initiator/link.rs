//! The connection of one queue.

use std::collections::VecDeque;
use std::time::Instant;

use l5p::nvme::initiator::{self as machine, Closing, CommandId, Outgoing, Payload};
use nic::ring::Slice;
use wire::nvme::Role;

use super::sink::Sink;
use super::{Initiator, Options};
use crate::disk::Memories;
use crate::nvme::{Framing, Negotiated, PduOffload, opening};
use crate::pdus::{PduData, SendMark};
use crate::stack::Stack;
use crate::{CloseReason, SocketError, SocketId};

/// A connection, from the first SYN on.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) queue: u16,
    pub(super) socket: SocketId,
    /// It carries PDUs.
    is_open: bool,
    pub(super) readable: bool,
    pub(super) writable: bool,
    /// A PDU that there was no room for.
    waiting: Option<Outgoing>,
    /// Memory that was sent in place, in the order of the stream.
    sent: VecDeque<(SendMark, CommandId)>,
    /// Parts of a command's memory.
    slices: Vec<Slice>,
}

impl Initiator {
    pub(super) fn connect(&mut self, now: Instant, stack: &mut Stack, queue: u16) {
        if self.links.len() <= usize::from(queue) {
            self.links.resize_with(usize::from(queue) + 1, || None);
        }
        match stack.connect(now, self.options.address) {
            Ok(socket) => {
                self.links[usize::from(queue)] = Some(Link {
                    queue,
                    socket,
                    is_open: false,
                    readable: false,
                    writable: true,
                    waiting: None,
                    sent: VecDeque::new(),
                    slices: Vec::new(),
                });
            }
            Err(error) => self.lose(now, queue, error.to_string()),
        }
    }

    /// TCP is connected.
    pub(super) fn handle_connected(&mut self, now: Instant, stack: &mut Stack, queue: u16) {
        let Some(tls) = self.options.tls.clone() else {
            return self.open(now, stack, queue);
        };
        let Some(link) = self.link_mut(queue) else {
            return;
        };
        let socket = link.socket;
        if let Err(error) = stack.start_tls(now, socket, tls, self.options.tls_offload) {
            self.lose(now, queue, error.to_string());
        }
    }

    /// PDUs may flow.
    pub(super) fn open(&mut self, now: Instant, stack: &mut Stack, queue: u16) {
        let Some(link) = self.link_mut(queue) else {
            return;
        };
        // Capsules must not wait for the acknowledgement of what was sent before.
        let socket = link.socket;
        let started = stack
            .set_nodelay(socket, true)
            .and_then(|()| stack.start_pdus(now, socket, opening(Role::Host)));
        match started {
            Ok(()) => {
                link.is_open = true;
                self.controller.handle_connected(now, queue);
            }
            Err(error) => self.lose(now, queue, error.to_string()),
        }
    }

    pub(super) fn negotiated(
        &mut self,
        now: Instant,
        stack: &mut Stack,
        queue: u16,
        agreed: &machine::Negotiated,
    ) {
        let Some(depth) = self
            .controller
            .queue(queue)
            .map(|queue| queue.config().depth)
        else {
            return;
        };
        let offload = match queue {
            0 => PduOffload::NONE,
            _ => self.options.offload,
        };
        let Some(link) = self.link_mut(queue) else {
            return;
        };
        let negotiated = Negotiated {
            digests: agreed.digests,
            hpda: agreed.hpda,
            cpda: agreed.cpda,
            max_pdu: agreed.max_pdu,
            commands: depth,
            offload,
        };
        let socket = link.socket;
        link.readable = true;
        if let Err(error) = stack.pdus_negotiated(now, socket, negotiated.seen_by(Role::Host)) {
            self.lose(now, queue, error.to_string());
        }
    }

    /// Takes in what came.
    pub(super) fn receive(&mut self, now: Instant, stack: &mut Stack, queue: u16) -> bool {
        let Some(Some(link)) = self.links.get_mut(usize::from(queue)) else {
            return false;
        };
        if !link.is_open || !std::mem::take(&mut link.readable) {
            return false;
        }
        let mut sink = Sink {
            now,
            queue,
            controller: &mut self.controller,
            memories: &self.memories,
            slices: &mut link.slices,
        };
        match stack.receive_pdus(now, link.socket, &mut sink) {
            Ok(0) | Err(SocketError::WouldBlock) => return false,
            Ok(_) => {}
            Err(SocketError::Closed(CloseReason::Pdu(ref error)))
                if let Some(error) = error.get::<Framing>() =>
            {
                self.controller.handle_malformed(now, queue, *error);
            }
            Err(error) => self.lose(now, queue, error.to_string()),
        }
        true
    }

    /// Sends what there is to send, as far as there is room.
    pub(super) fn send(&mut self, now: Instant, stack: &mut Stack, queue: u16) -> bool {
        let Some(Some(link)) = self.links.get_mut(usize::from(queue)) else {
            return false;
        };
        while let Some((mark, id)) = link.sent.front()
            && stack.is_acknowledged(link.socket, *mark)
        {
            self.memories.get_mut(*id).unacknowledged -= 1;
            link.sent.pop_front();
        }
        if !link.is_open || !link.writable {
            return false;
        }
        let mut progress = false;
        loop {
            let waiting = link.waiting.take();
            let is_new = waiting.is_none();
            let Some(outgoing) = waiting.or_else(|| self.controller.poll_pdu(queue)) else {
                return progress;
            };
            progress = true;
            let of_command = command_of(&outgoing);
            if is_new {
                begin(&mut self.memories, link, stack, &outgoing, &self.options);
            }
            let sent = post(&self.memories, link, now, stack, &outgoing);
            match sent {
                Ok(()) => {
                    let mark = stack.send_mark(link.socket);
                    match (of_command, mark) {
                        (Some(token), Some(mark)) => link.sent.push_back((mark, token)),
                        (Some(token), None) => self.memories.get_mut(token).unacknowledged -= 1,
                        (None, _) => {}
                    }
                }
                // The reason for a closed connection comes as an event.
                Err(SocketError::WouldBlock | SocketError::Closed(_)) => {
                    link.waiting = Some(outgoing);
                    link.writable = false;
                    return progress;
                }
                Err(error) => {
                    link.waiting = Some(outgoing);
                    self.lose(now, queue, error.to_string());
                    return progress;
                }
            }
        }
    }

    /// Closes the connection.
    pub(super) fn close(&mut self, now: Instant, stack: &mut Stack, queue: u16, how: Closing) {
        let link = self.links.get_mut(usize::from(queue));
        let Some(link) = link.and_then(Option::take) else {
            return;
        };
        let at_once = match how {
            // It has ended already, but for the TermReq that goes out.
            Closing::Reported(_) => false,
            // Memory that is still being sent is about to be its owner's again.
            Closing::InOrder => !link.sent.is_empty(),
            Closing::Lost => true,
        };
        // A socket that has gone away by itself needs no closing.
        let _ = match at_once {
            true => stack.abort(now, link.socket),
            false => stack.close(now, link.socket),
        };
        let waiting = link.waiting.as_ref().and_then(command_of);
        for id in link.sent.into_iter().map(|(_, id)| id).chain(waiting) {
            self.memories.get_mut(id).unacknowledged -= 1;
        }
    }

    pub(super) fn lose(&mut self, now: Instant, queue: u16, reason: String) {
        self.controller.handle_lost(now, queue, reason);
    }
}

/// A PDU that was not sent before has its command's memory in use until it is acknowledged, whatever becomes of the command. One that begins
/// a read maps that memory.
fn begin(
    memories: &mut Memories<CommandId>,
    link: &Link,
    stack: &mut Stack,
    outgoing: &Outgoing,
    options: &Options,
) {
    if let Some(token) = command_of(outgoing) {
        memories.get_mut(token).unacknowledged += 1;
    }
    if let Some(begins) = outgoing.begins
        && link.queue > 0
    {
        let memory = memories.get(begins.token);
        if memory.is_read && !memory.is_copied && memory.len >= options.map_threshold {
            memories.map(begins.token, stack, link.socket, begins.cid);
        }
    }
}

/// Sends a PDU.
fn post(
    memories: &Memories<CommandId>,
    link: &mut Link,
    now: Instant,
    stack: &mut Stack,
    outgoing: &Outgoing,
) -> Result<(), SocketError> {
    let bytes;
    let data = match &outgoing.payload {
        Payload::None => PduData::None,
        Payload::Connect(data) => {
            bytes = data.to_bytes();
            PduData::Bytes(&bytes)
        }
        Payload::Command { token, offset, len } => {
            let memory = memories.get(*token);
            memory.part(*offset, *len, &mut link.slices);
            PduData::Slices(&link.slices)
        }
    };
    stack.send_pdu::<Framing>(now, link.socket, &outgoing.pdu, data)
}

/// The command whose memory a PDU is sent from.
fn command_of(outgoing: &Outgoing) -> Option<CommandId> {
    match outgoing.payload {
        Payload::Command { token, .. } => Some(token),
        _ => None,
    }
}

#[cfg(test)]
impl Link {
    /// The command whose data waits for room, and how many PDUs with data of it TCP has.
    pub(super) fn waiting_data(&self) -> Option<(CommandId, u32)> {
        let waiting = self.waiting.as_ref().and_then(command_of)?;
        let sent = self.sent.iter().filter(|(_, id)| *id == waiting);
        Some((waiting, sent.count() as u32))
    }
}
