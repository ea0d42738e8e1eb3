//! The connection, from the first SYN to the last reply.

use std::time::Instant;

use l5p::Layers;
use l5p::nbd::{Export, Framing, Handshake, Outcome, Pdu, Requests, Sender};
use nic::ring::Slice;
use wire::nbd::{Kind, Request};

use super::sink::Sink;
use super::{Client, Failure, Greeting, State};
use crate::disk::{Access, Event, Operation};
use crate::pdus::{Agreed, Framings, PduData};
use crate::stack::Stack;
use crate::{SocketError, SocketId};

/// Bytes of the handshake that are read at a time.
const READ: usize = 4096;

impl Client {
    pub(super) fn connect(&mut self, now: Instant, stack: &mut Stack) -> bool {
        match stack.connect(now, self.options.address) {
            Ok(socket) => {
                self.link.socket = Some(socket);
                self.state = State::Connecting(Box::new(Greeting {
                    handshake: Handshake::new(&self.options.export, self.options.tls.is_some()),
                    unread: Vec::new(),
                    unsent: Vec::new(),
                }));
            }
            Err(error) => self.end(Some(Failure::Transport(error.to_string()))),
        }
        true
    }

    /// TCP is connected, or TLS protects the connection.
    pub(super) fn handle_connected(&mut self, event: &crate::Event) {
        let State::Connecting(mut greeting) = std::mem::replace(&mut self.state, State::Ended)
        else {
            return;
        };
        if matches!(event, crate::Event::Secured(_)) {
            greeting.handshake.secured(&mut greeting.unsent);
        }
        (self.link.readable, self.link.writable) = (true, true);
        self.state = State::Handshake(greeting);
    }

    /// Goes on with the handshake. Whether anything was done.
    pub(super) fn greet(&mut self, now: Instant, stack: &mut Stack) -> bool {
        let (State::Handshake(greeting), Some(socket)) = (&mut self.state, self.link.socket) else {
            return false;
        };
        let mut outcome = Ok(None);
        let mut progress = false;
        while outcome == Ok(None) && std::mem::take(&mut self.link.readable) {
            let held = greeting.unread.len();
            greeting.unread.resize(held + READ, 0);
            let read = stack.read(now, socket, &mut greeting.unread[held..]);
            greeting
                .unread
                .truncate(held + *read.as_ref().unwrap_or(&0));
            match read {
                Ok(0) => {
                    let text = "the server closed the connection during the handshake";
                    outcome = Err(Failure::Transport(text.to_owned()));
                }
                Ok(_) => {
                    (self.link.readable, progress) = (true, true);
                    let advanced = greeting
                        .handshake
                        .advance(&greeting.unread, &mut greeting.unsent);
                    outcome = advanced
                        .map(|(used, outcome)| {
                            greeting.unread.drain(..used);
                            outcome
                        })
                        .map_err(Failure::Handshake);
                }
                Err(SocketError::WouldBlock) => {}
                // The reason comes as an event.
                Err(_) => return progress,
            }
        }
        while self.link.writable && !greeting.unsent.is_empty() {
            match stack.write(now, socket, &greeting.unsent) {
                Ok(len) => {
                    progress = true;
                    greeting.unsent.drain(..len);
                }
                Err(_) => self.link.writable = false,
            }
        }
        match outcome {
            Ok(None) => return progress,
            Ok(Some(_)) if !greeting.unread.is_empty() => {
                let text = "the server sent more than it was asked for";
                self.lose(now, stack, Failure::Transport(text.to_owned()));
            }
            Ok(Some(Outcome::StartTls)) => self.start_tls(now, stack, socket),
            Ok(Some(Outcome::Export(export))) => self.open(now, stack, socket, export),
            Err(failure) => self.lose(now, stack, failure),
        }
        true
    }

    fn start_tls(&mut self, now: Instant, stack: &mut Stack, socket: SocketId) {
        let Some(tls) = self.options.tls.clone() else {
            return;
        };
        if let State::Handshake(greeting) = std::mem::replace(&mut self.state, State::Ended) {
            self.state = State::Connecting(greeting);
        }
        if let Err(error) = stack.start_tls(now, socket, tls, self.options.tls_offload) {
            self.lose(now, stack, Failure::Transport(error.to_string()));
        }
    }

    /// Requests and replies may flow.
    fn open(&mut self, now: Instant, stack: &mut Stack, socket: SocketId, export: Export) {
        let framing = |sender| Framing {
            sender,
            structured: export.structured,
            max_data: export.max_request,
        };
        let framings = Framings {
            incoming: framing(Sender::Server),
            outgoing: framing(Sender::Client),
        };
        let tags = match self.options.placement {
            true => self.options.depth,
            false => 0,
        };
        let parameters = framings.incoming.parameters(tags);
        let agreed = Agreed {
            framings,
            transmit: None,
            receive: self.options.placement.then(|| Layers::of(&parameters)),
            checks_digests: false,
            tags,
        };
        // Requests must not wait for the acknowledgement of what was sent before.
        let started = stack
            .set_nodelay(socket, true)
            .and_then(|()| stack.start_pdus(now, socket, framings))
            .and_then(|()| stack.pdus_negotiated(now, socket, agreed));
        if let Err(error) = started {
            return self.lose(now, stack, Failure::Transport(error.to_string()));
        }
        let requests = Requests::new(self.options.depth, export.structured);
        self.state = State::Open(Box::new(requests));
        self.export = Some(export);
        self.link.events.push_back(Event::Ready);
    }

    /// Takes in what came.
    pub(super) fn receive(&mut self, now: Instant, stack: &mut Stack) -> bool {
        let (State::Open(requests), Some(socket)) = (&mut self.state, self.link.socket) else {
            return false;
        };
        if !std::mem::take(&mut self.link.readable) {
            return false;
        }
        let mut sink = Sink {
            requests,
            commands: &self.commands,
            slices: &mut self.slices,
            zeroes: &mut self.zeroes,
        };
        let received = stack.receive_pdus(now, socket, &mut sink);
        for slice in self.zeroes.drain(..) {
            fill_with_zeroes(stack, slice);
        }
        match received {
            Ok(0) | Err(SocketError::WouldBlock) => return false,
            Ok(_) => {}
            Err(error) => self.lose(now, stack, Failure::Transport(error.to_string())),
        }
        true
    }

    /// Sends requests, as far as there is room.
    pub(super) fn send(&mut self, now: Instant, stack: &mut Stack) -> bool {
        let Some(socket) = self.link.socket else {
            return false;
        };
        self.commands.acknowledge(stack, socket);
        let mut progress = false;
        while self.link.writable
            && let Some((tag, request)) = self
                .take_blocked()
                .or_else(|| self.next(now, stack, socket))
        {
            progress = true;
            let data = match request.kind {
                Kind::Write => {
                    self.commands.part(tag, 0..request.len, &mut self.slices);
                    PduData::Slices(&self.slices)
                }
                _ => PduData::None,
            };
            match stack.send_pdu::<Framing>(now, socket, &Pdu::Request(request), data) {
                Ok(()) => {}
                // The reason for a closed connection comes as an event.
                Err(SocketError::WouldBlock | SocketError::Closed(_)) => {
                    // A server may answer what it has not been sent.
                    self.commands.hold(tag);
                    self.blocked = Some((tag, request));
                    self.link.writable = false;
                    return progress;
                }
                Err(error) => {
                    self.lose(now, stack, Failure::Transport(error.to_string()));
                    return progress;
                }
            }
            if request.kind == Kind::Write
                && let Some(mark) = stack.send_mark(socket)
            {
                self.commands.sent_in_place(tag, mark);
            }
        }
        progress
    }

    /// The request that there was no room for; its memory is not held for that any more.
    fn take_blocked(&mut self) -> Option<(u16, Request)> {
        let (tag, request) = self.blocked.take()?;
        self.commands.let_go(tag);
        Some((tag, request))
    }

    /// The next request to be sent, with its tag and its cookie.
    fn next(
        &mut self,
        now: Instant,
        stack: &mut Stack,
        socket: SocketId,
    ) -> Option<(u16, Request)> {
        let State::Open(requests) = &mut self.state else {
            return None;
        };
        let (id, access) = self.commands.next(now)?;
        let (tag, request) = requests.begin(request_of(access))?;
        let threshold = self.options.map_threshold;
        self.commands.start(id, tag, threshold, stack, socket);
        Some((tag, request))
    }

    /// Says goodbye when all is answered.
    pub(super) fn leave(&mut self, now: Instant, stack: &mut Stack) -> bool {
        if !self.link.is_leaving {
            return false;
        }
        match &self.state {
            State::Ended => return false,
            State::Open(_) if !self.commands.is_empty() => return false,
            _ => {}
        }
        if let (State::Open(_), Some(socket)) = (&self.state, self.link.socket) {
            let goodbye = Pdu::Request(Request {
                kind: Kind::Disconnect,
                ..request_of(Access {
                    operation: Operation::Flush,
                    offset: 0,
                    len: 0,
                })
            });
            // A server that is told nothing sees the end of the stream.
            let _ = stack.send_pdu::<Framing>(now, socket, &goodbye, PduData::None);
        }
        self.link.close(now, stack);
        self.end(None);
        true
    }

    /// The connection is of no more use.
    pub(super) fn lose(&mut self, now: Instant, stack: &mut Stack, failure: Failure) {
        if let State::Ended = self.state {
            return;
        }
        self.take_ended(stack);
        self.commands.lose(stack);
        self.take_blocked();
        self.link.abort(now, stack);
        self.commands.disconnected();
        self.end(Some(failure));
    }

    fn end(&mut self, failure: Option<Failure>) {
        self.state = State::Ended;
        self.link.events.push_back(Event::Ended(failure));
    }
}

fn request_of(access: Access) -> Request {
    Request {
        kind: match access.operation {
            Operation::Read => Kind::Read,
            Operation::Write => Kind::Write,
            Operation::Flush => Kind::Flush,
        },
        fua: false,
        no_hole: false,
        do_not_fragment: false,
        fast_zero: false,
        cookie: 0,
        offset: access.offset,
        len: access.len,
    }
}

/// Writes zeroes where a reply says that they are.
fn fill_with_zeroes(stack: &Stack, slice: Slice) {
    const ZEROES: [u8; 4096] = [0; 4096];
    let mut done = 0;
    while done < slice.len {
        let len = (slice.len - done).min(ZEROES.len() as u32);
        let part = Slice {
            offset: slice.offset + u64::from(done),
            len,
            ..slice
        };
        if let Some(bytes) = stack.registered_mut(part) {
            bytes.copy_from(&ZEROES[..len as usize]);
        }
        done += len;
    }
}
