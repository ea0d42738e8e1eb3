//! Taking PDUs out of what has been received.

use std::time::Instant;

use l5p::nvme::{DataDigest as Found, Event, Next};
use wire::nvme::{FatalError, FatalErrorStatus, Pdu, Role, TermReq};

use super::stream::Kind;
use super::{DataDigest, PduData, PduSink, PduStream};
use crate::driver::InUse;
use crate::meter::Component;
use crate::serve::parts;
use crate::socket::Stream;
use crate::stack::Stack;
use crate::tls::Tls;
use crate::{CloseReason, SocketError, SocketId};

/// What the PDUs of one call go through.
struct Intake<'a> {
    pdus: &'a mut PduStream,
    sink: &'a mut dyn PduSink,
    /// PDUs that have ended.
    ended: usize,
    /// Data whose digest was wrong.
    bad_digests: u64,
    stopped: Option<Stopped>,
}

/// Why nothing more is taken.
#[derive(Clone, Copy, Debug)]
enum Stopped {
    /// The peer has broken the protocol.
    Refused(FatalError),
    /// The peer has ended the connection by a TermReq.
    Terminated(FatalError),
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
                        session.read_with(stream, &mut consumed, &mut out, |stream, most, out| {
                            intake.take(stream, most, &mut out.driver.regions)
                        });
                }
            }
        }
        let (ended, stopped) = (intake.ended, intake.stopped);
        self.core.counters.nvme_digest_errors += intake.bad_digests;
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

    /// Tells the peer what is wrong with its PDU, and ends the connection (NVMe/TCP 1.0 §3.5.1).
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
        // If there is no memory for it, the end of the connection must do.
        let _ = self.send_pdu(now, id, &pdu, PduData::Bytes(header));
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
    /// Takes up to `most` bytes from the front of the stream; answers how many.
    fn take(&mut self, stream: &mut Stream, most: u32, regions: &mut InUse) -> u32 {
        let mut taken = 0;
        while taken < most
            && self.stopped.is_none()
            && let Some(segment) = stream.front()
        {
            let bytes = &segment.buffer[..];
            let bytes = &bytes[..bytes.len().min((most - taken) as usize)];
            let (len, event) = match self.pdus.reader.next() {
                Next::Frame => match self.pdus.reader.take(bytes, false) {
                    Ok((len, event)) => (len as u32, event),
                    Err(error) => {
                        self.stopped = Some(Stopped::Refused(error));
                        break;
                    }
                },
                Next::Data(range) => self.take_data(bytes, range.end - range.start, regions),
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

    /// Brings data to where it belongs, as far as that is in one place; answers how many bytes.
    #[inline]
    fn take_data(&mut self, bytes: &[u8], left: u32, regions: &mut InUse) -> (u32, Option<Event>) {
        let most = left.min(bytes.len() as u32);
        let (reader, target) = (&mut self.pdus.reader, &mut self.pdus.target);
        match target.kind() {
            Kind::Slices => {
                let room = target.room(most);
                let len = room.map_or(most, |room| room.len);
                let bytes = &bytes[..len as usize];
                target.fill(len);
                let event = match room.and_then(|room| regions.bytes_mut(room)) {
                    Some(to) => reader.copy(bytes, to, false),
                    None => reader.discard(bytes),
                };
                (len, event)
            }
            Kind::Inline => {
                let bytes = &bytes[..most as usize];
                let start = target.inline.len();
                target.inline.resize(start + bytes.len(), 0);
                let event = reader.copy(bytes, &mut target.inline[start..], false);
                (most, event)
            }
            Kind::Discard => (most, reader.discard(&bytes[..most as usize])),
        }
    }

    fn act(&mut self, event: Event, regions: &InUse) -> Result<(), Stopped> {
        match event {
            Event::Header(pdu) => {
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
                        let Some(bytes) = regions.bytes(slice) else {
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

/// What a TermReq says.
fn terminated(pdu: &Pdu) -> Option<FatalError> {
    match pdu {
        Pdu::H2CTermReq(request) | Pdu::C2HTermReq(request) => Some(request.error),
        _ => None,
    }
}
