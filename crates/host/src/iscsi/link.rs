//! The connection, from the first SYN to the logout.

use std::time::Instant;

use l5p::Layers;
use l5p::iscsi::initiator::{self as machine, Command, Initiator, Outgoing, Payload, Transfer};
use l5p::iscsi::{Framing, Parameters, Role};
use wire::scsi::command;

use super::sink::Sink;
use super::{Client, Failure, State};
use crate::disk::{Access, Event, Operation};
use crate::pdus::{Agreed, Framings, PduData, PduOffload};
use crate::stack::Stack;
use crate::{SocketError, SocketId};

impl Client {
    pub(super) fn connect(&mut self, now: Instant, stack: &mut Stack) -> bool {
        match stack.connect(now, self.options.address) {
            Ok(socket) => {
                self.link.socket = Some(socket);
                self.state = State::Connecting;
            }
            Err(error) => self.end(Some(Failure::Transport(error.to_string()))),
        }
        true
    }

    /// TCP is connected: the login begins.
    pub(super) fn open(&mut self, now: Instant, stack: &mut Stack) {
        let Some(socket) = self.link.socket else {
            return;
        };
        let framings = Framings {
            incoming: Framing::login(Role::Target),
            outgoing: Framing::login(Role::Initiator),
        };
        // Commands must not wait for the acknowledgement of what was sent before.
        let started = stack
            .set_nodelay(socket, true)
            .and_then(|()| stack.start_pdus(now, socket, framings));
        match started {
            Ok(()) => {
                let initiator = Initiator::new(self.options.session.clone());
                self.state = State::Open(Box::new(initiator));
                (self.link.readable, self.link.writable) = (true, true);
            }
            Err(error) => self.lose(now, stack, Failure::Transport(error.to_string())),
        }
    }

    /// Takes in what came.
    pub(super) fn receive(&mut self, now: Instant, stack: &mut Stack) -> bool {
        let (State::Open(initiator), Some(socket)) = (&mut self.state, self.link.socket) else {
            return false;
        };
        if !std::mem::take(&mut self.link.readable) {
            return false;
        }
        let mut sink = Sink {
            initiator,
            commands: &self.commands,
            slices: &mut self.slices,
        };
        let received = stack.receive_pdus(now, socket, &mut sink);
        self.handle_session_events(now, stack, socket);
        match received {
            Ok(0) | Err(SocketError::WouldBlock) => return false,
            Ok(_) => {}
            Err(error) => self.lose(now, stack, Failure::Transport(error.to_string())),
        }
        true
    }

    /// Does what the session says.
    fn handle_session_events(&mut self, now: Instant, stack: &mut Stack, socket: SocketId) {
        while let State::Open(initiator) = &mut self.state
            && let Some(event) = initiator.poll_event()
        {
            match event {
                machine::Event::Negotiated(terms) => {
                    let agreed = self.agree(&terms);
                    let negotiated = match &self.blocked {
                        // It would go out by rules that are not those it was made by.
                        Some(_) => {
                            Err("the target answers a login request that was not sent".to_owned())
                        }
                        None => stack
                            .pdus_negotiated(now, socket, agreed)
                            .map_err(|error| error.to_string()),
                    };
                    if let Err(reason) = negotiated {
                        self.lose(now, stack, Failure::Transport(reason));
                    }
                    // More may have come than was looked at.
                    self.link.readable = true;
                }
                machine::Event::Ready(unit) => {
                    self.unit = Some(unit);
                    self.link.events.push_back(Event::Ready);
                }
                machine::Event::Targets(targets) => {
                    self.targets = targets;
                    self.link.events.push_back(Event::Ready);
                }
                machine::Event::Ended(Some(failure)) => self.lose(now, stack, failure.into()),
                machine::Event::Ended(None) => self.close(now, stack),
            }
        }
    }

    /// What holds from the end of the login on. A session without a target moves no data.
    fn agree(&self, terms: &machine::Agreed) -> Agreed<Framing> {
        let machine::Agreed {
            incoming, outgoing, ..
        } = terms;
        let offload = match self.options.session.target {
            Some(_) => self.options.offload,
            None => PduOffload::NONE,
        };
        let tags = match offload.placement {
            true => self.options.session.depth,
            false => 0,
        };
        let checks = incoming.data_digest && offload.receive_digest;
        let makes = outgoing.data_digest && offload.transmit_digest;
        let layers = |framing, tags| Layers::of(&Parameters::of(framing, tags));
        Agreed {
            framings: Framings {
                incoming: *incoming,
                outgoing: *outgoing,
            },
            transmit: makes.then(|| layers(outgoing, 0)),
            receive: (offload.placement || checks).then(|| layers(incoming, tags)),
            checks_digests: checks,
            tags,
        }
    }

    /// Sends what is to be sent, as far as there is room.
    pub(super) fn send(&mut self, now: Instant, stack: &mut Stack) -> bool {
        let Some(socket) = self.link.socket else {
            return false;
        };
        self.commands.acknowledge(stack, socket);
        self.start_commands(now, stack, socket);
        let mut progress = false;
        while self.link.writable
            && let Some(outgoing) = self.take_blocked().or_else(|| self.next())
        {
            progress = true;
            let (data, tag) = match &outgoing.payload {
                Payload::None => (PduData::None, None),
                Payload::Bytes(bytes) => (PduData::Bytes(bytes), None),
                Payload::Data { tag, range } => {
                    self.commands.part(*tag, range.clone(), &mut self.slices);
                    (PduData::Slices(&self.slices), Some(*tag))
                }
            };
            match stack.send_pdu::<Framing>(now, socket, &outgoing.pdu, data) {
                Ok(()) => {}
                // The reason for a closed connection comes as an event.
                Err(SocketError::WouldBlock | SocketError::Closed(_)) => {
                    // A target may answer what it has not been sent.
                    if let Some(tag) = tag {
                        self.commands.hold(tag);
                    }
                    self.blocked = Some(outgoing);
                    self.link.writable = false;
                    return progress;
                }
                Err(error) => {
                    self.lose(now, stack, Failure::Transport(error.to_string()));
                    return progress;
                }
            }
            if let Some(tag) = tag
                && let Some(mark) = stack.send_mark(socket)
            {
                self.commands.sent_in_place(tag, mark);
            }
        }
        progress
    }

    /// The PDU that there was no room for; the memory that it sends is not held for that any more.
    fn take_blocked(&mut self) -> Option<Outgoing> {
        let outgoing = self.blocked.take()?;
        if let Payload::Data { tag, .. } = &outgoing.payload {
            self.commands.let_go(*tag);
        }
        Some(outgoing)
    }

    /// Gives the session as many commands as it takes.
    fn start_commands(&mut self, now: Instant, stack: &mut Stack, socket: SocketId) {
        let (State::Open(initiator), Some(unit)) = (&mut self.state, &self.unit) else {
            return;
        };
        let threshold = self.options.map_threshold;
        while let Some((id, access)) = self.commands.next(now)
            && let Some(tag) = initiator.submit(command_of(access, unit.block_len))
        {
            self.commands.start(id, tag, threshold, stack, socket);
        }
    }

    /// The next PDU of the session.
    fn next(&mut self) -> Option<Outgoing> {
        match &mut self.state {
            State::Open(initiator) => initiator.poll_outgoing(),
            _ => None,
        }
    }

    /// Logs out when all is answered.
    pub(super) fn leave(&mut self, now: Instant, stack: &mut Stack) {
        match &mut self.state {
            _ if !self.link.is_leaving => {}
            State::New | State::Connecting => self.close(now, stack),
            State::Open(initiator) if self.commands.is_empty() => initiator.shutdown(),
            State::Open(_) | State::Ended => {}
        }
    }

    fn close(&mut self, now: Instant, stack: &mut Stack) {
        self.take_ended(stack);
        self.commands.lose(stack);
        self.take_blocked();
        self.link.close(now, stack);
        self.commands.disconnected();
        self.end(None);
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

fn command_of(access: Access, block_len: u32) -> Command {
    let (block, count) = (access.offset / u64::from(block_len), access.len / block_len);
    let (cdb, transfer) = match access.operation {
        Operation::Read => (command::read(block, count), Transfer::Read),
        Operation::Write => (command::write(block, count), Transfer::Write),
        Operation::Flush => (command::synchronize_cache(), Transfer::None),
    };
    Command {
        cdb,
        transfer,
        len: access.len,
        is_exact: true,
    }
}
