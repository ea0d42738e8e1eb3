//! PDUs out of what lies at the front of a stream.

use l5p::pdus::{DataDigest as Found, Event, MAX_FRONT, Next, PduProtocol, Reader};
use l5p::{HostEvent, ProtocolId};
use nic::ring::Slice;
use tcp::Chunk;

use super::stream::{Framed, Receiving};
use super::target::Kind;
use super::{DataDigest, PduSink};
use crate::counters::Counters;
use crate::driver::InUse;
use crate::layer5::Outgoing;
use crate::stream::{Segment, Stream};
use crate::tls::{Front, Taken};

/// Bytes between data that are taken at a time: what is before data is no longer.
const FRAME: usize = MAX_FRONT;

/// What the PDUs of one call go through.
pub(crate) struct Intake<'a, P: PduProtocol> {
    pub framed: &'a mut Framed<P>,
    pub receiving: &'a mut Receiving,
    pub sink: &'a mut dyn PduSink<P>,
    /// PDUs that have ended.
    pub ended: usize,
    /// Data was taken of the PDU in progress.
    has_part: bool,
    pub counts: Counts,
    pub stopped: Option<Stopped<P::Error>>,
}

/// What is counted of them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    /// Data whose digest was wrong.
    pub bad_digests: u64,
    /// Digests that the NIC has checked.
    pub by_nic: u64,
    /// Digests that software has checked.
    pub by_software: u64,
    /// Bytes of data that were in their place.
    pub placed: u64,
    /// Bytes of data that were copied there.
    pub copied: u64,
}

/// Why nothing more is taken.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Stopped<E> {
    /// The peer has broken the protocol.
    Refused(E),
    /// The peer has ended the connection by a PDU.
    Terminated(E),
    /// Memory that data was placed in is not registered any more.
    MemoryGone,
}

impl Counts {
    /// Adds them to the protocol's counters.
    pub fn add_to(&self, protocol: ProtocolId, counters: &mut Counters) {
        for (event, count) in [
            (HostEvent::RxFailed, self.bad_digests),
            (HostEvent::RxChecksByNic, self.by_nic),
            (HostEvent::RxChecksBySoftware, self.by_software),
            (HostEvent::RxBytesPlaced, self.placed),
            (HostEvent::RxBytesCopied, self.copied),
        ] {
            counters.protocols.add(protocol, event, count);
        }
    }
}

impl<'a, P: PduProtocol> Intake<'a, P> {
    pub fn new(
        framed: &'a mut Framed<P>,
        receiving: &'a mut Receiving,
        sink: &'a mut dyn PduSink<P>,
    ) -> Self {
        Self {
            framed,
            receiving,
            sink,
            ended: 0,
            has_part: false,
            counts: Counts::default(),
            stopped: None,
        }
    }

    /// Nothing more is taken by this call.
    pub fn finish(&mut self) {
        if self.has_part && self.stopped.is_none() {
            self.sink.part();
        }
    }

    /// Takes the content of a record.
    pub fn take_content(
        &mut self,
        stream: &mut Stream,
        front: Front,
        out: &mut Outgoing<'_>,
    ) -> Taken {
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
    pub fn take(&mut self, stream: &mut Stream, most: u32, regions: &mut InUse) -> u32 {
        let mut taken = 0;
        while taken < most
            && self.stopped.is_none()
            && let Some(segment) = stream.front()
        {
            let checked = segment.status.checked && self.receiving.checks_digests;
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
                        Some(taken) => {
                            self.has_part = true;
                            taken
                        }
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
        self.has_part = false;
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
