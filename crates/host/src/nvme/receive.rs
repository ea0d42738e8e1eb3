//! Taking PDUs out of what has been received.

use std::time::Instant;

use l5p::pdus::{DataDigest as Found, Event, Next, Reader};
use nic::ring::Slice;
use tcp::Chunk;
use wire::nvme::{FatalError, FatalErrorStatus, Framing, Pdu, PduType, Role, TermReq};

use super::stream::Kind;
use super::{DataDigest, PduData, PduSink, PduStream};
use crate::driver::InUse;
use crate::meter::Component;
use crate::serve::parts;
use crate::socket::{Segment, Stream};
use crate::stack::Stack;
use crate::tls::{Front, Outgoing, Taken, Tls};
use crate::{CloseReason, SocketError, SocketId};

/// Bytes between data that are taken at a time: a header is shorter.
const FRAME: usize = 256;

/// What the PDUs of one call go through.
struct Intake<'a> {
    pdus: &'a mut PduStream,
    sink: &'a mut dyn PduSink,
    /// PDUs that have ended.
    ended: usize,
    /// Data whose digest was wrong.
    bad_digests: u64,
    /// Digests that the NIC has checked, and that software has.
    digests: [u64; 2],
    /// Bytes of data that were in their place, and that were copied there.
    placed: u64,
    copied: u64,
    stopped: Option<Stopped>,
}

/// Why nothing more is taken.
#[derive(Clone, Copy, Debug)]
enum Stopped {
    /// The peer has broken the protocol.
    Refused(FatalError),
    /// The peer has ended the connection by a TermReq.
    Terminated(FatalError),
    /// Memory that data was placed in is not registered any more.
    MemoryGone,
}

impl Stack {
    /// Takes in all that has come: gives each header to `sink`, each PDU's data to where `sink` says, and each end to `sink`. Answers how
    /// many PDUs have ended; more come only after a [`Readable`](crate::Event::Readable) event.
    ///
    /// # Errors
    /// [`SocketError::Closed`] at the end of the stream. When the peer breaks the protocol, or `sink` says so, it has been
    /// told by a TermReq.
    pub fn receive_pdus(
        &mut self,
        now: Instant,
        id: SocketId,
        sink: &mut dyn PduSink,
    ) -> Result<usize, SocketError> {
        let before = self.core.meter.switch(Component::L5);
        let result = self.receive_pdus_with(now, id, sink);
        self.core.meter.switch(before);
        result
    }

    fn receive_pdus_with(
        &mut self,
        now: Instant,
        id: SocketId,
        sink: &mut dyn PduSink,
    ) -> Result<usize, SocketError> {
        let socket = self.owned(id)?;
        let Some(mut pdus) = socket.pdus.take() else {
            return Err(NO_PDUS);
        };
        let Some(socket) = self.sockets.get_mut(id) else {
            return Err(SocketError::NotFound);
        };
        let mut intake = Intake {
            pdus: &mut pdus,
            sink,
            ended: 0,
            bad_digests: 0,
            digests: [0; 2],
            placed: 0,
            copied: 0,
            stopped: None,
        };
        let (mut consumed, mut failed) = (0, None);
        match &socket.tls {
            Tls::None => {
                let regions = &mut self.core.driver.regions;
                consumed = intake.take(&mut socket.stream, u32::MAX, regions);
            }
            Tls::Handshake(_) => {}
            Tls::Open(_) => {
                if let (Some(session), stream, mut out) = parts(now, socket, &mut self.core) {
                    failed =
                        session.read_with(stream, &mut consumed, &mut out, |stream, front, out| {
                            intake.take_content(stream, front, out)
                        });
                }
            }
        }
        let (ended, stopped) = (intake.ended, intake.stopped);
        let counters = &mut self.core.counters;
        counters.nvme_digest_errors += intake.bad_digests;
        counters.nvme_rx_digests_device += intake.digests[0];
        counters.nvme_rx_digests_sw += intake.digests[1];
        counters.nvme_rx_bytes_placed += intake.placed;
        counters.nvme_rx_bytes_copied += intake.copied;
        let receive = socket.tls.session().and_then(|session| session.receive);
        if let Some(context) = pdus.receive.or(receive) {
            pdus.answer_resyncs(context, &mut self.core.driver);
        }
        let header = TermHeader::of(&pdus);
        socket.pdus = Some(pdus);
        if consumed > 0 {
            socket.tcp.consumed(now, consumed);
            self.core.mark_ready(id, socket);
        }
        match (stopped, failed) {
            (Some(Stopped::Refused(error)), _) => {
                let reason = CloseReason::Pdu(error);
                self.terminate(now, id, error, header.bytes());
                Err(SocketError::Closed(reason))
            }
            (Some(Stopped::MemoryGone), _) => {
                let reason = CloseReason::Device(
                    "memory that received data was placed in is not registered any more".into(),
                );
                self.reset(id, reason.clone());
                Err(SocketError::Closed(reason))
            }
            (Some(Stopped::Terminated(error)), _) => {
                let reason = CloseReason::PeerTermReq(error);
                self.fail(now, id, reason.clone());
                Err(SocketError::Closed(reason))
            }
            (None, Some(reason)) => {
                self.fail(now, id, reason.clone());
                Err(SocketError::Closed(reason))
            }
            (None, None) if ended > 0 => {
                if let Some(socket) = self.sockets.get_mut(id) {
                    socket.wants_read = true;
                }
                Ok(ended)
            }
            (None, None) => self.no_pdus(id),
        }
    }

    /// What is said when no PDU has ended.
    fn no_pdus(&mut self, id: SocketId) -> Result<usize, SocketError> {
        match self.owned(id)?.nothing_to_read() {
            Ok(_) => Err(SocketError::Closed(CloseReason::Graceful)),
            Err(SocketError::WouldBlock) => Ok(0),
            Err(error) => Err(error),
        }
    }

    /// Tells the peer what is wrong with its PDU, unless that is a TermReq itself, and ends the connection (NVMe/TCP 1.0 §3.5.1).
    fn terminate(&mut self, now: Instant, id: SocketId, error: FatalError, header: &[u8]) {
        self.core.counters.nvme_pdus_refused += 1;
        let role = match self.sockets.get(id).and_then(|socket| socket.pdus.as_ref()) {
            Some(pdus) => pdus.role,
            None => return,
        };
        let request = TermReq {
            error,
            data_len: header.len() as u32,
        };
        let pdu = match role {
            Role::Host => Pdu::H2CTermReq(request),
            Role::Controller => Pdu::C2HTermReq(request),
        };
        let is_term_req = matches!(
            header.first().copied().and_then(PduType::from_code),
            Some(PduType::H2CTermReq | PduType::C2HTermReq)
        );
        if !is_term_req {
            // If there is no memory for it, the end of the connection must do.
            let _ = self.send_pdu(now, id, &pdu, PduData::Bytes(header));
        }
        self.fail(now, id, CloseReason::Pdu(error));
    }
}

/// The header that a TermReq carries.
struct TermHeader {
    bytes: [u8; wire::nvme::MAX_TERM_REQ_DATA as usize],
    len: usize,
}

impl TermHeader {
    fn of(pdus: &PduStream) -> Self {
        let mut header = Self {
            bytes: [0; wire::nvme::MAX_TERM_REQ_DATA as usize],
            len: 0,
        };
        let from = pdus.reader.latest_header();
        header.len = from.len().min(header.bytes.len());
        header.bytes[..header.len].copy_from_slice(&from[..header.len]);
        header
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

pub(super) const NO_PDUS: SocketError =
    SocketError::Unsupported("the socket carries no PDUs; call `start_pdus` first");

impl Intake<'_> {
    /// Takes the content of a record.
    fn take_content(&mut self, stream: &mut Stream, front: Front, out: &mut Outgoing<'_>) -> Taken {
        if let Some(record) = front.record {
            let (position, _) = self.pdus.reader.position();
            self.pdus
                .resync
                .note_record(record, position, front.content);
        }
        let len = self.take(stream, front.content, &mut out.driver.regions);
        Taken {
            len,
            inside_message: !self.pdus.is_at_boundary(),
        }
    }

    /// Takes up to `most` bytes from the front of the stream; answers how many.
    fn take(&mut self, stream: &mut Stream, most: u32, regions: &mut InUse) -> u32 {
        let mut taken = 0;
        while taken < most
            && self.stopped.is_none()
            && let Some(segment) = stream.front()
        {
            let checked = segment.marks.checked && self.pdus.offload.receive_digest;
            let most = most - taken;
            let (len, event) = match self.pdus.reader.next() {
                Next::Frame => {
                    // Placed where the NIC has taken for data what is none: it has lost its way.
                    let Some(bytes) = segment.input(regions) else {
                        self.stopped = Some(Stopped::MemoryGone);
                        break;
                    };
                    let most = bytes.len().min(most as usize).min(FRAME);
                    let (bytes, _) = bytes.split_at(most);
                    let reader = &mut self.pdus.reader;
                    match bytes.read::<FRAME, _>(|bytes| reader.take(bytes, checked)) {
                        Ok((len, event)) => (len as u32, event),
                        Err(error) => {
                            self.stopped = Some(Stopped::Refused(error));
                            break;
                        }
                    }
                }
                Next::Data(range) => {
                    let most = most.min(range.end - range.start).min(segment.len());
                    match self.take_data(segment, most, checked, regions) {
                        Some(taken) => taken,
                        None => {
                            self.stopped = Some(Stopped::MemoryGone);
                            break;
                        }
                    }
                }
                Next::Waiting => break,
            };
            stream.skip(len);
            taken += len;
            if let Some(event) = event
                && let Err(stopped) = self.act(event, regions)
            {
                self.stopped = Some(stopped);
            }
        }
        taken
    }

    /// Brings up to `most` bytes of data from the front of a segment to where they belong, as far as that is in one place; answers how
    /// many. `None` when the segment's memory is gone.
    #[inline]
    fn take_data(
        &mut self,
        segment: &Segment,
        most: u32,
        checked: bool,
        regions: &mut InUse,
    ) -> Option<(u32, Option<Event<Pdu>>)> {
        let (reader, target) = (&mut self.pdus.reader, &mut self.pdus.target);
        if target.kind() == Kind::Slices
            && let Some(room) = target.room(most)
        {
            if let Some(placed) = segment.as_placed() {
                let slice = placed.slice();
                if slice.region == room.region && slice.offset == room.offset {
                    // Source and destination are the same: the copy is skipped (NVMeTCP offload, "The Driver SKB Build").
                    target.fill(room.len);
                    self.pdus.tags.taken(placed.tag, room.len);
                    self.placed += u64::from(room.len);
                    return Some((room.len, reader.pass(room.len, checked)));
                }
                let (len, event) = copy_elsewhere(reader, slice, room, regions)?;
                target.fill(len);
                return Some((len, event));
            }
            target.fill(room.len);
            if !self.pdus.strays.is_empty() {
                self.pdus.strays.heal(room);
            }
            self.copied += u64::from(room.len);
            let bytes = &segment.as_buffer()?[..room.len as usize];
            let event = match regions.view_mut(room) {
                Some(to) => reader.copy(bytes, to, checked),
                None => reader.discard(bytes),
            };
            return Some((room.len, event));
        }
        let (bytes, _) = segment.input(regions)?.split_at(most as usize);
        let event = match target.kind() {
            Kind::Inline => {
                let start = target.inline.len();
                target.inline.resize(start + bytes.len(), 0);
                reader.copy(bytes, &mut target.inline[start..], checked)
            }
            Kind::Slices | Kind::Discard => reader.discard(bytes),
        };
        Some((most, event))
    }

    fn act(&mut self, event: Event<Pdu>, regions: &InUse) -> Result<(), Stopped> {
        match event {
            Event::Header(pdu) => {
                let header = self.pdus.reader.latest();
                self.pdus
                    .resync
                    .note_pdu(header.start, header.len, header.index);
                let data_len = pdu.data_len();
                let destination = self.sink.header(&pdu).map_err(Stopped::Refused)?;
                if data_len == 0 {
                    self.ended += 1;
                    return terminated(&pdu)
                        .map_or(Ok(()), |error| Err(Stopped::Terminated(error)));
                }
                self.pdus.terminated = terminated(&pdu);
                if !self.pdus.target.begin(destination, data_len) {
                    let error = FatalError::of(FatalErrorStatus::DATA_OUT_OF_RANGE);
                    return Err(Stopped::Refused(error));
                }
            }
            Event::End(found) => {
                let digest = self.judge(found, regions);
                self.bad_digests += u64::from(digest == DataDigest::Bad);
                if let Some(by_nic) = self.pdus.reader.digest_was_vouched() {
                    self.digests[usize::from(!by_nic)] += 1;
                }
                self.ended += 1;
                let ended = self.sink.end(digest, &self.pdus.target.inline);
                ended.map_err(Stopped::Refused)?;
                if let Some(error) = self.pdus.terminated {
                    return Err(Stopped::Terminated(error));
                }
            }
        }
        Ok(())
    }

    /// Digests what is to be digested where it lies now.
    fn judge(&mut self, found: Found, regions: &InUse) -> DataDigest {
        let (reader, target) = (&mut self.pdus.reader, &self.pdus.target);
        let mut found = found;
        if let Found::Unverified(from) = found {
            match target.kind() {
                Kind::Slices => {
                    for slice in target.slices_from(from, reader.data_len()) {
                        let Some(bytes) = regions.view(slice) else {
                            return DataDigest::Bad;
                        };
                        found = reader.verify(bytes);
                    }
                }
                Kind::Inline => found = reader.verify(&target.inline[from as usize..]),
                Kind::Discard => {}
            }
        }
        match found {
            Found::None | Found::Good => DataDigest::Good,
            Found::Bad | Found::Unverified(_) => DataDigest::Bad,
        }
    }
}

/// Copies the first bytes of what the NIC has put into another place than where it belongs, as it may when it has lost its way;
/// answers how many. Whatever that does to the buffers it was put into, their tags count it ([`Unmapped::Tainted`](super::Unmapped)).
fn copy_elsewhere(
    reader: &mut Reader<Framing>,
    from: Slice,
    to: Slice,
    regions: &mut InUse,
) -> Option<(u32, Option<Event<Pdu>>)> {
    let mut piece = [0; 2048];
    let len = to.len.min(piece.len() as u32);
    let piece = &mut piece[..len as usize];
    // The two may overlap.
    regions.view(Slice { len, ..from })?.copy_to(piece);
    let piece = &*piece;
    let event = match regions.view_mut(Slice { len, ..to }) {
        Some(to) => reader.copy(piece, to, false),
        None => reader.discard(piece),
    };
    Some((len, event))
}

/// What a TermReq says.
fn terminated(pdu: &Pdu) -> Option<FatalError> {
    match pdu {
        Pdu::H2CTermReq(request) | Pdu::C2HTermReq(request) => Some(request.error),
        _ => None,
    }
}
