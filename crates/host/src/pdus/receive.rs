//! Taking PDUs out of what has been received.

use std::time::Instant;

use l5p::HostEvent;
use l5p::pdus::{DataDigest as Found, Event, MAX_FRONT, Next, PduProtocol, Reader};
use nic::ring::Slice;
use tcp::Chunk;

use super::stream::{Framed, Receiving};
use super::target::Kind;
use super::{DataDigest, PduData, PduError, PduSink};
use crate::driver::InUse;
use crate::layer5::Outgoing;
use crate::meter::Component;
use crate::socket::{Segment, Stream};
use crate::stack::Stack;
use crate::tls::{Front, Taken, Tls, parts};
use crate::{CloseReason, SocketError, SocketId};

/// Bytes between data that are taken at a time: what is before data is no longer.
const FRAME: usize = MAX_FRONT;

/// What the PDUs of one call go through.
struct Intake<'a, P: PduProtocol> {
    framed: &'a mut Framed<P>,
    receiving: &'a mut Receiving,
    sink: &'a mut dyn PduSink<P>,
    /// PDUs that have ended.
    ended: usize,
    counts: Counts,
    stopped: Option<Stopped<P::Error>>,
}

/// What is counted of them.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    /// Data whose digest was wrong.
    bad_digests: u64,
    /// Digests that the NIC has checked.
    by_nic: u64,
    /// Digests that software has checked.
    by_software: u64,
    /// Bytes of data that were in their place.
    placed: u64,
    /// Bytes of data that were copied there.
    copied: u64,
}

/// Why nothing more is taken.
#[derive(Clone, Copy, Debug)]
enum Stopped<E> {
    /// The peer has broken the protocol.
    Refused(E),
    /// The peer has ended the connection by a PDU.
    Terminated(E),
    /// Memory that data was placed in is not registered any more.
    MemoryGone,
}

/// How far one call got.
struct Received<E> {
    ended: usize,
    stopped: Option<Stopped<E>>,
    /// Why the protocol around the PDUs must end the connection.
    failed: Option<CloseReason>,
}

impl Stack {
    /// Takes in all that has come: gives each header to `sink`, each PDU's data to where `sink` says, and each end to `sink`. Answers how
    /// many PDUs have ended; more come only after a [`Readable`](crate::Event::Readable) event.
    ///
    /// # Errors
    /// [`SocketError::Closed`] at the end of the stream. When the peer breaks the protocol, or `sink` says so, it has been
    /// told if the protocol has a PDU for that.
    pub fn receive_pdus<P: PduProtocol>(
        &mut self,
        now: Instant,
        id: SocketId,
        sink: &mut dyn PduSink<P>,
    ) -> Result<usize, SocketError> {
        let before = self.core.meter.switch(Component::L5);
        let result = self
            .take_pdus(now, id, sink)
            .and_then(|received| self.received_pdus::<P>(now, id, received));
        self.core.meter.switch(before);
        result
    }

    fn take_pdus<P: PduProtocol>(
        &mut self,
        now: Instant,
        id: SocketId,
        sink: &mut dyn PduSink<P>,
    ) -> Result<Received<P::Error>, SocketError> {
        let socket = self.owned(id)?;
        let mut pdus = socket.pdus.take().ok_or(NO_PDUS)?;
        let Some(socket) = self.sockets.get_mut(id) else {
            return Err(SocketError::NotFound);
        };
        let (framed, receiving) = match pdus.receiving_parts::<P>() {
            Ok(parts) => parts,
            Err(error) => {
                socket.pdus = Some(pdus);
                return Err(error);
            }
        };
        let mut intake = Intake {
            framed,
            receiving,
            sink,
            ended: 0,
            counts: Counts::default(),
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
        let received = Received {
            ended: intake.ended,
            stopped: intake.stopped,
            failed,
        };
        let counts = intake.counts;
        let counters = &mut self.core.counters.protocols;
        for (event, count) in [
            (HostEvent::RxFailed, counts.bad_digests),
            (HostEvent::RxChecksByNic, counts.by_nic),
            (HostEvent::RxChecksBySoftware, counts.by_software),
            (HostEvent::RxBytesPlaced, counts.placed),
            (HostEvent::RxBytesCopied, counts.copied),
        ] {
            counters.add(P::ID, event, count);
        }
        let around = socket.tls.session().and_then(|session| session.receive);
        if let Some(context) = pdus.receiving.context.or(around) {
            pdus.answer_resyncs(context, &mut self.core.driver);
        }
        socket.pdus = Some(pdus);
        if consumed > 0 {
            socket.tcp.consumed(now, consumed);
            self.core.mark_ready(id, socket);
        }
        Ok(received)
    }

    /// Ends the connection if that must be; answers how many PDUs have ended.
    fn received_pdus<P: PduProtocol>(
        &mut self,
        now: Instant,
        id: SocketId,
        received: Received<P::Error>,
    ) -> Result<usize, SocketError> {
        let reason = match (received.stopped, received.failed) {
            (Some(Stopped::Refused(error)), _) => self.refuse_pdu::<P>(now, id, error),
            (Some(Stopped::MemoryGone), _) => {
                let reason = CloseReason::Device(
                    "memory that received data was placed in is not registered any more".into(),
                );
                self.reset(id, reason.clone());
                reason
            }
            (Some(Stopped::Terminated(error)), _) => {
                let reason = CloseReason::PeerRefusedPdu(PduError::of::<P>(error));
                self.fail(now, id, reason.clone());
                reason
            }
            (None, Some(reason)) => {
                self.fail(now, id, reason.clone());
                reason
            }
            (None, None) if received.ended > 0 => {
                if let Some(socket) = self.sockets.get_mut(id) {
                    socket.wants_read = true;
                }
                return Ok(received.ended);
            }
            (None, None) => return self.no_pdus(id),
        };
        Err(SocketError::Closed(reason))
    }

    /// What is said when no PDU has ended.
    fn no_pdus(&mut self, id: SocketId) -> Result<usize, SocketError> {
        match self.owned(id)?.nothing_to_read() {
            Ok(_) => Err(SocketError::Closed(CloseReason::Graceful)),
            Err(SocketError::WouldBlock) => Ok(0),
            Err(error) => Err(error),
        }
    }

    /// Tells the peer what is wrong with its PDU, if the protocol has a PDU for that, and ends the connection.
    fn refuse_pdu<P: PduProtocol>(
        &mut self,
        now: Instant,
        id: SocketId,
        error: P::Error,
    ) -> CloseReason {
        let reason = CloseReason::Pdu(PduError::of::<P>(error.clone()));
        let socket = self.sockets.get_mut(id);
        if let Some(pdus) = socket.and_then(|socket| socket.pdus.as_mut())
            && let Ok((framed, _)) = pdus.receiving_parts::<P>()
        {
            let mut header = [0; MAX_FRONT];
            let refused = framed.reader.latest_header();
            header[..refused.len()].copy_from_slice(refused);
            let refusal = framed.outgoing.refusal(&error, refused);
            let refusal = refusal.map(|pdu| (pdu, framed.outgoing.layout_of(&pdu).data_len));
            pdus.count(HostEvent::RxRefused, &mut self.core.counters);
            if let Some((pdu, shown)) = refusal {
                let data = PduData::Bytes(&header[..shown as usize]);
                // If there is no memory for it, the end of the connection must do.
                let _ = self.send_pdu::<P>(now, id, &pdu, data);
            }
        }
        self.fail(now, id, reason.clone());
        reason
    }
}

pub(super) const NO_PDUS: SocketError =
    SocketError::Unsupported("the socket carries no PDUs; call `start_pdus` first");

impl<P: PduProtocol> Intake<'_, P> {
    /// Takes the content of a record.
    fn take_content(&mut self, stream: &mut Stream, front: Front, out: &mut Outgoing<'_>) -> Taken {
        if let Some(record) = front.record {
            let (position, _) = self.framed.reader.position();
            self.receiving
                .resync
                .note_record(record, position, front.content);
        }
        let len = self.take(stream, front.content, &mut out.driver.regions);
        Taken {
            len,
            inside_message: !self.framed.reader.is_at_boundary(),
        }
    }

    /// Takes up to `most` bytes from the front of the stream; answers how many.
    fn take(&mut self, stream: &mut Stream, most: u32, regions: &mut InUse) -> u32 {
        let mut taken = 0;
        while taken < most
            && self.stopped.is_none()
            && let Some(segment) = stream.front()
        {
            let checked = segment.marks.checked && self.receiving.checks_digests;
            let most = most - taken;
            let (len, event) = match self.framed.reader.next() {
                Next::Frame => {
                    // Placed where the NIC has taken for data what is none: it has lost its way.
                    let Some(bytes) = segment.input(regions) else {
                        self.stopped = Some(Stopped::MemoryGone);
                        break;
                    };
                    let most = bytes.len().min(most as usize).min(FRAME);
                    let (bytes, _) = bytes.split_at(most);
                    let reader = &mut self.framed.reader;
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
    ) -> Option<(u32, Option<Event<P::Pdu>>)> {
        let (reader, target) = (&mut self.framed.reader, &mut self.receiving.target);
        if target.kind() == Kind::Slices
            && let Some(room) = target.room(most)
        {
            if let Some(placed) = segment.as_placed() {
                let slice = placed.slice();
                if slice.region == room.region && slice.offset == room.offset {
                    // Source and destination are the same: the copy is skipped (NVMeTCP offload, "The Driver SKB Build").
                    target.fill(room.len);
                    self.receiving.tags.taken(placed.tag, room.len);
                    self.counts.placed += u64::from(room.len);
                    return Some((room.len, reader.pass(room.len, checked)));
                }
                let (len, event) = copy_elsewhere(reader, slice, room, regions)?;
                target.fill(len);
                return Some((len, event));
            }
            target.fill(room.len);
            if !self.receiving.strays.is_empty() {
                self.receiving.strays.heal(room);
            }
            self.counts.copied += u64::from(room.len);
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

    fn act(&mut self, event: Event<P::Pdu>, regions: &InUse) -> Result<(), Stopped<P::Error>> {
        match event {
            Event::Header(pdu) => {
                let header = self.framed.reader.latest();
                self.receiving
                    .resync
                    .note_pdu(header.start, header.len, header.index);
                let data_len = self.framed.reader.data_len();
                let destination = self.sink.header(&pdu).map_err(Stopped::Refused)?;
                if data_len == 0 {
                    self.ended += 1;
                    let terminated = P::termination(&pdu).map(Stopped::Terminated);
                    return terminated.map_or(Ok(()), Err);
                }
                self.framed.terminated = P::termination(&pdu);
                if !self.receiving.target.begin(destination, data_len) {
                    return Err(Stopped::Refused(P::no_room(&pdu)));
                }
            }
            Event::End(found) => {
                let digest = self.judge(found, regions);
                self.counts.bad_digests += u64::from(digest == DataDigest::Bad);
                match self.framed.reader.digest_was_vouched() {
                    Some(true) => self.counts.by_nic += 1,
                    Some(false) => self.counts.by_software += 1,
                    None => {}
                }
                self.ended += 1;
                let ended = self.sink.end(digest, &self.receiving.target.inline);
                ended.map_err(Stopped::Refused)?;
                if let Some(error) = self.framed.terminated.take() {
                    return Err(Stopped::Terminated(error));
                }
            }
        }
        Ok(())
    }

    /// Digests what is to be digested where it lies now.
    fn judge(&mut self, found: Found, regions: &InUse) -> DataDigest {
        let (reader, target) = (&mut self.framed.reader, &self.receiving.target);
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
fn copy_elsewhere<P: PduProtocol>(
    reader: &mut Reader<P>,
    from: Slice,
    to: Slice,
    regions: &mut InUse,
) -> Option<(u32, Option<Event<P::Pdu>>)> {
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
