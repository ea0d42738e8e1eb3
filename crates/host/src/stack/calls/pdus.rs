//! PDUs on a socket.

use std::time::Instant;

use l5p::HostEvent;
use l5p::pdus::{MAX_FRONT, PduProtocol};
use nic::ring::Slice;

use crate::events::EventKinds;
use crate::layer5::Session as _;
use crate::meter::Component;
use crate::pdus::{
    Agreed, Frame, Framings, Intake, PduData, PduError, PduSink, PduStream, SendMark, Stopped,
    Unmapped, Unmapping,
};
use crate::stack::Stack;
use crate::tls::Tls;
use crate::{CloseReason, SocketError, SocketId};

const NO_PDUS: SocketError =
    SocketError::Unsupported("the socket carries no PDUs; call `start_pdus` first");

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
        socket.awaited.add(EventKinds::READABLE);
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
        let (position, index) =
            pdus.negotiated(agreed.framings, agreed.checks_digests, agreed.tags)?;
        let transport = &mut self.offload.transport;
        let device = &mut transport.device;
        let socket = transport.sockets.owned(id)?;
        let mut pdus = socket.pdus.take().ok_or(NO_PDUS)?;
        let (flow, start) = (socket.flow, socket.send.end());
        match socket.parts(now, device) {
            (Some(session), stream, mut out) => {
                if let Some(layers) = agreed.transmit {
                    session.transmit_inside(layers, &mut out);
                }
                if let Some(layers) = agreed.receive {
                    pdus.expect_resyncs(position, index);
                    let next = session.next_record(stream);
                    session.receive_inside(layers, next, &mut out);
                }
            }
            (None, _, _) => {
                let [transmit, receive] = pdus.contexts();
                if let Some(layers) = agreed.transmit
                    && transmit.is_none()
                {
                    pdus.begin_transmit(id, flow, start, layers, device);
                }
                if let Some(layers) = agreed.receive
                    && receive.is_none()
                {
                    pdus.begin_receive(id, flow, position, index, layers, device);
                }
            }
        }
        socket.pdus = Some(pdus);
        socket.awaited.add(EventKinds::READABLE);
        transport.schedule.mark_ready(id, socket);
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
        let before = self.switch(Component::L5);
        let checked = match data {
            PduData::Slices(slices) => slices
                .iter()
                .try_for_each(|slice| self.transport().device.driver.regions.check(*slice)),
            _ => Ok(()),
        };
        let sent = checked.and_then(|()| {
            let pdus = self.owned(id)?.pdus.as_ref().ok_or(NO_PDUS)?;
            let frame = Frame::of(pdu, pdus.outgoing::<P>()?);
            assert_eq!(
                data.len(),
                Some(frame.data_len()),
                "a PDU's data is as long as its header says"
            );
            self.write_with(id, false, |socket, device, _| {
                socket.write_pdu(now, &frame, data, device)
            })
        });
        self.switch(before);
        sent.map(|_| ())
    }

    /// Says where the data of PDUs goes that name `tag` (`l5o_add_rr_state`), before the command or R2T is sent that leads to them:
    /// data offset 0 is the first byte of `slices`, also where an R2T asks for a later part only.
    ///
    /// False when the NIC does not place for this connection, or has no room, or the tag is still being unmapped: software
    /// copies instead, and nothing is to be unmapped.
    pub fn map_buffer(&mut self, id: SocketId, tag: u16, slices: &[Slice]) -> bool {
        let transport = self.transport();
        let Some(socket) = transport.sockets.get_mut(id) else {
            return false;
        };
        match (socket.placing_context(), &mut socket.pdus) {
            (Some(context), Some(pdus)) => pdus.map(context, tag, slices, &mut transport.device),
            _ => false,
        }
    }

    /// Takes the buffer of a tag away from the NIC (`l5o_del_rr_state`). `None` when it was not mapped; else the memory is to be left
    /// alone, and the command's completion not to be reported, until [`poll_unmap`](Self::poll_unmap) says so. It must be
    /// done before the socket is [closed](Self::close).
    pub fn unmap_buffer(&mut self, id: SocketId, tag: u16) -> Option<Unmapping> {
        let transport = self.transport();
        let socket = transport.sockets.get_mut(id)?;
        let placing = socket.placing_context();
        let pdus = socket.pdus.as_mut()?;
        pdus.unmap(id, tag, placing, &mut transport.device)
    }

    /// Whether the NIC is done with a buffer. Once the answer is not [`Unmapped::Pending`], the question must not be asked
    /// again.
    pub fn poll_unmap(&mut self, unmapping: &Unmapping) -> Unmapped {
        let transport = self.transport();
        let device = &mut transport.device;
        if !unmapping.is_settled(&mut device.driver) {
            return Unmapped::Pending;
        }
        let socket = transport.sockets.get_mut(unmapping.socket());
        match socket.and_then(|socket| socket.pdus.as_mut()) {
            Some(pdus) => pdus.unmapped(unmapping, device),
            // What the stream would still have brought is not known when the socket is gone.
            None => Unmapped::Tainted,
        }
    }

    /// The place behind what has been queued on a socket so far. `None`: there is no such socket.
    pub fn send_mark(&self, id: SocketId) -> Option<SendMark> {
        let socket = self.offload.transport.sockets.get(id)?;
        Some(SendMark(socket.send.end()))
    }

    /// Whether the peer has acknowledged all that was queued before `mark`, so that memory sent in place may change again; also
    /// when there is no such socket any more. To be asked before 2 GiB more have been sent.
    pub fn is_acknowledged(&self, id: SocketId, mark: SendMark) -> bool {
        let socket = self.offload.transport.sockets.get(id);
        socket.is_none_or(|socket| socket.send.start().at_or_after(mark.0))
    }
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
        let before = self.switch(Component::L5);
        let result = self
            .take_pdus(now, id, sink)
            .and_then(|received| self.received_pdus::<P>(now, id, received));
        self.switch(before);
        result
    }

    fn take_pdus<P: PduProtocol>(
        &mut self,
        now: Instant,
        id: SocketId,
        sink: &mut dyn PduSink<P>,
    ) -> Result<Received<P::Error>, SocketError> {
        self.offload.promote_to_full_tcb(id);
        let transport = &mut self.offload.transport;
        let socket = transport.sockets.owned(id)?;
        let mut pdus = socket.pdus.take().ok_or(NO_PDUS)?;
        let (framed, receiving) = match pdus.receiving_parts::<P>() {
            Ok(parts) => parts,
            Err(error) => {
                socket.pdus = Some(pdus);
                return Err(error);
            }
        };
        let device = &mut transport.device;
        let mut intake = Intake::new(framed, receiving, sink);
        let (mut consumed, mut failed) = (0, None);
        match &socket.tls {
            Tls::None => {
                let regions = &mut device.driver.regions;
                consumed = intake.take(&mut socket.stream, u32::MAX, regions);
            }
            Tls::Handshake(_) => {}
            Tls::Open(_) => {
                if let (Some(session), stream, mut out) = socket.parts(now, device) {
                    failed =
                        session.read_with(stream, &mut consumed, &mut out, |stream, front, out| {
                            intake.take_content(stream, front, out)
                        });
                }
            }
        }
        intake.finish();
        let received = Received {
            ended: intake.ended,
            stopped: intake.stopped,
            failed,
        };
        intake.counts.add_to(P::ID, &mut device.counters);
        let around = socket.tls.session().and_then(|session| session.rx.context);
        if let Some(context) = pdus.contexts()[1].or(around) {
            pdus.answer_resyncs(context, &mut device.driver);
        }
        socket.pdus = Some(pdus);
        if consumed > 0 {
            socket.tcp.consumed(now, consumed);
            transport.schedule.mark_ready(id, socket);
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
                self.transport().reset(id, reason.clone());
                reason
            }
            (Some(Stopped::Terminated(error)), _) => {
                let reason = CloseReason::PeerRefusedPdu(PduError::of::<P>(error));
                self.transport().fail(now, id, reason.clone());
                reason
            }
            (None, Some(reason)) => {
                self.transport().fail(now, id, reason.clone());
                reason
            }
            (None, None) if received.ended > 0 => {
                if let Some(socket) = self.transport().sockets.get_mut(id) {
                    socket.awaited.add(EventKinds::READABLE);
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
        let transport = self.transport();
        let socket = transport.sockets.get_mut(id);
        if let Some(pdus) = socket.and_then(|socket| socket.pdus.as_mut())
            && let Ok((framed, _)) = pdus.receiving_parts::<P>()
        {
            let mut header = [0; MAX_FRONT];
            let refused = framed.reader.latest_header();
            header[..refused.len()].copy_from_slice(refused);
            let refusal = framed.outgoing.refusal(&error, refused);
            let refusal = refusal.map(|pdu| (pdu, framed.outgoing.layout_of(&pdu).data_len));
            pdus.count(HostEvent::RxRefused, &mut transport.device.counters);
            if let Some((pdu, shown)) = refusal {
                let data = PduData::Bytes(&header[..shown as usize]);
                // If there is no memory for it, the end of the connection must do.
                let _ = self.send_pdu::<P>(now, id, &pdu, data);
            }
        }
        self.transport().fail(now, id, reason.clone());
        reason
    }
}
