//! Sending PDUs.

use std::time::Instant;

use l5p::crc32c::Crc32c;
use nic::ring::{ContextId, Slice};
use tcp::SendQueue;
use wire::nvme::{DIGEST_LEN, Layout, MAX_HEADER_LEN, Pdu};

use super::receive::NO_PDUS;
use super::{Negotiated, PduData, PduStream, Role};
use crate::driver::{InUse, Payload};
use crate::memory::SizeClass;
use crate::meter::Component;
use crate::serve::parts;
use crate::socket::Socket;
use crate::stack::{Core, Stack};
use crate::tls::{Content, Refused, Session, Tls};
use crate::{SocketError, SocketId};

/// Room for a header with its digest and the padding behind it: PDO has 8 bits.
const FRONT: usize = 256;

impl Stack {
    /// The socket carries PDUs from its next byte on, in both directions; `role` is this side's. Digests and offload come with
    /// [`pdus_negotiated`](Self::pdus_negotiated).
    ///
    /// # Errors
    /// When the socket is not connected, or a TLS handshake is under way.
    pub fn start_pdus(
        &mut self,
        _now: Instant,
        id: SocketId,
        role: Role,
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
        socket.pdus = Some(Box::new(PduStream::new(role, start)));
        socket.wants_read = true;
        Ok(())
    }

    /// ICReq and ICResp have been exchanged: from the next PDU of each direction on, this is agreed.
    ///
    /// # Errors
    /// When no PDUs were started, or more has been received already than may come before this.
    pub fn pdus_negotiated(
        &mut self,
        now: Instant,
        id: SocketId,
        agreed: Negotiated,
    ) -> Result<(), SocketError> {
        let socket = self.owned(id)?;
        let pdus = socket.pdus.as_mut().ok_or(NO_PDUS)?;
        if !pdus.is_at_boundary() {
            return Err(SocketError::Unsupported(
                "a PDU is half received: what was agreed on must be told between ICReq and ICResp and the next",
            ));
        }
        pdus.negotiated(&agreed);
        let Some(socket) = self.sockets.get_mut(id) else {
            return Err(SocketError::NotFound);
        };
        let Some(mut pdus) = socket.pdus.take() else {
            return Err(NO_PDUS);
        };
        let start = socket.send.end();
        match parts(now, socket, &mut self.core) {
            (Some(session), stream, mut out) => {
                pdus.begin_transmit_in(session, &agreed, &mut out);
                pdus.begin_receive_in(session, stream, &agreed, &mut out);
            }
            (None, _, _) => {
                pdus.begin_transmit(id, socket.flow, start, &agreed, &mut self.core);
                pdus.begin_receive(id, socket.flow, &agreed, &mut self.core);
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
    pub fn send_pdu(
        &mut self,
        now: Instant,
        id: SocketId,
        pdu: &Pdu,
        data: PduData<'_>,
    ) -> Result<(), SocketError> {
        assert_eq!(
            data.len(),
            Some(pdu.data_len()),
            "a PDU's data is as long as its header says"
        );
        let before = self.core.meter.switch(Component::L5);
        let checked = match data {
            PduData::Slices(slices) => slices
                .iter()
                .try_for_each(|slice| self.core.driver.regions.check(*slice)),
            _ => Ok(()),
        };
        let sent = checked.and_then(|()| {
            let pdus = self.owned(id)?.pdus.as_ref().ok_or(NO_PDUS)?;
            let frame = Frame::of(pdu, pdus);
            self.write_with(id, false, |socket, core, _| match socket.tls {
                Tls::None => write_plain(now, socket, core, &frame, data),
                _ => write_records(now, socket, core, &frame, data),
            })
        });
        self.core.meter.switch(before);
        sent.map(|_| ())
    }
}

/// A data digest, or none.
struct DigestBytes {
    bytes: [u8; DIGEST_LEN as usize],
    len: usize,
}

impl DigestBytes {
    fn len(&self) -> usize {
        self.len
    }

    fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// What is before and behind a PDU's data.
struct Frame {
    layout: Layout,
    front: [u8; FRONT],
}

impl Frame {
    fn of(pdu: &Pdu, pdus: &PduStream) -> Self {
        let layout = pdus.outgoing.layout(pdu.pdu_type(), pdu.data_len());
        let mut front = [0; FRONT];
        let header_len = pdu.emit(&pdus.outgoing, &mut front[..MAX_HEADER_LEN]);
        if layout.header_digest {
            let digest = Crc32c::of(&front[..header_len]);
            front[header_len..header_len + DIGEST_LEN as usize]
                .copy_from_slice(&digest.to_le_bytes());
        }
        Self { layout, front }
    }

    fn front(&self) -> &[u8] {
        &self.front[..usize::from(self.layout.pdo)]
    }

    fn digest_len(&self) -> u32 {
        DIGEST_LEN * u32::from(self.layout.data_digest)
    }

    /// A data digest as it is on the wire; nothing if there is none.
    fn digest(&self, digest: u32) -> DigestBytes {
        DigestBytes {
            bytes: digest.to_le_bytes(),
            len: self.digest_len() as usize,
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
    let context = pdus.transmit;
    let in_software = frame.layout.data_digest && context.is_none();
    let start = socket.send.end();
    match data {
        PduData::Slices(slices) => {
            let digest = match in_software {
                true => digest_of(slices, &core.driver.regions)?,
                false => 0,
            };
            let (front, digest) = (frame.front(), frame.digest(digest));
            let around = (front.len() + digest.len()) as u32;
            let mut before = core.driver.take_tail(around).ok_or(Refused::NoMemory)?;
            let mut behind = before.split_off(front.len() as u32);
            before.copy_from_slice(front);
            behind.copy_from_slice(digest.as_slice());
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
    let len = frame.layout.pdu_len();
    match context {
        Some(_) => {
            pdus.writer.push(start, len);
            core.counters.nvme_tx_pdus_device += 1;
        }
        None => core.counters.nvme_tx_pdus_sw += 1,
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
    let around = front.len() + frame.digest_len() as usize;
    if bytes.len() > COPIED - around
        && !core
            .driver
            .has_memory_for(u64::from(frame.layout.pdu_len()))
    {
        return Err(Refused::NoMemory);
    }
    let in_software = frame.layout.data_digest && context.is_none();
    let mut digest = Crc32c::new();
    let (mut front, mut rest) = (front, bytes);
    loop {
        let (part, later) = rest.split_at(rest.len().min(COPIED - around));
        let end = if later.is_empty() {
            frame.digest_len()
        } else {
            0
        };
        let len = (front.len() + part.len()) as u32 + end;
        let mut buffer = core.driver.take_tail(len).ok_or(Refused::NoMemory)?;
        let (to_front, to) = buffer.split_at_mut(front.len());
        let (to, to_digest) = to.split_at_mut(part.len());
        to_front.copy_from_slice(front);
        match in_software {
            true => digest.copy(part, to),
            false => wire::bulk::copy(part, to),
        }
        if later.is_empty() {
            let digest = if in_software { digest.finish() } else { 0 };
            to_digest.copy_from_slice(frame.digest(digest).as_slice());
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
        _ if offloaded || !frame.layout.data_digest => 0,
        PduData::Slices(slices) => digest_of(slices, &core.driver.regions)?,
        PduData::Bytes(bytes) => Crc32c::of(bytes),
        PduData::None => 0,
    };
    let digest = frame.digest(digest);
    let behind = digest.as_slice();
    let (session, _, mut out) = parts(now, socket, core);
    let data = match data {
        PduData::None => Content::Bytes(&[]),
        PduData::Bytes(bytes) => Content::Bytes(bytes),
        PduData::Slices(slices) => Content::Slices(slices),
    };
    let parts = [Content::Bytes(frame.front()), data, Content::Bytes(behind)];
    let Some(session) = session else {
        return Ok(0);
    };
    let start = pdus.spans.end();
    let written = session.write_content(&parts, &mut pdus.spans, &mut out)?;
    if offloaded {
        pdus.writer.push(start, frame.layout.pdu_len());
        out.counters.nvme_tx_pdus_device += 1;
    } else {
        out.counters.nvme_tx_pdus_sw += 1;
    }
    Ok(written)
}

/// The digest of registered memory.
fn digest_of(slices: &[Slice], regions: &InUse) -> Result<u32, Refused> {
    let mut digest = Crc32c::new();
    for slice in slices {
        let bytes = regions.view(*slice).ok_or(Refused::SourceGone(*slice))?;
        digest.update(bytes);
    }
    Ok(digest.finish())
}
