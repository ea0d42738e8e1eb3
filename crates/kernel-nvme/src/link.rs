//! The connection of one queue.

use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Instant;

use attachment::pdus::{Generation, Mapping, TAGS};
use l5p::nvme::Parameters;
use l5p::nvme::initiator::{self as machine, Closing, Controller, Outgoing, Payload};
use l5p::pdus::{Reader, Resync};
use rustix::event::PollFlags;
use rustix::io::Errno;
use wire::SeqNum;
use wire::nvme::{FatalError, Framing, Pdu, Role, TermReq};

use crate::commands::Commands;
use crate::counters::Counters;
use crate::memory::Memory;
use crate::nic::{Nic, SlotName};
use crate::outbox::{Outbox, PduData};
use crate::socket;
use crate::target::Target;

/// Bytes that are read at once where data is copied anyway, and where the NIC may have placed it.
const STAGED: (usize, usize) = (16 << 10, 512);
/// And where a PDU's end is not to be read past: a digest's length, of which all headers are multiples.
const STAGED_TO_END: usize = 4;

/// A connection, from the first SYN on.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) queue: u16,
    pub(crate) socket: OwnedFd,
    /// It carries PDUs.
    pub(crate) is_open: bool,
    pub(crate) readable: bool,
    pub(crate) writable: bool,
    pub(crate) reader: Reader<Framing>,
    outgoing: Framing,
    pub(crate) target: Target,
    /// What was read and not looked at yet.
    pub(crate) staged: Box<[u8]>,
    pub(crate) staged_from: usize,
    pub(crate) staged_to: usize,
    pub(crate) outbox: Outbox,
    pub(crate) offload: Option<Offload>,
    /// What a NIC is told that helps, if one is to.
    parameters: Option<Parameters>,
    /// A NIC is to be asked between two PDUs.
    pub(crate) wants_nic: bool,
}

/// What the NIC does for a connection.
#[derive(Debug)]
pub(crate) struct Offload {
    pub(crate) slot: SlotName,
    tags: Vec<Tag>,
    pub(crate) resync: Resync,
    /// Of the question that was taken last, if that has no answer yet.
    pub(crate) question: u32,
    pub(crate) asks: bool,
    /// Of the header of the PDU in progress there were several copies.
    pub(crate) is_header_doubtful: bool,
}

#[derive(Clone, Copy, Debug)]
struct Tag {
    generation: Generation,
    /// Its mapping is being taken away from the NIC.
    is_ending: bool,
}

/// What the methods of a link need beside it.
pub(crate) struct LinkEnv<'a> {
    pub(crate) now: Instant,
    pub(crate) controller: &'a mut Controller,
    pub(crate) commands: &'a mut Commands,
    pub(crate) memory: &'a Memory,
    pub(crate) nic: Option<&'a mut Nic>,
    pub(crate) counters: &'a mut Counters,
}

impl Link {
    /// Begins to connect.
    pub(crate) fn connect(queue: u16, address: SocketAddr) -> Result<Link, Errno> {
        Ok(Link {
            queue,
            socket: socket::connect(address)?,
            is_open: false,
            readable: false,
            writable: false,
            reader: Reader::new(Framing::initializing(Role::Controller), SeqNum(0)),
            outgoing: Framing::initializing(Role::Host),
            target: Target::Discard,
            staged: vec![0; STAGED.0].into(),
            staged_from: 0,
            staged_to: 0,
            outbox: Outbox::default(),
            offload: None,
            parameters: None,
            wants_nic: false,
        })
    }

    /// What to wait for.
    pub(crate) fn interest(&self) -> PollFlags {
        match (self.is_open, self.writable) {
            (false, _) => PollFlags::OUT,
            (true, true) => PollFlags::IN,
            (true, false) => PollFlags::IN | PollFlags::OUT,
        }
    }

    /// Bytes to be read where nothing better is known.
    pub(crate) fn staging(&self) -> usize {
        match self.offload {
            None if self.wants_nic => STAGED_TO_END,
            None => STAGED.0,
            Some(_) => STAGED.1,
        }
    }

    /// Bytes to be read behind the data of a PDU.
    pub(crate) fn staging_behind(&self) -> usize {
        match self.wants_nic {
            true => 0,
            false => self.staging(),
        }
    }

    /// Goes over to what ICReq and ICResp have agreed on; the NIC helps from then on, if it does.
    pub(crate) fn negotiated(
        &mut self,
        agreed: &machine::Negotiated,
        wants: Option<Wanted>,
        env: &mut LinkEnv<'_>,
    ) {
        let tags = match &wants {
            Some(wants) if wants.placement => wants.depth.min(TAGS),
            _ => 0,
        };
        let parameters = Parameters {
            sender: Role::Controller,
            header_digest: agreed.digests.header,
            data_digest: agreed.digests.data,
            alignment: agreed.hpda,
            max_pdu: agreed.max_pdu,
            commands: tags,
        };
        let incoming = parameters.framing();
        // The maker of PDUs limits them to what the controller accepts.
        self.outgoing = Framing {
            sender: Role::Host,
            alignment: agreed.cpda,
            max_pdu: u32::MAX,
            ..incoming
        };
        self.reader.negotiated(incoming);
        self.readable = true;
        if wants.is_none() || env.nic.is_none() {
            return;
        }
        let helps = tags > 0 || agreed.digests.data;
        self.parameters = Some(parameters).filter(|_| helps);
        // A controller that sends before it is asked is read without help.
        let is_asked = helps && self.is_between_pdus() && self.ask_nic(parameters, env);
        env.counters.connections_refused += u64::from(!is_asked);
    }

    /// Nothing was read of the next PDU.
    fn is_between_pdus(&self) -> bool {
        self.staged_from == self.staged_to && self.reader.is_at_boundary()
    }

    /// Another NIC is there: what the one before was to do it knows nothing of. It is asked between two PDUs.
    pub(crate) fn has_another_nic(&mut self, nic: &mut Nic) {
        if let Some(offload) = self.offload.take() {
            nic.free(offload.slot);
        }
        self.wants_nic = self.parameters.is_some();
    }

    /// Asks the NIC that has come, if this is the place to.
    pub(crate) fn ask_again(&mut self, env: &mut LinkEnv<'_>) {
        if self.wants_nic && self.is_between_pdus() {
            self.wants_nic = false;
            let parameters = self.parameters;
            if parameters.is_some_and(|parameters| self.ask_nic(parameters, env)) {
                env.counters.connections_resumed += 1;
            }
        }
    }

    /// Asks the NIC to help from the next PDU on. False if it does not.
    fn ask_nic(&mut self, parameters: Parameters, env: &mut LinkEnv<'_>) -> bool {
        let nic = env.nic.as_deref_mut();
        let started = nic.and_then(|nic| nic.start(parameters, self.socket.as_fd()));
        let Some((slot, start)) = started else {
            return false;
        };
        env.counters.connections_device += 1;
        self.reader = Reader::new(parameters.framing(), start);
        let tag = Tag {
            generation: Generation::FIRST,
            is_ending: false,
        };
        self.offload = Some(Offload {
            slot,
            tags: vec![tag; usize::from(parameters.commands)],
            resync: Resync::new(start, 0),
            question: 0,
            asks: false,
            is_header_doubtful: false,
        });
        true
    }

    /// Sends what there is to send, as far as there is room. Whether that was anything.
    pub(crate) fn send(&mut self, threshold: u32, env: &mut LinkEnv<'_>) -> Result<bool, Errno> {
        if !self.is_open || !self.writable {
            return Ok(false);
        }
        let mut progress = false;
        loop {
            while self.outbox.has_room()
                && let Some(outgoing) = env.controller.poll_pdu(self.queue)
            {
                progress = true;
                self.push(&outgoing, threshold, env);
            }
            if self.outbox.is_empty() {
                return Ok(progress);
            }
            let (memory, commands) = (env.memory, &mut *env.commands);
            if !self.outbox.flush(self.socket.as_fd(), memory, commands)? {
                self.writable = false;
                return Ok(progress);
            }
        }
    }

    fn push(&mut self, outgoing: &Outgoing, threshold: u32, env: &mut LinkEnv<'_>) {
        if let Some(begins) = outgoing.begins
            && self.queue > 0
        {
            self.map(begins.token, begins.cid, threshold, env);
        }
        let (framing, memory) = (&self.outgoing, env.memory);
        match &outgoing.payload {
            Payload::None => self
                .outbox
                .push(&outgoing.pdu, PduData::None, framing, memory),
            Payload::Connect(data) => {
                let data = data.to_bytes();
                self.outbox
                    .push(&outgoing.pdu, PduData::Bytes(&data), framing, memory);
            }
            Payload::Command { token, offset, len } => {
                let command = env.commands.get_mut(*token);
                command.unsent += 1;
                let data = PduData::Memory(*token, command.slice.part(*offset, *len));
                self.outbox.push(&outgoing.pdu, data, framing, memory);
            }
        }
    }

    /// Shows the memory of a read to the NIC, before the command is sent.
    fn map(&mut self, id: machine::CommandId, cid: u16, threshold: u32, env: &mut LinkEnv<'_>) {
        let command = env.commands.get_mut(id);
        let (Some(offload), Some(nic)) = (&mut self.offload, env.nic.as_deref_mut()) else {
            return;
        };
        let Some(tag) = offload.tags.get_mut(usize::from(cid)) else {
            return;
        };
        let page = command.slice.offset / attachment::PAGE as u64;
        let fits = command.slice.len <= Mapping::MAX_LEN && page <= u64::from(Mapping::MAX_PAGE);
        let wants = command.is_read && !command.is_copied && command.slice.len >= threshold.max(1);
        if !wants || !fits || tag.is_ending || !nic.is_there() {
            return;
        }
        tag.generation = tag.generation.next();
        command.map(offload.slot, cid, tag.generation);
        let mapping = Mapping {
            generation: tag.generation,
            page: page as u32,
            len: command.slice.len,
        };
        nic.pdus(offload.slot).map(cid, mapping);
        env.counters.buffers_mapped += 1;
    }

    /// Tells the NIC to write no more for a tag. [`tags_ended`](Self::tags_ended) follows.
    pub(crate) fn unmap(&mut self, tag: u16, nic: &Nic) {
        let Some(offload) = &mut self.offload else {
            return;
        };
        if let Some(known) = offload.tags.get_mut(usize::from(tag)) {
            known.is_ending = true;
            let ended = Mapping {
                generation: known.generation,
                page: 0,
                len: 0,
            };
            nic.pdus(offload.slot).map(tag, ended);
        }
    }

    /// The NIC writes no more for any tag that it was told of.
    pub(crate) fn tags_ended(&mut self, nic: &Nic) {
        let Some(offload) = &mut self.offload else {
            return;
        };
        let pdus = nic.pdus(offload.slot);
        for (number, tag) in (0u16..).zip(&mut offload.tags) {
            if tag.is_ending && pdus.ended_mapping(number, tag.generation).is_some() {
                tag.is_ending = false;
            }
        }
    }

    /// Tells the controller what is wrong with its PDU, unless that is a TermReq itself (NVMe/TCP 1.0 §3.5.1).
    pub(crate) fn terminate(&mut self, error: FatalError, env: &mut LinkEnv<'_>) {
        let header = self.reader.latest_header();
        let most = header.len().min(wire::nvme::MAX_TERM_REQ_DATA as usize);
        let header = header[..most].to_vec();
        let code = header.first().copied();
        let is_term_req = matches!(
            code.and_then(wire::nvme::PduType::from_code),
            Some(wire::nvme::PduType::C2HTermReq)
        );
        if is_term_req {
            return;
        }
        let pdu = Pdu::H2CTermReq(TermReq {
            error,
            data_len: header.len() as u32,
        });
        let (framing, memory) = (&self.outgoing, env.memory);
        self.outbox
            .push(&pdu, PduData::Bytes(&header), framing, memory);
        // If there is no room for it, the end of the connection must do.
        let _ = self.outbox.flush(self.socket.as_fd(), memory, env.commands);
    }

    /// Closes the connection.
    pub(crate) fn close(mut self, how: Closing, env: &mut LinkEnv<'_>) {
        self.outbox.abandon(env.commands);
        if let (Some(offload), Some(nic)) = (&self.offload, env.nic.as_deref_mut()) {
            nic.release(offload.slot);
        }
        if how == Closing::Lost {
            socket::abort_at_close(self.socket.as_fd());
        }
    }
}

/// What the NIC is to do for a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    pub(crate) placement: bool,
    /// Commands in flight.
    pub(crate) depth: u16,
}
