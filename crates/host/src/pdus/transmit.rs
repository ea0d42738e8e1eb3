//! Sending PDUs.

use l5p::HostEvent;
use l5p::crc32c::Crc32c;
use l5p::pdus::{Layout, MAX_FRONT, MAX_PADDING, PduProtocol};
use nic::ring::{ContextId, Slice};

use super::{PduData, PduStream};
use crate::driver::{InUse, Payload};
use crate::layer5::{Outgoing, Refused};
use crate::memory::SizeClass;
use crate::tls::{Content, Session};

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
pub(crate) struct Frame {
    layout: Layout,
    front: [u8; MAX_FRONT],
}

impl Frame {
    pub fn of<P: PduProtocol>(pdu: &P::Pdu, outgoing: &P) -> Self {
        let mut front = [0; MAX_FRONT];
        let layout = outgoing.emit(pdu, &mut front);
        Self { layout, front }
    }

    /// Bytes of data.
    pub fn data_len(&self) -> u32 {
        self.layout.data_len
    }

    fn front(&self) -> &[u8] {
        &self.front[..self.layout.data_start as usize]
    }

    fn behind_len(&self) -> u32 {
        self.layout.behind_len()
    }

    /// What is behind data that `digest` is over; without one it is a dummy, because the NIC makes it.
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

impl PduStream {
    /// Queues a PDU whole, or not at all. `session` is that of the protocol around the PDUs. Answers how many bytes it is.
    pub fn write(
        &mut self,
        session: Option<&mut Session>,
        frame: &Frame,
        data: PduData<'_>,
        out: &mut Outgoing<'_>,
    ) -> Result<usize, Refused> {
        match session {
            None => self.write_plain(frame, data, out),
            Some(session) => self.write_records(session, frame, data, out),
        }
    }

    fn write_plain(
        &mut self,
        frame: &Frame,
        data: PduData<'_>,
        out: &mut Outgoing<'_>,
    ) -> Result<usize, Refused> {
        let context = self.sending.contexts.context;
        let start = out.send.end();
        match data {
            PduData::Slices(slices) => write_slices(frame, slices, context, out)?,
            PduData::None => write_bytes(frame, &[], context, out)?,
            PduData::Bytes(bytes) => write_bytes(frame, bytes, context, out)?,
        }
        let len = frame.layout.len();
        match context {
            Some(_) => {
                self.sending.writer.push(start, len);
                self.count(HostEvent::TxMessagesByNic, out.counters);
            }
            None => self.count(HostEvent::TxMessagesBySoftware, out.counters),
        }
        out.tcp.queue(out.now, len);
        Ok(len as usize)
    }

    fn write_records(
        &mut self,
        session: &mut Session,
        frame: &Frame,
        data: PduData<'_>,
        out: &mut Outgoing<'_>,
    ) -> Result<usize, Refused> {
        // It may change who makes the digest.
        session.prepare_keys(out)?;
        let offloaded = session.transforms_inside();
        let digest = match data {
            _ if offloaded || !frame.layout.data_digest => None,
            PduData::Slices(slices) => Some(digest_of(slices, &out.driver.regions)?),
            PduData::Bytes(bytes) => Some(digest_of_bytes(bytes)),
            PduData::None => None,
        };
        let behind = frame.behind(digest);
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
        let start = self.sending.spans.end();
        let written = session.write_content(&parts, &mut self.sending.spans, out)?;
        if offloaded {
            self.sending.writer.push(start, frame.layout.len());
            self.count(HostEvent::TxMessagesByNic, out.counters);
        } else {
            self.count(HostEvent::TxMessagesBySoftware, out.counters);
        }
        Ok(written)
    }
}

/// Queues a PDU whose data is sent in place.
fn write_slices(
    frame: &Frame,
    slices: &[Slice],
    context: Option<ContextId>,
    out: &mut Outgoing<'_>,
) -> Result<(), Refused> {
    let in_software = frame.layout.data_digest && context.is_none();
    let digest = match in_software {
        true => Some(digest_of(slices, &out.driver.regions)?),
        false => None,
    };
    let (front, after) = (frame.front(), frame.behind(digest));
    let around = front.len() as u32 + frame.behind_len();
    let mut before = out.driver.take_tail(around).ok_or(Refused::NoMemory)?;
    let mut behind = before.split_off(front.len() as u32);
    before.copy_from_slice(front);
    behind.copy_from_slice(after.as_slice());
    out.send.push(Payload::buffer(before, context, false));
    for &slice in slices.iter().filter(|slice| slice.len > 0) {
        out.driver.regions.take(slice);
        out.send.push(Payload::stable_region(slice, context));
    }
    out.send.push(Payload::buffer(behind, context, false));
    Ok(())
}

/// Queues a PDU whose data is copied.
fn write_bytes(
    frame: &Frame,
    bytes: &[u8],
    context: Option<ContextId>,
    out: &mut Outgoing<'_>,
) -> Result<(), Refused> {
    let front = frame.front();
    let around = front.len() + frame.behind_len() as usize;
    if bytes.len() > COPIED - around && !out.driver.has_memory_for(u64::from(frame.layout.len())) {
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
        let mut buffer = out.driver.take_tail(len).ok_or(Refused::NoMemory)?;
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
        out.send.push(Payload::buffer(buffer, context, false));
        (front, rest) = (&[], later);
        if rest.is_empty() {
            return Ok(());
        }
    }
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
