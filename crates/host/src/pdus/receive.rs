//! Taking PDUs out of what has been received.

use std::time::Instant;

use l5p::HostEvent;
use l5p::pdus::{MAX_FRONT, PduProtocol};

use super::intake::{Counts, Intake, Stopped};
use super::{PduData, PduError, PduSink};
use crate::meter::Component;
use crate::stack::Stack;
use crate::tls::{Tls, parts};
use crate::{CloseReason, SocketError, SocketId};

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
