//! Sending PDUs.

use std::time::Instant;

use l5p::HostEvent;
use l5p::crc32c::Crc32c;
use l5p::pdus::{Layout, MAX_FRONT, MAX_PADDING, PduProtocol, Resync};
use nic::ring::{ContextId, Slice};
use tcp::SendQueue;

use super::receive::NO_PDUS;
use super::{Agreed, Framings, PduData, PduStream};
use crate::driver::{InUse, Payload};
use crate::layer5::{Refused, Session as _};
use crate::memory::SizeClass;
use crate::meter::Component;
use crate::socket::Socket;
use crate::stack::{Core, Stack};
use crate::tls::{Content, Session, Tls, parts};
use crate::{SocketError, SocketId};

impl Stack {
    /// The socket carries PDUs from its next byte on, in both directions, under `framings` until [`pdus_negotiated`](Self::pdus_negotiated)
    /// names others. Offload comes with that too.
    ///
    /// # Errors
    /// When the socket is not connected, or a TLS handshake is under way.
    pub fn start_pdus<P: PduProtocol>(
        &mut self,
        _now: Instant,
        id: SocketId,
        framings: Framings<P>,
    ) -> Result<(), SocketError> {
        let socket = self.owned(id)?;
        socket.may_write()?;
        if socket.pdus.is_some() {
            return Err(SocketError::Unsupported(
                "the socket carries PDUs already; it can't begin anew",
            ));
        }
        // Under TLS positions are counted in bytes of plaintext.
        let start = match socket.tls {
            Tls::None => socket.stream.start(),
            _ => wire::SeqNum(0),
        };
        socket.pdus = Some(Box::new(PduStream::new(framings, start)));
        socket.wants_read = true;
        Ok(())
    }

    /// Both sides have agreed on other rules: they hold from the next PDU of each direction on. What the NIC is to do begins with the
    /// first call that says so; later ones change the rules only.
    ///
    /// # Errors
    /// When no PDUs of this protocol were started, or more has been received already than may come before this.
    pub fn pdus_negotiated<P: PduProtocol>(
        &mut self,
        now: Instant,
        id: SocketId,
        agreed: Agreed<P>,
    ) -> Result<(), SocketError> {
        let socket = self.owned(id)?;
        let pdus = socket.pdus.as_mut().ok_or(NO_PDUS)?;
        let (framed, receiving) = pdus.receiving_parts::<P>()?;
        if !framed.reader.is_at_boundary() {
            return Err(SocketError::Unsupported(
                "a PDU is half received: what was agreed on must be told between two PDUs",
            ));
        }
        framed.reader.negotiated(agreed.framings.incoming);
        framed.outgoing = agreed.framings.outgoing;
        receiving.checks_digests = agreed.checks_digests;
        receiving.tag_limit = agreed.tags;
        let (position, index) = framed.reader.position();
        let Some(socket) = self.sockets.get_mut(id) else {
            return Err(SocketError::NotFound);
        };
        let Some(mut pdus) = socket.pdus.take() else {
            return Err(NO_PDUS);
        };
        let (flow, start) = (socket.flow, socket.send.end());
        match parts(now, socket, &mut self.core) {
            (Some(session), stream, mut out) => {
                if let Some(layers) = agreed.transmit {
                    session.transmit_inside(layers, &mut out);
                }
                if let Some(layers) = agreed.receive {
                    pdus.receiving.resync = Resync::new(position, index);
                    let next = session.next_record(stream);
                    session.receive_inside(layers, next, &mut out);
                }
            }
            (None, _, _) => {
                let core = &mut self.core;
                let [transmit, receive] = pdus.contexts();
                if let Some(layers) = agreed.transmit
                    && transmit.is_none()
                {
                    pdus.begin_transmit(id, flow, start, layers, core);
                }
                if let Some(layers) = agreed.receive
                    && receive.is_none()
                {
                    pdus.begin_receive(id, flow, position, index, layers, core);
                }
            }
        }
        socket.pdus = Some(pdus);
        socket.wants_read = true;
        self.core.mark_ready(id, socket);
        Ok(())
    }

    /// Queues one PDU: whole, or not at all.
    ///
    /// # Errors
    /// [`SocketError::WouldBlock`] when there is no room or no memory; [`Writable`](crate::Event::Writable) follows.
    ///
    /// # Panics
    /// When the data is not as long as `pdu` says.
    pub fn send_pdu<P: PduProtocol>(
        &mut self,
        now: Instant,
        id: SocketId,
        pdu: &P::Pdu,
        data: PduData<'_>,
    ) -> Result<(), SocketError> {
        let before = self.core.meter.switch(Component::L5);
        let checked = match data {
            PduData::Slices(slices) => slices
                .iter()
                .try_for_each(|slice| self.core.driver.regions.check(*slice)),
            _ => Ok(()),
        };
        let sent = checked.and_then(|()| {
            let pdus = self.owned(id)?.pdus.as_ref().ok_or(NO_PDUS)?;
            let frame = Frame::of(pdu, pdus.outgoing::<P>()?);
            assert_eq!(
                data.len(),
                Some(frame.layout.data_len),
                "a PDU's data is as long as its header says"
            );
            self.write_with(id, false, |socket, core, _| match socket.tls {
                Tls::None => write_plain(now, socket, core, &frame, data),
                _ => write_records(now, socket, core, &frame, data),
            })
        });
        self.core.meter.switch(before);
        sent.map(|_| ())
    }
}

/// What is behind a PDU's data: padding, and a digest if there is one.
struct Behind {
    bytes: [u8; BEHIND_ROOM],
    len: usize,
}

const BEHIND_ROOM: usize = MAX_PADDING as usize + 4;

impl Behind {
    fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// What is before and behind a PDU's data.
struct Frame {
    layout: Layout,
    front: [u8; MAX_FRONT],
}

impl Frame {
    fn of<P: PduProtocol>(pdu: &P::Pdu, outgoing: &P) -> Self {
        let mut front = [0; MAX_FRONT];
        let layout = outgoing.emit(pdu, &mut front);
        Self { layout, front }
    }

    fn front(&self) -> &[u8] {
        &self.front[..self.layout.data_start as usize]
    }

    fn behind_len(&self) -> u32 {
        self.layout.behind_len()
    }

    /// What is behind data that `digest` is over; the digest is a dummy if there is none, because the NIC makes it.
    fn behind(&self, digest: Option<Crc32c>) -> Behind {
        let mut bytes = [0; BEHIND_ROOM];
        let padding = self.layout.padding as usize;
        if let Some(mut digest) = digest {
            digest.update(&bytes[..padding]);
            bytes[padding..padding + 4].copy_from_slice(&digest.finish().to_le_bytes());
        }
        Behind {
            bytes,
            len: self.behind_len() as usize,
        }
    }
}

/// Bytes that are copied to one block at most.
const COPIED: usize = SizeClass::Record.bytes() as usize;

fn write_plain(
    now: Instant,
    socket: &mut Socket,
    core: &mut Core,
    frame: &Frame,
    data: PduData<'_>,
) -> Result<usize, Refused> {
    let Some(pdus) = &mut socket.pdus else {
        return Ok(0);
    };
    let context = pdus.sending.context;
    let in_software = frame.layout.data_digest && context.is_none();
    let start = socket.send.end();
    match data {
        PduData::Slices(slices) => {
            let digest = match in_software {
                true => Some(digest_of(slices, &core.driver.regions)?),
                false => None,
            };
            let (front, after) = (frame.front(), frame.behind(digest));
            let around = front.len() as u32 + frame.behind_len();
            let mut before = core.driver.take_tail(around).ok_or(Refused::NoMemory)?;
            let mut behind = before.split_off(front.len() as u32);
            before.copy_from_slice(front);
            behind.copy_from_slice(after.as_slice());
            socket.send.push(Payload::buffer(before, context, false));
            for &slice in slices.iter().filter(|slice| slice.len > 0) {
                core.driver.regions.take(slice);
                socket.send.push(Payload::stable_region(slice, context));
            }
            socket.send.push(Payload::buffer(behind, context, false));
        }
        PduData::None => write_bytes(&mut socket.send, core, frame, &[], context)?,
        PduData::Bytes(bytes) => write_bytes(&mut socket.send, core, frame, bytes, context)?,
    }
    let len = frame.layout.len();
    match context {
        Some(_) => {
            pdus.sending.writer.push(start, len);
            pdus.count(HostEvent::TxMessagesByNic, &mut core.counters);
        }
        None => pdus.count(HostEvent::TxMessagesBySoftware, &mut core.counters),
    }
    socket.tcp.queue(now, len);
    Ok(len as usize)
}

/// Queues a PDU whose data is copied.
fn write_bytes(
    send: &mut SendQueue<Payload>,
    core: &mut Core,
    frame: &Frame,
    bytes: &[u8],
    context: Option<ContextId>,
) -> Result<(), Refused> {
    let front = frame.front();
    let around = front.len() + frame.behind_len() as usize;
    if bytes.len() > COPIED - around && !core.driver.has_memory_for(u64::from(frame.layout.len())) {
        return Err(Refused::NoMemory);
    }
    let in_software = frame.layout.data_digest && context.is_none();
    let mut digest = Crc32c::new();
    let (mut front, mut rest) = (front, bytes);
    loop {
        let (part, later) = rest.split_at(rest.len().min(COPIED - around));
        let end = if later.is_empty() {
            frame.behind_len()
        } else {
            0
        };
        let len = (front.len() + part.len()) as u32 + end;
        let mut buffer = core.driver.take_tail(len).ok_or(Refused::NoMemory)?;
        let (to_front, to) = buffer.split_at_mut(front.len());
        let (to, to_behind) = to.split_at_mut(part.len());
        to_front.copy_from_slice(front);
        match in_software {
            true => digest.copy(part, to),
            false => wire::bulk::copy(part, to),
        }
        if later.is_empty() {
            let behind = frame.behind(in_software.then_some(digest));
            to_behind.copy_from_slice(behind.as_slice());
        }
        send.push(Payload::buffer(buffer, context, false));
        (front, rest) = (&[], later);
        if rest.is_empty() {
            return Ok(());
        }
    }
}

fn write_records(
    now: Instant,
    socket: &mut Socket,
    core: &mut Core,
    frame: &Frame,
    data: PduData<'_>,
) -> Result<usize, Refused> {
    let Some(mut pdus) = socket.pdus.take() else {
        return Ok(0);
    };
    let written = write_records_of(&mut pdus, now, socket, core, frame, data);
    socket.pdus = Some(pdus);
    written
}

fn write_records_of(
    pdus: &mut PduStream,
    now: Instant,
    socket: &mut Socket,
    core: &mut Core,
    frame: &Frame,
    data: PduData<'_>,
) -> Result<usize, Refused> {
    let offloaded = socket.tls.session().is_some_and(Session::transforms_inside);
    let digest = match data {
        _ if offloaded || !frame.layout.data_digest => None,
        PduData::Slices(slices) => Some(digest_of(slices, &core.driver.regions)?),
        PduData::Bytes(bytes) => Some(digest_of_bytes(bytes)),
        PduData::None => None,
    };
    let behind = frame.behind(digest);
    let (session, _, mut out) = parts(now, socket, core);
    let data = match data {
        PduData::None => Content::Bytes(&[]),
        PduData::Bytes(bytes) => Content::Bytes(bytes),
        PduData::Slices(slices) => Content::Slices(slices),
    };
    let parts = [
        Content::Bytes(frame.front()),
        data,
        Content::Bytes(behind.as_slice()),
    ];
    let Some(session) = session else {
        return Ok(0);
    };
    let start = pdus.sending.spans.end();
    let written = session.write_content(&parts, &mut pdus.sending.spans, &mut out)?;
    if offloaded {
        pdus.sending.writer.push(start, frame.layout.len());
        pdus.count(HostEvent::TxMessagesByNic, out.counters);
    } else {
        pdus.count(HostEvent::TxMessagesBySoftware, out.counters);
    }
    Ok(written)
}

/// The digest of registered memory.
fn digest_of(slices: &[Slice], regions: &InUse) -> Result<Crc32c, Refused> {
    let mut digest = Crc32c::new();
    for slice in slices {
        let bytes = regions.view(*slice).ok_or(Refused::SourceGone(*slice))?;
        digest.update(bytes);
    }
    Ok(digest)
}

fn digest_of_bytes(bytes: &[u8]) -> Crc32c {
    let mut digest = Crc32c::new();
    digest.update(bytes);
    digest
}
